/* SPDX-License-Identifier: BSD-3-Clause */
/* Resources of this process, for tests that compare them before and after. */
#ifndef TEST_PROCESS_H
#define TEST_PROCESS_H

#include <check.h>
#include <dirent.h>
#include <sys/resource.h>

/* How many entries a directory has, "." and ".." not counted. */
static inline int entries_counted(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2;
}

static inline int descriptors_open(void)
{
	return entries_counted("/proc/self/fd") - 1; /* the one that it was counted with */
}

/* Allows so many descriptors from now on; returns how many were allowed. */
static inline rlim_t descriptors_limit(rlim_t n)
{
	struct rlimit limit = {0};
	rlim_t before;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	before = limit.rlim_cur;
	limit.rlim_cur = n;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return before;
}

/*
 * Allows files of this length from now on; returns what length was allowed. Check writes a file for
 * each assertion: there is none until more is allowed again.
 */
static inline rlim_t file_limit(rlim_t len)
{
	struct rlimit limit = {0};
	rlim_t before;

	getrlimit(RLIMIT_FSIZE, &limit);
	before = limit.rlim_cur;
	limit.rlim_cur = len;
	setrlimit(RLIMIT_FSIZE, &limit);
	return before;
}

/* Allows as many as may be; returns how many that is. For main(): outside of Check's tests. */
static inline rlim_t descriptors_allow(void)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur;
}

static inline int threads_running(void)
{
	return entries_counted("/proc/self/task");
}

#endif
