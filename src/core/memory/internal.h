/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the files of core/memory share. No other room includes them. */
#ifndef RIPC_MEMORY_INTERNAL_H
#define RIPC_MEMORY_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/list.h"
#include "util/map.h"

/* ---- classes ----------------------------------------------------------------------------- */

/* The lengths of the pool's blocks. */

#define UNIT       64u           /* blocks are multiples of this, and aligned to it */
#define BLOCK_MAX  (512u << 10)  /* longest block of a small slab */
#define CLASSES    26u           /* 1, 2, 3, 4, 6, 8, 12, 16 ... 8192 units */

/* The class of a length: classes are powers of two and the midpoints between them, in units. */
static inline uint32_t class_of(size_t len)
{
	uint32_t units = len ? (uint32_t)((len + UNIT - 1) / UNIT) : 1, bits;

	if (units == 1)
		return 0;
	bits = 32 - (uint32_t)__builtin_clz(units - 1);
	return 2 * bits - (units <= 3u << bits >> 2 && bits > 1 ? 2 : 1);
}

static inline size_t class_len(uint32_t class)
{
	if (class % 2 == 0)
		return class ? (size_t)UNIT * (3u << (class / 2 - 1)) : UNIT;
	return (size_t)UNIT << (class + 1) / 2;
}

/* A big block is rounded up by at most an eighth, so that its slab can serve later buffers. */
static inline size_t big_len(size_t len)
{
	size_t step = (size_t)1 << (63 - __builtin_clzll(len)) >> 3;

	return (len + step - 1) & ~(step - 1);
}

/* ---- foreign ----------------------------------------------------------------------------- */

/* Registered memory of the application: pieces that do not overlap, sorted by address. */

/* All zero: there is none. */
struct ripc__foreign {
	struct ripc__piece *pieces; /* sorted by address */
	uint32_t n, capacity;
};

/* ---- slabs ------------------------------------------------------------------------------- */

/*
 * Slabs: memory that the pool takes from the system and cuts into blocks. pool.c states the
 * invariants.
 */

#define CHUNK_BITS 21
#define CHUNK      ((size_t)1 << CHUNK_BITS) /* LARGE_PAGE */
#define FREE       0x80000000u
#define NO_BLOCK   (FREE - 1)
#define SHARED_MAX 256u /* descriptors kept */

struct slab {
	struct list node;        /* small: in a partial list, or alone */
	struct list all_node;    /* in pool->all */
	struct list idle_node;   /* in pool->idle, or alone */
	uint8_t *base;
	size_t len, block_len;   /* bytes; the same for a big slab */
	size_t shown_len;        /* bytes that had pages when the slab was first shown */
	uint64_t share_id;       /* not 0: the slab may have been shown to other processes */
	uint64_t reader, from;   /* the only reader; the sender of all bytes; or 0, or MANY */
	uint32_t *pages;         /* for each chunk: the steps that have pages */
	int fd;                  /* -1: none */
	bool reused;             /* the block held another buffer before */
	bool aged;               /* the slab was idle at the last turn */
	uint32_t n_blocks, n_live;
	uint32_t n_used;         /* blocks from this index on were never allocated */
	uint32_t free;           /* first free block, NO_BLOCK if none */
	uint32_t blocks[];
};

struct ripc__pool {
	pthread_mutex_t mutex;
	bool locked;               /* false: one thread only, no lock */
	bool clears;               /* a buffer could not be shown, because of its old contents */
	uint64_t limit, used, idle_bytes, last_share_id;
	_Atomic uint64_t taken;    /* changed with the lock, compared without */
	uint32_t n_descriptors;
	uint32_t n_holders;        /* of the pool beside live blocks (ripc__pool_hold) */
	void (*ended)(void *arg);  /* not NULL: the pool was left (ripc__pool_leave) */
	void *ended_arg;
	struct list partial[CLASSES];
	struct list all, idle;
	struct ripc__map chunks;   /* address >> CHUNK_BITS to slab */
	struct ripc__foreign foreign;
};

static inline bool is_big(const struct slab *slab)
{
	return slab->block_len == slab->len;
}

static inline bool is_full(const struct slab *slab)
{
	return slab->free == NO_BLOCK && slab->n_used == slab->n_blocks;
}

static inline uint64_t chunk_of(const void *at)
{
	return (uintptr_t)at >> CHUNK_BITS;
}

/* The slab has no live block any more; the slab has one again. Both with the lock. */
static inline void ripc__idle_enter(struct ripc__pool *pool, struct slab *slab)
{
	slab->aged = false;
	list_append(&pool->idle, &slab->idle_node);
	pool->idle_bytes += slab->len;
}

static inline void ripc__idle_leave(struct ripc__pool *pool, struct slab *slab)
{
	list_remove(&slab->idle_node);
	pool->idle_bytes -= slab->len;
}

#endif
