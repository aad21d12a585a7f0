/* SPDX-License-Identifier: BSD-3-Clause */
/* Words of a configuration: what is taken and what is refused. */
#include <errno.h>

#include "suite.h"
#include "util/text.h"

START_TEST(parse_number__takes_numbers)
{
	static const struct {
		const char *text;
		uint32_t number;
	} cases[] = {{"0", 0}, {"7", 7}, {"0065", 65}, {"1000", 1000}, {NULL, 5}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t value = 5;

		ck_assert_int_eq(ripc__parse_number(cases[i].text, 1000, &value), 0);
		ck_assert_uint_eq(value, cases[i].number);
	}
}
END_TEST

START_TEST(parse_number__refuses_the_rest)
{
	static const char *const cases[] = {"", " 1", "1 ", "-1", "+1", "1001", "1k", "0x10", "on",
		"4294967297", "99999999999999999999999"};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t value = 5;

		ck_assert_int_eq(ripc__parse_number(cases[i], 1000, &value), -EINVAL);
		ck_assert_uint_eq(value, 5);
	}
}
END_TEST

START_TEST(parse_switch__takes_on_and_off)
{
	static const char *const on[] = {"on", "yes", "true", "1"};
	static const char *const off[] = {"off", "no", "false", "0"};
	static const char *const neither[] = {"", "On", "on ", "2", "01", "y", "falsely"};
	bool value = false;

	for (size_t i = 0; i < 4; i++) {
		ck_assert_int_eq(ripc__parse_switch(on[i], &value), 0);
		ck_assert(value);
		ck_assert_int_eq(ripc__parse_switch(NULL, &value), 0);
		ck_assert(value);
		ck_assert_int_eq(ripc__parse_switch(off[i], &value), 0);
		ck_assert(!value);
	}
	for (size_t i = 0; i < sizeof(neither) / sizeof(neither[0]); i++) {
		value = i % 2;
		ck_assert_int_eq(ripc__parse_switch(neither[i], &value), -EINVAL);
		ck_assert(value == i % 2);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		parse_number__takes_numbers,
		parse_number__refuses_the_rest,
		parse_switch__takes_on_and_off,
		NULL,
	};

	return suite_run("parse", tests);
}
