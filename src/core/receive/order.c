/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of the numbers of long messages that arrive (delivered, refused, why), and the order
 * of those that were sent with RIPC_ORDERED.
 *
 * Design notes. Each announcement of an ordered message names the one before it, until that is
 * known to be delivered: a chain. The receiver delivers a message to the application only when
 * its predecessor has been put into the same queue. The part of a chain that was delivered is
 * therefore always a beginning of it. A message that arrives before its turn is kept, complete
 * but neither in the queue nor answered: *done* is never untrue. Its sender hears that the
 * receiver lives, and has LONGS_MAX under way meanwhile, no less than without order.
 *
 * An announcement also shows which messages its sender has given up: each ordered number between
 * previous and its own, because previous is the nearest one ahead that is still under way. The
 * receiver refuses these as if their CANCELs had arrived. Otherwise two messages would wait for
 * one predecessor, the later one behind one that may never be complete. For the same reason an
 * ordered message is refused that arrives after a later one. A lost CANCEL therefore delays no
 * message, and an ordered message is delivered to the application before every later one, or
 * never.
 *
 * Room: a message that arrives before its turn may take room, otherwise a path that loses
 * announcements would have no pipeline. Such a message is forgotten again, the last one first,
 * when a message before it finds no room. Room is thus as good as given in the order of numbers,
 * and a chain that cannot go on holds nothing that its own head needs.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/wire/wire.h"
#include "incoming.h"
#include "internal.h"
#include "util/list.h"

/* A message being received that this announcement shows to have been given up, or NULL. */
static struct incoming *given_up(const struct partner *partner,
		const struct wire_packet *announce)
{
	list_for_each_entry(incoming, &partner->incoming, struct incoming, node) {
		if (incoming->ordered && incoming->number < announce->h.number &&
				incoming->number > announce->previous)
			return incoming;
	}
	return NULL;
}

/* Does a later message show that the announced one has been given up? */
static bool is_given_up(const struct partner *partner, const struct wire_packet *announce)
{
	if (announce->h.number < partner->in_passed)
		return true;
	list_for_each_entry(incoming, &partner->incoming, const struct incoming, node) {
		if (incoming->ordered && incoming->number > announce->h.number &&
				incoming->previous < announce->h.number)
			return true;
	}
	return false;
}

int ripc__order_check_ordered(struct partner *partner, const struct wire_packet *announce)
{
	const struct longs *longs = &partner->longs;
	uint64_t previous = announce->previous;
	struct incoming *incoming;

	if (is_given_up(partner, announce))
		return -ECANCELED;
	while ((incoming = given_up(partner, announce)))
		ripc__incoming_refuse(incoming, -ECANCELED, false);
	if (previous == 0)
		return 0;
	/*
	 * The sender knows the outcome of that by now, and announces the message anew if it
	 * still matters.
	 */
	if (previous < longs->in_oldest)
		return -EAGAIN;
	if (!(longs->in_refused >> (previous - longs->in_oldest) & 1))
		return 0;
	/* The messages of a chain look for the next owner of the ID together, or fail. */
	return ripc__number_refusal(partner, previous) == -ESHUTDOWN ? -ESHUTDOWN : -ECANCELED;
}

bool ripc__order_yield(struct partner *partner, const struct wire_packet *announce)
{
	struct incoming *last = NULL;

	if (!(announce->h.flags & WIRE_F_ORDERED) || !partner->ordering)
		return false;
	list_for_each_entry(incoming, &partner->incoming, struct incoming, node) {
		if (incoming->number > announce->h.number && (!last ||
				incoming->number > last->number) &&
				!ripc__order_may_pass(partner, incoming->previous))
			last = incoming;
	}
	if (last)
		ripc__incoming_forget(last);
	return last;
}

/* A message that waits for that number, or NULL. */
static struct incoming *waiting_for(const struct partner *partner, uint64_t number)
{
	if (!partner->ordering)
		return NULL;
	list_for_each_entry(incoming, &partner->incoming, struct incoming, node) {
		if (incoming->previous == number)
			return incoming;
	}
	return NULL;
}

struct incoming *ripc__order_delivered(struct partner *partner, uint64_t number)
{
	struct incoming *next = waiting_for(partner, number);

	if (list_empty(&partner->incoming))
		partner->ordering = false;
	return next && next->complete ? next : NULL;
}

/* Messages that wait for a refused message are refused, too. */
static void order_refused(struct partner *partner, uint64_t number, int status)
{
	struct incoming *next;

	while ((next = waiting_for(partner, number)))
		ripc__incoming_refuse(next, status == -ESHUTDOWN ? -ESHUTDOWN : -ECANCELED, true);
}

/* Numbers below oldest are resolved. True: the one before it was, and had not been delivered. */
static bool order_is_broken(struct incoming *incoming, uint64_t oldest)
{
	if (incoming->previous == 0 || incoming->previous >= oldest)
		return false;
	if (!ripc__order_may_pass(incoming->partner, incoming->previous))
		return true;
	incoming->previous = 0;
	return false;
}

/* ---- numbers ----------------------------------------------------------------------------- */

void ripc__number_refused(struct partner *partner, uint64_t number, int status)
{
	struct longs *longs = ripc__longs_of(partner, number);

	if (!longs->reasons)
		longs->reasons = calloc(1, LONGS_MAX);
	if (longs->reasons)
		longs->reasons[number % LONGS_MAX] = (uint8_t)-status;
	if (number - longs->in_oldest < LONGS_MAX)
		longs->in_refused |= 1ull << (number - longs->in_oldest);
	order_refused(partner, number, status);
}

int ripc__number_refusal(struct partner *partner, uint64_t number)
{
	const struct longs *longs = ripc__longs_of(partner, number);
	int reason = longs->reasons ? longs->reasons[number % LONGS_MAX] : 0;

	return reason ? -reason : -ENOBUFS; /* 0: there was no memory to note it */
}

void ripc__incoming_outdated(struct partner *partner, const struct longs *longs, uint64_t oldest)
{
	list_for_each_entry_safe(incoming, &partner->incoming, struct incoming, node) {
		if (ripc__longs_of(partner, incoming->number) != longs)
			continue;
		if (incoming->number < oldest || order_is_broken(incoming, oldest))
			ripc__incoming_forget(incoming);
	}
}
