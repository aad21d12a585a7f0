/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages that are being received: made, refused, forgotten. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "core/message/lent.h"
#include "core/message/message.h"
#include "core/message/places.h"
#include "core/objects.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/partner/share.h"
#include "core/peer/path.h"
#include "core/peer/peer.h"
#include "core/peer/share.h"
#include "core/wire/wire.h"
#include "grant.h"
#include "incoming.h"
#include "order.h"
#include "read.h"
#include "util/list.h"
#include "util/timers.h"

static struct ripc_context *context_of(const struct incoming *incoming)
{
	return incoming->partner->service->ctx;
}

struct incoming *ripc__incoming_find(struct partner *partner, uint64_t number)
{
	list_for_each(node, &partner->incoming) {
		struct incoming *incoming = list_entry(node, struct incoming, node);

		if (incoming->number == number)
			return incoming;
	}
	return NULL;
}

void ripc__incoming_free(struct incoming *incoming)
{
	struct ripc_context *ctx = context_of(incoming);

	if (ctx->arriving == incoming)
		ctx->arriving = NULL;
	ripc__grant_end(incoming);
	ripc__timer_dismiss(ctx, &incoming->timer);
	list_remove(&incoming->node);
	ripc__share_release(incoming->partner, incoming->share, incoming->held);
	if (incoming->share != SHARE_REPLIES)
		ripc__share_take(incoming->partner, SHARE_UNFINISHED, -1);
	incoming->partner->service->n_incoming--;
	ctx->n_busy--;
	ctx->changed = true;
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
	ripc__incoming_free(incoming);
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

bool ripc__incoming_replies(const struct partner *partner, uint64_t id)
{
	list_for_each(node, &partner->incoming) {
		const struct incoming *incoming = list_entry(node, struct incoming, node);

		if (incoming->share == SHARE_REPLIES && incoming->message->public.reply == id)
			return true;
	}
	return false;
}

void ripc__incoming_stop(struct ripc_context *ctx, const struct lent *lent)
{
	if (!lent->in_use)
		return;
	list_for_each(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		list_for_each(in, &partner->incoming) {
			struct incoming *incoming = list_entry(in, struct incoming, node);

			if (incoming->lent != lent)
				continue;
			ripc__incoming_refuse(incoming, -ECANCELED, true);
			return;
		}
	}
}

struct incoming *ripc__incoming_alloc(struct partner *partner,
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
	incoming->message->public.reply = packet->lends;
	if (packet->call.kind)
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
	incoming->held = ripc__share_hold(partner, incoming->share, message ?
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
	ctx->n_busy++;
	return incoming;
err_dismiss:
	ripc__timer_dismiss(ctx, &incoming->timer);
err_free:
	free(incoming);
	return NULL;
}
