/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring of datagrams from one sender to one receiver, in memory that both have mapped and the
 * receiver owns. Either side may find anything there: what it reads is copied once, checked and
 * then used, and its own position is kept in memory of its own. docs/protocol.md has the bytes.
 */
#ifndef RIPC_SHM_RING_H
#define RIPC_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/net/backend.h"

#define SHM_SLOTS    128u /* a power of two */
#define SHM_SLOT_LEN 256u
#define SHM_INLINE   (SHM_SLOT_LEN - 8) /* longer datagrams lie in the area */
#define SHM_AREA     (256u << 10)       /* bytes; at least twice the longest datagram */

/* Two cache lines carry the short of 50 bytes and all that belongs to it. */
struct shm_slot {
	_Atomic uint64_t word; /* number << 32 | length; the number of the first datagram is 1 */
	uint8_t bytes[SHM_INLINE]; /* the datagram, or where it is in the area (64 bits) */
};

struct shm_ring_memory {
	_Alignas(128) _Atomic uint32_t head; /* written by the receiver: datagrams taken */
	_Alignas(128) struct shm_slot slots[SHM_SLOTS];
	uint8_t area[SHM_AREA];
};

/* The sender's end. */
struct shm_ring_out {
	struct shm_ring_memory *memory;
	uint32_t tail;      /* datagrams put */
	uint32_t head_seen; /* of which these have been taken, as last looked at */
	uint64_t area_tail, area_head; /* bytes of the area ever taken; ever given back */
	uint64_t area_end[SHM_SLOTS];  /* area_tail after the datagram in this slot */
};

/* The receiver's end. */
struct shm_ring_in {
	struct shm_ring_memory *memory; /* NULL: there is no ring */
	uint32_t head;      /* datagrams taken */
	uint32_t head_told; /* the sender was told of these */
};

/*
 * False: there is no room, or the receiver has written nonsense. The next load of the caller
 * may come before the datagram is seen: use a fence before looking whether the receiver sleeps.
 */
bool ripc__shm_ring_put(struct shm_ring_out *ring, const struct ripc__tx *tx);

/*
 * Is there a datagram? Prefetches all cache lines of the slot: else the receiver would ask for the
 * others only after the first one, which has the length.
 */
static inline bool ripc__shm_ring_ready(const struct shm_ring_in *ring)
{
	uint32_t head = ring->head;
	const struct shm_slot *slot = &ring->memory->slots[head % SHM_SLOTS];

	for (uint32_t line = 64; line < SHM_SLOT_LEN; line += 64)
		__builtin_prefetch((const char *)slot + line);
	return atomic_load_explicit(&slot->word, memory_order_acquire) >> 32 == head + 1;
}

/*
 * Copies the next datagram to bytes (RIPC_DATAGRAM_MAX of them). Its length; 0: there is none;
 * -EBADMSG: nonsense.
 */
int ripc__shm_ring_take(struct shm_ring_in *ring, uint8_t *bytes);

#endif
