/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffer pool: reference-counted buffers cut from 2 MiB-aligned slabs, in size classes. A big
 * buffer has its own slab, of a memfd. Finding the block of an address costs O(1), and never
 * touches memory that is not the pool's. The pool is thread-safe if it is opened as "locked".
 */
#ifndef RIPC_POOL_H
#define RIPC_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ripc__pool;

/* ---- shared ------------------------------------------------------------------------------ */

/* Memory of the pool that is shown to other processes. */

/* Memory that may be shown: a memfd that only we can write. */
struct ripc__shared {
	uint64_t id;   /* never used again */
	uint8_t *base; /* our mapping */
	size_t len;
	int fd;        /* the pool's; valid while the memory is in use */
};

/* ---- pool -------------------------------------------------------------------------------- */

struct ripc__pool_stats {
	uint64_t taken, limit, used; /* bytes: mapped, most that may be mapped, in live blocks */
};

/* limit 0: half of memory.max or of the machine's RAM, whichever is less. */
int ripc__pool_open(uint64_t limit, bool locked, struct ripc__pool **pool);
/* Unmaps everything; live blocks become invalid. */
void ripc__pool_close(struct ripc__pool *pool);
/*
 * Closes the pool, perhaps at once, when its last live block is freed and its last holder has left;
 * then calls ended(arg). Until then only _ref, _refs, _free, _hold and _drop may be called.
 */
void ripc__pool_leave(struct ripc__pool *pool, void (*ended)(void *arg), void *arg);
/* Adds n holders; drops one. Like a live block, each holder keeps a pool that was left. */
void ripc__pool_hold(struct ripc__pool *pool, uint32_t n);
void ripc__pool_drop(struct ripc__pool *pool);
/*
 * Allocates a block with one reference, 64-byte aligned; len 0 gives a block, too. Up to 4 MiB of
 * the block are faulted in. If an earlier buffer could not be shown because of its old contents, a
 * big buffer with old contents is cleared, and can be shown. -ENOMEM: limit reached or no memory.
 */
int ripc__pool_alloc(struct ripc__pool *pool, size_t len, void **buf);
/*
 * As ripc__pool_alloc(), without pages: the block counts towards the limit, and takes memory only
 * when it is faulted in. from: the reader (as in ripc__pool_share()) that will send the bytes; 0:
 * the sender is not known.
 */
int ripc__pool_promise(struct ripc__pool *pool, size_t len, uint64_t from, void **buf);
/*
 * Faults in the parts of [buf, buf + len) of a block that have no pages yet: writing there then
 * costs no page faults. Takes 0.06 ms per MiB with large pages, else 0.5 ms; no time for parts that
 * have pages. The caller holds a reference. Other memory is left alone. -ENOMEM.
 */
int ripc__pool_fault(struct ripc__pool *pool, const void *buf, size_t len);
/* buf may point anywhere into a live block; else -EINVAL. -EOVERFLOW: 2^31 references. */
int ripc__pool_ref(struct ripc__pool *pool, const void *buf);
int ripc__pool_free(struct ripc__pool *pool, const void *buf);
/* Does [buf, buf + len) lie in one live block, or in registered memory? */
bool ripc__pool_owns(struct ripc__pool *pool, const void *buf, size_t len);
/* References of the block that contains buf; 0: no block of this pool. */
uint32_t ripc__pool_refs(struct ripc__pool *pool, const void *buf);
/*
 * Shows the memory around [buf, buf + len) to a reader from now on (0: to any reader). Only the
 * memory of a big buffer can be shown: memory that held no buffer before, or only bytes from this
 * reader. So the reader sees no bytes of other partners or of earlier buffers. -EINVAL.
 */
int ripc__pool_share(struct ripc__pool *pool, const void *buf, size_t len, uint64_t reader,
		struct ripc__shared *shared);
/*
 * Is the shown memory still there? It is given back when its buffer is freed. If the only reader is
 * also the sender of its bytes, the memory is kept for more bytes from that sender.
 */
bool ripc__pool_is_shared(struct ripc__pool *pool, const struct ripc__shared *shared);
/* A reader has shown the memory to others: once its buffer is freed, no other buffer is there. */
void ripc__pool_spread(struct ripc__pool *pool, const struct ripc__shared *shared);
/* Bytes from buf to the end of the block that contains buf; 0: no block of this pool. */
size_t ripc__pool_room(struct ripc__pool *pool, const void *buf);
/* Foreign memory. -EEXIST: overlaps; -EINVAL: empty, or wraps; -ENOMEM; -ENOENT: unknown. */
int ripc__pool_register(struct ripc__pool *pool, void *buf, size_t len);
int ripc__pool_unregister(struct ripc__pool *pool, void *buf);
/*
 * Gives some memory back to the system that has been idle since the last turn. True: call this
 * again soon, because there is more. Without turns idle memory stays. Turns are only needed while
 * the pool is large.
 */
bool ripc__pool_turn(struct ripc__pool *pool);
bool ripc__pool_is_large(struct ripc__pool *pool);
void ripc__pool_stats(struct ripc__pool *pool, struct ripc__pool_stats *stats);

#endif
