/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads whose first dealings with libfabric are at once, each with a context of its own. Each
 * case is a process of its own that has not called libfabric before. Over EFA: on softefa.
 */
#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ripc/ripc.h"
#include "suite.h"

#define THREADS 8
#define TURNS   40

static void *open_and_close(void *arg)
{
	const struct ripc_config config = {.size = sizeof(config), .backends = "ofi"};
	struct ripc_context *ctx;
	intptr_t error;

	(void)arg;
	error = ripc_open(&config, &ctx);
	if (!error)
		error = ripc_close(ctx, 1000);
	return (void *)error;
}

START_TEST(open__by_many_threads)
{
	pthread_t threads[THREADS];
	void *error;

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, open_and_close, NULL), 0);
	for (int i = 0; i < THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &error), 0);
		ck_assert_int_eq((intptr_t)error, 0);
	}
}
END_TEST

/* Has libfabric the EFA provider (Debian's for i386 has not), and is there a device? */
static bool is_there(void)
{
	struct ripc_config config = {.size = sizeof(config), .backends = "ofi"};
	struct ripc_context *ctx;
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(ripc_open(&config, &ctx) == 0);
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

int main(void)
{
	const struct suite_loop tests[] = {
		{open__by_many_threads, TURNS},
		{NULL, 0},
	};

	if (!is_there()) {
		printf("skipped: no context over libfabric's EFA provider can be opened here\n");
		return 77;
	}
	return suite_run_loops("ofi_crowd", tests);
}
