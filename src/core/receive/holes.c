/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is missing of an incoming long message, and is to be asked for now (protocol.md, long
 * messages).
 *
 * Design notes. Each gap is asked for by itself: when it is more than reordering, and again when
 * the answer must have come, as what was sent after it has, or is overdue. So a path that loses
 * much at once is asked for the next gaps while the answer to the last request is on its way. Gaps
 * are gathered for a quarter of a round trip, unless they fill half a request.
 */
#include "collect.h"
#include "core/partner/partner.h"
#include "core/peer/path.h"
#include "core/resolve/resolver_internal.h"
#include "core/wire/wire.h"
#include "holes.h"
#include "incoming.h"

#define REORDER_DATAGRAMS 3u

static const struct peer *peer_of(const struct incoming *incoming)
{
	return incoming->partner->peer;
}

static uint64_t now_of(const struct incoming *incoming)
{
	return incoming->partner->service->ctx->now_us;
}

/*
 * Is the gap before this piece more than reordering? Three datagrams that came after it say so,
 * or a quarter of a round trip; only time, and more of it, where the path has proved to reorder.
 */
static bool is_ripe(const struct incoming *incoming, const struct piece *piece)
{
	const struct peer *peer = peer_of(incoming);
	uint64_t age_us = now_of(incoming) - piece->seen_us;

	if (peer->reorder == 0 && incoming->arrivals - piece->seen_at >= REORDER_DATAGRAMS)
		return true;
	return age_us > (uint64_t)peer->srtt_us << peer->reorder >> 2;
}

/* The gap was asked for, and the answer may still come. */
static bool is_under_way(const struct incoming *incoming, const struct piece *piece)
{
	const struct peer *peer = peer_of(incoming);
	uint64_t beyond = piece->asked_limit + REORDER_DATAGRAMS * incoming->datagram_bytes;

	if (!piece->asked_us || (!peer->reorder && incoming->high >= beyond))
		return false;
	return now_of(incoming) - piece->asked_us <
		ripc__peer_patience(incoming->partner->service->ctx, peer);
}

bool ripc__holes_may_be_due(const struct incoming *incoming)
{
	return incoming->n_pieces && (!incoming->asked_us ||
		incoming->fresh >= WIRE_HOLES_MAX / 2 ||
		now_of(incoming) - incoming->asked_us > peer_of(incoming)->srtt_us / 4);
}

static void asked(struct incoming *incoming, struct piece *piece)
{
	piece->asked_us = now_of(incoming);
	piece->asked_limit = incoming->limit;
}

static void asked_some(struct incoming *incoming)
{
	incoming->asked_us = incoming->resent_us = now_of(incoming);
	incoming->fresh = 0;
}

uint64_t ripc__holes_due(struct incoming *incoming, struct wire_pull *pull)
{
	uint64_t at = incoming->have, bytes = 0;

	for (uint32_t i = 0; i < incoming->n_pieces && pull->n_holes < WIRE_HOLES_MAX; i++) {
		struct piece *piece = &incoming->pieces[i];

		if (is_ripe(incoming, piece) && !is_under_way(incoming, piece)) {
			pull->holes[pull->n_holes++] = (struct wire_range){at, piece->start};
			bytes += piece->start - at;
			asked(incoming, piece);
		}
		at = piece->end;
	}
	if (bytes)
		asked_some(incoming);
	return bytes;
}

void ripc__holes_all(struct incoming *incoming, uint64_t end, struct wire_pull *pull)
{
	pull->n_holes = ripc__collect_holes(incoming, end, pull->holes);
	for (uint32_t i = 0; i < incoming->n_pieces && i < pull->n_holes; i++)
		asked(incoming, &incoming->pieces[i]);
	asked_some(incoming);
}
