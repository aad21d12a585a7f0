/* SPDX-License-Identifier: BSD-3-Clause */
/* By which device and to which address a peer is reached; partner/roam.h: when that changes. */
#ifndef RIPC_ROUTE_H
#define RIPC_ROUTE_H

#include <stdint.h>

#include "core/objects.h"

struct device;
struct peer;
struct ripc__addr;
struct ripc__answer;

#define RETRY_US 5000000u /* a better device is tried again after so long */

static inline uint32_t ripc__device_index(const struct ripc_context *ctx,
		const struct device *device)
{
	return (uint32_t)(device - ctx->devices);
}

static inline uint8_t ripc__device_bit(const struct ripc_context *ctx, const struct device *device)
{
	return (uint8_t)(1u << ripc__device_index(ctx, device));
}

/*
 * The peer of who answered, by the best device that makes a route there: one reference more. Those
 * that refuse are tried again later. -ENOMEM; what the best one said; -EHOSTUNREACH: there is none.
 */
int ripc__route_find(struct ripc_context *ctx, const struct ripc__answer *answer,
		struct peer **peer);
/* The peer's device says (a negative errno) that it leads nowhere, or nothing is heard by it. */
void ripc__route_failed(struct ripc_context *ctx, struct peer *peer, int why);
/* What the device said (0 or a negative errno), as its callers know it; the route may be broken. */
int ripc__transmit_failed(struct ripc_context *ctx, struct peer *peer, int why);

/* The best way to the partner that answered, over devices below end that have not failed. */
struct device *ripc__route_choose(struct ripc_context *ctx, uint8_t failed, uint32_t end,
		const struct ripc__answer *answer, struct ripc__addr *addr);
/* The peer is reached there from now on. What the device says; -ENOBUFS. */
int ripc__route_change(struct ripc_context *ctx, struct peer *peer, struct device *device,
		const struct ripc__addr *addr);
/* A device that is better than the one in use has failed just now: tried again after RETRY_US. */
void ripc__route_failed_now(const struct ripc_context *ctx, struct peer *peer);

#endif
