/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of long messages that are sent with RIPC_ORDERED (protocol.md, Order). */
#ifndef RIPC_SEND_ORDER_H
#define RIPC_SEND_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wire/wire.h"
#include "outgoing.h"
#include "ripc/ripc.h"

/* outgoing->cut: the fate of an ordered message ahead of this message in its partner's list. */
enum order_cut {
	CUT_NOT,
	CUT_ASK,     /* the cut one ended UNKNOWN: this one may have been delivered */
	CUT_CERTAIN, /* the cut one was not delivered, hence this one will not be */
	CUT_FOLLOW,  /* the message ahead moves to another partner, and this one follows */
};

/* Has no ordered message ahead of this one failed? */
static inline bool ripc__order_is_whole(const struct outgoing *outgoing)
{
	return outgoing->cut == CUT_NOT || outgoing->cut == CUT_FOLLOW;
}

/* A new message gets its place among the ordered ones of the context, in the order of sending. */
void ripc__order_begin(struct outgoing *outgoing);
/* The message is sent to that partner. */
void ripc__order_link(struct outgoing *outgoing, struct partner *partner);
/* Was a later ordered message sent to next already? Then this one must not be sent there. */
bool ripc__order_is_late(const struct outgoing *outgoing, const struct partner *next);
/* The message has got its number. */
void ripc__order_number(struct outgoing *outgoing);
/* Adds to an announcement the number of the ordered message before this one. */
void ripc__order_say(const struct outgoing *outgoing, struct wire_packet *packet);
/*
 * The message is about to end, or to begin anew with another partner, and is still in its
 * partner's list.
 */
void ripc__order_ends(struct outgoing *outgoing, enum ripc_outcome outcome);
void ripc__order_moves(struct outgoing *outgoing);
/* Must the message stay with its partner, because an ordered one ahead of it stays? */
bool ripc__order_stays(const struct outgoing *outgoing);
/* The message is not ordered, or no ordered message is ahead of it or behind it. */
bool ripc__order_is_alone(const struct outgoing *outgoing);
/* The application knows how the message ended, or never will. */
void ripc__order_told(struct outgoing *outgoing);
/* A COMPLETION or NOTICE is delivered to the application. */
void ripc__order_handed(struct message *message);
/* Has an ordered message to this ID failed without the application's knowledge so far? */
bool ripc__order_has_gap(const struct ripc_service *service, const struct partner *partner,
		uint64_t to);

#endif
