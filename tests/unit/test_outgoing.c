/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages to a partner who answers what it likes. */
#include "lone.h"

static uint8_t bytes[200000];

static int send_long(struct lone *lone, uint64_t cookie)
{
	const struct iovec item = {bytes, sizeof(bytes)};
	struct ripc_send send = {.size = sizeof(send), .to = lone->service, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 10000,
		.cookie = cookie};

	return ripc_sendmsg(lone->svc, &send, NULL);
}

static void say_gone(struct lone *lone)
{
	struct wire_packet gone = {.h.type = WIRE_GONE, .h.number = lone->token_in, .value = 1};
	uint64_t token = lone->token_out;

	lone->token_out = 1; /* no hello */
	lone_say(lone, &gone, NULL, NULL);
	lone->token_out = token;
}

/* A send met -EAGAIN; then all that was in its way moves to another incarnation and ends there. */
START_TEST(nowait__notice_after_move)
{
	static struct lone lone;
	uint32_t n_sent = 0, n_notices = 0;
	struct ripc_msg *msg;

	lone_open(&lone);
	lone_introduce(&lone);
	while (send_long(&lone, 7) == 0)
		n_sent++;
	ck_assert_uint_gt(n_sent, 64);
	say_gone(&lone);
	lone_pass(&lone, 20000000);
	while (ripc_receive(lone.svc, 0, &msg) == 0) {
		n_notices += msg->kind == RIPC_NOTICE && msg->status == 0 && msg->cookie == 0;
		n_sent -= msg->kind == RIPC_COMPLETION;
		ripc_msg_free(msg);
	}
	ck_assert_uint_eq(n_sent, 0);
	ck_assert_uint_eq(n_notices, 1);
	lone_close_all(&lone);
}
END_TEST

/* The receiver grants more than any window has room for, and then asks for it again. */
START_TEST(pull__asks_for_too_much)
{
	static uint8_t large[16 << 20];
	static struct lone lone;
	const struct iovec item = {large, sizeof(large)};
	struct ripc_send send = {.size = sizeof(send), .n_items = 1, .items = &item,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 10000};
	struct wire_packet pull = {.h.type = WIRE_PULL, .h.number = 1,
		.pull.limit = sizeof(large)}, announce;
	uint64_t before;

	lone_open(&lone);
	lone_introduce(&lone);
	send.to = lone.service;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), 0);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	pull.h.number = announce.h.number;
	for (int round = 0; round < 20; round++) {
		before = lone.sent_bytes;
		lone_say(&lone, &pull, NULL, NULL);
		ck_assert_uint_le(lone.sent_bytes - before, 3 << 20);
		if (round < 7) /* what is more than was granted comes when it is asked for again */
			ck_assert_uint_gt(lone.sent_bytes - before, 1 << 20);
		pull.pull.n_holes = round < 9 ? 0 : 1;
		pull.pull.holes[0] = (struct wire_range){0, sizeof(large)};
	}
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {nowait__notice_after_move, pull__asks_for_too_much, NULL};

	return suite_run("outgoing", tests);
}
