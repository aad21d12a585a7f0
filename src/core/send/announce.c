/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Announcements of long messages, and requests to cancel one (protocol.md, long messages): the
 * bytes that they carry, and where the rest can be found.
 */
#include "announce.h"
#include "core/message/returns.h"
#include "core/objects.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "core/wire/wire.h"
#include "internal.h"
#include "exposed.h"
#include "order.h"
#include "outgoing.h"
#include "util/list.h"
#include "util/probe.h"

uint64_t ripc__oldest_sent(const struct longs *longs)
{
	const struct outgoing *first = list_entry(longs->outgoing.next, struct outgoing, node);

	return list_empty(&longs->outgoing) || !first->number ? longs->next : first->number;
}

/* Packets that the network does not take are lost, and repeated later. */
static void datagrams_send(struct partner *partner, const struct ripc__tx *tx, uint32_t n)
{
	struct ripc_context *ctx = partner->service->ctx;

	if (!n)
		return;
	ripc__partner_transmit(partner, tx, n);
	ripc__point(ctx, "announced");
}

void ripc__announcements_send(struct partner *partner, struct announcements *batch)
{
	datagrams_send(partner, batch->tx, batch->n);
	batch->n = batch->n_iov = 0;
}

/* batch: the announcement may be sent later, with others; NULL: it is sent now. */
static void announce_send(struct outgoing *outgoing, struct wire_packet *packet,
		const uint64_t *keys, struct announcements *batch)
{
	uint8_t own_prefix[WIRE_PREFIX_MAX], *prefix = own_prefix;
	struct iovec own_iov[RIPC_ITEMS_MAX + 1], *iov = own_iov;
	struct ripc__tx tx;
	uint64_t lens[RIPC_ITEMS_MAX];
	uint32_t crc = 0, payload = packet->payload_len;

	if (batch && (batch->n == BATCH_MAX || outgoing->n_items > BATCH_ITEMS))
		ripc__announcements_send(outgoing->partner, batch);
	if (outgoing->n_items > BATCH_ITEMS || keys || packet->n_returns)
		batch = NULL;
	if (batch) {
		prefix = batch->prefixes[batch->n];
		iov = batch->iov + batch->n_iov;
	}
	for (uint32_t i = 0; i < outgoing->n_items; i++)
		lens[i] = outgoing->items[i].iov_len;
	tx.n_iov = 1 + ripc__gather(outgoing, (struct wire_range){0, payload}, iov + 1,
		RIPC_ITEMS_MAX, &crc);
	if (outgoing->sent == 0) {
		outgoing->sent = payload;
		outgoing->crc = crc;
	}
	if (payload == outgoing->total) {
		packet->h.flags |= WIRE_F_LAST;
		packet->announce.sum = crc;
	}
	iov[0] = (struct iovec){prefix, wire_encode(prefix, packet, lens, keys)};
	ripc__put_crc(ripc__peer_device(outgoing->message.ctx, outgoing->partner->peer), prefix,
		iov[0].iov_len, crc);
	tx.iov = iov;
	tx.len = (uint32_t)iov[0].iov_len + payload;
	if (!batch) {
		datagrams_send(outgoing->partner, &tx, 1);
		return;
	}
	batch->tx[batch->n++] = tx;
	batch->n_iov += tx.n_iov;
}

/*
 * Adds the return buffers that the reply may be written into, if there is room. Returns the
 * remaining room.
 */
static uint32_t offer(struct outgoing *outgoing, uint32_t room, struct wire_packet *packet)
{
	uint32_t base = ripc__datagram_base(outgoing->service->ctx);
	uint32_t most = room < base ? room : base;
	uint32_t rest;

	if (!outgoing->lends)
		return room;
	rest = ripc__exposed_least(outgoing);
	if (most > rest)
		ripc__returns_offer(outgoing->partner, outgoing->lends, most - rest, packet);
	return packet->n_returns ? room - WIRE_RETURNS_LEN(packet->n_returns) : room;
}

/*
 * The location of the bytes, if they do not arrive in datagrams: the kind, its keys if it has
 * any, and how many bytes the announcement carries.
 */
struct location {
	uint32_t what; /* enum wire_keys, or 0 */
	uint32_t carried;
	uint64_t keys[2 * RIPC_ITEMS_MAX];
};

static void locate(struct outgoing *outgoing, uint32_t room, struct location *at)
{
	if (outgoing->written && ripc__offer_is_here(outgoing) &&
			room >= ripc__exposed_least(outgoing)) {
		at->what = WIRE_KEYS_WRITTEN;
		at->carried = ripc__exposed_carried(outgoing);
		outgoing->had_keys = true;
	} else if ((outgoing->exposed || ripc__can_be_read(outgoing)) &&
			ripc__exposed_keys(outgoing, room, at->keys)) {
		at->what = outgoing->exposed->given ? WIRE_KEYS_GIVEN : WIRE_KEYS_READ;
		at->carried = outgoing->exposed->carried;
	} else {
		at->what = 0;
	}
}

void ripc__announce(struct outgoing *outgoing, struct announcements *batch)
{
	struct partner *partner = outgoing->partner;
	struct ripc_context *ctx = outgoing->message.ctx;
	struct wire_packet packet;
	struct location at;
	uint32_t room = ripc__peer_payload(ctx, partner->peer) + WIRE_HEADER + WIRE_DATA_BODY;
	uint32_t prefix = WIRE_HEADER_MAX + WIRE_ANNOUNCE_BODY + 8 * outgoing->n_items +
		ripc__extra_bytes(outgoing);
	uint64_t inline_bytes, unasked;

	wire_clear(&packet);
	if (outgoing->announced)
		room = ripc__exposed_room(outgoing);
	room = offer(outgoing, room, &packet);
	inline_bytes = room > prefix ? room - prefix : 0;
	unasked = partner->token_out ? partner->unasked : inline_bytes;
	/*
	 * A partner that may be gone gets no byte before it answers: its end then leaves no
	 * outcome unknown.
	 */
	if (!partner->current)
		unasked = 0;
	if (unasked > outgoing->total)
		unasked = outgoing->total;
	if (outgoing->announced) {
		unasked = outgoing->sent;
		/*
		 * On an unknown path, which may be long, the announcement carries no bytes until
		 * asked for.
		 */
		if (inline_bytes < outgoing->total ||
				(outgoing->by_time && !partner->peer->srtt_us))
			inline_bytes = 0;
		ctx->stats.announcements_repeated++;
		RIPC__PROBE(retransmit, partner->service->id, partner->id, outgoing->number,
			inline_bytes);
	}
	locate(outgoing, room, &at);
	if (at.what)
		unasked = inline_bytes = at.carried;
	if (inline_bytes > unasked)
		inline_bytes = unasked;
	packet.h.number = outgoing->number;
	packet.lends = outgoing->lends;
	packet.replies = outgoing->replies;
	packet.call = outgoing->call;
	packet.n_items = outgoing->n_items;
	packet.announce = (struct wire_announce){.total = outgoing->total,
		.oldest = ripc__oldest_sent(ripc__row_of(outgoing)), .n_items = outgoing->n_items,
		.unasked = (uint32_t)unasked, .keys = at.what};
	packet.payload_len = (uint32_t)inline_bytes;
	ripc__partner_header(partner, &packet, WIRE_ANNOUNCE);
	if (outgoing->flags & RIPC_ORDERED)
		ripc__order_say(outgoing, &packet);
	if (at.what)
		ripc__exposed_sum(outgoing, &packet);
	announce_send(outgoing, &packet, wire_has_keys(at.what) ? at.keys : NULL, batch);
	if (!outgoing->announced && outgoing->limit < unasked)
		outgoing->limit = unasked;
	if (!outgoing->announced)
		outgoing->told_us = ctx->now_us;
	outgoing->announced = true;
	if (outgoing->sent < outgoing->limit) {
		if (batch)
			ripc__announcements_send(partner, batch);
		ripc__pump(outgoing);
	}
	ripc__busy_update(outgoing);
}

void ripc__cancel_number(struct partner *partner, uint64_t number)
{
	const struct longs *longs = ripc__longs_of(partner, number);
	uint64_t oldest = longs ? ripc__oldest_sent(longs) : number;
	struct wire_packet packet = {.h.number = number};

	packet.announce.oldest = oldest < number ? oldest : number;
	ripc__partner_send(partner, &packet, WIRE_CANCEL);
}

void ripc__cancel_send(struct outgoing *outgoing)
{
	ripc__cancel_number(outgoing->partner, outgoing->number);
}

/* ---- batching ---------------------------------------------------------------------------- */

/*
 * Announcements that are sent together. A server that finds several requests in its queue
 * answers them one after the other: the replies are sent when it has taken the last request, or
 * nearly at once if it is slow. A network that can join datagrams then carries several for the
 * price of one (docs/decisions/requests.md).
 */

#define CORK_GAP_US 50u	 /* a sender with longer gaps is not made to wait */
#define BATCHING_US   200u /* then they are sent; without calls, at the next tick */

bool ripc__batching_add(struct outgoing *outgoing)
{
	struct ripc_context *ctx = outgoing->service->ctx;
	struct partner *partner = outgoing->partner;
	uint64_t gap_us = ctx->now_us - ctx->sends.nowait_us;

	if (!(outgoing->flags & RIPC_NOWAIT))
		return false;
	ctx->sends.nowait_us = ctx->now_us;
	if (outgoing->service->queued == 0 || gap_us > CORK_GAP_US || !partner->known ||
			!partner->peer || outgoing->total > ripc__peer_payload(ctx, partner->peer))
		return false;
	if (ctx->sends.n_batching == 0)
		ctx->sends.batching_due_us = ctx->now_us + BATCHING_US;
	ctx->sends.batching[ctx->sends.n_batching++] = partner;
	return ctx->sends.n_batching < BATCHING_MAX;
}

void ripc__batching_forget(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	for (uint32_t i = 0; i < ctx->sends.n_batching; i++) {
		if (ctx->sends.batching[i] == partner)
			ctx->sends.batching[i] = NULL;
	}
}

void ripc__batching_flush(struct ripc_context *ctx)
{
	for (uint32_t i = 0; i < ctx->sends.n_batching; i++) {
		if (ctx->sends.batching[i])
			ripc__outgoing_advance(ctx->sends.batching[i]);
	}
	ctx->sends.n_batching = 0;
}
