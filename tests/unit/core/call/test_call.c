/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls between two contexts: each row of the table in ripc/call.h, by each network
 * (tests/conformance), with questions that may be carried out once, and more often.
 */
#include <sys/wait.h>

#include "call_pair.h"

/* ---- answered ---------------------------------------------------------------------------- */

START_TEST(call__answered)
{
	char *big = filled(BIG, 7);
	const struct iovec items[3] = {item("one", 3), item("", 0), item(big, BIG)};
	struct pair pair;
	struct server server;
	struct ripc_request call;

	both_open(&pair, _i);
	server_start(&server, pair.b.svc);
	for (uint32_t n = 1; n <= 3; n++) {
		call = call_to(pair.b.id, items, n, _i);
		call.cookie = n;
		for (int times = 0; times < 20; times++)
			check_echo(&pair.a, &call);
	}
	server_stop(&server, &pair.a);
	ck_assert_uint_eq(stats_of(pair.a.ctx).calls_replied, 61);
	ck_assert_uint_eq(stats_of(pair.a.ctx).calls_open, 0);
	pair_close(&pair);
	free(big);
}
END_TEST

/* A struct of another version of the library, and what cannot be lent. */
START_TEST(call__of_other_versions)
{
	const struct iovec one = item("x", 1);
	struct ripc_buffer lent = {.mem = {"y", 1}, .flags = 1};
	struct {
		struct ripc_request known;
		uint64_t later;
	} newer = {.later = 1};
	struct ripc_msg *reply;
	struct pair pair;

	both_open(&pair, _i);
	newer.known = call_to(pair.b.id, &one, 1, _i);
	newer.known.size = sizeof(newer);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &newer.known), -E2BIG);
	ck_assert_int_eq(ripc_call(pair.a.svc, &newer.known, &reply, NULL), -E2BIG);
	newer.known.size = offsetof(struct ripc_request, timeout_ms);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &newer.known), -EINVAL);
	newer.known.size = SIZE_MAX;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &newer.known), -E2BIG);
	newer.known.size = sizeof(newer);
	newer.later = 0;
	newer.known.returns = &lent;
	newer.known.n_returns = 1;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &newer.known), -EINVAL);
	check_nothing(pair.b.svc);
	lent.flags = 0;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &newer.known), 0);
	ripc_msg_free(take(pair.b.svc, RIPC_REQUEST));
	pair_close(&pair);
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
	struct ripc_request call;

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
	struct ripc_request call;
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
	struct ripc_request call = call_to(nobody + (uint64_t)_i, &ask, 1, _i);
	enum ripc_outcome asked = 0;
	struct ripc_msg *answer;
	struct pair pair;
	uint64_t began_ms = clock_ms();

	both_open(&pair, _i);
	call.timeout_ms = 2500; /* the end of the search for the service takes a second */
	ck_assert_int_eq(ripc_call(pair.a.svc, &call, &answer, &asked), -ENOENT);
	ck_assert_int_eq(asked, RIPC_NOT_DELIVERED);
	ck_assert_uint_ge(clock_ms() - began_ms, 2500);
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
	struct newcomer newcomer = {.id = nobody + 100 + (uint64_t)_i};
	struct ripc_request call = call_to(newcomer.id, &ask, 1, _i);
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
	struct ripc_request call;
	struct pair pair;
	uint32_t n = 0;

	both_open(&pair, _i);
	acquaint(&pair.a, &pair.b);
	call = call_to(pair.b.id, &ask, 1, _i);
	call.timeout_ms = SOON_MS;
	ck_assert_int_eq(ripc_call(pair.a.svc, &call, &answer, &asked), -ETIMEDOUT);
	/* The short is repeated as a long message, but where all is slow perhaps not in time. */
	ck_assert(asked == RIPC_DELIVERED || (_i % 2 && asked == RIPC_UNKNOWN));
	while (ripc_receive(pair.b.svc, 0, &question) == 0) {
		ck_assert_int_eq(question->kind, RIPC_REQUEST);
		ck_assert_uint_eq(question->flags & RIPC_IDEMPOTENT, flags_of(_i));
		ck_assert_int_eq(ripc_reply(pair.b.svc, question, &ask, 1, 0), 0);
		ripc_msg_free(question);
		n++;
	}
	if (asked == RIPC_DELIVERED)
		ck_assert_uint_eq(n, _i % 2 ? 2 : 1);
	else
		ck_assert(n == 1 || n == 2);
	while (stats_of(pair.a.ctx).replies_late < n)
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

		caller_open(&side, &cfg, id);
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
	uint64_t id = nobody + 200 + (uint64_t)_i;
	struct ripc_config cfg = config_of(_i, 0);
	struct ripc_request call = call_to(id, &ask, 1, 0);
	struct ripc_msg *answer;
	struct side client;
	int said, status;
	pid_t pid = victim_start(_i, id, &said);

	victim_says(said, 'r');
	caller_open(&client, &cfg, 0);
	call.cookie = 5;
	ck_assert_int_eq(ripc_call_start(client.svc, &call), 0);
	victim_says(said, 't');
	while (stats_of(client.ctx).long_sent == 0) /* until the message is known to be delivered */
		usleep(1000);
	kill(pid, SIGKILL);
	answer = take(client.svc, RIPC_REPLY);
	ck_assert_uint_eq(answer->request_cookie, 5);
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
	struct newcomer newcomer = {.id = nobody + 300 + (uint64_t)_i};
	struct ripc_config cfg = config_of(_i, 0);
	struct ripc_request call = call_to(newcomer.id, &ask, 1, 1);
	struct side client, other;
	struct ripc_msg *answer;
	int said, status;
	pid_t pid = victim_start(_i, newcomer.id, &said);

	victim_says(said, 'r');
	caller_open(&client, &cfg, 0);
	caller_open(&other, &cfg, 0);
	newcomer.ctx = other.ctx;
	ck_assert_int_eq(ripc_call_start(client.svc, &call), 0);
	victim_says(said, 't');
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(pthread_create(&newcomer.server.thread, NULL, come_later, &newcomer), 0);
	answer = take(client.svc, RIPC_REPLY);
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
	struct ripc_request call;
	struct pair pair;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, 0);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	question = take(pair.b.svc, RIPC_REQUEST);
	while (stats_of(pair.a.ctx).long_sent == 0)
		usleep(1000);
	ripc_msg_free(question);
	side_close(&pair.b);
	answer = take(pair.a.svc, RIPC_REPLY);
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
	struct ripc_request call;
	struct pair pair;

	both_open(&pair, _i);
	acquaint(&pair.a, &pair.b);
	call = call_to(pair.b.id, &ask, 1, _i);
	call.to_incarnation = ripc_service_incarnation(pair.b.svc);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	ripc_msg_free(take(pair.b.svc, RIPC_REQUEST));
	side_close(&pair.b);
	answer = take(pair.a.svc, RIPC_REPLY);
	ck_assert_int_eq(answer->status, -ECONNRESET);
	ck_assert_int_ne(answer->outcome, RIPC_NOT_DELIVERED);
	ripc_msg_free(answer);
	/* The short is repeated as a long message if the service is slow to close. */
	ck_assert_uint_le(stats_of(pair.a.ctx).calls_repeated, _i % 2 ? 1 : 0);
	side_close(&pair.a);
}
END_TEST

/* ---- what became of the question --------------------------------------------------------- */

/* B lives only as long as somebody turns its handle. */
static void both_open_slowly(struct pair *pair, int i)
{
	struct ripc_config cfg = config_of(i, 0), slow = config_of(i, RIPC_NO_THREAD);
	struct pump pump;

	caller_open(&pair->a, &cfg, 0);
	caller_open(&pair->b, &slow, 0);
	pump_start(&pump, pair->b.ctx);
	acquaint(&pair->a, &pair->b);
	pump_stop(&pump);
}

static void poll_until_asked(const struct side *server)
{
	struct ripc_msg *msg;

	while (ripc_receive(server->svc, 0, &msg))
		ripc_poll(server->ctx);
	ck_assert_int_eq(msg->kind, RIPC_REQUEST);
	ripc_msg_free(msg);
}

/* The short has arrived, is repeated as a long message, and this one is not delivered. */
START_TEST(call__this_incarnation_closes_when_asked_again)
{
	const struct iovec ask = item("?", 1);
	struct ripc_request call;
	struct ripc_msg *answer;
	struct pair pair;

	both_open_slowly(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, 1);
	call.to_incarnation = ripc_service_incarnation(pair.b.svc);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	poll_until_asked(&pair.b);
	while (stats_of(pair.a.ctx).calls_repeated == 0)
		usleep(1000);
	side_close(&pair.b);
	answer = take(pair.a.svc, RIPC_REPLY);
	ck_assert_int_eq(answer->status, -ECONNRESET);
	ck_assert_int_eq(answer->outcome, RIPC_UNKNOWN);
	ck_assert_uint_eq(stats_of(pair.a.ctx).calls_repeated, 1);
	ripc_msg_free(answer);
	side_close(&pair.a);
}
END_TEST

/* The question has arrived, which its asker learns only after it has called it off. */
START_TEST(cancel__of_what_was_delivered)
{
	const struct iovec ask = item("?", 1);
	struct ripc_request call;
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
	ck_assert_int_eq(answer->kind, RIPC_REPLY);
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
	struct ripc_request call;
	struct ripc_msg *answer;
	struct pair pair;

	both_open_slowly(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, 1);
	call.timeout_ms = 1500;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	poll_until_asked(&pair.b);
	side_close(&pair.b);
	answer = take(pair.a.svc, RIPC_REPLY);
	/* Had the short been repeated as a long message by then, that one was not delivered. */
	ck_assert(answer->status == -ECONNRESET || answer->status == -ETIMEDOUT);
	ck_assert_int_ne(answer->outcome, RIPC_NOT_DELIVERED);
	ck_assert_uint_ge(stats_of(pair.a.ctx).calls_repeated, 1);
	ripc_msg_free(answer);
	side_close(&pair.a);
}
END_TEST

/* The request may have arrived. */
START_TEST(service_close__while_it_asks)
{
	const struct iovec ask = item("?", 1);
	enum ripc_outcome asked = 0;
	struct ripc_request call;
	struct ripc_msg *answer;
	struct closer closer;
	struct pair pair;

	both_open_slowly(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	closer_start(&closer, &pair.a, 1);
	ck_assert_int_eq(ripc_call(pair.a.svc, &call, &answer, &asked), -ECANCELED);
	ck_assert_int_eq(asked, RIPC_UNKNOWN);
	pthread_join(closer.thread, NULL);
	pair_close(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct calls_test tests[] = {
		{ call__answered, false },
		{ call__of_other_versions, false },
		{ call__answered_into_return_buffers, false },
		{ call__answered_with_an_error, false },
		{ call__nobody_there, false },
		{ call__somebody_comes_in_time, false },
		{ call__server_says_nothing, false },
		{ call__server_is_killed, true },
		{ call__successor_answers, true },
		{ call__server_closes, false },
		{ call__this_incarnation_closes, false },
		{ call__this_incarnation_closes_when_asked_again, false },
		{ cancel__of_what_was_delivered, false },
		{ call__asked_again_in_vain, false },
		{ service_close__while_it_asks, false },
		{ NULL, false },
	};

	return calls_finish("call", tests, argc, argv);
}
