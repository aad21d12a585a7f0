/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages that are being received: made, refused, forgotten. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "core/call/call.h"
#include "core/memory/pool.h"
#include "core/message/message.h"
#include "core/message/move.h"
#include "core/message/places.h"
#include "core/message/queue.h"
#include "core/message/returns.h"
#include "core/objects.h"
#include "core/partner/death.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/partner/rights.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "core/peer/window.h"
#include "core/wire/wire.h"
#include "incoming.h"
#include "internal.h"
#include "util/list.h"
#include "util/probe.h"
#include "util/timers.h"

/* NULL: no message of that number is being received. */
static struct incoming *incoming_find(struct partner *partner, uint64_t number)
{
	list_for_each_entry(incoming, &partner->incoming, struct incoming, node) {
		if (incoming->number == number)
			return incoming;
	}
	return NULL;
}

/* Unlinks and frees the message, whatever its outcome. Waiting messages get its credit. */
static void incoming_free(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);

	if (ctx->receives.arriving == incoming)
		ctx->receives.arriving = NULL;
	ripc__grant_end(incoming);
	ripc__timer_dismiss(ctx, &incoming->timer);
	list_remove(&incoming->node);
	ripc__quota_give(incoming->partner, incoming->share, incoming->quota);
	if (incoming->share != SHARE_REPLIES)
		ripc__share_take(incoming->partner, SHARE_UNFINISHED, -1);
	incoming->partner->service->n_incoming--;
	ctx->loop.n_busy--;
	ctx->loop.changed = true;
	free(incoming->pieces);
	free(incoming);
	ripc__incoming_schedule(ctx);
}

void ripc__incoming_forget(struct incoming *incoming)
{
	if (incoming->settled) {
		ripc__message_free(incoming->message);
	} else if (!incoming->reading || !ripc__reading_leave(incoming->reading)) {
		if (incoming->lent)
			incoming->lent->in_use = false;
		ripc__places_release(incoming->partner->service, incoming->message);
	}
	incoming_free(incoming);
}

void ripc__incoming_refuse(struct incoming *incoming, int status, bool tell)
{
	struct partner *partner = incoming->partner;
	uint64_t number = incoming->number;

	context_of(incoming)->stats.messages_refused++;
	ripc__number_refused(partner, number, status);
	ripc__incoming_forget(incoming);
	if (tell)
		ripc__ack_queue(partner, number, status);
}

/* Is a reply of the partner to the call of this ID being received? */
static bool incoming_replies(const struct partner *partner, uint64_t id)
{
	list_for_each_entry(incoming, &partner->incoming, const struct incoming, node) {
		if (incoming->share == SHARE_REPLIES && incoming->message->public.reply == id)
			return true;
	}
	return false;
}

void ripc__incoming_stop(struct ripc_context *ctx, const struct lent *lent)
{
	if (!lent->in_use)
		return;
	for_each_partner(partner, ctx) {
		list_for_each_entry(incoming, &partner->incoming, struct incoming, node) {
			if (incoming->lent != lent)
				continue;
			ripc__incoming_refuse(incoming, -ECANCELED, true);
			return;
		}
	}
}

/*
 * Makes one more incoming message of a partner; fire: the callback of its timer. message: NULL, or
 * the whole message, which came in one packet. Returns NULL if there is no memory, or no place for
 * an item: the message stays the caller's.
 */
static struct incoming *incoming_alloc(struct partner *partner,
		const struct wire_packet *packet, struct message *message,
		void (*fire)(void *owner, struct ripc__timer *timer))
{
	struct ripc_service *service = partner->service;
	struct ripc_context *ctx = service->ctx;
	struct incoming *incoming = calloc(1, sizeof(*incoming));

	if (!incoming)
		return NULL;
	if (ripc__timer_admit(ctx))
		goto err_free;
	if (!message && packet->replies)
		incoming->lent = ripc__lent_for(partner, packet);
	incoming->settled = message;
	incoming->message = message ? message :
		ripc__places_find(partner, packet, incoming->lent);
	if (!incoming->message)
		goto err_dismiss;
	ripc__message_is_call(incoming->message, packet);
	if (incoming->lent)
		incoming->lent->in_use = true;
	incoming->partner = partner;
	incoming->number = packet->h.number;
	incoming->total = packet->announce.total;
	incoming->ordered = packet->h.flags & WIRE_F_ORDERED;
	incoming->previous = wire_previous(packet);
	partner->ordering |= incoming->previous != 0;
	incoming->share = wire_is_answer(packet) ? SHARE_REPLIES : SHARE_LARGE;
	incoming->quota = ripc__quota_take(partner, incoming->share, message ?
		(ripc__whole_bytes(packet) + 1023) >> 10 :
		ripc__places_kib(&incoming->message->public));
	if (incoming->share != SHARE_REPLIES)
		ripc__share_take(partner, SHARE_UNFINISHED, 1);
	incoming->heard_us = incoming->arrived_us = incoming->started_us = ctx->now_us;
	incoming->first_grant = true;
	incoming->timer.fire = fire;
	incoming->wait_us = ripc__peer_patience(ctx, partner->peer);
	list_append(&partner->incoming, &incoming->node);
	list_init(&incoming->granted);
	service->n_incoming++;
	ctx->loop.n_busy++;
	return incoming;
err_dismiss:
	ripc__timer_dismiss(ctx, &incoming->timer);
err_free:
	free(incoming);
	return NULL;
}

/* ---- permit ------------------------------------------------------------------------------ */

/* See incoming.h. docs/protocol.md, Rights. */

/*
 * Do all items fit? Then the posting ends with this message, and no second one is received into
 * it.
 */
static bool fits(const struct lent *lent, const struct wire_packet *packet)
{
	uint32_t n = packet->h.type == WIRE_SHORT ? packet->n_items : packet->announce.n_items;

	for (uint32_t i = 0; i < n; i++) {
		if (i >= lent->n || wire_item_len(packet, i) > lent->buffers[i].mem.iov_len)
			return false;
	}
	return true;
}

static bool is_reply(struct partner *partner, const struct wire_packet *packet)
{
	const struct lent *lent;

	if (!packet->replies || packet->call.kind == WIRE_CALL_ASKS)
		return false;
	if (wire_is_answer(packet))
		return ripc__call_is_open(partner, packet->replies);
	lent = ripc__lent_for(partner, packet);
	return lent && fits(lent, packet);
}

bool ripc__is_permitted(struct partner *partner, const struct wire_packet *packet)
{
	if (ripc__may_come(partner) || is_reply(partner, packet))
		return true;
	ripc__say_denied(partner);
	return false;
}

/* ---- deliver ----------------------------------------------------------------------------- */

/*
 * The end of a long message that has arrived: checksum of the whole, into the queue, remembered,
 * then the answer, in this order. A message that arrives before its turn waits for it.
 */

#define ACK_AT_ONCE (1u << 20) /* bytes of a message whose ack waits for nothing */

/*
 * announce: of a message that arrived whole, or NULL; large is the memory that the message
 * holds.
 */
static void deliver(struct partner *partner, const struct wire_packet *announce,
		struct message *message, uint64_t total, const struct quota *large)
{
	struct ripc_stats *stats = &partner->service->ctx->stats;

	if (announce)
		ripc__message_is_call(message, announce);
	if (!message->public.kind)
		message->public.kind = RIPC_LONG;
	message->public.from = partner->id;
	message->public.from_incarnation = partner->incarnation;
	message->public.from_handle = ripc__handle_of(partner);
	stats->long_received++;
	stats->long_received_bytes += total;
	RIPC__PROBE(receive, RIPC__PROBE_LONG, partner->service->id, partner->id, total);
	if (message->public.kind == RIPC_REPLY) {
		if (large)
			ripc__quota_give(partner, SHARE_REPLIES, *large);
		ripc__answer_came(partner, message);
		return;
	}
	ripc__service_deliver(partner, message, large, announce ? ripc__whole_bytes(announce) : 0);
}

static void incoming_finish(struct incoming *incoming);

/* The message is in its queue; from now on its number is a duplicate. */
static void delivered(struct partner *partner, uint64_t number, uint64_t total)
{
	struct incoming *next;

	ripc__number_delivered(partner, number);
	ripc__point(partner->service->ctx, "before_done");
	ripc__ack_queue(partner, number, 0);
	/* The sender need not wait until the application has looked at so many bytes. */
	if (total >= ACK_AT_ONCE)
		ripc__acks_flush(partner->service->ctx);
	next = partner->ordering ? ripc__order_delivered(partner, number) : NULL;
	if (next)
		incoming_finish(next);
}

/* The message releases its credit, and its turn. */
static void incoming_let_go(struct incoming *incoming)
{
	ripc__grant_end(incoming);
	ripc__incoming_schedule(context_of(incoming));
}

static void timer_set(struct incoming *incoming, uint64_t at_us)
{
	ripc__timer_set(&context_of(incoming)->loop.timers, &incoming->timer, at_us);
}

/* The whole message is here, but not the message that must be delivered before it. */
static void wait_for_turn(struct incoming *incoming)
{
	incoming->complete = true;
	incoming_let_go(incoming);
	timer_set(incoming, incoming->heard_us + ripc__silence_us(context_of(incoming)));
}

static bool is_intact(const struct incoming *incoming)
{
	return incoming->settled || (incoming->sum_known && incoming->crc == incoming->sum);
}

/* All bytes are here: the message is delivered, waits for its turn, or was altered on the way. */
static void incoming_finish(struct incoming *incoming)
{
	struct partner *partner = incoming->partner;
	struct ripc_context *ctx = context_of(incoming);
	struct message *message = incoming->message;
	uint64_t number = incoming->number, total = incoming->total;

	ripc__point(ctx, "before_checksum");
	if (!is_intact(incoming)) {
		ctx->stats.drop_checksum++;
		ripc__incoming_refuse(incoming, -EBADMSG, true);
		return;
	}
	if (!ripc__order_may_pass(partner, incoming->previous)) {
		wait_for_turn(incoming);
		return;
	}
	if (incoming->lent)
		ripc__lent_free(incoming->lent);
	if (!incoming->settled)
		ripc__places_settle(message);
	if (incoming->ordered)
		ripc__order_passed(partner, number);
	deliver(partner, NULL, message, total, &incoming->quota);
	incoming->quota = (struct quota){0}; /* the message has it */
	incoming_free(incoming);
	delivered(partner, number, total);
}

/* The whole message came in one packet. */
static void deliver_whole(struct partner *partner, const struct wire_packet *packet,
		struct message *message)
{
	ripc__point(partner->service->ctx, "before_checksum");
	if (packet->h.flags & WIRE_F_ORDERED)
		ripc__order_passed(partner, packet->h.number);
	deliver(partner, packet, message, packet->announce.total, NULL);
	delivered(partner, packet->h.number, packet->announce.total);
}

/* ---- announced --------------------------------------------------------------------------- */

/*
 * A long message that is announced for the first time: whether it is accepted, refused, or put
 * off until there is room or its turn has come (protocol.md, long messages). If there is no
 * room, this section also finds out why, logs that, and decides whether waiting helps.
 *
 * Design notes. The share of a sender (partner/partner.c) counts its unread messages. Messages
 * that the application has read and keeps count for no sender, and only the pool knows that it
 * is full. One more try at the pool finds the cause: memory, or descriptors, of which each new
 * slab needs one.
 */

#define QUIET_US     60000000u /* after this long without a cause, it is logged anew */

/* Does a call wait for this reply? */
static bool is_awaited(struct partner *partner, const struct wire_packet *packet)
{
	struct ripc_context *ctx = partner->service->ctx;
	bool awaited = ripc__call_is_open(partner, packet->replies);

	ctx->stats.replies_late += !awaited;
	return awaited;
}

/* 0: the announced message may be accepted; otherwise the reason against it. */
static int admit(struct partner *partner, const struct wire_packet *packet)
{
	const struct ripc_service *service = partner->service;
	const struct ripc_context *ctx = service->ctx;
	uint64_t most = ctx->cfg.message_max_bytes;

	if (partner->denied && !ripc__is_permitted(partner, packet))
		return -EACCES;
	if (wire_is_answer(packet) && !is_awaited(partner, packet))
		return -ECANCELED;
	if (service->draining && !wire_is_answer(packet))
		return -ESHUTDOWN;
	if (wire_group(packet) && !ripc__may_publish(partner, wire_group(packet)))
		return -ENOENT;
	if (packet->announce.total > (most ? most : ctx->peers.quota_max[SHARE_LARGE] << 10) ||
			packet->announce.total >> 10 > LARGE_MAX ||
			packet->announce.total > SIZE_MAX / 2) /* a size_t may have 32 bits */
		return -EMSGSIZE;
	return 0;
}

static bool is_whole(const struct partner *partner, const struct wire_packet *packet)
{
	return packet->payload_len == packet->announce.total &&
		(wire_is_answer(packet) || list_empty(&partner->service->windows)) &&
		!(packet->replies && ripc__lent_by_id(partner->service, packet->replies));
}

static bool is_too_large(const struct partner *partner, const struct wire_packet *packet,
		enum share share)
{
	return partner->peer->host->quota[share] &&
		ripc__share_left(partner, share) < packet->announce.total >> 10;
}

/*
 * Does a reply exceed its share? A reply has room of its own, whatever of the partner is unread,
 * because its call is open. One reply at a time is received for each call. A reply that arrives
 * whole ends the call at once, and holds nothing.
 */
static bool reply_over_share(const struct partner *partner, const struct wire_packet *packet)
{
	return !is_whole(partner, packet) &&
		(incoming_replies(partner, packet->replies) ||
		is_too_large(partner, packet, SHARE_REPLIES));
}

/*
 * Does the message exceed the partner's share? Other partners need room, too, however greedy or
 * slow to be read this one is. If a host holds nothing, its message may be as long as there is
 * memory.
 */
static bool over_share(const struct partner *partner, const struct wire_packet *packet)
{
	if (wire_is_answer(packet))
		return reply_over_share(partner, packet);
	if (!ripc__queue_has_room(partner))
		return true;
	if (is_whole(partner, packet))
		return ripc__share_left(partner, SHARE_SMALL) < ripc__whole_bytes(packet);
	return ripc__share_left(partner, SHARE_UNFINISHED) == 0 ||
		is_too_large(partner, packet, SHARE_LARGE);
}

static void say_memory(const struct partner *partner, uint64_t total,
		const struct ripc__pool_stats *pool)
{
	ripc__log(partner->service->ctx, RIPC_LOG_WARN, "no room for a message of %llu bytes from "
		"service %016llx: the limit of the pool is %llu bytes, its size %llu, and %llu of "
		"these are in use by buffers and messages that were not freed. If the limit is too "
		"low, free them sooner or raise pool_bytes; if the pool is far below its limit, "
		"the system has no more memory. The sender keeps the message until its deadline",
		(unsigned long long)total, (unsigned long long)partner->id,
		(unsigned long long)pool->limit, (unsigned long long)pool->taken,
		(unsigned long long)pool->used);
}

/*
 * An announced message has found no place. True: memory that the application holds may be freed,
 * hence the sender must announce again. False: none is held, and waiting does not help. The
 * cause is logged once, and again after a minute without it.
 */
static bool room_may_come(struct partner *partner, uint64_t total)
{
	struct ripc_context *ctx = partner->service->ctx;
	bool is_new = ctx->receives.no_room_us == 0 ||
		ctx->now_us - ctx->receives.no_room_us >= QUIET_US;
	struct ripc__pool_stats pool;

	ctx->receives.no_room_us = ctx->now_us;
	ripc__pool_stats(ctx->pool, &pool);
	if (is_new)
		say_memory(partner, total, &pool);
	return pool.used > 0;
}

/* We are alive, but there is no room now: the sender keeps the message, and announces it again. */
static void answer_busy(struct partner *partner, uint64_t number, enum wire_busy why)
{
	struct wire_packet packet = {.h.number = number, .pull.busy = why};

	ripc__partner_send(partner, &packet, WIRE_PULL);
}

static void refuse_announced(struct partner *partner, uint64_t number, int error)
{
	partner->service->ctx->stats.messages_refused++;
	ripc__number_refused(partner, number, error);
	ripc__ack_queue(partner, number, error);
}

static void no_room(struct partner *partner, const struct wire_packet *packet)
{
	if (room_may_come(partner, packet->announce.total))
		answer_busy(partner, packet->h.number, WIRE_NO_ROOM);
	else
		refuse_announced(partner, packet->h.number, -ENOBUFS);
}

/* Is there no room, even if messages before their turn give way? */
static bool is_over_share(struct partner *partner, const struct wire_packet *packet)
{
	while (over_share(partner, packet)) {
		if (!ripc__queue_has_room(partner) || !ripc__order_yield(partner, packet))
			return true;
	}
	return false;
}

/*
 * Is it too early to keep the message? Bytes that the sender has written already lie at their
 * destination, and cannot be kept before their turn.
 */
static bool is_too_early(const struct partner *partner, const struct wire_packet *packet)
{
	return packet->announce.keys == WIRE_KEYS_WRITTEN &&
		!ripc__order_may_pass(partner, wire_previous(packet));
}

static bool incoming_new(struct partner *partner, const struct wire_packet *packet);

/* Accepts or refuses a message that was not announced before. */
static void announced_new(struct partner *partner, const struct wire_packet *packet)
{
	uint64_t number = packet->h.number;
	int error = ripc__order_check(partner, packet);

	if (error == -EAGAIN) {
		partner->service->ctx->stats.drop_duplicate++;
		return;
	}
	error = error ? error : admit(partner, packet);
	if (error) {
		refuse_announced(partner, number, error);
	} else if (is_over_share(partner, packet) || is_too_early(partner, packet)) {
		answer_busy(partner, number, WIRE_NO_CREDIT);
	} else if (!packet->replies || ripc__answer_may_land(partner, packet)) {
		if (packet->n_returns)
			ripc__offer_note(partner, packet);
		while (!incoming_new(partner, packet)) {
			if (ripc__order_yield(partner, packet))
				continue;
			no_room(partner, packet);
			break;
		}
	}
}

/* The sender needs no answers any more about numbers of the row that are below oldest. */
static void numbers_advance(struct partner *partner, struct longs *longs, uint64_t oldest)
{
	uint64_t ahead = oldest - longs->in_oldest;

	if (oldest <= longs->in_oldest)
		return;
	if (!list_empty(&partner->incoming))
		ripc__incoming_outdated(partner, longs, oldest);
	longs->in_delivered = ahead < 64 ? longs->in_delivered >> ahead : 0;
	longs->in_refused = ahead < 64 ? longs->in_refused >> ahead : 0;
	longs->in_oldest = oldest;
}

/* The sender wants a final answer, and will send no more. */
static void incoming_cancel(struct partner *partner, const struct wire_packet *packet)
{
	uint64_t number = packet->h.number, ahead;
	struct incoming *incoming;
	struct longs *longs;

	if (packet->announce.oldest > number || number == 0)
		return;
	longs = ripc__longs_open(partner, number);
	if (!longs)
		return;
	numbers_advance(partner, longs, packet->announce.oldest);
	incoming = incoming_find(partner, number); /* the message may just have been forgotten */
	ahead = number - longs->in_oldest;
	if (number < longs->in_oldest || ahead >= LONGS_MAX)
		return;
	if (longs->in_delivered >> ahead & 1) {
		ripc__ack_queue(partner, number, 0);
		ripc__acks_flush(partner->service->ctx);
	} else if (longs->in_refused >> ahead & 1) {
		ripc__ack_queue(partner, number, ripc__number_refusal(partner, number));
	} else if (incoming) {
		ripc__incoming_refuse(incoming, -ECANCELED, true);
	} else {
		/* Never announced here: the message must not be accepted when it arrives late. */
		ripc__number_refused(partner, number, -ECANCELED);
		ripc__ack_queue(partner, number, -ECANCELED);
	}
}

/* ---- arrive ------------------------------------------------------------------------------ */

/*
 * The arrival of a long message, and the requests that follow: its announcement, its bytes, and
 * timeouts (protocol.md, long messages).
 *
 * Design notes. limit - got bytes are on their way or lost; in_flight of them are taken to be on
 * their way, and hold credit. A look at a port finds many datagrams of a message: each is copied
 * at once, and what follows for credit, window and timer is computed once, for all of them
 * (ctx->receives.arriving).
 */

#define SILENCES_PLAIN   2u /* until the waits double: common on a path that loses much */
#define READ_AGAIN_US    1000u /* after the device took no read at all */

/* ---- requests for bytes ------------------------------------------------------------------ */

static uint64_t arrival_deadline(const struct incoming *incoming)
{
	return context_of(incoming)->now_us + incoming->wait_us;
}

/* While a message is read, repeated announcements show that its sender is there. */
static void fire_reading(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);
	uint64_t wait_us = incoming->reading->mover.n_busy ? incoming->wait_us : READ_AGAIN_US;

	if (ripc__reading_is_stuck(incoming->reading)) {
		ctx->stats.reads_failed++;
		ripc__reading_fail(incoming->reading);
		return;
	}
	timer_set(incoming, ctx->now_us + wait_us);
	ripc__moves_post(&ctx->receives.reads);
}

/* A reply that no call waits for any more is refused. True: the message is gone. */
static bool refuse_unwanted(struct incoming *incoming)
{
	struct partner *partner = incoming->partner;
	struct ripc_context *ctx = context_of(incoming);

	if (incoming->share != SHARE_REPLIES ||
			ripc__call_is_open(partner, incoming->message->public.reply))
		return false;
	ctx->stats.replies_late++;
	ripc__incoming_refuse(incoming, -ECANCELED, true);
	return true;
}

/* Requests bytes after some have arrived or credit has become free. */
static void update(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);

	if (incoming->got == incoming->total) {
		incoming_finish(incoming);
		return;
	}
	if (refuse_unwanted(incoming))
		return;
	/* The message had no arrivals before, and takes its turn again. */
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
		wait_for_turn(incoming);
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
	/* One timeout may be a lost request; two of the whole peer are more than that. */
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
	/* A message without arrivals must not keep others from their credit. */
	ripc__grant_silent(incoming);
}

/* ---- bytes ------------------------------------------------------------------------------- */

/* Updates the path and the timer after bytes have arrived. */
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
	struct incoming *incoming = ctx->receives.arriving;

	if (!incoming)
		return;
	ctx->receives.arriving = NULL;
	settle(incoming);
	if (!incoming->reading && !incoming->complete)
		update(incoming);
}

/* Handles a datagram that may be one of many; after the last byte nothing more is awaited. */
static void gather(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);

	if (ctx->receives.arriving != incoming)
		ripc__arrivals_settle(ctx);
	ctx->receives.arriving = incoming;
	if (incoming->got == incoming->total)
		ripc__arrivals_settle(ctx);
}

/* These bytes are here already: the bytes that we requested again were perhaps only late. */
static void unneeded(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);

	ctx->stats.drop_duplicate++;
	if (ctx->now_us - incoming->resent_us < ripc__peer_rto(ctx, incoming->partner->peer))
		ripc__peer_reorders(incoming->partner->peer);
	incoming->resent_us = 0;
}

/*
 * Returns how many bytes are new. Negative: the packet was altered, or there is no memory, and
 * the message was refused.
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

/* Takes the echo of the first datagram of its message that a look at a port finds. */
static void data_take(struct incoming *incoming, const struct wire_packet *packet)
{
	struct ripc_context *ctx = context_of(incoming);
	int64_t taken = take(incoming, packet, packet->offset);

	if (taken < 0)
		return;
	if (ctx->receives.arriving != incoming)
		ripc__data_echo_take(ctx, incoming->partner->peer, packet->echo);
	if (packet->payload_len > incoming->datagram_bytes)
		incoming->datagram_bytes = packet->payload_len;
	if (taken > 0)
		gather(incoming);
	else
		update(incoming);
}

/* Most often it is the message of the last datagram. */
static struct incoming *find(struct partner *partner, uint64_t number)
{
	struct incoming *arriving = partner->service->ctx->receives.arriving;

	if (arriving && arriving->partner == partner && arriving->number == number)
		return arriving;
	return incoming_find(partner, number);
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

/* Is there memory for the bytes of an announcement? Otherwise the message is refused, and gone. */
static bool has_memory(struct incoming *incoming, const struct wire_packet *packet)
{
	if (ripc__places_fault(incoming->message, 0, packet->payload_len) == 0)
		return true;
	ripc__incoming_refuse(incoming, -ENOBUFS, true);
	return false;
}

void ripc__incoming_was_read(struct incoming *incoming)
{
	incoming->got = incoming->total;
	incoming->sum = incoming->crc;
	incoming->sum_known = true;
	incoming_finish(incoming);
}

void ripc__incoming_unreadable(struct incoming *incoming)
{
	incoming->unreadable = true;
	incoming->heard_us = incoming->arrived_us = context_of(incoming)->now_us;
	timer_set(incoming, arrival_deadline(incoming));
	/*
	 * If the first read was refused at once, the message still waits for credit, or has
	 * some.
	 */
	if (incoming->limit < incoming->total && list_empty(&incoming->granted))
		ripc__grant_wait(incoming);
	/* Earlier bytes may have been overwritten. */
	if (incoming->limit)
		ripc__incoming_pull(incoming, incoming->limit);
}

/*
 * The sender has learnt who we are only after it had announced the message, and now opens it for
 * us.
 */
static bool read_instead(struct incoming *incoming, const struct wire_packet *packet)
{
	if (incoming->got > UNASKED_BYTES || !ripc__reading_start(incoming, packet))
		return false;
	if (!incoming->reading)
		return true; /* the first read failed at once: pulled as before */
	incoming_let_go(incoming);
	return true;
}

/* False: there is no room for the message. */
static bool accept_announced(struct partner *partner, const struct wire_packet *packet)
{
	struct incoming *incoming = incoming_alloc(partner, packet, NULL, fire);

	if (!incoming)
		return false;
	incoming->limit = packet->announce.unasked < UNASKED_BYTES ?
		packet->announce.unasked : UNASKED_BYTES;
	/* Nothing beyond the limit is accepted, hence the limit must not be beyond the places. */
	if (incoming->limit > incoming->total)
		incoming->limit = incoming->total;
	ripc__grant_expect(incoming);
	if (!has_memory(incoming, packet))
		return true;
	/* A device that accepts no read at first is tried again soon. */
	timer_set(incoming, !wire_has_keys(packet->announce.keys) ? arrival_deadline(incoming) :
		context_of(incoming)->now_us + READ_AGAIN_US);
	if (wire_has_keys(packet->announce.keys) &&
			ripc__reading_start(incoming, packet))
		return true;
	if (take(incoming, packet, 0) > 0)
		settle(incoming);
	if (incoming->got == incoming->total) {
		incoming_finish(incoming);
		return true;
	}
	/* The message was announced before, in vain, and these bytes were sent then. */
	if (packet->payload_len == 0 && incoming->limit)
		ripc__incoming_pull(incoming, incoming->limit);
	if (incoming->limit < incoming->total)
		ripc__grant_wait(incoming);
	return true;
}

/* Keeps a whole message before its turn. Without memory it counts as not arrived. */
static void keep(struct partner *partner, const struct wire_packet *packet,
		struct message *message)
{
	struct incoming *incoming = incoming_alloc(partner, packet, message, fire);

	if (!incoming) {
		ripc__message_free(message);
		return;
	}
	/* The answer is that for a message that is read: its sender must send nothing. */
	incoming->limit = packet->announce.unasked < incoming->total ? packet->announce.unasked :
		incoming->total;
	incoming->got = incoming->total;
	wait_for_turn(incoming);
}

/* Maps a given message, unless it is the answer to a message that has posted buffers for it. */
static struct message *map_given(struct partner *partner, const struct wire_packet *packet)
{
	if (packet->announce.keys != WIRE_KEYS_GIVEN ||
			(packet->replies && ripc__lent_by_id(partner->service, packet->replies)))
		return NULL;
	return ripc__mapped_message(partner, packet);
}

/* Takes in the announced message, or begins to. False: there is no room for the message. */
static bool incoming_new(struct partner *partner, const struct wire_packet *packet)
{
	bool came_whole = is_whole(partner, packet);
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
		deliver_whole(partner, packet, message);
	else
		keep(partner, packet, message);
	return true;
}

/* The sender has learnt only now who we are. Windows are for messages announced before them. */
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
	deliver_whole(partner, packet, message);
	return true;
}

/* Does the packet repeat the announcement of the message, whose places exist already? */
static bool is_repeated(const struct incoming *incoming, const struct wire_packet *packet)
{
	const struct ripc_msg *public = &incoming->message->public;
	bool same = packet->announce.total == incoming->total &&
		packet->announce.n_items == public->n_items;

	for (uint32_t i = 0; same && i < public->n_items; i++)
		same = wire_item_len(packet, i) == public->items[i].iov_len;
	return same;
}

/* The sender has received nothing for a while. */
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
		incoming_finish(incoming);
	else
		ripc__incoming_pull(incoming, overdue ? incoming->limit : 0);
}

/* Replies, and only they, have numbers of that row; they have no order. */
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
	numbers_advance(partner, longs, packet->announce.oldest);
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
	} else if ((incoming = incoming_find(partner, number))) {
		if (!is_repeated(incoming, packet)) {
			service->ctx->stats.drop_malformed++;
			return;
		}
		if (packet->n_returns)
			ripc__offer_note(partner, packet);
		announce_again(incoming, packet);
	} else {
		announced_new(partner, packet);
	}
}

packet_handler *const ripc__receive_handlers[WIRE_TYPE_END] = {
	[WIRE_ANNOUNCE] = ripc__incoming_announce,
	[WIRE_CANCEL] = incoming_cancel,
};
