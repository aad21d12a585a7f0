/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies past the cache: every length and alignment, and nothing beside it. */
#include <string.h>

#include "suite.h"
#include "util/stream.h"

#define ROOM 3000

START_TEST(copy_past_cache__any_length_and_place)
{
	static uint8_t from[ROOM], to[ROOM], want[ROOM];
	uint64_t random = (uint64_t)_i + 1;

	for (size_t i = 0; i < ROOM; i++)
		from[i] = (uint8_t)suite_random(&random);
	for (int i = 0; i < 2000; i++) {
		size_t at = suite_random(&random) % 130, source = suite_random(&random) % 130;
		size_t len = suite_random(&random) % (ROOM - 130);

		memset(to, 0xee, sizeof(to));
		memset(want, 0xee, sizeof(want));
		memcpy(want + at, from + source, len);
		ripc__copy_past_cache(to + at, from + source, len);
		ck_assert_mem_eq(to, want, sizeof(to));
	}
}
END_TEST

int main(void)
{
	const struct suite_loop tests[] = {{copy_past_cache__any_length_and_place, 4}, {NULL, 0}};

	return suite_run_loops("stream", tests);
}
