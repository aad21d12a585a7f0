/* SPDX-License-Identifier: BSD-3-Clause */
/* Delivering long messages. */
#ifndef RIPC_DELIVER_H
#define RIPC_DELIVER_H

struct incoming;
struct message;
struct partner;
struct wire_packet;

/* All of it is here: it is delivered, or waits for its turn, or was altered on the way. */
void ripc__incoming_finish(struct incoming *incoming);
/* All of it came at once. */
void ripc__deliver_whole(struct partner *partner, const struct wire_packet *packet,
		struct message *message);
/* All of it is here, but not yet what must be handed out before it. */
void ripc__wait_for_turn(struct incoming *incoming);
/* It holds no credit any more, and nobody's turn. */
void ripc__incoming_let_go(struct incoming *incoming);

#endif
