/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many processes that do one thing at once, for the tests of who finds whom. Knows nothing but
 * ripc.h. Says what came of it as one line of JSON.
 *
 *   crowd clients N ID     each opens a context and sends one long message to ID
 *   crowd services N ID    each registers ID + i, spread over two seconds, and stays until all have
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ripc/ripc.h"

#define TIMEOUT_MS 20000
#define SPREAD_US  2000000u
#define CROWD_MAX  20000

struct result {
	int error;
	uint32_t us;
};

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static int send_one(uint64_t to)
{
	struct iovec item = {"hello", 5};
	struct ripc_service *service;
	struct ripc_context *ctx;
	int error = ripc_open(NULL, &ctx);

	error = error ? error : ripc_service_open(ctx, 0, 0, &service);
	return error ? error : ripc_send_long(service, to, &item, 1, TIMEOUT_MS);
}

/* The context stays open: others must find it alive. */
static int register_one(uint64_t id)
{
	struct ripc_service *service;
	struct ripc_context *ctx;
	int error = ripc_open(NULL, &ctx);

	return error ? error : ripc_service_open(ctx, id, 0, &service);
}

/* One of the crowd: waits until all are there, does its thing, tells, and waits for the end. */
static void one(char what, uint64_t id, uint32_t delay_us, const int go[2], const int told[2])
{
	struct result result;
	uint64_t start_us;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(go[1]);
	if (read(go[0], &byte, 1) < 0)
		_exit(1);
	usleep(delay_us);
	start_us = now_us();
	result.error = what == 'c' ? send_one(id) : register_one(id);
	result.us = (uint32_t)(now_us() - start_us);
	if (write(told[1], &result, sizeof(result)) != sizeof(result))
		_exit(1);
	pause();
	_exit(0);
}

static int by_time(const void *a, const void *b)
{
	const struct result *x = a, *y = b;

	return (x->us > y->us) - (x->us < y->us);
}

static void print(struct result *results, uint32_t n)
{
	uint32_t nobody = 0, late = 0, other = 0;

	for (uint32_t i = 0; i < n; i++) {
		nobody += results[i].error == -ENOENT;
		late += results[i].error == -ETIMEDOUT;
		other += results[i].error && results[i].error != -ENOENT &&
			results[i].error != -ETIMEDOUT;
	}
	qsort(results, n, sizeof(*results), by_time);
	printf("{\"n\": %u, \"nobody\": %u, \"late\": %u, \"other\": %u, \"median_ms\": %.1f, "
		"\"max_ms\": %.1f}\n", n, nobody, late, other, results[n / 2].us / 1e3,
		results[n - 1].us / 1e3);
	fflush(stdout);
}

static int crowd(char what, uint32_t n, uint64_t id)
{
	struct result *results = calloc(n, sizeof(*results));
	pid_t *children = calloc(n, sizeof(*children));
	int go[2], told[2];

	if (!results || !children || pipe(go) || pipe(told))
		return 1;
	for (uint32_t i = 0; i < n; i++) {
		children[i] = fork();
		if (children[i] == 0)
			one(what, what == 'c' ? id : id + i,
				what == 'c' ? 0 : i * (SPREAD_US / n), go, told);
		if (children[i] < 0)
			return 1;
	}
	close(go[0]);
	close(go[1]);
	for (uint32_t i = 0; i < n; i++) {
		if (read(told[0], &results[i], sizeof(*results)) != sizeof(*results))
			return 1;
	}
	print(results, n);
	for (uint32_t i = 0; i < n; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	uint32_t n = argc == 4 ? (uint32_t)strtoul(argv[2], NULL, 0) : 0;
	uint64_t id = argc == 4 ? strtoull(argv[3], NULL, 0) : 0;

	if (!n || n > CROWD_MAX || !id || !strchr("cs", argv[1][0])) {
		fprintf(stderr, "usage: crowd clients|services N ID\n");
		return 1;
	}
	return crowd(argv[1][0], n, id);
}
