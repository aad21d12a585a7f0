/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a long message that has come: checksum of the whole, into the queue, remembered, then
 * the answer, in this order. A message that comes before its turn waits for it.
 */
#include <errno.h>

#include "core/message/lent.h"
#include "core/message/message.h"
#include "core/message/places.h"
#include "core/message/queue.h"
#include "core/objects.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/partner/share.h"
#include "core/partner/token.h"
#include "core/peer/timing.h"
#include "core/upcalls.h"
#include "core/wire/wire.h"
#include "deliver.h"
#include "grant.h"
#include "incoming.h"
#include "order.h"
#include "util/probe.h"
#include "util/timers.h"

#define ACK_AT_ONCE (1u << 20) /* bytes of a message whose ack waits for nothing */

/* announce: of a message that came whole, or NULL; then large is what it holds. */
static void deliver(struct partner *partner, const struct wire_packet *announce,
		struct message *message, uint64_t total, const struct holding *large)
{
	struct ripc_stats *stats = &partner->service->ctx->stats;

	if (announce)
		message->public.reply = announce->lends;
	if (announce && announce->call.kind)
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
			ripc__share_release(partner, SHARE_REPLIES, *large);
		partner->service->ctx->up->answer_came(partner, message);
		return;
	}
	ripc__service_deliver(partner, message, large, announce ? ripc__whole_bytes(announce) : 0);
}

/* The message is in its queue; from now on its number is a duplicate. */
static void delivered(struct partner *partner, uint64_t number, uint64_t total)
{
	struct incoming *next;

	ripc__number_delivered(partner, number);
	ripc__point(partner->service->ctx, "before_done");
	ripc__ack_queue(partner, number, 0);
	/* Its sender need not wait until the application has looked at so much. */
	if (total >= ACK_AT_ONCE)
		ripc__acks_flush(partner->service->ctx);
	next = partner->ordering ? ripc__order_delivered(partner, number) : NULL;
	if (next)
		ripc__incoming_finish(next);
}

void ripc__incoming_let_go(struct incoming *incoming)
{
	ripc__grant_end(incoming);
	ripc__incoming_schedule(incoming->partner->service->ctx);
}

void ripc__wait_for_turn(struct incoming *incoming)
{
	struct ripc_context *ctx = incoming->partner->service->ctx;

	incoming->complete = true;
	ripc__incoming_let_go(incoming);
	ripc__timer_set(&ctx->timers, &incoming->timer,
		incoming->heard_us + ripc__silence_us(ctx));
}

static bool is_intact(const struct incoming *incoming)
{
	return incoming->settled || (incoming->sum_known && incoming->crc == incoming->sum);
}

void ripc__incoming_finish(struct incoming *incoming)
{
	struct partner *partner = incoming->partner;
	struct ripc_context *ctx = incoming->partner->service->ctx;
	struct message *message = incoming->message;
	uint64_t number = incoming->number, total = incoming->total;

	ripc__point(ctx, "before_checksum");
	if (!is_intact(incoming)) {
		ctx->stats.drop_checksum++;
		ripc__incoming_refuse(incoming, -EBADMSG, true);
		return;
	}
	if (!ripc__order_may_pass(partner, incoming->previous)) {
		ripc__wait_for_turn(incoming);
		return;
	}
	if (incoming->lent)
		ripc__lent_free(incoming->lent);
	if (!incoming->settled)
		ripc__places_settle(message);
	if (incoming->ordered)
		ripc__order_passed(partner, number);
	deliver(partner, NULL, message, total, &incoming->held);
	incoming->held = (struct holding){0}; /* the message has it */
	ripc__incoming_free(incoming);
	delivered(partner, number, total);
}

void ripc__deliver_whole(struct partner *partner, const struct wire_packet *packet,
		struct message *message)
{
	ripc__point(partner->service->ctx, "before_checksum");
	if (packet->h.flags & WIRE_F_ORDERED)
		ripc__order_passed(partner, packet->h.number);
	deliver(partner, packet, message, packet->announce.total, NULL);
	delivered(partner, packet->h.number, packet->announce.total);
}
