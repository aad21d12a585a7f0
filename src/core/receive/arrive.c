/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes of a long message, and what is asked then: its announcement, its bytes, and silence
 * (protocol.md, long messages).
 *
 * Design notes. limit - got bytes are on their way or lost; in_flight of them are taken to be on
 * their way, and hold credit. A look at a port finds many datagrams of a message: each is copied
 * at once, and what follows for credit, window and timer is computed once, for all of them
 * (ctx->arriving).
 */
#include <errno.h>
#include <stdlib.h>

#include "announced.h"
#include "arrive.h"
#include "collect.h"
#include "core/message/lent.h"
#include "core/message/mapped.h"
#include "core/message/message.h"
#include "core/message/offers.h"
#include "core/message/places.h"
#include "core/message/returns.h"
#include "core/objects.h"
#include "core/partner/death.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/peer/path.h"
#include "core/peer/peer.h"
#include "core/peer/timing.h"
#include "core/peer/window.h"
#include "core/upcalls.h"
#include "core/wire/wire.h"
#include "deliver.h"
#include "grant.h"
#include "holes.h"
#include "incoming.h"
#include "order.h"
#include "pull.h"
#include "read.h"
#include "util/list.h"
#include "util/timers.h"

#define SILENCES_PLAIN   2u /* until the waits double: on a path that loses much they are common */
#define READ_AGAIN_US    1000u /* after the device took no read at all */

static struct ripc_context *context_of(const struct incoming *incoming)
{
	return incoming->partner->service->ctx;
}

/* ---- asking ------------------------------------------------------------------------------ */

static uint64_t arrival_deadline(const struct incoming *incoming)
{
	return context_of(incoming)->now_us + incoming->wait_us;
}

/* While it is read its repeated announcements tell that its sender is there. */
static void fire_reading(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);
	uint64_t wait_us = incoming->reading->n_busy ? incoming->wait_us : READ_AGAIN_US;

	if (ripc__reading_is_stuck(incoming->reading)) {
		ctx->stats.reads_failed++;
		ripc__reading_fail(incoming->reading);
		return;
	}
	ripc__timer_set(&ctx->timers, &incoming->timer, ctx->now_us + wait_us);
	ripc__reads_post(ctx);
}

static void timer_set(struct incoming *incoming, uint64_t at_us)
{
	ripc__timer_set(&context_of(incoming)->timers, &incoming->timer, at_us);
}

/* A reply that nobody waits for any more is refused. True: the message is gone. */
static bool refuse_unwanted(struct incoming *incoming)
{
	struct partner *partner = incoming->partner;
	struct ripc_context *ctx = context_of(incoming);

	if (incoming->share != SHARE_REPLIES ||
			ctx->up->call_is_open(partner, incoming->message->public.reply))
		return false;
	ctx->stats.replies_late++;
	ripc__incoming_refuse(incoming, -ECANCELED, true);
	return true;
}

/* After bytes have come or credit has become free: what is to be asked now? */
static void update(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);

	if (incoming->got == incoming->total) {
		ripc__incoming_finish(incoming);
		return;
	}
	if (refuse_unwanted(incoming))
		return;
	/* Silent before, it takes its turn again. */
	if (!incoming->is_granted && !list_empty(&incoming->granted))
		ripc__incoming_schedule(ctx);
	if (incoming->n_pieces && ripc__holes_may_be_due(incoming))
		ripc__pull_due(incoming);
	else if (ripc__grant(incoming))
		ripc__incoming_pull(incoming, 0);
}

static void give_up(struct incoming *incoming)
{
	context_of(incoming)->stats.messages_abandoned++;
	ripc__partner_suspect(incoming->partner);
	ripc__incoming_refuse(incoming, -ETIMEDOUT, true);
}

static void fire(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;
	struct incoming *incoming = list_entry(timer, struct incoming, timer);
	struct peer *peer = incoming->partner->peer;

	ripc__death_doubt(ctx);
	if (refuse_unwanted(incoming))
		return;
	incoming->heard_us = ripc__heard_us(ctx, timer, incoming->heard_us);
	if (ctx->now_us - incoming->heard_us >= ripc__silence_us(ctx)) {
		give_up(incoming);
		return;
	}
	if (incoming->complete) {
		ripc__wait_for_turn(incoming);
		return;
	}
	if (incoming->reading) {
		fire_reading(incoming);
		return;
	}
	if (ctx->now_us - incoming->arrived_us < incoming->wait_us) {
		timer_set(incoming, incoming->arrived_us + incoming->wait_us);
		update(incoming);
		return;
	}
	/* One silence may be a lost request; two of the whole peer are more than that. */
	if (++incoming->silences > 1 &&
			(uint32_t)ctx->now_us - peer->arrived_us >= incoming->wait_us)
		ripc__peer_cut(ctx, peer, 0);
	if (incoming->limit == incoming->got)
		ripc__grant(incoming);
	ripc__incoming_pull(incoming, incoming->limit);
	if (incoming->silences > SILENCES_PLAIN)
		incoming->wait_us = ripc__back_off(ctx, incoming->wait_us);
	incoming->arrived_us = ctx->now_us; /* the wait begins anew */
	timer_set(incoming, arrival_deadline(incoming));
	/* What is silent must not keep others from their credit. */
	ripc__grant_silent(incoming);
}

/* ---- bytes ------------------------------------------------------------------------------- */

/* What the arrival of bytes says about the path. */
static void settle(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);
	struct peer *peer = incoming->partner->peer;
	uint32_t bytes = incoming->unsettled;

	incoming->unsettled = 0;
	ripc__grant_arrived(incoming, bytes);
	incoming->heard_us = incoming->arrived_us = ctx->now_us;
	incoming->silences = 0;
	peer->arrived_us = (uint32_t)ctx->now_us;
	incoming->wait_us = ripc__peer_patience(ctx, peer);
	if (incoming->n_pieces == 0)
		incoming->asked_us = 0;
	else if (incoming->asked_us == 0 && incoming->pieces[0].seen_us == ctx->now_us)
		timer_set(incoming, ctx->now_us + (peer->srtt_us << peer->reorder >> 2) + 1);
	ripc__peer_grow(ctx, peer, bytes);
}

void ripc__arrivals_settle(struct ripc_context *ctx)
{
	struct incoming *incoming = ctx->arriving;

	if (!incoming)
		return;
	ctx->arriving = NULL;
	settle(incoming);
	if (!incoming->reading && !incoming->complete)
		update(incoming);
}

/* Bytes of a datagram that may be one of many; with the last byte nothing more is waited for. */
static void gather(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);

	if (ctx->arriving != incoming)
		ripc__arrivals_settle(ctx);
	ctx->arriving = incoming;
	if (incoming->got == incoming->total)
		ripc__arrivals_settle(ctx);
}

/* These bytes are here already: what we asked for again was perhaps only late. */
static void unneeded(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);

	ctx->stats.drop_duplicate++;
	if (ctx->now_us - incoming->resent_us < ripc__peer_rto(ctx, incoming->partner->peer))
		ripc__peer_reorders(incoming->partner->peer);
	incoming->resent_us = 0;
}

/*
 * How many bytes are new. Negative: the packet was altered, or there is no memory, and the message
 * was refused.
 */
static int64_t take(struct incoming *incoming, const struct wire_packet *packet, uint64_t offset)
{
	struct ripc_stats *stats = &context_of(incoming)->stats;
	int64_t taken = ripc__collect(incoming, packet, offset);

	if (taken == -ENOMEM)
		ripc__incoming_refuse(incoming, -ENOBUFS, true);
	else if (taken < 0)
		stats->drop_checksum++;
	if (taken == 0 && packet->payload_len)
		unneeded(incoming);
	if (taken > 0) {
		incoming->unsettled += (uint32_t)taken;
		incoming->arrivals++;
	}
	return taken;
}

/* Of the first datagram of its message that a look at a port finds, the echo is taken. */
static void data_take(struct incoming *incoming, const struct wire_packet *packet)
{
	struct ripc_context *ctx = context_of(incoming);
	int64_t taken = take(incoming, packet, packet->offset);

	if (taken < 0)
		return;
	if (ctx->arriving != incoming)
		ripc__data_echo_take(ctx, incoming->partner->peer, packet->echo);
	if (packet->payload_len > incoming->datagram_bytes)
		incoming->datagram_bytes = packet->payload_len;
	if (taken > 0)
		gather(incoming);
	else
		update(incoming);
}

/* Mostly it is the one of which the last datagram was. */
static struct incoming *find(struct partner *partner, uint64_t number)
{
	struct incoming *arriving = partner->service->ctx->arriving;

	if (arriving && arriving->partner == partner && arriving->number == number)
		return arriving;
	return ripc__incoming_find(partner, number);
}

void ripc__incoming_data(struct partner *partner, const struct wire_packet *packet)
{
	struct incoming *incoming = find(partner, packet->h.number);
	struct ripc_stats *stats = &partner->service->ctx->stats;

	if (!incoming || incoming->reading || incoming->complete) {
		stats->drop_duplicate++;
		return;
	}
	if (packet->payload_len > incoming->limit || packet->offset >
			incoming->limit - packet->payload_len || packet->payload_len == 0) {
		stats->drop_malformed++;
		return;
	}
	data_take(incoming, packet);
}

/* ---- announcements ----------------------------------------------------------------------- */

/* For what has come with an announcement; else the message is refused, and gone. */
static bool has_memory(struct incoming *incoming, const struct wire_packet *packet)
{
	if (ripc__places_fault(incoming->message, 0, packet->payload_len) == 0)
		return true;
	ripc__incoming_refuse(incoming, -ENOBUFS, true);
	return false;
}

static void was_read(struct incoming *incoming)
{
	incoming->got = incoming->total;
	incoming->sum = incoming->crc;
	incoming->sum_known = true;
	ripc__incoming_finish(incoming);
}

static void cannot_be_read(struct incoming *incoming)
{
	incoming->unreadable = true;
	incoming->heard_us = incoming->arrived_us = context_of(incoming)->now_us;
	timer_set(incoming, arrival_deadline(incoming));
	/* Where the first read was refused at once it still waits for credit, or has some. */
	if (incoming->limit < incoming->total && list_empty(&incoming->granted))
		ripc__grant_wait(incoming);
	/* What came before may have been overwritten. */
	if (incoming->limit)
		ripc__incoming_pull(incoming, incoming->limit);
}

static void reading_ended(struct incoming *incoming, bool right)
{
	if (right)
		was_read(incoming);
	else
		cannot_be_read(incoming);
}

/* Its sender has learnt who we are only after it had announced it, and now opens it for us. */
static bool read_instead(struct incoming *incoming, const struct wire_packet *packet)
{
	if (incoming->got > UNASKED_BYTES || !ripc__reading_start(incoming, packet, reading_ended))
		return false;
	if (!incoming->reading)
		return true; /* the first read has failed at once: it is pulled as before */
	ripc__incoming_let_go(incoming);
	return true;
}

/* False: there is no room for it. */
static bool accept_announced(struct partner *partner, const struct wire_packet *packet)
{
	struct incoming *incoming = ripc__incoming_alloc(partner, packet, NULL, fire);

	if (!incoming)
		return false;
	incoming->limit = packet->announce.unasked < UNASKED_BYTES ?
		packet->announce.unasked : UNASKED_BYTES;
	/* Nothing beyond the limit is taken, so that it must not be beyond the places. */
	if (incoming->limit > incoming->total)
		incoming->limit = incoming->total;
	ripc__grant_expect(incoming);
	if (!has_memory(incoming, packet))
		return true;
	/* A device that takes no read at first is asked again soon. */
	timer_set(incoming, !wire_has_keys(packet->announce.keys) ? arrival_deadline(incoming) :
		context_of(incoming)->now_us + READ_AGAIN_US);
	if (wire_has_keys(packet->announce.keys) &&
			ripc__reading_start(incoming, packet, reading_ended))
		return true;
	if (take(incoming, packet, 0) > 0)
		settle(incoming);
	if (incoming->got == incoming->total) {
		ripc__incoming_finish(incoming);
		return true;
	}
	/* The message was announced before, in vain, and so these bytes were sent. */
	if (packet->payload_len == 0 && incoming->limit)
		ripc__incoming_pull(incoming, incoming->limit);
	if (incoming->limit < incoming->total)
		ripc__grant_wait(incoming);
	return true;
}

/* All of it is here, before its turn. Without memory it is as if it had not come. */
static void keep(struct partner *partner, const struct wire_packet *packet,
		struct message *message)
{
	struct incoming *incoming = ripc__incoming_alloc(partner, packet, message, fire);

	if (!incoming) {
		ripc__message_free(message);
		return;
	}
	/* As is said of what is read: its sender is to send nothing. */
	incoming->limit = packet->announce.unasked < incoming->total ? packet->announce.unasked :
		incoming->total;
	incoming->got = incoming->total;
	ripc__wait_for_turn(incoming);
}

/* Unless it is the answer to a message that has lent places for it. */
static struct message *map_given(struct partner *partner, const struct wire_packet *packet)
{
	if (packet->announce.keys != WIRE_KEYS_GIVEN ||
			(packet->replies && ripc__lent_by_id(partner->service, packet->replies)))
		return NULL;
	return ripc__mapped_message(partner, packet);
}

bool ripc__incoming_new(struct partner *partner, const struct wire_packet *packet)
{
	bool came_whole = ripc__is_whole(partner, packet);
	struct message *message;

	if (came_whole)
		message = ripc__places_whole(partner, packet);
	else if (packet->announce.keys == WIRE_KEYS_WRITTEN)
		message = ripc__written_message(partner, packet);
	else
		message = map_given(partner, packet);
	if (!message)
		return !came_whole && accept_announced(partner, packet);
	if (ripc__order_may_pass(partner, wire_previous(packet)))
		ripc__deliver_whole(partner, packet, message);
	else
		keep(partner, packet, message);
	return true;
}

/* Its sender has learnt only now who we are. Windows are for what was announced before them. */
static bool map_instead(struct incoming *incoming, const struct wire_packet *packet)
{
	struct partner *partner = incoming->partner;
	struct message *message = NULL;

	if (!incoming->reading && incoming->got <= UNASKED_BYTES &&
			(wire_is_answer(packet) || partner->service->windows_posted == 0) &&
			ripc__order_may_pass(partner, incoming->previous))
		message = map_given(partner, packet);
	if (!message)
		return false;
	ripc__incoming_forget(incoming);
	ripc__deliver_whole(partner, packet, message);
	return true;
}

/* Of what was announced before, for which there are places. */
static bool is_repeated(const struct incoming *incoming, const struct wire_packet *packet)
{
	const struct ripc_msg *public = &incoming->message->public;
	bool same = packet->announce.total == incoming->total &&
		packet->announce.n_items == public->n_items;

	for (uint32_t i = 0; same && i < public->n_items; i++)
		same = wire_item_len(packet, i) == public->items[i].iov_len;
	return same;
}

/* The sender has heard nothing for a while. */
static void announce_again(struct incoming *incoming, const struct wire_packet *packet)
{
	uint32_t patience_us = ripc__peer_patience(context_of(incoming), incoming->partner->peer);
	bool overdue;

	if (refuse_unwanted(incoming))
		return;
	incoming->heard_us = context_of(incoming)->now_us;
	if (incoming->complete) {
		ripc__incoming_pull(incoming, 0);
		return;
	}
	if (wire_has_keys(packet->announce.keys) &&
			(map_instead(incoming, packet) || read_instead(incoming, packet)))
		return;
	if (incoming->reading) {
		if (ripc__reading_told(incoming->reading, packet))
			return;
		ripc__incoming_pull(incoming, 0);
		if (!wire_has_keys(packet->announce.keys))
			ripc__reading_fail(incoming->reading);
		return;
	}
	/* A round trip may have become known since the wait began. */
	overdue = incoming->heard_us - incoming->arrived_us >=
		(incoming->wait_us < patience_us ? incoming->wait_us : patience_us);
	if (packet->payload_len && packet->payload_len <= incoming->limit) {
		if (!has_memory(incoming, packet))
			return;
		if (take(incoming, packet, 0) > 0)
			settle(incoming);
	}
	if (incoming->got == incoming->total)
		ripc__incoming_finish(incoming);
	else
		ripc__incoming_pull(incoming, overdue ? incoming->limit : 0);
}

/* Replies, and only they, have numbers of that row; no order is theirs. */
static bool is_in_row(const struct wire_packet *packet)
{
	return wire_is_answer(packet) ? packet->h.number > WIRE_REPLIES &&
		!(packet->h.flags & WIRE_F_ORDERED) : packet->h.number < WIRE_REPLIES;
}

void ripc__incoming_announce(struct partner *partner, const struct wire_packet *packet)
{
	struct ripc_service *service = partner->service;
	uint64_t number = packet->h.number, ahead;
	struct longs *longs;
	struct incoming *incoming;

	if (packet->announce.oldest > number || number == 0 || !is_in_row(packet)) {
		service->ctx->stats.drop_malformed++;
		return;
	}
	longs = ripc__longs_open(partner, number);
	if (!longs) {
		service->ctx->stats.drop_no_memory++;
		return;
	}
	ripc__numbers_advance(partner, longs, packet->announce.oldest);
	ahead = number - longs->in_oldest;
	if (number < longs->in_oldest) {
		service->ctx->stats.drop_duplicate++;
	} else if (ahead >= LONGS_MAX) {
		service->ctx->stats.drop_malformed++;
	} else if (longs->in_delivered >> ahead & 1) {
		service->ctx->stats.drop_duplicate++;
		ripc__ack_queue(partner, number, 0);
		ripc__acks_flush(service->ctx);
	} else if (longs->in_refused >> ahead & 1) {
		ripc__ack_queue(partner, number, ripc__number_refusal(partner, number));
	} else if ((incoming = ripc__incoming_find(partner, number))) {
		if (!is_repeated(incoming, packet)) {
			service->ctx->stats.drop_malformed++;
			return;
		}
		if (packet->n_returns)
			ripc__offer_note(partner, packet);
		announce_again(incoming, packet);
	} else {
		ripc__announced_new(partner, packet);
	}
}

packet_handler *const ripc__receive_handlers[WIRE_TYPE_END] = {
	[WIRE_ANNOUNCE] = ripc__incoming_announce,
	[WIRE_CANCEL] = ripc__incoming_cancel,
};
