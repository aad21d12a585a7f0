/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The costs of requests and replies.
 *
 * calls rate BACKEND CLIENTS UNDERWAY SECONDS WHAT
 *     Client processes call one server process, each with so many requests of 100 B under way at
 *     once (of shorts and longs one); prints replies per second of all clients together.
 *
 * calls count N WHAT
 *     In one process, through shared memory, 50 B: N times two shorts, two longs, or a request and
 *     its reply, which is WHAT: shorts, longs, calls or idempotent; prints what each took of the
 *     processor, ns. To count instructions:
 *
 *   valgrind --tool=callgrind --toggle-collect=measured --callgrind-out-file=/dev/null \
 *           bench/micro/calls count 20000 calls
 */
#include <errno.h>
#include <ripc/call.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clients.h"

#define WARM_UP 100
#define WAIT_MS 5000
#define ID      0x63616c6c73000000u /* and the process that runs all */

struct end {
	struct ripc_context *ctx;
	struct ripc_service *svc;
};

static int check(int error, const char *what)
{
	if (error >= 0)
		return error;
	fprintf(stderr, "calls: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static void end_open(struct end *end, const char *backend, uint64_t id)
{
	const struct ripc_config config = {.size = sizeof(config), .backends = backend};

	check(ripc_open(&config, &end->ctx), "open");
	check(ripc_service_open(end->ctx, id, 0, &end->svc), "service");
}

/* ---- counting ---------------------------------------------------------------------------- */

static uint32_t flags;
static bool asks;

/* The next message of a kind; what tells that a long one was delivered may come before it. */
static void take(const struct end *end, enum ripc_kind kind)
{
	struct ripc_msg *msg;

	check(ripc_receive(end->svc, WAIT_MS, &msg), "receive");
	while (msg->kind == RIPC_COMPLETION) {
		ripc_msg_free(msg);
		check(ripc_receive(end->svc, WAIT_MS, &msg), "receive");
	}
	if (msg->kind != kind || msg->status)
		check(-EPROTO, "message");
	if (kind == RIPC_REQUEST)
		check(ripc_reply(end->svc, msg, msg->items, msg->n_items, 0), "reply");
	ripc_msg_free(msg);
}

static void send_one(const struct end *from, const struct end *to)
{
	char bytes[50] = "request";
	const struct iovec item = {bytes, sizeof(bytes)};
	const struct ripc_send send = {.size = sizeof(send), .to = ripc_service_id(to->svc),
		.items = &item, .n_items = 1, .flags = flags};

	check(ripc_sendmsg(from->svc, &send, NULL), "send");
	take(to, flags ? RIPC_LONG : RIPC_SHORT);
}

static void ask_one(const struct end *from, const struct end *to)
{
	char bytes[50] = "request";
	const struct iovec item = {bytes, sizeof(bytes)};
	const struct ripc_request ask = {.size = sizeof(ask), .to = ripc_service_id(to->svc),
		.items = &item, .n_items = 1, .flags = flags, .timeout_ms = WAIT_MS};

	check(ripc_call_start(from->svc, &ask), "call");
	take(to, RIPC_REQUEST);
	take(from, RIPC_REPLY);
}

/* The counted part. */
__attribute__((noinline)) void measured(const struct end *from, const struct end *to, long n);

void measured(const struct end *from, const struct end *to, long n)
{
	for (long i = 0; i < n; i++) {
		if (asks) {
			ask_one(from, to);
			continue;
		}
		send_one(from, to);
		send_one(to, from);
	}
}

static void choose(const char *what)
{
	asks = strcmp(what, "calls") == 0 || strcmp(what, "idempotent") == 0;
	flags = strcmp(what, "longs") == 0 ? RIPC_SEND_LONG | RIPC_NOWAIT :
		strcmp(what, "idempotent") == 0 ? RIPC_IDEMPOTENT : 0;
}

static double processor_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int count(long n, const char *what)
{
	struct end from, to;
	double began_ns;

	choose(what);
	end_open(&from, "shm", 0);
	end_open(&to, "shm", 0);
	check(ripc_resolve(from.ctx, ripc_service_id(to.svc), WAIT_MS), "resolve");
	check(ripc_resolve(to.ctx, ripc_service_id(from.svc), WAIT_MS), "resolve");
	for (int i = 0; i < WARM_UP; i++) {
		uint32_t were = flags;

		flags = asks ? 0 : RIPC_SEND_LONG | RIPC_NOWAIT;
		measured(&from, &to, 1);
		flags = were;
	}
	began_ns = processor_ns();
	measured(&from, &to, n);
	printf("%.0f\n", (processor_ns() - began_ns) / (double)n);
	check(ripc_close(from.ctx, 0), "close");
	check(ripc_close(to.ctx, 0), "close");
	return 0;
}

/* ---- rates ------------------------------------------------------------------------------- */

static uint64_t server_id;

/* Messages in progress stay untouched: the items are not those of the message. */
static void send_back(const struct end *end, const struct ripc_msg *msg)
{
	static char bytes[CLIENTS_BYTES] = "reply";
	const struct iovec item = {bytes, sizeof(bytes)};
	const struct ripc_send send = {.size = sizeof(send), .to = msg->from, .items = &item,
		.n_items = 1, .flags = msg->kind == RIPC_LONG ? RIPC_SEND_LONG | RIPC_NOWAIT : 0};

	check(ripc_sendmsg(end->svc, &send, NULL), "send");
}

static void serve(struct board *board, const char *backend)
{
	struct ripc_msg *msg;
	struct end end;

	end_open(&end, backend, server_id);
	clients_ready(board);
	while (ripc_receive(end.svc, -1, &msg) == 0) {
		if (msg->kind == RIPC_REQUEST)
			(void)ripc_reply(end.svc, msg, msg->items, msg->n_items, 0);
		else if (msg->kind != RIPC_COMPLETION)
			send_back(&end, msg);
		ripc_msg_free(msg);
	}
}

/* Without calls: a message there and one back. */
static void exchange_all(const struct end *end, volatile unsigned long *answers)
{
	char bytes[CLIENTS_BYTES] = "request";
	const struct iovec item = {bytes, sizeof(bytes)};
	const struct ripc_send send = {.size = sizeof(send), .to = server_id, .items = &item,
		.n_items = 1, .flags = flags};

	for (;; ++*answers) {
		check(ripc_sendmsg(end->svc, &send, NULL), "send");
		take(end, flags ? RIPC_LONG : RIPC_SHORT);
	}
}

static void ask_one_by_one(const struct end *end, const struct ripc_request *ask,
		volatile unsigned long *answers)
{
	for (;; ++*answers) {
		struct ripc_msg *msg;

		check(ripc_call(end->svc, ask, &msg, NULL), "call");
		ripc_msg_free(msg);
	}
}

static void ask_several(const struct end *end, const struct ripc_request *ask,
		volatile unsigned long *answers, int underway)
{
	for (int i = 0; i < underway; i++)
		check(ripc_call_start(end->svc, ask), "call");
	for (;; ++*answers) {
		struct ripc_msg *msg;

		check(ripc_receive(end->svc, WAIT_MS, &msg), "receive");
		if (msg->kind != RIPC_REPLY || msg->status)
			check(msg->status ? msg->status : -EPROTO, "reply");
		check(ripc_call_start(end->svc, ask), "call");
		ripc_msg_free(msg);
	}
}

static void client(struct board *board, const char *backend, int me, int underway)
{
	char bytes[CLIENTS_BYTES] = "request";
	const struct iovec item = {bytes, sizeof(bytes)};
	const struct ripc_request ask = {.size = sizeof(ask), .to = server_id, .items = &item,
		.n_items = 1, .flags = flags, .timeout_ms = WAIT_MS};
	struct end end;

	end_open(&end, backend, 0);
	check(ripc_resolve(end.ctx, server_id, WAIT_MS), "resolve");
	clients_await(board);
	if (!asks)
		exchange_all(&end, &board->answers[me].n);
	else if (underway == 1)
		ask_one_by_one(&end, &ask, &board->answers[me].n);
	else
		ask_several(&end, &ask, &board->answers[me].n, underway);
}

int main(int argc, char **argv)
{
	static const struct library library = {serve, client};
	int status;

	server_id = ID + (uint64_t)getpid();
	if (argc == 4 && strcmp(argv[1], "count") == 0 && atol(argv[2]) > 0)
		return count(atol(argv[2]), argv[3]);
	if (argc == 7 && strcmp(argv[1], "rate") == 0) {
		choose(argv[6]);
		if (clients_main(&library, argv + 2, &status))
			return status;
	}
	fprintf(stderr, "usage: calls rate BACKEND CLIENTS UNDERWAY SECONDS WHAT\n"
		"       calls count N WHAT\n"
		"       WHAT: shorts, longs, calls or idempotent\n");
	return 2;
}
