/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads of others' memory that are in progress, or writes: with whom each is, and how many one may
 * have. Some end late, or never, if whom they are with is dead, or wants it so. So a host has no
 * more of them than are left for others, and a peer than are left for its host's others (as in
 * partner/share.c), whatever has become of the messages.
 */
#ifndef RIPC_MOVES_H
#define RIPC_MOVES_H

#include <stdbool.h>
#include <stdint.h>

#define READ_BYTES   (1u << 20) /* that are read at once, unless the device takes less */
#define READS_OF_ONE 8u  /* of one message */
#define READS_MAX    32u /* reads of one context, and writes */

/* A peer, which may be gone. */
struct remote {
	uint64_t host_key, peer_key;
};

struct moves {
	uint32_t n;
	const struct remote *with[READS_MAX];
};

/* May there be one more with it? */
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
