/* SPDX-License-Identifier: BSD-3-Clause */
/* Received packets on their way to the object that they are for. */
#ifndef RIPC_INPUT_H
#define RIPC_INPUT_H

struct device;
struct ripc__event;
struct ripc_context;

void ripc__input(struct ripc_context *ctx, struct device *device, const struct ripc__event *event);
/* One event that is not a datagram. */
void ripc__input_event(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event);

#endif
