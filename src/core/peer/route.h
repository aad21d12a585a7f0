/* SPDX-License-Identifier: BSD-3-Clause */
/* The route of a peer: device and address, and their changes. */
#ifndef RIPC_ROUTE_H
#define RIPC_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/objects.h"
#include "core/partner/partner.h"
#include "path.h"

struct device;
struct peer;
struct ripc__addr;
struct ripc__answer;
struct ripc__event;
struct ripc__tx;

/*
 * The peer of who answered, by the best device that makes a route there: one reference more. Those
 * that refuse are tried again later. -ENOMEM; what the best one said; -EHOSTUNREACH: there is none.
 */
int ripc__route_find(struct ripc_context *ctx, const struct ripc__answer *answer,
		struct peer **peer);
/* The peer's device says (a negative errno) that it leads nowhere, or nothing is heard by it. */
void ripc__route_failed(struct ripc_context *ctx, struct peer *peer, int why);
/* Does it lead nowhere, as a network says that would know, and is there no other? */
bool ripc__route_is_lost(const struct partner *partner);
/* A route that took its time is ready, or has failed. */
void ripc__route_opened(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event);
/* Looks for other routes; no packet may be in the making. */
void ripc__routes_mend(struct ripc_context *ctx);
/* The resolver has answered: goes on by another device if the present one is broken. */
void ripc__route_answered(struct partner *partner, const struct ripc__answer *answer);
void ripc__routes_retry(struct ripc_context *ctx);
/* A valid packet has come from an address that is not where the route leads. */
void ripc__peer_moved(struct partner *partner, struct device *device,
		const struct ripc__addr *from, uint32_t len);
/* The answer to an echo: true if it proves a new route, which is taken. */
bool ripc__route_proven(struct partner *partner, uint64_t nonce, struct device *device,
		const struct ripc__addr *from);
/* What the device said (0 or a negative errno), as its callers know it; the route may be broken. */
int ripc__transmit_failed(struct ripc_context *ctx, struct peer *peer, int why);

/* Sends datagrams to a partner; returns how many, or an error. A broken route is replaced soon. */
static inline int ripc__partner_transmit(struct partner *partner, const struct ripc__tx *tx,
		uint32_t n)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	struct device *device = ripc__peer_device(ctx, peer);
	int sent = peer->opening ? 0 : device->ops->send(device->port, peer->route, tx, n);

	if (sent <= 0)
		return ripc__transmit_failed(ctx, peer, sent);
	ctx->stats.datagrams_sent += (uint32_t)sent;
	return sent;
}

void ripc__peer_candidate_free(struct peer *peer);

#endif
