/* SPDX-License-Identifier: BSD-3-Clause */
/* Making partners, and forgetting them. */
#ifndef RIPC_PARTNER_LIFE_H
#define RIPC_PARTNER_LIFE_H

#include <stdint.h>

struct device;
struct partner;
struct peer;
struct ripc__addr;
struct ripc_context;
struct ripc_service;
struct wire_packet;

/* A first packet with a valid proof: makes the partner and its peer. */
int ripc__partner_accept(struct ripc_service *service, struct device *device,
		const struct wire_packet *packet, const struct ripc__addr *from,
		struct partner **partner);
/*
 * The partner is gone since gone_us (status: why): its sends end or move. The partner is kept,
 * dead.
 */
void ripc__partner_lost(struct partner *partner, int status, uint64_t gone_us);
/*
 * A dead partner says hello: it gets a token that it did not have before its death. A packet that
 * returns that token was sent since then.
 */
void ripc__partner_challenge(struct partner *partner);
/* The partner's route leads to the address from now on. */
int ripc__partner_reroute(struct partner *partner, struct device *device,
		const struct ripc__addr *to);
/* Frees a partner, and gives its peer back. Its sends have ended or moved before. */
void ripc__partner_free(struct partner *partner);
/* Forgets partners that have been idle for PARTNER_IDLE_US. */
void ripc__partners_sweep(struct ripc_context *ctx);
/* A partner of this service, in state RESOLVING; NULL: no memory, or too many. */
struct partner *ripc__partner_alloc(struct ripc_service *service, uint64_t id);
/* The partner lives at this peer now. The caller's reference to the peer moves to the partner. */
void ripc__partner_to_peer(struct partner *partner, struct peer *peer);

#endif
