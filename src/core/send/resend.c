/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the receiver of a long message asks for again: how much of it is sent, and what it says
 * about the path.
 */
#include "core/net/backend.h"
#include "core/partner/partner.h"
#include "core/peer/path.h"
#include "core/peer/timing.h"
#include "outgoing.h"
#include "resend.h"
#include "util/probe.h"

#define BLACK_HOLE_PULLS 2u     /* repetitions of the same request that tell one */
#define RESEND_BYTES     65536u /* that may be sent again per time-out, besides what was sent */

/*
 * The receiver asks for the same bytes again and again, so small packets pass and large ones do
 * not: then smaller ones are used from now on (protocol.md, packet sizes).
 */
static void watch_for_black_hole(struct outgoing *outgoing, const struct wire_pull *pull)
{
	struct ripc_context *ctx = outgoing->service->ctx;
	struct peer *peer = outgoing->partner->peer;
	uint64_t most_us = ripc__rto_most_us(ctx);
	uint64_t apart_us = 2ull * peer->srtt_us < most_us ? 2ull * peer->srtt_us : most_us;
	uint32_t now_us = (uint32_t)ctx->now_us;
	uint32_t base = ripc__datagram_base(ctx);
	uint64_t missing = 0;

	/* Where no round trip is known what was sent may still be on its way. */
	if (ripc__peer_device(ctx, peer)->attr.caps & (RIPC_CAP_SIZED | RIPC_CAP_RELIABLE) ||
			peer->srtt_us == 0)
		return;
	for (uint32_t i = 0; i < pull->n_holes; i++)
		missing += pull->holes[i].end - pull->holes[i].start;
	if (pull->have != outgoing->asked_have || missing != outgoing->asked_missing)
		outgoing->asked_same = 0;
	else if (ctx->now_us - outgoing->asked_us < apart_us)
		return; /* what was sent for the last one may still be on its way */
	else
		outgoing->asked_same++;
	outgoing->asked_us = ctx->now_us;
	outgoing->asked_have = pull->have;
	outgoing->asked_missing = missing;
	if (outgoing->asked_same < BLACK_HOLE_PULLS || peer->datagram <= base)
		return;
	peer->datagram = base;
	peer->shrunk_us = now_us ? now_us : UINT32_MAX; /* 0 means never */
	ctx->stats.datagram_size_fallbacks++;
}

/*
 * Bytes that may be sent again now. On a path that loses two of three, for each byte that was
 * sent for the first time two must be sent again; time gives a little more. So a receiver that
 * asks for the same again and again draws little.
 */
static uint64_t resend_left(struct outgoing *outgoing)
{
	const struct ripc_context *ctx = outgoing->service->ctx;
	uint64_t passed_us = ctx->now_us - outgoing->resend_us;
	uint64_t rto_us = ripc__peer_rto(ctx, outgoing->partner->peer);

	outgoing->resend_us = ctx->now_us;
	if (passed_us > PULL_MAX / RESEND_BYTES * rto_us)
		passed_us = PULL_MAX / RESEND_BYTES * rto_us;
	if (outgoing->resend_left < PULL_MAX)
		outgoing->resend_left += passed_us * RESEND_BYTES / rto_us;
	return outgoing->resend_left < PULL_MAX ? outgoing->resend_left : PULL_MAX;
}

/*
 * A receiver that asks for more than a window only holds up others: the rest is for the next PULL.
 */
void ripc__resend(struct outgoing *outgoing, const struct wire_pull *pull)
{
	uint64_t left, sent = outgoing->sent;

	watch_for_black_hole(outgoing, pull);
	left = resend_left(outgoing);
	for (uint32_t i = 0; left && i < pull->n_holes && pull->holes[i].start < sent; i++) {
		struct wire_range hole = pull->holes[i];

		if (hole.end > sent)
			hole.end = sent;
		if (hole.end - hole.start > left)
			hole.end = hole.start + left;
		left -= hole.end - hole.start;
		outgoing->resend_left -= hole.end - hole.start;
		outgoing->holes[outgoing->n_holes++] = hole;
		RIPC__PROBE(retransmit, outgoing->service->id, outgoing->partner->id,
			outgoing->number, hole.end - hole.start);
	}
}
