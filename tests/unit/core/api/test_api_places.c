/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory through the public calls: where items land, who holds a reference, what is foreign. */
#include "api.h"

static void send_items(const struct side *from, const struct side *to, const size_t *lens,
		uint32_t n)
{
	struct iovec items[RIPC_ITEMS_MAX] = {{0}};

	for (uint32_t i = 0; i < n; i++)
		items[i] = item(filled(lens[i], i), lens[i]);
	ck_assert_int_eq(ripc_send_long(from->svc, to->id, items, n, PATIENCE_MS), 0);
	for (uint32_t i = 0; i < n; i++)
		free(items[i].iov_base);
}

static void check_items(const struct ripc_msg *msg, const size_t *lens, uint32_t n)
{
	ck_assert_uint_eq(msg->n_items, n);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_uint_eq(msg->items[i].iov_len, lens[i]);
		check_filled(msg->items[i].iov_base, lens[i], i);
	}
}

/* ---- windows ----------------------------------------------------------------------------- */

static void post(const struct side *side, void *bytes, size_t len, uint64_t cookie)
{
	const struct iovec mem = item(bytes, len);

	ck_assert_int_eq(ripc_window_post(side->svc, &mem, cookie), 0);
}

static void check_place(const struct ripc_msg *msg, uint32_t i, const void *bytes, uint64_t cookie)
{
	ck_assert_ptr_nonnull(msg->places);
	ck_assert_int_eq(msg->places[i].place, RIPC_IN_WINDOW);
	ck_assert_uint_eq(msg->places[i].cookie, cookie);
	ck_assert_ptr_eq(msg->places[i].mem.iov_base, bytes);
	ck_assert_ptr_eq(msg->items[i].iov_base, bytes);
}

/* The first that fits, in the order of posting; small messages and large ones alike. */
START_TEST(window_post__first_that_fits)
{
	static char small[100], large[200000], large_too[200000];
	static const size_t lens[] = {150, 80, 150000, 10};
	const void *const expected[] = {large, small, large_too, NULL};
	struct ripc_msg *msg;
	struct pair pair;

	pair_open(&pair);
	post(&pair.b, small, sizeof(small), 1);
	post(&pair.b, large, sizeof(large), 2);
	post(&pair.b, large_too, sizeof(large_too), 3);
	for (size_t i = 0; i < 4; i++) {
		send_items(&pair.a, &pair.b, &lens[i], 1);
		msg = take(pair.b.svc, RIPC_LONG);
		check_items(msg, &lens[i], 1);
		if (expected[i])
			check_place(msg, 0, expected[i], i == 0 ? 2 : i == 1 ? 1 : 3);
		else
			ck_assert_ptr_null(msg->places);
		ripc_msg_free(msg);
	}
	pair_close(&pair);
}
END_TEST

START_TEST(window_post__each_item_its_own)
{
	static const size_t lens[] = {1000, 0, 50, 90000};
	static char one[1000], two[10], three[90000];
	struct ripc_msg *msg;
	struct pair pair;

	pair_open(&pair);
	post(&pair.b, one, sizeof(one), 11);
	post(&pair.b, two, sizeof(two), 12);
	post(&pair.b, three, sizeof(three), 13);
	send_items(&pair.a, &pair.b, lens, 4);
	msg = take(pair.b.svc, RIPC_LONG);
	check_items(msg, lens, 4);
	check_place(msg, 0, one, 11);
	check_place(msg, 1, two, 12);
	check_place(msg, 2, three, 13); /* the first that fits, though it is much larger */
	ck_assert_int_eq(msg->places[3].place, RIPC_IN_POOL);
	ripc_msg_free(msg);
	pair_close(&pair);
}
END_TEST

/* An item finds no place: then none is used, and all windows are there for the next message, in
 * the order in which they were posted, not in that in which they were tried. */
START_TEST(window_post__all_or_none)
{
	static const size_t too_much[] = {20, 10, 9 << 20}, fits[] = {10, 20};
	struct iovec items[3] = {{0}};
	static char one[16], two[32], three[32];
	struct ripc_config cfg = api_config(0);
	struct ripc_msg *msg;
	struct pair pair;
	void *hog;

	side_open(&pair.a, 0);
	cfg.pool_bytes = 16 << 20;
	side_open_as(&pair.b, &cfg, 0);
	ck_assert_int_eq(ripc_buf_alloc(pair.b.ctx, 8 << 20, &hog), 0);
	post(&pair.b, one, sizeof(one), 1);
	post(&pair.b, two, sizeof(two), 2);
	post(&pair.b, three, sizeof(three), 3);
	for (int i = 0; i < 3; i++)
		items[i] = item(filled(too_much[i], 0), too_much[i]);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, items, 3, 2000), -ENOBUFS);
	check_nothing(pair.b.svc);
	send_items(&pair.a, &pair.b, fits, 2);
	msg = take(pair.b.svc, RIPC_LONG);
	check_items(msg, fits, 2);
	check_place(msg, 0, one, 1);
	check_place(msg, 1, two, 2);
	ripc_msg_free(msg);
	for (int i = 0; i < 3; i++)
		free(items[i].iov_base);
	ripc_buf_free(pair.b.ctx, hog);
	pair_close(&pair);
}
END_TEST

/* A window that a cancelled message had is there again, in its old position. */
START_TEST(window_post__back_after_a_cancel)
{
	const size_t len = 1 << 20, one = 1;
	static char first[1 << 20], second[1 << 20];
	const struct iovec large = item(filled(len, 0), len);
	struct ripc_send send;
	struct ripc_msg *msg;
	struct pair pair;
	struct pump pump;

	side_open(&pair.a, RIPC_NO_THREAD);
	side_open(&pair.b, 0);
	pump_start(&pump, pair.a.ctx);
	acquaint(&pair.b, &pair.a);
	pump_stop(&pump);
	post(&pair.b, first, len, 1);
	post(&pair.b, second, len, 2);
	send = long_send(pair.b.id, &large, 1);
	send.flags |= RIPC_NOWAIT;
	send.cookie = 3;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	while (stats_of(pair.b.ctx).pull_requests == 0)
		ck_assert_int_ne(ripc_receive(pair.b.svc, 1, &msg), 0);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 3), 0);
	pump_start(&pump, pair.a.ctx);
	take_completion(pair.a.svc, 3, RIPC_NOT_DELIVERED, -ECANCELED);
	send_items(&pair.a, &pair.b, &one, 1);
	msg = take(pair.b.svc, RIPC_LONG);
	check_place(msg, 0, first, 1);
	ripc_msg_free(msg);
	send_items(&pair.a, &pair.b, &len, 1);
	msg = take(pair.b.svc, RIPC_LONG);
	check_items(msg, &len, 1);
	check_place(msg, 0, second, 2);
	ripc_msg_free(msg);
	pump_stop(&pump);
	free(large.iov_base);
	pair_close(&pair);
}
END_TEST

START_TEST(window_post__bad_arguments)
{
	const struct iovec nowhere = {NULL, 8}, good = item("window", 6);
	struct side side;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_window_post(NULL, &good, 0), -EINVAL);
	ck_assert_int_eq(ripc_window_post(side.svc, NULL, 0), -EINVAL);
	ck_assert_int_eq(ripc_window_post(side.svc, &nowhere, 0), -EINVAL);
	side_close(&side);
}
END_TEST

/* ---- return buffers ---------------------------------------------------------------------- */

struct question {
	char place[70000];
	struct ripc_buffer lent;
	uint64_t reply;
};

static void ask(const struct pair *pair, struct question *question, uint64_t cookie)
{
	const struct iovec one = item(&cookie, sizeof(cookie));
	struct ripc_send send = long_send(pair->b.id, &one, 1);
	struct ripc_msg *msg;

	question->lent = (struct ripc_buffer){.mem = item(question->place,
		sizeof(question->place)), .cookie = cookie};
	send.returns = &question->lent;
	send.n_returns = 1;
	send.cookie = cookie;
	ck_assert_int_eq(ripc_sendmsg(pair->a.svc, &send, NULL), 0);
	msg = take(pair->b.svc, RIPC_LONG);
	ck_assert_uint_ne(msg->reply, 0);
	question->reply = msg->reply;
	ripc_msg_free(msg);
}

static void answer(const struct side *from, const struct side *to, uint64_t reply, size_t len,
		uint64_t seed)
{
	const struct iovec one = item(filled(len, seed), len);
	struct ripc_send send = long_send(to->id, &one, 1);

	send.reply_to = reply;
	ck_assert_int_eq(ripc_sendmsg(from->svc, &send, NULL), 0);
	free(one.iov_base);
}

static void check_answer(const struct side *side, const struct question *question, size_t len,
		uint64_t seed)
{
	struct ripc_msg *msg = take(side->svc, RIPC_LONG);

	ck_assert_uint_eq(msg->items[0].iov_len, len);
	check_filled(msg->items[0].iov_base, len, seed);
	ck_assert_int_eq(msg->places != NULL, question != NULL);
	if (question) {
		ck_assert_int_eq(msg->places[0].place, RIPC_IN_RETURN);
		ck_assert_uint_eq(msg->places[0].cookie, question->lent.cookie);
		ck_assert_ptr_eq(msg->items[0].iov_base, question->place);
	}
	ripc_msg_free(msg);
}

/* Two questions are open and the answers come swapped: each lands where its question said. */
START_TEST(returns__answers_swapped)
{
	static const size_t lens[] = {3, 1000, 70000};
	static struct question first, second;
	struct pair pair;

	pair_open(&pair);
	for (int i = 0; i < 3; i++) {
		ask(&pair, &first, 100);
		ask(&pair, &second, 200);
		ck_assert_uint_ne(first.reply, second.reply);
		answer(&pair.b, &pair.a, second.reply, lens[i], 2);
		answer(&pair.b, &pair.a, first.reply, lens[i], 1);
		check_answer(&pair.a, &second, lens[i], 2);
		check_answer(&pair.a, &first, lens[i], 1);
		ck_assert_int_eq(ripc_cancel(pair.a.svc, 100), -ENOENT);
		ck_assert_int_eq(ripc_cancel(pair.a.svc, 200), -ENOENT);
	}
	pair_close(&pair);
}
END_TEST

/* A return buffer is used once: a second answer to the same question goes to the pool. */
START_TEST(returns__used_once)
{
	static struct question question;
	struct pair pair;

	pair_open(&pair);
	ask(&pair, &question, 1);
	answer(&pair.b, &pair.a, question.reply, 10, 1);
	answer(&pair.b, &pair.a, question.reply, 10, 2);
	check_answer(&pair.a, &question, 10, 1);
	check_answer(&pair.a, NULL, 10, 2);
	check_filled(question.place, 10, 1);
	pair_close(&pair);
}
END_TEST

/* An answer that names nothing, something made up, or is too long, goes to the pool. */
START_TEST(returns__not_used)
{
	static struct question question;
	struct pair pair;

	pair_open(&pair);
	ask(&pair, &question, 1);
	memset(question.place, 7, sizeof(question.place));
	answer(&pair.b, &pair.a, 0, 10, 1);
	check_answer(&pair.a, NULL, 10, 1);
	answer(&pair.b, &pair.a, question.reply + 1, 10, 2);
	check_answer(&pair.a, NULL, 10, 2);
	answer(&pair.b, &pair.a, question.reply, sizeof(question.place) + 1, 3);
	check_answer(&pair.a, NULL, sizeof(question.place) + 1, 3);
	for (size_t i = 0; i < sizeof(question.place); i++)
		ck_assert_int_eq(question.place[i], 7);
	pair_close(&pair);
}
END_TEST

/* Only the partner to whom it was lent can fill it. */
START_TEST(returns__lent_to_one_partner)
{
	static struct question question;
	struct side stranger;
	struct pair pair;

	pair_open(&pair);
	side_open(&stranger, 0);
	ask(&pair, &question, 1);
	memset(question.place, 7, sizeof(question.place));
	answer(&stranger, &pair.a, question.reply, 100, 1);
	check_answer(&pair.a, NULL, 100, 1);
	ck_assert_int_eq(question.place[0], 7);
	answer(&pair.b, &pair.a, question.reply, 100, 2);
	check_answer(&pair.a, &question, 100, 2);
	side_close(&stranger);
	pair_close(&pair);
}
END_TEST

/* A cancel takes the buffers back: the answer that comes later goes to the pool. */
START_TEST(returns__cancelled)
{
	static struct question question;
	struct pair pair;

	pair_open(&pair);
	ask(&pair, &question, 40);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 40), 0);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 40), -ENOENT);
	memset(question.place, 7, sizeof(question.place));
	answer(&pair.b, &pair.a, question.reply, 60000, 1);
	check_answer(&pair.a, NULL, 60000, 1);
	ck_assert_int_eq(question.place[0], 7);
	pair_close(&pair);
}
END_TEST

/* The question never arrived: what was lent with it is not lent any more. */
START_TEST(returns__of_a_failed_send)
{
	const struct iovec one = item("x", 1);
	struct ripc_send send = long_send(nobody, &one, 1);
	char place[8];
	const struct ripc_buffer lent = {.mem = item(place, sizeof(place))};
	struct side side;

	side_open(&side, 0);
	send.returns = &lent;
	send.n_returns = 1;
	send.cookie = 6;
	ck_assert_int_eq(ripc_sendmsg(side.svc, &send, NULL), -ENOENT);
	ck_assert_int_eq(ripc_cancel(side.svc, 6), -ENOENT);
	send.flags &= ~RIPC_SEND_LONG;
	ck_assert_int_eq(ripc_sendmsg(side.svc, &send, NULL), -ENOENT);
	ck_assert_int_eq(ripc_cancel(side.svc, 6), -ENOENT);
	side_close(&side);
}
END_TEST

/* ---- references -------------------------------------------------------------------------- */

START_TEST(buf_free__not_ours)
{
	char mine[64];
	struct side side;
	char *buf;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_buf_alloc(side.ctx, 1000, (void **)&buf), 0);
	ck_assert_uint_eq((uintptr_t)buf % 64, 0);
	ck_assert_int_eq(ripc_buf_free(side.ctx, mine), -EINVAL);
	ck_assert_int_eq(ripc_buf_ref(side.ctx, mine), -EINVAL);
	ck_assert_int_eq(ripc_buf_free(side.ctx, NULL), 0);
	ck_assert_int_eq(ripc_buf_free(side.ctx, buf), 0);
	ck_assert_int_eq(ripc_buf_free(side.ctx, buf), -EINVAL);
	ck_assert_int_eq(ripc_buf_ref(side.ctx, buf), -EINVAL);
	ck_assert_int_eq(ripc_buf_free(side.ctx, (void *)8), -EINVAL);
	ck_assert_int_eq(ripc_buf_free(NULL, buf), -EINVAL);
	ck_assert_int_eq(ripc_buf_ref(NULL, buf), -EINVAL);
	ck_assert_int_eq(ripc_buf_refs(side.ctx, mine), -EINVAL);
	ck_assert_int_eq(ripc_buf_refs(side.ctx, NULL), -EINVAL);
	ck_assert_int_eq(ripc_buf_refs(side.ctx, buf), -EINVAL);
	ck_assert_int_eq(ripc_buf_refs(NULL, buf), -EINVAL);
	ck_assert_int_eq(ripc_buf_alloc(NULL, 1, (void **)&buf), -EINVAL);
	ck_assert_int_eq(ripc_buf_alloc(side.ctx, 1, NULL), -EINVAL);
	ck_assert_int_eq(ripc_buf_alloc(side.ctx, SIZE_MAX, (void **)&buf), -ENOMEM);
	side_close(&side);
}
END_TEST

START_TEST(buf_ref__counts)
{
	struct side side;
	char *buf;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_buf_alloc(side.ctx, 5000, (void **)&buf), 0);
	ck_assert_int_eq(ripc_buf_refs(side.ctx, buf), 1);
	ck_assert_int_eq(ripc_buf_ref(side.ctx, buf + 4999), 0);
	ck_assert_int_eq(ripc_buf_refs(side.ctx, buf + 4000), 2);
	ck_assert_int_eq(ripc_buf_free(side.ctx, buf + 17), 0);
	ck_assert_int_eq(ripc_buf_refs(side.ctx, buf), 1);
	fill(buf, 5000, 0);
	ck_assert_int_eq(ripc_buf_free(side.ctx, buf), 0);
	ck_assert_int_eq(ripc_buf_free(side.ctx, buf), -EINVAL);
	ck_assert_uint_eq(stats_of(side.ctx).pool_used_bytes, 0);
	side_close(&side);
}
END_TEST

/* Items of received messages outlive the message if a reference was taken. */
START_TEST(buf_ref__item_outlives_its_message)
{
	static const size_t lens[] = {1, 500, 100000, 3000000};
	struct ripc_msg *msg;
	struct pair pair;
	uint64_t used;

	pair_open(&pair);
	acquaint(&pair.a, &pair.b);
	used = stats_of(pair.b.ctx).pool_used_bytes;
	for (int i = 0; i < 4; i++) {
		void *bytes;

		send_items(&pair.a, &pair.b, &lens[i], 1);
		msg = take(pair.b.svc, RIPC_LONG);
		bytes = msg->items[0].iov_base;
		ck_assert_int_eq(ripc_buf_ref(pair.b.ctx, bytes), 0);
		ripc_msg_free(msg);
		/* Later answers must not land there. */
		send_items(&pair.a, &pair.b, &lens[i], 1);
		ripc_msg_free(take(pair.b.svc, RIPC_LONG));
		check_filled(bytes, lens[i], 0);
		ck_assert_int_eq(ripc_buf_free(pair.b.ctx, bytes), 0);
	}
	ck_assert_uint_eq(stats_of(pair.b.ctx).pool_used_bytes, used);
	pair_close(&pair);
}
END_TEST

START_TEST(buf_ref__item_of_a_short)
{
	const struct iovec items[2] = {item("first", 5), item("second", 6)};
	struct ripc_msg *msg;
	struct pair pair;
	char *bytes;

	pair_open(&pair);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, items, 2), 0);
	msg = take(pair.b.svc, RIPC_SHORT);
	bytes = msg->items[1].iov_base;
	ck_assert_int_eq(ripc_buf_ref(pair.b.ctx, bytes), 0);
	ripc_msg_free(msg);
	ck_assert_mem_eq(bytes, "second", 6);
	ck_assert_int_eq(ripc_buf_free(pair.b.ctx, bytes), 0);
	ck_assert_int_eq(ripc_buf_free(pair.b.ctx, bytes), -EINVAL);
	pair_close(&pair);
}
END_TEST

/* ---- giving ------------------------------------------------------------------------------ */

static struct ripc_send give(uint64_t to, const struct iovec *items, uint32_t n_items)
{
	struct ripc_send send = long_send(to, items, n_items);

	send.flags |= RIPC_GIVE;
	return send;
}

/* Beyond the buffer's end, more items in it than references, another's memory: all stays ours. */
static void give_wrongly(bool is_long)
{
	static uint8_t foreign[100];
	struct iovec items[3];
	struct ripc_send send;
	struct pair pair;
	void *mem;

	pair_open(&pair);
	mem = pool_filled(pair.a.ctx, 300000, 0);
	items[0] = item(mem, 300000);
	items[1] = item((char *)mem + 100, 0);
	send = give(pair.b.id, items, 1);
	if (!is_long)
		send.flags &= ~RIPC_SEND_LONG;
	items[0].iov_len = 100000000;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	items[0].iov_len = 100;
	send.n_items = 2;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	items[1] = item(foreign, sizeof(foreign));
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	/* With a reference for each it is taken. */
	items[1] = items[2] = item((char *)mem + 200, 100);
	send.n_items = 3;
	ck_assert_int_eq(ripc_buf_ref(pair.a.ctx, mem), 0);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	ck_assert_int_eq(ripc_buf_ref(pair.a.ctx, mem), 0);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	ck_assert_int_eq(ripc_buf_free(pair.a.ctx, mem), -EINVAL);
	ripc_msg_free(take(pair.b.svc, is_long ? RIPC_LONG : RIPC_SHORT));
	pair_close(&pair);
}

START_TEST(give__refused)
{
	give_wrongly(true);
	give_wrongly(false);
}
END_TEST

START_TEST(give__delivered_takes_the_reference)
{
	struct iovec items[2];
	struct ripc_send send;
	struct pair pair;

	pair_open(&pair);
	for (int i = 0; i < 3; i++) {
		const size_t lens[2] = {i == 1 ? 200000 : 64, 100};

		items[0] = item(pool_filled(pair.a.ctx, lens[0], 0), lens[0]);
		items[1] = item(pool_filled(pair.a.ctx, lens[1], 1), lens[1]);
		ck_assert_int_eq(ripc_buf_ref(pair.a.ctx, items[1].iov_base), 0);
		send = give(pair.b.id, items, 2);
		if (i == 2)
			send.flags |= RIPC_NOWAIT;
		ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
		if (i == 2)
			take_completion(pair.a.svc, 0, RIPC_DELIVERED, 0);
		ck_assert_int_eq(ripc_buf_free(pair.a.ctx, items[0].iov_base), -EINVAL);
		ck_assert_int_eq(ripc_buf_free(pair.a.ctx, items[1].iov_base), 0);
		ck_assert_int_eq(ripc_buf_free(pair.a.ctx, items[1].iov_base), -EINVAL);
		ripc_msg_free(take(pair.b.svc, RIPC_LONG));
	}
	pair_close(&pair);
}
END_TEST

START_TEST(give__not_delivered_leaves_it)
{
	struct iovec one;
	struct ripc_send send;
	struct side side;

	side_open(&side, 0);
	one = item(pool_filled(side.ctx, 100, 0), 100);
	send = give(nobody, &one, 1);
	ck_assert_int_eq(ripc_sendmsg(side.svc, &send, NULL), -ENOENT);
	send.to = nobody + 1;
	send.flags |= RIPC_NOWAIT;
	ck_assert_int_eq(ripc_sendmsg(side.svc, &send, NULL), 0);
	take_completion(side.svc, 0, RIPC_NOT_DELIVERED, -ENOENT);
	check_filled(one.iov_base, 100, 0);
	ck_assert_int_eq(ripc_buf_free(side.ctx, one.iov_base), 0);
	ck_assert_int_eq(ripc_buf_free(side.ctx, one.iov_base), -EINVAL);
	side_close(&side);
}
END_TEST

START_TEST(give__only_pool_buffers)
{
	struct iovec items[2];
	struct ripc_send send;
	struct pair pair;

	pair_open(&pair);
	items[0] = item(pool_filled(pair.a.ctx, 100, 0), 100);
	items[1] = item("mine", 4);
	send = give(pair.b.id, items, 2);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	/* Shorts, too; and they can be given. */
	send.flags &= ~RIPC_SEND_LONG;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	send.n_items = 1;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	ck_assert_int_eq(ripc_buf_free(pair.a.ctx, items[0].iov_base), -EINVAL);
	ripc_msg_free(take(pair.b.svc, RIPC_SHORT));
	check_nothing(pair.b.svc);
	pair_close(&pair);
}
END_TEST

/* ---- memory that is not the pool's ------------------------------------------------------- */

static uint64_t n_foreign(const struct pair *pair)
{
	return stats_of(pair->a.ctx).sends_from_foreign_memory;
}

START_TEST(buf_register__no_longer_foreign)
{
	const size_t len = 20000;
	char *mine = filled(len, 0);
	struct pair pair;
	struct iovec one;

	pair_open(&pair);
	one = item(mine, len);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	ck_assert_uint_eq(n_foreign(&pair), 1);
	ck_assert_int_eq(ripc_buf_register(pair.a.ctx, mine, len), 0);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	one = item(mine + 100, len - 100);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	ck_assert_uint_eq(n_foreign(&pair), 1);
	ck_assert_int_eq(ripc_buf_unregister(pair.a.ctx, mine), 0);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	ck_assert_uint_eq(n_foreign(&pair), 2);
	one = item(pool_filled(pair.a.ctx, len, 0), len);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	ck_assert_uint_eq(n_foreign(&pair), 2);
	ck_assert_int_eq(ripc_buf_free(pair.a.ctx, one.iov_base), 0);
	free(mine);
	pair_close(&pair);
}
END_TEST

START_TEST(buf_register__bad_arguments)
{
	static char mine[1000];
	struct side side;
	void *buf;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_buf_register(NULL, mine, 10), -EINVAL);
	ck_assert_int_eq(ripc_buf_register(side.ctx, NULL, 10), -EINVAL);
	ck_assert_int_eq(ripc_buf_register(side.ctx, mine, 0), -EINVAL);
	ck_assert_int_eq(ripc_buf_register(side.ctx, mine, SIZE_MAX), -EINVAL);
	ck_assert_int_eq(ripc_buf_register(side.ctx, mine + 100, 100), 0);
	ck_assert_int_eq(ripc_buf_register(side.ctx, mine, 101), -EEXIST);
	ck_assert_int_eq(ripc_buf_register(side.ctx, mine + 199, 1), -EEXIST);
	ck_assert_int_eq(ripc_buf_register(side.ctx, mine, 100), 0);
	ck_assert_int_eq(ripc_buf_register(side.ctx, mine + 200, 100), 0);
	ck_assert_int_eq(ripc_buf_unregister(side.ctx, mine + 1), -ENOENT);
	ck_assert_int_eq(ripc_buf_unregister(NULL, mine), -EINVAL);
	ck_assert_int_eq(ripc_buf_unregister(side.ctx, mine + 100), 0);
	ck_assert_int_eq(ripc_buf_unregister(side.ctx, mine + 100), -ENOENT);
	ck_assert_int_eq(ripc_buf_alloc(side.ctx, 1000, &buf), 0);
	ck_assert_int_eq(ripc_buf_unregister(side.ctx, buf), -ENOENT);
	/* Registered memory is not a buffer: it has no references to drop. */
	ck_assert_int_eq(ripc_buf_free(side.ctx, mine), -EINVAL);
	ck_assert_int_eq(ripc_buf_free(side.ctx, buf), 0);
	side_close(&side);
}
END_TEST

/* The pool gives no more than it was allowed, and has it again when it comes back. */
START_TEST(buf_alloc__limit)
{
	struct ripc_config cfg = api_config(0);
	struct side side;
	void *bufs[64];
	int n = 0;

	cfg.pool_bytes = 16 << 20;
	side_open_as(&side, &cfg, 0);
	while (n < 64 && ripc_buf_alloc(side.ctx, 1 << 20, &bufs[n]) == 0)
		n++;
	ck_assert_int_ge(n, 6);
	ck_assert_int_le(n, 16);
	ck_assert_int_eq(ripc_buf_alloc(side.ctx, 1 << 20, &bufs[n]), -ENOMEM);
	ck_assert_uint_le(stats_of(side.ctx).pool_bytes, stats_of(side.ctx).pool_limit_bytes);
	ck_assert_uint_eq(stats_of(side.ctx).pool_limit_bytes, 16 << 20);
	ck_assert_int_eq(ripc_buf_free(side.ctx, bufs[0]), 0);
	ck_assert_int_eq(ripc_buf_alloc(side.ctx, 1 << 20, &bufs[0]), 0);
	while (n > 0)
		ck_assert_int_eq(ripc_buf_free(side.ctx, bufs[--n]), 0);
	side_close(&side);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		window_post__first_that_fits, window_post__each_item_its_own,
		window_post__all_or_none, window_post__back_after_a_cancel,
		window_post__bad_arguments, returns__answers_swapped, returns__used_once,
		returns__not_used, returns__lent_to_one_partner, returns__cancelled,
		returns__of_a_failed_send, buf_free__not_ours, buf_ref__counts,
		buf_ref__item_outlives_its_message, buf_ref__item_of_a_short,
		give__refused, give__delivered_takes_the_reference,
		give__not_delivered_leaves_it, give__only_pool_buffers,
		buf_register__no_longer_foreign, buf_register__bad_arguments, buf_alloc__limit,
		NULL,
	};

	return suite_run("api_places", tests);
}
