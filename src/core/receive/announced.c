/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A long message that is announced for the first time: whether it is accepted, refused, or put off
 * until there is room or its turn has come (protocol.md, long messages).
 */
#include <errno.h>

#include "admit.h"
#include "announced.h"
#include "arrive.h"
#include "core/message/offers.h"
#include "core/message/queue.h"
#include "core/message/returns.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/wire/wire.h"
#include "incoming.h"
#include "order.h"

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
	if (ripc__room_may_come(partner, packet))
		answer_busy(partner, packet->h.number, WIRE_NO_ROOM);
	else
		refuse_announced(partner, packet->h.number, -ENOBUFS);
}

/* Is there no room, even if what came before its turn gives way? */
static bool is_over_share(struct partner *partner, const struct wire_packet *packet)
{
	while (ripc__over_share(partner, packet)) {
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
	error = error ? error : ripc__admit(partner->service, packet);
	if (error) {
		refuse_announced(partner, number, error);
	} else if (is_over_share(partner, packet) || is_too_early(partner, packet)) {
		answer_busy(partner, number, WIRE_BUSY);
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

	if (packet->announce.oldest > number || number == 0)
		return;
	ripc__numbers_advance(partner, packet->announce.oldest);
	incoming = ripc__incoming_find(partner, number); /* it may just have been forgotten */
	ahead = number - partner->in_oldest;
	if (number < partner->in_oldest || ahead >= LONGS_MAX)
		return;
	if (partner->in_delivered >> ahead & 1) {
		ripc__ack_queue(partner, number, 0);
		ripc__acks_flush(partner->service->ctx);
	} else if (partner->in_refused >> ahead & 1) {
		ripc__ack_queue(partner, number, ripc__number_refusal(partner, number));
	} else if (incoming) {
		ripc__incoming_refuse(incoming, -ECANCELED, true);
	} else {
		/* Never announced here: it must not be accepted when it comes late. */
		ripc__number_refused(partner, number, -ECANCELED);
		ripc__ack_queue(partner, number, -ECANCELED);
	}
}
