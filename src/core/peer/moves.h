/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves: reads and writes of remote memory in progress, with the peer of each, and how many a peer
 * may have. A move with a dead or hostile peer may end late, or never. So a host has at most as
 * many moves as are left for other hosts, and a peer at most as many as are left for other peers of
 * its host (as in partner/partner.c). A move counts until it ends, even if its message has ended.
 */
#ifndef RIPC_MOVES_H
#define RIPC_MOVES_H

#include <stdbool.h>
#include <stdint.h>

#define READ_BYTES   (1u << 20) /* bytes of one read, unless the device takes fewer */
#define READS_OF_ONE 8u  /* reads of one message */
#define READS_MAX    32u /* reads of one context; as many writes */

/* The remote end of a move: a peer that may be gone. */
struct remote {
	uint64_t host_key, peer_key;
};

struct moves {
	uint32_t n;
	const struct remote *with[READS_MAX];
};

/* May one more move with this peer begin? */
static inline bool ripc__moves_left(const struct moves *moves, const struct remote *remote)
{
	uint32_t held = moves->n;

	for (uint32_t i = 0; i < moves->n; i++) {
		held += moves->with[i]->host_key == remote->host_key;
		held += moves->with[i]->peer_key == remote->peer_key;
	}
	return held < READS_MAX;
}

static inline void ripc__move_begins(struct moves *moves, const struct remote *remote)
{
	moves->with[moves->n++] = remote;
}

static inline void ripc__move_ends(struct moves *moves, const struct remote *remote)
{
	uint32_t i = 0;

	while (moves->with[i] != remote)
		i++;
	moves->with[i] = moves->with[--moves->n];
}

#endif
