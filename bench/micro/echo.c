/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Round trips of long messages that both ends send on as they have received them: the item of the
 * message, in the pool, goes back. Two processes on this host.
 *
 * usage: echo [BACKEND [SIZE [ROUNDS]]]   prints the median round trip in microseconds
 */
#include <inttypes.h>
#include <ripc/ripc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP    20
#define TIMEOUT_MS 10000

static void must(int error, const char *what)
{
	if (error >= 0)
		return;
	fprintf(stderr, "echo: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static struct ripc_service *open_service(const char *backend, struct ripc_context **ctx)
{
	struct ripc_config cfg = {.size = sizeof(cfg), .backends = backend, .interfaces = "lo"};
	struct ripc_service *svc;

	must(ripc_open(&cfg, ctx), "open");
	must(ripc_service_open(*ctx, 0, 0, &svc), "service");
	return svc;
}

/* Sends what was received back to where it came from. */
static void send_back(struct ripc_service *svc, struct ripc_msg *msg)
{
	must(ripc_send_long(svc, msg->from, msg->items, msg->n_items, TIMEOUT_MS), "send");
	ripc_msg_free(msg);
}

static void serve(const char *backend, int id_fd)
{
	struct ripc_context *ctx;
	struct ripc_service *svc = open_service(backend, &ctx);
	uint64_t id = ripc_service_id(svc);
	struct ripc_msg *msg;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(id_fd, &id, sizeof(id)) != sizeof(id))
		exit(1);
	while (ripc_receive(svc, -1, &msg) == 0)
		send_back(svc, msg);
}

static uint64_t now_ns(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static int by_time(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void measure(const char *backend, uint64_t to, size_t size, uint64_t *times, size_t rounds)
{
	struct ripc_context *ctx;
	struct ripc_service *svc = open_service(backend, &ctx);
	struct iovec item = {.iov_len = size};
	struct ripc_msg *msg;

	must(ripc_buf_alloc(ctx, size, &item.iov_base), "memory");
	memset(item.iov_base, 1, size);
	must(ripc_send_long(svc, to, &item, 1, TIMEOUT_MS), "first send");
	must(ripc_receive(svc, TIMEOUT_MS, &msg), "first receive");
	for (size_t i = 0; i < rounds + WARM_UP; i++) {
		uint64_t began = now_ns();

		send_back(svc, msg);
		must(ripc_receive(svc, TIMEOUT_MS, &msg), "receive");
		if (i >= WARM_UP)
			times[i - WARM_UP] = now_ns() - began;
	}
	ripc_msg_free(msg);
	ripc_buf_free(ctx, item.iov_base);
	ripc_close(ctx, 0);
}

int main(int argc, char **argv)
{
	const char *backend = argc > 1 ? argv[1] : "shm";
	size_t size = argc > 2 ? strtoul(argv[2], NULL, 0) : 1 << 20;
	size_t rounds = argc > 3 ? strtoul(argv[3], NULL, 0) : 300;
	uint64_t *times = calloc(rounds + 1, sizeof(*times)), id;
	int ends[2];
	pid_t server;

	if (!times || pipe(ends))
		return 1;
	server = fork();
	if (server == 0) {
		serve(backend, ends[1]);
		return 1;
	}
	if (server < 0 || read(ends[0], &id, sizeof(id)) != sizeof(id))
		return 1;
	measure(backend, id, size, times, rounds);
	qsort(times, rounds, sizeof(*times), by_time);
	printf("%s, %zu bytes, sent on as received: median %.1f us, p10 %.1f\n", backend, size,
		(double)times[rounds / 2] / 1e3, (double)times[rounds / 10] / 1e3);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	free(times);
	return 0;
}
