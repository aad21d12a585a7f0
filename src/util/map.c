/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash map of map.h. Owns the table, never the values. Invariants: a fifth of the entries,
 * rounded down, is free, and at least one, hence every probe ends; between an entry and its home
 * position no entry is free, hence a probe may stop at the first free one. Removal moves later
 * entries back to keep that, and leaves no tombstones. A table grows by a quarter, a large one
 * by an eighth, not to its double: partners are in three of them, with keys in five, at 20 to 23
 * bytes each. A table is in the order of its hashes: copying one into another of the same seed
 * would make one long run.
 */
#include <errno.h>
#include <stdlib.h>

#include "util/map.h"

#define CAPACITY_MIN  8u
#define CAPACITY_KEPT 32u /* a table of this size is not shrunk, nor freed with its last entry */
#define CAPACITY_LARGE 1024u
#define CAPACITY_MAX (1u << 31)

/*
 * Two multiplications, with the seed entering before each: without the seed an attacker cannot
 * find keys that share low bits. The constants are those of MurmurHash3's finalizer.
 */
static inline uint64_t mix(uint64_t key, uint64_t seed)
{
	uint64_t hash = (key ^ seed) * 0xff51afd7ed558ccd;

	hash = (hash ^ hash >> 33) + (seed << 32 | seed >> 32);
	hash = (hash ^ hash >> 29) * 0xc4ceb9fe1a85ec53;
	return hash ^ hash >> 32;
}

/* The lower half of the hash, taken as a fraction of the table. */
static inline uint32_t home(const struct ripc__map *map, uint64_t key)
{
	return (uint32_t)((uint64_t)(uint32_t)mix(key, map->seed) * map->capacity >> 32);
}

static inline uint32_t after(const struct ripc__map *map, uint32_t at)
{
	return at + 1 < map->capacity ? at + 1 : 0;
}

/* The length of a probe from one entry to the other. */
static inline uint32_t distance(const struct ripc__map *map, uint32_t from, uint32_t to)
{
	return to >= from ? to - from : to + map->capacity - from;
}

/* The entry of the key, or the one that it would get. The table must exist. */
static inline struct ripc__map_entry *find(const struct ripc__map *map, uint64_t key)
{
	uint32_t at = home(map, key);

	while (map->entries[at].value && map->entries[at].key != key)
		at = after(map, at);
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

static int grow(struct ripc__map *map)
{
	if (map->capacity >= CAPACITY_MAX)
		return -ENOMEM;
	return resize(map, map->capacity ? map->capacity + (map->capacity + 3) /
		(map->capacity < CAPACITY_LARGE ? 4 : 8) : CAPACITY_MIN);
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
	struct ripc__map_entry *entry = map->capacity ? find(map, key) : NULL;

	if (entry && entry->value)
		return -EEXIST;
	if (map->count >= map->capacity - map->capacity / 5) {
		int error = grow(map);

		if (error)
			return error;
		entry = find(map, key);
	}
	entry->key = key;
	entry->value = value;
	map->count++;
	return 0;
}

void *ripc__map_get(const struct ripc__map *map, uint64_t key)
{
	return map->count ? find(map, key)->value : NULL;
}

void *ripc__map_replace(struct ripc__map *map, uint64_t key, void *value)
{
	struct ripc__map_entry *entry = map->count ? find(map, key) : NULL;
	void *before = entry ? entry->value : NULL;

	if (before)
		entry->value = value;
	return before;
}

/* Fills the gap at "hole" with later entries whose probes pass over it. */
static void close_gap(struct ripc__map *map, uint32_t hole)
{
	for (uint32_t at = after(map, hole); map->entries[at].value; at = after(map, at)) {
		uint32_t from_home = distance(map, home(map, map->entries[at].key), at);

		if (from_home < distance(map, hole, at))
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
	map->count--;
	close_gap(map, (uint32_t)(entry - map->entries));
	/* Without memory for a smaller table the large one still serves. */
	if (map->capacity > CAPACITY_KEPT && map->count < map->capacity / 8)
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
