/* SPDX-License-Identifier: BSD-3-Clause */
/* The effect on partners of a handshake that ends, and of rights that change. */
#ifndef RIPC_KEYED_H
#define RIPC_KEYED_H

struct device;
struct ripc__event;
struct ripc_context;

/* event: RIPC_EV_PEER of a sealed network. */
void ripc__handshake_ended(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event);
/*
 * The directory of keys has changed, or a right has ended. A partner whose key may not be its ID
 * any more is lost when the next handshake has ended: until then it may send nothing but replies.
 */
void ripc__rights_changed(struct ripc_context *ctx);

#endif
