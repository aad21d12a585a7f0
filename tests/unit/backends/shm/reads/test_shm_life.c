/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether who has mapped what it was given is taken for alive: by another process and its children,
 * and within one process.
 */
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/shm/internal.h"
#include "suite.h"
#include "util/system/locks.h"

#define PATIENCE_MS 20000

static void *page;
static int page_fd;

static void set_up(void)
{
	ck_assert_int_eq(ripc__shm_segment_make(SHM_CLAIMS_LEN, false, &page, &page_fd), 0);
}

static void tear_down(void)
{
	ripc__shm_segment_unmap(page, SHM_CLAIMS_LEN);
	close(page_fd);
}

/* Pledges its life, and leaves a child, which lives until its pipe ends. */
static void pledge_and_fork(int said, int life)
{
	struct pollfd poller = {.fd = life};

	if (ripc__pledge(page_fd, RIPC__PLEDGE_FIRST) || write(said, "p", 1) != 1)
		_exit(1);
	if (fork() == 0) {
		if (write(said, "c", 1) != 1)
			_exit(1);
		poll(&poller, 1, PATIENCE_MS);
		_exit(0);
	}
	poll(&poller, 1, PATIENCE_MS);
	_exit(0);
}

START_TEST(life_pledged__ends_with_the_process_not_with_its_child)
{
	int said[2], life[2];
	char byte;
	pid_t child;

	ck_assert_int_eq(pipe(said), 0);
	ck_assert_int_eq(pipe(life), 0);
	ck_assert(!ripc__is_pledged(page_fd, RIPC__PLEDGE_FIRST));
	child = fork();
	if (child == 0) {
		close(life[1]);
		pledge_and_fork(said[1], life[0]);
	}
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(read(said[0], &byte, 1), 1);
	ck_assert(ripc__is_pledged(page_fd, RIPC__PLEDGE_FIRST));
	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	ck_assert(!ripc__is_pledged(page_fd, RIPC__PLEDGE_FIRST));
	close(life[1]);
	close(said[0]);
}
END_TEST

/* Its own pledges a process cannot see. */
START_TEST(life_pledged__not_by_ourselves)
{
	ck_assert_int_eq(ripc__pledge(page_fd, RIPC__PLEDGE_FIRST), 0);
	ck_assert(!ripc__is_pledged(page_fd, RIPC__PLEDGE_FIRST));
}
END_TEST

/* A process cannot pledge for another's memory, either. */
START_TEST(life_pledge__of_two)
{
	int said[2], status;
	char byte;
	pid_t child;

	ck_assert_int_eq(pipe(said), 0);
	child = fork();
	if (child == 0) {
		if (ripc__pledge(page_fd, RIPC__PLEDGE_FIRST) || write(said[1], "p", 1) != 1)
			_exit(1);
		pause();
	}
	ck_assert_int_eq(read(said[0], &byte, 1), 1);
	ck_assert_int_lt(ripc__pledge(page_fd, RIPC__PLEDGE_FIRST), 0);
	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(ripc__pledge(page_fd, RIPC__PLEDGE_FIRST), 0);
	close(said[0]);
	close(said[1]);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		life_pledged__ends_with_the_process_not_with_its_child,
		life_pledged__not_by_ourselves,
		life_pledge__of_two,
		NULL,
	};
	TCase *tcase = tcase_create("shm_life");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	for (int i = 0; tests[i]; i++)
		tcase_add_test(tcase, tests[i]);
	return suite_finish("shm_life", tcase);
}
