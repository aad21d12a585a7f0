/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash map from 64-bit keys to pointers: open addressing, linear probing, no tombstones. Keys
 * are mixed with a seed: an attacker that chooses keys cannot choose collisions.
 */
#ifndef RIPC_MAP_H
#define RIPC_MAP_H

#include <stddef.h>
#include <stdint.h>

struct ripc__map_entry {
	uint64_t key;
	void *value; /* NULL: free */
};

struct ripc__map {
	struct ripc__map_entry *entries; /* NULL until a first value is put */
	uint32_t capacity, count;
	uint64_t seed;
};

void ripc__map_init(struct ripc__map *map, uint64_t seed);
void ripc__map_free(struct ripc__map *map); /* frees the table, not the values */
/* 0; -ENOMEM; -EEXIST if the key is there (nothing is changed). value must not be NULL. */
int ripc__map_put(struct ripc__map *map, uint64_t key, void *value);
void *ripc__map_get(const struct ripc__map *map, uint64_t key);
/* Returns the old value; NULL: there was none, and the map is unchanged. Cannot fail otherwise. */
void *ripc__map_replace(struct ripc__map *map, uint64_t key, void *value);
/* Returns the removed value, or NULL. Shrinks the table when it is nearly empty. */
void *ripc__map_remove(struct ripc__map *map, uint64_t key);
/* Iteration: start with *at = 0; returns NULL at the end. The map must not change meanwhile. */
void *ripc__map_next(const struct ripc__map *map, uint32_t *at);
/* Any value; NULL: the map is empty. */
static inline void *ripc__map_any(const struct ripc__map *map)
{
	return ripc__map_next(map, &(uint32_t){0});
}

/* Bytes of the table. */
size_t ripc__map_bytes(const struct ripc__map *map);

#endif
