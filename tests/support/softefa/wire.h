/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The traffic between the queue pairs of a host: datagrams of abstract local sockets, one socket
 * per queue pair, named by its GID and number. The kernel vouches for the name of the sender, and a
 * socket's name ends with its process. Datagrams between two sockets keep their order; shuffling is
 * done before them (launch.c).
 */
#ifndef SOFTEFA_WIRE_H
#define SOFTEFA_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define SOFTEFA_GID_LEN	   16
#define SOFTEFA_FABRIC_MAX 32
#define SOFTEFA_CHUNK	   65536 /* bytes of an RDMA read in one datagram */
#define SOFTEFA_ACKS_MAX   64	 /* in one datagram */

struct softefa_peer {
	uint8_t gid[SOFTEFA_GID_LEN];
	uint32_t qpn;
};

enum softefa_kind {
	SOFTEFA_SEND = 1, /* over SRD: is acknowledged */
	SOFTEFA_UD_SEND,
	SOFTEFA_READ,  /* asks for length bytes at address, by key */
	SOFTEFA_DATA,  /* answers it: the bytes from offset "address" */
	SOFTEFA_ACK,   /* carries entries */
	SOFTEFA_PROBE, /* whether the work request is still known there: if not, it is aborted */
	SOFTEFA_HELLO, SOFTEFA_BELL, SOFTEFA_NO_RING, /* between links: link.c */
};

/* A work request at its sender. Each attempt at it has its own answer. */
struct softefa_name {
	uint32_t slot, psn, attempt;
};

struct softefa_header {
	uint32_t magic;
	uint8_t kind, has_imm, zero[2];
	struct softefa_name name;
	uint32_t qkey, imm, key, length;
	uint32_t unused;
	uint64_t address;
};

struct softefa_ack_entry {
	struct softefa_name name;
	uint32_t status;
};

bool softefa_peer_same(const struct softefa_peer *a, const struct softefa_peer *b);

/* Makes the socket of a queue pair. Returns its descriptor, or -EADDRINUSE and others. */
int softefa_wire_open(const char *fabric, const struct softefa_peer *self);

/* Never blocks. Returns 0, -EAGAIN (the partner's queue is full), -ECONNREFUSED (there is no such
 * queue pair), -EFAULT (memory that is not there) and others. At most 7 parts. */
int softefa_wire_send(const char *fabric, int fd, const struct softefa_peer *to,
	struct softefa_header *header, const struct iovec *parts, int n_parts);

/* The same without parts, but with a descriptor, unless it is -1. The caller keeps its own. */
int softefa_wire_pass(const char *fabric, int fd, const struct softefa_peer *to,
	struct softefa_header *header, int passed_fd);

/* Never blocks. Returns the payload's length, -EAGAIN (nothing there) or -EBADMSG (something that
 * is not ours was thrown away). The header is checked as to its form alone. The descriptor that
 * came with it, if any, else -1, is the caller's, whatever is returned. */
int softefa_wire_receive(const char *fabric, int fd, struct softefa_peer *from,
	struct softefa_header *header, struct iovec *payload, int *passed_fd);

#endif
