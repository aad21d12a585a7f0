/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of long messages that were sent with RIPC_ORDERED (protocol.md, Order). */
#ifndef RIPC_ORDER_H
#define RIPC_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/partner/partner.h"
#include "core/send/outgoing.h"
#include "core/wire/wire.h"
#include "ripc/ripc.h"

struct incoming;
struct message;
struct ripc_service;

/* outgoing->cut: what became of an ordered one ahead of it in its partner's list. */
enum order_cut {
	CUT_NOT,
	CUT_ASK,     /* its end is unknown: this one may have been handed out */
	CUT_CERTAIN, /* it was not delivered, so neither will be this one */
	CUT_FOLLOW,  /* it begins anew with another partner, and this one goes after it */
};

/* Bytes that it needs in its announcement. */
static inline uint32_t ripc__order_bytes(const struct outgoing *outgoing)
{
	return outgoing->flags & RIPC_ORDERED ? WIRE_ORDERED : 0;
}

/* Nothing ahead of it has failed. */
static inline bool ripc__order_is_whole(const struct outgoing *outgoing)
{
	return outgoing->cut == CUT_NOT || outgoing->cut == CUT_FOLLOW;
}

/* A new one gets its place among all ordered ones of the context, in the order of sending. */
void ripc__order_begin(struct outgoing *outgoing);
/* It goes to that partner. */
void ripc__order_link(struct outgoing *outgoing, struct partner *partner);
/* A later one has gone there already: it must not follow. */
bool ripc__order_is_late(const struct outgoing *outgoing, const struct partner *next);
/* It has got its number. */
void ripc__order_number(struct outgoing *outgoing);
/* Adds to an announcement which one comes before it. */
void ripc__order_say(const struct outgoing *outgoing, struct wire_packet *packet);
/* It is about to end, or to begin anew elsewhere; it is still in its partner's list. */
void ripc__order_ends(struct outgoing *outgoing, enum ripc_outcome outcome);
void ripc__order_moves(struct outgoing *outgoing);
/* Ends one that was cut, or asks its receiver what became of it. */
void ripc__order_cut(struct outgoing *outgoing);
/* Must it stay where it is, as an ordered one ahead of it does? */
bool ripc__order_stays(const struct outgoing *outgoing);
/* It is not ordered, or nothing ordered is ahead of it or behind it. */
bool ripc__order_is_alone(const struct outgoing *outgoing);
/* The application knows how it ended, or never will. */
void ripc__order_told(struct outgoing *outgoing);
/* One of ours is handed out. */
void ripc__order_handed(struct message *message);
/* Has one to this service failed of which the application does not know yet? */
bool ripc__order_has_gap(const struct ripc_service *service, const struct partner *partner,
		uint64_t to);

/* May it be handed out, as far as the one before it is concerned? */
static inline bool ripc__order_may_pass(const struct partner *partner, uint64_t previous)
{
	return previous == 0 || (previous >= partner->in_oldest &&
		partner->in_delivered >> (previous - partner->in_oldest) & 1);
}

/* A new announcement. 0: go on; -EAGAIN: it is too old, drop it; else refuse it with that. */
int ripc__order_check(const struct partner *partner, const struct wire_packet *announce);
/* One has found no room in its turn: the last of those behind it that cannot be handed out yet is
 * forgotten, as if it had not come. False: there is none. */
bool ripc__order_yield(struct partner *partner, const struct wire_packet *announce);
/* It was delivered, or refused: what waits for it goes on, or is refused, too. */
void ripc__order_delivered(struct partner *partner, uint64_t number);
void ripc__order_refused(struct partner *partner, uint64_t number, int status);
/* Numbers below oldest are resolved. True: the one before it was, and had not been delivered. */
bool ripc__order_is_broken(struct incoming *incoming, uint64_t oldest);

#endif
