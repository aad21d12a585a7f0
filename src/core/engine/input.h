/* SPDX-License-Identifier: BSD-3-Clause */
/* Received packets on their way to the object that they are for. */
#ifndef RIPC_INPUT_H
#define RIPC_INPUT_H

struct device;
struct partner;
struct ripc__addr;
struct ripc__event;
struct ripc_context;
struct wire_packet;

void ripc__input(struct ripc_context *ctx, struct device *device, const struct ripc__event *event);
/* One event that is not a datagram. */
void ripc__input_event(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event);
/* A packet came from elsewhere than where the route leads: prove it, then go there. */
void ripc__peer_echo_reply(struct partner *partner, const struct wire_packet *packet,
		struct device *device, const struct ripc__addr *from);

#endif
