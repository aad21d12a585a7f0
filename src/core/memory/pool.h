/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffer pool: reference-counted buffers cut from 2 MiB-aligned, memfd-backed slabs, in
 * size classes; a big buffer has its own slab. Finding the block of an address costs O(1) and
 * never touches memory that is not the pool's. Thread-safe if opened so.
 */
#ifndef RIPC_POOL_H
#define RIPC_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ripc__pool;
struct ripc__shared;

struct ripc__pool_stats {
	uint64_t taken, limit, used; /* bytes: mapped, most that may be mapped, in live blocks */
};

/* limit 0: half of memory.max or of the machine's RAM, whichever is less. */
int ripc__pool_open(uint64_t limit, bool locked, struct ripc__pool **pool);
/* Unmaps everything; live blocks become invalid. */
void ripc__pool_close(struct ripc__pool *pool);
/*
 * One reference, 64-byte aligned; len 0 is a block too. Up to 4 MiB of it are faulted in.
 * -ENOMEM: limit reached or no memory; -EMFILE.
 */
int ripc__pool_alloc(struct ripc__pool *pool, size_t len, void **buf);
/*
 * The same without pages: it takes of the limit, and memory only where it is faulted in. From: whom
 * the bytes will come from, as ripc__pool_share() names it; 0: others.
 */
int ripc__pool_promise(struct ripc__pool *pool, size_t len, uint64_t from, void **buf);
/*
 * Faults in [buf, buf + len) of a block, as far as that was not done before, so that
 * writing there costs no page faults. 0.06 ms per MiB by large pages, else 0.5; nothing when done
 * before. The caller holds a reference. Harmless for other memory. -ENOMEM.
 */
int ripc__pool_fault(struct ripc__pool *pool, const void *buf, size_t len);
/* buf may point anywhere into a live block. -EINVAL: it does not. -EOVERFLOW: 2^31 references. */
int ripc__pool_ref(struct ripc__pool *pool, const void *buf);
int ripc__pool_free(struct ripc__pool *pool, const void *buf);
/* Does [buf, buf + len) lie in one live block, or in registered memory? */
bool ripc__pool_owns(struct ripc__pool *pool, const void *buf, size_t len);
/* References of the block that contains buf; 0: none of ours. */
uint32_t ripc__pool_refs(struct ripc__pool *pool, const void *buf);
/*
 * What [buf, buf + len) lies in, to be shown to a reader from now on (0: to any). Only big buffers
 * that nobody had before, or that held nothing but what came from this reader: what another partner
 * sent, or an earlier buffer held, is not shown with it. -EINVAL.
 */
int ripc__pool_share(struct ripc__pool *pool, const void *buf, size_t len, uint64_t reader,
		struct ripc__shared *shared);
/* Is it still there? Shown memory goes when its buffer is freed, unless its reader is its sender:
 * then it is kept for what else comes from there. */
bool ripc__pool_is_shared(struct ripc__pool *pool, const struct ripc__shared *shared);
/* Bytes of the block that contains buf, from buf to its end; 0: none of ours. */
size_t ripc__pool_room(struct ripc__pool *pool, const void *buf);
/* Foreign memory: -EEXIST overlaps, -EINVAL empty or wraps, -ENOMEM; -ENOENT unknown. */
int ripc__pool_register(struct ripc__pool *pool, void *buf, size_t len);
int ripc__pool_unregister(struct ripc__pool *pool, void *buf);
/*
 * Gives back some of what has been idle since the last turn. True: more is to go, soon. Without
 * turns idle memory stays, and is only needed while the pool is large.
 */
bool ripc__pool_turn(struct ripc__pool *pool);
bool ripc__pool_is_large(struct ripc__pool *pool);
void ripc__pool_stats(struct ripc__pool *pool, struct ripc__pool_stats *stats);

#endif
