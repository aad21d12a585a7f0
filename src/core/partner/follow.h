/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers whose address may have changed, and what follows a change of our own addresses
 * (docs/protocol.md, Addresses).
 */
#ifndef RIPC_FOLLOW_H
#define RIPC_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

struct device;
struct partner;
struct peer;
struct ripc__addr;
struct ripc__answer;
struct ripc_context;
struct wire_packet;

#define FOLLOW_TIMERS 2u /* timers that every context has as long as it lives */

int ripc__follow_open(struct ripc_context *ctx);
/*
 * The partner's peer may have another address: the peer is asked by its route, and if the peer is
 * silent, the resolver is asked where it is. False: its network reports by itself when a route
 * leads nowhere, or the peer cannot be asked now.
 */
bool ripc__follow(struct partner *partner);
/* The peer was asked by its route, and is silent: each call asks the resolver where it is. */
void ripc__follow_silent(struct ripc_context *ctx, struct peer *peer);
/* As ripc__follow(); where that cannot be, the partner is only asked whether it is there. */
void ripc__follow_or_sound(struct partner *partner);
/* The resolver has named the partner, with its addresses. */
void ripc__follow_answered(struct partner *partner, const struct ripc__answer *answer);
/* Is the partner's peer silent, and looked for? */
bool ripc__follow_seeks(const struct partner *partner);
/* An answer to an echo of this partner came. True: the peer goes on at a new address. */
bool ripc__follow_echoed(struct partner *partner, uint64_t nonce, struct device *device,
		const struct ripc__addr *from);
/*
 * RETRY or GONE came from elsewhere than the partner's route. While the partner is looked for, an
 * address that the resolver has named may be a liar's, and the packet gives back no more than the
 * token of our echo. False: it does not count.
 */
bool ripc__follow_denied(struct partner *partner, const struct wire_packet *packet);
void ripc__follow_end(struct ripc_context *ctx, struct peer *peer);
/* A message is about to be sent: the partners that are in use are looked at until they are idle. */
void ripc__follow_use(struct ripc_context *ctx);
/* Addresses or interfaces of this host have changed: partners and askers learn of that. */
void ripc__follow_own(struct ripc_context *ctx);

#endif
