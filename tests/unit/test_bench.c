/* SPDX-License-Identifier: BSD-3-Clause */
/* What ripc-bench makes of messages and of runs, whoever exchanges them. */
#include <errno.h>
#include <string.h>

#include "../../tools/bench.h"
#include "suite.h"

#define SIZE 100

static const struct bench_job untouched = {.size = SIZE, .warm_up = 3, .untouched = 1};

START_TEST(bench_take__finds_what_arrived_wrong)
{
	const struct bench_job job = {.size = SIZE, .warm_up = 3};
	uint64_t number;
	uint8_t buffer[SIZE];

	for (uint64_t i = 0; i < 10; i++) {
		bench_put(&job, buffer, i);
		ck_assert_int_eq(bench_take(&job, buffer, &number), 0);
		ck_assert_uint_eq(number, i);
		buffer[SIZE - 1] ^= 1;
		ck_assert_int_eq(bench_take(&job, buffer, &number), -EBADMSG);
	}
}
END_TEST

START_TEST(bench_take__verifies_the_warm_up_of_untouched_messages)
{
	uint64_t number;
	uint8_t buffer[SIZE];

	for (uint64_t i = 0; i < untouched.warm_up; i++) {
		memset(buffer, 0xee, SIZE);
		bench_put(&untouched, buffer, i);
		ck_assert_int_eq(bench_take(&untouched, buffer, &number), 0);
		ck_assert_uint_eq(number, i);
		buffer[SIZE - 1] ^= 1;
		ck_assert_int_eq(bench_take(&untouched, buffer, &number), -EBADMSG);
	}
}
END_TEST

START_TEST(bench_put__leaves_untouched_what_is_measured)
{
	uint64_t number;
	uint8_t buffer[SIZE];

	for (uint64_t i = untouched.warm_up; i < 10; i++) {
		memset(buffer, 0xee, SIZE);
		bench_put(&untouched, buffer, i);
		for (size_t at = sizeof(i); at < SIZE; at++)
			ck_assert_uint_eq(buffer[at], 0xee);
		ck_assert_int_eq(bench_take(&untouched, buffer, &number), 0);
		ck_assert_uint_eq(number, i);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		bench_take__finds_what_arrived_wrong,
		bench_take__verifies_the_warm_up_of_untouched_messages,
		bench_put__leaves_untouched_what_is_measured,
		NULL,
	};

	return suite_run("bench", tests);
}
