/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of tools/common.c: what a command line may say, and the statistics.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <ripc/ripc.h>
#include "../../../tools/common.h"

START_TEST(tool_parse_number__forms)
{
	uint64_t value = 7;

	ck_assert_int_eq(tool_parse_number("0", 0, 9, &value), 0);
	ck_assert_uint_eq(value, 0);
	ck_assert_int_eq(tool_parse_number("0x1F", 0, 100, &value), 0);
	ck_assert_uint_eq(value, 31);
	ck_assert_int_eq(tool_parse_number("18446744073709551615", 0, UINT64_MAX, &value), 0);
	ck_assert_uint_eq(value, UINT64_MAX);
	ck_assert_int_eq(tool_parse_number("18446744073709551616", 0, UINT64_MAX, &value), -ERANGE);
	ck_assert_int_eq(tool_parse_number("5", 6, 9, &value), -ERANGE);
	ck_assert_int_eq(tool_parse_number("-5", 0, UINT64_MAX, &value), -EINVAL);
	ck_assert_int_eq(tool_parse_number(" 5", 0, 9, &value), -EINVAL);
	ck_assert_int_eq(tool_parse_number("5x", 0, 9, &value), -EINVAL);
	ck_assert_int_eq(tool_parse_number("0x", 0, 9, &value), -EINVAL);
	ck_assert_int_eq(tool_parse_number("", 0, 9, &value), -EINVAL);
	ck_assert_uint_eq(value, UINT64_MAX);
}
END_TEST

START_TEST(tool_parse_bytes__suffixes)
{
	uint64_t value = 7;

	ck_assert_int_eq(tool_parse_bytes("50", &value), 0);
	ck_assert_uint_eq(value, 50);
	ck_assert_int_eq(tool_parse_bytes("64K", &value), 0);
	ck_assert_uint_eq(value, 65536);
	ck_assert_int_eq(tool_parse_bytes("80M", &value), 0);
	ck_assert_uint_eq(value, 80u << 20);
	ck_assert_int_eq(tool_parse_bytes("3G", &value), 0);
	ck_assert_uint_eq(value, 3ull << 30);
	ck_assert_int_eq(tool_parse_bytes("3T", &value), -EINVAL);
	ck_assert_int_eq(tool_parse_bytes("3KB", &value), -EINVAL);
	ck_assert_int_eq(tool_parse_bytes("K", &value), -EINVAL);
	ck_assert_int_eq(tool_parse_bytes("18446744073709551615K", &value), -ERANGE);
	ck_assert_uint_eq(value, 3ull << 30);
}
END_TEST

START_TEST(tool_parse_sizes__lists)
{
	uint64_t sizes[3];

	ck_assert_int_eq(tool_parse_sizes("1,2K,3", sizes, 3), 3);
	ck_assert_uint_eq(sizes[1], 2048);
	ck_assert_int_eq(tool_parse_sizes("1,2,3,4", sizes, 3), -E2BIG);
	ck_assert_int_eq(tool_parse_sizes("", sizes, 3), -EINVAL);
	ck_assert_int_eq(tool_parse_sizes("1,x", sizes, 3), -EINVAL);
}
END_TEST

START_TEST(tool_parse_service__numbers_and_names)
{
	uint64_t id = 7;

	ck_assert_int_eq(tool_parse_service("123", &id), 0);
	ck_assert_uint_eq(id, 123);
	ck_assert_int_eq(tool_parse_service("0xff", &id), 0);
	ck_assert_uint_eq(id, 255);
	ck_assert_int_eq(tool_parse_service("files", &id), 0);
	ck_assert_uint_eq(id, ripc_id_from_name("files"));
	ck_assert_int_eq(tool_parse_service("2nd", &id), 0);
	ck_assert_uint_eq(id, ripc_id_from_name("2nd"));
	ck_assert_int_eq(tool_parse_service("0", &id), -EINVAL);
	ck_assert_int_eq(tool_parse_service("", &id), -EINVAL);
	ck_assert_int_eq(tool_parse_service("99999999999999999999", &id), -EINVAL);
}
END_TEST

START_TEST(tool_percentile__ranks)
{
	double values[] = {5, 1, 4, 2, 3};

	tool_sort(values, 5);
	ck_assert_double_eq(tool_median(values, 5), 3);
	ck_assert_double_eq(tool_median(values, 4), 2.5);
	ck_assert_double_eq(tool_median(values, 0), 0);
	ck_assert_double_eq(tool_percentile(values, 5, 0), 1);
	ck_assert_double_eq(tool_percentile(values, 5, 0.2), 1);
	ck_assert_double_eq(tool_percentile(values, 5, 0.21), 2);
	ck_assert_double_eq(tool_percentile(values, 5, 0.99), 5);
	ck_assert_double_eq(tool_percentile(values, 5, 1), 5);
	ck_assert_double_eq(tool_percentile(values, 0, 0.5), 0);
}
END_TEST

START_TEST(tool_json_string__escapes)
{
	char text[64] = "";
	FILE *stream = fmemopen(text, sizeof(text), "w");

	ck_assert_ptr_nonnull(stream);
	tool_json_string(stream, "a\"b\\c\nd");
	fclose(stream);
	ck_assert_str_eq(text, "\"a\\\"b\\\\c\\u000ad\"");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("common");
	TCase *tcase = tcase_create("common");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(tcase, tool_parse_number__forms);
	tcase_add_test(tcase, tool_parse_bytes__suffixes);
	tcase_add_test(tcase, tool_parse_sizes__lists);
	tcase_add_test(tcase, tool_parse_service__numbers_and_names);
	tcase_add_test(tcase, tool_percentile__ranks);
	tcase_add_test(tcase, tool_json_string__escapes);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
