/* SPDX-License-Identifier: BSD-3-Clause */
/* Two contexts with a service each, over a backend on a fake device, and messages between them. */
#ifndef TEST_PARTIES_H
#define TEST_PARTIES_H

#include <check.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "ripc/ripc.h"

#define LONG_LEN (3u << 20)

struct party {
	struct ripc_context *ctx;
	struct ripc_service *service;
	uint64_t id;
};

static struct party left, right;
static const char *party_options; /* struct ripc_config.options */

static void party_open(struct party *party, const char *backend, uint64_t id)
{
	struct ripc_config config = {.size = sizeof(config), .backends = backend,
		.options = party_options};

	ck_assert_int_eq(ripc_open(&config, &party->ctx), 0);
	ck_assert_int_eq(ripc_service_open(party->ctx, id, 0, &party->service), 0);
	party->id = id;
}

/* Left and right, over one backend. */
static void parties_open(const char *backend)
{
	/* Other processes may run the same test on this host. */
	uint64_t id = (uint64_t)getpid() << 20;

	party_open(&left, backend, id + 1);
	party_open(&right, backend, id + 2);
}

static void parties_close(void)
{
	ck_assert_int_eq(ripc_close(left.ctx, 20000), 0);
	ck_assert_int_eq(ripc_close(right.ctx, 20000), 0);
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

/* Both parties know each other's tokens: messages sent from now on need not be held. */
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

	ripc_stats_get(party->ctx, &stats);
	return stats;
}

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

#endif
