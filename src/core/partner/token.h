/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a packet's partner is found: by the token that we gave the partner, by the incarnation that
 * the sender claims, or by a token that an answer returns. The upper 16 bits of a token are the
 * number of a slot; the lower 48 bits are random, not all zero.
 */
#ifndef RIPC_TOKEN_H
#define RIPC_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/objects.h"
#include "core/wire/wire.h"
#include "partner.h"

#define TOKEN_SLOT_SHIFT 48
#define TOKEN_NONCE_MASK ((1ull << TOKEN_SLOT_SHIFT) - 1)

/* Gives the partner its token_in; takes it back: packets with that token count no more. */
int ripc__token_give(struct partner *partner);
void ripc__token_take_back(struct partner *partner);
/*
 * Gives the partner its handle (find.h), or another one: those that the application has of it name
 * nobody from now on.
 */
void ripc__handle_draw(struct partner *partner);
/*
 * The partner to which we sent the packet that is answered. token_in, token_out: tokens of that
 * packet; 0: the answer does not have it.
 */
struct partner *ripc__partner_by_echo(struct ripc_context *ctx, const struct wire_header *h,
		uint64_t token_in, uint64_t token_out);
/* One of the partners that claim an incarnation (claim.c), from place 0 on; NULL: no more. */
struct partner *ripc__pair_at(struct ripc_context *ctx, uint64_t local, uint64_t remote,
		uint32_t place);
int ripc__pair_insert(struct partner *partner);
void ripc__pair_remove(struct partner *partner);
/* Adds the numbers that from has to those of to. */
void ripc__numbers_join(struct numbers *to, const struct numbers *from);
/*
 * token_out is the partner's own. One that was taken for gone may have given us the same: then what
 * came from that one has come from this partner.
 */
void ripc__pair_inherit(struct partner *partner);
/*
 * The partner's next numbers are beyond all that partners of the same incarnation have used: what
 * they have sent to it must not make new messages look old there.
 */
void ripc__pair_begin(struct partner *partner);
/* The same of replies alone, whose row begins later. */
void ripc__pair_begin_replies(struct partner *partner);

/* The partner to which we gave the token, or NULL. */
static inline struct partner *ripc__partner_by_token_in(struct ripc_context *ctx, uint64_t token)
{
	struct partner *partner = ripc__slots_get(&ctx->slots, token >> TOKEN_SLOT_SHIFT);

	return partner && partner->token_in == token ? partner : NULL;
}

/* Where a token has the number of a slot, a handle has the same, so that it leads there, too. */
static inline uint64_t ripc__handle_of(const struct partner *partner)
{
	return (partner->token_in & ~TOKEN_NONCE_MASK) | partner->handle;
}

/* As ripc__partner_by_token_in(), if both incarnations are those of the header; else NULL. */
static inline struct partner *ripc__partner_by_token(struct ripc_context *ctx,
		const struct wire_header *h)
{
	struct partner *partner = ripc__partner_by_token_in(ctx, h->token);

	if (!partner || partner->incarnation != h->src ||
			partner->service->incarnation != h->dst || !partner->peer)
		return NULL;
	return partner;
}

#endif
