/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shorts to a group that come in multicast datagrams (protocol.md, "Datagrams to many"). The sender
 * of such a stream has sent each member its token; mcast_out.c is the other end.
 */
#ifndef RIPC_MCAST_IN_H
#define RIPC_MCAST_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/partner/packet.h"
#include "core/wire/wire.h"

/* Handlers of the packet types about streams (engine/input.c). */
extern packet_handler *const ripc__group_handlers[WIRE_TYPE_END];

/* A multicast datagram has come: each service of this context that knows the stream gets it. */
void ripc__mcast_in_input(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event);
/* A copy of a short that was also multicast has come: its number in the stream, and the numbers
 * that have come there. NULL: no stream of the partner will be heard. */
struct numbers *ripc__mcast_in_copy(struct partner *partner, const struct wire_packet *packet,
		uint64_t *number);
/* The partner was thought to be gone: its streams are not heard until it announces them again. */
void ripc__mcast_in_lost(struct partner *partner);
/* Moves the streams of one partner to another. */
void ripc__mcast_in_move(struct partner *from, struct partner *to);
/* The partner's streams count at its peer; is_held false: they no longer do. */
void ripc__mcast_in_count(struct partner *partner, bool is_held);
/* The partner is forgotten, and its streams with it. */
void ripc__mcast_in_forget(struct partner *partner);
/* A service has left the group. */
void ripc__mcast_in_leave(struct ripc_service *service, uint64_t group);

#endif
