/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many calls between two contexts, out of order and called off, by each network
 * (tests/conformance), with questions that may be carried out once, and more often.
 */
#include "../../../support/util/heap.h"
#include "call_pair.h"

#define KEPT_BYTES 512u /* of the pool, for a question at most */
#define UNREAD     4200u /* answers: more than a service's queue has room for */
#define KEPT       100u  /* failures that are not freed */
#define UNREAD_OF_ONE 2048u /* messages of one partner, at least, that fill its part of the queue */
#define PUBLISHED_MAX 8192u
#define HUGE_LEN   (50u << 20)
#define CLIENTS    8u

/* An answer that went as a short may get lost. Its question is here again then, or comes. */
static void answer_again(struct ripc_service *svc)
{
	struct ripc_msg *question;

	while (ripc_receive(svc, 0, &question) == 0) {
		ck_assert_int_eq(question->kind, RIPC_REQUEST);
		ck_assert(question->flags & RIPC_IDEMPOTENT);
		ck_assert_int_eq(ripc_reply(svc, question, question->items, 1, 0), 0);
		ripc_msg_free(question);
	}
}

/* Beside notices that say when to try again. */
static struct ripc_msg *take_answer(const struct pair *pair)
{
	uint64_t until_ms = clock_ms() + PATIENCE_MS;
	struct ripc_msg *msg;

	while (clock_ms() < until_ms) {
		int error = ripc_receive(pair->a.svc, 10, &msg);

		ck_assert(error == 0 || error == -ETIMEDOUT);
		if (error == 0 && msg->kind == RIPC_REPLY)
			return msg;
		if (error == 0) {
			ck_assert_int_eq(msg->kind, RIPC_NOTICE);
			ripc_msg_free(msg);
		}
		answer_again(pair->b.svc);
	}
	ck_abort_msg("no answer");
}

/* In place of an earlier one, if it is a repetition. True: it is none. */
static bool question_keep(struct ripc_msg **questions, struct ripc_msg *question)
{
	struct ripc_msg *before;
	uint64_t number;

	ck_assert_int_eq(question->kind, RIPC_REQUEST);
	memcpy(&number, question->items[0].iov_base, sizeof(number));
	ck_assert(number < MANY);
	before = questions[number];
	ck_assert(!before || question->flags & RIPC_IDEMPOTENT);
	questions[number] = question;
	if (before)
		ripc_msg_free(before);
	return !before;
}

START_TEST(call_start__answered_in_any_order)
{
	struct ripc_msg **questions = calloc(MANY, sizeof(struct ripc_msg *));
	bool seen[MANY] = {false};
	uint64_t numbers[MANY], most;
	struct ripc_msg *question;
	struct pair pair;

	both_open(&pair, _i);
	most = stats_of(pair.b.ctx).pool_used_bytes + KEPT_BYTES * MANY;
	for (uint64_t n = 0; n < MANY; n++) {
		const struct iovec ask = item(&numbers[n], sizeof(numbers[n]));
		struct ripc_request call = call_to(pair.b.id, &ask, 1, _i);
		int error;

		numbers[n] = n;
		call.cookie = 1000 + n;
		while ((error = ripc_call_start(pair.a.svc, &call)) == -EAGAIN)
			usleep(1000);
		ck_assert_int_eq(error, 0);
	}
	for (uint32_t n = 0; n < MANY;)
		n += question_keep(questions, take(pair.b.svc, RIPC_REQUEST));
	/* The kept memory is small. Repeated questions that wait in the queue take room, too. */
	for (uint64_t until_ms = clock_ms() + PATIENCE_MS; clock_ms() < until_ms; usleep(1000)) {
		while (ripc_receive(pair.b.svc, 0, &question) == 0)
			question_keep(questions, question);
		if (stats_of(pair.b.ctx).pool_used_bytes <= most)
			break;
	}
	ck_assert_uint_le(stats_of(pair.b.ctx).pool_used_bytes, most);
	for (uint32_t n = MANY; n-- > 0;) {
		struct ripc_msg copy = *questions[n]; /* the kept part of a freed message */
		const struct iovec *items = questions[n]->items;

		ck_assert_int_eq(ripc_reply(pair.b.svc, &copy, items, 1, 0), 0);
		if (n % 2) /* dropped there */
			ck_assert_int_eq(ripc_reply(pair.b.svc, questions[n], items, 1, 0), 0);
		ripc_msg_free(questions[n]);
	}
	for (uint32_t n = 0; n < MANY; n++) {
		struct ripc_msg *answer = take_answer(&pair);
		uint64_t number = answer->request_cookie - 1000;

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
	struct ripc_request call;
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
		answer = take(pair.a.svc, RIPC_REPLY);
		ck_assert_int_eq(answer->status, -ECANCELED);
		ck_assert_uint_eq(answer->request_cookie, 77);
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
	struct ripc_request call;
	struct closer closer;
	struct pair pair;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0); /* forgotten */
	closer_start(&closer, &pair.a, 2);
	ck_assert_int_eq(ripc_call(pair.a.svc, &call, &answer, NULL), -ECANCELED);
	pthread_join(closer.thread, NULL);
	pair_close(&pair);
}
END_TEST

START_TEST(reply__to_who_is_gone)
{
	const struct iovec ask = item("?", 1);
	struct ripc_msg *question;
	struct ripc_request call;
	struct pair pair;
	uint64_t began_ms;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	question = take(pair.b.svc, RIPC_REQUEST);
	side_close(&pair.a);
	began_ms = clock_ms();
	for (int times = 0; times < 100; times++) {
		int error = ripc_reply(pair.b.svc, question, &ask, 1, 0);

		ck_assert(error == 0 || error == -ENOENT);
	}
	ck_assert_uint_lt(clock_ms() - began_ms, 5000); /* replies do not wait at all */
	ripc_msg_free(question);
	side_close(&pair.b);
}
END_TEST

/* A client that takes nothing for a while. */
START_TEST(reply__to_who_takes_none)
{
	struct ripc_config cfg = config_of(_i, 0), slow = config_of(_i, RIPC_NO_THREAD);
	const struct iovec ask = item("?", 1);
	struct ripc_msg *question;
	struct ripc_request call;
	struct pair pair;
	struct pump pump;
	uint32_t n = 0;
	int error;

	caller_open(&pair.a, &slow, 0);
	caller_open(&pair.b, &cfg, 0);
	call = call_to(pair.b.id, &ask, 1, _i);
	pump_start(&pump, pair.a.ctx);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	question = take(pair.b.svc, RIPC_REQUEST);
	pump_stop(&pump);
	while ((error = ripc_reply(pair.b.svc, question, &ask, 1, 0)) == 0)
		n++;
	ck_assert_int_eq(error, -EAGAIN);
	ck_assert_uint_ge(n, 4096);
	pump_start(&pump, pair.a.ctx);
	ripc_msg_free(take(pair.b.svc, RIPC_NOTICE));
	ck_assert_int_eq(ripc_reply(pair.b.svc, question, &ask, 1, 0), 0);
	pump_stop(&pump);
	ripc_msg_free(question);
	pair_close(&pair);
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
	struct ripc_request call;
	struct ripc_send send = {.size = sizeof(send), .items = &sent, .n_items = 1,
		.flags = RIPC_SEND_LONG, .timeout_ms = PATIENCE_MS};
	struct pair pair;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	call.returns = &returns;
	call.n_returns = 1;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	question = take(pair.b.svc, RIPC_REQUEST);
	send.to = question->from;
	send.reply_to = question->reply;
	ck_assert_int_eq(ripc_sendmsg(pair.b.svc, &send, NULL), 0);
	msg = take(pair.a.svc, RIPC_LONG);
	ck_assert(!msg->places || msg->places[0].place == RIPC_IN_POOL);
	ck_assert_int_eq(place[BIG - 1] | place[1], 0);
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_reply(pair.b.svc, question, &sent, 1, 0), 0);
	msg = take(pair.a.svc, RIPC_REPLY);
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
	struct ripc_request call;
	struct pair pair;

	both_open(&pair, _i);
	ck_assert_int_eq(ripc_window_post(pair.a.svc, &mem, 6), 0);
	call = call_to(pair.b.id, &ask, 1, _i);
	call.cookie = 5;
	for (uint32_t n = 0; n < 2; n++) {
		ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
		question = take(pair.b.svc, RIPC_REQUEST);
		if (n)
			ck_assert_int_eq(ripc_cancel(pair.a.svc, 5), 0);
		ck_assert_int_eq(ripc_reply(pair.b.svc, question, &long_item, 1, 0), 0);
		ripc_msg_free(question);
		answer = take(pair.a.svc, RIPC_REPLY);
		ck_assert_int_eq(answer->status, n ? -ECANCELED : 0);
		for (uint32_t i = 0; answer->places && i < answer->n_items; i++)
			ck_assert_uint_eq(answer->places[i].place,
				RIPC_IN_SENDER);
		ripc_msg_free(answer);
	}
	while (stats_of(pair.a.ctx).replies_late == 0)
		usleep(1000);
	ck_assert_int_eq(ripc_window_cancel(pair.a.svc, 6), 0);
	pair_close(&pair);
	free(window);
	free(big);
}
END_TEST

/* Replies that are not taken do not keep an answer from a waiting call. */
START_TEST(call__beside_a_full_queue)
{
	char *big = filled(BIG, 7);
	const struct iovec ask = item("?", 1), long_item = item(big, BIG);
	struct ripc_request call;
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

/* ---- beside messages that nobody reads --------------------------------------------------- */

/* A server that has sent its client so many messages that no more find room, or wait. */
struct publisher {
	struct server server; /* replies with what it is asked for: its contents are the request */
	pthread_t thread;
	char *big;
	uint32_t n_sent;
	atomic_uint n_ended;
	atomic_bool stop;
};

/* Numbers of ordered messages are those of sending. */
static void publish(struct publisher *publisher, const struct side *to, uint32_t flags)
{
	static uint32_t numbers[PUBLISHED_MAX];
	struct ripc_send send = {.size = sizeof(send), .to = to->id, .n_items = 1,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT | flags, .timeout_ms = 60000};
	struct ripc_msg *msg;
	int error;

	do {
		uint32_t n = publisher->n_sent;
		const struct iovec number = item(&numbers[n], sizeof(numbers[n]));

		ck_assert_uint_lt(n, PUBLISHED_MAX);
		numbers[n] = n;
		send.items = &number;
		error = ripc_sendmsg(publisher->server.svc, &send, NULL);
		ck_assert(error == 0 || error == -EAGAIN);
		publisher->n_sent += error == 0;
		while (ripc_receive(publisher->server.svc, error ? 1 : 0, &msg) == 0) {
			ck_assert(msg->kind == RIPC_NOTICE || msg->outcome == RIPC_DELIVERED);
			publisher->n_ended += msg->kind == RIPC_COMPLETION;
			ripc_msg_free(msg);
		}
	} while (error == 0 || publisher->n_sent - publisher->n_ended < 256 ||
			publisher->n_ended < UNREAD_OF_ONE);
}

/* Each reply is as long as its request says. */
static void *answer_lengths(void *arg)
{
	struct publisher *publisher = arg;
	struct ripc_msg *msg;

	while (!atomic_load(&publisher->stop)) {
		if (ripc_receive(publisher->server.svc, 10, &msg))
			continue;
		if (msg->kind == RIPC_REQUEST) {
			struct iovec reply = {publisher->big, 0};

			memcpy(&reply.iov_len, msg->items[0].iov_base, sizeof(reply.iov_len));
			ck_assert_int_eq(ripc_reply(publisher->server.svc, msg, &reply, 1, 0), 0);
		}
		publisher->n_ended += msg->kind == RIPC_COMPLETION;
		ripc_msg_free(msg);
	}
	return NULL;
}

/* The deadline of a call is much shorter than that of what waits. */
static void ask_for(const struct pair *pair, size_t len, int i)
{
	const struct iovec ask = item(&len, sizeof(len));
	struct ripc_request call = call_to(pair->b.id, &ask, 1, i);
	struct ripc_msg *reply;

	call.timeout_ms = PATIENCE_MS / 2;
	ck_assert_int_eq(ripc_call(pair->a.svc, &call, &reply, NULL), 0);
	ck_assert_uint_eq(reply->items[0].iov_len, len);
	check_filled(reply->items[0].iov_base, len, 7);
	ripc_msg_free(reply);
}

/* Each published message arrives once, and in its order if it has one. */
static void read_all(const struct side *to, uint32_t n_sent, bool ordered)
{
	bool seen[PUBLISHED_MAX] = {false};

	for (uint32_t n = 0; n < n_sent; n++) {
		struct ripc_msg *msg = take(to->svc, RIPC_LONG);
		uint32_t number;

		memcpy(&number, msg->items[0].iov_base, sizeof(number));
		ck_assert_uint_lt(number, n_sent);
		ck_assert(!seen[number]);
		ck_assert(!ordered || number == n);
		seen[number] = true;
		ripc_msg_free(msg);
	}
	check_nothing(to->svc);
}

/* Replies have room of their own: what is unread, and what waits behind it, delays none. */
START_TEST(call__beside_unread_messages)
{
	static const size_t lens[] = {1, 1000, 65536, 5u << 20};
	struct publisher publisher = {.big = filled(5u << 20, 7)};
	struct pair pair;

	both_open(&pair, _i);
	acquaint(&pair.a, &pair.b);
	publisher.server.svc = pair.b.svc;
	publish(&publisher, &pair.a, _i % 2 ? RIPC_ORDERED : 0);
	ck_assert_uint_ge(publisher.n_sent, UNREAD_OF_ONE + 256);
	ck_assert_int_eq(pthread_create(&publisher.thread, NULL, answer_lengths, &publisher), 0);
	for (uint32_t n = 0; n < 3 * sizeof(lens) / sizeof(lens[0]); n++)
		ask_for(&pair, lens[n % (sizeof(lens) / sizeof(lens[0]))], _i);
	ck_assert_uint_lt(publisher.n_ended, publisher.n_sent);
	read_all(&pair.a, publisher.n_sent, _i % 2);
	atomic_store(&publisher.stop, true);
	pthread_join(publisher.thread, NULL);
	pair_close(&pair);
	free(publisher.big);
}
END_TEST

static size_t open_and_close(int i)
{
	const struct iovec ask = item("?", 1);
	struct ripc_request call = call_to(nobody + 400 + (uint64_t)i, &ask, 1, i);
	struct ripc_config cfg = config_of(i, 0);
	struct ripc_msg *replies[KEPT];
	struct side side;

	caller_open(&side, &cfg, 0);
	call.timeout_ms = 1;
	for (uint32_t n = 0; n < KEPT; n++) {
		ck_assert_int_eq(ripc_call_start(side.svc, &call), 0);
		replies[n] = take(side.svc, RIPC_REPLY);
	}
	side_close(&side);
	for (uint32_t n = 0; n < KEPT; n++) {
		ck_assert_int_lt(replies[n]->status, 0);
		ripc_msg_free(replies[n]);
	}
	return heap_bytes();
}

/* Messages are readable after their context was closed. With the last of them all is freed. */
START_TEST(close__with_failures_kept)
{
	size_t before;

	(void)open_and_close(_i); /* state that is allocated once and for all */
	before = open_and_close(_i);
	ck_assert_uint_lt(open_and_close(_i), before + KEPT * sizeof(struct ripc_msg));
}
END_TEST

START_TEST(reply__given)
{
	const struct iovec ask = item("?", 1);
	struct ripc_msg *answer, *question;
	struct ripc_request call;
	struct iovec given;
	struct pair pair;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	question = take(pair.b.svc, RIPC_REQUEST);
	given = item(pool_filled(pair.b.ctx, BIG, 3), BIG);
	ck_assert_int_eq(ripc_reply(pair.b.svc, question, &ask, 1, RIPC_GIVE), -EINVAL);
	ck_assert_int_eq(ripc_reply(pair.b.svc, question, &given, 1, RIPC_GIVE), 0);
	ripc_msg_free(question);
	answer = take(pair.a.svc, RIPC_REPLY);
	ck_assert_uint_eq(answer->items[0].iov_len, BIG);
	check_filled(answer->items[0].iov_base, BIG, 3);
	ripc_msg_free(answer);
	while (stats_of(pair.b.ctx).pool_used_bytes >= BIG)
		ripc_poll(pair.b.ctx);
	pair_close(&pair);
}
END_TEST

/* By shm the answer is read where it is, unless the question has lent a place for it. */
START_TEST(reply__given_is_mapped)
{
	const struct iovec ask = item("?", 1);
	const char *backend = calls_world.backends[_i / 2];
	const uint64_t mapped = strcmp(backend, "shm") && strcmp(backend, "loop") ? 0 : BIG;
	char *place = calloc(1, BIG);
	const struct ripc_buffer returns = {.mem = {place, BIG}};
	struct ripc_msg *answer, *question;
	struct ripc_request call;
	struct iovec given;
	struct pair pair;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	for (uint32_t n = 0; n < 2; n++) {
		call.returns = &returns;
		call.n_returns = n;
		ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
		question = take(pair.b.svc, RIPC_REQUEST);
		given = item(pool_filled(pair.b.ctx, BIG, 3), BIG);
		ck_assert_int_eq(ripc_reply(pair.b.svc, question, &given, 1, RIPC_GIVE), 0);
		ripc_msg_free(question);
		answer = take(pair.a.svc, RIPC_REPLY);
		check_filled(answer->items[0].iov_base, BIG, 3);
		ck_assert_int_eq(answer->items[0].iov_base == place, n);
		ck_assert_uint_eq(stats_of(pair.a.ctx).mapped_bytes, mapped);
		ripc_msg_free(answer);
	}
	pair_close(&pair);
	free(place);
}
END_TEST

/* The length, if the network can map transferred memory, else 0. */
static uint64_t in_place(int i, uint64_t bytes)
{
	const char *backend = calls_world.backends[i / 2];

	return strcmp(backend, "shm") && strcmp(backend, "loop") ? 0 : bytes;
}

/* A window is for messages: what is given as a reply is read in place beside it. */
START_TEST(reply__given_beside_a_window)
{
	char *window = malloc(BIG);
	const struct iovec mem = {window, BIG}, ask = item("?", 1);
	struct ripc_msg *answer, *question;
	struct ripc_request call;
	struct iovec given;
	struct pair pair;

	both_open(&pair, _i);
	ck_assert_int_eq(ripc_window_post(pair.a.svc, &mem, 6), 0);
	call = call_to(pair.b.id, &ask, 1, _i);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	question = take(pair.b.svc, RIPC_REQUEST);
	given = item(pool_filled(pair.b.ctx, BIG, 3), BIG);
	ck_assert_int_eq(ripc_reply(pair.b.svc, question, &given, 1, RIPC_GIVE), 0);
	ripc_msg_free(question);
	answer = take(pair.a.svc, RIPC_REPLY);
	check_filled(answer->items[0].iov_base, BIG, 3);
	ck_assert_uint_eq(stats_of(pair.a.ctx).mapped_bytes, in_place(_i, BIG));
	ripc_msg_free(answer);
	ck_assert_int_eq(ripc_window_cancel(pair.a.svc, 6), 0);
	pair_close(&pair);
	free(window);
}
END_TEST

/* The memory of a reply held a request before: at the second time at the latest it is mapped. */
START_TEST(reply__given_in_used_memory)
{
	char *big = filled(BIG, 7);
	const struct iovec ask = item(big, BIG);
	struct ripc_msg *answer, *question, kept;
	struct ripc_request call;
	struct iovec given;
	struct pair pair;

	both_open(&pair, _i);
	call = call_to(pair.b.id, &ask, 1, _i);
	for (uint32_t n = 0; n < 5; n++) {
		uint64_t mapped = stats_of(pair.a.ctx).mapped_bytes;

		ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
		question = take(pair.b.svc, RIPC_REQUEST);
		kept = *question;
		ripc_msg_free(question);
		ck_assert_int_eq(ripc_buf_alloc(pair.b.ctx, BIG, &given.iov_base), 0);
		fill(given.iov_base, BIG, 3);
		given.iov_len = BIG;
		ck_assert_int_eq(ripc_reply(pair.b.svc, &kept, &given, 1, RIPC_GIVE), 0);
		answer = take(pair.a.svc, RIPC_REPLY);
		check_filled(answer->items[0].iov_base, BIG, 3);
		mapped = stats_of(pair.a.ctx).mapped_bytes - mapped;
		ck_assert(n == 0 || mapped == in_place(_i, BIG));
		ripc_msg_free(answer);
	}
	pair_close(&pair);
	free(big);
}
END_TEST

static void pool_becomes_empty(struct ripc_context *ctx)
{
	uint64_t until_ms = clock_ms() + PATIENCE_MS;

	while (stats_of(ctx).pool_used_bytes >= BIG && clock_ms() < until_ms)
		usleep(1000);
	ck_assert_uint_lt(stats_of(ctx).pool_used_bytes, BIG);
}

/* The server reads the request in place, also longer than the call takes. */
START_TEST(call__given)
{
	struct ripc_msg *answer, *question;
	struct ripc_request call;
	struct iovec given[2];
	struct pair pair;

	both_open(&pair, _i);
	given[0] = item(pool_filled(pair.a.ctx, 100, 1), 100);
	given[1] = item(pool_filled(pair.a.ctx, BIG, 2), BIG);
	call = call_to(pair.b.id, given, 2, _i);
	call.flags |= RIPC_GIVE;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	question = take(pair.b.svc, RIPC_REQUEST);
	ck_assert_uint_eq(question->n_items, 2);
	check_filled(question->items[0].iov_base, 100, 1);
	ck_assert_uint_eq(stats_of(pair.b.ctx).mapped_bytes, in_place(_i, BIG));
	ck_assert_int_eq(ripc_reply(pair.b.svc, question, question->items, 1, 0), 0);
	answer = take(pair.a.svc, RIPC_REPLY);
	ck_assert_int_eq(answer->status, 0);
	check_filled(answer->items[0].iov_base, 100, 1);
	ripc_msg_free(answer);
	check_filled(question->items[1].iov_base, BIG, 2);
	ripc_msg_free(question);
	pool_becomes_empty(pair.a.ctx);
	pair_close(&pair);
}
END_TEST

/*
 * A message that was certainly not delivered stays the caller's; one with an unreported end is
 * dropped.
 */
START_TEST(call__given_to_nobody)
{
	struct ripc_msg *answer;
	struct ripc_request call;
	uint32_t outcome = 0;
	struct iovec given;
	struct pair pair;

	both_open(&pair, _i);
	given = item(pool_filled(pair.a.ctx, BIG, 2), BIG);
	call = call_to(nobody + 500 + (uint64_t)_i, &given, 1, _i);
	call.flags |= RIPC_GIVE;
	call.timeout_ms = 100;
	ck_assert_int_lt(ripc_call(pair.a.svc, &call, &answer, &outcome), 0);
	ck_assert_int_eq(outcome, RIPC_NOT_DELIVERED);
	ck_assert_int_eq(ripc_buf_refs(pair.a.ctx, given.iov_base), 1);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	answer = take(pair.a.svc, RIPC_REPLY);
	ck_assert_int_eq(answer->outcome, RIPC_NOT_DELIVERED);
	ripc_msg_free(answer);
	ck_assert_int_eq(ripc_buf_refs(pair.a.ctx, given.iov_base), 1);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	while (stats_of(pair.a.ctx).calls_open)
		usleep(1000);
	ck_assert_int_eq(ripc_service_close(pair.a.svc), 0);
	ck_assert_int_eq(ripc_buf_refs(pair.a.ctx, given.iov_base), -EINVAL);
	pool_becomes_empty(pair.a.ctx);
	pair_close(&pair);
}
END_TEST

/* Calls that are open when their service is closed: the server has one, and the other waits. */
START_TEST(service_close__before_given_calls_end)
{
	struct ripc_msg *question, *answer;
	struct ripc_request call;
	uint32_t outcome = 0;
	struct iovec given;
	struct closer closer;
	struct pair pair;

	both_open(&pair, _i);
	given = item(pool_filled(pair.a.ctx, BIG, 2), BIG);
	call = call_to(pair.b.id, &given, 1, _i);
	call.flags |= RIPC_GIVE;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	question = take(pair.b.svc, RIPC_REQUEST);
	given = item(pool_filled(pair.a.ctx, BIG, 3), BIG);
	closer_start(&closer, &pair.a, 2);
	ck_assert_int_eq(ripc_call(pair.a.svc, &call, &answer, &outcome), -ECANCELED);
	pthread_join(closer.thread, NULL);
	if (outcome == RIPC_NOT_DELIVERED)
		ck_assert_int_eq(ripc_buf_free(pair.a.ctx, given.iov_base), 0);
	check_filled(question->items[0].iov_base, BIG, 2);
	ripc_msg_free(question);
	while (ripc_receive(pair.b.svc, 0, &question) == 0)
		ripc_msg_free(question);
	pool_becomes_empty(pair.a.ctx);
	pair_close(&pair);
}
END_TEST

/* An attempt that gets no reply, and a second one: both have references, and the caller's goes. */
START_TEST(call__given_is_repeated)
{
	struct ripc_msg *question, *answer;
	struct ripc_request call;
	struct iovec given;
	struct pair pair;

	both_open(&pair, _i);
	given = item(pool_filled(pair.a.ctx, 100, 2), 100);
	ck_assert_int_eq(ripc_buf_ref(pair.a.ctx, given.iov_base), 0);
	call = call_to(pair.b.id, &given, 1, _i);
	call.flags |= RIPC_GIVE;
	acquaint(&pair.a, &pair.b);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	question = take(pair.b.svc, RIPC_REQUEST);
	if (question->flags & RIPC_ASKED_SHORTLY) {
		ripc_msg_free(question);
		question = take(pair.b.svc, RIPC_REQUEST);
	}
	ck_assert_int_eq(ripc_reply(pair.b.svc, question, question->items, 1, 0), 0);
	ripc_msg_free(question);
	answer = take(pair.a.svc, RIPC_REPLY);
	ck_assert_int_eq(answer->status, 0);
	ripc_msg_free(answer);
	while (ripc_buf_refs(pair.a.ctx, given.iov_base) != 1)
		usleep(1000);
	ck_assert_int_eq(ripc_buf_free(pair.a.ctx, given.iov_base), 0);
	pair_close(&pair);
}
END_TEST

/* Requests and replies of 50 MB, from many clients at once: none is copied, at either end. */
START_TEST(call__of_50_mb)
{
	struct iovec given = {.iov_len = HUGE_LEN}, reply = {.iov_len = HUGE_LEN};
	struct ripc_config cfg = config_of(_i, 0);
	struct side clients[CLIENTS], server;
	struct ripc_request call;
	struct ripc_msg *msg;

	if (!in_place(_i, 1))
		return;
	caller_open(&server, &cfg, 0);
	ck_assert_int_eq(ripc_buf_alloc(server.ctx, HUGE_LEN, &reply.iov_base), 0);
	memset(reply.iov_base, 'r', HUGE_LEN);
	call = call_to(server.id, &given, 1, _i);
	call.flags |= RIPC_GIVE;
	for (uint32_t n = 0; n < CLIENTS; n++) {
		caller_open(&clients[n], &cfg, 0);
		ck_assert_int_eq(ripc_buf_alloc(clients[n].ctx, HUGE_LEN, &given.iov_base), 0);
		memset(given.iov_base, 'q', HUGE_LEN);
		ck_assert_int_eq(ripc_call_start(clients[n].svc, &call), 0);
	}
	for (uint32_t n = 0; n < CLIENTS; n++) {
		msg = take(server.svc, RIPC_REQUEST);
		ck_assert_uint_eq(msg->items[0].iov_len, HUGE_LEN);
		ck_assert_int_eq(((char *)msg->items[0].iov_base)[HUGE_LEN - 1], 'q');
		ck_assert_int_eq(ripc_buf_ref(server.ctx, reply.iov_base), 0);
		ck_assert_int_eq(ripc_reply(server.svc, msg, &reply, 1, RIPC_GIVE), 0);
		ripc_msg_free(msg);
	}
	ck_assert_uint_eq(stats_of(server.ctx).mapped_bytes, (uint64_t)CLIENTS * HUGE_LEN);
	ck_assert_uint_eq(stats_of(server.ctx).read_bytes, 0);
	ck_assert_uint_eq(stats_of(server.ctx).sends_from_foreign_memory, 0);
	for (uint32_t n = 0; n < CLIENTS; n++) {
		msg = take(clients[n].svc, RIPC_REPLY);
		ck_assert_uint_eq(msg->items[0].iov_len, HUGE_LEN);
		ck_assert_int_eq(((char *)msg->items[0].iov_base)[HUGE_LEN - 1], 'r');
		ripc_msg_free(msg);
		ck_assert_uint_eq(stats_of(clients[n].ctx).mapped_bytes, HUGE_LEN);
		ck_assert_uint_eq(stats_of(clients[n].ctx).read_bytes, 0);
		ck_assert_uint_eq(stats_of(clients[n].ctx).sends_from_foreign_memory, 0);
		pool_becomes_empty(clients[n].ctx);
		side_close(&clients[n]);
	}
	ck_assert_int_eq(ripc_buf_free(server.ctx, reply.iov_base), 0);
	pool_becomes_empty(server.ctx);
	side_close(&server);
}
END_TEST

START_TEST(call__bad_arguments)
{
	const struct iovec ask = item("?", 1);
	struct ripc_msg *answer = NULL, none = {.kind = RIPC_SHORT, .from = 1, .reply = 1};
	struct ripc_request call;
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
	call.flags = RIPC_GIVE; /* memory in no buffer of the pool */
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), -EINVAL);
	call.flags = 0;
	call.n_returns = 1;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), -EINVAL);
	call.n_returns = 0;
	call.to = 0;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), -EINVAL);
	ck_assert_int_eq(ripc_reply(pair.a.svc, &none, &ask, 1, 0), -EINVAL);
	none.kind = RIPC_REQUEST;
	ck_assert_int_eq(ripc_reply(pair.a.svc, &none, &ask, 1, RIPC_NOWAIT), -EINVAL);
	ck_assert_int_eq(ripc_reply_error(pair.a.svc, &none, 0), -EINVAL);
	ck_assert_int_eq(ripc_reply_error(pair.a.svc, &none, -4096), -EINVAL);
	ck_assert_ptr_null(answer);
	check_nothing(pair.a.svc);
	pair_close(&pair);
}
END_TEST

int main(int argc, char **argv)
{
	const struct calls_test tests[] = {
		{ call_start__answered_in_any_order, false },
		{ cancel__of_calls, false },
		{ service_close__ends_calls, false },
		{ reply__to_who_is_gone, false },
		{ reply__to_who_takes_none, false },
		{ sendmsg__in_place_of_a_reply, false },
		{ window__is_not_for_answers, false },
		{ call__beside_a_full_queue, false },
		{ call__beside_unread_messages, false },
		{ close__with_failures_kept, false },
		{ reply__given, false },
		{ reply__given_is_mapped, false },
		{ reply__given_beside_a_window, false },
		{ reply__given_in_used_memory, false },
		{ call__given, false },
		{ call__given_to_nobody, false },
		{ service_close__before_given_calls_end, false },
		{ call__given_is_repeated, false },
		{ call__of_50_mb, false },
		{ call__bad_arguments, false },
		{ NULL, false },
	};

	return calls_finish("call_many", tests, argc, argv);
}
