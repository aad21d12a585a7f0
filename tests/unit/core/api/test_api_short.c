/* SPDX-License-Identifier: BSD-3-Clause */
/* Short messages through the public calls, over UDP loopback. */
#include "api.h"

/* Sends n items of the given lengths and compares what arrives. */
static void exchange(const struct pair *pair, const size_t *lens, uint32_t n)
{
	struct iovec items[RIPC_ITEMS_MAX];
	struct ripc_msg *msg;

	for (uint32_t i = 0; i < n; i++)
		items[i] = item(filled(lens[i], 100 + i), lens[i]);
	ck_assert_int_eq(ripc_send_short(pair->a.svc, pair->b.id, items, n), 0);
	msg = take(pair->b.svc, RIPC_SHORT);
	ck_assert_uint_eq(msg->from, pair->a.id);
	ck_assert_uint_eq(msg->from_incarnation, ripc_service_incarnation(pair->a.svc));
	ck_assert_ptr_null(msg->places);
	ck_assert_uint_eq(msg->reply, 0);
	ck_assert_uint_eq(msg->n_items, n);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_uint_eq(msg->items[i].iov_len, lens[i]);
		check_filled(msg->items[i].iov_base, lens[i], 100 + i);
		free(items[i].iov_base);
	}
	ripc_msg_free(msg);
}

START_TEST(send_short__one_item)
{
	struct pair pair;

	pair_open(&pair);
	for (size_t len = 0; len <= RIPC_SHORT_MIN; len += 128)
		exchange(&pair, &len, 1);
	pair_close(&pair);
}
END_TEST

START_TEST(send_short__many_items)
{
	size_t lens[RIPC_ITEMS_MAX];
	struct pair pair;

	pair_open(&pair);
	for (uint32_t i = 0; i < RIPC_ITEMS_MAX; i++)
		lens[i] = i % 3 ? i % 7 : 0;
	acquaint(&pair.a, &pair.b);
	for (uint32_t n = 1; n <= RIPC_ITEMS_MAX; n += 9)
		exchange(&pair, lens, n);
	exchange(&pair, lens, RIPC_ITEMS_MAX);
	pair_close(&pair);
}
END_TEST

START_TEST(send_short__nothing_in_it)
{
	const size_t none[3] = {0, 0, 0};
	struct pair pair;

	pair_open(&pair);
	exchange(&pair, none, 1);
	exchange(&pair, none, 3);
	pair_close(&pair);
}
END_TEST

/* The items are the caller's again on return, also when the partner has yet to be found. */
START_TEST(send_short__items_are_free_on_return)
{
	const size_t len = 300;
	char *bytes = filled(len, 1);
	const struct iovec one = item(bytes, len);
	struct ripc_msg *msg;
	struct pair pair;

	pair_open(&pair);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &one, 1), 0);
	memset(bytes, 0, len);
	msg = take(pair.b.svc, RIPC_SHORT);
	check_filled(msg->items[0].iov_base, len, 1);
	ripc_msg_free(msg);
	free(bytes);
	pair_close(&pair);
}
END_TEST

START_TEST(send_short__to_itself)
{
	struct pair pair;

	pair_open(&pair);
	acquaint(&pair.a, &pair.a);
	pair_close(&pair);
}
END_TEST

START_TEST(send_short__between_services_of_one_context)
{
	struct ripc_service *other;
	struct side second;
	struct pair pair;

	pair_open(&pair);
	ck_assert_int_eq(ripc_service_open(pair.a.ctx, 0, 0, &other), 0);
	second = (struct side){pair.a.ctx, other, ripc_service_id(other)};
	acquaint(&pair.a, &second);
	acquaint(&second, &pair.b);
	pair_close(&pair);
}
END_TEST

START_TEST(send_short__too_long)
{
	struct ripc_path path = {.size = sizeof(path)};
	struct pair pair;
	struct iovec one;
	size_t longest;

	pair_open(&pair);
	acquaint(&pair.a, &pair.b);
	ck_assert_int_eq(ripc_path_info(pair.a.svc, pair.b.id, &path), 0);
	longest = path.short_max_bytes;
	ck_assert_uint_ge(longest, RIPC_SHORT_MIN);
	exchange(&pair, &longest, 1);
	one = item(filled(longest + 1, 1), longest + 1);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &one, 1), -EMSGSIZE);
	free(one.iov_base);
	exchange(&pair, &longest, 1);
	check_nothing(pair.b.svc);
	pair_close(&pair);
}
END_TEST

/* A message of the length from ripc_path_info() passes as the very first message, too. */
START_TEST(send_short__longest_first)
{
	struct ripc_path path = {.size = sizeof(path)};
	struct pair pair;
	size_t longest;

	pair_open(&pair);
	ck_assert_int_eq(ripc_resolve(pair.a.ctx, pair.b.id, PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_path_info(pair.a.svc, pair.b.id, &path), 0);
	longest = path.short_max_bytes;
	exchange(&pair, &longest, 1);
	pair_close(&pair);
}
END_TEST

/* The answer to a first message may be as long as any. */
START_TEST(send_short__longest_as_first_answer)
{
	const struct iovec question = item("question", 8);
	struct ripc_path path = {.size = sizeof(path)};
	struct ripc_msg *msg;
	struct pair pair;
	struct iovec one;
	size_t longest;

	pair_open(&pair);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &question, 1), 0);
	msg = take(pair.b.svc, RIPC_SHORT);
	ck_assert_int_eq(ripc_path_info(pair.b.svc, msg->from, &path), 0);
	longest = path.short_max_bytes;
	one = item(filled(longest, 3), longest);
	ck_assert_int_eq(ripc_send_short(pair.b.svc, msg->from, &one, 1), 0);
	ripc_msg_free(msg);
	msg = take(pair.a.svc, RIPC_SHORT);
	check_filled(msg->items[0].iov_base, longest, 3);
	ripc_msg_free(msg);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

START_TEST(send_short__bad_arguments)
{
	struct iovec items[RIPC_ITEMS_MAX + 1] = {{"x", 1}};
	const struct iovec nowhere = {NULL, 1};
	struct pair pair;

	pair_open(&pair);
	ck_assert_int_eq(ripc_send_short(NULL, pair.b.id, items, 1), -EINVAL);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, 0, items, 1), -EINVAL);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, NULL, 1), -EINVAL);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, items, 0), -EINVAL);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &nowhere, 1), -EINVAL);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, items, RIPC_ITEMS_MAX + 1),
		-EINVAL);
	acquaint(&pair.a, &pair.b);
	pair_close(&pair);
}
END_TEST

/* Nobody has the ID: an error, at once or after the question has been asked; never a hang. */
START_TEST(send_short__nobody_there)
{
	const struct iovec one = item("x", 1);
	struct side side;
	uint32_t held;
	int error;

	side_open(&side, 0);
	error = ripc_send_short(side.svc, nobody, &one, 1);
	ck_assert(error == 0 || error == -ENOENT);
	/* Known for a second: whoever was stopped for as long asks again. */
	for (held = error == 0, error = 0; held < 10 && !error; held += !error) {
		ck_assert_int_eq(ripc_resolve(side.ctx, nobody, PATIENCE_MS), -ENOENT);
		error = ripc_send_short(side.svc, nobody, &one, 1);
	}
	ck_assert_int_eq(error, -ENOENT);
	ck_assert_uint_eq(stats_of(side.ctx).drop_send_unresolved, held);
	side_close(&side);
}
END_TEST

/* While the partner is being looked for, a few are held; the others meet -EAGAIN. */
START_TEST(send_short__pending_is_bounded)
{
	const struct iovec one = item("x", 1);
	uint32_t held = 0;
	struct side side;
	int error = 0;

	side_open(&side, RIPC_NO_THREAD);
	for (int i = 0; i < 1000 && !error; i++) {
		error = ripc_send_short(side.svc, nobody, &one, 1);
		held += error == 0;
	}
	ck_assert_int_eq(error, -EAGAIN);
	ck_assert_uint_ge(held, 1);
	ck_assert_int_eq(ripc_resolve(side.ctx, nobody, PATIENCE_MS), -ENOENT);
	ck_assert_uint_eq(stats_of(side.ctx).drop_send_unresolved, held);
	side_close(&side);
}
END_TEST

/* A receiver that is too slow loses messages, and both are counted. */
START_TEST(send_short__receiver_too_slow)
{
	const struct iovec one = item("0123456789", 10);
	struct ripc_stats stats;
	uint64_t received = 0;
	struct ripc_msg *msg;
	struct pair pair;

	pair_open(&pair);
	acquaint(&pair.a, &pair.b);
	for (int i = 0; i < 10000; i++) {
		int error = ripc_send_short(pair.a.svc, pair.b.id, &one, 1);

		ck_assert(error == 0 || error == -EAGAIN);
	}
	while (ripc_receive(pair.b.svc, 2000, &msg) == 0) {
		received++;
		ripc_msg_free(msg);
	}
	stats = stats_of(pair.b.ctx);
	ck_assert_uint_le(received, 10000);
	ck_assert_uint_ge(received, 1000);
	ck_assert_uint_eq(stats.short_received, received + 1); /* one of acquaint */
	if (received < stats_of(pair.a.ctx).short_sent - 1)
		ck_assert_uint_gt(stats.drop_queue_full + stats.drop_receive_buffer, 0);
	pair_close(&pair);
}
END_TEST

START_TEST(sendmsg__short_to_incarnation)
{
	const struct iovec one = item("x", 1);
	struct ripc_send send = {.size = sizeof(send), .items = &one, .n_items = 1};
	struct pair pair;

	pair_open(&pair);
	acquaint(&pair.a, &pair.b);
	send.to = pair.b.id;
	send.to_incarnation = ripc_service_incarnation(pair.b.svc);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	ripc_msg_free(take(pair.b.svc, RIPC_SHORT));
	send.to_incarnation++;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -ENOENT);
	check_nothing(pair.b.svc);
	pair_close(&pair);
}
END_TEST

/* A short may lend return buffers; its short answer lands there if it fits, else in the pool. */
START_TEST(sendmsg__short_answer_in_return_buffer)
{
	const struct iovec question = item("question", 8);
	const struct iovec answers[2] = {item("yes", 3), item("no, for several reasons", 23)};
	struct ripc_send send = {.size = sizeof(send), .items = &question, .n_items = 1};
	char place[8];
	const struct ripc_buffer lent = {.mem = item(place, sizeof(place)), .cookie = 5};
	struct pair pair;

	pair_open(&pair);
	for (int i = 0; i < 2; i++) {
		struct ripc_send answer = {.size = sizeof(answer), .items = &answers[i],
			.n_items = 1};
		struct ripc_msg *msg;

		send.to = pair.b.id;
		send.returns = &lent;
		send.n_returns = 1;
		send.cookie = 70;
		ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
		msg = take(pair.b.svc, RIPC_SHORT);
		ck_assert_uint_ne(msg->reply, 0);
		answer.to = msg->from;
		answer.reply_to = msg->reply;
		ck_assert_int_eq(ripc_sendmsg(pair.b.svc, &answer, NULL), 0);
		ripc_msg_free(msg);
		msg = take(pair.a.svc, RIPC_SHORT);
		ck_assert_uint_eq(msg->items[0].iov_len, answers[i].iov_len);
		ck_assert_mem_eq(msg->items[0].iov_base, answers[i].iov_base, answers[i].iov_len);
		ck_assert_int_eq(msg->places != NULL, i == 0);
		if (msg->places) {
			ck_assert_int_eq(msg->places[0].place, RIPC_IN_RETURN);
			ck_assert_uint_eq(msg->places[0].cookie, 5);
			ck_assert_ptr_eq(msg->items[0].iov_base, place);
		}
		ripc_msg_free(msg);
		/* Used windows have come back; unused ones are still posted. */
		ck_assert_int_eq(ripc_cancel(pair.a.svc, 70), i == 0 ? -ENOENT : 0);
	}
	pair_close(&pair);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		send_short__one_item, send_short__many_items, send_short__nothing_in_it,
		send_short__items_are_free_on_return, send_short__to_itself,
		send_short__between_services_of_one_context, send_short__too_long,
		send_short__longest_first, send_short__longest_as_first_answer,
		send_short__bad_arguments, send_short__nobody_there,
		send_short__pending_is_bounded, send_short__receiver_too_slow,
		sendmsg__short_to_incarnation, sendmsg__short_answer_in_return_buffer, NULL,
	};

	return suite_run("api_short", tests);
}
