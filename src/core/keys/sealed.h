/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network whose datagrams are sealed: a backend around another one (net/backend.h), which a
 * context with keys opens in place of that. So the rest of the core knows of keys what this
 * header says, and no datagram that was not authentic comes as far as there.
 *
 * An address of it is that of the inner network and the number of a member (member.h): where a
 * datagram came from says with whose keys it was sealed.
 */
#ifndef RIPC_SEALED_H
#define RIPC_SEALED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"

struct ripc_context;
struct seal;

#define SEALED_ID    128u /* is added to the number of the inner backend */
#define SEALED_BYTES 32u  /* by which a datagram is longer than what it seals */

/*
 * Reads the directory ctx->cfg.keys, and loads cryptography. 0: ctx->seal is there. Errors are
 * logged: -ENODEV (no cryptography), -ENOENT, -EACCES, -EINVAL, -ENOMEM.
 */
int ripc__seal_open(struct ripc_context *ctx);
void ripc__seal_close(struct ripc_context *ctx); /* after the devices; without keys harmless */
/* The sealed network around a backend; NULL: that cannot be. One of a context. */
const struct ripc__backend *ripc__sealed(struct ripc_context *ctx,
		const struct ripc__backend *inner);

/* Of a record: the address proof that came with an address, for the handshake. */
void ripc__sealed_proof(struct seal *seal, const struct ripc__addr *addr, uint64_t proof);
/* Can the route be sent by? 0; -EINPROGRESS: soon, or RIPC_EV_PEER says why not; or why not. */
int ripc__sealed_open(struct seal *seal, void *route);
/* Does the route lead to the member that this came from, wherever it was? */
bool ripc__sealed_same(const void *route, const struct ripc__addr *from);
/* May whoever this came from be from, of that context, and send to to? Else it is said. */
bool ripc__sealed_lets_in(struct seal *seal, const struct ripc__addr *from_addr, uint64_t context,
		uint64_t from, uint64_t to);
/* May we send as from to the service to, there? Else it is said: -EACCES. */
int ripc__sealed_lets_out(struct seal *seal, const void *route, uint64_t from, uint64_t to);
/* The same of a partner there that we know already, whichever of the two wrote first. */
int ripc__sealed_fits(struct seal *seal, const void *route, uint64_t own, uint64_t other);
/* A private ID that belongs to our key, made of a random number. */
uint64_t ripc__sealed_private(const struct seal *seal, uint64_t random);

/* Says that there is somebody with keys, where we have none, or without, where we have. */
void ripc__sealed_stranger(struct ripc_context *ctx, uint64_t id, const uint8_t host[16],
		bool asks);
/* A resolver's datagram gets a mark of SEALED_MARK bytes behind it; that is right, or is not. */
#define SEALED_MARK 16u
void ripc__sealed_mark(struct seal *seal, uint8_t *bytes, size_t len);
bool ripc__sealed_mark_is_right(struct seal *seal, const uint8_t *bytes, size_t len);

#endif
