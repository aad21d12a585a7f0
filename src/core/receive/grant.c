/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The grants of long messages: which may send now, and how much; and the credit that they hold
 * meanwhile (protocol.md, credit and congestion).
 *
 * Design notes. limit - got bytes of a message are on their way or lost; in_flight of them are
 * taken to be on their way. A message is granted (in receives.granted), waits for a grant (in
 * receives.ungranted), or neither: all of it was granted, or its sender does not respond. A
 * message without arrivals holds nothing. A sender that is gone, or has only announced,
 * therefore delays nobody; with its next bytes the message takes its turn again. The number of
 * grants to one host and one peer is shared out as all resources are (partner/partner.c), and so
 * is the credit of messages that have sent nothing yet.
 */
#include "core/objects.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "core/peer/window.h"
#include "core/wire/wire.h"
#include "incoming.h"
#include "internal.h"
#include "util/list.h"
#include "util/timers.h"

/* ---- pull -------------------------------------------------------------------------------- */

/* Requests to the sender of a long message: which bytes may be sent, and which are missing. */

static void pull_send(struct incoming *incoming, struct wire_packet *packet)
{
	struct ripc_context *ctx = context_of(incoming);

	packet->h.number = incoming->number;
	packet->pull.have = incoming->have;
	packet->pull.limit = incoming->limit;
	packet->pull.busy = !incoming->is_granted && incoming->limit < incoming->total;
	ctx->stats.pull_requests++;
	ripc__partner_send(incoming->partner, packet, WIRE_PULL);
	if (incoming->first_grant)
		ripc__point(ctx, "first_grant");
	incoming->first_grant = false;
}

void ripc__incoming_pull(struct incoming *incoming, uint64_t holes_end)
{
	struct wire_packet packet = {0};

	if (holes_end > incoming->have)
		ripc__holes_all(incoming, holes_end, &packet.pull);
	pull_send(incoming, &packet);
}

void ripc__pull_due(struct incoming *incoming)
{
	struct wire_packet packet = {0};
	uint64_t lost = ripc__holes_due(incoming, &packet.pull);

	if (lost)
		ripc__peer_cut(context_of(incoming), incoming->partner->peer, lost);
	if (ripc__grant(incoming) || lost)
		pull_send(incoming, &packet);
}

/* ---- grant ------------------------------------------------------------------------------- */

#define GRANT_LOOK 64u /* waiting messages that are compared for the next turn */
#define PACE_US    1000u
#define QUANTUM    (4 * 65536u) /* credit is granted in pieces of a few offload batches */

/* Counts bytes as on their way, or no longer. */
static void account(struct incoming *incoming, int64_t bytes)
{
	struct peer *peer = incoming->partner->peer;
	uint64_t counted;

	incoming->in_flight += (uint64_t)bytes;
	peer->in_flight += (uint32_t)bytes;
	counted = ripc__peer_at_once(peer, incoming->in_flight);
	ripc__share_take(incoming->partner, SHARE_CREDIT,
		(int64_t)(counted - incoming->counted));
	incoming->counted = counted;
}

void ripc__grant_expect(struct incoming *incoming)
{
	uint64_t more = incoming->limit - incoming->got - incoming->in_flight;
	uint64_t left = ripc__share_left(incoming->partner, SHARE_CREDIT);

	account(incoming, (int64_t)(more < left ? more : left));
}

static void set_granted(struct incoming *incoming, bool granted)
{
	if (incoming->is_granted == granted)
		return;
	incoming->is_granted = granted;
	ripc__share_take(incoming->partner, SHARE_GRANTED, granted ? 1 : -1);
}

void ripc__grant_end(struct incoming *incoming)
{
	account(incoming, -(int64_t)incoming->in_flight);
	set_granted(incoming, false);
	list_remove(&incoming->granted);
}

void ripc__grant_silent(struct incoming *incoming)
{
	bool was_granted = incoming->is_granted;

	account(incoming, -(int64_t)incoming->in_flight); /* lost, or never in flight */
	if (!was_granted)
		return;
	ripc__grant_end(incoming);
	ripc__incoming_schedule(context_of(incoming));
}

void ripc__grant_arrived(struct incoming *incoming, uint32_t bytes)
{
	account(incoming, -(int64_t)(bytes < incoming->in_flight ? bytes : incoming->in_flight));
	if (!incoming->silences)
		return;
	ripc__grant_expect(incoming);
	if (incoming->limit < incoming->total && list_empty(&incoming->granted))
		list_append(&context_of(incoming)->receives.ungranted, &incoming->granted);
}

/* Credit left: all, for a message that has sent bytes; its sender's share, for one that has not. */
static uint64_t credit_left(const struct incoming *incoming)
{
	const struct ripc_context *ctx = context_of(incoming);
	uint64_t all = ctx->peers.quota[SHARE_CREDIT], most = ctx->peers.quota_max[SHARE_CREDIT];

	if (incoming->datagram_bytes == 0 || incoming->silences)
		return ripc__share_left(incoming->partner, SHARE_CREDIT);
	return most > all ? most - all : 0;
}

/* Looks again soon, even if nothing arrives meanwhile. */
static void look_again(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);

	if (incoming->timer.at_us > ctx->now_us + PACE_US)
		ripc__timer_set(&ctx->loop.timers, &incoming->timer, ctx->now_us + PACE_US);
}

bool ripc__grant(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);
	struct peer *peer = incoming->partner->peer;
	uint64_t wanted = incoming->total - incoming->limit;
	uint64_t window, room, credit, least, paced;

	if (!incoming->is_granted || wanted == 0)
		return false;
	window = ripc__peer_window(ctx, peer);
	room = window > peer->in_flight ? window - peer->in_flight : 0;
	credit = ripc__peer_over_time(peer, credit_left(incoming));
	least = window / 4 < QUANTUM ? window / 4 : QUANTUM;
	room = room < credit ? room : credit;
	if (room >= least && room > (paced = ripc__peer_pace(ctx, peer, least))) {
		room = paced;
		least /= 4;
		look_again(incoming);
	}
	/* Nothing is under way: however small the window is, one datagram must be granted. */
	if (room < least && incoming->limit == incoming->got)
		room = ripc__peer_payload(ctx, peer);
	else if (room < least && room < wanted)
		return false;
	if (room == 0)
		return false;
	/* Whole datagrams only, or the sender's batches end in odd ones. */
	if (room < wanted && room > incoming->datagram_bytes && incoming->datagram_bytes)
		room -= room % incoming->datagram_bytes;
	room = room < wanted ? room : wanted;
	incoming->limit += room;
	account(incoming, (int64_t)room);
	ripc__peer_paced(peer, room);
	return true;
}

/* Is its peer below the limit of a peer, and below that of one peer beside all others? */
static bool is_eligible(const struct incoming *incoming)
{
	return incoming->partner->peer->quota[SHARE_GRANTED] < GRANTED_OF_PEER &&
		ripc__share_left(incoming->partner, SHARE_GRANTED) > 0;
}

/*
 * The message that is granted next: the shortest of those that have waited longest, and every
 * fourth time the one that has waited longest of all. NULL: none waits.
 */
static struct incoming *next_to_grant(struct ripc_context *ctx)
{
	struct incoming *best = NULL;
	bool is_first = ++ctx->receives.picks % 4 == 0;
	uint32_t n = 0;

	list_for_each_entry(incoming, &ctx->receives.ungranted, struct incoming, granted) {
		if (!is_eligible(incoming))
			continue;
		if (!best || incoming->total - incoming->got < best->total - best->got)
			best = incoming;
		if (is_first || ++n == GRANT_LOOK)
			break;
	}
	return best;
}

void ripc__incoming_schedule(struct ripc_context *ctx)
{
	struct incoming *incoming;

	while (!list_empty(&ctx->receives.ungranted) && (incoming = next_to_grant(ctx))) {
		list_remove(&incoming->granted);
		list_append(&ctx->receives.granted, &incoming->granted);
		set_granted(incoming, true);
		if (ripc__grant(incoming))
			ripc__incoming_pull(incoming, 0);
	}
}

void ripc__grant_wait(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);

	list_append(&ctx->receives.ungranted, &incoming->granted);
	ripc__incoming_schedule(ctx);
	/* Report the arrival at once, even if nothing can be granted yet. */
	if (incoming->first_grant)
		ripc__incoming_pull(incoming, 0);
}
