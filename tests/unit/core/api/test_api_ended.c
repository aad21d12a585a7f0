/* SPDX-License-Identifier: BSD-3-Clause */
/* Long sends that are ended from outside: cancelled, or their service or context is closed. */
#include "api_long.h"

/* ---- cancelling -------------------------------------------------------------------------- */

/* Not all was sent: the partner confirms that it will not be delivered. */
START_TEST(cancel__nowait_in_progress)
{
	const size_t len = 2 << 20;
	const struct iovec one = item(filled(len, 0), len);
	struct ripc_send send;
	struct pump pump;
	struct pair pair;

	silent_open(&pair, &pump);
	send = long_send(pair.b.id, &one, 1);
	send.flags |= RIPC_NOWAIT;
	send.cookie = 33;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 34), -ENOENT);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 33), 0);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 33), 0); /* still in progress */
	pump_start(&pump, pair.b.ctx);
	take_completion(pair.a.svc, 33, RIPC_NOT_DELIVERED, -ECANCELED);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 33), -ENOENT);
	exchange(&pair.a, &pair.b, &len, 1);
	check_nothing(pair.a.svc);
	check_nothing(pair.b.svc);
	pump_stop(&pump);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

/*
 * The message was all sent, and the partner took it before it saw the cancel: the true outcome is
 * reported.
 */
START_TEST(cancel__too_late)
{
	const struct iovec one = item("x", 1);
	struct ripc_send send;
	struct pump pump;
	struct pair pair;

	silent_open(&pair, &pump);
	send = long_send(pair.b.id, &one, 1);
	send.flags |= RIPC_NOWAIT;
	send.cookie = 33;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 33), 0);
	pump_start(&pump, pair.b.ctx);
	take_completion(pair.a.svc, 33, RIPC_DELIVERED, 0);
	ripc_msg_free(take(pair.b.svc, RIPC_LONG));
	check_nothing(pair.b.svc);
	pump_stop(&pump);
	pair_close(&pair);
}
END_TEST

START_TEST(cancel__waits_for_the_resolver)
{
	const struct iovec one = item("x", 1);
	struct ripc_send send = long_send(nobody, &one, 1);
	struct side side;

	side_open(&side, RIPC_NO_THREAD);
	send.flags |= RIPC_NOWAIT;
	send.cookie = 1;
	ck_assert_int_eq(ripc_sendmsg(side.svc, &send, NULL), 0);
	ck_assert_int_eq(ripc_cancel(side.svc, 1), 0);
	take_completion(side.svc, 1, RIPC_NOT_DELIVERED, -ECANCELED);
	side_close(&side);
}
END_TEST

/* Several sends under one cookie are cancelled together. */
START_TEST(cancel__all_with_the_cookie)
{
	const size_t len = 1 << 20;
	const struct iovec one = item(filled(len, 0), len);
	struct ripc_send send;
	struct pump pump;
	struct pair pair;

	silent_open(&pair, &pump);
	send = long_send(pair.b.id, &one, 1);
	send.flags |= RIPC_NOWAIT;
	for (int i = 0; i < 100; i++) {
		send.cookie = i % 2;
		ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	}
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 1), 0);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 0), 0);
	pump_start(&pump, pair.b.ctx);
	for (int i = 0; i < 100; i++) {
		struct ripc_msg *msg = take(pair.a.svc, RIPC_COMPLETION);

		ck_assert_int_eq(msg->outcome, RIPC_NOT_DELIVERED);
		ck_assert_int_eq(msg->status, -ECANCELED);
		ripc_msg_free(msg);
	}
	check_nothing(pair.a.svc);
	check_nothing(pair.b.svc);
	pump_stop(&pump);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

/* Repeats until the other thread has got as far as the send. */
static void cancel_until_found(struct ripc_service *svc, uint64_t cookie)
{
	while (ripc_cancel(svc, cookie) == -ENOENT)
		usleep(1000);
}

START_TEST(cancel__waiting_send_of_another_thread)
{
	const size_t len = 2 << 20;
	const struct iovec one = item(filled(len, 0), len);
	struct long_call call;
	struct ripc_send send;
	struct pump pump;
	struct pair pair;

	silent_open(&pair, &pump);
	send = long_send(pair.b.id, &one, 1);
	send.cookie = 8;
	long_begin(&call, pair.a.svc, send);
	cancel_until_found(pair.a.svc, 8);
	pump_start(&pump, pair.b.ctx);
	long_end(&call, RIPC_NOT_DELIVERED, -ECANCELED);
	check_nothing(pair.a.svc);
	pump_stop(&pump);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

/* Has the other thread's send begun? All that can go at once has gone then, too. */
static bool has_sent(struct ripc_context *ctx)
{
	return stats_of(ctx).sends_from_foreign_memory > 0;
}

/* The service is closed under a waiting send: it ends, by what is known. */
START_TEST(service_close__under_a_waiting_send)
{
	const size_t len = _i ? 2 << 20 : 10;
	const struct iovec one = item(filled(len, 0), len);
	struct long_call call;
	struct pump pump;
	struct pair pair;

	silent_open(&pair, &pump);
	long_begin(&call, pair.a.svc, long_send(pair.b.id, &one, 1));
	while (!has_sent(pair.a.ctx))
		usleep(1000);
	ck_assert_int_eq(ripc_service_close(pair.a.svc), 0);
	if (_i)
		long_end(&call, RIPC_NOT_DELIVERED, -ECANCELED);
	else
		long_end(&call, RIPC_UNKNOWN, -ECONNRESET);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

START_TEST(close__cuts_off_sends_in_progress)
{
	const size_t len = 2 << 20;
	const struct iovec one = item(filled(len, 0), len);
	struct ripc_send send;
	struct pump pump;
	struct pair pair;

	silent_open(&pair, &pump);
	send = long_send(pair.b.id, &one, 1);
	send.flags |= RIPC_NOWAIT;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	ck_assert_int_eq(ripc_close(pair.a.ctx, 50), -ETIMEDOUT);
	free(one.iov_base);
	side_close(&pair.b);
}
END_TEST

START_TEST(close__waits_for_sends_in_progress)
{
	const size_t len = 2 << 20;
	const struct iovec one = item(filled(len, 7 * 0), len);
	struct ripc_send send;
	struct pair pair;

	pair_open(&pair);
	send = long_send(pair.b.id, &one, 1);
	send.flags |= RIPC_NOWAIT;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	side_close(&pair.a);
	ripc_msg_free(take(pair.b.svc, RIPC_LONG));
	free(one.iov_base);
	side_close(&pair.b);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ cancel__nowait_in_progress, 1 },
		{ cancel__too_late, 1 },
		{ cancel__waits_for_the_resolver, 1 },
		{ cancel__all_with_the_cookie, 1 },
		{ cancel__waiting_send_of_another_thread, 1 },
		{ close__cuts_off_sends_in_progress, 1 },
		{ close__waits_for_sends_in_progress, 1 },
		{ service_close__under_a_waiting_send, 2 },
		{ NULL, 0 },
	};

	return suite_run_loops("api_ended", loops);
}
