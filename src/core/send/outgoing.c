/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages that we send: when each gets its number, what is done when nothing is heard, and
 * what the receiver says (protocol.md, long messages). ended.c has how they end.
 *
 * Design notes. An outgoing is in its partner's list until it has ended, in the order of
 * numbers; numbers are given when there is room (LONGS_MAX in progress). NOT_DELIVERED is only
 * said when the receiver refused, or some byte was never sent and never will be. heard_us is
 * renewed by the partner's words about this very message, never by our own sends. The deadline
 * ends everything.
 */
#include <errno.h>

#include "announce.h"
#include "core/objects.h"
#include "core/partner/death.h"
#include "core/partner/find.h"
#include "core/partner/follow.h"
#include "core/partner/partner.h"
#include "core/partner/rights.h"
#include "core/peer/path.h"
#include "core/peer/route.h"
#include "core/peer/timing.h"
#include "core/resolve/resolver.h"
#include "core/upcalls.h"
#include "core/wire/wire.h"
#include "ended.h"
#include "moving.h"
#include "opened.h"
#include "order.h"
#include "outgoing.h"
#include "pump.h"
#include "resend.h"
#include "util/list.h"
#include "util/probe.h"
#include "util/timers.h"
#include "write.h"

#define WRITE_AGAIN_US  1000u /* after the device took no write at all */

static struct outgoing *find(struct partner *partner, uint64_t number)
{
	const struct longs *longs = ripc__longs_of(partner, number);

	if (!longs)
		return NULL;
	list_for_each(node, &longs->outgoing) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);

		if (outgoing->number == number && number != 0)
			return outgoing;
	}
	return NULL;
}

static struct ripc_context *context_of(const struct outgoing *outgoing)
{
	return outgoing->message.ctx;
}

void ripc__outgoing_begin(struct outgoing *outgoing, struct partner *partner)
{
	if (outgoing->opened)
		ripc__opened_close(outgoing);
	if (outgoing->writing)
		ripc__writing_leave(outgoing);
	if (outgoing->offer)
		ripc__offer_free(outgoing);
	ripc__outgoing_link(outgoing, partner);
	outgoing->state = OUT_WAITING;
	outgoing->number = outgoing->previous = outgoing->cut = 0;
	outgoing->announced = outgoing->exposed = outgoing->unopenable = outgoing->no_room = false;
	outgoing->written = false;
	outgoing->sent = outgoing->limit = 0;
	outgoing->crc = outgoing->n_holes = 0;
	outgoing->resend_left = PULL_MAX;
	ripc__busy_update(outgoing);
	ripc__timer_set(&context_of(outgoing)->timers, &outgoing->timer, outgoing->deadline_us);
	if (!partner->peer)
		ripc__find_until(partner, outgoing->deadline_us);
}

static uint32_t rto_of(const struct outgoing *outgoing)
{
	return ripc__peer_rto(context_of(outgoing), outgoing->partner->peer);
}

/*
 * Time for the cancel's question and answer before the deadline: a few round trips, but never more
 * than a quarter of what the caller gave. The less, the more lately the partner has spoken of it.
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

/* The outcome of what was not wholly sent is known without asking: it has until its deadline. */
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
	ripc__timer_set(&ctx->timers, &outgoing->timer, at);
}

/*
 * Repetition begins after what a working path needs to answer: two repetition times and 1 ms;
 * and, where the partner reads, as long again as it lately took to.
 */
static void wait_reset(struct outgoing *outgoing)
{
	outgoing->wait_us = 2 * rto_of(outgoing) + 1000;
	if (outgoing->exposed && !outgoing->written)
		outgoing->wait_us += 2 * outgoing->partner->peer->reading_us;
}

/*
 * Why the message was not delivered by its deadline: the partner was silent, or its memory was full
 * to the last, or only a program with other keys has answered for the ID.
 */
static int too_late(const struct outgoing *outgoing)
{
	if (!outgoing->partner->peer)
		return ripc__resolver_late(context_of(outgoing)->resolver, outgoing->to);
	return outgoing->no_room ? -ENOBUFS : -ETIMEDOUT;
}

static void end_by_what_is_known(struct outgoing *outgoing, int status)
{
	ripc__outgoing_end(outgoing, ripc__may_be_complete(outgoing) ? RIPC_UNKNOWN :
		RIPC_NOT_DELIVERED, status);
}

void ripc__outgoing_cancel(struct outgoing *outgoing, int status)
{
	struct partner *partner = outgoing->partner;

	if (outgoing->state == OUT_WAITING || !outgoing->announced) {
		ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, status);
		ripc__outgoing_advance(partner); /* what had no room beside it */
		return;
	}
	outgoing->cancel_status = status;
	if (outgoing->state == OUT_CANCELLING)
		return;
	outgoing->state = OUT_CANCELLING;
	/* So that nothing holds up the end. What is given may have been mapped, and delivered. */
	if (outgoing->opened && !outgoing->opened->given)
		ripc__opened_close(outgoing);
	ripc__cancel_send(outgoing);
	wait_reset(outgoing);
	timer_set(outgoing);
}

void ripc__outgoing_expire(struct outgoing *outgoing)
{
	struct partner *partner = outgoing->partner;
	struct ripc_context *ctx = context_of(outgoing);

	if (outgoing->state == OUT_FENCING) {
		ripc__outgoing_unknown(outgoing);
		return;
	}
	/*
	 * A partner that is silent may have gone: a sender with short deadlines would never learn
	 * it.
	 */
	if (outgoing->announced && partner->peer &&
			ctx->now_us - outgoing->heard_us >= ripc__rto_most_us(ctx))
		ripc__partner_suspect(partner);
	if (outgoing->announced)
		ripc__partner_say_unheard(partner);
	if (outgoing->announced && outgoing->state == OUT_ACTIVE && !must_ask(outgoing))
		ripc__cancel_send(outgoing); /* so that the partner need not wait for more of it */
	end_by_what_is_known(outgoing, too_late(outgoing));
	ripc__outgoing_advance(partner);
}

void ripc__outgoing_hurry(struct outgoing *outgoing, uint64_t deadline_us)
{
	if (outgoing->state >= OUT_FENCING || deadline_us >= outgoing->deadline_us)
		return;
	outgoing->deadline_us = deadline_us;
	if (outgoing->state == OUT_WAITING)
		ripc__timer_set(&context_of(outgoing)->timers, &outgoing->timer, deadline_us);
	else
		timer_set(outgoing);
}

/* Its writes end by themselves; where the device took none it is asked again. */
static void writing_wait(struct outgoing *outgoing)
{
	wait_reset(outgoing);
	if (ripc__writing_is_idle(outgoing))
		outgoing->wait_us = WRITE_AGAIN_US;
	timer_set(outgoing);
}

/* Ends one that was cut, or asks its receiver what became of it. */
static void end_cut(struct outgoing *outgoing)
{
	struct partner *partner = outgoing->partner;
	bool ask = outgoing->cut == CUT_ASK && ripc__may_be_complete(outgoing);
	bool is_told = outgoing->state != OUT_WAITING && outgoing->announced;

	outgoing->cut = CUT_NOT;
	/* A receiver that is told to cancel need not keep it until it hears of a later number. */
	if (is_told && outgoing->state == OUT_CANCELLING)
		ripc__outgoing_tell(outgoing);
	else if (is_told)
		ripc__outgoing_cancel(outgoing, -ECANCELED);
	if (is_told && ask)
		return;
	ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ECANCELED);
	ripc__outgoing_advance(partner);
}

/* Those that wait are behind the LONGS_MAX with numbers; the list's head: there are none. */
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

/* Ends what has waited for a number as long as this partner is silent, and is for no other. */
static void waited_too_long(struct longs *longs)
{
	for (struct list *node = first_waiting(longs), *next; node != &longs->outgoing;
			node = next) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);
		struct ripc_context *ctx = context_of(outgoing);

		next = node->next;
		if (is_bound(outgoing) && outgoing->started_us + ripc__silence_us(ctx) <=
				ctx->now_us)
			ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, -EHOSTUNREACH);
	}
}

void ripc__outgoing_fire(void *owner, struct ripc__timer *timer)
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
		ctx->up->delivery_silent(outgoing);
	if (outgoing->announced && ctx->now_us - outgoing->heard_us >= ripc__rto_most_us(ctx))
		ripc__hint_silent(partner, ctx->now_us - outgoing->heard_us);
	if (must_ask(outgoing) && ctx->now_us >= cancel_at(outgoing)) {
		ripc__outgoing_cancel(outgoing, too_late(outgoing));
		return;
	}
	if (ctx->now_us - outgoing->heard_us >= ripc__silence_of_address_us(ctx))
		ripc__follow(partner);
	if (ctx->now_us - outgoing->heard_us >= ripc__silence_of_route_us(ctx) &&
			ctx->n_devices > 1)
		ripc__route_failed(ctx, partner->peer, -ETIMEDOUT);
	if (outgoing->writing) {
		ripc__writes_post(ctx);
		if (outgoing->writing)
			writing_wait(outgoing);
		return;
	}
	outgoing->is_guess = true;
	if (outgoing->state == OUT_CANCELLING)
		ripc__cancel_send(outgoing);
	else
		ripc__announce(outgoing, NULL);
	outgoing->is_guess = false;
	outgoing->wait_us = ripc__back_off(ctx, outgoing->wait_us);
	timer_set(outgoing);
}

/* Is there a number for it, and room for what of it goes unasked? */
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
	if (outgoing->offer && ripc__writing_start(outgoing, ripc__outgoing_tell)) {
		if (outgoing->writing)
			writing_wait(outgoing);
		return;
	}
	ripc__announce(outgoing, batch);
	wait_reset(outgoing); /* now that it is known how the partner gets it */
	timer_set(outgoing);
	ripc__unasked_count(outgoing, outgoing->exposed ? 0 : outgoing->limit);
}

/*
 * Is it for its very partner? Then it goes before what waits, from first on, until it is known whom
 * the ID means.
 */
static bool answer_passes(struct outgoing *outgoing, struct list *first)
{
	if (outgoing->direct && first != &outgoing->node) {
		list_remove(&outgoing->node);
		list_append(first, &outgoing->node);
	}
	return outgoing->direct;
}

/* Is nothing under way by the partner's ID, so that it does not matter what the ID means? */
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
 * While the partner's ID may mean somebody else, nothing is begun but what is for this very
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
			ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ENOENT);
		else if (!outgoing->replies && ripc__may_send_to(partner))
			ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, -EACCES);
		else if (partner->peer->opening)
			break; /* the end of a handshake may bring the right */
		else if (outgoing->delivery && !ripc__may_reach(partner, outgoing->lends))
			ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, -EACCES);
		else if (outgoing->cut)
			ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ECANCELED);
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

/* ---- what the partner says --------------------------------------------------------------- */

static void heard(struct outgoing *outgoing)
{
	outgoing->heard_us = context_of(outgoing)->now_us;
}

void ripc__outgoing_tell(struct outgoing *outgoing)
{
	if (outgoing->cut)
		return; /* it is about to end */
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
	/* What was written did not get there; it asks for the bytes. */
	if (pull->limit > outgoing->limit || pull->n_holes)
		outgoing->written = false;
	/* Now that it has answered it can be told how to read. */
	if (!outgoing->exposed && ripc__can_be_read(outgoing) && ripc__opened_may(outgoing)) {
		ripc__outgoing_tell(outgoing);
		outgoing->unopenable = !outgoing->exposed; /* once is enough */
		if (outgoing->exposed)
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
	/* While bytes are to be sent the receiver asks by itself; and it says no more of room. */
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
	ripc__unasked_count(outgoing, 0); /* it has come, or was dropped */
	pulled(outgoing, &packet->pull);
	ripc__outgoing_advance(partner);
}

/* The partner may know of it. */
static bool is_told(const struct outgoing *outgoing)
{
	return outgoing->state != OUT_WAITING && !outgoing->writing;
}

/* Ends what the ack says has been delivered besides. Waiting ones have no numbers yet. */
static void also_delivered(struct partner *partner, const struct wire_ack *ack)
{
	const struct longs *longs = ripc__longs_of(partner, ack->number);

	if (!longs)
		return;
	list_for_each_safe(node, &longs->outgoing) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);
		uint64_t behind = ack->number - outgoing->number;

		if (is_told(outgoing) && behind >= 1 && behind <= 64 &&
				ack->also >> (64 - behind) & 1)
			ripc__outgoing_end(outgoing, RIPC_DELIVERED, 0);
	}
}

bool ripc__outgoing_last_words(struct partner *partner, const struct wire_ack *ack)
{
	also_delivered(partner, ack);
	/* The ack speaks of all numbered messages but replies: none is older than it remembers. */
	return ripc__oldest_sent(&partner->longs) + LONGS_MAX >= ack->number;
}

/*
 * Why the receiver refused. Unknown (-ECONNRESET) and full (-EAGAIN) are ours to say: after them
 * the application waits for a notice.
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
		if (status == 0 && outgoing->exposed && !outgoing->written)
			ripc__peer_has_read(partner->peer, partner->service->ctx->now_us -
				outgoing->told_us);
		if (status == ESHUTDOWN && outgoing->state == OUT_ACTIVE) {
			ripc__outgoing_refused(outgoing);
			return;
		}
		if (status == 0)
			ripc__outgoing_end(outgoing, RIPC_DELIVERED, 0);
		else if (!ripc__outgoing_begins_again(outgoing, status))
			ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED,
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
 * The partner asks to be told again. Has it forgotten us, then it does not know any more what it
 * delivered. But it forgets only who has been idle for PARTNER_IDLE_US: what was announced more
 * recently than half of that never reached it. What is older and was wholly sent is unknown; so
 * it is if it never knew us for sure, as its answers may all have been lost.
 */
static void again(struct longs *longs, bool forgotten, bool repeat)
{
	list_for_each_safe(node, &longs->outgoing) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);
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

static void hasten(struct longs *longs)
{
	list_for_each(node, &longs->outgoing) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);

		if (outgoing->state != OUT_WAITING && outgoing->announced)
			ripc__outgoing_tell(outgoing);
	}
}

void ripc__outgoing_hasten(struct partner *partner)
{
	for_each_row(longs, partner)
		hasten(longs);
}
