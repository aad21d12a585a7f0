/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of users and groups: what a file of accounts says of them, also one that is damaged. */
#include "util/system/users.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "suite.h"

static char path[] = "/tmp/accountsXXXXXX";

static void set_up(void)
{
	static const char lines[] =
		"#comment:x:1:\n"
		"\n"
		"web:x:33:\n"
		"short:x\n"
		"letters:x:3a:\n"
		"minus:x:-1:\n"
		"none:x:4294967295:\n"
		"empty:x::\n"
		"twice:x:5:\n"
		"twice:x:6:\n"
		":x:7:\n"
		"last:*:4294967294:a,b";
	FILE *file = fdopen(mkstemp(path), "w");

	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(lines, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static void tear_down(void)
{
	unlink(path);
}

START_TEST(account_find__by_name)
{
	uint32_t number = 99;

	ck_assert_int_eq(ripc__account_find(path, "web", &number), 0);
	ck_assert_uint_eq(number, 33);
	ck_assert_int_eq(ripc__account_find(path, "twice", &number), 0);
	ck_assert_uint_eq(number, 5);
	ck_assert_int_eq(ripc__account_find(path, "last", &number), 0);
	ck_assert_uint_eq(number, UINT32_MAX - 1);
	ck_assert_int_eq(ripc__account_find(RIPC_USERS, "root", &number), 0);
	ck_assert_uint_eq(number, 0);
	ck_assert_int_eq(ripc__account_find(RIPC_GROUPS, "root", &number), 0);
	ck_assert_uint_eq(number, 0);
}
END_TEST

START_TEST(account_find__nothing)
{
	static const char *const names[] = {"", "we", "webs", "short", "letters", "minus", "none",
		"empty", "x", "web:x", "a"};
	uint32_t number = 99;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		ck_assert_int_eq(ripc__account_find(path, names[i], &number), -ENOENT);
	ck_assert_int_eq(ripc__account_find("/nowhere/group", "web", &number), -ENOENT);
	ck_assert_int_eq(ripc__account_find("/tmp/", "web", &number), -ENOENT);
	ck_assert_uint_eq(number, 99);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {account_find__by_name, account_find__nothing, NULL};

	return suite_run_between("accounts", tests, set_up, tear_down);
}
