/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows that are taken back: idle ones, ones that a message is on its way into, none at all. */
#include "api.h"

static char places[3][1 << 20];

static void post(const struct side *side, void *bytes, size_t len, uint64_t cookie)
{
	const struct iovec mem = item(bytes, len);

	ck_assert_int_eq(ripc_window_post(side->svc, &mem, cookie), 0);
}

static struct ripc_msg *send_and_take(const struct pair *pair, size_t len)
{
	struct iovec bytes = item(filled(len, 5), len);
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_send_long(pair->a.svc, pair->b.id, &bytes, 1, PATIENCE_MS), 0);
	msg = take(pair->b.svc, RIPC_LONG);
	check_filled(msg->items[0].iov_base, len, 5);
	free(bytes.iov_base);
	return msg;
}

/* All with the cookie, and no other. */
START_TEST(window_cancel__idle)
{
	struct ripc_msg *msg;
	struct pair pair;

	pair_open(&pair);
	post(&pair.b, places[0], 1000, 1);
	post(&pair.b, places[1], 1000, 2);
	post(&pair.b, places[2], 1000, 1);
	ck_assert_int_eq(ripc_window_cancel(pair.b.svc, 1), 0);
	ck_assert_int_eq(ripc_window_cancel(pair.b.svc, 1), -ENOENT);
	msg = send_and_take(&pair, 900);
	ck_assert_ptr_eq(msg->items[0].iov_base, places[1]);
	ripc_msg_free(msg);
	/* The window was used up, and belongs to the application again. */
	ck_assert_int_eq(ripc_window_cancel(pair.b.svc, 2), -ENOENT);
	msg = send_and_take(&pair, 900);
	ck_assert_ptr_null(msg->places);
	ripc_msg_free(msg);
	pair_close(&pair);
}
END_TEST

/* The sender stands still in the middle of a message: it is refused, and the window is ours. */
START_TEST(window_cancel__in_use)
{
	const size_t len = sizeof(places[0]);
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
	post(&pair.b, places[0], len, 7);
	post(&pair.b, places[1], len, 8);
	send = long_send(pair.b.id, &large, 1);
	send.flags |= RIPC_NOWAIT;
	send.cookie = 3;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	while (stats_of(pair.b.ctx).pull_requests == 0)
		ck_assert_int_ne(ripc_receive(pair.b.svc, 1, &msg), 0);
	ck_assert_int_eq(ripc_window_cancel(pair.b.svc, 7), 0);
	memset(places[0], 0x11, len);
	pump_start(&pump, pair.a.ctx);
	take_completion(pair.a.svc, 3, RIPC_NOT_DELIVERED, -ECANCELED);
	for (size_t i = 0; i < len; i++)
		ck_assert_uint_eq(places[0][i], 0x11);
	msg = send_and_take(&pair, len);
	ck_assert_ptr_eq(msg->items[0].iov_base, places[1]);
	ripc_msg_free(msg);
	pump_stop(&pump);
	free(large.iov_base);
	pair_close(&pair);
}
END_TEST

START_TEST(window_cancel__bad_arguments)
{
	struct side side;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_window_cancel(NULL, 1), -EINVAL);
	ck_assert_int_eq(ripc_window_cancel(side.svc, 1), -ENOENT);
	side_close(&side);
}
END_TEST

/* Lengths with which the end of the memory would be before its beginning. */
START_TEST(window_post__longer_than_memory)
{
	const struct iovec good = item("x", 1);
	struct ripc_buffer lent = {.cookie = 1};
	struct iovec mem = {places, 0};
	struct ripc_send send;
	struct side side;
	void *buf = NULL;

	side_open(&side, 0);
	send = long_send(nobody, &good, 1);
	send.returns = &lent;
	send.n_returns = 1;
	for (size_t less = 0; less < 3; less++) {
		mem.iov_len = SIZE_MAX - less;
		lent.mem = mem;
		ck_assert_int_eq(ripc_window_post(side.svc, &mem, 0), -EINVAL);
		ck_assert_int_eq(ripc_sendmsg(side.svc, &send, NULL), -EINVAL);
		ck_assert_int_eq(ripc_buf_register(side.ctx, places, mem.iov_len), -EINVAL);
		ck_assert_int_eq(ripc_send_short(side.svc, side.id, &mem, 1), -EMSGSIZE);
		ck_assert_int_eq(ripc_buf_alloc(side.ctx, mem.iov_len, &buf), -ENOMEM);
	}
	ck_assert_ptr_null(buf);
	ck_assert_int_eq(ripc_window_cancel(side.svc, 0), -ENOENT);
	side_close(&side);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		window_cancel__idle, window_cancel__in_use, window_cancel__bad_arguments,
		window_post__longer_than_memory, NULL,
	};

	return suite_run("windows", tests);
}
