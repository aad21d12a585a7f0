/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages to a partner who answers what it likes. */
#include "lone.h"

static uint8_t bytes[200000];

static int send_bytes(struct lone *lone, uint64_t cookie, size_t len)
{
	const struct iovec item = {bytes, len};
	struct ripc_send send = {.size = sizeof(send), .to = lone->service, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 10000,
		.cookie = cookie};

	return ripc_sendmsg(lone->svc, &send, NULL);
}

static int send_long(struct lone *lone, uint64_t cookie)
{
	return send_bytes(lone, cookie, sizeof(bytes));
}

static void say_gone(struct lone *lone, uint64_t for_us)
{
	struct wire_packet gone = {.h.type = WIRE_GONE, .h.number = lone->token_in,
		.value = for_us};

	lone_say(lone, &gone, NULL, NULL);
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
	say_gone(&lone, 1);
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
		if (round < 7) /* bytes beyond the grant are sent when they are requested again */
			ck_assert_uint_gt(lone.sent_bytes - before, 1 << 20);
		pull.pull.n_holes = round < 9 ? 0 : 1;
		pull.pull.holes[0] = (struct wire_range){0, sizeof(large)};
	}
	lone_close_all(&lone);
}
END_TEST

static void send_small(struct lone *lone, uint64_t cookie)
{
	ck_assert_int_eq(send_bytes(lone, cookie, 100), 0);
}

/* The number of requests in the queue; takes one and answers it. */
static void requests_come(struct lone *lone, uint64_t n)
{
	static uint64_t number;

	for (; n > 0; n--) {
		struct wire_packet request = {.h.type = WIRE_SHORT, .h.number = ++number,
			.n_items = 1, .payload_len = 8};

		lone_say(lone, &request, NULL, bytes);
	}
}

static void answer_one(struct lone *lone)
{
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), 0);
	ck_assert_int_eq(msg->kind, RIPC_SHORT);
	ripc_msg_free(msg);
	send_small(lone, 1);
}

START_TEST(nowait__answers_to_queued_requests_go_together)
{
	static struct lone lone;
	uint32_t sends, sent;

	lone_open(&lone);
	lone_introduce(&lone);
	requests_come(&lone, 5);
	answer_one(&lone); /* nobody knows yet that more will follow soon */
	sends = lone.n_sends;
	sent = lone.n_sent;
	for (int i = 0; i < 3; i++)
		answer_one(&lone);
	ck_assert_uint_eq(lone.n_sends, sends);
	answer_one(&lone);
	ck_assert_uint_eq(lone.n_sends, sends + 1);
	ck_assert_uint_eq(lone.n_sent, sent + 4);
	lone_close_all(&lone);
}
END_TEST

/*
 * The packets are sent without another call about messages, and at once where the queue is found
 * empty.
 */
START_TEST(nowait__held_back_for_a_moment_only)
{
	static struct lone lone;
	struct ripc_msg *msg;
	uint32_t sent;

	lone_open(&lone);
	lone_introduce(&lone);
	requests_come(&lone, 3);
	answer_one(&lone);
	sent = lone.n_sent;
	answer_one(&lone);
	ck_assert_uint_eq(lone.n_sent, sent);
	if (_i == 0) {
		lone_pass(&lone, 1000);
	} else {
		ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
		ripc_msg_free(msg);
		ck_assert_int_ne(ripc_receive(lone.svc, 0, &msg), 0);
	}
	ck_assert_uint_eq(lone.n_sent, sent + 1);
	lone_close_all(&lone);
}
END_TEST

/* One answer speaks for those that were lost. */
START_TEST(answer__says_what_else_was_delivered)
{
	static struct lone lone;
	struct wire_packet announce, answer = {.h.type = WIRE_ANSWER};
	uint64_t cookies = 0;
	struct ripc_msg *msg;

	lone_open(&lone);
	lone_introduce(&lone);
	for (uint64_t cookie = 1; cookie <= 8; cookie *= 2)
		send_small(&lone, cookie);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	answer.h.number = answer.ack.number = announce.h.number;
	answer.ack.also = 5ull << 61; /* the first and the third, not the second */
	lone_say(&lone, &answer, NULL, NULL);
	while (ripc_receive(lone.svc, 0, &msg) == 0) {
		ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
		ck_assert_int_eq(msg->outcome, RIPC_DELIVERED);
		cookies |= msg->cookie;
		ripc_msg_free(msg);
	}
	ck_assert_uint_eq(cookies, 1 + 4 + 8);
	lone_close_all(&lone);
}
END_TEST

/* After -ECONNRESET and -EAGAIN an application waits for a notice: no partner can refuse so. */
START_TEST(answer__with_an_errno_of_ours)
{
	static const uint32_t statuses[] = {ECONNRESET, EAGAIN};
	struct wire_packet answer = {.h.type = WIRE_ANSWER};
	static struct lone lone;
	struct ripc_msg *msg;

	lone_open(&lone);
	lone_introduce(&lone);
	ck_assert_int_eq(send_long(&lone, 7), 0);
	answer.h.number = answer.ack.number = 1;
	answer.ack.status = statuses[_i];
	lone_say(&lone, &answer, NULL, NULL);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert_int_eq(msg->outcome, RIPC_NOT_DELIVERED);
	ck_assert_int_eq(msg->status, -EPROTO);
	ripc_msg_free(msg);
	lone_close_all(&lone);
}
END_TEST

/*
 * The receiver has been gone for 2 ms or, as its clock has leapt, for longer than it has been
 * silent.
 */
START_TEST(gone__for_longer_than_it_was_silent)
{
	static struct lone lone;
	struct ripc_msg *msg;

	lone_open(&lone);
	lone_introduce(&lone);
	send_small(&lone, 1);
	lone_pass(&lone, 1000);
	say_gone(&lone, _i ? 8000000 : 2000);
	if (!_i) /* the message was not delivered: the next owner gets it */
		ck_assert_int_ne(ripc_receive(lone.svc, 0, &msg), 0);
	lone_pass(&lone, 20000000);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
	ck_assert_int_eq(msg->outcome, _i ? RIPC_UNKNOWN : RIPC_NOT_DELIVERED);
	ripc_msg_free(msg);
	lone_close_all(&lone);
}
END_TEST

/* The goodbye's statement about each message: all that it does not call delivered was not. 0:
 * without both tokens only the end is believed; 1: with them; 2: of those before the ones it
 * remembers it says nothing. */
START_TEST(gone__says_what_was_delivered)
{
	static const int wanted[][3] = {
		{RIPC_UNKNOWN, RIPC_UNKNOWN, RIPC_UNKNOWN},
		{RIPC_NOT_DELIVERED, RIPC_DELIVERED, RIPC_NOT_DELIVERED},
		{RIPC_UNKNOWN, RIPC_DELIVERED, RIPC_UNKNOWN}};
	struct wire_packet announce, gone = {.h = {.type = WIRE_GONE, .flags = WIRE_F_ACK},
		.ack = {.number = 65, .status = ESHUTDOWN, .also = 2}};
	static struct lone lone;
	struct ripc_msg *msg;

	lone_open(&lone);
	lone_introduce(&lone);
	for (uint64_t cookie = 1; cookie <= 3; cookie++)
		send_small(&lone, cookie);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	ck_assert_uint_eq(announce.h.number, 3);
	lone_pass(&lone, 1000);
	gone.h.number = _i ? lone.token_in : 0;
	if (_i == 2)
		gone.ack = (struct wire_ack){.number = 66, .status = ESHUTDOWN, .also = 1};
	lone_say(&lone, &gone, NULL, NULL);
	lone_pass(&lone, 20000000);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
		ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
		ck_assert_int_eq(msg->outcome, wanted[_i][msg->cookie - 1]);
		ripc_msg_free(msg);
	}
	lone_close_all(&lone);
}
END_TEST

/* A partner that speaks of it all the time. 0: what was not wholly sent has until its deadline, and
 * its partner is told; 1: what was is asked for, but only shortly before it. */
START_TEST(deadline__is_used)
{
	struct wire_packet heard, pull = {.h = {.type = WIRE_PULL, .number = 1}, .pull.busy = 1};
	static struct lone lone;
	struct ripc_msg *msg;

	lone_open(&lone);
	lone_introduce(&lone);
	ck_assert_int_eq(send_bytes(&lone, 1, _i ? 100 : sizeof(bytes)), 0);
	for (int i = 0; i < 12; i++) {
		lone_pass(&lone, 800000);
		lone_say(&lone, &pull, NULL, NULL);
	}
	ck_assert_int_ne(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert(!lone_hear(&lone, 0, WIRE_CANCEL, &heard));
	lone_pass(&lone, 395000);
	ck_assert_int_eq(lone_hear(&lone, 0, WIRE_CANCEL, &heard), _i);
	ck_assert_int_ne(ripc_receive(lone.svc, 0, &msg), 0);
	lone_pass(&lone, 10000);
	ck_assert(lone_hear(&lone, 0, WIRE_CANCEL, &heard));
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert_int_eq(msg->outcome, _i ? RIPC_UNKNOWN : RIPC_NOT_DELIVERED);
	ripc_msg_free(msg);
	lone_close_all(&lone);
}
END_TEST

/* A partner that asks for bytes of a message that has ended is told so once more. */
START_TEST(pull__of_what_has_ended)
{
	struct wire_packet heard, pull = {.h = {.type = WIRE_PULL, .number = 1},
		.pull.limit = 1000};
	static struct lone lone;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	ck_assert_int_eq(send_long(&lone, 1), 0);
	ck_assert_int_eq(send_long(&lone, 2), 0);
	ck_assert_int_eq(ripc_cancel(lone.svc, 1), 0);
	lone_say(&lone, &(struct wire_packet){.h.type = WIRE_ANSWER, .ack = {.number = 1,
		.status = ECANCELED}}, NULL, NULL);
	since = lone.n_sent;
	lone_say(&lone, &pull, NULL, NULL);
	ck_assert(lone_hear(&lone, since, WIRE_CANCEL, &heard));
	ck_assert_uint_eq(heard.h.number, 1);
	ck_assert_uint_le(heard.announce.oldest, 1);
	/* No message has had that number yet. */
	since = lone.n_sent;
	pull.h.number = 3;
	lone_say(&lone, &pull, NULL, NULL);
	ck_assert(!lone_hear(&lone, since, WIRE_CANCEL, &heard));
	lone_close_all(&lone);
}
END_TEST

static void send_patiently(struct lone *lone)
{
	const struct iovec item = {bytes, 100};
	const struct ripc_send send = {.size = sizeof(send), .to = lone->service, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 60000};

	ck_assert_int_eq(ripc_sendmsg(lone->svc, &send, NULL), 0);
}

/* We were stopped for longer than a partner may be silent: that is not the partner's silence. */
START_TEST(stopped__is_not_the_partners_silence)
{
	static struct lone lone;
	struct ripc_msg *msg;

	lone_open(&lone);
	lone_introduce(&lone);
	send_patiently(&lone);
	lone_pass(&lone, 100000);
	lone.now_us += 15000000;
	ripc_poll(lone.ctx);
	lone_pass(&lone, 1000000);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
	lone_pass(&lone, 20000000);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ripc_msg_free(msg);
	lone_close_all(&lone);
}
END_TEST

/*
 * Our stop does not end a message with enough time that the receiver has given up meanwhile,
 * either.
 */
START_TEST(stopped__begins_again)
{
	static struct lone lone;
	struct wire_packet answer = {.h.type = WIRE_ANSWER, .h.number = 1, .ack.number = 1,
		.ack.status = ETIMEDOUT}, packet;
	struct ripc_msg *msg;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	send_patiently(&lone);
	lone_pass(&lone, 100000);
	lone.now_us += 15000000;
	since = lone.n_sent;
	lone_say(&lone, &answer, NULL, NULL);
	ck_assert(lone_hear(&lone, since, WIRE_ANNOUNCE, &packet));
	ck_assert_uint_eq(packet.h.number, 2);
	/* At once again it is not: that would have no end. */
	answer.h.number = answer.ack.number = 2;
	lone_say(&lone, &answer, NULL, NULL);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert_int_eq(msg->outcome, RIPC_NOT_DELIVERED);
	ck_assert_int_eq(msg->status, -ETIMEDOUT);
	ripc_msg_free(msg);
	lone_close_all(&lone);
}
END_TEST

static void say_delivered(struct lone *lone, uint64_t number)
{
	struct wire_packet answer = {.h.type = WIRE_ANSWER, .h.number = number,
		.ack.number = number};

	lone_say(lone, &answer, NULL, NULL);
}

/* How many messages it was told of. */
static uint64_t n_announced(struct lone *lone)
{
	struct wire_packet packet;
	uint64_t n = 0;

	ck_assert_uint_le(lone->n_sent, LONE_SENT_MAX);
	for (uint32_t i = 0; i < lone->n_sent; i++)
		n += wire_decode(lone->sent[i], lone->sent_len[i], &packet) == 0 &&
			packet.h.type == WIRE_ANNOUNCE;
	return n;
}

/*
 * However many messages there are, no more of their bytes come unasked at once than a partner has
 * credit for, who takes an eighth of that for one of them: what has no room would be lost.
 */
START_TEST(nowait__no_more_unasked_than_there_is_room_for)
{
	static struct lone lone;
	struct wire_packet pull = {.h.type = WIRE_PULL, .pull.limit = sizeof(bytes)};

	lone_open(&lone);
	lone.unasked = 8000;
	lone_introduce(&lone);
	for (uint64_t cookie = 1; cookie <= 20; cookie++)
		ck_assert_int_eq(send_bytes(&lone, cookie, _i == 1 ? sizeof(bytes) : 8000), 0);
	ck_assert_uint_eq(n_announced(&lone), 8);
	if (_i == 2) { /* a waiting message that is cancelled delays no message that has room */
		say_delivered(&lone, 2);
		ck_assert_uint_eq(n_announced(&lone), 9);
		ck_assert_int_eq(send_bytes(&lone, 21, 0), 0);
		ck_assert_uint_eq(n_announced(&lone), 9);
		for (uint64_t cookie = 10; cookie <= 20; cookie++)
			ck_assert_int_eq(ripc_cancel(lone.svc, cookie), 0);
		ck_assert_uint_eq(n_announced(&lone), 10);
	} else if (_i) {
		pull.h.number = 3; /* the bytes have arrived, and the receiver requests more */
		lone_say(&lone, &pull, NULL, NULL);
		ck_assert_uint_eq(n_announced(&lone), 9);
	} else {
		say_delivered(&lone, 2);
		ck_assert_uint_eq(n_announced(&lone), 9);
		say_delivered(&lone, 1);
		ck_assert_uint_eq(n_announced(&lone), 10);
	}
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ nowait__notice_after_move, 1 }, { pull__asks_for_too_much, 1 },
		{ nowait__answers_to_queued_requests_go_together, 1 },
		{ nowait__held_back_for_a_moment_only, 2 },
		{ answer__says_what_else_was_delivered, 1 },
		{ answer__with_an_errno_of_ours, 2 },
		{ gone__for_longer_than_it_was_silent, 2 },
		{ gone__says_what_was_delivered, 3 }, { deadline__is_used, 2 },
		{ pull__of_what_has_ended, 1 },
		{ stopped__is_not_the_partners_silence, 1 },
		{ stopped__begins_again, 1 },
		{ nowait__no_more_unasked_than_there_is_room_for, 3 }, { NULL, 0 },
	};

	return suite_run_loops("outgoing", loops);
}
