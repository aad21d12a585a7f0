/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hosts that a configuration names ("host[:port],..."), as addresses: read, and read anew, as
 * what a name means may change.
 */
#ifndef RIPC_PEERS_H
#define RIPC_PEERS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"

#define PEERS_MAX RIPC_PEERS_MAX

struct peers {
	struct sockaddr_in addresses[PEERS_MAX]; /* port 0: a free place */
	uint32_t n, n_places; /* addresses; places that are taken, and free ones between them */
	bool has_names;       /* of entries that are no addresses */
	bool is_silent;       /* the name service does not answer for one of them */
	char why_not[160];    /* an entry that cannot be used, in words; "" if all can */
};

/*
 * Reads a list. For names the name service is asked, which may take long. A name that has no
 * address now is left out, and why_not names it: hosts come and go, and so do their names. -EINVAL:
 * an entry cannot be understood, or there are more than PEERS_MAX, as why_not says; -ENOMEM.
 */
int ripc__peers_read(const char *text, in_port_t port, struct peers *peers);
/* Takes over what a newer reading has found. An address that is still there keeps its place. */
void ripc__peers_update(struct peers *peers, const struct peers *newer);

/* A reading by a thread of its own, since the name service may keep it waiting. */
struct renewal;

/* fd, an eventfd, becomes readable at its end. NULL: there is no thread, or no memory. */
struct renewal *ripc__renewal_begin(const char *text, in_port_t port, int fd);
/* False: it is not done yet. Else it is freed, and newer and error are what came of it. */
bool ripc__renewal_take(struct renewal *renewal, struct peers *newer, int *error);
/* Nobody wants it any more. It does not keep the caller waiting. */
void ripc__renewal_leave(struct renewal *renewal);

#endif
