/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shorts N [single]: sends N short messages of 50 B through shared memory from one context to
 * another of the same process, and receives and frees each. To count instructions: of callgrind's
 * counts with 40,000 and with 20,000, the difference divided by 20,000; setting up is not in it.
 *
 *   valgrind --tool=callgrind --callgrind-out-file=/dev/null bench/shorts 40000
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
}

/* One message there; while the two do not know each other, the sender has to be called, too. */
static void exchange(const struct end *from, const struct end *to)
{
	char bytes[50] = "short";
	const struct iovec item = {bytes, sizeof(bytes)};
	struct ripc_msg *msg;
	int error = -EAGAIN;

	check(ripc_send_short(from->svc, ripc_service_id(to->svc), &item, 1), "send");
	for (int i = 0; i < TRIES && error; i++) {
		ripc_poll(from->ctx);
		error = ripc_receive(to->svc, 1, &msg);
	}
	check(error, "receive");
	ripc_msg_free(msg);
}

int main(int argc, char **argv)
{
	uint32_t flags = argc == 3 && strcmp(argv[2], "single") == 0 ? RIPC_SINGLE_THREAD : 0;
	long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	char bytes[50] = "short";
	const struct iovec item = {bytes, sizeof(bytes)};
	struct end from, to;
	struct ripc_msg *msg;
	uint64_t id;

	if (n < 1 || argc > 3 || (argc == 3 && !flags)) {
		fprintf(stderr, "usage: shorts N [single]\n");
		return 2;
	}
	end_open(&from, flags);
	end_open(&to, flags);
	id = ripc_service_id(to.svc);
	for (int i = 0; i < WARM_UP; i++) {
		exchange(&from, &to);
		exchange(&to, &from);
	}
	for (long i = 0; i < n; i++) {
		check(ripc_send_short(from.svc, id, &item, 1), "send");
		check(ripc_receive(to.svc, WAIT_MS, &msg), "receive");
		ripc_msg_free(msg);
	}
	check(ripc_close(from.ctx, 0), "close");
	check(ripc_close(to.ctx, 0), "close");
	return 0;
}
