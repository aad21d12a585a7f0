/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes of a peer's route. */
#ifndef RIPC_ROAM_H
#define RIPC_ROAM_H

#include <stdbool.h>
#include <stdint.h>

struct device;
struct partner;
struct peer;
struct ripc__addr;
struct ripc__answer;
struct ripc__event;
struct ripc_context;

/* Does the partner's route lead nowhere, as its network reports, and is there no other route? */
bool ripc__route_is_lost(const struct partner *partner);
/* A route that was being opened is ready, or has failed. */
void ripc__route_opened(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event);
/* Looks for routes in place of broken ones. The caller must not be composing a packet. */
void ripc__routes_mend(struct ripc_context *ctx);
/* The resolver has answered: the partner goes on by another device if its device is broken. */
void ripc__route_answered(struct partner *partner, const struct ripc__answer *answer);
/* The peer has another route: what waits for its partners, or was repeated in vain, is sent. */
void ripc__route_taken(struct ripc_context *ctx, const struct peer *peer);
void ripc__routes_retry(struct ripc_context *ctx);
/* A valid packet has come from an address where the partner's route does not lead. */
void ripc__peer_moved(struct partner *partner, struct device *device,
		const struct ripc__addr *from, uint32_t len);
/* An answer to an echo came. True: the answer proves a new route, and the peer takes that route. */
bool ripc__route_proven(struct partner *partner, uint64_t nonce, struct device *device,
		const struct ripc__addr *from);
/* Forgets a route that is being proven. */
void ripc__candidate_free(struct peer *peer);

#endif
