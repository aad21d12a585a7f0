/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash map of map.h. Owns the table, never the values. Invariants: at least a quarter of
 * the entries is free, so that every probe ends; between an entry and its home position no
 * entry is free, so that a probe may stop at the first free one. Removal moves later entries
 * back to keep that, and leaves no tombstones.
 */
#include <errno.h>
#include <stdlib.h>

#include "util/map.h"

#define CAPACITY_MIN 8u
#define CAPACITY_MAX (1u << 31)

/*
 * Two multiplications, with the seed entering before each: without the seed nobody can tell
 * which keys share low bits. The constants are those of MurmurHash3's finalizer.
 */
static inline uint64_t mix(uint64_t key, uint64_t seed)
{
	uint64_t hash = (key ^ seed) * 0xff51afd7ed558ccd;

	hash = (hash ^ hash >> 33) + (seed << 32 | seed >> 32);
	hash = (hash ^ hash >> 29) * 0xc4ceb9fe1a85ec53;
	return hash ^ hash >> 32;
}

static inline uint32_t home(const struct ripc__map *map, uint64_t key)
{
	return (uint32_t)mix(key, map->seed) & (map->capacity - 1);
}

/* Where the key is, or where it would go. The table must exist. */
static inline struct ripc__map_entry *find(const struct ripc__map *map, uint64_t key)
{
	uint32_t at = home(map, key);

	while (map->entries[at].value && map->entries[at].key != key)
		at = (at + 1) & (map->capacity - 1);
	return &map->entries[at];
}

static int resize(struct ripc__map *map, uint32_t capacity)
{
	struct ripc__map bigger = {.capacity = capacity, .seed = map->seed, .count = map->count};

	bigger.entries = calloc(capacity, sizeof(*bigger.entries));
	if (!bigger.entries)
		return -ENOMEM;
	for (uint32_t i = 0; i < map->capacity; i++) {
		if (map->entries[i].value)
			*find(&bigger, map->entries[i].key) = map->entries[i];
	}
	free(map->entries);
	*map = bigger;
	return 0;
}

void ripc__map_init(struct ripc__map *map, uint64_t seed)
{
	*map = (struct ripc__map){.seed = seed};
}

void ripc__map_free(struct ripc__map *map)
{
	free(map->entries);
	ripc__map_init(map, map->seed);
}

int ripc__map_put(struct ripc__map *map, uint64_t key, void *value)
{
	struct ripc__map_entry *entry;
	int err;

	if (ripc__map_get(map, key))
		return -EEXIST;
	if (map->count >= map->capacity - map->capacity / 4) {
		if (map->capacity == CAPACITY_MAX)
			return -ENOMEM;
		err = resize(map, map->capacity ? 2 * map->capacity : CAPACITY_MIN);
		if (err)
			return err;
	}
	entry = find(map, key);
	entry->key = key;
	entry->value = value;
	map->count++;
	return 0;
}

void *ripc__map_get(const struct ripc__map *map, uint64_t key)
{
	return map->count ? find(map, key)->value : NULL;
}

/* Fills the gap at "hole" with later entries whose probes pass over it. */
static void close_gap(struct ripc__map *map, uint32_t hole)
{
	uint32_t mask = map->capacity - 1;

	for (uint32_t at = (hole + 1) & mask; map->entries[at].value; at = (at + 1) & mask) {
		uint32_t distance = (at - home(map, map->entries[at].key)) & mask;

		if (distance < ((at - hole) & mask))
			continue; /* its home lies behind the gap */
		map->entries[hole] = map->entries[at];
		hole = at;
	}
	map->entries[hole].value = NULL;
}

void *ripc__map_remove(struct ripc__map *map, uint64_t key)
{
	struct ripc__map_entry *entry = map->count ? find(map, key) : NULL;
	void *value = entry ? entry->value : NULL;

	if (!value)
		return NULL;
	if (--map->count == 0) {
		ripc__map_free(map);
		return value;
	}
	close_gap(map, (uint32_t)(entry - map->entries));
	/* Without memory for a smaller table the large one still serves. */
	if (map->capacity > CAPACITY_MIN && map->count < map->capacity / 8)
		(void)resize(map, map->capacity / 2);
	return value;
}

void *ripc__map_next(const struct ripc__map *map, uint32_t *at)
{
	while (*at < map->capacity) {
		void *value = map->entries[(*at)++].value;

		if (value)
			return value;
	}
	return NULL;
}

size_t ripc__map_bytes(const struct ripc__map *map)
{
	return map->capacity * sizeof(*map->entries);
}
