/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long messages that we send end: the outcome, who is told of it, and when the application
 * gets the items back.
 *
 * Design notes. What the partner could read is closed before the end is told, so that the items
 * are the application's when it hears of it. A call does not wait for that beyond its deadline:
 * then the outcome is UNKNOWN, and a notice says when the items are free. With a given message it
 * is otherwise: its references are not the application's any more. They are kept here, in
 * ctx->ended, as long as the receiver has the items mapped: the ledger of what others hold.
 *
 * What was lent for the answer comes back when the message was not delivered. So no answer is
 * taken from when that is decided; and it is not decided while one is being received, since that
 * goes into what was lent: the outcome is UNKNOWN then, which leaves it lent.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "core/message/ends.h"
#include "core/message/lent.h"
#include "core/message/mapped.h"
#include "core/message/queue.h"
#include "core/message/returns.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/upcalls.h"
#include "ended.h"
#include "opened.h"
#include "order.h"
#include "outgoing.h"
#include "util/list.h"
#include "write.h"

static struct ripc_context *context_of(const struct outgoing *outgoing)
{
	return outgoing->message.ctx;
}

void ripc__outgoing_put(struct outgoing *outgoing)
{
	if (outgoing->waiter || outgoing->reported || !list_empty(&outgoing->fencing))
		return;
	if (outgoing->gap)
		ripc__order_told(outgoing);
	list_remove(&outgoing->node);
	free(outgoing);
}

void ripc__outgoing_freed(struct message *message)
{
	struct outgoing *outgoing = list_entry(message, struct outgoing, message);

	outgoing->reported = false;
	ripc__outgoing_put(outgoing);
}

static void count_outcome(struct outgoing *outgoing)
{
	struct ripc_stats *stats = &context_of(outgoing)->stats;

	if (outgoing->outcome == RIPC_DELIVERED) {
		stats->long_sent++;
		stats->long_sent_bytes += outgoing->total;
	} else if (outgoing->outcome == RIPC_UNKNOWN) {
		stats->long_unknown++;
	} else {
		stats->long_not_delivered++;
	}
}

/* What is lent for its answer, or NULL. */
static struct lent *lent_of(const struct outgoing *outgoing)
{
	return outgoing->lends && outgoing->service ?
		ripc__lent_by_id(outgoing->service, outgoing->lends) : NULL;
}

/* A partner that says that it did not arrive is wrong, or lies: only its receiver can answer it. */
static bool is_being_answered(const struct outgoing *outgoing)
{
	const struct lent *lent = lent_of(outgoing);

	return lent && lent->in_use;
}

/* Nothing is to land any more in what was lent for its answer, which comes back with its end. */
static void refuse_answer(struct outgoing *outgoing)
{
	struct lent *lent = lent_of(outgoing);

	if (!lent)
		return;
	ripc__returns_close(lent, outgoing, &outgoing->fencing);
	lent->cancelled = true;
}

static void take_back_lent(struct outgoing *outgoing)
{
	struct lent *lent = lent_of(outgoing);

	if (lent)
		ripc__lent_free(lent);
}

/* Its COMPLETION has no service any more that the application could receive it from. */
static bool is_untold(const struct outgoing *outgoing)
{
	return !outgoing->service && outgoing->flags & RIPC_NOWAIT && !outgoing->call.kind;
}

/*
 * Did the receiver take its references, or may it have? Those of an answer, and of a message to a
 * member of a group, are ours in any case. Without a COMPLETION the application cannot know.
 */
static bool is_given(const struct outgoing *outgoing)
{
	return outgoing->flags & RIPC_GIVE && (outgoing->outcome != RIPC_NOT_DELIVERED ||
		outgoing->call.kind > WIRE_CALL_ASKS || is_untold(outgoing));
}

/*
 * Are its references ours, whatever becomes of the message? Those of a request are: the call has
 * references of its own (call/call.c).
 */
static bool is_ours(const struct outgoing *outgoing)
{
	return is_given(outgoing) || (outgoing->flags & RIPC_GIVE &&
		outgoing->call.kind == WIRE_CALL_ASKS);
}

static void drop_given(struct outgoing *outgoing)
{
	ripc__buffers_free(context_of(outgoing), outgoing->items, outgoing->n_items);
}

void ripc__outgoing_untold(struct message *message)
{
	struct outgoing *outgoing = list_entry(message, struct outgoing, message);

	if (outgoing->flags & RIPC_GIVE && outgoing->outcome == RIPC_NOT_DELIVERED)
		drop_given(outgoing);
}

/* The items are the application's again, or given away. */
static void report(struct outgoing *outgoing)
{
	struct ripc_msg *public = &outgoing->message.public;
	bool nowait = outgoing->flags & RIPC_NOWAIT;

	if (is_ours(outgoing) && !outgoing->held)
		drop_given(outgoing);
	if (outgoing->asked_by)
		context_of(outgoing)->up->question_ended(outgoing);
	else if (outgoing->delivery)
		context_of(outgoing)->up->delivery_ended(outgoing);
	public->kind = nowait ? RIPC_COMPLETION : RIPC_NOTICE;
	public->outcome = outgoing->outcome;
	public->status = nowait ? outgoing->status : 0;
	public->from = outgoing->to;
	public->cookie = outgoing->cookie;
	outgoing->reported = outgoing->service && !outgoing->call.kind &&
		(nowait || outgoing->outcome == RIPC_UNKNOWN);
	if (outgoing->reported)
		ripc__end_report(outgoing->service, &outgoing->message,
			outgoing->flags & RIPC_AWAITED);
	else
		ripc__outgoing_put(outgoing);
}

void ripc__outgoing_unblock(struct partner *partner)
{
	struct ripc_service *service = partner->service;

	if (partner->blocked)
		ripc__service_notice(service, &service->retry, 0);
	partner->blocked = false;
}

static void decide(struct outgoing *outgoing, enum ripc_outcome outcome, int status)
{
	outgoing->outcome = outcome;
	outgoing->status = outcome == RIPC_UNKNOWN ? -ECONNRESET : status;
}

static void conclude(struct outgoing *outgoing)
{
	outgoing->state = OUT_ENDED;
	context_of(outgoing)->changed = true;
	count_outcome(outgoing);
	if (outgoing->outcome == RIPC_NOT_DELIVERED)
		take_back_lent(outgoing);
}

static uint16_t *count_of(const struct outgoing *outgoing)
{
	struct partner *partner = outgoing->partner;

	return wire_answers(&outgoing->call) ? &partner->n_replies : &partner->n_outgoing;
}

void ripc__outgoing_link(struct outgoing *outgoing, struct partner *partner)
{
	outgoing->partner = partner;
	*count_of(outgoing) += 1;
	list_append(&ripc__row_of(outgoing)->outgoing, &outgoing->node);
	if (outgoing->flags & RIPC_ORDERED)
		ripc__order_link(outgoing, partner);
}

void ripc__outgoing_unlink(struct outgoing *outgoing)
{
	outgoing->partner->under_way -= outgoing->unasked;
	*count_of(outgoing) -= 1;
	outgoing->unasked = 0;
	list_remove(&outgoing->node);
}

/* Nobody holds what was given any more. */
static void come_home(struct outgoing *outgoing)
{
	outgoing->held = false;
	context_of(outgoing)->stats.given_held_bytes -= outgoing->total;
	drop_given(outgoing);
	ripc__outgoing_put(outgoing);
}

void ripc__ended_let_go(struct ripc_context *ctx)
{
	list_for_each(node, &ctx->ended) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);

		if (!list_empty(&outgoing->fencing) && is_ours(outgoing))
			drop_given(outgoing);
	}
}

/* What was given, and is held, need not be waited for. */
static void hold(struct outgoing *outgoing)
{
	outgoing->held = true;
	context_of(outgoing)->stats.given_held_bytes += outgoing->total;
	conclude(outgoing);
	report(outgoing);
}

/* The partner cannot read any of its items any more. */
static void fenced(struct outgoing *outgoing)
{
	struct ripc_context *ctx = context_of(outgoing);
	bool is_free = list_empty(&outgoing->fencing);

	if (!is_free && outgoing->state == OUT_FENCING && is_given(outgoing))
		hold(outgoing);
	if (outgoing->state < OUT_FENCING || !is_free)
		return;
	if (outgoing->held) {
		come_home(outgoing);
		return;
	}
	ctx->n_orphans -= outgoing->service == NULL;
	ctx->changed = true;
	if (outgoing->state == OUT_FENCING)
		conclude(outgoing);
	report(outgoing);
}

void ripc__outgoing_end(struct outgoing *outgoing, enum ripc_outcome outcome, int status)
{
	struct ripc_context *ctx = context_of(outgoing);
	struct partner *partner = outgoing->partner;

	if (outcome == RIPC_NOT_DELIVERED && is_being_answered(outgoing))
		outcome = RIPC_UNKNOWN;
	if (outgoing->flags & RIPC_ORDERED)
		ripc__order_ends(outgoing, outcome);
	if (outgoing->writing)
		ripc__writing_leave(outgoing);
	if (outgoing->offer)
		ripc__offer_free(outgoing);
	if (outgoing->opened && outcome == RIPC_NOT_DELIVERED)
		ripc__opened_close(outgoing);
	else if (outgoing->opened)
		ripc__opened_hand(outgoing, outcome == RIPC_DELIVERED);
	if (outcome == RIPC_NOT_DELIVERED)
		refuse_answer(outgoing);
	decide(outgoing, outcome, status);
	outgoing->state = OUT_FENCING;
	ctx->n_busy -= outgoing->busy;
	outgoing->busy = false;
	outgoing->to_incarnation = partner->incarnation; /* who may hold it: ripc_holders() */
	ripc__outgoing_unlink(outgoing);
	outgoing->partner = NULL;
	list_append(&ctx->ended, &outgoing->node);
	ripc__timer_dismiss(ctx, &outgoing->timer);
	ripc__outgoing_unblock(partner);
	fenced(outgoing);
}

void ripc__fence_lift(struct fence *fence)
{
	struct outgoing *outgoing = fence->outgoing;

	list_remove(&fence->node);
	if (list_empty(&outgoing->fencing))
		fenced(outgoing);
}

void ripc__outgoing_orphan(struct ripc_service *service)
{
	list_for_each(node, &service->ctx->ended) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);

		if (outgoing->service != service || list_empty(&outgoing->fencing))
			continue;
		outgoing->service = NULL;
		service->ctx->n_orphans += !outgoing->held;
	}
}

void ripc__outgoing_unknown(struct outgoing *outgoing)
{
	decide(outgoing, RIPC_UNKNOWN, -ECONNRESET);
	conclude(outgoing);
}
