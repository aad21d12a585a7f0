/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of pointers by number: what is taken is found, and each number is taken once. */
#include <errno.h>
#include <stdbool.h>

#include "suite.h"
#include "util/slots.h"

static char values[RIPC_SLOTS_MAX];
static bool taken[RIPC_SLOTS_MAX];

START_TEST(slots__all_are_taken_once)
{
	struct ripc__slots slots = {0};

	for (uint32_t i = 0; i < RIPC_SLOTS_MAX; i++) {
		uint32_t slot;

		ck_assert_int_eq(ripc__slots_grow(&slots), 0);
		slot = ripc__slots_put(&slots, &values[i]);
		ck_assert_uint_lt(slot, RIPC_SLOTS_MAX);
		ck_assert(!taken[slot]);
		taken[slot] = true;
		ck_assert_ptr_eq(ripc__slots_get(&slots, slot), &values[i]);
	}
	ck_assert_int_eq(ripc__slots_grow(&slots), -ENOMEM);
	ripc__slots_clear(&slots, 40000);
	ck_assert_ptr_null(ripc__slots_get(&slots, 40000));
	ck_assert_int_eq(ripc__slots_grow(&slots), 0);
	ck_assert_uint_eq(ripc__slots_put(&slots, &values[0]), 40000);
	ck_assert_uint_eq(ripc__slots_bytes(&slots), RIPC_SLOTS_MAX * (sizeof(void *) + 2));
	ripc__slots_free(&slots);
}
END_TEST

START_TEST(slots_get__numbers_that_there_are_not)
{
	struct ripc__slots slots = {0};

	ck_assert_ptr_null(ripc__slots_get(&slots, 0));
	ck_assert_int_eq(ripc__slots_grow(&slots), 0);
	ck_assert_ptr_null(ripc__slots_get(&slots, 0));
	ck_assert_ptr_null(ripc__slots_get(&slots, slots.n));
	ck_assert_ptr_null(ripc__slots_get(&slots, UINT64_MAX));
	ripc__slots_free(&slots);
	ck_assert_uint_eq(ripc__slots_bytes(&slots), 0);
}
END_TEST

int main(void)
{
	const struct suite_loop tests[] = {
		{slots__all_are_taken_once, 1}, {slots_get__numbers_that_there_are_not, 1}, {0},
	};

	return suite_run_loops("slots", tests);
}
