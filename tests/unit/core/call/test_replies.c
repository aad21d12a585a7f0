/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room that replies have of their own, beside messages that are unread or wait: a partner that
 * may say anything, and a context that is alone with it.
 */
#include "lone.h"
#include "ripc/call.h"

#define UNREAD  2048u /* a partner's messages that a service's queue has room for */
#define LARGE   100000u
#define CALLS   4u
#define WAITING 256u  /* to one partner, before a RIPC_NOWAIT send meets -EAGAIN */

static uint8_t junk[1200];

/* A long message of total bytes, of which so many come along; answers: the call of this ID. */
static void say_long(struct lone *lone, uint64_t number, uint64_t total, uint32_t len,
		uint64_t answers)
{
	uint64_t row = number & WIRE_REPLIES;
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = number, .n_items = 1,
		.payload_len = len, .announce = {.total = total, .oldest = row + 1, .n_items = 1,
		.unasked = len}};

	if (answers) {
		packet.h.flags = WIRE_F_REPLIES | WIRE_F_CALL;
		packet.replies = answers;
		packet.call.kind = WIRE_CALL_ANSWERS;
	}
	if (len == total) {
		packet.h.flags |= WIRE_F_LAST;
		packet.announce.sum = ripc__crc32c(0, junk, len);
	}
	if (!answers && total == LARGE)
		packet.announce.oldest = number; /* one more than fits */
	lone_say(lone, &packet, &total, junk);
}

/* Makes a request. Returns the ID under which its reply is awaited. */
static uint64_t request_to(struct lone *lone)
{
	const struct iovec item = {junk, 1};
	const struct ripc_request request = {.size = sizeof(request), .to = lone->service,
		.items = &item, .n_items = 1, .timeout_ms = 60000};
	uint32_t since = lone->n_sent;
	struct wire_packet asked;

	ck_assert_int_eq(ripc_call_start(lone->svc, &request), 0);
	lone_pass(lone, 1000); /* it may have waited for others to go with */
	ck_assert(lone_hear(lone, since, WIRE_ANNOUNCE, &asked));
	ck_assert_uint_ne(asked.lends, 0);
	return asked.lends;
}

/* How the last message was answered since then: the busy of a PULL; -1: there is no PULL. */
static int busy_since(struct lone *lone, uint32_t since)
{
	struct wire_packet pull;

	return lone_hear(lone, since, WIRE_PULL, &pull) ? (int)pull.pull.busy : -1;
}

/* The status of the last ANSWER since then; -1: there is none. */
static int status_since(struct lone *lone, uint32_t since)
{
	struct wire_packet answer;

	return lone_hear(lone, since, WIRE_ANSWER, &answer) ? (int)answer.ack.status : -1;
}

/* As much as the queue takes of one partner, and one message more. Returns its number. */
static uint64_t fill_queue(struct lone *lone)
{
	uint32_t since;

	for (uint64_t number = 1; number <= UNREAD; number++) {
		uint64_t total = 8;
		struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = number,
			.h.flags = WIRE_F_LAST, .n_items = 1, .payload_len = 8, .announce = {
			.total = 8, .oldest = number, .n_items = 1, .unasked = 8,
			.sum = ripc__crc32c(0, junk, 8)}};

		lone_say(lone, &packet, &total, junk);
	}
	ck_assert_uint_eq(lone_stats(lone).long_received, UNREAD);
	since = lone->n_sent;
	say_long(lone, UNREAD + 1, LARGE, 0, 0);
	ck_assert_int_eq(busy_since(lone, since), WIRE_NO_CREDIT);
	return UNREAD + 1;
}

static void open_met(struct lone *lone)
{
	lone_open(lone);
	lone_introduce(lone);
}

/* A whole reply ends its call; a longer one is granted at once. */
START_TEST(replies__beside_unread_messages)
{
	static struct lone lone;
	uint64_t first, second;
	struct wire_packet pull;
	uint32_t since;

	open_met(&lone);
	fill_queue(&lone);
	first = request_to(&lone);
	second = request_to(&lone);
	say_long(&lone, WIRE_REPLIES + 1, 100, 100, first);
	ck_assert_uint_eq(lone_stats(&lone).calls_replied, 1);
	since = lone.n_sent;
	say_long(&lone, WIRE_REPLIES + 2, LARGE, 0, second);
	ck_assert(lone_hear(&lone, since, WIRE_PULL, &pull));
	ck_assert_uint_eq(pull.h.number, WIRE_REPLIES + 2);
	ck_assert_uint_eq(pull.pull.busy, 0);
	ck_assert_uint_gt(pull.pull.limit, 0);
	lone_close_all(&lone);
}
END_TEST

/* One reply is received for each open call: a second one waits, and takes no memory. */
START_TEST(replies__one_for_each_call)
{
	static struct lone lone;
	uint64_t calls[CALLS], used, number = WIRE_REPLIES;
	uint32_t since;

	open_met(&lone);
	for (uint32_t i = 0; i < CALLS; i++)
		calls[i] = request_to(&lone);
	for (uint32_t i = 0; i < CALLS; i++) {
		since = lone.n_sent;
		say_long(&lone, ++number, LARGE, 0, calls[i]);
		ck_assert_int_ne(busy_since(&lone, since), -1);
	}
	used = lone_stats(&lone).pool_used_bytes;
	ck_assert_uint_ge(used, CALLS * LARGE);
	for (uint32_t i = 0; i < 10 * CALLS; i++) {
		since = lone.n_sent;
		say_long(&lone, ++number, LARGE, 0, calls[i % CALLS]);
		ck_assert_int_eq(busy_since(&lone, since), WIRE_NO_CREDIT);
	}
	ck_assert_uint_eq(lone_stats(&lone).pool_used_bytes, used);
	lone_close_all(&lone);
}
END_TEST

/* A reply to a request that was never made, or has its reply, is refused before a byte is kept. */
START_TEST(replies__nobody_waits_for)
{
	static struct lone lone;
	struct ripc_stats before;
	uint64_t call, number = WIRE_REPLIES;
	struct ripc_msg *msg;

	open_met(&lone);
	call = request_to(&lone);
	say_long(&lone, ++number, 100, 100, call);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert_int_eq(msg->kind, RIPC_REPLY);
	ripc_msg_free(msg);
	before = lone_stats(&lone);
	for (uint32_t i = 0; i < 30; i++) {
		uint32_t since = lone.n_sent;

		say_long(&lone, ++number, LARGE, 0, call + i);
		ck_assert_int_eq(status_since(&lone, since), ECANCELED);
		say_long(&lone, ++number, 100, 100, call + i);
		ck_assert_uint_eq(lone_stats(&lone).pool_used_bytes, before.pool_used_bytes);
	}
	ck_assert_uint_eq(lone_stats(&lone).replies_late, 60);
	ck_assert_uint_eq(lone_stats(&lone).long_received, before.long_received);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
	lone_close_all(&lone);
}
END_TEST

/* No message may take the room of replies: the number and the extension say the same. */
START_TEST(replies__numbers_are_their_own)
{
	static struct lone lone;
	struct wire_packet ordered = {.h.type = WIRE_ANNOUNCE, .h.number = WIRE_REPLIES + 2,
		.h.flags = WIRE_F_ORDERED | WIRE_F_REPLIES | WIRE_F_CALL, .n_items = 1,
		.previous = WIRE_REPLIES + 1, .call.kind = WIRE_CALL_ANSWERS,
		.announce = {.total = LARGE, .oldest = WIRE_REPLIES + 1, .n_items = 1}};
	uint64_t total = LARGE;

	open_met(&lone);
	ordered.replies = request_to(&lone);
	say_long(&lone, 1, 100, 100, ordered.replies);
	say_long(&lone, WIRE_REPLIES + 1, 100, 100, 0);
	say_long(&lone, WIRE_REPLIES, 100, 100, ordered.replies);
	lone_say(&lone, &ordered, &total, NULL);
	ck_assert_uint_eq(lone_stats(&lone).drop_malformed, 4);
	ck_assert_uint_eq(lone_stats(&lone).calls_replied, 0);
	say_long(&lone, WIRE_REPLIES + 1, 100, 100, ordered.replies);
	ck_assert_uint_eq(lone_stats(&lone).calls_replied, 1);
	lone_close_all(&lone);
}
END_TEST

/* Progress in one row of numbers says nothing about the other. */
START_TEST(replies__and_others_are_answered_apart)
{
	static struct lone lone;
	struct wire_packet answer;
	uint32_t since;

	open_met(&lone);
	say_long(&lone, 1, LARGE + 1, 0, 0);
	since = lone.n_sent;
	say_long(&lone, WIRE_REPLIES + 1, 100, 100, request_to(&lone));
	say_long(&lone, 2, 100, 100, 0);
	lone_pass(&lone, 10000);
	ck_assert(lone_hear(&lone, since, WIRE_ANSWER, &answer));
	ck_assert_uint_eq(answer.ack.number, 2);
	ck_assert_uint_eq(answer.ack.also, 0);
	say_long(&lone, WIRE_REPLIES + 1, 100, 100, 7);
	ck_assert_uint_eq(lone_stats(&lone).drop_duplicate, 1);
	since = lone.n_sent;
	say_long(&lone, 1, LARGE + 1, 0, 0);
	ck_assert_int_ne(busy_since(&lone, since), -1); /* it is still being received */
	lone_close_all(&lone);
}
END_TEST

/* The sender: 64 that find no room, and more that wait for a number, keep no reply waiting. */
START_TEST(replies__pass_what_waits)
{
	static struct lone lone;
	const struct iovec item = {junk, 1};
	uint64_t total = 1, reply = 0x4e91;
	struct wire_packet ask = {.h.type = WIRE_ANNOUNCE, .h.number = 1, .n_items = 1,
		.h.flags = WIRE_F_LAST | WIRE_F_LENDS | WIRE_F_CALL, .payload_len = 1,
		.lends = reply, .call.kind = WIRE_CALL_ASKS, .announce = {.total = 1, .oldest = 1,
		.n_items = 1, .unasked = 1}}, heard;
	struct ripc_msg *question;
	uint32_t since;

	open_met(&lone);
	ask.announce.sum = ripc__crc32c(0, junk, 1);
	for (uint32_t n = 0; n < WAITING; n++)
		ck_assert_int_eq(lone_send_long(&lone, 0, 1), 0);
	ck_assert_int_eq(lone_send_long(&lone, 0, 1), -EAGAIN);
	lone_say(&lone, &ask, &total, junk);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &question), 0);
	since = lone.n_sent;
	for (uint64_t n = 1; n <= 64; n++) {
		ck_assert_int_eq(ripc_reply(lone.svc, question, &item, 1, 0), 0);
		lone_pass(&lone, 1000);
		ck_assert(lone_hear(&lone, since, WIRE_ANNOUNCE, &heard));
	}
	for (uint32_t n = 0, i = since; i < lone.n_sent; i++) {
		ck_assert_int_eq(wire_decode(lone.sent[i % LONE_SENT_MAX],
			lone.sent_len[i % LONE_SENT_MAX], &heard), 0);
		if (heard.h.type == WIRE_ANNOUNCE && wire_is_answer(&heard) && n < 64) {
			ck_assert_uint_gt(heard.h.number, WIRE_REPLIES);
			ck_assert_uint_gt(heard.announce.oldest, WIRE_REPLIES);
			n++;
		}
	}
	ripc_msg_free(question);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		replies__beside_unread_messages,
		replies__one_for_each_call,
		replies__nobody_waits_for,
		replies__numbers_are_their_own,
		replies__and_others_are_answered_apart,
		replies__pass_what_waits,
		NULL,
	};

	return suite_run("replies", tests);
}
