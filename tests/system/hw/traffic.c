/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages there and back, every byte checked, in large numbers or from many partners. Knows
 * nothing but ripc.h. Every message is answered by one of the same kind and contents; an answer
 * that is altered or comes twice has no question that it belongs to, and ends the program with 1.
 *
 *   hw-traffic serve --id N     answers; on each line of input says as JSON what it costs; ends
 *                               with its input
 *   hw-traffic soak --to N --shorts N --longs N [--most BYTES] [--seed N]
 *                               lengths from 1 byte, each power of two equally often; every other
 *                               long message lends a return buffer for its answer
 *   hw-traffic crowd --to N --contexts N --rounds N [--most BYTES]
 *                               from so many contexts: in each round one after the other, then all
 *                               at once
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "../net/xfer.h"
#include "../../support/util/heap.h"
#include "ripc/ripc.h"

#define CONTEXTS_MAX 256
#define DEPTH_SHORT  16u /* under way at once */
#define DEPTH_LONG   4u
#define SHORT_MOST   65536u /* bytes of a short message on any path */
/* With 64 partners on 16 connections, one waited 60 s for its turn in an emulated guest. */
#define PATIENCE_MS  200000
#define GUARD        64u /* bytes behind a return buffer that nobody may write */
#define GUARD_BYTE   0x5a

/* A message that waits for its answer. */
struct question {
	bool open;     /* no answer yet */
	bool sending;  /* no completion yet */
	uint64_t seed, len;
	char *bytes, *place; /* memory for sending, and posted for the answer */
};

struct job {
	uint64_t id, to, shorts, longs, most, contexts, rounds, seed;
};

struct asker {
	const struct job *job;
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct question questions[DEPTH_SHORT];
	uint64_t least, most; /* bytes of the next messages */
	uint64_t asked, answered, into_place, bytes;
};

static _Noreturn void fail(const char *what, int error)
{
	fprintf(stderr, "hw-traffic: %s: %s\n", what, error ? ripc_strerror(error) : "wrong");
	_exit(1);
}

static void log_line(void *arg, int level, const char *text)
{
	(void)arg;
	fprintf(stderr, "hw-traffic: log %d: %s\n", level, text);
}

static void open_service(uint64_t id, struct ripc_context **ctx, struct ripc_service **svc)
{
	/* In an emulated guest much takes long. */
	const struct ripc_config config = {.size = sizeof(config), .log = log_line,
		.peer_timeout_ms = 60000};
	int error = ripc_open(&config, ctx);

	if (error == 0)
		error = ripc_service_open(*ctx, id, 0, svc);
	if (error)
		fail("cannot open", error);
}

/* ---- serving ----------------------------------------------------------------------------- */

struct server {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	atomic_bool end;
};

/* Sends it back; it stays ours until the completion comes. False: it has been sent already. */
static bool answer(struct server *server, struct ripc_msg *msg)
{
	struct ripc_send send = {.size = sizeof(send), .to = msg->from, .items = msg->items,
		.to_incarnation = msg->from_incarnation, .n_items = msg->n_items,
		.reply_to = msg->reply, .timeout_ms = PATIENCE_MS,
		.cookie = (uint64_t)(uintptr_t)msg};
	int error;

	if (msg->kind == RIPC_LONG)
		send.flags = RIPC_SEND_LONG | RIPC_NOWAIT;
	error = ripc_sendmsg(server->svc, &send, NULL);
	if (error == -EAGAIN && msg->kind == RIPC_LONG) {
		send.flags = RIPC_SEND_LONG;
		error = ripc_sendmsg(server->svc, &send, NULL);
		msg->kind = RIPC_NOTICE; /* nothing more is to come of it */
	}
	if (error && msg->kind != RIPC_SHORT)
		fail("cannot answer", error);
	return msg->kind == RIPC_LONG;
}

static void *serve_main(void *arg)
{
	struct server *server = arg;
	struct ripc_msg *msg;

	while (!atomic_load(&server->end)) {
		int error = ripc_receive(server->svc, 100, &msg);
		bool keep = false;

		if (error == -ETIMEDOUT)
			continue;
		if (error)
			fail("receive", error);
		if (msg->kind == RIPC_COMPLETION) {
			if (msg->status)
				fail("an answer was not delivered", msg->status);
			ripc_msg_free((struct ripc_msg *)(uintptr_t)msg->cookie);
		} else if (msg->kind != RIPC_NOTICE) {
			keep = answer(server, msg);
		}
		if (!keep)
			ripc_msg_free(msg);
	}
	return NULL;
}

static void report(struct server *server)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ripc_stats_get(server->ctx, &stats);
	printf("{\"partners\":%llu,\"partner_bytes\":%llu,\"heap_bytes\":%zu,"
		"\"shorts\":%llu,\"longs\":%llu,\"read_bytes\":%llu,\"reads_failed\":%llu}\n",
		(unsigned long long)stats.partners, (unsigned long long)stats.partner_bytes,
		heap_bytes(), (unsigned long long)stats.short_received,
		(unsigned long long)stats.long_received, (unsigned long long)stats.read_bytes,
		(unsigned long long)stats.reads_failed);
	fflush(stdout);
}

static int serve(const struct job *job)
{
	struct server server = {0};
	pthread_t thread;
	char line[16];
	int error;

	open_service(job->id, &server.ctx, &server.svc);
	if (pthread_create(&thread, NULL, serve_main, &server))
		fail("no thread", -EAGAIN);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		report(&server);
	atomic_store(&server.end, true);
	pthread_join(thread, NULL);
	error = ripc_close(server.ctx, 1000);
	if (error)
		fail("close", error);
	return 0;
}

/* ---- asking ------------------------------------------------------------------------------ */

static void asker_open(struct asker *asker, const struct job *job, uint32_t depth)
{
	int error;

	asker->job = job;
	open_service(0, &asker->ctx, &asker->svc);
	for (uint32_t i = 0; i < depth; i++) {
		struct question *question = &asker->questions[i];
		uint64_t len = i < DEPTH_LONG && job->most > SHORT_MOST ? job->most : SHORT_MOST;
		void *bytes;

		error = ripc_buf_alloc(asker->ctx, len, &bytes);
		if (error)
			fail("no memory", error);
		question->bytes = bytes;
		error = ripc_buf_alloc(asker->ctx, len + GUARD, &bytes);
		if (error)
			fail("no memory", error);
		question->place = bytes;
	}
	error = ripc_resolve(asker->ctx, job->to, PATIENCE_MS);
	if (error)
		fail("cannot find the server", error);
}

static void asker_close(struct asker *asker)
{
	int error = ripc_close(asker->ctx, 1000);

	for (uint32_t i = 0; i < DEPTH_SHORT && asker->questions[i].bytes; i++) {
		ripc_buf_free(asker->ctx, asker->questions[i].bytes);
		ripc_buf_free(asker->ctx, asker->questions[i].place);
	}
	if (error)
		fail("close", error);
}

/* False: not now. */
static bool ask(struct asker *asker, struct question *question, bool is_long)
{
	struct iovec item;
	struct ripc_buffer place = {.mem = {question->place, 0}};
	struct ripc_send send = {.size = sizeof(send), .to = asker->job->to, .items = &item,
		.n_items = 1, .timeout_ms = PATIENCE_MS,
		.cookie = (uint64_t)(uintptr_t)question};
	int error;

	question->seed = pattern_word(asker->job->seed, asker->asked);
	question->len = draw_len(asker->most, question->seed);
	if (question->len < asker->least)
		question->len = asker->least;
	pattern_fill(question->bytes, question->len, question->seed);
	item = (struct iovec){question->bytes, question->len};
	if (is_long)
		send.flags = RIPC_SEND_LONG | RIPC_NOWAIT;
	if (is_long && asker->asked % 2) {
		place.mem.iov_len = question->len;
		memset(question->place, 0, question->len);
		memset(question->place + question->len, GUARD_BYTE, GUARD);
		send.returns = &place;
		send.n_returns = 1;
	}
	error = ripc_sendmsg(asker->svc, &send, NULL);
	if (error == -EAGAIN)
		return false;
	if (error)
		fail("cannot send", error);
	question->open = true;
	question->sending = is_long;
	asker->asked++;
	return true;
}

static bool is_answer(const struct question *question, const struct ripc_msg *msg)
{
	uint64_t len = question->len, seed;

	return question->open && msg->n_items == 1 && msg->items[0].iov_len == len &&
		pattern_check(msg->items[0].iov_base, len, &seed) &&
		memcmp(&seed, &question->seed, len < 8 ? len : 8) == 0;
}

static void check_place(struct asker *asker, struct question *question,
		const struct ripc_msg *msg)
{
	if (!msg->places || msg->places[0].place != RIPC_IN_RETURN)
		return;
	if (msg->items[0].iov_base != question->place)
		fail("an answer is in another's place", 0);
	for (uint32_t i = 0; i < GUARD; i++) {
		if (question->place[question->len + i] != GUARD_BYTE)
			fail("behind a return buffer", 0);
	}
	asker->into_place++;
}

static void take(struct asker *asker, const struct ripc_msg *msg)
{
	struct question *question = asker->questions;

	if (msg->kind == RIPC_COMPLETION) {
		if (msg->status)
			fail("not delivered", msg->status);
		((struct question *)(uintptr_t)msg->cookie)->sending = false;
	}
	if (msg->kind != RIPC_LONG && msg->kind != RIPC_SHORT)
		return;
	while (question < asker->questions + DEPTH_SHORT && !is_answer(question, msg))
		question++;
	if (question == asker->questions + DEPTH_SHORT)
		fail("an answer that is altered or came twice", 0);
	check_place(asker, question, msg);
	question->open = false;
	asker->answered++;
	asker->bytes += question->len;
}

/* Takes what comes. False: nothing came in time. */
static bool hear(struct asker *asker, int timeout_ms)
{
	struct ripc_msg *msg;
	int error = ripc_receive(asker->svc, timeout_ms, &msg);

	if (error == -ETIMEDOUT)
		return false;
	if (error)
		fail("receive", error);
	take(asker, msg);
	ripc_msg_free(msg);
	return true;
}

/* Nothing comes any more. Returns how many short messages are given up; long ones must come. */
static uint64_t give_up(struct asker *asker, bool is_long)
{
	uint64_t lost = 0;

	if (is_long)
		fail("no answer", -ETIMEDOUT);
	for (uint32_t i = 0; i < DEPTH_SHORT; i++) {
		lost += asker->questions[i].open;
		asker->questions[i].open = false;
	}
	return lost;
}

static struct question *find_free(struct asker *asker, uint32_t depth)
{
	for (uint32_t i = 0; i < depth; i++) {
		if (!asker->questions[i].open && !asker->questions[i].sending)
			return &asker->questions[i];
	}
	return NULL;
}

static bool all_are_free(const struct asker *asker)
{
	for (uint32_t i = 0; i < DEPTH_SHORT; i++) {
		if (asker->questions[i].open || asker->questions[i].sending)
			return false;
	}
	return true;
}

/* n messages of a kind; returns how many were not answered. */
static uint64_t ask_many(struct asker *asker, uint64_t n, bool is_long)
{
	uint64_t end = asker->asked + n, lost = 0;

	while (asker->asked < end || !all_are_free(asker)) {
		struct question *question = asker->asked == end ? NULL :
			find_free(asker, is_long ? DEPTH_LONG : DEPTH_SHORT);

		if (question && ask(asker, question, is_long))
			continue;
		/* Where the network takes no more just now, not for long. */
		if (!hear(asker, question ? 10 : PATIENCE_MS) && !question)
			lost += give_up(asker, is_long);
	}
	return lost;
}

static int soak(const struct job *job)
{
	static struct asker asker;
	struct ripc_path path = {.size = sizeof(path)};
	uint64_t lost, short_bytes;
	double began_s;

	asker_open(&asker, job, DEPTH_SHORT);
	asker.least = 1;
	asker.most = job->most;
	ask_many(&asker, 1, true); /* makes the path known */
	if (ripc_path_info(asker.svc, job->to, &path))
		fail("no path", 0);
	printf("path: %s, long messages by %s, to %s\n", path.backend, path.bulk, path.address);
	fflush(stdout);
	asker.most = path.short_max_bytes;
	began_s = now_s();
	lost = ask_many(&asker, job->shorts, false);
	short_bytes = asker.bytes;
	printf("%llu short messages of 1 to %u bytes there and back, %llu lost, %.1f s\n",
		(unsigned long long)job->shorts, path.short_max_bytes, (unsigned long long)lost,
		now_s() - began_s);
	fflush(stdout);
	asker.most = job->most;
	began_s = now_s();
	ask_many(&asker, job->longs, true);
	printf("%llu long messages of 1 to %llu bytes there and back, %llu of them into return "
		"buffers, %.1f MB each way, %.1f s\n", (unsigned long long)job->longs,
		(unsigned long long)job->most, (unsigned long long)asker.into_place,
		1e-6 * (double)(asker.bytes - short_bytes), now_s() - began_s);
	asker_close(&asker);
	if (lost > job->shorts / 100)
		fail("more than one short message in a hundred was lost", 0);
	if (asker.into_place < job->longs / 3)
		fail("too few answers came into return buffers", 0);
	return 0;
}

/* ---- many partners ----------------------------------------------------------------------- */

static void hear_answer(struct asker *asker)
{
	while (!all_are_free(asker)) {
		if (!hear(asker, PATIENCE_MS))
			fail("no answer", -ETIMEDOUT);
	}
}

static void ask_one(struct asker *asker)
{
	while (!ask(asker, asker->questions, true))
		hear(asker, 10);
}

static int crowd(const struct job *job)
{
	static struct asker askers[CONTEXTS_MAX];
	uint64_t answered = 0;

	for (uint64_t i = 0; i < job->contexts; i++) {
		asker_open(&askers[i], job, 1);
		askers[i].least = askers[i].most = job->most;
	}
	for (uint64_t round = 0; round < job->rounds; round++) {
		for (uint64_t i = 0; i < job->contexts; i++) {
			ask_one(&askers[i]);
			hear_answer(&askers[i]);
		}
		for (uint64_t i = 0; i < job->contexts; i++)
			ask_one(&askers[i]);
		for (uint64_t i = 0; i < job->contexts; i++)
			hear_answer(&askers[i]);
	}
	for (uint64_t i = 0; i < job->contexts; i++)
		answered += askers[i].answered;
	printf("%llu partners, %llu messages there and back\n",
		(unsigned long long)job->contexts, (unsigned long long)answered);
	fflush(stdout);
	getchar(); /* the processes stay until the examination is over */
	for (uint64_t i = 0; i < job->contexts; i++)
		asker_close(&askers[i]);
	return 0;
}

/* ---- the program ------------------------------------------------------------------------- */

static bool options(struct job *job, int argc, char **argv)
{
	static const struct option table[] = {
		{"id", 1, NULL, 'i'}, {"to", 1, NULL, 't'}, {"shorts", 1, NULL, 's'},
		{"longs", 1, NULL, 'l'}, {"most", 1, NULL, 'm'}, {"contexts", 1, NULL, 'c'},
		{"rounds", 1, NULL, 'r'}, {"seed", 1, NULL, 'S'}, {NULL, 0, NULL, 0},
	};
	uint64_t *const values[] = {&job->id, &job->to, &job->shorts, &job->longs, &job->most,
		&job->contexts, &job->rounds, &job->seed};
	int got, i;

	while ((got = getopt_long(argc, argv, "", table, &i)) != -1) {
		if (got == '?')
			return false;
		*values[i] = number(optarg);
	}
	return optind == argc - 1 && job->contexts <= CONTEXTS_MAX && job->most > 0;
}

int main(int argc, char **argv)
{
	struct job job = {.most = 8 << 20, .contexts = 1, .rounds = 1, .seed = 1};
	const char *what;

	if (options(&job, argc, argv)) {
		what = argv[optind];
		if (strcmp(what, "serve") == 0 && job.id)
			return serve(&job);
		if (strcmp(what, "soak") == 0 && job.to)
			return soak(&job);
		if (strcmp(what, "crowd") == 0 && job.to)
			return crowd(&job);
	}
	fprintf(stderr, "usage: hw-traffic serve --id N | soak --to N --shorts N --longs N | "
		"crowd --to N --contexts N --rounds N\n");
	return 2;
}
