/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No client stalls a server, whatever it does with its answers. One asks, and is stopped before it
 * has any; one asks, and is killed among them; the server answers both, with little and with much,
 * and then a third one while the first is still stopped. The third one gets all answers, late as it
 * is.
 *
 * How long the longest answer took is printed, and only what hangs fails.
 *
 * usage: faults-askers    By which network, says RIPC_BACKENDS.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"
#include "ripc/call.h"

#define MANY        400u    /* questions of each */
#define LITTLE      100u    /* bytes of an answer */
#define MUCH        400000u /* of each tenth */
#define CALL_MS     120000  /* as that of the one that is stopped must not end before it goes on */
#define HANG_MS     8000u
#define PATIENCE_MS 60000u

enum { SERVICE_SERVER = 1 };
enum { STOPPED = 1, KILLED, SERVED }; /* the askers */

struct question {
	uint32_t asker, number;
};

static uint32_t answer_len(const struct question *question)
{
	return question->number % 10 ? LITTLE : MUCH;
}

static uint64_t answer_seed(const struct question *question)
{
	return question->asker * MANY + question->number;
}

static void open_service(struct ripc__env *env, uint64_t id, struct ripc_context **ctx,
		struct ripc_service **svc)
{
	struct ripc_config cfg = fault_config();

	cfg.backends = NULL;
	ripc__env_init(env);
	fault_open(env, &cfg, ctx);
	if (ripc_service_open(*ctx, id, 0, svc))
		fault_fail("no service");
}

/* ---- an asker ---------------------------------------------------------------------------- */

static void ask(struct ripc_service *svc, const struct question *question)
{
	const struct iovec item = {(void *)(uintptr_t)question, sizeof(*question)};
	const struct ripc_request call = {.size = sizeof(call), .to = fault_id(SERVICE_SERVER),
		.items = &item, .n_items = 1, .cookie = question->number, .timeout_ms = CALL_MS,
		.flags = question->number % 2 ? RIPC_IDEMPOTENT : 0};
	int error;

	while ((error = ripc_call_start(svc, &call)) == -EAGAIN)
		usleep(1000);
	if (error)
		fault_fail("asker %u: cannot ask: %s", question->asker, ripc_strerror(error));
}

static void check_answer(const struct ripc_msg *msg, const struct question *question)
{
	const struct iovec *item = msg->items;

	if (msg->status)
		fault_fail("asker %u: question %u ended with %s", question->asker,
			question->number, ripc_strerror(msg->status));
	if (msg->n_items != 1 || item->iov_len != answer_len(question) ||
			!fault_filled(item->iov_base, item->iov_len, answer_seed(question)))
		fault_fail("asker %u: question %u has another answer", question->asker,
			question->number);
}

static void take_all(struct ripc_service *svc, const struct question *questions)
{
	bool answered[MANY] = {false};
	struct ripc_msg *msg;

	for (uint32_t n = 0; n < MANY;) {
		int error = ripc_receive(svc, CALL_MS, &msg);

		if (error)
			fault_fail("an asker gets nothing: %s", ripc_strerror(error));
		if (msg->kind == RIPC_REPLY) {
			if (msg->request_cookie >= MANY || answered[msg->request_cookie])
				fault_fail("an answer to nothing");
			check_answer(msg, &questions[msg->request_cookie]);
			answered[msg->request_cookie] = true;
			n++;
		}
		ripc_msg_free(msg);
	}
}

static int asker_main(uint32_t asker)
{
	static struct question questions[MANY];
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc__env env;

	open_service(&env, 0, &ctx, &svc);
	fault_find(ctx, fault_id(SERVICE_SERVER));
	for (uint32_t i = 0; i < MANY; i++) {
		questions[i] = (struct question){asker, i};
		ask(svc, &questions[i]);
	}
	take_all(svc, questions);
	return ripc_close(ctx, 1000) != 0;
}

static int asker_start(uint32_t asker)
{
	char number[16];
	const char *argv[] = {"faults-askers", "--asker", number, NULL};
	int ready, pid;

	snprintf(number, sizeof(number), "%u", asker);
	pid = fault_spawn(argv, &ready);
	close(ready);
	return pid;
}

/* ---- the server -------------------------------------------------------------------------- */

struct server {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc__env env;
	char *bytes;
	uint64_t longest_ms;
	uint32_t n_answers[4], n_gone[4]; /* by asker: replies that went; that found it gone */
};

static void answer(struct server *server, const struct ripc_msg *msg)
{
	const struct question *question = msg->items[0].iov_base;
	const struct iovec item = {server->bytes, answer_len(question)};
	uint64_t began_ms = fault_now_ms(), took_ms;
	int error;

	fault_fill(item.iov_base, item.iov_len, answer_seed(question));
	error = ripc_reply(server->svc, msg, &item, 1, 0);
	took_ms = fault_now_ms() - began_ms;
	if (took_ms > HANG_MS)
		fault_fail("a reply to asker %u took %llu ms", question->asker,
			(unsigned long long)took_ms);
	if (took_ms > server->longest_ms)
		server->longest_ms = took_ms;
	if (error && (error != -ENOENT || question->asker != KILLED))
		fault_fail("a reply to asker %u: %s", question->asker, ripc_strerror(error));
	server->n_answers[question->asker] += error == 0;
	server->n_gone[question->asker] += error == -ENOENT;
}

static bool is_question(const struct ripc_msg *msg)
{
	const struct question *question = msg->items[0].iov_base;

	if (msg->kind != RIPC_REQUEST)
		return false;
	if (msg->n_items != 1 || msg->items[0].iov_len != sizeof(*question) ||
			question->asker > SERVED || question->number >= MANY)
		fault_fail("a question that nobody has asked");
	return true;
}

/* All questions of an asker, none answered. One that may come twice may have come so far once. */
static void take_of(struct server *server, uint32_t asker, struct ripc_msg **kept)
{
	uint32_t n = 0;

	while (n < MANY) {
		struct ripc_msg *msg;
		const struct question *question;

		if (ripc_receive(server->svc, PATIENCE_MS, &msg))
			fault_fail("asker %u does not ask", asker);
		question = msg->items[0].iov_base;
		if (!is_question(msg) || question->asker != asker || kept[question->number]) {
			ripc_msg_free(msg);
			continue;
		}
		kept[question->number] = msg;
		n++;
	}
}

/* victim: is killed when half are answered; 0: nobody is. */
static void answer_all(struct server *server, struct ripc_msg **kept, int victim)
{
	for (uint32_t i = 0; i < MANY; i++) {
		if (victim && i == MANY / 2)
			kill(victim, SIGKILL);
		answer(server, kept[i]);
		ripc_msg_free(kept[i]);
	}
}

static bool has_ended(int pid)
{
	siginfo_t info = {0};

	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT))
		fault_fail("waitid: %s", strerror(errno));
	return info.si_pid != 0;
}

/* Answers whatever comes until the asker has all its answers. */
static void serve_until_end(struct server *server, int pid, const char *who)
{
	uint64_t until_ms = fault_now_ms() + PATIENCE_MS;

	while (!has_ended(pid)) {
		struct ripc_msg *msg;

		if (fault_now_ms() > until_ms)
			fault_fail("%s does not get its answers", who);
		if (ripc_receive(server->svc, 20, &msg))
			continue;
		if (is_question(msg))
			answer(server, msg);
		ripc_msg_free(msg);
	}
	if (fault_await(pid, PATIENCE_MS))
		fault_fail("%s has failed", who);
}

static void serve(void)
{
	static struct ripc_msg *of_stopped[MANY], *of_killed[MANY];
	static struct server server;
	int stopped, killed;

	server.bytes = malloc(MUCH);
	open_service(&server.env, fault_id(SERVICE_SERVER), &server.ctx, &server.svc);
	stopped = asker_start(STOPPED);
	take_of(&server, STOPPED, of_stopped);
	kill(stopped, SIGSTOP);
	killed = asker_start(KILLED);
	take_of(&server, KILLED, of_killed);
	answer_all(&server, of_stopped, 0);
	answer_all(&server, of_killed, killed);
	fault_await(killed, PATIENCE_MS);
	serve_until_end(&server, asker_start(SERVED), "the third asker");
	if (has_ended(stopped))
		fault_fail("the asker that was stopped has ended");
	kill(stopped, SIGCONT);
	serve_until_end(&server, stopped, "the asker that was stopped");
	printf("%u answers to one that was stopped, %u to one that was killed (%u refused), beside "
		"%u to one that was there: the longest reply took %llu ms\n",
		server.n_answers[STOPPED], server.n_answers[KILLED], server.n_gone[KILLED],
		server.n_answers[SERVED], (unsigned long long)server.longest_ms);
	if (ripc_close(server.ctx, 1000))
		fault_fail("the server cannot close");
	free(server.bytes);
}

int main(int argc, char **argv)
{
	struct fault_left before;

	if (argc == 3 && strcmp(argv[1], "--asker") == 0)
		return asker_main((uint32_t)atoi(argv[2]));
	if (argc != 1) {
		fprintf(stderr, "usage: %s\n", argv[0]);
		return 2;
	}
	before = fault_left_now();
	serve();
	fault_left_check(&before, "the end");
	return 0;
}
