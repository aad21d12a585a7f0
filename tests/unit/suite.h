/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by all unit tests: running a suite, and a repeatable source of numbers. */
#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stdint.h>
#include <stdlib.h>

/* A test that runs n times, with _i from 0 to n - 1. */
struct suite_loop {
	const TTest *test;
	size_t n;
};

/* Runs all of tcase, alone in a suite. Returns the exit status of the program. */
static inline int suite_finish(const char *name, TCase *tcase)
{
	Suite *suite = suite_create(name);
	SRunner *runner;
	int failed;

	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Runs the tests of a list that ends with NULL. */
static inline int suite_run(const char *name, const TTest *const *tests)
{
	TCase *tcase = tcase_create(name);

	for (; *tests; tests++)
		tcase_add_test(tcase, *tests);
	return suite_finish(name, tcase);
}

/* The same, between set_up and tear_down, which run with each test, in its process. */
static inline int suite_run_between(const char *name, const TTest *const *tests,
		SFun set_up, SFun tear_down)
{
	TCase *tcase = tcase_create(name);

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	for (; *tests; tests++)
		tcase_add_test(tcase, *tests);
	return suite_finish(name, tcase);
}

static inline int suite_run_loops(const char *name, const struct suite_loop *loops)
{
	TCase *tcase = tcase_create(name);

	for (; loops->test; loops++)
		tcase_add_loop_test(tcase, loops->test, 0, (int)loops->n);
	return suite_finish(name, tcase);
}

/* SplitMix64 (Steele, Lea and Flood, 2014). */
static inline uint64_t suite_random(uint64_t *state)
{
	uint64_t value = *state += 0x9e3779b97f4a7c15;

	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
	value = (value ^ value >> 27) * 0x94d049bb133111eb;
	return value ^ value >> 31;
}

#endif
