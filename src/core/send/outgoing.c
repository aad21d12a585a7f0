/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages that we send: when each gets its number, what happens without a response, and
 * the packets of the receiver (protocol.md, long messages). The section ended has how they end.
 *
 * Design notes. An outgoing is in its partner's list until it has ended, in the order of
 * numbers; a message gets its number when there is room (LONGS_MAX in progress). NOT_DELIVERED
 * is only reported if the receiver refused, or some byte was never sent and never will be.
 * heard_us is renewed by the partner's packets about this very message, never by our own sends.
 * The deadline ends everything.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "announce.h"
#include "core/base/base.h"
#include "core/call/call.h"
#include "core/group/fanout.h"
#include "core/memory/pool.h"
#include "core/message/message.h"
#include "core/message/move.h"
#include "core/message/queue.h"
#include "core/message/returns.h"
#include "core/objects.h"
#include "core/partner/claim.h"
#include "core/partner/death.h"
#include "core/partner/find.h"
#include "core/partner/partner.h"
#include "core/partner/rights.h"
#include "core/partner/roam.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "core/wire/wire.h"
#include "internal.h"
#include "exposed.h"
#include "order.h"
#include "outgoing.h"
#include "short.h"
#include "util/list.h"
#include "util/probe.h"
#include "util/timers.h"

/* ---- ended ------------------------------------------------------------------------------- */

/*
 * How long messages that we send end: the outcome, who gets the report, and when the application
 * gets the items back.
 *
 * Design notes. Keys of the partner are closed before the end is reported: the items are the
 * application's when it hears of the end. A call does not wait for that beyond its deadline:
 * then the outcome is UNKNOWN, and a notice says when the items are free. The references of a
 * given message do not return to the application. They are kept here, in ctx->sends.ended, as
 * long as the receiver has the items mapped: the ledger of what others hold.
 *
 * Return buffers that were posted for the reply come back when the message was not delivered.
 * Hence no reply is accepted after that is decided. Nor is it decided while a reply is being
 * received into these buffers: the outcome is UNKNOWN then, which leaves them posted.
 */

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

/* The buffers that are posted for the message's reply, or NULL. */
static struct lent *lent_of(const struct outgoing *outgoing)
{
	return outgoing->lends && outgoing->service ?
		ripc__lent_by_id(outgoing->service, outgoing->lends) : NULL;
}

/*
 * Is a reply being received? Then a partner that reports no arrival is wrong, or lies: only the
 * receiver of the message can answer it.
 */
static bool is_being_answered(const struct outgoing *outgoing)
{
	const struct lent *lent = lent_of(outgoing);

	return lent && lent->in_use;
}

/* Refuses a reply into the message's return buffers, which come back with the message's end. */
static void refuse_answer(struct outgoing *outgoing)
{
	struct lent *lent = lent_of(outgoing);

	if (!lent)
		return;
	ripc__returns_close(lent, outgoing, &outgoing->fencing);
	lent->cancelled = true;
}

/* Has the COMPLETION no service any more that the application could receive it from? */
static bool is_untold(const struct outgoing *outgoing)
{
	return !outgoing->service && outgoing->flags & RIPC_NOWAIT && !outgoing->call.kind;
}

/*
 * Did the receiver take the references, or may it have? Those of a reply, and of a message to a
 * member of a group, are ours in any case. Without a COMPLETION the application cannot know.
 */
static bool is_given(const struct outgoing *outgoing)
{
	return outgoing->flags & RIPC_GIVE && (outgoing->outcome != RIPC_NOT_DELIVERED ||
		outgoing->call.kind > WIRE_CALL_ASKS || is_untold(outgoing));
}

/*
 * Are the references ours, whatever the outcome? Those of a request are: the call has references
 * of its own (call/call.c).
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

/* Reports the end: the items are the application's again, or given away. */
static void report(struct outgoing *outgoing)
{
	struct ripc_msg *public = &outgoing->message.public;
	bool nowait = outgoing->flags & RIPC_NOWAIT;

	if (is_ours(outgoing) && !outgoing->mapped)
		drop_given(outgoing);
	if (outgoing->asked_by)
		ripc__request_ended(outgoing);
	else if (outgoing->delivery)
		ripc__delivery_ended(outgoing);
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

/* A send to the partner leaves room: a service whose send met -EAGAIN is notified. */
static void outgoing_unblock(struct partner *partner)
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
	context_of(outgoing)->loop.changed = true;
	count_outcome(outgoing);
	if (outgoing->outcome == RIPC_NOT_DELIVERED && outgoing->service)
		ripc__lend_end(outgoing->service, outgoing->lends);
}

static uint16_t *count_of(const struct outgoing *outgoing)
{
	struct partner *partner = outgoing->partner;

	return wire_answers(&outgoing->call) ? &partner->n_replies : &partner->n_outgoing;
}

static void outgoing_link(struct outgoing *outgoing, struct partner *partner)
{
	outgoing->partner = partner;
	*count_of(outgoing) += 1;
	list_append(&ripc__row_of(outgoing)->outgoing, &outgoing->node);
	if (outgoing->flags & RIPC_ORDERED)
		ripc__order_link(outgoing, partner);
}

static void outgoing_unlink(struct outgoing *outgoing)
{
	outgoing->partner->under_way -= outgoing->unasked;
	*count_of(outgoing) -= 1;
	outgoing->unasked = 0;
	list_remove(&outgoing->node);
}

/* No partner holds the given items any more. */
static void come_home(struct outgoing *outgoing)
{
	outgoing->mapped = false;
	context_of(outgoing)->stats.given_held_bytes -= outgoing->total;
	drop_given(outgoing);
	ripc__outgoing_put(outgoing);
}

void ripc__ended_let_go(struct ripc_context *ctx)
{
	list_for_each_entry(outgoing, &ctx->sends.ended, struct outgoing, node) {
		if (!list_empty(&outgoing->fencing) && is_ours(outgoing))
			drop_given(outgoing);
	}
}

/* A given message whose items the receiver holds need not be waited for. */
static void hold(struct outgoing *outgoing)
{
	outgoing->mapped = true;
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
	if (outgoing->mapped) {
		come_home(outgoing);
		return;
	}
	ctx->sends.n_orphans -= outgoing->service == NULL;
	ctx->loop.changed = true;
	if (outgoing->state == OUT_FENCING)
		conclude(outgoing);
	report(outgoing);
}

static void outgoing_end(struct outgoing *outgoing, enum ripc_outcome outcome, int status)
{
	struct ripc_context *ctx = context_of(outgoing);
	struct partner *partner = outgoing->partner;

	if (outcome == RIPC_NOT_DELIVERED && is_being_answered(outgoing))
		outcome = RIPC_UNKNOWN;
	if (outgoing->flags & RIPC_ORDERED)
		ripc__order_ends(outgoing, outcome);
	if (outgoing->offer)
		ripc__offer_free(outgoing);
	if (outgoing->exposed && outcome == RIPC_NOT_DELIVERED)
		ripc__exposed_close(outgoing);
	else if (outgoing->exposed)
		ripc__exposed_hand(outgoing, outcome == RIPC_DELIVERED);
	if (outcome == RIPC_NOT_DELIVERED)
		refuse_answer(outgoing);
	decide(outgoing, outcome, status);
	outgoing->state = OUT_FENCING;
	ctx->loop.n_busy -= outgoing->busy;
	outgoing->busy = false;
	outgoing->to_incarnation = partner->incarnation; /* possible holder: ripc_holders() */
	outgoing_unlink(outgoing);
	outgoing->partner = NULL;
	list_append(&ctx->sends.ended, &outgoing->node);
	ripc__timer_dismiss(ctx, &outgoing->timer);
	outgoing_unblock(partner);
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
	list_for_each_entry(outgoing, &service->ctx->sends.ended, struct outgoing, node) {
		if (outgoing->service != service || list_empty(&outgoing->fencing))
			continue;
		outgoing->service = NULL;
		service->ctx->sends.n_orphans += !outgoing->mapped;
	}
}

/* ---- moving ------------------------------------------------------------------------------ */

/*
 * Where long messages that we send begin anew: with the next owner of an ID when the former
 * owner has left, is gone, or was not the right one (protocol.md, Outcome). Only a message that
 * was certainly not delivered moves, and an ordered message overtakes nothing (order.c).
 */

#define AGAIN_US 250000u /* a message begins again at the same receiver at most so often */

static bool may_move(const struct outgoing *outgoing)
{
	return outgoing->to_incarnation == 0 && outgoing->state != OUT_CANCELLING &&
		!outgoing->direct && !outgoing->service->closing &&
		outgoing->deadline_us > context_of(outgoing)->now_us;
}

static void outgoing_begin(struct outgoing *outgoing, struct partner *partner);

/*
 * Begins anew with the present owner of the ID. The message was certainly not delivered to the
 * last one.
 */
static void move_on(struct outgoing *outgoing)
{
	struct partner *next;
	int error = ripc__find_again(outgoing->service, outgoing->to, &next);

	if (error) {
		outgoing_end(outgoing, RIPC_NOT_DELIVERED, error);
		return;
	}
	if (ripc__order_is_late(outgoing, next)) {
		outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ENOENT);
		return;
	}
	outgoing_unblock(outgoing->partner);
	if (outgoing->flags & RIPC_ORDERED)
		ripc__order_moves(outgoing);
	outgoing_unlink(outgoing);
	outgoing_begin(outgoing, next);
	ripc__outgoing_advance(next);
}

/* Follows the ordered message ahead to its new partner. */
static void follow(struct outgoing *outgoing)
{
	if (may_move(outgoing))
		move_on(outgoing);
	else
		outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ECANCELED);
}

/*
 * Has the message not begun, or was it certainly not delivered? An ordered one overtakes
 * nothing.
 */
static bool is_free_to_go(const struct outgoing *outgoing, bool undelivered)
{
	return undelivered && !outgoing->cut && may_move(outgoing) && !ripc__order_stays(outgoing);
}

/* Messages that have not begun are sent to the next owner of the ID at once. */
static void move_waiting(struct partner *partner)
{
	list_for_each_entry_safe(outgoing, &partner->longs.outgoing, struct outgoing, node) {
		if (outgoing->cut == CUT_FOLLOW)
			follow(outgoing);
		else if (is_free_to_go(outgoing, outgoing->state == OUT_WAITING))
			move_on(outgoing);
	}
}

/* The service is leaving: looks for the next one, unless this very incarnation was meant. */
static void outgoing_refused(struct outgoing *outgoing)
{
	struct partner *partner = outgoing->partner;

	if (ripc__order_stays(outgoing))
		return; /* refused again later, when the outcome of those ahead is known */
	ripc__partner_retire(partner);
	if (outgoing->to_incarnation || outgoing->direct ||
			context_of(outgoing)->now_us >= outgoing->deadline_us)
		outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ENOENT);
	else
		move_on(outgoing);
	move_waiting(partner);
	ripc__outgoing_advance(partner);
}

/* Was the message certainly not delivered to the partner, which has been gone since gone_us? */
static bool is_undelivered(const struct outgoing *outgoing, uint64_t gone_us)
{
	return !ripc__may_be_complete(outgoing) || outgoing->started_us > gone_us;
}

static void outgoing_move(struct partner *partner)
{
	uint32_t n = partner->n_outgoing;

	/*
	 * The messages are counted, because one may come back: its ID may lead to the same
	 * partner.
	 */
	for (struct list *node = partner->longs.outgoing.next, *next; n > 0; n--, node = next) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);

		next = node->next;
		if (outgoing->cut == CUT_FOLLOW)
			follow(outgoing);
		else if (is_free_to_go(outgoing, is_undelivered(outgoing, UINT64_MAX)))
			move_on(outgoing);
	}
}

/* A reply is for the incarnation that has asked, and for no other. */
static void replies_lost(struct longs *replies, int status, uint64_t gone_us)
{
	list_for_each_entry_safe(outgoing, &replies->outgoing, struct outgoing, node) {
		outgoing_end(outgoing, is_undelivered(outgoing, gone_us) ?
			RIPC_NOT_DELIVERED : RIPC_UNKNOWN, status);
	}
}

void ripc__outgoing_lost(struct partner *partner, int status, uint64_t gone_us)
{
	bool was_found = partner->peer != NULL, was_dead = partner->dead;

	if (partner->replies)
		replies_lost(partner->replies, status, gone_us);
	/* The first message that moves may find the same partner again, alive: the others stay. */
	for (uint32_t n = partner->n_outgoing; n > 0 && partner->dead == was_dead; n--) {
		struct outgoing *outgoing = list_entry(partner->longs.outgoing.next,
			struct outgoing, node);

		if (outgoing->cut < CUT_CERTAIN && !is_undelivered(outgoing, gone_us))
			outgoing_end(outgoing, RIPC_UNKNOWN, status);
		else if (was_found && may_move(outgoing) && ripc__order_is_whole(outgoing))
			move_on(outgoing);
		else
			outgoing_end(outgoing, RIPC_NOT_DELIVERED, ripc__order_is_whole(
				outgoing) ? ripc__status_of(outgoing, status) : -ECANCELED);
	}
}

/*
 * Shorts that wait for the owner of the ID are not for a partner that has only claimed it. Those
 * for that partner itself wait on.
 */
static void pending_move(struct partner *partner)
{
	struct partner *next;

	if (!ripc__pending_by_id(partner))
		return;
	if (ripc__partner_for_send(partner->service, partner->id, &next) == 0 && !next->pending) {
		next->pending = partner->pending;
		partner->pending = NULL;
		ripc__pending_send(next);
	}
	ripc__pending_drop(partner, true);
}

void ripc__sends_pass_by(struct partner *partner)
{
	if (partner->pending && !partner->resolved)
		pending_move(partner);
	outgoing_move(partner);
	if (partner->resolved)
		return;
	/* Messages for the incarnation that the partner has claimed to be are for no other. */
	for_each_row(longs, partner) {
		list_for_each_entry_safe(outgoing, &longs->outgoing, struct outgoing, node) {
			if (outgoing->state == OUT_WAITING && outgoing->to_incarnation &&
					!outgoing->direct)
				outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ENOENT);
		}
	}
}

static void move_to(struct outgoing *outgoing, struct partner *to)
{
	if (wire_answers(&outgoing->call) && !ripc__longs_open(to, WIRE_REPLIES)) {
		outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ENOMEM);
		return;
	}
	outgoing_unlink(outgoing);
	outgoing_link(outgoing, to);
}

void ripc__sends_merge(struct partner *from, struct partner *to)
{
	to->pending = to->pending ? to->pending : from->pending;
	if (to->pending != from->pending)
		ripc__pending_drop(from, true);
	from->pending = NULL;
	outgoing_unblock(from);
	for_each_row(longs, from) {
		list_for_each_safe(node, &longs->outgoing)
			move_to(list_entry(node, struct outgoing, node), to);
	}
}

void ripc__sends_fail(struct partner *partner, int status)
{
	ripc__pending_drop(partner, true);
	for_each_row(longs, partner) {
		while (!list_empty(&longs->outgoing))
			outgoing_end(list_entry(longs->outgoing.next, struct outgoing, node),
				RIPC_NOT_DELIVERED, status);
	}
}

/* May the receiver accept the message if it begins again? */
static bool may_fare_better(const struct outgoing *outgoing, uint32_t status)
{
	switch (status) {
	case ETIMEDOUT:
		return context_of(outgoing)->now_us - outgoing->told_us >= AGAIN_US;
	case EACCES:
		return ripc__refusal_is_old(outgoing->partner, outgoing->told_us);
	default:
		return false;
	}
}

/*
 * The receiver has given the message up after a time without packets: our process may have been
 * stopped. True: the message begins again with the same receiver, if there is time.
 */
static bool outgoing_begins_again(struct outgoing *outgoing, uint32_t status)
{
	struct partner *partner = outgoing->partner;

	if (outgoing->state != OUT_ACTIVE || outgoing->service->closing ||
			context_of(outgoing)->now_us >= outgoing->deadline_us ||
			!ripc__order_is_alone(outgoing) || !may_fare_better(outgoing, status))
		return false;
	outgoing_unlink(outgoing);
	outgoing_begin(outgoing, partner);
	return true;
}

/* ---- outgoing ---------------------------------------------------------------------------- */

#define WRITE_AGAIN_US  1000u /* after the device took no write at all */

static struct outgoing *find(struct partner *partner, uint64_t number)
{
	const struct longs *longs = ripc__longs_of(partner, number);

	if (!longs)
		return NULL;
	list_for_each_entry(outgoing, &longs->outgoing, struct outgoing, node) {
		if (outgoing->number == number && number != 0)
			return outgoing;
	}
	return NULL;
}

/* The message begins with this partner; it is not in the partner's list before. */
static void outgoing_begin(struct outgoing *outgoing, struct partner *partner)
{
	if (outgoing->exposed)
		ripc__exposed_close(outgoing);
	if (outgoing->offer)
		ripc__offer_free(outgoing);
	outgoing_link(outgoing, partner);
	outgoing->state = OUT_WAITING;
	outgoing->number = outgoing->previous = outgoing->cut = 0;
	outgoing->announced = outgoing->had_keys = outgoing->unopenable = outgoing->no_room = false;
	outgoing->written = false;
	outgoing->sent = outgoing->limit = 0;
	outgoing->crc = outgoing->n_holes = 0;
	outgoing->resend_left = PULL_MAX;
	ripc__busy_update(outgoing);
	ripc__timer_set(&context_of(outgoing)->loop.timers, &outgoing->timer,
		outgoing->deadline_us);
	if (!partner->peer)
		ripc__find_until(partner, outgoing->deadline_us);
}

static uint32_t rto_of(const struct outgoing *outgoing)
{
	return ripc__peer_rto(context_of(outgoing), outgoing->partner->peer);
}

/*
 * The time of the cancel, so early that its answer can arrive before the deadline: a few round
 * trips, but never more than a quarter of the caller's time. After a recent packet of the
 * partner about the message, less time is enough.
 */
static uint64_t cancel_at(const struct outgoing *outgoing)
{
	uint64_t least = rto_of(outgoing) + TICK_US, most = least + 2ull * rto_of(outgoing);
	uint64_t given = outgoing->deadline_us - outgoing->started_us;
	uint64_t before = (outgoing->deadline_us - outgoing->heard_us) / 2;

	if (before < least)
		before = least;
	if (before > most)
		before = most;
	return outgoing->deadline_us - (before < given / 4 ? before : given / 4);
}

/*
 * Must the partner be asked for the outcome? A message that was not wholly sent need not: it has
 * until its deadline.
 */
static bool must_ask(const struct outgoing *outgoing)
{
	return outgoing->state == OUT_ACTIVE && ripc__may_be_complete(outgoing);
}

static void timer_set(struct outgoing *outgoing)
{
	struct ripc_context *ctx = context_of(outgoing);
	uint64_t at = ctx->now_us + ripc__wait_bound(ctx, outgoing->wait_us);
	uint64_t latest = must_ask(outgoing) ? cancel_at(outgoing) : outgoing->deadline_us;

	/* The message was wholly sent only now. */
	if (latest < ctx->now_us)
		latest = ctx->now_us + (outgoing->deadline_us - ctx->now_us) / 2;
	if (at > latest)
		at = latest;
	if (at < ctx->now_us || at > outgoing->deadline_us)
		at = outgoing->deadline_us;
	ripc__timer_set(&ctx->loop.timers, &outgoing->timer, at);
}

/*
 * Repetition begins after the time that a working path needs to answer: two repetition times and
 * 1 ms; and, if the partner reads, as long again as its last reading took.
 */
static void wait_reset(struct outgoing *outgoing)
{
	outgoing->wait_us = 2 * rto_of(outgoing) + 1000;
	if (outgoing->had_keys && !outgoing->written)
		outgoing->wait_us += 2 * outgoing->partner->peer->reading_us;
}

/*
 * Why the message was not delivered by its deadline: the partner did not respond, or its memory
 * was full to the last, or only a program with other keys has answered for the ID.
 */
static int too_late(const struct outgoing *outgoing)
{
	if (!outgoing->partner->peer)
		return ripc__resolver_late(context_of(outgoing)->resolver, outgoing->to);
	return outgoing->no_room ? -ENOBUFS : -ETIMEDOUT;
}

static void end_by_what_is_known(struct outgoing *outgoing, int status)
{
	outgoing_end(outgoing, ripc__may_be_complete(outgoing) ? RIPC_UNKNOWN :
		RIPC_NOT_DELIVERED, status);
}

void ripc__outgoing_cancel(struct outgoing *outgoing, int status)
{
	struct partner *partner = outgoing->partner;

	if (outgoing->state == OUT_WAITING || !outgoing->announced) {
		outgoing_end(outgoing, RIPC_NOT_DELIVERED, status);
		ripc__outgoing_advance(partner); /* messages that had no room beside this one */
		return;
	}
	outgoing->cancel_status = status;
	if (outgoing->state == OUT_CANCELLING)
		return;
	outgoing->state = OUT_CANCELLING;
	/* An open key could delay the end. Given items may have been mapped, and delivered. */
	if (outgoing->exposed && !outgoing->exposed->given)
		ripc__exposed_close(outgoing);
	ripc__cancel_send(outgoing);
	wait_reset(outgoing);
	timer_set(outgoing);
}

void ripc__outgoing_expire(struct outgoing *outgoing)
{
	struct partner *partner = outgoing->partner;
	struct ripc_context *ctx = context_of(outgoing);

	/* The message has ended, but the partner can still read its memory. */
	if (outgoing->state == OUT_FENCING) {
		decide(outgoing, RIPC_UNKNOWN, -ECONNRESET);
		conclude(outgoing);
		return;
	}
	/*
	 * A partner that does not respond may have gone: a sender with short deadlines would
	 * never learn that.
	 */
	if (outgoing->announced && partner->peer &&
			ctx->now_us - outgoing->heard_us >= ripc__rto_most_us(ctx))
		ripc__partner_suspect(partner);
	if (outgoing->announced)
		ripc__partner_say_unheard(partner);
	if (outgoing->announced && outgoing->state == OUT_ACTIVE && !must_ask(outgoing))
		ripc__cancel_send(outgoing); /* the partner need not wait for more bytes */
	end_by_what_is_known(outgoing, too_late(outgoing));
	ripc__outgoing_advance(partner);
}

void ripc__outgoing_hurry(struct outgoing *outgoing, uint64_t deadline_us)
{
	if (outgoing->state >= OUT_FENCING || deadline_us >= outgoing->deadline_us)
		return;
	outgoing->deadline_us = deadline_us;
	if (outgoing->state == OUT_WAITING)
		ripc__timer_set(&context_of(outgoing)->loop.timers, &outgoing->timer, deadline_us);
	else
		timer_set(outgoing);
}

/* The writes end by themselves; if the device took none, it is tried again. */
static void writing_wait(struct outgoing *outgoing)
{
	wait_reset(outgoing);
	if (ripc__writing_is_idle(outgoing))
		outgoing->wait_us = WRITE_AGAIN_US;
	timer_set(outgoing);
}

/* Ends a message that was cut, or asks its receiver for the outcome. */
static void end_cut(struct outgoing *outgoing)
{
	struct partner *partner = outgoing->partner;
	bool ask = outgoing->cut == CUT_ASK && ripc__may_be_complete(outgoing);
	bool is_told = outgoing->state != OUT_WAITING && outgoing->announced;

	outgoing->cut = CUT_NOT;
	/*
	 * A receiver that gets a CANCEL need not keep the message until it hears of a later
	 * number.
	 */
	if (is_told && outgoing->state == OUT_CANCELLING)
		ripc__outgoing_tell(outgoing);
	else if (is_told)
		ripc__outgoing_cancel(outgoing, -ECANCELED);
	if (is_told && ask)
		return;
	outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ECANCELED);
	ripc__outgoing_advance(partner);
}

/* The first message that waits, behind the LONGS_MAX with numbers; the list's head: none waits. */
static struct list *first_waiting(struct longs *longs)
{
	struct list *node = longs->outgoing.next;

	while (node != &longs->outgoing &&
			list_entry(node, struct outgoing, node)->state != OUT_WAITING)
		node = node->next;
	return node;
}

static bool is_bound(const struct outgoing *outgoing)
{
	return outgoing->direct || outgoing->to_incarnation;
}

/* Ends messages that have waited for a number too long, and are for no other partner. */
static void waited_too_long(struct longs *longs)
{
	for (struct list *node = first_waiting(longs), *next; node != &longs->outgoing;
			node = next) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);
		struct ripc_context *ctx = context_of(outgoing);

		next = node->next;
		if (is_bound(outgoing) && outgoing->started_us + ripc__silence_us(ctx) <=
				ctx->now_us)
			outgoing_end(outgoing, RIPC_NOT_DELIVERED, -EHOSTUNREACH);
	}
}

/* The callback of the message's timer. */
static void outgoing_fire(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;
	struct outgoing *outgoing = list_entry(timer, struct outgoing, timer);
	struct partner *partner = outgoing->partner;

	if (outgoing->cut && outgoing->state < OUT_FENCING) {
		end_cut(outgoing);
		return;
	}
	if (ctx->now_us >= outgoing->deadline_us) {
		ripc__outgoing_expire(outgoing);
		return;
	}
	if (outgoing->state == OUT_WAITING) {
		timer_set(outgoing);
		return;
	}
	if (ripc__writing_give_up(outgoing))
		return;
	ripc__death_doubt(ctx);
	outgoing->heard_us = ripc__heard_us(ctx, timer, outgoing->heard_us);
	if (ctx->now_us - outgoing->heard_us >= ripc__silence_us(ctx)) {
		ripc__partner_suspect(partner);
		end_by_what_is_known(outgoing, -EHOSTUNREACH);
		for_each_row(longs, partner)
			waited_too_long(longs);
		ripc__outgoing_advance(partner);
		return;
	}
	if (outgoing->delivery && ctx->now_us - outgoing->heard_us >=
			ripc__silence_of_route_us(ctx))
		ripc__delivery_silent(outgoing);
	if (outgoing->announced && ctx->now_us - outgoing->heard_us >= ripc__rto_most_us(ctx))
		ripc__hint_silent(partner, ctx->now_us - outgoing->heard_us);
	if (must_ask(outgoing) && ctx->now_us >= cancel_at(outgoing)) {
		ripc__outgoing_cancel(outgoing, too_late(outgoing));
		return;
	}
	if (ctx->now_us - outgoing->heard_us >= ripc__silence_of_address_us(ctx))
		ripc__follow(partner);
	if (ctx->now_us - outgoing->heard_us >= ripc__silence_of_route_us(ctx) &&
			ctx->peers.n_devices > 1)
		ripc__route_failed(ctx, partner->peer, -ETIMEDOUT);
	if (outgoing->writing) {
		ripc__moves_post(&ctx->sends.writes);
		if (outgoing->writing)
			writing_wait(outgoing);
		return;
	}
	outgoing->by_time = true;
	if (outgoing->state == OUT_CANCELLING)
		ripc__cancel_send(outgoing);
	else
		ripc__announce(outgoing, NULL);
	outgoing->by_time = false;
	outgoing->wait_us = ripc__back_off(ctx, outgoing->wait_us);
	timer_set(outgoing);
}

/* Is there a number for the message, and room for its unasked bytes? */
static bool may_begin(const struct outgoing *outgoing)
{
	const struct longs *longs = ripc__row_of(outgoing);
	uint64_t n_begun = longs->next - ripc__oldest_sent(longs);

	return n_begun < LONGS_MAX && (n_begun == 0 || ripc__unasked_has_room(outgoing));
}

static void number(struct outgoing *outgoing, struct announcements *batch)
{
	outgoing->number = ripc__row_of(outgoing)->next++;
	RIPC__PROBE(send, RIPC__PROBE_LONG, outgoing->service->id, outgoing->partner->id,
		outgoing->total);
	if (outgoing->flags & RIPC_ORDERED)
		ripc__order_number(outgoing);
	outgoing->state = OUT_ACTIVE;
	outgoing->heard_us = context_of(outgoing)->now_us;
	wait_reset(outgoing);
	if (outgoing->offer && ripc__writing_start(outgoing)) {
		if (outgoing->writing)
			writing_wait(outgoing);
		return;
	}
	ripc__announce(outgoing, batch);
	wait_reset(outgoing); /* now that the way to the partner is known */
	timer_set(outgoing);
	ripc__unasked_count(outgoing, outgoing->had_keys ? 0 : outgoing->limit);
}

/*
 * Is the message for its very partner? Then it is sent before those that wait, from first on,
 * until the owner of the ID is known.
 */
static bool answer_passes(struct outgoing *outgoing, struct list *first)
{
	if (outgoing->direct && first != &outgoing->node) {
		list_remove(&outgoing->node);
		list_append(first, &outgoing->node);
	}
	return outgoing->direct;
}

/* Are no messages under way by the partner's ID, so that its owner does not matter? */
static bool are_by_handle(struct partner *partner)
{
	for_each_row(longs, partner) {
		list_for_each(node, &longs->outgoing) {
			if (!list_entry(node, struct outgoing, node)->by_handle)
				return false;
		}
	}
	return true;
}

/*
 * While the partner's ID may have another owner, no message begins but those for this very
 * partner.
 */
static void advance(struct partner *partner, struct longs *longs, struct announcements *batch)
{
	bool settled = are_by_handle(partner) || ripc__partner_settled(partner);

	for (struct list *node = first_waiting(longs), *next; node != &longs->outgoing;
			node = next) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);

		next = node->next;
		if (!settled && !answer_passes(outgoing, first_waiting(longs)))
			continue;
		if (outgoing->to_incarnation && outgoing->to_incarnation != partner->incarnation)
			outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ENOENT);
		else if (!outgoing->replies && ripc__may_send_to(partner))
			outgoing_end(outgoing, RIPC_NOT_DELIVERED, -EACCES);
		else if (partner->peer->opening)
			break; /* the end of a handshake may bring the right */
		else if (outgoing->delivery && !ripc__may_reach(partner, outgoing->lends))
			outgoing_end(outgoing, RIPC_NOT_DELIVERED, -EACCES);
		else if (outgoing->cut)
			outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ECANCELED);
		else if (may_begin(outgoing))
			number(outgoing, batch);
		else
			break;
	}
}

void ripc__outgoing_advance(struct partner *partner)
{
	struct announcements batch;

	if (!partner->peer || partner->peer->opening || !ripc__has_outgoing(partner))
		return;
	batch.n = batch.n_iov = 0;
	if (partner->replies)
		advance(partner, partner->replies, &batch);
	advance(partner, &partner->longs, &batch);
	ripc__announcements_send(partner, &batch);
}

/* ---- packets of the partner -------------------------------------------------------------- */

static void heard(struct outgoing *outgoing)
{
	outgoing->heard_us = context_of(outgoing)->now_us;
}

void ripc__outgoing_tell(struct outgoing *outgoing)
{
	if (outgoing->cut)
		return; /* the message is about to end */
	wait_reset(outgoing);
	if (outgoing->state == OUT_CANCELLING)
		ripc__cancel_send(outgoing);
	else
		ripc__announce(outgoing, NULL);
	timer_set(outgoing);
}

static void pulled(struct outgoing *outgoing, const struct wire_pull *pull)
{
	uint64_t left, sent;

	outgoing->no_room = pull->busy == WIRE_NO_ROOM;
	/* The written bytes did not arrive: the receiver asks for them. */
	if (pull->limit > outgoing->limit || pull->n_holes)
		outgoing->written = false;
	/* The partner has answered, and can now be told how to read. */
	if (!outgoing->had_keys && ripc__can_be_read(outgoing) && ripc__exposed_may(outgoing)) {
		ripc__outgoing_tell(outgoing);
		outgoing->unopenable = !outgoing->had_keys; /* once is enough */
		if (outgoing->had_keys)
			return;
	}
	if (pull->n_holes)
		ripc__resend(outgoing, pull);
	sent = outgoing->sent;
	left = sent + PULL_MAX;
	if (pull->limit > outgoing->limit)
		outgoing->limit = pull->limit < left ? pull->limit : left;
	ripc__pump(outgoing);
	outgoing->resend_left += 2 * (outgoing->sent - sent);
	ripc__busy_update(outgoing);
	/*
	 * While bytes are to be sent the receiver requests them by itself; it also reports no
	 * room then.
	 */
	if (outgoing->no_room && outgoing->wait_us <= RTO_MAX_US)
		return;
	if (outgoing->sent == outgoing->total && !outgoing->no_room)
		wait_reset(outgoing);
	else
		outgoing->wait_us = 2 * rto_of(outgoing) > RTO_MAX_US ? 2 * rto_of(outgoing) :
			RTO_MAX_US;
	timer_set(outgoing);
}

static void take_pull(struct partner *partner, const struct wire_packet *packet)
{
	const struct longs *longs = ripc__longs_of(partner, packet->h.number);
	struct outgoing *outgoing = find(partner, packet->h.number);

	/* Its CANCEL was lost, and the receiver still waits for bytes. */
	if (!outgoing && longs && packet->h.number < longs->next)
		ripc__cancel_number(partner, packet->h.number);
	if (!outgoing || outgoing->state != OUT_ACTIVE || outgoing->writing || outgoing->cut)
		return;
	heard(outgoing);
	ripc__unasked_count(outgoing, 0); /* the unasked bytes have arrived, or were dropped */
	pulled(outgoing, &packet->pull);
	ripc__outgoing_advance(partner);
}

/* May the partner know of the message? */
static bool is_told(const struct outgoing *outgoing)
{
	return outgoing->state != OUT_WAITING && !outgoing->writing;
}

/* Ends the other messages that the ack reports as delivered. Waiting ones have no numbers yet. */
static void also_delivered(struct partner *partner, const struct wire_ack *ack)
{
	const struct longs *longs = ripc__longs_of(partner, ack->number);

	if (!longs)
		return;
	list_for_each_entry_safe(outgoing, &longs->outgoing, struct outgoing, node) {
		uint64_t behind = ack->number - outgoing->number;

		if (is_told(outgoing) && behind >= 1 && behind <= 64 &&
				ack->also >> (64 - behind) & 1)
			outgoing_end(outgoing, RIPC_DELIVERED, 0);
	}
}

bool ripc__outgoing_last_words(struct partner *partner, const struct wire_ack *ack)
{
	also_delivered(partner, ack);
	/* The ack covers all numbered messages except replies: none is older than it remembers. */
	return ripc__oldest_sent(&partner->longs) + LONGS_MAX >= ack->number;
}

/*
 * Why the receiver refused. Unknown (-ECONNRESET) and full (-EAGAIN) are ours to report: after
 * them the application waits for a notice.
 */
static int refusal(uint32_t status)
{
	return status == ECONNRESET || status == EAGAIN ? -EPROTO : -(int)status;
}

void ripc__outgoing_answer(struct partner *partner, const struct wire_ack *ack)
{
	struct outgoing *outgoing = find(partner, ack->number);
	uint32_t status = ack->status;

	if (ack->also)
		also_delivered(partner, ack);
	if (outgoing && is_told(outgoing)) {
		heard(outgoing);
		if (status == 0 && outgoing->had_keys && !outgoing->written)
			ripc__peer_has_read(partner->peer, partner->service->ctx->now_us -
				outgoing->told_us);
		if (status == ESHUTDOWN && outgoing->state == OUT_ACTIVE) {
			outgoing_refused(outgoing);
			return;
		}
		if (status == 0)
			outgoing_end(outgoing, RIPC_DELIVERED, 0);
		else if (!outgoing_begins_again(outgoing, status))
			outgoing_end(outgoing, RIPC_NOT_DELIVERED,
				outgoing->state == OUT_CANCELLING &&
				(status == ECANCELED || status == ESHUTDOWN) ?
				outgoing->cancel_status : refusal(status));
	}
	ripc__outgoing_advance(partner);
}

static void take_answer(struct partner *partner, const struct wire_packet *packet)
{
	ripc__outgoing_answer(partner, &packet->ack);
}

packet_handler *const ripc__send_handlers[WIRE_TYPE_END] = {
	[WIRE_PULL] = take_pull,
	[WIRE_ANSWER] = take_answer,
};

/*
 * The partner asks for its messages to be announced again. If the partner has forgotten us, it
 * no longer knows which messages it delivered. But a partner forgets only senders that were idle
 * for PARTNER_IDLE_US: a message that was announced more recently than half of that never
 * reached it. The outcome of an older message that was wholly sent is UNKNOWN. The outcome is
 * UNKNOWN, too, if the partner never knew us for sure, because its answers may all have been
 * lost.
 */
static void again(struct longs *longs, bool forgotten, bool repeat)
{
	list_for_each_entry_safe(outgoing, &longs->outgoing, struct outgoing, node) {
		uint64_t age_us = context_of(outgoing)->now_us - outgoing->started_us;

		if (outgoing->state == OUT_WAITING || !outgoing->announced)
			continue;
		if (age_us > PARTNER_IDLE_US / 2 &&
				(forgotten || ripc__may_be_complete(outgoing))) {
			end_by_what_is_known(outgoing, ripc__status_of(outgoing, -EHOSTUNREACH));
			continue;
		}
		if (repeat)
			ripc__outgoing_tell(outgoing);
	}
}

void ripc__outgoing_again(struct partner *partner, bool forgotten, bool repeat)
{
	for_each_row(longs, partner)
		again(longs, forgotten, repeat);
}

void ripc__outgoing_hasten(struct partner *partner)
{
	for_each_row(longs, partner) {
		list_for_each_entry(outgoing, &longs->outgoing, struct outgoing, node) {
			if (outgoing->state != OUT_WAITING && outgoing->announced)
				ripc__outgoing_tell(outgoing);
		}
	}
}

/* ---- start ------------------------------------------------------------------------------- */

/* How a long message begins: whether it may, what it needs, and which partner gets it. */

#define WAITING_MAX     256u /* to one partner, before a RIPC_NOWAIT send meets -EAGAIN */
#define OUTGOING_MAX    16384u /* to one partner; its count holds that of a few, whose sends move */
#define ANSWERS_MAX     4096u /* the same, of a reply to a request */

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

/* Copies the items behind the outgoing; there are total bytes of them. */
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
	outgoing->timer.fire = outgoing_fire;
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

/* Are as many messages under way to the partner as may be? Requested replies count separately. */
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
 * The partner whose message is answered, or that was chosen by its handle; NULL: the message is
 * no answer, or its partner must be looked for.
 */
static struct partner *asker_of(const struct ripc_service *service,
		const struct ripc_send *request, const struct sending *like)
{
	if (request->to_handle)
		return ripc__find_sender(service, request->to_handle);
	/* An ordered message overtakes nothing. */
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
	if (request->flags & RIPC_ORDERED && ctx->sends.n_gaps &&
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
	outgoing_begin(outgoing, partner);
	if (request->reply_to)
		outgoing->offer = ripc__offer_take(partner, request->reply_to);
	*outgoing_out = outgoing;
	if (!ripc__batching_add(outgoing)) {
		if (ctx->sends.n_batching)
			ripc__batching_flush(ctx);
		ripc__outgoing_advance(partner);
	}
	return 0;
}
