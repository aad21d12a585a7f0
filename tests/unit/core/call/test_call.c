/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls between two contexts: each row of the table in ripc/call.h, by each network of this host
 * (RIPC_TEST_BACKENDS="verbs,rdmacm": by those), with questions that may be carried out once, and
 * more often.
 */
#include <sys/wait.h>

#include "../../../util/heap.h"
#include "api.h"
#include "ripc/call.h"

#define BIG      (3u << 20)
#define MANY     300u
#define SOON_MS  150 /* a deadline that is missed on purpose */
#define UNREAD   4200u /* answers: more than a service's queue has room for */
#define KEPT     100u  /* failures that are not freed */

static const char *backends[8] = {"udp", "shm"};
static uint32_t n_backends = 2;

/* Each test runs for each backend, with each of these flags. */
static uint32_t flags_of(int i)
{
	return i % 2 ? RIPC_IDEMPOTENT : 0;
}

static struct ripc_config config_of(int i, uint32_t flags)
{
	struct ripc_config cfg = api_config(flags);

	cfg.backends = backends[i / 2];
	return cfg;
}

static void both_open(struct pair *pair, int i)
{
	struct ripc_config cfg = config_of(i, 0);

	side_open_as(&pair->a, &cfg, 0);
	side_open_as(&pair->b, &cfg, 0);
}

static struct ripc_question call_to(uint64_t to, const struct iovec *items, uint32_t n,
		int i)
{
	return (struct ripc_question){.size = sizeof(struct ripc_question), .to = to,
		.items = items, .n_items = n, .flags = flags_of(i), .timeout_ms = PATIENCE_MS};
}

/* ---- a server ---------------------------------------------------------------------------- */

struct server {
	struct ripc_service *svc;
	pthread_t thread;
	uint32_t n; /* questions taken */
};

/* Gives back what it was asked; what begins with 'e' is answered with an error, 'q' ends it. */
static void *serve(void *arg)
{
	struct server *server = arg;
	bool quit = false;

	while (!quit) {
		struct ripc_msg *question = take(server->svc, RIPC_QUESTION);
		char first = *(char *)question->items[0].iov_base;

		server->n++;
		quit = first == 'q';
		ck_assert_int_eq(first == 'e' ?
			ripc_reply_error(server->svc, question, -EDOM) :
			ripc_reply(server->svc, question, question->items, question->n_items, 0),
			0);
		ripc_msg_free(question);
	}
	return NULL;
}

static void server_start(struct server *server, struct ripc_service *svc)
{
	*server = (struct server){.svc = svc};
	ck_assert_int_eq(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_stop(struct server *server, const struct side *client)
{
	const struct iovec quit = item("q", 1);
	struct ripc_question call = {.size = sizeof(call), .to = ripc_service_id(server->svc),
		.items = &quit, .n_items = 1, .timeout_ms = PATIENCE_MS};
	struct ripc_msg *answer;

	ck_assert_int_eq(ripc_call(client->svc, &call, &answer, NULL), 0);
	ripc_msg_free(answer);
	pthread_join(server->thread, NULL);
}

/* ---- answered ---------------------------------------------------------------------------- */

static void check_echo(const struct side *client, const struct ripc_question *call)
{
	enum ripc_outcome asked = 0;
	struct ripc_msg *answer;

	ck_assert_int_eq(ripc_call(client->svc, call, &answer, &asked), 0);
	ck_assert_int_eq(asked, RIPC_DELIVERED);
	ck_assert_int_eq(answer->kind, RIPC_ANSWER);
	ck_assert_int_eq(answer->outcome, RIPC_DELIVERED);
	ck_assert_int_eq(answer->sender, RIPC_SENDER_RESOLVED);
	ck_assert_uint_eq(answer->answers, call->cookie);
	ck_assert_uint_eq(answer->from, call->to);
	ck_assert_uint_eq(answer->n_items, call->n_items);
	for (uint32_t i = 0; i < answer->n_items; i++) {
		ck_assert_uint_eq(answer->items[i].iov_len, call->items[i].iov_len);
		ck_assert_int_eq(memcmp(answer->items[i].iov_base, call->items[i].iov_base,
			call->items[i].iov_len), 0);
	}
	ripc_msg_free(answer);
}

START_TEST(call__answered)
{
	char *big = filled(BIG, 7);
	const struct iovec items[3] = {item("one", 3), item("", 0), item(big, BIG)};
	struct pair pair;
	struct server server;
	struct ripc_question call;

	both_open(&pair, _i);
	server_start(&server, pair.b.svc);
	for (uint32_t n = 1; n <= 3; n++) {
		call = call_to(pair.b.id, items, n, _i);
		call.cookie = n;
		for (int times = 0; times < 20; times++)
			check_echo(&pair.a, &call);
	}
	server_stop(&server, &pair.a);
	ck_assert_uint_eq(stats_of(pair.a.ctx).calls_answered, 61);
	ck_assert_uint_eq(stats_of(pair.a.ctx).calls_open, 0);
	pair_close(&pair);
	free(big);
}
END_TEST

START_TEST(call__answered_into_return_buffers)
{
	char *big = filled(BIG, 7), *place = calloc(1, BIG);
	const struct ripc_buffer returns[2] = {{.mem = {place, 16}, .cookie = 8},
		{.mem = {place + 16, BIG - 16}, .cookie = 9}};
	const struct iovec items[2] = {item("head", 4), item(big, BIG - 16)};
	struct pair pair;
	struct server server;
	struct ripc_msg *answer;
	struct ripc_question call;

	both_open(&pair, _i);
	server_start(&server, pair.b.svc);
	call = call_to(pair.b.id, items, 2, _i);
	call.returns = returns;
	call.n_returns = 2;
	ck_assert_int_eq(ripc_call(pair.a.svc, &call, &answer, NULL), 0);
	ck_assert_ptr_nonnull(answer->places);
	ck_assert_int_eq(answer->places[1].place, RIPC_IN_RETURN);
	ck_assert_uint_eq(answer->places[1].cookie, 9);
	ck_assert_ptr_eq(answer->items[1].iov_base, place + 16);
	check_filled(place + 16, BIG - 16, 7);
	ripc_msg_free(answer);
	server_stop(&server, &pair.a);
	pair_close(&pair);
	free(big);
	free(place);
}
END_TEST

START_TEST(call__answered_with_an_error)
{
	const struct iovec ask = item("error", 5);
	enum ripc_outcome asked = 0;
	struct ripc_msg *answer = NULL;
	struct ripc_question call;
	struct server server;
	struct pair pair;

	both_open(&pair, _i);
	server_start(&server, pair.b.svc);
	call = call_to(pair.b.id, &ask, 1, _i);
	ck_assert_int_eq(ripc_call(pair.a.svc, &call, &answer, &asked), -EDOM);
	ck_assert_int_eq(asked, RIPC_DELIVERED);
	ck_assert_ptr_null(answer);
	server_stop(&server, &pair.a);
	pair_close(&pair);
}
END_TEST

/* ---- not answered ------------------------------------------------------------------------ */

START_TEST(call__nobody_there)
{
	const struct iovec ask = item("?", 1);
	struct ripc_question call = call_to(NOBODY + (uint64_t)_i, &ask, 1, _i);
	enum ripc_outcome asked = 0;
	struct ripc_msg *answer;
	struct pair pair;
	uint64_t began_ms = clock_ms();

	both_open(&pair, _i);
	call.timeout_ms = 1500;
	ck_assert_int_eq(ripc_call(pair.a.svc, &call, &answer, &asked), -ENOENT);
	ck_assert_int_eq(asked, RIPC_NOT_DELIVERED);
	ck_assert_uint_ge(clock_ms() - began_ms, 1500);
	pair_close(&pair);
}
END_TEST

struct newcomer {
	struct ripc_context *ctx;
	uint64_t id;
	struct server server;
};

static void *come_later(void *arg)
{
	struct newcomer *newcomer = arg;

	usleep(300000);
	ck_assert_int_eq(ripc_service_open(newcomer->ctx, newcomer->id, 0,
		&newcomer->server.svc), 0);
	return serve(&newcomer->server);
}

START_TEST(call__somebody_comes_in_time)
{
	const struct iovec ask = item("quit", 4);
	struct newcomer newcomer = {.id = NOBODY + 100 + (uint64_t)_i};
	struct ripc_question call = call_to(newcomer.id, &ask, 1, _i);
	struct pair pair;

	both_open(&pair, _i);
	newcomer.ctx = pair.b.ctx;
	ck_assert_int_eq(pthread_create(&newcomer.server.thread, NULL, come_later, &newcomer), 0);
	check_echo(&pair.a, &call);
	pthread_join(newcomer.server.thread, NULL);
	ck_assert_uint_eq(newcomer.server.n, 1);
	pair_close(&pair);
}
END_TEST

START_TEST(call__server_says_nothing)
{
	const struct iovec ask = item("?", 1);
	enum ripc_outcome asked = 0;
	struct ripc_msg *answer, *question;
	struct ripc_question call;
	struct pair pair;
	uint32_t n = 0;

	both_open(&pair, _i);
	acquaint(&pair.a, &pair.b);
	call = call_to(pair.b.id, &ask, 1, _i);
	call.timeout_ms = SOON_MS;
	ck_assert_int_eq(ripc_call(pair.a.svc, &call, &answer, &asked), -ETIMEDOUT);
	ck_assert_int_eq(asked, RIPC_DELIVERED); /* the short was repeated as a long message */
	while (ripc_receive(pair.b.svc, 0, &question) == 0) {
		ck_assert_int_eq(question->kind, RIPC_QUESTION);
		ck_assert_uint_eq(question->flags & RIPC_IDEMPOTENT, flags_of(_i));
		ck_assert_int_eq(ripc_reply(pair.b.svc, question, &ask, 1, 0), 0);
		ripc_msg_free(question);
		n++;
	}
	ck_assert_uint_eq(n, _i % 2 ? 2 : 1);
	while (stats_of(pair.a.ctx).answers_late < n)
		usleep(1000);
	check_nothing(pair.a.svc);
	pair_close(&pair);
}
END_TEST

/* ---- the server ends --------------------------------------------------------------------- */

/* A process that takes one question, says so, and does nothing more. */
static pid_t victim_start(int i, uint64_t id, int *said)
{
	int ends[2];
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	(void)config_of(i, 0); /* the port of the resolver is that of the parent */
	pid = fork();
	if (pid == 0) {
		struct ripc_config cfg = config_of(i, 0);
		struct side side;
		struct ripc_msg *msg;

		side_open_as(&side, &cfg, id);
		if (write(ends[1], "r", 1) == 1 && ripc_receive(side.svc, -1, &msg) == 0 &&
				write(ends[1], "t", 1) == 1)
			pause();
		_exit(1);
	}
	close(ends[1]);
	*said = ends[0];
	return pid;
}

static void victim_says(int said, char what)
{
	char byte = 0;

	ck_assert_int_eq(read(said, &byte, 1), 1);
	ck_assert_int_eq(byte, what);
}

START_TEST(call__server_is_killed)
{
	const struct iovec ask = item("?", 1);
	uint64_t id = NOBODY + 200 + (uint64_t)_i;
	struct ripc_config cfg = config_of(_i, 0);
	struct ripc_question call = call_to(id, &ask, 1, 0);
	struct ripc_msg *answer;
	struct side client;
	int said, status;
	pid_t pid = victim_start(_i, id, &said);

	victim_says(said, 'r');
	side_open_as(&client, &cfg, 0);
	call.cookie = 5;
	ck_assert_int_eq(ripc_call_start(client.svc, &call), 0);
	victim_says(said, 't');
	while (stats_of(client.ctx).long_sent == 0) /* so that it is known to be delivered */
		usleep(1000);
	kill(pid, SIGKILL);
	answer = take(client.svc, RIPC_ANSWER);
	ck_assert_uint_eq(answer->answers, 5);
	ck_assert_int_eq(answer->status, -ECONNRESET);
	ck_assert_int_eq(answer->outcome, RIPC_DELIVERED);
	ck_assert_uint_eq(answer->from, id);
	ck_assert_uint_eq(answer->n_items, 0);
	ripc_msg_free(answer);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	close(said);
	side_close(&client);
}
END_TEST

START_TEST(call__successor_answers)
{
	const struct iovec ask = item("quit", 4);
	struct newcomer newcomer = {.id = NOBODY + 300 + (uint64_t)_i};
	struct ripc_config cfg = config_of(_i, 0);
	struct ripc_question call = call_to(newcomer.id, &ask, 1, 1);
	struct side client, other;
	struct ripc_msg *answer;
	int said, status;
	pid_t pid = victim_start(_i, newcomer.id, &said);

	victim_says(said, 'r');
	side_open_as(&client, &cfg, 0);
	side_open_as(&other, &cfg, 0);
	newcomer.ctx = other.ctx;
	ck_assert_int_eq(ripc_call_start(client.svc, &call), 0);
	victim_says(said, 't');
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(pthread_create(&newcomer.server.thread, NULL, come_later, &newcomer), 0);
	answer = take(client.svc, RIPC_ANSWER);
	ck_assert_int_eq(answer->status, 0);
	ck_assert_uint_eq(answer->n_items, 1);
	ripc_msg_free(answer);
	pthread_join(newcomer.server.thread, NULL);
	close(said);
	side_close(&client);
	side_close(&other);
}
END_TEST

START_TEST(call__server_closes)
{
	const struct iovec ask = item("?", 1);
	struct ripc_msg *answer, *question;
	struct ripc_question call;
	struct pair pair;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, 0);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	question = take(pair.b.svc, RIPC_QUESTION);
	while (stats_of(pair.a.ctx).long_sent == 0)
		usleep(1000);
	ripc_msg_free(question);
	side_close(&pair.b);
	answer = take(pair.a.svc, RIPC_ANSWER);
	ck_assert_int_eq(answer->status, -ECONNRESET);
	ck_assert_int_eq(answer->outcome, RIPC_DELIVERED);
	ripc_msg_free(answer);
	side_close(&pair.a);
}
END_TEST

/* The only one that may answer: nobody comes after it. */
START_TEST(call__this_incarnation_closes)
{
	const struct iovec ask = item("?", 1);
	struct ripc_msg *answer;
	struct ripc_question call;
	struct pair pair;

	both_open(&pair, _i);
	acquaint(&pair.a, &pair.b);
	call = call_to(pair.b.id, &ask, 1, _i);
	call.to_incarnation = ripc_service_incarnation(pair.b.svc);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	ripc_msg_free(take(pair.b.svc, RIPC_QUESTION));
	side_close(&pair.b);
	answer = take(pair.a.svc, RIPC_ANSWER);
	ck_assert_int_eq(answer->status, -ECONNRESET);
	ck_assert_int_ne(answer->outcome, RIPC_NOT_DELIVERED);
	ripc_msg_free(answer);
	ck_assert_uint_eq(stats_of(pair.a.ctx).calls_repeated, 0);
	side_close(&pair.a);
}
END_TEST

/* ---- what became of the question --------------------------------------------------------- */

/* B lives only as long as somebody turns its handle. */
static void both_open_slowly(struct pair *pair, int i)
{
	struct ripc_config cfg = config_of(i, 0), slow = config_of(i, RIPC_NO_THREAD);
	struct pump pump;

	side_open_as(&pair->a, &cfg, 0);
	side_open_as(&pair->b, &slow, 0);
	pump_start(&pump, pair->b.ctx);
	acquaint(&pair->a, &pair->b);
	pump_stop(&pump);
}

static void poll_until_asked(const struct side *server)
{
	struct ripc_msg *msg;

	while (ripc_receive(server->svc, 0, &msg))
		ripc_poll(server->ctx);
	ck_assert_int_eq(msg->kind, RIPC_QUESTION);
	ripc_msg_free(msg);
}

/* The question has arrived, which its asker learns only after it has called it off. */
START_TEST(cancel__of_what_was_delivered)
{
	const struct iovec ask = item("?", 1);
	struct ripc_question call;
	struct ripc_msg *answer;
	struct pair pair;

	both_open_slowly(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	call.cookie = 4;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 4), 0);
	poll_until_asked(&pair.b);
	while (ripc_receive(pair.a.svc, 0, &answer))
		ripc_poll(pair.b.ctx);
	ck_assert_int_eq(answer->kind, RIPC_ANSWER);
	ck_assert_int_eq(answer->status, -ECANCELED);
	/* Nobody says that a short came. */
	ck_assert_int_eq(answer->outcome, _i % 2 ? RIPC_UNKNOWN : RIPC_DELIVERED);
	ripc_msg_free(answer);
	pair_close(&pair);
}
END_TEST

/* Somebody had the question, though nobody has it when it is asked again. */
START_TEST(call__asked_again_in_vain)
{
	const struct iovec ask = item("?", 1);
	struct ripc_question call;
	struct ripc_msg *answer;
	struct pair pair;

	both_open_slowly(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, 1);
	call.timeout_ms = 500;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	poll_until_asked(&pair.b);
	side_close(&pair.b);
	answer = take(pair.a.svc, RIPC_ANSWER);
	ck_assert_int_eq(answer->status, -ECONNRESET);
	ck_assert_int_ne(answer->outcome, RIPC_NOT_DELIVERED);
	ck_assert_uint_ge(stats_of(pair.a.ctx).calls_repeated, 1);
	ripc_msg_free(answer);
	side_close(&pair.a);
}
END_TEST

static void *close_soon(void *arg)
{
	usleep(50000);
	ripc_service_close(arg);
	return NULL;
}

/* It may have arrived. */
START_TEST(service_close__while_it_asks)
{
	const struct iovec ask = item("?", 1);
	enum ripc_outcome asked = 0;
	struct ripc_question call;
	struct ripc_msg *answer;
	struct pair pair;
	pthread_t closer;

	both_open_slowly(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	ck_assert_int_eq(pthread_create(&closer, NULL, close_soon, pair.a.svc), 0);
	ck_assert_int_eq(ripc_call(pair.a.svc, &call, &answer, &asked), -ECANCELED);
	ck_assert_int_eq(asked, RIPC_UNKNOWN);
	pthread_join(closer, NULL);
	pair_close(&pair);
}
END_TEST

/* ---- many, out of order, called off ------------------------------------------------------ */

/* Beside notices that say when to try again. */
static struct ripc_msg *take_answer(struct ripc_service *svc)
{
	struct ripc_msg *msg;

	for (;;) {
		ck_assert_int_eq(ripc_receive(svc, PATIENCE_MS, &msg), 0);
		if (msg->kind == RIPC_ANSWER)
			return msg;
		ck_assert_int_eq(msg->kind, RIPC_NOTICE);
		ripc_msg_free(msg);
	}
}

START_TEST(call_start__answered_in_any_order)
{
	struct ripc_msg **questions = calloc(MANY, sizeof(struct ripc_msg *));
	bool seen[MANY] = {false};
	uint64_t numbers[MANY];
	struct pair pair;

	both_open(&pair, _i);
	for (uint64_t n = 0; n < MANY; n++) {
		const struct iovec ask = item(&numbers[n], sizeof(numbers[n]));
		struct ripc_question call = call_to(pair.b.id, &ask, 1, _i);
		int error;

		numbers[n] = n;
		call.cookie = 1000 + n;
		while ((error = ripc_call_start(pair.a.svc, &call)) == -EAGAIN)
			usleep(1000);
		ck_assert_int_eq(error, 0);
	}
	for (uint32_t n = 0; n < MANY;) {
		struct ripc_msg *question = take(pair.b.svc, RIPC_QUESTION);
		uint64_t number;

		memcpy(&number, question->items[0].iov_base, sizeof(number));
		ck_assert(number < MANY);
		if (!questions[number]) {
			questions[number] = question;
			n++;
		} else {
			ck_assert(question->flags & RIPC_IDEMPOTENT);
			ripc_msg_free(question);
		}
	}
	for (uint32_t n = MANY; n-- > 0;) {
		struct ripc_msg copy = *questions[n]; /* what is kept of one that was freed */
		const struct iovec *items = questions[n]->items;

		ck_assert_int_eq(ripc_reply(pair.b.svc, &copy, items, 1, 0), 0);
		if (n % 2) /* dropped there */
			ck_assert_int_eq(ripc_reply(pair.b.svc, questions[n], items, 1, 0), 0);
		ripc_msg_free(questions[n]);
	}
	for (uint32_t n = 0; n < MANY; n++) {
		struct ripc_msg *answer = take_answer(pair.a.svc);
		uint64_t number = answer->answers - 1000;

		ck_assert_int_eq(answer->status, 0);
		ck_assert_uint_lt(number, MANY);
		ck_assert(!seen[number]);
		seen[number] = true;
		ck_assert_int_eq(memcmp(answer->items[0].iov_base, &number, 8), 0);
		ripc_msg_free(answer);
	}
	pair_close(&pair);
	free(questions);
}
END_TEST

START_TEST(cancel__of_calls)
{
	char *big = filled(BIG, 7), *place = malloc(BIG);
	const struct ripc_buffer returns = {.mem = {place, BIG}};
	const struct iovec ask = item(big, BIG);
	struct ripc_msg *answer;
	struct ripc_question call;
	struct pair pair;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	call.cookie = 77;
	call.returns = &returns;
	call.n_returns = 1;
	for (int times = 0; times < 2; times++)
		ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 77), 0);
	for (int times = 0; times < 2; times++) {
		answer = take(pair.a.svc, RIPC_ANSWER);
		ck_assert_int_eq(answer->status, -ECANCELED);
		ck_assert_uint_eq(answer->answers, 77);
		ripc_msg_free(answer);
	}
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 77), -ENOENT);
	pair_close(&pair);
	free(big);
	free(place);
}
END_TEST

START_TEST(service_close__ends_calls)
{
	const struct iovec ask = item("?", 1);
	struct ripc_msg *answer;
	struct ripc_question call;
	struct pair pair;
	pthread_t closer;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0); /* forgotten */
	ck_assert_int_eq(pthread_create(&closer, NULL, close_soon, pair.a.svc), 0);
	ck_assert_int_eq(ripc_call(pair.a.svc, &call, &answer, NULL), -ECANCELED);
	pthread_join(closer, NULL);
	pair_close(&pair);
}
END_TEST

START_TEST(reply__to_who_is_gone)
{
	const struct iovec ask = item("?", 1);
	struct ripc_msg *question;
	struct ripc_question call;
	struct pair pair;
	uint64_t began_ms;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	question = take(pair.b.svc, RIPC_QUESTION);
	side_close(&pair.a);
	began_ms = clock_ms();
	for (int times = 0; times < 100; times++) {
		int error = ripc_reply(pair.b.svc, question, &ask, 1, 0);

		ck_assert(error == 0 || error == -ENOENT);
	}
	ck_assert_uint_lt(clock_ms() - began_ms, 5000); /* it does not wait at all */
	ripc_msg_free(question);
	side_close(&pair.b);
}
END_TEST

/* Only the answer lands where an answer is to land, and the call waits for it. */
START_TEST(sendmsg__in_place_of_a_reply)
{
	char *place = calloc(1, BIG), *big = filled(BIG, 7);
	const struct ripc_buffer returns = {.mem = {place, BIG}, .cookie = 8};
	const struct iovec ask = item("?", 1);
	struct iovec sent = item(big, _i < 2 ? BIG : 100);
	struct ripc_msg *question, *msg;
	struct ripc_question call;
	struct ripc_send send = {.size = sizeof(send), .items = &sent, .n_items = 1,
		.flags = RIPC_SEND_LONG, .timeout_ms = PATIENCE_MS};
	struct pair pair;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	call.returns = &returns;
	call.n_returns = 1;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	question = take(pair.b.svc, RIPC_QUESTION);
	send.to = question->from;
	send.reply_to = question->reply;
	ck_assert_int_eq(ripc_sendmsg(pair.b.svc, &send, NULL), 0);
	msg = take(pair.a.svc, RIPC_LONG);
	ck_assert(!msg->places || msg->places[0].place == RIPC_IN_POOL);
	ck_assert_int_eq(place[BIG - 1] | place[1], 0);
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_reply(pair.b.svc, question, &sent, 1, 0), 0);
	msg = take(pair.a.svc, RIPC_ANSWER);
	ck_assert_int_eq(msg->status, 0);
	check_filled(msg->items[0].iov_base, sent.iov_len, 7);
	ripc_msg_free(msg);
	ripc_msg_free(question);
	pair_close(&pair);
	free(place);
	free(big);
}
END_TEST

/* An answer that nobody waits for would take the window along. */
START_TEST(window__is_not_for_answers)
{
	char *big = filled(BIG, 7), *window = malloc(BIG);
	const struct iovec mem = {window, BIG}, ask = item("?", 1), long_item = item(big, BIG);
	struct ripc_msg *question, *answer;
	struct ripc_question call;
	struct pair pair;

	both_open(&pair, _i);
	ck_assert_int_eq(ripc_window_post(pair.a.svc, &mem, 6), 0);
	call = call_to(pair.b.id, &ask, 1, _i);
	call.cookie = 5;
	for (uint32_t n = 0; n < 2; n++) {
		ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
		question = take(pair.b.svc, RIPC_QUESTION);
		if (n)
			ck_assert_int_eq(ripc_cancel(pair.a.svc, 5), 0);
		ck_assert_int_eq(ripc_reply(pair.b.svc, question, &long_item, 1, 0), 0);
		ripc_msg_free(question);
		answer = take(pair.a.svc, RIPC_ANSWER);
		ck_assert_int_eq(answer->status, n ? -ECANCELED : 0);
		ck_assert_ptr_null(answer->places);
		ripc_msg_free(answer);
	}
	while (stats_of(pair.a.ctx).answers_late == 0)
		usleep(1000);
	ck_assert_int_eq(ripc_window_cancel(pair.a.svc, 6), 0);
	pair_close(&pair);
	free(window);
	free(big);
}
END_TEST

/* What nobody takes does not keep an answer from the one that waits for it. */
START_TEST(call__beside_a_full_queue)
{
	char *big = filled(BIG, 7);
	const struct iovec ask = item("?", 1), long_item = item(big, BIG);
	struct ripc_question call;
	struct server server;
	struct pair pair;

	both_open(&pair, _i);
	server_start(&server, pair.b.svc);
	call = call_to(pair.b.id, &ask, 1, _i);
	for (uint32_t n = 0; n < UNREAD;) {
		int error = ripc_call_start(pair.a.svc, &call);

		ck_assert(error == 0 || error == -EAGAIN);
		n += error == 0;
		if (error)
			usleep(1000);
	}
	while (stats_of(pair.a.ctx).calls_open)
		usleep(1000);
	call.items = &long_item;
	check_echo(&pair.a, &call);
	server_stop(&server, &pair.a);
	pair_close(&pair);
	free(big);
}
END_TEST

static size_t open_and_close(int i)
{
	const struct iovec ask = item("?", 1);
	struct ripc_question call = call_to(NOBODY + 400 + (uint64_t)i, &ask, 1, i);
	struct ripc_config cfg = config_of(i, 0);
	struct ripc_msg *answer;
	struct side side;

	side_open_as(&side, &cfg, 0);
	call.timeout_ms = 1;
	for (uint32_t n = 0; n < KEPT; n++) {
		ck_assert_int_eq(ripc_call_start(side.svc, &call), 0);
		answer = take(side.svc, RIPC_ANSWER);
		ck_assert_int_lt(answer->status, 0);
	}
	side_close(&side);
	return heap_bytes();
}

/* Messages that were not freed go with the context. */
START_TEST(close__with_failures_kept)
{
	size_t before;

	(void)open_and_close(_i); /* what is taken once and for all */
	before = open_and_close(_i);
	ck_assert_uint_lt(open_and_close(_i), before + KEPT * sizeof(struct ripc_msg));
}
END_TEST

START_TEST(reply__given)
{
	const struct iovec ask = item("?", 1);
	struct ripc_msg *answer, *question;
	struct ripc_question call;
	struct iovec given;
	struct pair pair;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	question = take(pair.b.svc, RIPC_QUESTION);
	given = item(pool_filled(pair.b.ctx, BIG, 3), BIG);
	ck_assert_int_eq(ripc_reply(pair.b.svc, question, &ask, 1, RIPC_GIVE), -EINVAL);
	ck_assert_int_eq(ripc_reply(pair.b.svc, question, &given, 1, RIPC_GIVE), 0);
	ripc_msg_free(question);
	answer = take(pair.a.svc, RIPC_ANSWER);
	ck_assert_uint_eq(answer->items[0].iov_len, BIG);
	check_filled(answer->items[0].iov_base, BIG, 3);
	ripc_msg_free(answer);
	while (stats_of(pair.b.ctx).pool_used_bytes >= BIG)
		ripc_poll(pair.b.ctx);
	pair_close(&pair);
}
END_TEST

START_TEST(call__bad_arguments)
{
	const struct iovec ask = item("?", 1);
	struct ripc_msg *answer = NULL, none = {.kind = RIPC_SHORT, .from = 1, .reply = 1};
	struct ripc_question call;
	struct pair pair;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	ck_assert_int_eq(ripc_call(NULL, &call, &answer, NULL), -EINVAL);
	ck_assert_int_eq(ripc_call(pair.a.svc, NULL, &answer, NULL), -EINVAL);
	ck_assert_int_eq(ripc_call(pair.a.svc, &call, NULL, NULL), -EINVAL);
	call.n_items = 0;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), -EINVAL);
	call.n_items = RIPC_ITEMS_MAX + 1;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), -EINVAL);
	call.n_items = 1;
	call.flags = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_GIVE;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), -EINVAL);
	call.flags = 0;
	call.n_returns = 1;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), -EINVAL);
	call.n_returns = 0;
	call.to = 0;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), -EINVAL);
	ck_assert_int_eq(ripc_reply(pair.a.svc, &none, &ask, 1, 0), -EINVAL);
	none.kind = RIPC_QUESTION;
	ck_assert_int_eq(ripc_reply(pair.a.svc, &none, &ask, 1, RIPC_NOWAIT), -EINVAL);
	ck_assert_int_eq(ripc_reply_error(pair.a.svc, &none, 0), -EINVAL);
	ck_assert_int_eq(ripc_reply_error(pair.a.svc, &none, -4096), -EINVAL);
	ck_assert_ptr_null(answer);
	check_nothing(pair.a.svc);
	pair_close(&pair);
}
END_TEST

static void backends_choose(char *names)
{
	if (!names)
		return;
	n_backends = 0;
	for (char *name = strtok(names, ","); name && n_backends < 8; name = strtok(NULL, ","))
		backends[n_backends++] = name;
}

int main(void)
{
	const TTest *const tests[] = {
		call__answered, call__answered_into_return_buffers, call__answered_with_an_error,
		call__nobody_there, call__somebody_comes_in_time, call__server_says_nothing,
		call__server_is_killed, call__successor_answers, call__server_closes,
		call__this_incarnation_closes, cancel__of_what_was_delivered,
		call__asked_again_in_vain, service_close__while_it_asks,
		call_start__answered_in_any_order, cancel__of_calls, service_close__ends_calls,
		reply__to_who_is_gone, sendmsg__in_place_of_a_reply,
		window__is_not_for_answers, call__beside_a_full_queue, close__with_failures_kept,
		reply__given, call__bad_arguments,
	};
	TCase *tcase = tcase_create("call");

	backends_choose(getenv("RIPC_TEST_BACKENDS"));
	tcase_set_timeout(tcase, 60);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_loop_test(tcase, tests[i], 0, (int)(2 * n_backends));
	return suite_finish("call", tcase);
}
