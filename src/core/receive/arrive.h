/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes of long messages. */
#ifndef RIPC_ARRIVE_H
#define RIPC_ARRIVE_H

#include <stdbool.h>

struct partner;
struct ripc_context;
struct wire_packet;

/* An announcement, or bytes, of this partner. The message may end; the partner stays. */
void ripc__incoming_announce(struct partner *partner, const struct wire_packet *packet);
void ripc__incoming_data(struct partner *partner, const struct wire_packet *packet);
/* Ends a look at a port: the bytes that it found count for credit and window, and more is asked. */
void ripc__arrivals_settle(struct ripc_context *ctx);
/* Takes in what was announced, or begins to. False: there is no room for it. */
bool ripc__incoming_new(struct partner *partner, const struct wire_packet *packet);

#endif
