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
struct wire_packet;

/* Does the partner's route lead nowhere, as its network reports, and is there no other route? */
bool ripc__route_is_lost(const struct partner *partner);
/* A route that was being opened is ready, or has failed. */
void ripc__route_opened(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event);
/* Looks for routes in place of broken ones. The caller must not be composing a packet. */
void ripc__routes_mend(struct ripc_context *ctx);
/* The resolver has answered: the partner goes on by another device if its device is broken. */
void ripc__route_answered(struct partner *partner, const struct ripc__answer *answer);
/* The peer has another route: packets that wait for it, or were repeated in vain, are sent. */
void ripc__routes_retry(struct ripc_context *ctx);
/* A valid packet has come from an address where the partner's route does not lead. */
void ripc__peer_moved(struct partner *partner, struct device *device,
		const struct ripc__addr *from, uint32_t len);
/* An answer to an echo came. True: the answer proves a new route, and the peer takes that route. */
bool ripc__route_proven(struct partner *partner, uint64_t nonce, struct device *device,
		const struct ripc__addr *from);

/* ---- follow ------------------------------------------------------------------------------ */

/*
 * Peers whose address may have changed, and what follows a change of our own addresses
 * (docs/protocol.md, Addresses).
 */

#define FOLLOW_TIMERS 2u /* timers that every context has as long as it lives */

int ripc__follow_open(struct ripc_context *ctx);
/*
 * The partner's peer may have another address: the peer is queried by its route, and if it does
 * not respond, the resolver is queried for its address. False: its network reports by itself
 * when a route leads nowhere, or the peer cannot be queried now.
 */
bool ripc__follow(struct partner *partner);
/* The peer was queried by its route, and does not respond: each call queries the resolver. */
void ripc__follow_silent(struct ripc_context *ctx, struct peer *peer);
/* As ripc__follow(); if that cannot be, the partner is only queried whether it is there. */
void ripc__follow_or_sound(struct partner *partner);
/* The resolver has named the partner, with its addresses. */
void ripc__follow_answered(struct partner *partner, const struct ripc__answer *answer);
/* Does the partner's peer not respond, and is a search for it under way? */
bool ripc__follow_seeks(const struct partner *partner);
/*
 * RETRY or GONE came from another address than that of the partner's route. While a search for
 * the partner is under way, an address that the resolver has named may be a liar's, and the
 * packet returns no more than the token of our echo. False: the packet does not count.
 */
bool ripc__follow_denied(struct partner *partner, const struct wire_packet *packet);
/* A message is about to be sent: the partners in use are checked until they are idle. */
void ripc__follow_use(struct ripc_context *ctx);
/* Addresses or interfaces of this host have changed: partners and askers learn of that. */
void ripc__follow_own(struct ripc_context *ctx);

#endif
