/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of long messages that are sent with RIPC_ORDERED, at their sender; receive/order.c has
 * the rule.
 *
 * Design notes. The partner's list is the order of sending. When an ordered message ends without
 * having been delivered, those behind it are cut: their timers fire at once (a loop over the
 * list must not find it altered), and end them, or ask for their outcome. The gap lasts until
 * all those ends were delivered to the application; until then no new ordered message is
 * accepted.
 */
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/wire/wire.h"
#include "order.h"
#include "outgoing.h"
#include "util/list.h"
#include "util/timers.h"

/* The nearest ordered message ahead of this one, or behind it, in its partner's list; or NULL. */
static struct outgoing *nearest(const struct outgoing *outgoing, bool ahead)
{
	const struct list *end = &ripc__row_of(outgoing)->outgoing, *at = &outgoing->node;

	while ((at = ahead ? at->prev : at->next) != end) {
		struct outgoing *found = list_entry(at, struct outgoing, node);

		if (found->flags & RIPC_ORDERED)
			return found;
	}
	return NULL;
}

void ripc__order_begin(struct outgoing *outgoing)
{
	outgoing->place = ++outgoing->message.ctx->sends.places;
}

void ripc__order_link(struct outgoing *outgoing, struct partner *partner)
{
	if (partner->ordered_top < outgoing->place)
		partner->ordered_top = outgoing->place;
}

bool ripc__order_is_late(const struct outgoing *outgoing, const struct partner *next)
{
	return outgoing->flags & RIPC_ORDERED && next->ordered_top > outgoing->place;
}

void ripc__order_number(struct outgoing *outgoing)
{
	const struct outgoing *ahead = nearest(outgoing, true);

	outgoing->previous = ahead ? ahead->number : 0;
}

void ripc__order_say(const struct outgoing *outgoing, struct wire_packet *packet)
{
	packet->h.flags |= WIRE_F_ORDERED;
	packet->previous = outgoing->previous;
}

static void gap_begins(struct outgoing *outgoing)
{
	outgoing->message.ctx->sends.n_gaps += !outgoing->gap;
	outgoing->gap = true;
}

void ripc__order_told(struct outgoing *outgoing)
{
	outgoing->message.ctx->sends.n_gaps -= outgoing->gap;
	outgoing->gap = false;
}

void ripc__order_handed(struct message *message)
{
	ripc__order_told(list_entry(message, struct outgoing, message));
}

static void cut(struct outgoing *outgoing, enum order_cut why)
{
	struct ripc_context *ctx = outgoing->message.ctx;

	gap_begins(outgoing);
	if (outgoing->cut < why)
		outgoing->cut = why;
	ripc__timer_set(&ctx->loop.timers, &outgoing->timer, ctx->now_us);
}

void ripc__order_ends(struct outgoing *outgoing, enum ripc_outcome outcome)
{
	struct outgoing *next = nearest(outgoing, false);

	if (outcome == RIPC_DELIVERED) {
		ripc__order_told(outgoing); /* the message was cut, and had arrived nevertheless */
		if (next && next->previous == outgoing->number)
			next->previous = 0;
		return;
	}
	gap_begins(outgoing);
	for (; next; next = nearest(next, false))
		cut(next, outcome == RIPC_UNKNOWN ? CUT_ASK : CUT_CERTAIN);
}

void ripc__order_moves(struct outgoing *outgoing)
{
	struct outgoing *next = nearest(outgoing, false);

	/* previous stays: at the former partner the next one is never delivered. */
	if (next && next->cut == CUT_NOT)
		next->cut = CUT_FOLLOW;
}

bool ripc__order_stays(const struct outgoing *outgoing)
{
	return outgoing->flags & RIPC_ORDERED && nearest(outgoing, true);
}

bool ripc__order_is_alone(const struct outgoing *outgoing)
{
	return !(outgoing->flags & RIPC_ORDERED) ||
		!(nearest(outgoing, true) || nearest(outgoing, false));
}

bool ripc__order_has_gap(const struct ripc_service *service, const struct partner *partner,
		uint64_t to)
{
	list_for_each(node, &partner->longs.outgoing) {
		if (list_entry(node, struct outgoing, node)->gap)
			return true;
	}
	list_for_each_entry(outgoing, &service->ctx->sends.ended, const struct outgoing, node) {
		if (outgoing->gap && outgoing->service == service && outgoing->to == to)
			return true;
	}
	return false;
}
