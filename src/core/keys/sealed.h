/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sealed networks: a backend (net/backend.h) around an inner backend, which seals all datagrams.
 * A context with keys opens a sealed network in place of each inner one; all have one set of
 * sessions. So the rest of the core
 * knows only this header of keys, and gets only authentic datagrams.
 *
 * An address of the sealed network is an address of the inner network and the name of a member
 * (internal.h): the address of a datagram's sender tells whose keys sealed the datagram.
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
 * Uses what has been read from the directory (dir.h) again; once a minute a context asks for that
 * (core/events.h). -ENOENT, -ENOMEM: all is as before, and why (KEY_WHY bytes) has a sentence.
 */
int ripc__seal_renew(struct ripc_context *ctx, struct key_dir *found, char *why);
void ripc__seal_close(struct ripc_context *ctx); /* after the devices; without keys harmless */
/* A sealed network around a backend, to be opened next. NULL: the backend is unfit. */
const struct ripc__backend *ripc__sealed(struct ripc_context *ctx,
		const struct ripc__backend *inner);

/* A record had this address proof with the address: it is kept for the handshake. */
void ripc__sealed_proof(struct seal *seal, const struct ripc__addr *addr, uint64_t proof);
/* Can datagrams go by the route? 0: yes; -EINPROGRESS: RIPC_EV_PEER will tell; else why not. */
int ripc__sealed_open(void *port, void *route);
/* An address of a sealed network in words, for people. */
void ripc__sealed_text(const void *port, const struct ripc__addr *addr, char text[64]);
/* Are reads and writes of this network used by a context with keys (docs/security.md)? */
bool ripc__sealed_trusts(const struct ripc__host *host, const struct ripc__backend *inner);
/* Does the route lead to the member that sent from this address, wherever the member is? */
bool ripc__sealed_same(const void *route, const struct ripc__addr *from);
/* May the member at from_addr, as context, be service from and send to to? Else a log line. */
bool ripc__sealed_lets_in(struct seal *seal, const struct ripc__addr *from_addr, uint64_t context,
		uint64_t from, uint64_t to);
/* May we send as service from to the service to, by this route? Else -EACCES and a log line. */
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
/* The member has refused what we sent to it. */
void ripc__sealed_refused(const void *route);
/* Did we begin to seal with the present session within the last so many us? To a millisecond. */
bool ripc__sealed_changed(const struct seal *seal, const void *route, uint64_t within_us);
/* The log speaks of a member that sends as service from to our service to and may not. */
void ripc__sealed_say_denied(struct seal *seal, const void *route, uint64_t from, uint64_t to);
/*
 * A send to the member lacked a right since the last handshake. In a new handshake both ends show
 * the rights that they have now. It begins, unless the last one was within REFUSED_MS and either
 * was not answered, or nothing has changed here since. True: it is on its way.
 */
bool ripc__sealed_renew(void *port, void *route);
/* May the member that the route leads to be service from, and send to this group? */
bool ripc__sealed_lets_send(const struct seal *seal, const void *route, uint64_t from,
		uint64_t group);
/* May our key be this service, or in this group? */
bool ripc__sealed_may_be(const struct seal *seal, uint64_t id);
/* A service is registered here: if our key may not be it, a log line says so. */
void ripc__sealed_registers(struct seal *seal, uint64_t id);
/* Makes a private ID that belongs to our key from a random number. */
uint64_t ripc__sealed_private(const struct seal *seal, uint64_t random);

/* Logs that another context has keys and we have none, or that we have keys and it has none. */
void ripc__sealed_stranger(struct ripc_context *ctx, uint64_t id, const uint8_t host[16],
		bool asks);
/* A mark of SEALED_MARK bytes is put behind a resolver's datagram; is the mark right? */
#define SEALED_MARK 16u
void ripc__sealed_mark(struct seal *seal, uint8_t *bytes, size_t len);
bool ripc__sealed_mark_is_right(struct seal *seal, const uint8_t *bytes, size_t len);

#endif
