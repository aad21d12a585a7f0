/* SPDX-License-Identifier: BSD-3-Clause */
/* Short messages that arrive. */
#ifndef RIPC_RECEIVE_SHORT_H
#define RIPC_RECEIVE_SHORT_H

#include <stdbool.h>

struct numbers;
struct partner;
struct wire_packet;

/* A short message came from this partner: it is queued, parked, or dropped and counted. */
void ripc__short_input(struct partner *partner, const struct wire_packet *packet);
/* As ripc__short_input(), where the packet's number is one of these. */
void ripc__short_numbered(struct partner *partner, const struct wire_packet *packet,
		struct numbers *numbers);
/*
 * A short message of this partner, verified, is refused: no copy of it is accepted later. False:
 * it has been accepted or refused before, or is too old to tell.
 */
bool ripc__short_spend(struct partner *partner, const struct wire_packet *packet);
/* As ripc__short_input(), for a plain packet (wire/wire.h) that came by the partner's route. */
void ripc__short_plain(struct partner *partner, const struct wire_packet *packet);

#endif
