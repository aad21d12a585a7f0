/* SPDX-License-Identifier: BSD-3-Clause */
/* What becomes of a long message for which its receiver has no room. */
#ifndef RIPC_ROOM_H
#define RIPC_ROOM_H

#include <stdbool.h>

struct partner;
struct wire_packet;

/*
 * An announced message has found no place. True: something is held that may be freed, so the sender
 * is to ask again; false: nothing is, and no waiting helps. The log is told why, once for each
 * cause until there has been none for a minute.
 */
bool ripc__room_may_come(struct partner *partner, const struct wire_packet *announce);

#endif
