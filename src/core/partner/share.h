/* SPDX-License-Identifier: BSD-3-Clause */
/* Shares: how much a partner takes of the room that all senders have in common. */
#ifndef RIPC_PARTNER_SHARE_H
#define RIPC_PARTNER_SHARE_H

#include <stdint.h>

#include "core/objects.h"
#include "core/peer/peer.h"
#include "core/peer/share.h"
#include "partner.h"

struct ripc_context;

void ripc__shares_set(struct ripc_context *ctx); /* after the pool was opened */

/* How much more of the share this partner may take. */
static inline uint64_t ripc__share_left(const struct partner *partner, enum share share)
{
	const struct ripc_context *ctx = partner->service->ctx;
	const struct peer *peer = partner->peer;
	uint64_t held = ctx->held[share] + peer->host->held[share] + peer->held[share];

	return held < ctx->held_max[share] ? ctx->held_max[share] - held : 0;
}

/* The partner takes amount of the share, or gives it back (amount < 0). No limit is checked. */
static inline void ripc__share_take(struct partner *partner, enum share share, int64_t amount)
{
	struct peer *peer = partner->peer;

	partner->service->ctx->held[share] += (uint64_t)amount;
	peer->host->held[share] += (uint64_t)amount;
	peer->held[share] += (uint32_t)amount;
}

/* A message of the partner takes amount of the share, and later gives back what this returns. */
static inline struct holding ripc__share_hold(struct partner *partner, enum share share,
		uint64_t amount)
{
	const struct ripc_context *ctx = partner->service->ctx;
	uint64_t taken = ctx->held[share] + partner->peer->host->held[share] + amount;
	uint64_t left = taken < ctx->held_max[share] ? ctx->held_max[share] - taken : 0;
	struct holding held = {(uint32_t)amount, (uint32_t)amount};

	if ((share == SHARE_LARGE || share == SHARE_REPLIES) && held.own > left / 2)
		held.own = (uint32_t)(left / 2);
	ripc__share_take(partner, share, held.own);
	partner->service->ctx->held[share] += held.all - held.own;
	return held;
}

static inline void ripc__share_release(struct partner *partner, enum share share,
		struct holding held)
{
	struct peer *peer = partner->peer;

	partner->service->ctx->held[share] -= held.all;
	peer->host->held[share] -= held.own;
	peer->held[share] -= held.own;
}

#endif
