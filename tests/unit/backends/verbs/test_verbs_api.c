/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole library over the verbs backend, on a libibverbs of our own: short and long messages
 * between two contexts, with the MTUs of RoCE over ordinary and over jumbo frames, and what becomes
 * of messages when the connection cannot be had.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../../../support/fake/verbs.h"
#include "parties.h"
#include "suite.h"

static void begin_by(enum ibv_mtu mtu, uint32_t vendor_id)
{
	fake_verbs_reset();
	fake_verbs.mtu = mtu;
	fake_verbs.vendor_id = vendor_id;
	parties_open("verbs");
}

static void begin(enum ibv_mtu mtu)
{
	begin_by(mtu, 0);
}

static void finish(void)
{
	const char *what;

	parties_close();
	ck_assert_msg(fake_verbs_faults(&what) == 0, "%s", what);
	ck_assert_uint_eq(fake_verbs_live(), 0);
}

/* RIPC_SHORT_MIN fits even the first packet over an MTU of 1024. */
START_TEST(sendmsg__short)
{
	begin(_i ? IBV_MTU_4096 : IBV_MTU_1024);
	acquaint();
	for (int i = 0; i < 100; i++)
		exchange(RIPC_SHORT_MIN, 0);
	ck_assert_uint_eq(stats_of(&right).drop_malformed, 0);
	finish();
}
END_TEST

START_TEST(sendmsg__long_is_read)
{
	struct ripc_stats stats;

	begin(_i ? IBV_MTU_4096 : IBV_MTU_1024);
	acquaint();
	for (int i = 0; i < 5; i++)
		exchange(LONG_LEN + (size_t)i, RIPC_SEND_LONG);
	stats = stats_of(&right);
	ck_assert_uint_ge(stats.read_bytes, 5 * (uint64_t)LONG_LEN);
	ck_assert_uint_eq(stats.reads_failed, 0);
	finish();
}
END_TEST

START_TEST(sendmsg__answer_is_written)
{
	begin(_i ? IBV_MTU_4096 : IBV_MTU_1024);
	acquaint();
	for (size_t i = 0; i < 5; i++)
		ask_and_answer(LONG_LEN - i);
	ask_and_answer(5000);
	ck_assert_uint_eq(stats_of(&left).written_bytes, 5 * LONG_LEN - 10 + 5000);
	ck_assert_uint_eq(stats_of(&left).writes_failed, 0);
	ck_assert_uint_eq(stats_of(&right).landed_bytes, 5 * LONG_LEN - 10 + 5000);
	finish();
}
END_TEST

/* rxe says of a read, or of a write, that it has succeeded, and has moved nothing. */
START_TEST(sendmsg__device_lies)
{
	begin_by(IBV_MTU_4096, 0xffffff);
	acquaint();
	fake_verbs.n_lies = 1;
	exchange(LONG_LEN, RIPC_SEND_LONG);
	ck_assert_uint_eq(fake_verbs.n_lies, 0);
	fake_verbs.n_lies = 1;
	ask_and_answer(LONG_LEN);
	ck_assert_uint_eq(fake_verbs.n_lies, 0);
	finish();
}
END_TEST

/* The answering end cannot make the connection, either: datagrams go another way. */
START_TEST(sendmsg__answer_is_not_written)
{
	begin(IBV_MTU_4096);
	acquaint();
	fake_verbs_fail(FAKE_CREATE_QP, 1, ENOMEM);
	ask_and_answer(LONG_LEN);
	ck_assert_uint_eq(stats_of(&left).writes_failed, 1);
	ck_assert_uint_eq(stats_of(&right).landed_bytes, 0);
	finish();
}
END_TEST

/* Without a connection, or without registered memory, it is pulled. */
START_TEST(sendmsg__long_is_pulled)
{
	begin(IBV_MTU_4096);
	acquaint();
	fake_verbs_fail(_i ? FAKE_REG_MR : FAKE_CREATE_QP, UINT32_MAX, ENOMEM);
	exchange(LONG_LEN, RIPC_SEND_LONG);
	ck_assert_uint_eq(stats_of(&right).read_bytes, 0);
	fake_verbs.fail[_i ? FAKE_REG_MR : FAKE_CREATE_QP].n = 0;
	finish();
}
END_TEST

/* A close during reads or writes deregisters all memory. */
START_TEST(close__while_it_reads)
{
	struct ripc_send send = {.size = sizeof(send), .n_items = 1, .timeout_ms = 20000,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT};
	struct iovec item = {.iov_len = LONG_LEN};
	const char *what;

	begin(IBV_MTU_4096);
	acquaint();
	fake_verbs.hold_reads = true;
	item.iov_base = pattern(left.ctx, LONG_LEN);
	send.to = right.id;
	send.items = &item;
	send.reply_to = _i ? ask(pattern(right.ctx, LONG_LEN)) : 0;
	ck_assert_int_eq(ripc_sendmsg(left.service, &send, NULL), 0);
	for (uint32_t turn = 0; fake_verbs_held() == 0; turn++) {
		ck_assert_uint_lt(turn, 20000);
		usleep(1000);
	}
	ripc_close(right.ctx, 0);
	ripc_close(left.ctx, 0);
	ck_assert_msg(fake_verbs_faults(&what) == 0, "%s", what);
	ck_assert_uint_eq(fake_verbs_live(), 0);
}
END_TEST

int main(void)
{
	const struct suite_loop tests[] = {
		{sendmsg__short, 2},
		{sendmsg__long_is_read, 2},
		{sendmsg__long_is_pulled, 2},
		{close__while_it_reads, 2},
		{sendmsg__answer_is_written, 2},
		{sendmsg__answer_is_not_written, 1},
		{sendmsg__device_lies, 1},
		{NULL, 0},
	};

	return suite_run_loops("verbs_api", tests);
}
