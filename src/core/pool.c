/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffer pool of pool.h. Owns the slabs (mappings of memfds, each at a multiple of 2 MiB),
 * what is known about their blocks, and the list of registered foreign memory.
 *
 * A small slab is 2 MiB cut into blocks of one size class; a big slab is one block. What is
 * known about blocks lies apart from them in private memory, because slabs are to be shared
 * with other processes, which must not be able to alter it. An address is looked up by its
 * 2 MiB chunk in a hash, so memory that is not ours is never touched.
 *
 * Invariants, under the lock:
 *  - taken is the sum of all slabs' len and does not exceed limit.
 *  - A slab without live blocks is in the idle list, oldest first; idle is their sum, at most
 *    IDLE_MAX after each call. Idle slabs go when the limit is reached.
 *  - A small slab with a free or fresh block is in the partial list of its class, those without
 *    live blocks last.
 *  - slab->blocks[i] is 0: never handed out (all from n_used on); 1..REFS_MAX: live, with so
 *    many references; FREE | next: in the slab's list of free blocks.
 *
 *  - A big slab keeps its descriptor, as far as SHARED_MAX goes. Once its block has been shown to
 *    others (share_id is not 0) it serves no other buffer: it goes when that is freed.
 *
 * Calls into the kernel that take long (mapping, faulting in, unmapping) are made without the
 * lock: before a slab is published, after it was withdrawn, or by the new owner of a block.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/backend.h"
#include "core/memory.h"
#include "core/pool.h"
#include "util/list.h"
#include "util/map.h"

#define CHUNK_BITS 21
#define CHUNK      ((size_t)1 << CHUNK_BITS) /* LARGE_PAGE */
#define UNIT       64u           /* blocks are multiples of this, and aligned to it */
#define BLOCK_MAX  (512u << 10)  /* longest block of a small slab */
#define CLASSES    26u           /* 1, 2, 3, 4, 6, 8, 12, 16 ... 8192 units */
#define FREE       0x80000000u
#define NO_BLOCK   (FREE - 1)
#define REFS_MAX   (FREE - 1)
#define FAULT_STEP ((size_t)64 << 10) /* of a small slab that is faulted in at once */
#define FAULT_MOST ((size_t)4 << 20)  /* of a big one: takes some 2 ms, for the caller may hold
				       * a lock that others wait for */
#define IDLE_MAX   ((size_t)256 << 20)
#define SHARED_MAX 256u /* descriptors kept */

struct slab {
	struct list node;        /* small: in a partial list, or alone */
	struct list all_node;    /* in pool->all */
	struct list idle_node;   /* in pool->idle, or alone */
	uint8_t *base;
	size_t len, block_len;   /* bytes; the same for a big slab */
	size_t faulted;          /* bytes from base on that have pages */
	uint64_t share_id;       /* not 0: others may have been shown it */
	int fd;                  /* -1: none */
	bool reused;             /* its block was another buffer before */
	uint32_t n_blocks, n_live;
	uint32_t n_used;         /* blocks from here on were never handed out */
	uint32_t free;           /* first free block, NO_BLOCK if none */
	uint32_t blocks[];
};

struct foreign {
	uint8_t *base;
	size_t len;
};

struct ripc__pool {
	pthread_mutex_t mutex;
	bool locked;               /* false: one thread only, no lock */
	uint64_t limit, taken, used, idle_bytes, last_share_id;
	uint32_t n_descriptors;
	struct list partial[CLASSES];
	struct list all, idle;
	struct ripc__map chunks;   /* address >> CHUNK_BITS to slab */
	struct foreign *foreign;   /* sorted by address, none overlapping */
	uint32_t n_foreign, foreign_capacity;
};

/* A live block. */
struct place {
	struct slab *slab;
	uint32_t index;
};

static void lock(struct ripc__pool *pool)
{
	if (pool->locked)
		pthread_mutex_lock(&pool->mutex);
}

static void unlock(struct ripc__pool *pool)
{
	if (pool->locked)
		pthread_mutex_unlock(&pool->mutex);
}

/* ---- size classes ------------------------------------------------------------------------ */

/* Powers of two and the midpoints between them, in units. */
static uint32_t class_of(size_t len)
{
	uint32_t units = len ? (uint32_t)((len + UNIT - 1) / UNIT) : 1, bits;

	if (units == 1)
		return 0;
	bits = 32 - (uint32_t)__builtin_clz(units - 1);
	return 2 * bits - (units <= 3u << bits >> 2 && bits > 1 ? 2 : 1);
}

static size_t class_len(uint32_t class)
{
	if (class % 2 == 0)
		return class ? (size_t)UNIT * (3u << (class / 2 - 1)) : UNIT;
	return (size_t)UNIT << (class + 1) / 2;
}

/* Big blocks are rounded up by at most an eighth, so that one can serve again for another. */
static size_t big_len(size_t len)
{
	size_t step = (size_t)1 << (63 - __builtin_clzll(len)) >> 3;

	return (len + step - 1) & ~(step - 1);
}

/* ---- slabs ------------------------------------------------------------------------------- */

/* keep: its descriptor. */
static int slab_new(size_t len, size_t block_len, bool keep, struct slab **slab)
{
	uint32_t n_blocks = (uint32_t)(len / block_len);
	struct slab *s = calloc(1, sizeof(*s) + n_blocks * sizeof(s->blocks[0]));
	int err;

	if (!s)
		return -ENOMEM;
	s->fd = -1;
	err = keep ? ripc__memory_map_shared(len, CHUNK, (void **)&s->base, &s->fd) :
		ripc__memory_map(len, CHUNK, (void **)&s->base);
	if (err) {
		free(s);
		return err;
	}
	list_init(&s->node);
	list_init(&s->idle_node);
	s->len = len;
	s->block_len = block_len;
	s->n_blocks = n_blocks;
	s->free = NO_BLOCK;
	*slab = s;
	return 0;
}

static void slab_destroy(struct slab *slab)
{
	ripc__memory_unmap(slab->base, slab->len);
	if (slab->fd >= 0)
		close(slab->fd);
	free(slab);
}

static bool is_big(const struct slab *slab)
{
	return slab->block_len == slab->len;
}

static bool is_full(const struct slab *slab)
{
	return slab->free == NO_BLOCK && slab->n_used == slab->n_blocks;
}

static uint64_t chunk_of(const void *at)
{
	return (uintptr_t)at >> CHUNK_BITS;
}

static uint64_t n_chunks(const struct slab *slab)
{
	return (slab->len + CHUNK - 1) >> CHUNK_BITS;
}

static void forget_chunks(struct ripc__pool *pool, const struct slab *slab, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		ripc__map_remove(&pool->chunks, chunk_of(slab->base) + i);
}

static int slab_publish(struct ripc__pool *pool, struct slab *slab)
{
	uint64_t n = n_chunks(slab);

	for (uint64_t i = 0; i < n; i++) {
		if (ripc__map_put(&pool->chunks, chunk_of(slab->base) + i, slab)) {
			forget_chunks(pool, slab, i);
			return -ENOMEM;
		}
	}
	list_append(&pool->all, &slab->all_node);
	if (!is_big(slab))
		list_append(&pool->partial[class_of(slab->block_len)], &slab->node);
	return 0;
}

/* Takes an idle slab out of everything; the caller destroys what is in dead, without lock. */
static void slab_withdraw(struct ripc__pool *pool, struct slab *slab, struct list *dead)
{
	forget_chunks(pool, slab, n_chunks(slab));
	list_remove(&slab->node);
	list_remove(&slab->all_node);
	list_remove(&slab->idle_node);
	pool->n_descriptors -= slab->fd >= 0;
	pool->idle_bytes -= slab->len;
	pool->taken -= slab->len;
	list_append(dead, &slab->node);
}

static void destroy_all(struct list *dead)
{
	while (!list_empty(dead))
		slab_destroy(list_entry(list_pop(dead), struct slab, node));
}

/* The oldest idle slabs go until at most so many idle bytes are left. */
static void trim_idle(struct ripc__pool *pool, uint64_t most, struct list *dead)
{
	while (pool->idle_bytes > most)
		slab_withdraw(pool, list_entry(pool->idle.next, struct slab, idle_node), dead);
}

static void idle_enter(struct ripc__pool *pool, struct slab *slab)
{
	list_append(&pool->idle, &slab->idle_node);
	pool->idle_bytes += slab->len;
}

static void idle_leave(struct ripc__pool *pool, struct slab *slab)
{
	list_remove(&slab->idle_node);
	pool->idle_bytes -= slab->len;
}

/* Takes len bytes from the limit, at the expense of idle slabs. */
static int reserve(struct ripc__pool *pool, uint64_t len, struct list *dead)
{
	uint64_t live = pool->taken - pool->idle_bytes;

	if (len > pool->limit - live)
		return -ENOMEM;
	if (len > pool->limit - pool->taken)
		trim_idle(pool, pool->limit - live - len, dead);
	pool->taken += len;
	return 0;
}

/* Makes a new slab, idle. Called with the lock, which it gives up meanwhile. */
static int slab_add(struct ripc__pool *pool, size_t len, size_t block_len, struct slab **slab)
{
	bool keep = len == block_len && pool->n_descriptors < SHARED_MAX;
	struct slab *s = NULL;
	struct list dead;
	int err;

	list_init(&dead);
	err = reserve(pool, len, &dead);
	if (err)
		return err;
	unlock(pool);
	destroy_all(&dead);
	err = slab_new(len, block_len, keep, &s);
	lock(pool);
	if (err)
		goto give_back;
	err = slab_publish(pool, s);
	if (err)
		goto destroy;
	idle_enter(pool, s);
	pool->n_descriptors += s->fd >= 0;
	*slab = s;
	return 0;
destroy:
	slab_destroy(s);
give_back:
	pool->taken -= len;
	return err;
}

/* ---- blocks ------------------------------------------------------------------------------ */

static uint8_t *block_at(struct place place)
{
	return place.slab->base + place.index * place.slab->block_len;
}

/* Takes a block from a slab that has one. */
static struct place block_take(struct ripc__pool *pool, struct slab *slab)
{
	struct place place = {slab, slab->free};

	if (place.index != NO_BLOCK)
		slab->free = slab->blocks[place.index] & ~FREE;
	else
		place.index = slab->n_used++;
	slab->blocks[place.index] = 1;
	if (slab->n_live++ == 0)
		idle_leave(pool, slab);
	if (is_full(slab))
		list_remove(&slab->node);
	pool->used += slab->block_len;
	return place;
}

static void block_give(struct ripc__pool *pool, struct place place, struct list *dead)
{
	struct slab *slab = place.slab;
	bool was_full = is_full(slab);
	struct list *partial;

	slab->blocks[place.index] = FREE | slab->free;
	slab->free = place.index;
	pool->used -= slab->block_len;
	if (!is_big(slab) && (was_full || slab->n_live == 1)) {
		partial = &pool->partial[class_of(slab->block_len)];
		list_remove(&slab->node);
		/* One that can be used goes to the front, one that could go to the end. */
		list_append(slab->n_live == 1 ? partial : partial->next, &slab->node);
	}
	if (--slab->n_live == 0) {
		slab->reused = true;
		idle_enter(pool, slab);
		if (slab->share_id)
			slab_withdraw(pool, slab, dead);
		trim_idle(pool, IDLE_MAX, dead);
	}
}

/* The live block that contains at; place.slab is NULL if there is none. */
static struct place find(const struct ripc__pool *pool, const void *at)
{
	struct place place = {ripc__map_get(&pool->chunks, chunk_of(at)), 0};
	size_t offset;

	if (!place.slab)
		return place;
	offset = (size_t)((uintptr_t)at - (uintptr_t)place.slab->base);
	if (!is_big(place.slab)) /* both are below 2^32, which divides faster */
		place.index = (uint32_t)offset / (uint32_t)place.slab->block_len;
	if (offset >= place.slab->len || place.index >= place.slab->n_blocks ||
			place.slab->blocks[place.index] - 1 >= REFS_MAX)
		place.slab = NULL;
	return place;
}

static size_t room_of(struct place place, const void *at)
{
	return (size_t)(block_at(place) + place.slab->block_len - (const uint8_t *)at);
}

static int take_small(struct ripc__pool *pool, uint32_t class, struct place *place)
{
	struct list *partial = &pool->partial[class];
	struct slab *slab = list_entry(partial->next, struct slab, node);
	int err = 0;

	if (list_empty(partial))
		err = slab_add(pool, CHUNK, class_len(class), &slab);
	if (err)
		return err;
	*place = block_take(pool, slab);
	return 0;
}

/* The shortest idle big slab that has room and wastes at most a quarter, or NULL. */
static struct slab *idle_big(struct ripc__pool *pool, size_t len)
{
	struct slab *best = NULL;

	list_for_each(node, &pool->idle) {
		struct slab *slab = list_entry(node, struct slab, idle_node);

		if (is_big(slab) && slab->len >= len && slab->len - len <= len / 4 &&
				(!best || slab->len < best->len))
			best = slab;
	}
	return best;
}

static int take_big(struct ripc__pool *pool, size_t len, struct place *place)
{
	struct slab *slab = idle_big(pool, len);
	size_t rounded = big_len(len);
	int err = 0;

	if (rounded > pool->limit)
		rounded = ripc__memory_round(len);
	if (!slab)
		err = slab_add(pool, rounded, rounded, &slab);
	if (err)
		return err;
	*place = block_take(pool, slab);
	return 0;
}

/*
 * What of the first len bytes of a block has no pages yet, a step at a time: of a big slab whole
 * large pages. It counts as faulted in from now on; the caller does it, without the lock.
 */
static size_t fault_due(struct place place, size_t len, uint8_t **from)
{
	struct slab *slab = place.slab;
	size_t step = is_big(slab) ? CHUNK : FAULT_STEP;
	size_t end = place.index * slab->block_len + len, due;

	if (end <= slab->faulted)
		return 0;
	end = (end + step - 1) & ~(step - 1);
	if (end > slab->len)
		end = slab->len;
	due = ripc__memory_round(end) - slab->faulted;
	*from = slab->base + slab->faulted;
	slab->faulted += due;
	return due;
}

/* Gives a block back whose pages could not be had. */
static void untake(struct ripc__pool *pool, struct place place, const uint8_t *from)
{
	struct list dead;

	list_init(&dead);
	lock(pool);
	if (is_big(place.slab))
		place.slab->faulted = (size_t)(from - place.slab->base);
	block_give(pool, place, &dead);
	unlock(pool);
	destroy_all(&dead);
}

int ripc__pool_alloc(struct ripc__pool *pool, size_t len, void **buf)
{
	struct place place;
	uint8_t *from = NULL;
	size_t due = 0;
	int err;

	if (len > pool->limit)
		return -ENOMEM;
	lock(pool);
	if (len <= BLOCK_MAX)
		err = take_small(pool, class_of(len), &place);
	else
		err = take_big(pool, len, &place);
	if (!err)
		due = fault_due(place, len < FAULT_MOST ? len : FAULT_MOST, &from);
	unlock(pool);
	if (err)
		return err;
	err = due ? ripc__memory_fault(from, due) : 0;
	if (err) {
		untake(pool, place, from);
		return err;
	}
	*buf = block_at(place);
	return 0;
}

int ripc__pool_fault(struct ripc__pool *pool, const void *buf, size_t len)
{
	struct place place;
	uint8_t *from = NULL;
	size_t room, due = 0;

	lock(pool);
	place = find(pool, buf);
	room = place.slab ? room_of(place, buf) : 0;
	if (room && len <= room)
		due = fault_due(place, place.slab->block_len - room + len, &from);
	unlock(pool);
	return due ? ripc__memory_fault(from, due) : 0;
}

int ripc__pool_ref(struct ripc__pool *pool, const void *buf)
{
	struct place place;
	int err = 0;

	lock(pool);
	place = find(pool, buf);
	if (!place.slab)
		err = -EINVAL;
	else if (place.slab->blocks[place.index] == REFS_MAX)
		err = -EOVERFLOW;
	else
		place.slab->blocks[place.index]++;
	unlock(pool);
	return err;
}

int ripc__pool_free(struct ripc__pool *pool, const void *buf)
{
	struct place place;
	struct list dead;

	list_init(&dead);
	lock(pool);
	place = find(pool, buf);
	if (place.slab && --place.slab->blocks[place.index] == 0)
		block_give(pool, place, &dead);
	unlock(pool);
	destroy_all(&dead);
	return place.slab ? 0 : -EINVAL;
}

uint32_t ripc__pool_refs(struct ripc__pool *pool, const void *buf)
{
	struct place place;
	uint32_t refs;

	lock(pool);
	place = find(pool, buf);
	refs = place.slab ? place.slab->blocks[place.index] : 0;
	unlock(pool);
	return refs;
}

int ripc__pool_share(struct ripc__pool *pool, const void *buf, size_t len,
		struct ripc__shared *shared)
{
	struct place place;
	int err = -EINVAL;

	lock(pool);
	place = find(pool, buf);
	if (place.slab && place.slab->fd >= 0 && !place.slab->reused &&
			len <= room_of(place, buf)) {
		if (!place.slab->share_id)
			place.slab->share_id = ++pool->last_share_id;
		*shared = (struct ripc__shared){place.slab->share_id, place.slab->base,
			place.slab->len, place.slab->fd};
		err = 0;
	}
	unlock(pool);
	return err;
}

bool ripc__pool_is_shared(struct ripc__pool *pool, const struct ripc__shared *shared)
{
	struct place place;
	bool is;

	lock(pool);
	place = find(pool, shared->base);
	is = place.slab && place.slab->share_id == shared->id;
	unlock(pool);
	return is;
}

size_t ripc__pool_room(struct ripc__pool *pool, const void *buf)
{
	struct place place;
	size_t room;

	lock(pool);
	place = find(pool, buf);
	room = place.slab ? room_of(place, buf) : 0;
	unlock(pool);
	return room;
}

/* ---- foreign memory ---------------------------------------------------------------------- */

/* How many registered pieces begin at or before at. */
static uint32_t foreign_before(const struct ripc__pool *pool, uintptr_t at)
{
	uint32_t low = 0, high = pool->n_foreign;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if ((uintptr_t)pool->foreign[middle].base <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool foreign_contains(const struct ripc__pool *pool, const void *buf, size_t len)
{
	uint32_t n = foreign_before(pool, (uintptr_t)buf);
	const struct foreign *piece;
	size_t offset;

	if (!n)
		return false;
	piece = &pool->foreign[n - 1];
	offset = (size_t)((uintptr_t)buf - (uintptr_t)piece->base);
	return offset < piece->len && len <= piece->len - offset;
}

static bool overlap(const void *a, size_t a_len, const void *b, size_t b_len)
{
	return (uintptr_t)a < (uintptr_t)b + b_len && (uintptr_t)b < (uintptr_t)a + a_len;
}

/* Does [buf, buf + len) meet registered memory or a slab? n: pieces that begin before its end. */
static bool is_known(const struct ripc__pool *pool, const void *buf, size_t len, uint32_t n)
{
	const struct foreign *last = n ? &pool->foreign[n - 1] : NULL;

	if (last && overlap(buf, len, last->base, last->len))
		return true;
	list_for_each(node, &pool->all) {
		const struct slab *slab = list_entry(node, struct slab, all_node);

		if (overlap(buf, len, slab->base, slab->len))
			return true;
	}
	return false;
}

static int foreign_reserve(struct ripc__pool *pool)
{
	uint32_t capacity = pool->foreign_capacity ? 2 * pool->foreign_capacity : 8;
	struct foreign *foreign;

	if (pool->n_foreign < pool->foreign_capacity)
		return 0;
	foreign = reallocarray(pool->foreign, capacity, sizeof(*foreign));
	if (!foreign)
		return -ENOMEM;
	pool->foreign = foreign;
	pool->foreign_capacity = capacity;
	return 0;
}

int ripc__pool_register(struct ripc__pool *pool, void *buf, size_t len)
{
	uintptr_t last;
	uint32_t at;
	int err;

	if (!buf || !len || __builtin_add_overflow((uintptr_t)buf, len - 1, &last) ||
			last == UINTPTR_MAX)
		return -EINVAL;
	lock(pool);
	at = foreign_before(pool, last);
	err = is_known(pool, buf, len, at) ? -EEXIST : foreign_reserve(pool);
	if (!err) {
		memmove(pool->foreign + at + 1, pool->foreign + at,
			(pool->n_foreign - at) * sizeof(*pool->foreign));
		pool->foreign[at] = (struct foreign){buf, len};
		pool->n_foreign++;
	}
	unlock(pool);
	return err;
}

int ripc__pool_unregister(struct ripc__pool *pool, void *buf)
{
	int err = -ENOENT;
	uint32_t n;

	lock(pool);
	n = foreign_before(pool, (uintptr_t)buf);
	if (n && pool->foreign[n - 1].base == buf) {
		memmove(pool->foreign + n - 1, pool->foreign + n,
			(pool->n_foreign - n) * sizeof(*pool->foreign));
		pool->n_foreign--;
		err = 0;
	}
	unlock(pool);
	return err;
}

bool ripc__pool_owns(struct ripc__pool *pool, const void *buf, size_t len)
{
	struct place place;
	bool owns;

	lock(pool);
	place = find(pool, buf);
	owns = place.slab ? len <= room_of(place, buf) : foreign_contains(pool, buf, len);
	unlock(pool);
	return owns;
}

/* ---- the pool ---------------------------------------------------------------------------- */

int ripc__pool_open(uint64_t limit, bool locked, struct ripc__pool **pool)
{
	struct ripc__pool *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	if (!limit)
		limit = ripc__memory_half();
	p->limit = limit < CHUNK ? CHUNK : limit;
	p->locked = locked;
	if (pthread_mutex_init(&p->mutex, NULL)) {
		free(p);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < CLASSES; i++)
		list_init(&p->partial[i]);
	list_init(&p->all);
	list_init(&p->idle);
	ripc__map_init(&p->chunks, (uintptr_t)p);
	*pool = p;
	return 0;
}

void ripc__pool_close(struct ripc__pool *pool)
{
	while (!list_empty(&pool->all))
		slab_destroy(list_entry(list_pop(&pool->all), struct slab, all_node));
	ripc__map_free(&pool->chunks);
	pthread_mutex_destroy(&pool->mutex);
	free(pool->foreign);
	free(pool);
}

void ripc__pool_stats(struct ripc__pool *pool, struct ripc__pool_stats *stats)
{
	lock(pool);
	*stats = (struct ripc__pool_stats){pool->taken, pool->limit, pool->used};
	unlock(pool);
}
