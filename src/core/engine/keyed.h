/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a handshake with a context, and its effect on the partners there. */
#ifndef RIPC_KEYED_H
#define RIPC_KEYED_H

struct device;
struct ripc__event;
struct ripc_context;

/* event: RIPC_EV_PEER of a sealed network. */
void ripc__handshake_ended(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event);

#endif
