/* SPDX-License-Identifier: BSD-3-Clause */
/* Buckets and budgets: how much, how fast, and whose. */
#include "core/base/budget.h"

#include <check.h>

#include "suite.h"

#define SECOND_US 1000000u

START_TEST(bucket_take__burst_then_rate)
{
	struct bucket bucket;
	uint32_t n = 0;

	ripc__bucket_init(&bucket, 100, 10);
	while (ripc__bucket_take(&bucket, 5))
		n++;
	ck_assert_uint_eq(n, 10);
	for (uint64_t us = 5; us < 5 + SECOND_US; us += 1000)
		n += ripc__bucket_take(&bucket, us);
	ck_assert_uint_ge(n, 10 + 98);
	ck_assert_uint_le(n, 10 + 100);
}
END_TEST

START_TEST(bucket_spend__more_than_there_is_is_paid_for_later)
{
	struct bucket bucket;

	ripc__bucket_init(&bucket, 1000, 100);
	ck_assert(ripc__bucket_spend(&bucket, 1, 600)); /* 500 too many: half a second */
	ck_assert(!ripc__bucket_spend(&bucket, 1 + SECOND_US / 2 - 1000, 1));
	ck_assert(ripc__bucket_spend(&bucket, 1 + SECOND_US / 2 + 1000, 1));
	ck_assert(ripc__bucket_spend(&bucket, 10 * SECOND_US, 1)); /* full, and no more than that */
	ck_assert_int_eq(bucket.tokens, 99);
}
END_TEST

START_TEST(bucket_take__clock_that_stands_still_or_goes_back)
{
	struct bucket bucket;

	ripc__bucket_init(&bucket, 1000, 1);
	ck_assert(ripc__bucket_take(&bucket, SECOND_US));
	ck_assert(!ripc__bucket_take(&bucket, SECOND_US));
	ck_assert(!ripc__bucket_take(&bucket, 0));
}
END_TEST

START_TEST(budget_spend__one_host_has_an_eighth)
{
	uint8_t host[16] = {0};
	struct budget budget;
	uint32_t one = 0, all = 0;

	ripc__budget_init(&budget, 800, 800, 8, (const uint64_t[2]){7, 9});
	while (ripc__budget_spend(&budget, host, 1, 1))
		one++;
	ck_assert_uint_eq(one, 100);
	for (uint32_t i = 0; i < 20000; i++) {
		host[14] = (uint8_t)(i >> 8);
		host[15] = (uint8_t)i;
		all += ripc__budget_spend(&budget, host, 1, 1);
	}
	ck_assert_uint_eq(one + all, 800);
}
END_TEST

START_TEST(budget_spend__another_host_still_has_its_own)
{
	uint8_t host[16] = {0};
	struct budget budget;
	uint32_t n = 0;

	ripc__budget_init(&budget, 800, 800, 8, (const uint64_t[2]){7, 9});
	while (ripc__budget_spend(&budget, host, 1, 1))
		continue;
	for (uint8_t i = 1; i <= 10; i++) {
		host[15] = i;
		n += ripc__budget_spend(&budget, host, 1, 1);
	}
	ck_assert_uint_ge(n, 9); /* a neighbour may share its bucket */
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		bucket_take__burst_then_rate,
		bucket_spend__more_than_there_is_is_paid_for_later,
		bucket_take__clock_that_stands_still_or_goes_back,
		budget_spend__one_host_has_an_eighth,
		budget_spend__another_host_still_has_its_own,
	};
	TCase *tcase = tcase_create("budget");

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	return suite_finish("budget", tcase);
}
