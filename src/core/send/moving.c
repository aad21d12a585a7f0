/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where long messages that we send begin anew: with the next holder of an ID when the holder before
 * has left, is gone, or was not the right one (protocol.md, Outcome). Only a message that was
 * certainly not delivered moves, and an ordered message overtakes nothing (order.c).
 */
#include <errno.h>

#include "core/objects.h"
#include "core/partner/find.h"
#include "core/partner/partner.h"
#include "core/partner/rights.h"
#include "ended.h"
#include "moving.h"
#include "order.h"
#include "outgoing.h"
#include "short.h"
#include "util/list.h"

#define AGAIN_US 250000u /* a message begins again at the same receiver at most so often */

static struct ripc_context *context_of(const struct outgoing *outgoing)
{
	return outgoing->message.ctx;
}

static bool may_move(const struct outgoing *outgoing)
{
	return outgoing->to_incarnation == 0 && outgoing->state != OUT_CANCELLING &&
		!outgoing->direct && !outgoing->service->closing &&
		outgoing->deadline_us > context_of(outgoing)->now_us;
}

/*
 * Begins anew with the present holder of the ID. The message was certainly not delivered to the
 * last one.
 */
static void move_on(struct outgoing *outgoing)
{
	struct partner *next;
	int error = ripc__find_again(outgoing->service, outgoing->to, &next);

	if (error) {
		ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, error);
		return;
	}
	if (ripc__order_is_late(outgoing, next)) {
		ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ENOENT);
		return;
	}
	ripc__outgoing_unblock(outgoing->partner);
	if (outgoing->flags & RIPC_ORDERED)
		ripc__order_moves(outgoing);
	ripc__outgoing_unlink(outgoing);
	ripc__outgoing_begin(outgoing, next);
	ripc__outgoing_advance(next);
}

/* The ordered one ahead of it has gone where it goes now. */
static void follow(struct outgoing *outgoing)
{
	if (may_move(outgoing))
		move_on(outgoing);
	else
		ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ECANCELED);
}

/* Has not begun, or was certainly not delivered; but what is ordered overtakes nothing. */
static bool is_free_to_go(const struct outgoing *outgoing, bool undelivered)
{
	return undelivered && !outgoing->cut && may_move(outgoing) && !ripc__order_stays(outgoing);
}

/* What has not begun goes to the next holder of the ID at once. */
static void move_waiting(struct partner *partner)
{
	list_for_each_safe(node, &partner->longs.outgoing) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);

		if (outgoing->cut == CUT_FOLLOW)
			follow(outgoing);
		else if (is_free_to_go(outgoing, outgoing->state == OUT_WAITING))
			move_on(outgoing);
	}
}

/* The service is leaving; unless this very incarnation was meant, look for the next one. */
void ripc__outgoing_refused(struct outgoing *outgoing)
{
	struct partner *partner = outgoing->partner;

	if (ripc__order_stays(outgoing))
		return; /* it is told so again, when it is known what became of those ahead */
	ripc__partner_retire(partner);
	if (outgoing->to_incarnation || outgoing->direct ||
			context_of(outgoing)->now_us >= outgoing->deadline_us)
		ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ENOENT);
	else
		move_on(outgoing);
	move_waiting(partner);
	ripc__outgoing_advance(partner);
}

/* Certainly not delivered where it was, which has been gone since gone_us? */
static bool is_undelivered(const struct outgoing *outgoing, uint64_t gone_us)
{
	return !ripc__may_be_complete(outgoing) || outgoing->started_us > gone_us;
}

static void outgoing_move(struct partner *partner)
{
	uint32_t n = partner->n_outgoing;

	/* Counted, as one may come back: its ID may mean the same partner again. */
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
	list_for_each_safe(node, &replies->outgoing) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);

		ripc__outgoing_end(outgoing, is_undelivered(outgoing, gone_us) ?
			RIPC_NOT_DELIVERED : RIPC_UNKNOWN, status);
	}
}

void ripc__outgoing_lost(struct partner *partner, int status, uint64_t gone_us)
{
	bool was_found = partner->peer != NULL, was_dead = partner->dead;

	if (partner->replies)
		replies_lost(partner->replies, status, gone_us);
	/* The first one that moves may find the same partner again, alive: the others stay. */
	for (uint32_t n = partner->n_outgoing; n > 0 && partner->dead == was_dead; n--) {
		struct outgoing *outgoing = list_entry(partner->longs.outgoing.next,
			struct outgoing, node);

		if (outgoing->cut < CUT_CERTAIN && !is_undelivered(outgoing, gone_us))
			ripc__outgoing_end(outgoing, RIPC_UNKNOWN, status);
		else if (was_found && may_move(outgoing) && ripc__order_is_whole(outgoing))
			move_on(outgoing);
		else
			ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, ripc__order_is_whole(
				outgoing) ? ripc__status_of(outgoing, status) : -ECANCELED);
	}
}

/*
 * Shorts that wait were for whom the ID means: not for one that has only claimed it. Those for that
 * one itself wait on.
 */
static void held_move(struct partner *partner)
{
	struct partner *next;

	if (!ripc__held_by_id(partner))
		return;
	if (ripc__partner_for_send(partner->service, partner->id, &next) == 0 && !next->held) {
		next->held = partner->held;
		partner->held = NULL;
		ripc__held_send(next);
	}
	ripc__held_drop(partner, true);
}

/* Messages for the incarnation that the partner has claimed to be are for nobody else. */
static void refuse_waiting(struct longs *longs)
{
	list_for_each_safe(node, &longs->outgoing) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);

		if (outgoing->state == OUT_WAITING && outgoing->to_incarnation &&
				!outgoing->direct)
			ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ENOENT);
	}
}

void ripc__sends_pass_by(struct partner *partner)
{
	if (partner->held && !partner->resolved)
		held_move(partner);
	outgoing_move(partner);
	if (partner->resolved)
		return;
	for_each_row(longs, partner)
		refuse_waiting(longs);
}

static void move_to(struct outgoing *outgoing, struct partner *to)
{
	if (wire_answers(&outgoing->call) && !ripc__longs_open(to, WIRE_REPLIES)) {
		ripc__outgoing_end(outgoing, RIPC_NOT_DELIVERED, -ENOMEM);
		return;
	}
	ripc__outgoing_unlink(outgoing);
	ripc__outgoing_link(outgoing, to);
}

void ripc__sends_merge(struct partner *from, struct partner *to)
{
	to->held = to->held ? to->held : from->held;
	if (to->held != from->held)
		ripc__held_drop(from, true);
	from->held = NULL;
	ripc__outgoing_unblock(from);
	for_each_row(longs, from) {
		list_for_each_safe(node, &longs->outgoing)
			move_to(list_entry(node, struct outgoing, node), to);
	}
}

void ripc__sends_fail(struct partner *partner, int status)
{
	ripc__held_drop(partner, true);
	for_each_row(longs, partner) {
		while (!list_empty(&longs->outgoing))
			ripc__outgoing_end(list_entry(longs->outgoing.next, struct outgoing, node),
				RIPC_NOT_DELIVERED, status);
	}
}

/* May the receiver take the message if it begins again? */
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

bool ripc__outgoing_begins_again(struct outgoing *outgoing, uint32_t status)
{
	struct partner *partner = outgoing->partner;

	if (outgoing->state != OUT_ACTIVE || outgoing->service->closing ||
			context_of(outgoing)->now_us >= outgoing->deadline_us ||
			!ripc__order_is_alone(outgoing) || !may_fare_better(outgoing, status))
		return false;
	ripc__outgoing_unlink(outgoing);
	ripc__outgoing_begin(outgoing, partner);
	return true;
}
