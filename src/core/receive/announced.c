/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A long message that is announced for the first time: whether it is accepted, refused, or put off
 * until there is room or its turn has come (protocol.md, long messages). If there is no room, this
 * file also finds out why, says so in the log, and tells whether waiting helps.
 *
 * Design notes. The share of a sender (partner/share.c) counts its unread messages. Messages that
 * the application has read and keeps count for nobody, and only the pool knows that it is full. The
 * cause is found by asking the pool once more: memory, or descriptors, of which each new slab needs
 * one.
 */
#include <errno.h>

#include "announced.h"
#include "arrive.h"
#include "core/base/base.h"
#include "core/memory/pool.h"
#include "core/message/lent.h"
#include "core/message/offers.h"
#include "core/message/queue.h"
#include "core/message/returns.h"
#include "core/objects.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/partner/rights.h"
#include "core/partner/share.h"
#include "core/peer/peer.h"
#include "core/peer/share.h"
#include "core/upcalls.h"
#include "core/wire/wire.h"
#include "incoming.h"
#include "order.h"
#include "permit.h"
#include "util/list.h"

#define QUIET_US     60000000u /* after so long without a cause, it is told anew */

/* Does a call wait for this reply? */
static bool is_awaited(struct partner *partner, const struct wire_packet *packet)
{
	struct ripc_context *ctx = partner->service->ctx;
	bool awaited = ctx->up->call_is_open(partner, packet->replies);

	ctx->stats.replies_late += !awaited;
	return awaited;
}

/* 0: the announced message may be accepted; else why not. */
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
	if (packet->announce.total > (most ? most : ctx->held_max[SHARE_LARGE] << 10) ||
			packet->announce.total >> 10 > LARGE_MAX ||
			packet->announce.total > SIZE_MAX / 2) /* a size_t may have 32 bits */
		return -EMSGSIZE;
	return 0;
}

bool ripc__is_whole(const struct partner *partner, const struct wire_packet *packet)
{
	return packet->payload_len == packet->announce.total &&
		(wire_is_answer(packet) || list_empty(&partner->service->windows)) &&
		!(packet->replies && ripc__lent_by_id(partner->service, packet->replies));
}

static bool is_too_large(const struct partner *partner, const struct wire_packet *packet,
		enum share share)
{
	return partner->peer->host->held[share] &&
		ripc__share_left(partner, share) < packet->announce.total >> 10;
}

/*
 * A reply has room of its own, whatever of the partner is unread: its call is open. One at a time
 * is received for each call. What came whole ends the call at once, and holds nothing.
 */
static bool reply_over_share(const struct partner *partner, const struct wire_packet *packet)
{
	return !ripc__is_whole(partner, packet) &&
		(ripc__incoming_replies(partner, packet->replies) ||
		is_too_large(partner, packet, SHARE_REPLIES));
}

/*
 * The others need room, too, however greedy or slow to be read this one is. But a message of a
 * host that holds nothing may be as long as there is memory.
 */
static bool over_share(const struct partner *partner, const struct wire_packet *packet)
{
	if (wire_is_answer(packet))
		return reply_over_share(partner, packet);
	if (!ripc__queue_has_room(partner))
		return true;
	if (ripc__is_whole(partner, packet))
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
 * An announced message has found no place. True: held memory may be freed, so the sender must ask
 * again. False: none is held, and waiting does not help. The log tells why, once; again after a
 * minute without that.
 */
static bool room_may_come(struct partner *partner, uint64_t total)
{
	struct ripc_context *ctx = partner->service->ctx;
	bool is_new = ctx->no_room_us == 0 || ctx->now_us - ctx->no_room_us >= QUIET_US;
	struct ripc__pool_stats pool;

	ctx->no_room_us = ctx->now_us;
	ripc__pool_stats(ctx->pool, &pool);
	if (is_new)
		say_memory(partner, total, &pool);
	return pool.used > 0;
}

/* Alive, but there is no room now: the sender keeps it, and asks again. */
static void answer_busy(struct partner *partner, uint64_t number, enum wire_busy why)
{
	struct wire_packet packet = {.h.number = number, .pull.busy = why};

	ripc__partner_header(partner, &packet, WIRE_PULL);
	ripc__partner_send(partner, &packet);
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

/* Is there no room, even if what came before its turn gives way? */
static bool is_over_share(struct partner *partner, const struct wire_packet *packet)
{
	while (over_share(partner, packet)) {
		if (!ripc__queue_has_room(partner) || !ripc__order_yield(partner, packet))
			return true;
	}
	return false;
}

/* What has been written lies where it is to stay: it cannot be kept before its turn. */
static bool is_too_early(const struct partner *partner, const struct wire_packet *packet)
{
	return packet->announce.keys == WIRE_KEYS_WRITTEN &&
		!ripc__order_may_pass(partner, wire_previous(packet));
}

void ripc__announced_new(struct partner *partner, const struct wire_packet *packet)
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
		while (!ripc__incoming_new(partner, packet)) {
			if (ripc__order_yield(partner, packet))
				continue;
			no_room(partner, packet);
			break;
		}
	}
}

/* The sender wants to know, finally, and will not send any more. */
void ripc__incoming_cancel(struct partner *partner, const struct wire_packet *packet)
{
	uint64_t number = packet->h.number, ahead;
	struct incoming *incoming;
	struct longs *longs;

	if (packet->announce.oldest > number || number == 0)
		return;
	longs = ripc__longs_open(partner, number);
	if (!longs)
		return;
	ripc__numbers_advance(partner, longs, packet->announce.oldest);
	incoming = ripc__incoming_find(partner, number); /* it may just have been forgotten */
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
		/* Never announced here: it must not be accepted when it comes late. */
		ripc__number_refused(partner, number, -ECANCELED);
		ripc__ack_queue(partner, number, -ECANCELED);
	}
}
