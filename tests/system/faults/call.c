/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open calls whose server is killed. A request may be sent only once, or repeatedly; a board in
 * shared memory has the requests that the server and its predecessors took.
 *
 * killed: 64 calls are open, half of them RIPC_IDEMPOTENT, when the server is killed at a random
 *     moment; after a while it has a successor. Each call ends, with the truth: with an answer of
 *     its very question; with -ECONNRESET if it may have been taken, and only once; and those that
 *     can be asked again, or had not been delivered, are answered by the successor.
 * restarts: four clients, with a context each, ask one question after the other, while the server
 *     is killed and started again.
 *
 * The process of a successor is there before, and opens its context when the last one has ended.
 * How long things take is printed, and only what hangs fails. Before all other processes:
 *     RIPC_BACKENDS=shm chrt -f 10 build/tests/system/faults/faults-call killed --full
 *
 * usage: faults-call killed|restarts [--full]    RIPC_TEST_SEED repeats a run
 * By which network, says RIPC_BACKENDS.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "call.h"
#include "fault.h"

#define OPEN        64u
#define CLIENTS     4u
#define RESTARTS    50u
#define RUNS        100u
#define CALL_MS     20000
#define PATIENCE_MS 20000
#define PAUSE_US    200    /* of a client, after a call */
#define RUN_US      150000u /* of a server, at least, until it is killed */

struct server {
	int pid, ready, pidfd;
	uint32_t life;
	double ended_ms, ready_ms; /* of the one before: the kernel has ended it; registered */
};

/* Calls that are open, or were. */
struct asked {
	struct question question;
	double ended_ms;
	int status;       /* 1: it is open */
	uint32_t life;    /* of whoever answered */
};

static struct board *board;
static struct server server;
static atomic_uint n_asked;
static struct fault_took told = {.what = "from the end of the server until a call is told of it"},
	taken_over = {.what = "from a registration to the answer of a call that was open"},
	lost = {.what = "from the last answer of one server to the first one of the next"},
	started = {.what = "of this, until the next one was registered"};

/* ---- servers ----------------------------------------------------------------------------- */

static double said(const struct server *of)
{
	double ms;

	if (read(of->ready, &ms, sizeof(ms)) != sizeof(ms))
		fault_fail("the server does not start");
	return ms;
}

/* Returns when it stands by. */
static void server_start(struct server *next, enum manner manner)
{
	static uint32_t n_lives;
	char life[16], how[16];
	const char *argv[] = {"faults-call", "--server", life, how, NULL};

	next->life = ++n_lives;
	snprintf(life, sizeof(life), "%u", next->life);
	snprintf(how, sizeof(how), "%u", manner);
	next->pid = fault_spawn(argv, &next->ready);
	next->pidfd = (int)syscall(SYS_pidfd_open, next->pid, 0);
	if (next->pidfd < 0)
		fault_fail("pidfd_open: %s", strerror(errno));
	(void)said(next);
}

/* Returns when it is registered: then it is the server. */
static void server_go(const struct server *next)
{
	double ended_ms = server.ended_ms;

	server = *next;
	server.ended_ms = ended_ms;
	kill(server.pid, SIGUSR1);
	server.ready_ms = said(&server);
	close(server.ready);
}

static void server_kill(void)
{
	struct pollfd ended = {.fd = server.pidfd, .events = POLLIN};

	kill(server.pid, SIGKILL);
	if (poll(&ended, 1, PATIENCE_MS) != 1)
		fault_fail("the server does not end");
	server.ended_ms = clock_ms();
	fault_await(server.pid, PATIENCE_MS);
	close(server.pidfd);
}

/* ---- questions --------------------------------------------------------------------------- */

static struct ripc_request question_to_server(const struct iovec *item, bool repeatable)
{
	return (struct ripc_request){.size = sizeof(struct ripc_request),
		.to = fault_id(SERVICE_SERVER), .items = item, .n_items = 1,
		.flags = repeatable ? RIPC_IDEMPOTENT : 0, .timeout_ms = CALL_MS};
}

static struct question question_next(bool repeatable)
{
	uint32_t number = atomic_fetch_add(&n_asked, 1) % QUESTIONS_MAX;

	board->taken[number].n = 0; /* the one that had it before has ended long ago */
	board->taken[number].life = 0;
	return (struct question){number, repeatable};
}

/* Is that what may have become of it? Returns the life of the server that has answered, or 0. */
static uint32_t check_end(const struct question *question, const struct ripc_msg *msg, int status,
		enum ripc_outcome asked)
{
	uint32_t n_taken = board->taken[question->number].n;
	const struct answer *answer;

	if (!question->repeatable && n_taken > 1)
		fault_fail("question %u was taken %u times", question->number, n_taken);
	if (status == -ECONNRESET && !question->repeatable &&
			(asked == RIPC_DELIVERED || asked == RIPC_UNKNOWN))
		return 0;
	if (status)
		fault_fail("question %u ended with %d (%s), outcome %d", question->number, status,
			ripc_strerror(status), asked);
	answer = msg->items[0].iov_base;
	if (asked != RIPC_DELIVERED || msg->n_items != 1 ||
			msg->items[0].iov_len != sizeof(*answer) ||
			answer->number != question->number || n_taken == 0)
		fault_fail("question %u has not got its own answer", question->number);
	return answer->life;
}

/* ---- killed ------------------------------------------------------------------------------ */

struct client {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc__env env;
	struct asked asked[OPEN];
	uint32_t n_open;
};

static void client_open(struct client *client)
{
	struct ripc_config cfg = fault_config();

	cfg.backends = NULL;
	ripc__env_init(&client->env);
	fault_open(&client->env, &cfg, &client->ctx);
	if (ripc_service_open(client->ctx, 0, 0, &client->svc))
		fault_fail("a client has no service");
}

static void ask(struct client *client, uint32_t i)
{
	struct asked *asked = &client->asked[i];
	const struct iovec item = {&asked->question, sizeof(asked->question)};
	struct ripc_request question = question_to_server(&item, i % 2);
	int error;

	asked->question = question_next(i % 2);
	asked->status = 1;
	question.cookie = i;
	error = ripc_call_start(client->svc, &question);
	if (error)
		fault_fail("cannot ask: %s", ripc_strerror(error));
	client->n_open++;
}

/* The next answer, or none for so long. Returns which, or OPEN. */
static uint32_t take(struct client *client, int timeout_ms)
{
	struct asked *asked;
	struct ripc_msg *msg;
	int error;

	do {
		error = ripc_receive(client->svc, timeout_ms, &msg);
		if (error == -ETIMEDOUT || error == -EAGAIN)
			return OPEN;
		if (error)
			fault_fail("cannot receive: %s", ripc_strerror(error));
		if (msg->kind != RIPC_REPLY)
			ripc_msg_free(msg);
	} while (msg->kind != RIPC_REPLY);
	if (msg->request_cookie >= OPEN || client->asked[msg->request_cookie].status != 1)
		fault_fail("an answer to nothing");
	asked = &client->asked[msg->request_cookie];
	asked->ended_ms = clock_ms();
	asked->status = msg->status;
	asked->life = check_end(&asked->question, msg, msg->status, msg->outcome);
	client->n_open--;
	ripc_msg_free(msg);
	return (uint32_t)(asked - client->asked);
}

/* 64 are open for so long; those that are answered are followed by others. */
static void ask_for(struct client *client, double ms)
{
	double until_ms = clock_ms() + ms;

	for (uint32_t i = 0; i < OPEN; i++)
		ask(client, i);
	while (clock_ms() < until_ms) {
		uint32_t i = take(client, 1);

		if (i < OPEN)
			ask(client, i);
	}
}

static void *killer_main(void *arg)
{
	usleep(*(const useconds_t *)arg);
	server_kill();
	return NULL;
}

static void *go_main(void *next)
{
	server_go(next);
	return NULL;
}

/* Calls that the dead server may have taken, and that may be sent only once. */
static uint32_t n_to_be_told(const struct client *client)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < OPEN; i++)
		n += client->asked[i].status == 1 && !client->asked[i].question.repeatable &&
			board->taken[client->asked[i].question.number].n;
	return n;
}

static void count_ends(struct client *client, uint32_t ends[3])
{
	for (uint32_t i = 0; i < OPEN; i++) {
		const struct asked *asked = &client->asked[i];

		if (asked->status == -ECONNRESET) {
			fault_took_add(&told, asked->ended_ms - server.ended_ms);
			ends[0]++;
		} else if (asked->life != server.life) {
			ends[1]++;
		} else {
			ends[2]++;
		}
	}
}

static void one_run(struct client *client, uint64_t *random, uint32_t ends[3])
{
	/* While all are open, or while they are being asked. */
	useconds_t delay_us = (useconds_t)(fault_random(random) %
		(fault_random(random) % 2 ? 40000 : 300));
	double waited_ms = (double)(fault_random(random) % 100), began_ms;
	struct server first, successor;
	pthread_t killer, going;

	server_start(&first, MANNER_KEEPS);
	server_start(&successor, MANNER_ANSWERS);
	server_go(&first);
	fault_find(client->ctx, fault_id(SERVICE_SERVER));
	pthread_create(&killer, NULL, killer_main, &delay_us);
	ask_for(client, delay_us / 1e3);
	while (client->n_open && n_to_be_told(client))
		(void)take(client, 1);
	pthread_join(killer, NULL);
	began_ms = clock_ms();
	while (clock_ms() < began_ms + waited_ms)
		(void)take(client, 1);
	/* Calls that the dead server had, but had not taken, are told of the end meanwhile. */
	pthread_create(&going, NULL, go_main, &successor);
	while (client->n_open) {
		uint32_t i = take(client, PATIENCE_MS);

		if (i == OPEN)
			fault_fail("%u calls have no end", client->n_open);
	}
	pthread_join(going, NULL);
	for (uint32_t i = 0; i < OPEN; i++) {
		if (client->asked[i].status == 0 && client->asked[i].life == server.life)
			fault_took_add(&taken_over, client->asked[i].ended_ms - server.ready_ms);
	}
	count_ends(client, ends);
	server_kill();
}

static void killed(uint32_t n)
{
	static struct client client;
	struct fault_left before = fault_left_now();
	uint64_t random = fault_seed();
	uint32_t ends[3] = {0};

	client_open(&client);
	for (uint32_t i = 0; i < n; i++)
		one_run(&client, &random, ends);
	printf("%u servers killed with %u calls open: %u told of the end, %u answered before, "
		"%u answered by the successor\n", n, OPEN, ends[0], ends[1], ends[2]);
	fault_took_print(&told);
	fault_took_print(&taken_over);
	if (ends[0] == 0 || ends[2] == 0)
		fault_fail("nothing was told, or answered: the test has not tested");
	if (ripc_close(client.ctx, 1000))
		fault_fail("the client cannot close");
	fault_left_check(&before, "killed");
}

/* ---- restarts ---------------------------------------------------------------------------- */

/* One of the clients. The client notes the last and the first reply of each life. */
struct asker {
	pthread_t thread;
	struct client client;
	bool repeatable;
	double first_ms[RESTARTS + 3], last_ms[RESTARTS + 3];
};

static atomic_bool enough;
static atomic_uint calls_told, calls_replied;

static void note_answer(struct asker *asker, uint32_t life)
{
	double now_ms = clock_ms();

	if (life > RESTARTS + 2)
		fault_fail("an answer of a server that there was not");
	if (asker->first_ms[life] == 0.0)
		asker->first_ms[life] = now_ms;
	asker->last_ms[life] = now_ms;
	calls_replied++;
}

static void *asker_main(void *arg)
{
	struct asker *asker = arg;

	while (!atomic_load(&enough)) {
		struct question asked = question_next(asker->repeatable);
		const struct iovec item = {&asked, sizeof(asked)};
		struct ripc_request question = question_to_server(&item, asker->repeatable);
		enum ripc_outcome outcome = 0;
		struct ripc_msg *msg = NULL;
		int status = ripc_call(asker->client.svc, &question, &msg, &outcome);
		uint32_t life = check_end(&asked, msg, status, outcome);

		if (life)
			note_answer(asker, life);
		else
			calls_told++;
		ripc_msg_free(msg);
		usleep(PAUSE_US);
	}
	return NULL;
}

static void askers_start(struct asker *askers)
{
	for (uint32_t i = 0; i < CLIENTS; i++) {
		client_open(&askers[i].client);
		askers[i].repeatable = i % 2;
		pthread_create(&askers[i].thread, NULL, asker_main, &askers[i]);
	}
}

/* Until each has an answer of the server that lives now. */
static void await_answers(const struct asker *askers)
{
	double until_ms = clock_ms() + PATIENCE_MS;

	for (uint32_t i = 0; i < CLIENTS; i++) {
		while (*(const volatile double *)&askers[i].first_ms[server.life] == 0.0) {
			if (clock_ms() > until_ms)
				fault_fail("client %u gets no answer of server %u", i,
					server.life);
			usleep(1000);
		}
	}
}

static void note_restart(const struct asker *askers)
{
	for (uint32_t i = 0; i < CLIENTS; i++) {
		double before_ms = askers[i].last_ms[server.life - 1];

		fault_took_add(&lost, askers[i].first_ms[server.life] - before_ms);
		fault_took_add(&started, server.ready_ms - before_ms);
	}
}

static void restarts(uint32_t n)
{
	static struct asker askers[CLIENTS];
	struct fault_left before = fault_left_now();
	uint64_t random = fault_seed();
	struct server next;

	server_start(&next, MANNER_ANSWERS);
	server_go(&next);
	askers_start(askers);
	await_answers(askers);
	for (uint32_t i = 0; i < n; i++) {
		usleep(RUN_US + (useconds_t)(fault_random(&random) % 20000));
		server_start(&next, MANNER_ANSWERS);
		server_kill();
		server_go(&next);
		await_answers(askers);
		note_restart(askers);
	}
	enough = true;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		pthread_join(askers[i].thread, NULL);
		if (ripc_close(askers[i].client.ctx, 1000))
			fault_fail("a client cannot close");
	}
	server_kill();
	printf("%u restarts beside %u clients: %u calls answered, %u told of an end\n", n, CLIENTS,
		calls_replied, calls_told);
	fault_took_print(&lost);
	fault_took_print(&started);
	fault_left_check(&before, "restarts");
}

int main(int argc, char **argv)
{
	bool full = fault_full(argc, argv);

	if (argc == 4 && strcmp(argv[1], "--server") == 0)
		return server_main(argv);
	if (argc < 2 || (strcmp(argv[1], "killed") && strcmp(argv[1], "restarts"))) {
		fprintf(stderr, "usage: %s killed|restarts [--full]\n", argv[0]);
		return 2;
	}
	board = board_open(true);
	if (strcmp(argv[1], "killed") == 0)
		killed(full ? RUNS : RUNS / 10);
	else
		restarts(full ? RESTARTS : RESTARTS / 5);
	if (board->wrong)
		fault_fail("%u questions came changed, or too often", board->wrong);
	return 0;
}
