/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of messages sent with RIPC_ORDERED, at the receiver (protocol.md, Order). */
#ifndef RIPC_ORDER_H
#define RIPC_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/partner/partner.h"
#include "core/wire/wire.h"
#include "util/list.h"

struct incoming;

/* May an ordered message be handed out, as far as the message before it is concerned? */
static inline bool ripc__order_may_pass(const struct partner *partner, uint64_t previous)
{
	const struct longs *longs = &partner->longs;

	return previous == 0 || (previous >= longs->in_oldest &&
		longs->in_delivered >> (previous - longs->in_oldest) & 1);
}

int ripc__order_check_ordered(struct partner *partner, const struct wire_packet *announce);
/*
 * Checks a new announcement, and refuses the messages that it shows to have been given up. 0: go
 * on; -EAGAIN: too old, drop it; else the error to refuse with.
 */
static inline int ripc__order_check(struct partner *partner, const struct wire_packet *announce)
{
	return announce->h.flags & WIRE_F_ORDERED ?
		ripc__order_check_ordered(partner, announce) : 0;
}

/*
 * The announced message has its turn, but found no room. Of the messages behind it that cannot be
 * handed out yet, the last one is forgotten, as if it had not come. False: there is none.
 */
bool ripc__order_yield(struct partner *partner, const struct wire_packet *announce);
/*
 * With partner->ordering. The message number was delivered: returns the complete message that waits
 * for it, or NULL.
 */
struct incoming *ripc__order_delivered(struct partner *partner, uint64_t number);

/* An ordered message is about to be handed out: those before it never will be any more. */
static inline void ripc__order_passed(struct partner *partner, uint64_t number)
{
	if (partner->in_passed < number)
		partner->in_passed = number;
}

/*
 * number: from in_oldest of its row up to LONGS_MAX - 1 more, else nothing is noted: what a partner
 * inherits can raise in_oldest beyond what it sends. status: why, a negative errno.
 */
static inline void ripc__number_delivered(struct partner *partner, uint64_t number)
{
	struct longs *longs = ripc__longs_of(partner, number);

	if (number - longs->in_oldest < LONGS_MAX)
		longs->in_delivered |= 1ull << (number - longs->in_oldest);
}

void ripc__number_refused(struct partner *partner, uint64_t number, int status);
/* Why the message was refused. */
int ripc__number_refusal(struct partner *partner, uint64_t number);
/*
 * Forgets incoming messages of a row that are below oldest, and those whose predecessor below
 * oldest failed.
 */
void ripc__incoming_outdated(struct partner *partner, const struct longs *longs, uint64_t oldest);
/* The sender needs no answers any more about numbers of the row that are below oldest. */
static inline void ripc__numbers_advance(struct partner *partner, struct longs *longs,
		uint64_t oldest)
{
	uint64_t ahead = oldest - longs->in_oldest;

	if (oldest <= longs->in_oldest)
		return;
	if (!list_empty(&partner->incoming))
		ripc__incoming_outdated(partner, longs, oldest);
	longs->in_delivered = ahead < 64 ? longs->in_delivered >> ahead : 0;
	longs->in_refused = ahead < 64 ? longs->in_refused >> ahead : 0;
	longs->in_oldest = oldest;
}

#endif
