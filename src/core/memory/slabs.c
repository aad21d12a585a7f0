/* SPDX-License-Identifier: BSD-3-Clause */
/* Slabs of the pool: made, published, idle, withdrawn, and given back. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "memory.h"
#include "slabs.h"
#include "util/list.h"
#include "util/map.h"
#include "util/system/cancel.h"

/* keep: its descriptor. */
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

void ripc__slab_destroy(struct slab *slab)
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

void ripc__slab_withdraw(struct ripc__pool *pool, struct slab *slab, struct list *dead)
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

void ripc__slabs_destroy(struct list *dead)
{
	while (!list_empty(dead))
		ripc__slab_destroy(list_entry(list_pop(dead), struct slab, node));
}

void ripc__trim_idle(struct ripc__pool *pool, uint64_t most, struct list *dead)
{
	while (pool->idle_bytes > most)
		ripc__slab_withdraw(pool, list_entry(pool->idle.next, struct slab, idle_node),
			dead);
}

/* Takes len bytes from the limit, at the expense of idle slabs. */
static int reserve(struct ripc__pool *pool, uint64_t len, struct list *dead)
{
	uint64_t live = pool->taken - pool->idle_bytes;

	if (len > pool->limit - live)
		return -ENOMEM;
	if (len > pool->limit - pool->taken)
		ripc__trim_idle(pool, pool->limit - live - len, dead);
	pool->taken += len;
	return 0;
}

int ripc__slab_add(struct ripc__pool *pool, size_t len, size_t block_len, struct slab **slab)
{
	bool keep = len == block_len && pool->n_descriptors < SHARED_MAX;
	struct slab *s = NULL;
	struct list dead;
	int err;

	list_init(&dead);
	err = reserve(pool, len, &dead);
	if (err)
		return err;
	ripc__pool_unlock(pool);
	ripc__slabs_destroy(&dead);
	err = slab_new(len, block_len, keep, &s);
	ripc__pool_lock(pool);
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
	ripc__slab_destroy(s);
give_back:
	pool->taken -= len;
	return err;
}
