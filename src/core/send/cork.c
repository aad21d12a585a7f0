/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Announcements that go together. A server that finds several requests in its queue answers them
 * one after the other: the answers go out when it has taken the last one, or nearly at once if it
 * is slow. A network that can join datagrams then carries several for the price of one
 * (docs/rationale.md).
 */
#include "core/partner/partner.h"
#include "core/peer/path.h"
#include "cork.h"
#include "outgoing.h"

#define CORK_GAP_US 50u	 /* who sends less often is not made to wait */
#define CORKED_US   200u /* then they go; if nobody calls, at the next tick */

bool ripc__cork(struct outgoing *outgoing)
{
	struct ripc_context *ctx = outgoing->service->ctx;
	struct partner *partner = outgoing->partner;
	uint64_t gap_us = ctx->now_us - ctx->nowait_us;

	if (!(outgoing->flags & RIPC_NOWAIT))
		return false;
	ctx->nowait_us = ctx->now_us;
	if (outgoing->service->queued == 0 || gap_us > CORK_GAP_US || !partner->known ||
			!partner->peer || outgoing->total > ripc__peer_payload(ctx, partner->peer))
		return false;
	if (ctx->n_corked == 0)
		ctx->corked_due_us = ctx->now_us + CORKED_US;
	ctx->corked[ctx->n_corked++] = partner;
	return ctx->n_corked < CORKED_MAX;
}

void ripc__corked_forget(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	for (uint32_t i = 0; i < ctx->n_corked; i++) {
		if (ctx->corked[i] == partner)
			ctx->corked[i] = NULL;
	}
}

void ripc__corked_flush(struct ripc_context *ctx)
{
	for (uint32_t i = 0; i < ctx->n_corked; i++) {
		if (ctx->corked[i])
			ripc__outgoing_advance(ctx->corked[i]);
	}
	ctx->n_corked = 0;
}
