/* SPDX-License-Identifier: BSD-3-Clause */
/* Routes: the device and the address of a peer. partner/roam.h decides when they change. */
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
 * The peer that an answer names, by the best device with a route: one reference more. Devices
 * that refuse are tried again later. -ENOMEM; the error of the best device; -EHOSTUNREACH: no
 * device fits.
 */
int ripc__route_find(struct ripc_context *ctx, const struct ripc__answer *answer,
		struct peer **peer);
/* The peer's route leads nowhere (why: the device's negative errno), or nothing is heard by it. */
void ripc__route_failed(struct ripc_context *ctx, struct peer *peer, int why);
/* No other device fits: one that lacks a descriptor now is used on. */
void ripc__route_stays(struct peer *peer);
/* Sending failed with why (0 or a negative errno): returns the callers' error; marks the route. */
int ripc__transmit_failed(struct ripc_context *ctx, struct peer *peer, int why);

/* The best way to the partner that answered, over devices below end that have not failed. */
struct device *ripc__route_choose(struct ripc_context *ctx, uint8_t failed, uint32_t end,
		const struct ripc__answer *answer, struct ripc__addr *addr);
/* Does a datagram from this address come from where a route to that address leads? */
bool ripc__route_same(struct device *device, const struct ripc__addr *to,
		const struct ripc__addr *from);
/* From now on the peer is reached by device at addr. The device's error, or -ENOBUFS. */
int ripc__route_change(struct ripc_context *ctx, struct peer *peer, struct device *device,
		const struct ripc__addr *addr);
/* A device that is better than the one in use has failed just now: tried again after RETRY_US. */
void ripc__route_failed_now(const struct ripc_context *ctx, struct peer *peer);

#endif
