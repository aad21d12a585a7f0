/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole library over the verbs backend, on a libibverbs of our own: short and long messages
 * between two contexts, with the MTUs of RoCE over ordinary and over jumbo frames, and what becomes
 * of messages when the connection cannot be had.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../fake/verbs.h"
#include "ripc/ripc.h"
#include "suite.h"

#define LONG_LEN (3u << 20)

struct party {
	struct ripc_context *ctx;
	struct ripc_service *service;
	uint64_t id;
};

static struct party left, right;

static void party_open(struct party *party, uint64_t id)
{
	struct ripc_config config = {.size = sizeof(config), .backends = "verbs"};

	ck_assert_int_eq(ripc_open(&config, &party->ctx), 0);
	ck_assert_int_eq(ripc_service_open(party->ctx, id, 0, &party->service), 0);
	party->id = id;
}

static void begin_by(enum ibv_mtu mtu, uint32_t vendor_id)
{
	/* Others may run the same test on this host. */
	uint64_t id = (uint64_t)getpid() << 20;

	fake_verbs_reset();
	fake_verbs.mtu = mtu;
	fake_verbs.vendor_id = vendor_id;
	party_open(&left, id + 1);
	party_open(&right, id + 2);
}

static void begin(enum ibv_mtu mtu)
{
	begin_by(mtu, 0);
}

static void finish(void)
{
	const char *what;

	ck_assert_int_eq(ripc_close(left.ctx, 1000), 0);
	ck_assert_int_eq(ripc_close(right.ctx, 1000), 0);
	ck_assert_msg(fake_verbs_faults(&what) == 0, "%s", what);
	ck_assert_uint_eq(fake_verbs_live(), 0);
}

static void *pattern(struct ripc_context *ctx, size_t len)
{
	void *bytes;

	ck_assert_int_eq(ripc_buf_alloc(ctx, len, &bytes), 0);
	for (size_t i = 0; i < len; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(i * 31 + (i >> 9));
	return bytes;
}

/* One message from left to right, whole. */
static void exchange(size_t len, uint32_t flags)
{
	void *bytes = pattern(left.ctx, len);
	struct iovec item = {.iov_base = bytes, .iov_len = len};
	struct ripc_send send = {.size = sizeof(send), .to = right.id, .items = &item,
		.n_items = 1, .flags = flags | (flags & RIPC_SEND_LONG ? RIPC_NOWAIT : 0),
		.timeout_ms = 20000};
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_sendmsg(left.service, &send, NULL), 0);
	ck_assert_int_eq(ripc_receive(right.service, 20000, &msg), 0);
	ck_assert_uint_eq(msg->n_items, 1);
	ck_assert_uint_eq(msg->items[0].iov_len, len);
	ck_assert_mem_eq(msg->items[0].iov_base, bytes, len);
	ripc_msg_free(msg);
	if (flags & RIPC_SEND_LONG) {
		ck_assert_int_eq(ripc_receive(left.service, 20000, &msg), 0);
		ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
		ck_assert_int_eq(msg->status, 0);
		ripc_msg_free(msg);
	}
	ripc_buf_free(left.ctx, bytes);
}

/* Both know each other's tokens: what is sent from now on need not be held. */
static void acquaint(void)
{
	struct iovec item = {.iov_base = "hello", .iov_len = 5};
	struct ripc_msg *msg;

	exchange(RIPC_SHORT_MIN, 0);
	ck_assert_int_eq(ripc_send_short(right.service, left.id, &item, 1), 0);
	ck_assert_int_eq(ripc_receive(left.service, 20000, &msg), 0);
	ripc_msg_free(msg);
}

static struct ripc_stats stats_of(const struct party *party)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ripc_stats(party->ctx, &stats);
	return stats;
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

/* Right asks, and lends what may be written into. */
static uint64_t ask(void *lent)
{
	struct iovec question = {.iov_base = "what", .iov_len = 4};
	struct ripc_buffer returned = {.mem = {lent, LONG_LEN}, .cookie = 5};
	struct ripc_send send = {.size = sizeof(send), .to = left.id, .items = &question,
		.n_items = 1, .returns = &returned, .n_returns = 1};
	struct ripc_msg *msg;
	uint64_t reply;

	ck_assert_int_eq(ripc_sendmsg(right.service, &send, NULL), 0);
	ck_assert_int_eq(ripc_receive(left.service, 20000, &msg), 0);
	reply = msg->reply;
	ripc_msg_free(msg);
	return reply;
}

/* Right asks, left answers into the return buffer that it was lent. */
static void ask_and_answer(size_t len)
{
	void *bytes = pattern(left.ctx, len), *lent = pattern(right.ctx, LONG_LEN);
	struct iovec item = {bytes, len};
	struct ripc_send send = {.size = sizeof(send), .to = right.id, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 20000};
	struct ripc_msg *msg;

	memset(lent, 0, LONG_LEN);
	send.reply_to = ask(lent);
	ck_assert_int_eq(ripc_sendmsg(left.service, &send, NULL), 0);
	ck_assert_int_eq(ripc_receive(right.service, 20000, &msg), 0);
	ck_assert_ptr_eq(msg->items[0].iov_base, lent);
	ck_assert_uint_eq(msg->items[0].iov_len, len);
	ck_assert_mem_eq(lent, bytes, len);
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_receive(left.service, 20000, &msg), 0);
	ck_assert_int_eq(msg->outcome, RIPC_DELIVERED);
	ripc_msg_free(msg);
	ripc_buf_free(left.ctx, bytes);
	ripc_buf_free(right.ctx, lent);
}

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

/* Nor can the connection be had by the one who answers: it goes another way. */
START_TEST(sendmsg__answer_is_not_written)
{
	begin(IBV_MTU_4096);
	acquaint();
	fake_verbs.fail[FAKE_CREATE_QP].n = 1;
	fake_verbs.fail[FAKE_CREATE_QP].error = ENOMEM;
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
	fake_verbs.fail[_i ? FAKE_REG_MR : FAKE_CREATE_QP].n = UINT32_MAX;
	fake_verbs.fail[_i ? FAKE_REG_MR : FAKE_CREATE_QP].error = ENOMEM;
	exchange(LONG_LEN, RIPC_SEND_LONG);
	ck_assert_uint_eq(stats_of(&right).read_bytes, 0);
	fake_verbs.fail[_i ? FAKE_REG_MR : FAKE_CREATE_QP].n = 0;
	finish();
}
END_TEST

/* Who closes while bytes are being read, or written, gives back all that was registered for it. */
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
