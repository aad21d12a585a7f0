/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What questions and answers cost.
 *
 * calls rate BACKEND CLIENTS UNDERWAY SECONDS WHAT
 *     Client processes ask one server process, each with so many questions of 100 B under way at
 *     once (of shorts and longs one); prints answers per second of all clients together.
 *
 * calls count N WHAT
 *     In one process, through shared memory, 50 B: N times two shorts, two longs, or a question and
 *     its answer, which is WHAT: shorts, longs, calls or idempotent. To count instructions:
 *
 *   valgrind --tool=callgrind --toggle-collect=measured --callgrind-out-file=/dev/null \
 *           bench/calls count 20000 calls
 */
#include <errno.h>
#include <ripc/call.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP     100
#define WAIT_MS     5000
#define CLIENTS_MAX 64
#define ID          0x63616c6c73000000u /* and the process that runs all */

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
	if (kind == RIPC_QUESTION)
		check(ripc_reply(end->svc, msg, msg->items, msg->n_items, 0), "reply");
	ripc_msg_free(msg);
}

static void send_one(const struct end *from, const struct end *to)
{
	char bytes[50] = "question";
	const struct iovec item = {bytes, sizeof(bytes)};
	const struct ripc_send send = {.size = sizeof(send), .to = ripc_service_id(to->svc),
		.items = &item, .n_items = 1, .flags = flags};

	check(ripc_sendmsg(from->svc, &send, NULL), "send");
	take(to, flags ? RIPC_LONG : RIPC_SHORT);
}

static void ask_one(const struct end *from, const struct end *to)
{
	char bytes[50] = "question";
	const struct iovec item = {bytes, sizeof(bytes)};
	const struct ripc_question ask = {.size = sizeof(ask), .to = ripc_service_id(to->svc),
		.items = &item, .n_items = 1, .flags = flags, .timeout_ms = WAIT_MS};

	check(ripc_call_start(from->svc, &ask), "call");
	take(to, RIPC_QUESTION);
	take(from, RIPC_ANSWER);
}

/* What is counted. */
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

static int count(long n, const char *what)
{
	struct end from, to;

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
	measured(&from, &to, n);
	check(ripc_close(from.ctx, 0), "close");
	check(ripc_close(to.ctx, 0), "close");
	return 0;
}

/* ---- rates ------------------------------------------------------------------------------- */

struct board {
	volatile bool go, stop;
	volatile unsigned int n_ready;
	volatile unsigned long answers[CLIENTS_MAX];
};

static struct board *board;

static void send_back(const struct end *end, const struct ripc_msg *msg)
{
	static char bytes[100];
	const struct iovec item = {bytes, sizeof(bytes)};
	const struct ripc_send send = {.size = sizeof(send), .to = msg->from, .items = &item,
		.n_items = 1, .flags = msg->kind == RIPC_LONG ? RIPC_SEND_LONG | RIPC_NOWAIT : 0};

	check(ripc_sendmsg(end->svc, &send, NULL), "send");
}

static void serve(const char *backend, uint64_t id)
{
	struct ripc_msg *msg;
	struct end end;

	end_open(&end, backend, id);
	__sync_fetch_and_add(&board->n_ready, 1);
	while (ripc_receive(end.svc, -1, &msg) == 0) {
		if (msg->kind == RIPC_QUESTION)
			(void)ripc_reply(end.svc, msg, msg->items, msg->n_items, 0);
		else if (msg->kind != RIPC_COMPLETION)
			send_back(&end, msg);
		ripc_msg_free(msg);
	}
}

/* Without calls: a message there and one back. */
static void exchange_all(const struct end *end, uint64_t id, int me)
{
	char bytes[100] = "question";
	const struct iovec item = {bytes, sizeof(bytes)};
	const struct ripc_send send = {.size = sizeof(send), .to = id, .items = &item,
		.n_items = 1, .flags = flags};

	while (!board->stop) {
		check(ripc_sendmsg(end->svc, &send, NULL), "send");
		take(end, flags ? RIPC_LONG : RIPC_SHORT);
		board->answers[me]++;
	}
}

static void ask_all(const struct end *end, uint64_t id, int me, int underway)
{
	char bytes[100] = "question";
	const struct iovec item = {bytes, sizeof(bytes)};
	const struct ripc_question ask = {.size = sizeof(ask), .to = id, .items = &item,
		.n_items = 1, .flags = flags, .timeout_ms = WAIT_MS};
	struct ripc_msg *msg;

	for (int i = 0; underway > 1 && i < underway; i++)
		check(ripc_call_start(end->svc, &ask), "call");
	while (!board->stop) {
		if (underway == 1) {
			check(ripc_call(end->svc, &ask, &msg, NULL), "call");
		} else {
			check(ripc_receive(end->svc, WAIT_MS, &msg), "receive");
			if (msg->kind != RIPC_ANSWER || msg->status)
				check(msg->status ? msg->status : -EPROTO, "answer");
			check(ripc_call_start(end->svc, &ask), "call");
		}
		ripc_msg_free(msg);
		board->answers[me]++;
	}
}

static void client(const char *backend, uint64_t id, int me, int underway)
{
	struct end end;

	end_open(&end, backend, 0);
	check(ripc_resolve(end.ctx, id, WAIT_MS), "resolve");
	__sync_fetch_and_add(&board->n_ready, 1);
	while (!board->go)
		usleep(1000);
	if (asks)
		ask_all(&end, id, me, underway);
	else
		exchange_all(&end, id, me);
}

static unsigned long answers_of(int clients)
{
	unsigned long all = 0;

	for (int i = 0; i < clients; i++)
		all += board->answers[i];
	return all;
}

static int rate(const char *backend, int clients, int underway, double seconds)
{
	uint64_t id = ID + (uint64_t)getpid();
	struct timespec from, to;
	unsigned long n;
	pid_t pids[CLIENTS_MAX + 1];

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	if (board == MAP_FAILED)
		check(-ENOMEM, "memory");
	for (int i = 0; i <= clients; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			if (i == clients)
				serve(backend, id);
			else
				client(backend, id, i, underway);
			_exit(0);
		}
	}
	while (board->n_ready <= (unsigned int)clients)
		usleep(1000);
	board->go = true;
	usleep(300000); /* until all know each other */
	n = answers_of(clients);
	clock_gettime(CLOCK_MONOTONIC, &from);
	usleep((useconds_t)(seconds * 1e6));
	n = answers_of(clients) - n;
	clock_gettime(CLOCK_MONOTONIC, &to);
	board->stop = true;
	for (int i = 0; i <= clients; i++)
		kill(pids[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	printf("%.0f\n", (double)n / ((double)(to.tv_sec - from.tv_sec) +
		(double)(to.tv_nsec - from.tv_nsec) * 1e-9));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "count") == 0 && atol(argv[2]) > 0)
		return count(atol(argv[2]), argv[3]);
	if (argc == 7 && strcmp(argv[1], "rate") == 0 && atoi(argv[3]) > 0 &&
			atoi(argv[3]) <= CLIENTS_MAX && atoi(argv[4]) > 0 && atof(argv[5]) > 0) {
		choose(argv[6]);
		return rate(argv[2], atoi(argv[3]), atoi(argv[4]), atof(argv[5]));
	}
	fprintf(stderr, "usage: calls rate BACKEND CLIENTS UNDERWAY SECONDS WHAT\n"
		"       calls count N WHAT\n"
		"       WHAT: shorts, longs, calls or idempotent\n");
	return 2;
}
