/* SPDX-License-Identifier: BSD-3-Clause */
/* An epoll set with a timer. */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "../../../support/util/process.h"
#include "suite.h"
#include "util/system/sleeper.h"

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Which descriptor is ready; -1: none within that time. */
static int ready(const struct ripc__sleeper *sleeper, int ms)
{
	struct epoll_event event;

	return epoll_wait(sleeper->epoll_fd, &event, 1, ms) == 1 ? event.data.fd : -1;
}

START_TEST(sleeper__watches_and_leaves_nothing)
{
	int before = descriptors_open();
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct ripc__sleeper sleeper;

	ck_assert_int_eq(ripc__sleeper_open(&sleeper, &fd, 1), 0);
	ck_assert_int_eq(ready(&sleeper, 0), -1);
	ck_assert_int_eq(eventfd_write(fd, 1), 0);
	ck_assert_int_eq(ready(&sleeper, 0), fd);
	ripc__sleeper_close(&sleeper);
	close(fd);
	ck_assert_int_eq(descriptors_open(), before);
}
END_TEST

START_TEST(sleeper__timer)
{
	struct ripc__sleeper sleeper;

	ck_assert_int_eq(ripc__sleeper_open(&sleeper, NULL, 0), 0);
	ripc__sleeper_set(&sleeper, now_us() + 1000);
	ck_assert_int_eq(ready(&sleeper, 20000), sleeper.timer_fd);
	ripc__sleeper_set(&sleeper, UINT64_MAX);
	ck_assert_int_eq(ready(&sleeper, 0), -1);
	ripc__sleeper_set_after(&sleeper, 1000);
	ck_assert_int_eq(ready(&sleeper, 20000), sleeper.timer_fd);
	ripc__sleeper_set_after(&sleeper, 0);
	ck_assert_int_eq(ready(&sleeper, 0), -1);
	/* In the past: at once. */
	ripc__sleeper_set(&sleeper, 1);
	ck_assert_int_eq(ready(&sleeper, 20000), sleeper.timer_fd);
	ripc__sleeper_close(&sleeper);
}
END_TEST

/* A descriptor that cannot be watched: nothing is left open. */
START_TEST(sleeper__bad_descriptor)
{
	int before = descriptors_open(), bad = -1;
	struct ripc__sleeper sleeper;

	ck_assert_int_eq(ripc__sleeper_open(&sleeper, &bad, 1), -EBADF);
	ck_assert_int_eq(descriptors_open(), before);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {sleeper__watches_and_leaves_nothing, sleeper__timer,
		sleeper__bad_descriptor, NULL};

	return suite_run("sleeper", tests);
}
