/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sealed networks: a backend (net/backend.h) around an inner backend, which seals all datagrams.
 * A context with keys opens a sealed network in place of each inner one. All of them share one set
 * of sessions. The rest of the core knows only this header of keys, and gets only authentic
 * datagrams.
 *
 * An address of the sealed network is an address of the inner network and the name of a member
 * (internal.h): the sender address of a datagram shows whose keys sealed the datagram.
 */
#ifndef RIPC_SEALED_H
#define RIPC_SEALED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"

struct ripc_context;
struct seal;

#define SEALED_ID    128u /* added to the number of the inner backend */
#define SEALED_BYTES 32u  /* bytes that sealing adds to a datagram */

/*
 * Reads the directory ctx->cfg.keys, and loads cryptography. 0: ctx->seal is there. Errors are
 * logged: -ENODEV (no cryptography), -ENOENT, -EACCES, -EINVAL, -ENOMEM.
 */
int ripc__seal_open(struct ripc_context *ctx);
struct key_dir;
/*
 * Uses the new contents of the directory (dir.h), which a context reads again once a minute
 * (core/events.h). -ENOENT, -ENOMEM: all is as before, and why (KEY_WHY bytes) has a sentence.
 */
int ripc__seal_renew(struct ripc_context *ctx, struct key_dir *found, char *why);
void ripc__seal_close(struct ripc_context *ctx); /* after the devices; without keys harmless */
/* A sealed network around a backend, to be opened next. NULL: the backend is unfit. */
const struct ripc__backend *ripc__sealed(struct ripc_context *ctx,
		const struct ripc__backend *inner);

/* A record had this address token with the address: the token is kept for the handshake. */
void ripc__sealed_proof(struct seal *seal, const struct ripc__addr *addr, uint64_t proof);
/* 0: the route can send datagrams; -EINPROGRESS: RIPC_EV_PEER will report; or another errno. */
int ripc__sealed_open(void *port, void *route);
/* An address of a sealed network in words, for people. */
void ripc__sealed_text(const void *port, const struct ripc__addr *addr, char text[64]);
/* Does a context with keys use reads and writes of this network (docs/security.md)? */
bool ripc__sealed_trusts(const struct ripc__host *host, const struct ripc__backend *inner);
/* Does the route lead to the member that sent from this address, wherever the member is? */
bool ripc__sealed_same(const void *route, const struct ripc__addr *from);
/* May the member at from_addr, as context, be service from and send to to? If not, logs it. */
bool ripc__sealed_lets_in(struct seal *seal, const struct ripc__addr *from_addr, uint64_t context,
		uint64_t from, uint64_t to);
/* 0: we may send as service from to service to by this route; else -EACCES and a log line. */
int ripc__sealed_lets_out(struct seal *seal, const void *route, uint64_t from, uint64_t to);
enum sealed_right {
	SEALED_IS = 1,    /* the member may be service other */
	SEALED_COMES = 2, /* and send to our service own */
	SEALED_GOES = 4,  /* our key may be own and send to other, and the member may be other */
	SEALED_STALE = 8, /* our directory has changed: our rights have yet to be shown there */
};
/*
 * The rights between our service own and service other of the member that the route leads to, now:
 * a set of enum sealed_right. -EAGAIN: the member has yet to show its rights.
 */
int ripc__sealed_rights(struct seal *seal, const void *route, uint64_t own, uint64_t other);
/* The member has refused a packet of ours. */
void ripc__sealed_refused(const void *route);
/* Did we begin to seal with the current session within within_us? Precise to a millisecond. */
bool ripc__sealed_changed(const struct seal *seal, const void *route, uint64_t within_us);
/* Logs that a member sends as service from to our service to without the right. */
void ripc__sealed_say_denied(struct seal *seal, const void *route, uint64_t from, uint64_t to);
/*
 * A send to the member lacked a right since the last handshake. Begins a new handshake, in which
 * both ends show the rights that they have now. None begins if the last one was within REFUSED_MS,
 * and was either not answered, or nothing has changed here since. True: a handshake is in progress.
 */
bool ripc__sealed_renew(void *port, void *route);
/* May the member that the route leads to be service from, and send to this group? */
bool ripc__sealed_lets_send(const struct seal *seal, const void *route, uint64_t from,
		uint64_t group);
/* May our key be this service, or in this group? */
bool ripc__sealed_may_be(const struct seal *seal, uint64_t id);
/* A service is registered here: logs a line if our key lacks the right. */
void ripc__sealed_registers(struct seal *seal, uint64_t id);
/* Makes a private ID that belongs to our key from a random number. */
uint64_t ripc__sealed_private(const struct seal *seal, uint64_t random);

/* Logs that another context has keys and we have none, or that we have keys and it has none. */
void ripc__sealed_stranger(struct ripc_context *ctx, uint64_t id, const uint8_t host[16],
		bool asks);
/* Appends a mark of SEALED_MARK bytes to a resolver's datagram; checks the mark. */
#define SEALED_MARK 16u
void ripc__sealed_mark(struct seal *seal, uint8_t *bytes, size_t len);
bool ripc__sealed_mark_is_right(struct seal *seal, const uint8_t *bytes, size_t len);

#endif
