/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shorts to a group that come in datagrams to many (protocol.md, "Datagrams to many"). The sender
 * of such a stream has told each member its token; stream.c is the other end.
 */
#ifndef RIPC_HEARD_H
#define RIPC_HEARD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/partner/packet.h"
#include "core/wire/wire.h"

struct device;
struct numbers;
struct partner;
struct ripc__event;
struct ripc_context;
struct ripc_service;
struct wire_packet;

/* The packet types that tell of streams (engine/input.c). */
extern packet_handler *const ripc__group_handlers[WIRE_TYPE_END];

/* A datagram to many has come: each service here that the stream was told to gets it. */
void ripc__heard_input(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event);
/* A copy of a short that was also multicast has come: its number in the stream, and the numbers
 * that have come there. NULL: no stream of the partner will be heard. */
struct numbers *ripc__heard_copy(struct partner *partner, const struct wire_packet *packet,
		uint64_t *number);
/* The partner was taken for gone: nothing of its streams is heard until it tells of them again. */
void ripc__heard_lost(struct partner *partner);
/* The streams of from to groups are those of to. */
void ripc__heard_move(struct partner *from, struct partner *to);
/* The partner's streams count at its peer; is_held false: they no longer do. */
void ripc__heard_count(struct partner *partner, bool is_held);
/* The partner is forgotten, and its streams with it. */
void ripc__heard_forget(struct partner *partner);
/* A service has left the group. */
void ripc__heard_leave(struct ripc_service *service, uint64_t group);

#endif
