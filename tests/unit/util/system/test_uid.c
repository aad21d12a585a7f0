/* SPDX-License-Identifier: BSD-3-Clause */
/* Users: in a user namespace those without a number there are not. */
#include "util/system/users.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"

#define OVERFLOW 65534u

static int write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	close(fd);
	return n < 0;
}

/* The view of two uids of a child in a user namespace of its own, with this map. */
static int in_namespace(const char *map)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		if (unshare(CLONE_NEWUSER))
			_exit(77);
		if (write_to("/proc/self/uid_map", map))
			_exit(77);
		_exit(ripc__uid_is_user(OVERFLOW) << 1 | ripc__uid_is_user(0));
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return WEXITSTATUS(status);
}

START_TEST(uid_is_user__not_the_overflow_uid_of_a_namespace)
{
	char map[64];
	int said;

	snprintf(map, sizeof(map), "0 %u 1\n", getuid());
	said = in_namespace(map);
	if (said == 77)
		puts("skipped: no user namespaces");
	else
		ck_assert_int_eq(said, 1);
}
END_TEST

START_TEST(uid_is_user__everybody_else_is)
{
	ck_assert(ripc__uid_is_user(0));
	ck_assert(ripc__uid_is_user(getuid()));
	ck_assert(ripc__uid_is_user(OVERFLOW - 1));
	ck_assert(!ripc__uid_is_user((uid_t)-1));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("uid");

	tcase_add_test(tcase, uid_is_user__not_the_overflow_uid_of_a_namespace);
	tcase_add_test(tcase, uid_is_user__everybody_else_is);
	return suite_finish("uid", tcase);
}
