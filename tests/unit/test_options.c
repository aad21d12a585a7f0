/* SPDX-License-Identifier: BSD-3-Clause */
/* Options: what is taken and what is refused in words. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/backend.h"
#include "suite.h"
#include "util/options.h"

static char logged[256];

static void keep_line(void *arg, int level, const char *format, ...)
{
	va_list args;

	(void)arg;
	(void)level;
	va_start(args, format);
	vsnprintf(logged, sizeof(logged), format, args);
	va_end(args);
}

/* arg is the value of the option "x.y". */
static const char *get(void *arg, const char *name)
{
	return strcmp(name, "x.y") == 0 ? arg : NULL;
}

static struct ripc__host host_with(const char *value)
{
	logged[0] = '\0';
	return (struct ripc__host){.arg = (void *)value, .log = keep_line, .option = get};
}

START_TEST(option_number__takes_numbers)
{
	static const struct {
		const char *text;
		uint32_t number;
	} cases[] = {{"0", 0}, {"7", 7}, {"0065", 65}, {"1000", 1000}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ripc__host host = host_with(cases[i].text);
		uint32_t value = 5;

		ck_assert_int_eq(ripc__option_number(&host, "x.y", 1000, &value), 0);
		ck_assert_uint_eq(value, cases[i].number);
		ck_assert_str_eq(logged, "");
	}
}
END_TEST

START_TEST(option_number__refuses_the_rest)
{
	static const char *const cases[] = {"", " 1", "-1", "+1", "1001", "1k", "0x10", "on",
		"4294967297", "99999999999999999999999"};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ripc__host host = host_with(cases[i]);
		uint32_t value = 5;

		ck_assert_int_eq(ripc__option_number(&host, "x.y", 1000, &value), -EINVAL);
		ck_assert_uint_eq(value, 5);
		ck_assert_ptr_nonnull(strstr(logged, "x.y"));
	}
}
END_TEST

START_TEST(option_switch__takes_on_and_off)
{
	struct ripc__host host = host_with("on");
	bool value = false;

	ck_assert_int_eq(ripc__option_switch(&host, "x.y", &value), 0);
	ck_assert(value);
	host = host_with("off");
	ck_assert_int_eq(ripc__option_switch(&host, "x.y", &value), 0);
	ck_assert(!value);
	host = host_with("yes");
	ck_assert_int_eq(ripc__option_switch(&host, "x.y", &value), -EINVAL);
	ck_assert(!value);
	ck_assert_ptr_nonnull(strstr(logged, "x.y"));
}
END_TEST

START_TEST(option__unset_is_the_default)
{
	struct ripc__host host = host_with("1");
	uint32_t number = 5;
	bool on = true;

	ck_assert_int_eq(ripc__option_number(&host, "other", 9, &number), 0);
	ck_assert_int_eq(ripc__option_switch(&host, "other", &on), 0);
	host.option = NULL;
	ck_assert_int_eq(ripc__option_number(&host, "x.y", 9, &number), 0);
	ck_assert_uint_eq(number, 5);
	ck_assert(on);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		option_number__takes_numbers,
		option_number__refuses_the_rest,
		option_switch__takes_on_and_off,
		option__unset_is_the_default,
		NULL,
	};

	return suite_run("options", tests);
}
