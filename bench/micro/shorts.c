/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shorts N [single]: sends N short messages of 50 B through shared memory from one context to
 * another of the same process, and receives and frees each. Used for counting instructions; the
 * setup is not counted:
 *
 *   valgrind --tool=callgrind --toggle-collect=measured --callgrind-out-file=/dev/null \
 *           bench/micro/shorts 20000
 *
 * single: with RIPC_SINGLE_THREAD, without locks.
 */
#include <errno.h>
#include <ripc/ripc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP 100
#define WAIT_MS 1000
#define TRIES   1000

struct end {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t id;
};

static void check(int error, const char *what)
{
	if (error >= 0)
		return;
	fprintf(stderr, "shorts: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static void end_open(struct end *end, uint32_t flags)
{
	const struct ripc_config config = {.size = sizeof(config), .backends = "shm",
		.flags = flags, .spin_us = 100};

	check(ripc_open(&config, &end->ctx), "open");
	check(ripc_service_open(end->ctx, 0, 0, &end->svc), "service");
	end->id = ripc_service_id(end->svc);
}

/* One message there; while the two do not know each other, the sender has to be called, too. */
static void exchange(const struct end *from, const struct end *to)
{
	char bytes[50] = "short";
	const struct iovec item = {bytes, sizeof(bytes)};
	struct ripc_msg *msg;
	int error = -EAGAIN;

	check(ripc_send_short(from->svc, to->id, &item, 1), "send");
	for (int i = 0; i < TRIES && error; i++) {
		ripc_poll(from->ctx);
		error = ripc_receive(to->svc, 1, &msg);
	}
	check(error, "receive");
	ripc_msg_free(msg);
}

/* The counted part. */
__attribute__((noinline)) void measured(const struct end *from, const struct end *to, long n);

void measured(const struct end *from, const struct end *to, long n)
{
	char bytes[50] = "short";
	const struct iovec item = {bytes, sizeof(bytes)};
	struct ripc_msg *msg;

	for (long i = 0; i < n; i++) {
		check(ripc_send_short(from->svc, to->id, &item, 1), "send");
		check(ripc_receive(to->svc, WAIT_MS, &msg), "receive");
		ripc_msg_free(msg);
	}
}

int main(int argc, char **argv)
{
	uint32_t flags = argc == 3 && strcmp(argv[2], "single") == 0 ? RIPC_SINGLE_THREAD : 0;
	long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	struct end from, to;

	if (n < 1 || argc > 3 || (argc == 3 && !flags)) {
		fprintf(stderr, "usage: shorts N [single]\n");
		return 2;
	}
	end_open(&from, flags);
	end_open(&to, flags);
	for (int i = 0; i < WARM_UP; i++) {
		exchange(&from, &to);
		exchange(&to, &from);
	}
	measured(&from, &to, n);
	check(ripc_close(from.ctx, 0), "close");
	check(ripc_close(to.ctx, 0), "close");
	return 0;
}
