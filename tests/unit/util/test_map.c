/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash map against a plain array that holds the same. */
#include <errno.h>
#include <stdbool.h>

#include "suite.h"
#include "util/map.h"

#define KEYS 3000

static int values[KEYS];

static void check_same(const struct ripc__map *map, const bool *there, uint64_t stride)
{
	uint32_t n = 0, seen = 0, at = 0;
	int *value;

	for (uint32_t i = 0; i < KEYS; i++) {
		void *expected = there[i] ? &values[i] : NULL;

		ck_assert_ptr_eq(ripc__map_get(map, i * stride), expected);
		n += there[i];
	}
	ck_assert_uint_eq(map->count, n);
	while ((value = ripc__map_next(map, &at))) {
		ck_assert(there[value - values]);
		seen++;
	}
	ck_assert_uint_eq(seen, n);
}

/* Random puts and removes; "grow" in 8 of the steps are puts. */
static void churn(struct ripc__map *map, bool *there, uint64_t stride, unsigned int grow,
		uint64_t *random)
{
	for (int i = 0; i < 6000; i++) {
		uint32_t key = (uint32_t)(suite_random(random) % KEYS);

		if (suite_random(random) % 8 < grow) {
			int expected = there[key] ? -EEXIST : 0;

			ck_assert_int_eq(ripc__map_put(map, key * stride, &values[key]), expected);
			there[key] = true;
		} else {
			void *expected = there[key] ? &values[key] : NULL;

			ck_assert_ptr_eq(ripc__map_remove(map, key * stride), expected);
			there[key] = false;
		}
	}
	check_same(map, there, stride);
}

START_TEST(map__like_an_array)
{
	static const uint64_t strides[] = { 1, 0x200000, 0x100000001, UINT64_MAX / KEYS };

	for (uint64_t seed = 0; seed < 8; seed++) {
		bool there[KEYS] = {false};
		uint64_t random = seed, stride = strides[seed % 4];
		struct ripc__map map;

		ripc__map_init(&map, seed * 0x0123456789abcdef);
		churn(&map, there, stride, 6, &random);
		churn(&map, there, stride, 1, &random);
		churn(&map, there, stride, 4, &random);
		churn(&map, there, stride, 0, &random);
		ripc__map_free(&map);
	}
}
END_TEST

/* In its place: no memory is needed. */
START_TEST(map_replace__keeps_the_rest)
{
	struct ripc__map map;
	int first, second, third;

	ripc__map_init(&map, 1);
	ck_assert_ptr_null(ripc__map_replace(&map, 7, &first));
	ck_assert_ptr_null(ripc__map_get(&map, 7));
	ck_assert_int_eq(ripc__map_put(&map, 7, &first), 0);
	ck_assert_int_eq(ripc__map_put(&map, 8, &second), 0);
	ck_assert_ptr_eq(ripc__map_replace(&map, 7, &third), &first);
	ck_assert_ptr_null(ripc__map_replace(&map, 9, &first));
	ck_assert_ptr_eq(ripc__map_get(&map, 7), &third);
	ck_assert_ptr_eq(ripc__map_get(&map, 8), &second);
	ck_assert_uint_eq(map.count, 2);
	ripc__map_free(&map);
}
END_TEST

START_TEST(map_put__key_is_there)
{
	struct ripc__map map;
	int first, second;

	ripc__map_init(&map, 1);
	ck_assert_int_eq(ripc__map_put(&map, 0, &first), 0);
	ck_assert_int_eq(ripc__map_put(&map, 0, &second), -EEXIST);
	ck_assert_ptr_eq(ripc__map_get(&map, 0), &first);
	ck_assert_uint_eq(map.count, 1);
	ripc__map_free(&map);
}
END_TEST

START_TEST(map_remove__empty_takes_little_memory)
{
	struct ripc__map map;

	ripc__map_init(&map, 2);
	ck_assert_uint_eq(ripc__map_bytes(&map), 0);
	ck_assert_ptr_null(ripc__map_get(&map, 7));
	ck_assert_ptr_null(ripc__map_remove(&map, 7));
	for (uint64_t key = 0; key < KEYS; key++)
		ck_assert_int_eq(ripc__map_put(&map, key, &values[key]), 0);
	ck_assert_uint_ge(ripc__map_bytes(&map), KEYS * sizeof(struct ripc__map_entry));
	ck_assert_uint_le(ripc__map_bytes(&map), 2 * KEYS * sizeof(struct ripc__map_entry));
	for (uint64_t key = 0; key < KEYS - 1; key++)
		ck_assert_ptr_eq(ripc__map_remove(&map, key), &values[key]);
	ck_assert_uint_le(ripc__map_bytes(&map), 512);
	ck_assert_ptr_eq(ripc__map_get(&map, KEYS - 1), &values[KEYS - 1]);
	ck_assert_ptr_eq(ripc__map_remove(&map, KEYS - 1), &values[KEYS - 1]);
	ck_assert_uint_le(ripc__map_bytes(&map), 512);
	ck_assert_ptr_null(ripc__map_get(&map, KEYS - 1));
	ripc__map_free(&map);
	ck_assert_uint_eq(ripc__map_bytes(&map), 0);
}
END_TEST

/* The longest run of taken entries, which bounds every probe. */
static uint32_t longest_run(const struct ripc__map *map)
{
	uint32_t longest = 0, run = 0;

	for (uint32_t i = 0; i < map->capacity; i++) {
		run = map->entries[i].value ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return longest;
}

/* Keys in steps of powers of two, as addresses and slot numbers are, spread well. */
START_TEST(map__regular_keys_spread)
{
	for (int shift = 0; shift < 52; shift++) {
		struct ripc__map map;

		ripc__map_init(&map, 0x5bd1e995);
		for (uint64_t i = 0; i < KEYS; i++)
			ck_assert_int_eq(ripc__map_put(&map, i << shift, &values[i]), 0);
		ck_assert_uint_le(longest_run(&map), 400);
		ripc__map_free(&map);
	}
}
END_TEST

/* Keys that collide under one seed do not under another. */
START_TEST(map__seed_changes_places)
{
	struct ripc__map first, second;
	uint32_t same = 0;

	ripc__map_init(&first, 11);
	ripc__map_init(&second, 12);
	for (uint64_t key = 0; key < 1000; key++) {
		ck_assert_int_eq(ripc__map_put(&first, key, &values[key]), 0);
		ck_assert_int_eq(ripc__map_put(&second, key, &values[key]), 0);
	}
	ck_assert_uint_eq(first.capacity, second.capacity);
	for (uint32_t i = 0; i < first.capacity; i++)
		same += first.entries[i].value && first.entries[i].value == second.entries[i].value;
	ck_assert_uint_le(same, 20);
	ripc__map_free(&first);
	ripc__map_free(&second);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		map__like_an_array, map_put__key_is_there, map_replace__keeps_the_rest,
		map_remove__empty_takes_little_memory, map__regular_keys_spread,
		map__seed_changes_places, NULL,
	};

	return suite_run("map", tests);
}
