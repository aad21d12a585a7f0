/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of core/receive: no other room includes this. */
#ifndef RIPC_RECEIVE_INTERNAL_H
#define RIPC_RECEIVE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/partner/partner.h"
#include "core/wire/wire.h"
#include "incoming.h"
#include "util/list.h"


static inline struct ripc_context *context_of(const struct incoming *incoming)
{
	return incoming->partner->service->ctx;
}

/* ---- collect ----------------------------------------------------------------------------- */

/* The bytes of an incoming long message: those that are there, and those that are missing. */

/*
 * Takes a packet's bytes, which begin at offset. Returns how many bytes were new; -EBADMSG: the
 * bytes were altered; -ENOMEM.
 */
int64_t ripc__collect(struct incoming *incoming, const struct wire_packet *packet,
		uint64_t offset);

/* ---- grant ------------------------------------------------------------------------------- */

/* Which long messages may send now, and how much. */

#define GRANTED_OF_PEER    4u     /* messages of one peer that may send at once */

/* The message waits for its turn, which may come at once. The sender is notified. */
void ripc__grant_wait(struct incoming *incoming);
/* Raises the limit as far as windows and credit allow. True: the limit was raised. */
bool ripc__grant(struct incoming *incoming);
/*
 * Bytes that may arrive unasked, or are missing after a timeout, count as on their way, as far
 * as the sender's share allows: a sender that sends nothing takes no share of other senders.
 */
void ripc__grant_expect(struct incoming *incoming);
/* New bytes of the message have arrived. The message may have to wait for its turn again. */
void ripc__grant_arrived(struct incoming *incoming, uint32_t bytes);
/* No byte has arrived for too long: the message releases the credit that it holds. */
void ripc__grant_silent(struct incoming *incoming);
/* The message holds no credit and waits for none any more. */
void ripc__grant_end(struct incoming *incoming);
/* Credit became free: grants it to messages that wait. */
void ripc__incoming_schedule(struct ripc_context *ctx);

/* ---- holes ------------------------------------------------------------------------------- */

/* Holes: bytes of a long message that are missing, and are requested again. */

bool ripc__holes_may_be_due(const struct incoming *incoming);
/* Names in pull the gaps that must be asked for now; returns how many bytes they have. */
uint64_t ripc__holes_due(struct incoming *incoming, struct wire_pull *pull);
/* Names in pull the first gaps before end, whether asked for before or not. */
void ripc__holes_all(struct incoming *incoming, uint64_t end, struct wire_pull *pull);

/* ---- order ------------------------------------------------------------------------------- */

/* The order of messages sent with RIPC_ORDERED, at the receiver (protocol.md, Order). */

/* May an ordered message be delivered, as far as the message before it is concerned? */
static inline bool ripc__order_may_pass(const struct partner *partner, uint64_t previous)
{
	const struct longs *longs = &partner->longs;

	return previous == 0 || (previous >= longs->in_oldest &&
		longs->in_delivered >> (previous - longs->in_oldest) & 1);
}

int ripc__order_check_ordered(struct partner *partner, const struct wire_packet *announce);
/*
 * Checks a new announcement, and refuses the messages that it shows to have been given up. 0: go
 * on; -EAGAIN: too old, drop it; otherwise the error to refuse with.
 */
static inline int ripc__order_check(struct partner *partner, const struct wire_packet *announce)
{
	return announce->h.flags & WIRE_F_ORDERED ?
		ripc__order_check_ordered(partner, announce) : 0;
}

/*
 * The announced message has its turn, but found no room. The last message behind it that cannot
 * be delivered to the application yet is forgotten, as if it had not arrived. False: there is
 * none.
 */
bool ripc__order_yield(struct partner *partner, const struct wire_packet *announce);
/*
 * With partner->ordering. The message number was delivered: returns the complete message that waits
 * for it, or NULL.
 */
struct incoming *ripc__order_delivered(struct partner *partner, uint64_t number);

/* An ordered message is about to be delivered: earlier ones never will be any more. */
static inline void ripc__order_passed(struct partner *partner, uint64_t number)
{
	if (partner->in_passed < number)
		partner->in_passed = number;
}

/*
 * number: from in_oldest of its row up to LONGS_MAX - 1 more; others are ignored: numbers that a
 * partner inherits can raise in_oldest beyond those that it sends. status: why, a negative
 * errno.
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

/* ---- read -------------------------------------------------------------------------------- */

/* Long messages that are read by the network. */

/*
 * Begins to read an announced message, which may end at once. False: the message must be pulled.
 */
bool ripc__reading_start(struct incoming *incoming, const struct wire_packet *announce);
/*
 * The message was announced again. True: the announcement brought the missing checksum, and the
 * reading may have ended.
 */
bool ripc__reading_told(struct reading *reading, const struct wire_packet *announce);
/* Asks for no more bytes, and pulls the message when the last read has ended. */
void ripc__reading_fail(struct reading *reading);
/* Has the device taken none of this reading's reads for long? */
bool ripc__reading_is_stuck(const struct reading *reading);
/*
 * The incoming message is given up. True: the message and its return buffers are released later,
 * when the reads in progress have ended.
 */
bool ripc__reading_leave(struct reading *reading);
/* The reading has ended: all of the message was read and is intact, or it cannot be read. */
void ripc__incoming_was_read(struct incoming *incoming);
void ripc__incoming_unreadable(struct incoming *incoming);

/* ---- pull -------------------------------------------------------------------------------- */

/* Requesting bytes. */

/* Sends a PULL: it names the bytes that may come, and the bytes missing before holes_end. */
void ripc__incoming_pull(struct incoming *incoming, uint64_t holes_end);
/* Sends a PULL for gaps and grants that have become due. */
void ripc__pull_due(struct incoming *incoming);

#endif
