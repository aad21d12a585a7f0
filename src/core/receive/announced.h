/* SPDX-License-Identifier: BSD-3-Clause */
/* Announcements that are new. */
#ifndef RIPC_ANNOUNCED_H
#define RIPC_ANNOUNCED_H

#include <stdbool.h>

struct partner;
struct wire_packet;

/* Accepts or refuses a message that was not announced before. */
void ripc__announced_new(struct partner *partner, const struct wire_packet *packet);
/* The announced message came in one packet, and has its place in the message's own block. */
bool ripc__is_whole(const struct partner *partner, const struct wire_packet *packet);
void ripc__incoming_cancel(struct partner *partner, const struct wire_packet *packet);

#endif
