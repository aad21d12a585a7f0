/* SPDX-License-Identifier: BSD-3-Clause */
/* How much may be in flight from a peer. */
#ifndef RIPC_WINDOW_H
#define RIPC_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "peer.h"

#define WINDOW_NEAR        (1u << 20) /* bytes in flight from one peer: fits the cache */
#define WINDOW_MAX         (64u << 20) /* the same on a long path */
#define LOSSY              51u   /* of 1024: a path with more loss loses requests, too */
#define AT_ONCE_US         4000u /* arrivals of this time must fit the receive buffer */

/* grow: new bytes arrived. cut: bytes were found lost (0: timeout). */
void ripc__peer_grow(struct ripc_context *ctx, struct peer *peer, uint32_t bytes);
void ripc__peer_cut(struct ripc_context *ctx, struct peer *peer, uint64_t lost_bytes);
/* How many bytes may be granted now without arriving all at once; bytes were granted. */
uint64_t ripc__peer_pace(struct ripc_context *ctx, struct peer *peer, uint64_t burst);
void ripc__peer_paced(struct peer *peer, uint64_t bytes);
/* Bytes that may be in flight from the peer now: no more than its device buffers. */
uint32_t ripc__peer_window(struct ripc_context *ctx, struct peer *peer);
/* The peer is reached by another network: forgets the old path except srtt_us. */
void ripc__window_anew(struct peer *peer);
/* Bytes that were taken for lost had only been late. */
void ripc__peer_reorders(struct peer *peer);

/* Does the path lose so much that requests are often lost, too? */
static inline bool ripc__peer_is_lossy(const struct peer *peer)
{
	return peer->loss > LOSSY;
}

/*
 * Do the bytes of the peer arrive spread over the round trip? Until a rate was measured nothing
 * is paced, and granted bytes arrive all at once.
 */
static inline bool ripc__peer_is_spread(const struct peer *peer)
{
	return peer->rtt_min_us > AT_ONCE_US && peer->flow && peer->flow->rate;
}

/* How many of in_flight bytes may arrive at once. */
static inline uint64_t ripc__peer_at_once(const struct peer *peer, uint64_t in_flight)
{
	return ripc__peer_is_spread(peer) ? in_flight * AT_ONCE_US / peer->rtt_min_us : in_flight;
}

/* How many bytes may be in flight, if at_once bytes may arrive at once. */
static inline uint64_t ripc__peer_over_time(const struct peer *peer, uint64_t at_once)
{
	return ripc__peer_is_spread(peer) ? at_once * peer->rtt_min_us / AT_ONCE_US : at_once;
}

#endif
