/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of memory: what is found is what a plain search finds. */
#include <errno.h>
#include <stdbool.h>

#include "suite.h"
#include "util/ranges.h"

#define ROUNDS 5000
#define MODEL  40
#define BYTES  400

static uint8_t memory[BYTES];
static bool no_room;

void *__real_realloc(void *old, size_t len);
void *__wrap_realloc(void *old, size_t len);

void *__wrap_realloc(void *old, size_t len)
{
	return no_room ? NULL : __real_realloc(old, len);
}

static void put(struct ripc__ranges *ranges, const struct ripc__range *range)
{
	ck_assert_int_eq(ripc__ranges_reserve(ranges), 0);
	ripc__ranges_put(ranges, range);
}

/* ---- against a plain list ---------------------------------------------------------------- */

static bool has(const struct ripc__range *range, const uint8_t *mem, size_t len, int uses)
{
	return range->owner && (range->uses & uses) == uses && mem >= range->mem &&
		mem + len <= range->mem + range->len;
}

static void check_find(const struct ripc__ranges *ranges, const struct ripc__range *model,
		uint64_t random)
{
	const uint8_t *mem = memory + random % BYTES;
	size_t len = (random >> 16) % (size_t)(memory + BYTES - mem + 1);
	int uses = (int)(random >> 32 & 3);
	const struct ripc__range *found = ripc__ranges_find(ranges, mem, len, uses);
	bool any = false;

	for (int i = 0; i < MODEL; i++)
		any |= has(&model[i], mem, len, uses);
	ck_assert_int_eq(found != NULL, any);
	if (found)
		ck_assert(has(found, mem, len, uses));
}

static void check_order(const struct ripc__ranges *ranges, uint32_t n)
{
	uint32_t before = 0;

	ck_assert_uint_eq(ranges->n, n);
	for (uint32_t i = 1; i < n; i++)
		before += ranges->all[i].mem < ranges->all[i - 1].mem;
	ck_assert_uint_eq(before, 0);
}

/* Few places to begin, so that many begin at the same one, overlap, or are the same. */
static struct ripc__range any_range(uint64_t random, void *owner)
{
	size_t at = random % 20 * (BYTES / 20);

	return (struct ripc__range){.mem = memory + at, .len = (random >> 16) % (BYTES - at + 1),
		.uses = (int)(random >> 32 & 3), .owner = owner};
}

/* Each owner is its entry of the model; an entry without one is free. */
START_TEST(find__as_a_plain_list)
{
	struct ripc__range model[MODEL] = {0};
	struct ripc__ranges ranges = {0};
	uint64_t seed = (uint64_t)_i + 1;
	uint32_t n = 0;

	for (int round = 0; round < ROUNDS; round++) {
		struct ripc__range *entry = &model[suite_random(&seed) % MODEL];

		if (entry->owner) {
			ripc__ranges_remove(&ranges, entry->mem, entry);
			entry->owner = NULL;
			n--;
		} else {
			*entry = any_range(suite_random(&seed), entry);
			put(&ranges, entry);
			n++;
		}
		check_order(&ranges, n);
		check_find(&ranges, model, suite_random(&seed));
	}
	ripc__ranges_free(&ranges);
}
END_TEST

/* ---- edges ------------------------------------------------------------------------------- */

START_TEST(find__edges)
{
	struct ripc__ranges ranges = {0};
	int owner;

	ck_assert_ptr_null(ripc__ranges_find(&ranges, memory, 0, 0));
	put(&ranges, &(struct ripc__range){memory + 10, 10, 1, &owner});
	ck_assert_ptr_eq(ripc__ranges_find(&ranges, memory + 10, 10, 1), &owner);
	ck_assert_ptr_eq(ripc__ranges_find(&ranges, memory + 20, 0, 0), &owner);
	ck_assert_ptr_null(ripc__ranges_find(&ranges, memory + 9, 1, 0));
	ck_assert_ptr_null(ripc__ranges_find(&ranges, memory + 10, 11, 0));
	ck_assert_ptr_null(ripc__ranges_find(&ranges, memory + 11, SIZE_MAX, 0));
	ck_assert_ptr_null(ripc__ranges_find(&ranges, memory + 10, 10, 3));
	ripc__ranges_free(&ranges);
}
END_TEST

/* One alone has all the uses and the length; it does not begin nearest. */
START_TEST(find__looks_further_back)
{
	struct ripc__ranges ranges = {0};
	int owners[3];

	put(&ranges, &(struct ripc__range){memory, 100, 3, &owners[0]});
	put(&ranges, &(struct ripc__range){memory + 20, 80, 1, &owners[1]});
	put(&ranges, &(struct ripc__range){memory + 40, 5, 3, &owners[2]});
	ck_assert_ptr_eq(ripc__ranges_find(&ranges, memory + 40, 5, 2), &owners[2]);
	ck_assert_ptr_eq(ripc__ranges_find(&ranges, memory + 40, 6, 1), &owners[1]);
	ck_assert_ptr_eq(ripc__ranges_find(&ranges, memory + 40, 6, 2), &owners[0]);
	ripc__ranges_free(&ranges);
}
END_TEST

START_TEST(pop__until_there_is_none)
{
	struct ripc__ranges ranges = {0};
	int owners[2] = {0};

	ck_assert_ptr_null(ripc__ranges_pop(&ranges));
	put(&ranges, &(struct ripc__range){memory, 1, 0, &owners[0]});
	put(&ranges, &(struct ripc__range){memory, 1, 0, &owners[1]});
	for (int i = 0; i < 2; i++)
		++*(int *)ripc__ranges_pop(&ranges);
	ck_assert_int_eq(owners[0] & owners[1], 1);
	ck_assert_ptr_null(ripc__ranges_pop(&ranges));
	ck_assert_ptr_null(ripc__ranges_find(&ranges, memory, 1, 0));
	ripc__ranges_free(&ranges);
}
END_TEST

/* What there is stays as it is. */
START_TEST(reserve__no_memory)
{
	struct ripc__ranges ranges = {0};
	int owner;

	no_room = true;
	ck_assert_int_eq(ripc__ranges_reserve(&ranges), -ENOMEM);
	no_room = false;
	do
		put(&ranges, &(struct ripc__range){memory + ranges.n, 1, 0, &owner});
	while (ranges.n < ranges.capacity);
	no_room = true;
	ck_assert_int_eq(ripc__ranges_reserve(&ranges), -ENOMEM);
	ripc__ranges_remove(&ranges, memory, &owner);
	ck_assert_int_eq(ripc__ranges_reserve(&ranges), 0);
	ck_assert_ptr_eq(ripc__ranges_find(&ranges, memory + 1, 1, 0), &owner);
	no_room = false;
	ripc__ranges_free(&ranges);
}
END_TEST

int main(void)
{
	const struct suite_loop tests[] = {
		{find__as_a_plain_list, 4}, {find__edges, 1}, {find__looks_further_back, 1},
		{pop__until_there_is_none, 1}, {reserve__no_memory, 1}, {0},
	};

	return suite_run_loops("ranges", tests);
}
