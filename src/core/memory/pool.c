/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffer pool of pool.h. The pool owns the slabs (mappings at multiples of 2 MiB, big ones of
 * memfds), the records of their blocks, and the registered foreign memory.
 *
 * A small slab is 2 MiB cut into blocks of one size class; a big slab is one block. The records of
 * blocks lie apart from the blocks, in private memory: big slabs are shared with other processes,
 * which must not be able to alter the records. An address is looked up by its 2 MiB chunk in a
 * hash, so memory that is not ours is never touched.
 *
 * Invariants, under the lock:
 *  - taken is the sum of all slabs' len and does not exceed limit.
 *  - A slab without live blocks is in the idle list, oldest first; idle_bytes is their sum, at most
 *    IDLE_MAX after each call. Idle slabs are given back when the limit is reached.
 *  - A small slab with a free or fresh block is in the partial list of its class, those without
 *    live blocks last.
 *  - slab->blocks[i] is 0: never allocated (all from n_used on); 1..REFS_MAX: live, with that
 *    number of references; FREE | next: in the slab's list of free blocks.
 *
 *  - Bit i of pages[c] is set if step i of chunk c has pages. Blocks that are only promised have
 *    none until bytes come.
 *
 *  - Up to SHARED_MAX big slabs keep their descriptors. A slab whose block was shown to other
 *    processes (share_id is not 0) serves no other buffer, and is given back when its buffer is
 *    freed. One exception: if the slab was shown to one reader only, and held only bytes from that
 *    reader (from), it serves again for bytes from that reader, who has it mapped, and knows all
 *    that was in it.
 *
 * Calls into the kernel that take long (mapping, faulting in, unmapping) are made without the
 * lock: before a slab is published, after it was withdrawn, or by the new owner of a block.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "memory.h"
#include "pool.h"
#include "util/list.h"
#include "util/map.h"
#include "util/system/cancel.h"

static void pool_lock(struct ripc__pool *pool)
{
	if (pool->locked)
		pthread_mutex_lock(&pool->mutex);
}

static void pool_unlock(struct ripc__pool *pool)
{
	if (pool->locked)
		pthread_mutex_unlock(&pool->mutex);
}

/* ---- slabs ------------------------------------------------------------------------------- */

/* The slabs of the pool. A slab is made, published, idle, withdrawn, and given back. */

/* Makes a slab. keep: the slab keeps its descriptor. */
static int slab_new(size_t len, size_t block_len, bool keep, struct slab **slab)
{
	RIPC__HOLD_CANCEL;
	uint32_t n_blocks = (uint32_t)(len / block_len);
	size_t n_words = n_blocks + (len + CHUNK - 1) / CHUNK;
	struct slab *s = calloc(1, sizeof(*s) + n_words * sizeof(s->blocks[0]));
	int err;

	if (!s)
		return -ENOMEM;
	s->fd = -1;
	err = keep ? ripc__memory_map_shared(len, CHUNK, (void **)&s->base, &s->fd) :
		len > block_len ? ripc__memory_map_private(len, CHUNK, (void **)&s->base) :
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
	s->pages = s->blocks + n_blocks;
	s->free = NO_BLOCK;
	*slab = s;
	return 0;
}

static void slab_destroy(struct slab *slab)
{
	RIPC__HOLD_CANCEL;

	ripc__memory_unmap(slab->base, slab->len);
	if (slab->fd >= 0)
		close(slab->fd);
	free(slab);
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

/* Moves an idle slab from all lists to dead. The caller destroys the slabs in dead without lock. */
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

/* Gives a slab, or all of a list, back to the system: without the lock. */
static void slabs_destroy(struct list *dead)
{
	while (!list_empty(dead))
		slab_destroy(list_entry(list_pop(dead), struct slab, node));
}

/* Moves the oldest idle slabs to dead until at most "most" idle bytes remain. */
static void trim_idle(struct ripc__pool *pool, uint64_t most, struct list *dead)
{
	while (pool->idle_bytes > most)
		slab_withdraw(pool, list_entry(pool->idle.next, struct slab, idle_node),
			dead);
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

/* Makes a new idle slab. Called with the lock; releases the lock meanwhile. */
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
	pool_unlock(pool);
	slabs_destroy(&dead);
	err = slab_new(len, block_len, keep, &s);
	pool_lock(pool);
	if (err)
		goto give_back;
	err = slab_publish(pool, s);
	if (err)
		goto destroy;
	ripc__idle_enter(pool, s);
	pool->n_descriptors += s->fd >= 0;
	*slab = s;
	return 0;
destroy:
	slab_destroy(s);
give_back:
	pool->taken -= len;
	return err;
}

/* ---- foreign ----------------------------------------------------------------------------- */

/* Registered memory of the application. The lock of the pool protects the list of pieces. */

struct ripc__piece {
	uint8_t *base;
	size_t len;
};

/* The number of pieces that begin at or before "at". */
static uint32_t count_before(const struct ripc__foreign *foreign, uintptr_t at)
{
	uint32_t low = 0, high = foreign->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if ((uintptr_t)foreign->pieces[middle].base <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool foreign_overlap(const void *a, size_t a_len, const void *b, size_t b_len)
{
	return (uintptr_t)a < (uintptr_t)b + b_len && (uintptr_t)b < (uintptr_t)a + a_len;
}

static int foreign_reserve(struct ripc__foreign *foreign)
{
	uint32_t capacity = foreign->capacity ? 2 * foreign->capacity : 8;
	struct ripc__piece *pieces;

	if (foreign->n < foreign->capacity)
		return 0;
	pieces = reallocarray(foreign->pieces, capacity, sizeof(*pieces));
	if (!pieces)
		return -ENOMEM;
	foreign->pieces = pieces;
	foreign->capacity = capacity;
	return 0;
}

/* Adds a piece; buf + len does not wrap. -EEXIST: the piece overlaps another one. -ENOMEM. */
static int foreign_add(struct ripc__foreign *foreign, void *buf, size_t len)
{
	uint32_t at = count_before(foreign, (uintptr_t)buf + len - 1);
	int err;

	if (at && foreign_overlap(buf, len, foreign->pieces[at - 1].base,
			foreign->pieces[at - 1].len))
		return -EEXIST;
	err = foreign_reserve(foreign);
	if (err)
		return err;
	memmove(foreign->pieces + at + 1, foreign->pieces + at,
		(foreign->n - at) * sizeof(*foreign->pieces));
	foreign->pieces[at] = (struct ripc__piece){buf, len};
	foreign->n++;
	return 0;
}

/* Removes a piece. -ENOENT: no piece begins at buf. */
static int foreign_remove(struct ripc__foreign *foreign, const void *buf)
{
	uint32_t n = count_before(foreign, (uintptr_t)buf);

	if (!n || foreign->pieces[n - 1].base != buf)
		return -ENOENT;
	memmove(foreign->pieces + n - 1, foreign->pieces + n,
		(foreign->n - n) * sizeof(*foreign->pieces));
	foreign->n--;
	return 0;
}

/* Does all of [buf, buf + len) lie in one piece? */
static bool foreign_contains(const struct ripc__foreign *foreign, const void *buf, size_t len)
{
	uint32_t n = count_before(foreign, (uintptr_t)buf);
	const struct ripc__piece *piece;
	size_t offset;

	if (!n)
		return false;
	piece = &foreign->pieces[n - 1];
	offset = (size_t)((uintptr_t)buf - (uintptr_t)piece->base);
	return offset < piece->len && len <= piece->len - offset;
}

/* ---- pool -------------------------------------------------------------------------------- */

#define REFS_MAX   (FREE - 1)
#define STEP       ((size_t)64 << 10) /* bytes faulted in at once; */
#define STEPS_FEW  4u /* if more steps of a big slab's chunk have pages, it gets a large page */
#define FAULT_MOST ((size_t)4 << 20)  /* bytes of a big block faulted in by its allocation: some
				       * 2 ms, in which the caller may hold a lock */
#define IDLE_MAX   ((size_t)256 << 20)
#define IDLE_KEEP  ((size_t)16 << 20) /* idle memory that is kept for good */
#define TURN_MOST  ((size_t)16 << 20) /* memory that is given back in one turn, at most */
#define MANY       UINT64_MAX         /* several readers, or an unknown one */
/* The longest block. Rounded up by an eighth, it is no longer than a mapping can be. */
#define LEN_MAX    ((size_t)PTRDIFF_MAX / 8 * 7)

/* A live block. */
struct place {
	struct slab *slab;
	uint32_t index;
};

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
		ripc__idle_leave(pool, slab);
	if (is_full(slab))
		list_remove(&slab->node);
	pool->used += slab->block_len;
	return place;
}

static uint64_t idle_max(const struct ripc__pool *pool)
{
	return pool->ended ? 0 : IDLE_MAX;
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
		/* Slabs with live blocks stand first: a slab at the end may be withdrawn. */
		list_append(slab->n_live == 1 ? partial : partial->next, &slab->node);
	}
	if (--slab->n_live == 0) {
		slab->reused = true;
		ripc__idle_enter(pool, slab);
		if (slab->share_id && (slab->reader != slab->from || slab->reader == MANY))
			slab_withdraw(pool, slab, dead);
		if (pool->idle_bytes > idle_max(pool))
			trim_idle(pool, idle_max(pool), dead);
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
	if (!is_big(place.slab)) /* 32 bits hold both numbers, and divide faster */
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

/* Can the slab, which was shown to its sender, serve that sender again for len bytes? */
static bool is_shown_to(const struct slab *slab, uint64_t from, size_t len)
{
	return slab->share_id && from && slab->reader == from && slab->shown_len >= len;
}

/* The shortest idle big slab that has room, and wastes at most a quarter; or NULL. */
static struct slab *idle_big(struct ripc__pool *pool, size_t len, uint64_t from)
{
	struct slab *best = NULL;

	list_for_each_entry(slab, &pool->idle, struct slab, idle_node) {
		if (!is_big(slab) || slab->len < len || slab->len - len > len / 4)
			continue;
		if (is_shown_to(slab, from, len))
			return slab;
		if (!slab->share_id && (!best || slab->len < best->len))
			best = slab;
	}
	return best;
}

static int take_big(struct ripc__pool *pool, size_t len, uint64_t from, struct place *place)
{
	struct slab *slab = idle_big(pool, len, from);
	size_t rounded = big_len(len);
	int err = 0;

	if (rounded > pool->limit)
		rounded = ripc__memory_round(len);
	if (!slab)
		err = slab_add(pool, rounded, rounded, &slab);
	if (err)
		return err;
	*place = block_take(pool, slab);
	if (!slab->reused)
		slab->from = from;
	else if (slab->from != from)
		slab->from = MANY;
	return 0;
}

/* ---- pages ------------------------------------------------------------------------------- */

/* Pieces of a slab that are to get pages. */
struct due {
	uint8_t *from;
	size_t len;
};

/*
 * The first run of a chunk's steps in [first, end) that have no pages yet. If the chunk is of a big
 * slab, and more than a few of its steps have or get pages, the result is the whole chunk: a large
 * page. So a sender of few bytes cannot make us take many. The steps count as faulted in from now
 * on.
 */
static struct due chunk_due(struct slab *slab, size_t chunk, uint32_t first, uint32_t end)
{
	size_t start = chunk * CHUNK, left = slab->len - start;
	uint32_t *pages = &slab->pages[chunk], had = *pages, n = first;

	while (first < end && had >> first & 1)
		first++;
	for (n = first; n < end && !(had >> n & 1); n++)
		*pages |= 1u << n;
	if (n == first)
		return (struct due){NULL, 0};
	if (is_big(slab) && left >= CHUNK && (uint32_t)__builtin_popcount(*pages) > STEPS_FEW) {
		*pages = UINT32_MAX;
		return (struct due){slab->base + start, CHUNK};
	}
	left -= first * STEP;
	return (struct due){slab->base + start + first * STEP,
		(n - first) * STEP < left ? (n - first) * STEP : ripc__memory_round(left)};
}

/* The next piece of [offset, end) of a slab that has no pages. Its len is 0 if there is none. */
static struct due next_due(struct slab *slab, size_t offset, size_t end)
{
	struct due due = {NULL, 0};

	while (offset < end && !due.len) {
		size_t chunk = offset / CHUNK, stop = (chunk + 1) * CHUNK;

		stop = stop < end ? stop : end;
		due = chunk_due(slab, chunk, (uint32_t)(offset % CHUNK / STEP),
			(uint32_t)((stop - chunk * CHUNK + STEP - 1) / STEP));
		offset = stop;
	}
	return due;
}

/* Steps that got no pages are due again, perhaps with some that did. */
static void undue(struct slab *slab, const struct due *due)
{
	size_t offset = (size_t)(due->from - slab->base);

	for (size_t at = offset; at < offset + due->len; at += STEP)
		slab->pages[at / CHUNK] &= ~(1u << at % CHUNK / STEP);
}

/* Gives pages to the piece "due", and to all other due pieces before end; without the lock. */
static int fault(struct ripc__pool *pool, struct slab *slab, struct due due, size_t end)
{
	int err = 0;

	while (!err && due.len) {
		err = ripc__memory_fault(due.from, due.len);
		pool_lock(pool);
		if (err)
			undue(slab, &due);
		else
			due = next_due(slab, (size_t)(due.from - slab->base) + due.len, end);
		pool_unlock(pool);
	}
	return err;
}

/* Takes a block. due: set to the first piece of its len bytes without pages; or NULL. */
static int take(struct ripc__pool *pool, size_t len, uint64_t from, struct place *place,
		struct due *due)
{
	size_t offset;
	int err;

	if (len > pool->limit || len > LEN_MAX)
		return -ENOMEM;
	pool_lock(pool);
	if (len <= BLOCK_MAX)
		err = take_small(pool, class_of(len), place);
	else
		err = take_big(pool, len, from, place);
	if (!err && due) {
		offset = place->index * place->slab->block_len;
		*due = next_due(place->slab, offset, offset + len);
	}
	pool_unlock(pool);
	return err;
}

int ripc__pool_promise(struct ripc__pool *pool, size_t len, uint64_t from, void **buf)
{
	struct place place;
	int err = take(pool, len, from ? from : MANY, &place, NULL);

	if (!err)
		*buf = block_at(place);
	return err;
}

/*
 * A big buffer is about to be the application's. If the application's buffers are shown to other
 * processes, the old contents are cleared: then the buffer can be shown, which costs less than
 * sending its bytes. Without the lock.
 */
static void clear(struct ripc__pool *pool, struct slab *slab)
{
	bool is_due;

	pool_lock(pool);
	is_due = pool->clears && slab->reused && !slab->share_id;
	pool_unlock(pool);
	if (!is_due)
		return;
	for (size_t at = 0; at < slab->len; at += STEP) {
		if (slab->pages[at / CHUNK] >> at % CHUNK / STEP & 1)
			memset(slab->base + at, 0, slab->len - at < STEP ? slab->len - at : STEP);
	}
	pool_lock(pool);
	slab->reused = false;
	slab->from = MANY;
	pool_unlock(pool);
}

int ripc__pool_alloc(struct ripc__pool *pool, size_t len, void **buf)
{
	struct place place;
	struct due due;
	int err = take(pool, len, MANY, &place, &due);

	if (err)
		return err;
	if (due.len)
		err = fault(pool, place.slab, due, place.index * place.slab->block_len +
			(len < FAULT_MOST ? len : FAULT_MOST));
	if (err) {
		ripc__pool_free(pool, block_at(place));
		return err;
	}
	if (is_big(place.slab))
		clear(pool, place.slab);
	*buf = block_at(place);
	return 0;
}

int ripc__pool_fault(struct ripc__pool *pool, const void *buf, size_t len)
{
	struct due due = {NULL, 0};
	struct place place;
	size_t offset = 0;

	pool_lock(pool);
	place = find(pool, buf);
	if (place.slab && len <= room_of(place, buf)) {
		offset = (size_t)((const uint8_t *)buf - place.slab->base);
		due = next_due(place.slab, offset, offset + len);
	}
	pool_unlock(pool);
	return due.len ? fault(pool, place.slab, due, offset + len) : 0;
}

int ripc__pool_ref(struct ripc__pool *pool, const void *buf)
{
	struct place place;
	int err = 0;

	pool_lock(pool);
	place = find(pool, buf);
	if (!place.slab)
		err = -EINVAL;
	else if (place.slab->blocks[place.index] == REFS_MAX)
		err = -EOVERFLOW;
	else
		place.slab->blocks[place.index]++;
	pool_unlock(pool);
	return err;
}

/* Was the pool left, and is it empty? Needs the lock. Only one thread ever finds this true. */
static bool is_over(const struct ripc__pool *pool)
{
	return pool->ended && !pool->used && !pool->n_holders;
}

static void finish(struct ripc__pool *pool)
{
	void (*ended)(void *arg) = pool->ended;
	void *arg = pool->ended_arg;

	ripc__pool_close(pool);
	ended(arg);
}

int ripc__pool_free(struct ripc__pool *pool, const void *buf)
{
	bool over = false;
	struct place place;
	struct list dead;

	list_init(&dead);
	pool_lock(pool);
	place = find(pool, buf);
	if (place.slab && --place.slab->blocks[place.index] == 0) {
		block_give(pool, place, &dead);
		over = is_over(pool);
	}
	pool_unlock(pool); /* unless it is over, others may close the pool from now on */
	if (!list_empty(&dead))
		slabs_destroy(&dead);
	if (over)
		finish(pool);
	return place.slab ? 0 : -EINVAL;
}

void ripc__pool_hold(struct ripc__pool *pool, uint32_t n)
{
	pool_lock(pool);
	pool->n_holders += n;
	pool_unlock(pool);
}

void ripc__pool_drop(struct ripc__pool *pool)
{
	bool over;

	pool_lock(pool);
	pool->n_holders--;
	over = is_over(pool);
	pool_unlock(pool);
	if (over)
		finish(pool);
}

void ripc__pool_leave(struct ripc__pool *pool, void (*ended)(void *arg), void *arg)
{
	struct list dead;
	bool over;

	list_init(&dead);
	pool_lock(pool);
	pool->ended = ended;
	pool->ended_arg = arg;
	trim_idle(pool, 0, &dead);
	over = is_over(pool);
	pool_unlock(pool);
	slabs_destroy(&dead);
	if (over)
		finish(pool);
}

uint32_t ripc__pool_refs(struct ripc__pool *pool, const void *buf)
{
	struct place place;
	uint32_t refs;

	pool_lock(pool);
	place = find(pool, buf);
	refs = place.slab ? place.slab->blocks[place.index] : 0;
	pool_unlock(pool);
	return refs;
}

/* The number of bytes from the beginning that have pages, and that a reader finds there. */
static size_t filled(const struct slab *slab)
{
	size_t len = 0;

	while (len < slab->len && slab->pages[len / CHUNK] >> len % CHUNK / STEP & 1)
		len += STEP;
	return len < slab->len ? len : slab->len;
}

/* May the block be shown to the reader? Only their sender may see earlier bytes. */
static bool may_show(const struct slab *slab, uint64_t reader)
{
	return slab->fd >= 0 &&
		(!slab->reused || (slab->from == reader && reader != MANY));
}

int ripc__pool_share(struct ripc__pool *pool, const void *buf, size_t len, uint64_t reader,
		struct ripc__shared *shared)
{
	struct place place;
	int err = -EINVAL;

	reader = reader ? reader : MANY;
	pool_lock(pool);
	place = find(pool, buf);
	if (place.slab && is_big(place.slab) && place.slab->reused)
		pool->clears = true;
	if (place.slab && may_show(place.slab, reader) && len <= room_of(place, buf)) {
		if (!place.slab->share_id) {
			place.slab->share_id = ++pool->last_share_id;
			place.slab->reader = reader;
			place.slab->shown_len = filled(place.slab);
		} else if (place.slab->reader != reader) {
			place.slab->reader = MANY;
		}
		*shared = (struct ripc__shared){place.slab->share_id, place.slab->base,
			place.slab->len, place.slab->fd};
		err = 0;
	}
	pool_unlock(pool);
	return err;
}

bool ripc__pool_is_shared(struct ripc__pool *pool, const struct ripc__shared *shared)
{
	const struct slab *slab;
	bool is;

	pool_lock(pool);
	slab = ripc__map_get(&pool->chunks, chunk_of(shared->base));
	is = slab && slab->share_id == shared->id; /* also while the slab is idle */
	pool_unlock(pool);
	return is;
}

void ripc__pool_spread(struct ripc__pool *pool, const struct ripc__shared *shared)
{
	struct slab *slab;

	pool_lock(pool);
	slab = ripc__map_get(&pool->chunks, chunk_of(shared->base));
	if (slab && slab->share_id == shared->id)
		slab->reader = MANY;
	pool_unlock(pool);
}

size_t ripc__pool_room(struct ripc__pool *pool, const void *buf)
{
	struct place place;
	size_t room;

	pool_lock(pool);
	place = find(pool, buf);
	room = place.slab ? room_of(place, buf) : 0;
	pool_unlock(pool);
	return room;
}

/* ---- foreign memory ---------------------------------------------------------------------- */

static bool meets_slab(const struct ripc__pool *pool, const void *buf, size_t len)
{
	list_for_each_entry(slab, &pool->all, const struct slab, all_node) {
		if (foreign_overlap(buf, len, slab->base, slab->len))
			return true;
	}
	return false;
}

int ripc__pool_register(struct ripc__pool *pool, void *buf, size_t len)
{
	uintptr_t last;
	int err;

	if (!buf || !len || __builtin_add_overflow((uintptr_t)buf, len - 1, &last) ||
			last == UINTPTR_MAX)
		return -EINVAL;
	pool_lock(pool);
	err = meets_slab(pool, buf, len) ? -EEXIST : foreign_add(&pool->foreign, buf, len);
	pool_unlock(pool);
	if (err)
		return err;
	err = ripc__memory_probe(buf, len); /* takes long if there are many pages */
	if (err)
		ripc__pool_unregister(pool, buf);
	return err;
}

int ripc__pool_unregister(struct ripc__pool *pool, void *buf)
{
	int err;

	pool_lock(pool);
	err = foreign_remove(&pool->foreign, buf);
	pool_unlock(pool);
	return err;
}

bool ripc__pool_owns(struct ripc__pool *pool, const void *buf, size_t len)
{
	struct place place;
	bool owns;

	pool_lock(pool);
	place = find(pool, buf);
	owns = place.slab ? len <= room_of(place, buf) :
		foreign_contains(&pool->foreign, buf, len);
	pool_unlock(pool);
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
	free(pool->foreign.pieces);
	free(pool);
}

/* Takes no lock, because each call that leaves a sleeping thread asleep uses it. */
bool ripc__pool_is_large(struct ripc__pool *pool)
{
	return atomic_load_explicit(&pool->taken, memory_order_relaxed) > IDLE_KEEP;
}

/* Withdraws a slab that was already idle at the last turn, up to *left bytes. */
static bool turn_one(struct ripc__pool *pool, size_t *left, struct list *dead)
{
	struct slab *slab = list_entry(pool->idle.next, struct slab, idle_node);

	if (pool->idle_bytes <= IDLE_KEEP || !slab->aged || !*left)
		return false;
	*left -= slab->len < *left ? slab->len : *left;
	slab_withdraw(pool, slab, dead);
	return true;
}

bool ripc__pool_turn(struct ripc__pool *pool)
{
	size_t left = TURN_MOST;
	struct list dead;

	list_init(&dead);
	pool_lock(pool);
	while (turn_one(pool, &left, &dead))
		;
	list_for_each(node, &pool->idle)
		list_entry(node, struct slab, idle_node)->aged = true;
	pool_unlock(pool);
	slabs_destroy(&dead);
	return !left;
}

void ripc__pool_stats(struct ripc__pool *pool, struct ripc__pool_stats *stats)
{
	pool_lock(pool);
	*stats = (struct ripc__pool_stats){pool->taken, pool->limit, pool->used};
	pool_unlock(pool);
}
