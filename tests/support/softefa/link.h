/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair's connection with all its partners: its socket (wire.h), and a ring in shared
 * memory to each partner that it sends to. The sender makes the ring and hands it over by the
 * socket; from then on no system call is needed between two programs that poll.
 *
 * Messages from one queue pair to another keep their order. Calls are made with softefa_lock held.
 */
#ifndef SOFTEFA_LINK_H
#define SOFTEFA_LINK_H

#include <sys/queue.h>

#include "wire.h"

struct softefa_ring;

struct softefa_link {
	const char *fabric;
	int fd;
	TAILQ_HEAD(softefa_rings, softefa_ring) out, in;
	uint32_t n_in, n_receives;
	struct softefa_ring *held; /* its first message is being read by the caller */
	uint8_t *datagram;	   /* a datagram received by the socket */
	uint64_t random;	   /* for the names of rings */
	uint32_t life;		   /* tells processes apart that have had one name */
};

/* Makes the socket. Returns 0, -EADDRINUSE and others. */
int softefa_link_open(struct softefa_link *link, const char *fabric,
	const struct softefa_peer *self);
void softefa_link_close(struct softefa_link *link);

/* In the child of a fork: what is shared with its parent is given up. */
void softefa_link_forget(struct softefa_link *link);

/* Never blocks. Returns 0, -EAGAIN (the partner's queue is full), -ECONNREFUSED (there is no such
 * queue pair) and others. Only a probe is sure to find out that a partner is gone. */
int softefa_link_send(struct softefa_link *link, const struct softefa_peer *to,
	struct softefa_header *header, const struct iovec *parts, int n_parts);

/*
 * Never blocks. Returns the payload's length, -EAGAIN (nothing there), -EBADMSG (something was
 * thrown away) or -ENOLINK (what went to "from" and was not answered has reached nobody, as another
 * process has that name now). The payload is valid until the next call, and may change meanwhile if
 * the sender is hostile. With "all" the socket is looked at as well, else only now and then.
 */
int softefa_link_receive(struct softefa_link *link, struct softefa_peer *from,
	struct softefa_header *header, const uint8_t **payload, bool all);

/* Partners are to ring when they send; false if something has come already. */
bool softefa_link_sleep(struct softefa_link *link);

#endif
