/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets of long messages that come. */
#ifndef RIPC_ARRIVE_H
#define RIPC_ARRIVE_H

#include <stdbool.h>

#include "core/partner/packet.h"
#include "core/wire/wire.h"

struct partner;
struct ripc_context;
struct wire_packet;

/* The packet types that the receiver of messages takes, but for SHORT and DATA (engine/input.c). */
extern packet_handler *const ripc__receive_handlers[WIRE_TYPE_END];

/* An announcement, or bytes, came from this partner. The message may end; the partner stays. */
void ripc__incoming_announce(struct partner *partner, const struct wire_packet *packet);
void ripc__incoming_data(struct partner *partner, const struct wire_packet *packet);
/* A look at a port ends: its bytes count for credit and window, and more bytes are asked for. */
void ripc__arrivals_settle(struct ripc_context *ctx);
/* Takes in the announced message, or begins to. False: there is no room for the message. */
bool ripc__incoming_new(struct partner *partner, const struct wire_packet *packet);

#endif
