/* SPDX-License-Identifier: BSD-3-Clause */
/* How a long message begins: whether it may, what it takes, and to whom it goes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/memory/pool.h"
#include "core/message/mapped.h"
#include "core/message/offers.h"
#include "core/objects.h"
#include "core/partner/claim.h"
#include "core/partner/death.h"
#include "core/partner/find.h"
#include "core/partner/partner.h"
#include "cork.h"
#include "moving.h"
#include "order.h"
#include "outgoing.h"
#include "start.h"
#include "util/list.h"
#include "util/timers.h"

#define WAITING_MAX     256u /* to one partner, before a RIPC_NOWAIT send meets -EAGAIN */
#define OUTGOING_MAX    16384u /* to one partner; its count holds that of a few, whose sends move */
#define ANSWERS_MAX     4096u /* the same, of an answer to a question */

static void count_foreign(struct ripc_context *ctx, const struct ripc_send *request)
{
	bool foreign = false;

	if (request->flags & RIPC_GIVE) /* in buffers, of the pool or of partners */
		return;
	for (uint32_t i = 0; i < request->n_items; i++)
		foreign |= !ripc__pool_owns(ctx->pool, request->items[i].iov_base,
			request->items[i].iov_len);
	ctx->stats.sends_from_foreign_memory += foreign;
}

/* Behind the items, of which there are so many bytes. */
static void items_copy(struct outgoing *outgoing)
{
	char *at = (char *)&outgoing->items[outgoing->n_items];

	for (uint32_t i = 0; i < outgoing->n_items; i++) {
		struct iovec *item = &outgoing->items[i];

		if (item->iov_len)
			memcpy(at, item->iov_base, item->iov_len);
		item->iov_base = at;
		at += item->iov_len;
	}
}

static struct outgoing *outgoing_alloc(struct ripc_service *service,
		const struct ripc_send *request, uint64_t total, bool copies)
{
	struct outgoing *outgoing = calloc(1, sizeof(*outgoing) +
		request->n_items * sizeof(struct iovec) + (copies ? total : 0));
	uint64_t timeout_ms = request->timeout_ms > 0 ? (uint64_t)request->timeout_ms :
		service->ctx->cfg.timeout_ms;

	if (!outgoing)
		return NULL;
	outgoing->service = service;
	outgoing->message.ctx = service->ctx;
	outgoing->message.home = MESSAGE_OUTGOING;
	list_init(&outgoing->message.node);
	list_init(&outgoing->fencing);
	outgoing->timer.fire = ripc__outgoing_fire;
	outgoing->to = request->to;
	outgoing->to_incarnation = request->to_incarnation;
	outgoing->total = total;
	outgoing->cookie = request->cookie;
	outgoing->replies = request->reply_to;
	outgoing->flags = request->flags;
	outgoing->waiter = !(request->flags & RIPC_NOWAIT);
	outgoing->started_us = service->ctx->now_us;
	outgoing->deadline_us = service->ctx->now_us + timeout_ms * 1000;
	outgoing->n_items = request->n_items;
	memcpy(outgoing->items, request->items, request->n_items * sizeof(struct iovec));
	if (copies)
		items_copy(outgoing);
	return outgoing;
}

/* Are as many under way to the partner as may be? Answers, which it has asked for, count apart. */
static bool is_full(const struct partner *partner, const struct sending *like)
{
	if (like->queues)
		return false;
	return wire_answers(&like->call) ? partner->n_replies >= ANSWERS_MAX :
		partner->n_outgoing >= WAITING_MAX;
}

bool ripc__member_is_full(struct ripc_service *service, uint64_t group,
		const struct ripc__member *member)
{
	struct partner *partner;

	if (ripc__find_member(service, group, member, &partner) ||
			partner->n_outgoing < WAITING_MAX)
		return false;
	partner->blocked = true;
	return true;
}

/*
 * The partner that is answered, or was chosen by its handle; NULL: the message is no answer, or its
 * partner is to be found.
 */
static struct partner *asker_of(const struct ripc_service *service,
		const struct ripc_send *request, const struct sending *like)
{
	if (request->to_handle)
		return ripc__find_sender(service, request->to_handle);
	/* What is ordered overtakes nothing. */
	if (like->to || !request->reply_to || request->flags & RIPC_ORDERED)
		return like->to;
	return ripc__claim_asker(service, request->to, request->reply_to);
}

int ripc__outgoing_start(struct ripc_service *service, const struct ripc_send *request,
		const struct sending *like, struct outgoing **outgoing_out)
{
	struct ripc_context *ctx = service->ctx;
	struct partner *asker = asker_of(service, request, like), *partner = asker;
	struct outgoing *outgoing;
	uint64_t total;
	bool copies;
	int error = ripc__sum_items(request->items, request->n_items, &total);

	if (!error && request->flags & RIPC_GIVE)
		error = ripc__buffers_check(ctx, request->items, request->n_items);
	/* A message to a group may begin outside calls. */
	if (!error && like->delivery)
		error = ripc__find_member(service, like->lends, &(struct ripc__member){request->to,
			request->to_incarnation}, &partner);
	else if (!error && !asker)
		error = request->to_handle ? -ENOENT :
			ripc__find_for_long(service, request->to, &partner);
	if (error)
		return error;
	if (request->flags & RIPC_ORDERED && ctx->n_gaps &&
			ripc__order_has_gap(service, partner, request->to))
		return -ECANCELED;
	if ((request->flags & (RIPC_NOWAIT | RIPC_AWAITED)) == RIPC_NOWAIT &&
			is_full(partner, like)) {
		partner->blocked = true;
		return -EAGAIN;
	}
	if (partner->n_outgoing >= OUTGOING_MAX && !wire_answers(&like->call))
		return -ENOMEM;
	if (request->to_incarnation && (partner->peer ?
			partner->incarnation != request->to_incarnation :
			ripc__death_is_known(service, request->to_incarnation)))
		return -ENOENT;
	if (wire_answers(&like->call) && !ripc__longs_open(partner, WIRE_REPLIES))
		return -ENOMEM;
	copies = like->copies && total <= COPIED_MAX;
	outgoing = outgoing_alloc(service, request, total, copies);
	if (!outgoing)
		return -ENOMEM;
	error = ripc__timer_admit(ctx);
	if (error) {
		free(outgoing);
		return error;
	}
	if (!copies)
		count_foreign(ctx, request);
	outgoing->lends = like->lends;
	outgoing->call = like->call;
	outgoing->asked_by = like->asked_by;
	outgoing->delivery = like->delivery;
	outgoing->sums = like->sums;
	outgoing->by_handle = request->to_handle;
	outgoing->direct = outgoing->by_handle || (asker && !asker->resolved);
	if (request->flags & RIPC_ORDERED)
		ripc__order_begin(outgoing);
	ripc__partner_use(partner, request);
	ripc__outgoing_begin(outgoing, partner);
	if (request->reply_to)
		outgoing->offer = ripc__offer_take(partner, request->reply_to);
	*outgoing_out = outgoing;
	if (!ripc__cork(outgoing)) {
		if (ctx->n_corked)
			ripc__corked_flush(ctx);
		ripc__outgoing_advance(partner);
	}
	return 0;
}
