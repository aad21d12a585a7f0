/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of long messages that are sent with RIPC_ORDERED (protocol.md, Order). */
#ifndef RIPC_SEND_ORDER_H
#define RIPC_SEND_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wire/wire.h"
#include "outgoing.h"
#include "ripc/ripc.h"

struct message;
struct partner;
struct ripc_service;

/* outgoing->cut: what became of an ordered one ahead of it in its partner's list. */
enum order_cut {
	CUT_NOT,
	CUT_ASK,     /* its end is unknown: this one may have been handed out */
	CUT_CERTAIN, /* it was not delivered, so neither will be this one */
	CUT_FOLLOW,  /* it begins anew with another partner, and this one goes after it */
};

/* Bytes of its last extensions in its announcement. */
static inline uint32_t ripc__extra_bytes(const struct outgoing *outgoing)
{
	return (outgoing->flags & RIPC_ORDERED ? WIRE_ORDERED : 0) +
		(outgoing->call.kind ? WIRE_CALL : 0);
}

/* Nothing ahead of it has failed. */
static inline bool ripc__order_is_whole(const struct outgoing *outgoing)
{
	return outgoing->cut == CUT_NOT || outgoing->cut == CUT_FOLLOW;
}

/* A new one gets its place among all ordered ones of the context, in the order of sending. */
void ripc__order_begin(struct outgoing *outgoing);
/* The message goes to that partner. */
void ripc__order_link(struct outgoing *outgoing, struct partner *partner);
/* A later one has gone there already: it must not follow. */
bool ripc__order_is_late(const struct outgoing *outgoing, const struct partner *next);
/* The message has got its number. */
void ripc__order_number(struct outgoing *outgoing);
/* Adds to an announcement which one comes before it. */
void ripc__order_say(const struct outgoing *outgoing, struct wire_packet *packet);
/* The message is about to end, or to begin anew elsewhere, and is still in its partner's list. */
void ripc__order_ends(struct outgoing *outgoing, enum ripc_outcome outcome);
void ripc__order_moves(struct outgoing *outgoing);
/* Must it stay where it is, as an ordered one ahead of it does? */
bool ripc__order_stays(const struct outgoing *outgoing);
/* The message is not ordered, or no ordered message is ahead of it or behind it. */
bool ripc__order_is_alone(const struct outgoing *outgoing);
/* The application knows how it ended, or never will. */
void ripc__order_told(struct outgoing *outgoing);
/* A message of ours is handed out. */
void ripc__order_handed(struct message *message);
/* Has one to this service failed of which the application does not know yet? */
bool ripc__order_has_gap(const struct ripc_service *service, const struct partner *partner,
		uint64_t to);

#endif
