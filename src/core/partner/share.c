/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all who send to us share, and how much of it each holds: credit, memory, and places for
 * unfinished messages and for streams.
 *
 * Design notes. A host may hold as much as nobody holds, and a peer as much as its host may hold
 * besides: the next one finds something left, however many have come before, from another host as
 * from the same one. A peer that is alone can have a third of all. The holding of a host is the
 * sum over its peers, so that claiming many contexts gains nothing.
 *
 * One message may take more than that, as it cannot be cut. Of what it leaves, its host and its
 * peer count as holding no more than leaves the host's other peers half.
 */
#include "core/memory/pool.h"
#include "core/objects.h"
#include "core/peer/peer.h"
#include "core/peer/share.h"
#include "partner.h"
#include "share.h"

/* What a peer holds is counted in 32 bits: of bytes, and of KiB. */
#define SMALL_MAX (1u << 30)

void ripc__shares_set(struct ripc_context *ctx)
{
	struct ripc__pool_stats pool;

	ripc__pool_stats(ctx->pool, &pool);
	ctx->held_max[SHARE_SMALL] = pool.limit / 8 < SMALL_MAX ? pool.limit / 8 : SMALL_MAX;
	ctx->held_max[SHARE_LARGE] = (pool.limit - pool.limit / 8) >> 10;
	if (ctx->held_max[SHARE_LARGE] > LARGE_MAX)
		ctx->held_max[SHARE_LARGE] = LARGE_MAX;
	ctx->held_max[SHARE_REPLIES] = ctx->held_max[SHARE_LARGE];
	ctx->held_max[SHARE_UNFINISHED] = UNFINISHED_MAX;
	ctx->held_max[SHARE_GRANTED] = GRANTED_MAX;
	ctx->held_max[SHARE_STREAMS] = STREAMS_MAX;
}
