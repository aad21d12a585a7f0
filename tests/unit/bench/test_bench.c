/* SPDX-License-Identifier: BSD-3-Clause */
/* The evaluation of messages and runs by ripc-bench, for any peer. */
#include <errno.h>
#include <string.h>

#include "../../../bench/ripc-bench/bench.h"
#include "suite.h"

#define SIZE 100

static const struct bench_job untouched = {.size = SIZE, .warm_up = 3, .untouched = 1};

/* The first n messages: as they are written they are right, and with another last byte wrong. */
static void check_verified(const struct bench_job *job, uint64_t n)
{
	uint64_t number;
	uint8_t buffer[SIZE];

	for (uint64_t i = 0; i < n; i++) {
		memset(buffer, 0xee, SIZE);
		bench_put(job, buffer, i);
		ck_assert_int_eq(bench_take(job, buffer, &number), 0);
		ck_assert_uint_eq(number, i);
		buffer[SIZE - 1] ^= 1;
		ck_assert_int_eq(bench_take(job, buffer, &number), -EBADMSG);
	}
}

START_TEST(bench_take__finds_what_arrived_wrong)
{
	const struct bench_job job = {.size = SIZE, .warm_up = 3};

	check_verified(&job, 10);
}
END_TEST

START_TEST(bench_take__verifies_the_warm_up_of_untouched_messages)
{
	check_verified(&untouched, untouched.warm_up);
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

/* The results and costs of a run of n messages. */
static void add_run(struct bench_series *series, unsigned int peer, uint64_t pair, double cost,
	uint64_t messages)
{
	struct bench_result *result = calloc(1, sizeof(*result) + sizeof(double));

	ck_assert_ptr_nonnull(result);
	result->n = 1;
	result->samples[0] = 1;
	result->messages = messages;
	result->cost = (struct bench_cost){cost, 2 * cost, 3 * cost, 4 * cost, 5 * cost, 6 * cost,
		7 * cost, 8 * cost};
	ck_assert_int_eq(bench_series_add(series, peer, pair, result), 0);
	free(result);
}

START_TEST(bench_cost_each__is_of_all_runs_and_messages)
{
	struct bench_series series = {.size = SIZE};
	struct bench_cost each;

	ck_assert_int_eq(bench_series_begin(&series, 2, 2), 0);
	add_run(&series, 0, 0, 100, 30);
	add_run(&series, 1, 0, 7000, 1);
	add_run(&series, 0, 1, 300, 50);
	add_run(&series, 1, 1, 0, 0);
	bench_series_end(&series);
	each = bench_cost_each(&series.runs[0]); /* 400 for 80 */
	ck_assert_double_eq(each.client_user, 5);
	ck_assert_double_eq(each.client_system, 10);
	ck_assert_double_eq(each.server_user, 15);
	ck_assert_double_eq(each.server_system, 20);
	ck_assert_double_eq(each.softirq, 25);
	ck_assert_double_eq(each.steal, 30);
	ck_assert_double_eq(each.idle, 35);
	ck_assert_double_eq(each.wire_bytes, 40);
	each = bench_cost_each(&series.runs[1]);
	ck_assert_double_eq(each.client_user, 7000);
	bench_series_free(&series);
}
END_TEST

START_TEST(bench_cost_each__of_no_messages_is_all)
{
	struct bench_series series = {.size = SIZE};

	ck_assert_int_eq(bench_series_begin(&series, 1, 1), 0);
	add_run(&series, 0, 0, 100, 0);
	ck_assert_double_eq(bench_cost_each(&series.runs[0]).client_user, 100);
	bench_series_free(&series);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		bench_take__finds_what_arrived_wrong,
		bench_take__verifies_the_warm_up_of_untouched_messages,
		bench_put__leaves_untouched_what_is_measured,
		bench_cost_each__is_of_all_runs_and_messages,
		bench_cost_each__of_no_messages_is_all,
		NULL,
	};

	return suite_run("bench", tests);
}
