/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See secret.h. Blocks are cut from chunks. A chunk begins with its header, is aligned to its
 * length, and has blocks of one length.
 */
#include "secret.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "memory.h"

#define CHUNK_LEN ((size_t)65536)
#define BLOCK_LEN ((size_t)32) /* lengths of blocks are multiples */

struct chunk {
	struct list node; /* in memory->chunks; alone: the chunk has no free block */
	struct block {
		struct block *next;
	} *freed;
	size_t block_len, used; /* used: bytes that are cut into blocks, and the header */
	uint32_t n_live;
};

static size_t round_up(size_t len)
{
	return (len + BLOCK_LEN - 1) & ~(BLOCK_LEN - 1);
}

static bool is_full(const struct chunk *chunk)
{
	return !chunk->freed && chunk->used + chunk->block_len > CHUNK_LEN;
}

static struct chunk *chunk_add(struct secret_memory *memory, size_t block_len)
{
	void *at;
	struct chunk *chunk;

	if (ripc__memory_map_secret(CHUNK_LEN, CHUNK_LEN, &at))
		return NULL;
	chunk = at;
	chunk->block_len = block_len;
	chunk->used = round_up(sizeof(*chunk));
	list_append(&memory->chunks, &chunk->node);
	return chunk;
}

static struct chunk *chunk_find(struct secret_memory *memory, size_t block_len)
{
	if (!memory->chunks.next)
		list_init(&memory->chunks);
	list_for_each_entry(chunk, &memory->chunks, struct chunk, node) {
		if (chunk->block_len == block_len)
			return chunk;
	}
	return chunk_add(memory, block_len);
}

static struct block *cut(struct chunk *chunk)
{
	struct block *block = (struct block *)((uint8_t *)chunk + chunk->used);

	chunk->used += chunk->block_len;
	return block;
}

void *ripc__secret_alloc(struct secret_memory *memory, size_t len)
{
	struct chunk *chunk = chunk_find(memory, round_up(len));
	struct block *block;

	if (!chunk)
		return NULL;
	block = chunk->freed;
	if (block)
		chunk->freed = block->next;
	else
		block = cut(chunk);
	block->next = NULL;
	chunk->n_live++;
	if (is_full(chunk))
		list_remove(&chunk->node);
	return block;
}

/* Must the chunk stay? One empty chunk is kept, to save a mapping for each allocation. */
static bool is_to_stay(const struct secret_memory *memory, const struct chunk *chunk)
{
	return chunk->n_live || memory->chunks.next->next == &memory->chunks;
}

void ripc__secret_free(struct secret_memory *memory, void *at, size_t len)
{
	struct chunk *chunk = (struct chunk *)((uintptr_t)at & ~(uintptr_t)(CHUNK_LEN - 1));
	struct block *block = at;

	if (is_full(chunk))
		list_append(&memory->chunks, &chunk->node);
	explicit_bzero(at, len);
	block->next = chunk->freed;
	chunk->freed = block;
	chunk->n_live--;
	if (is_to_stay(memory, chunk))
		return;
	list_remove(&chunk->node);
	ripc__memory_unmap_secret(chunk, CHUNK_LEN);
}

void ripc__secret_close(struct secret_memory *memory)
{
	while (memory->chunks.next && !list_empty(&memory->chunks))
		ripc__memory_unmap_secret(list_entry(list_pop(&memory->chunks), struct chunk, node),
			CHUNK_LEN);
}

/* ---- with pages of its own ----------------------------------------------------------------- */

void *ripc__secret_map(size_t len)
{
	void *at;

	return ripc__memory_map_secret(ripc__memory_round(len), ripc__memory_round(1), &at) ?
		NULL : at;
}

void ripc__secret_unmap(void *at, size_t len)
{
	explicit_bzero(at, len);
	ripc__memory_unmap_secret(at, ripc__memory_round(len));
}
