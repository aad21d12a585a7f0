/* SPDX-License-Identifier: BSD-3-Clause */
/* Structs that begin with their size, of programs that know fewer fields, or more. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "core/base/base.h"
#include "suite.h"

struct known {
	size_t size;
	uint64_t first, later;
};

struct newer {
	struct known known;
	uint8_t more[8];
};

#define FIRST offsetof(struct known, later)

static int take(struct known *own, const void *given)
{
	memset(own, 0x55, sizeof(*own));
	return ripc__struct_take(own, sizeof(*own), given, FIRST);
}

START_TEST(take__any_size)
{
	struct newer given = {{0, 1, 2}, {0}};
	struct known own;

	for (size_t size = 0; size <= sizeof(given); size++) {
		given.known.size = size;
		ck_assert_int_eq(take(&own, &given), size < FIRST ? -EINVAL : 0);
		ck_assert_uint_eq(own.first, size < FIRST ? 0 : 1);
		if (size >= sizeof(own))
			ck_assert_uint_eq(own.later, 2);
		else if (size <= FIRST)
			ck_assert_uint_eq(own.later, 0);
	}
	ck_assert_int_eq(take(&own, NULL), -EINVAL);
	ck_assert_uint_eq(own.first, 0);
	given.known.size = 4097;
	ck_assert_int_eq(take(&own, &given), -E2BIG);
	ck_assert_uint_eq(own.first, 0);
}
END_TEST

START_TEST(take__unknown_fields)
{
	struct known own;

	for (size_t i = 0; i < 8; i++) {
		struct newer given = {{sizeof(struct known) + i, 1, 2}, {0}};

		((uint8_t *)&given)[sizeof(struct known) + i] = 1;
		ck_assert_int_eq(take(&own, &given), 0); /* behind the struct */
		given.known.size++;
		ck_assert_int_eq(take(&own, &given), -E2BIG);
		ck_assert_uint_eq(own.later, 2);
	}
}
END_TEST

START_TEST(fill__any_size)
{
	const struct known own = {7, 8, 9};

	for (size_t size = 0; size <= sizeof(struct newer); size++) {
		uint8_t given[sizeof(struct newer) + 1];
		size_t n = size < sizeof(own) ? size : sizeof(own);

		memset(given, 0x55, sizeof(given));
		ripc__struct_fill(given, size, &own, sizeof(own));
		ck_assert(memcmp(given, &own, n) == 0);
		for (size_t i = n; i < size; i++)
			ck_assert_uint_eq(given[i], 0);
		ck_assert_uint_eq(given[size], 0x55);
	}
	ck_assert_int_eq(ripc__struct_check(sizeof(size_t) - 1), -EINVAL);
	ck_assert_int_eq(ripc__struct_check(sizeof(size_t)), 0);
	ck_assert_int_eq(ripc__struct_check(4096), 0);
	ck_assert_int_eq(ripc__struct_check(4097), -E2BIG);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		take__any_size, take__unknown_fields, fill__any_size, NULL,
	};
	return suite_run("base", tests);
}
