/* SPDX-License-Identifier: BSD-3-Clause */
/* Delivering long messages. */
#ifndef RIPC_DELIVER_H
#define RIPC_DELIVER_H

struct incoming;
struct message;
struct partner;
struct wire_packet;

/* All bytes are here: the message is delivered, waits for its turn, or was altered on the way. */
void ripc__incoming_finish(struct incoming *incoming);
/* The whole message came in one packet. */
void ripc__deliver_whole(struct partner *partner, const struct wire_packet *packet,
		struct message *message);
/* The whole message is here, but not the message that must be handed out before it. */
void ripc__wait_for_turn(struct incoming *incoming);
/* The message gives back its credit, and its turn. */
void ripc__incoming_let_go(struct incoming *incoming);

#endif
