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
	lone_pass(lone, 1000); /* the reply may have waited for others to go with */
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
	ck_assert_int_ne(busy_since(&lone, since), -1); /* the reply is still being received */
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

/* A call that ends while its reply is coming keeps no memory: the rest of the reply is refused. */
START_TEST(replies__of_calls_that_have_ended)
{
	static struct lone lone;
	uint64_t used, ids[CALLS];
	struct ripc_msg *msg;

	lone_open(&lone);
	lone_introduce(&lone);
	for (uint64_t i = 0; i < CALLS; i++) {
		ids[i] = request_to(&lone);
		say_long(&lone, WIRE_REPLIES + 1 + i, 10 * LARGE, 0, ids[i]);
	}
	used = lone_stats(&lone).pool_used_bytes;
	ck_assert_uint_ge(used, CALLS * 10 * LARGE);
	ck_assert_int_eq(ripc_cancel(lone.svc, 0), 0);
	for (int second = 0; second < 3; second++) {
		for (uint64_t i = 0; _i && i < CALLS; i++)
			say_long(&lone, WIRE_REPLIES + 1 + i, 10 * LARGE, 0, ids[i]);
		lone_pass(&lone, 1000000);
	}
	while (ripc_receive(lone.svc, 0, &msg) == 0)
		ripc_msg_free(msg);
	ck_assert_uint_lt(lone_stats(&lone).pool_used_bytes, LARGE);
	lone_close_all(&lone);
}
END_TEST

/* As whom the partner speaks. */
struct who {
	uint64_t incarnation, context, token_in, token_out, proof;
	uint8_t host;
};

static void be(struct lone *lone, const struct who *who)
{
	lone->incarnation = who->incarnation;
	lone->context = who->context;
	lone->token_in = who->token_in;
	lone->token_out = who->token_out;
	lone->proof = who->proof;
	lone->host = who->host;
}

/* Two that claim to be one incarnation, from two addresses. The first of them speaks. */
static void two_claim(struct lone *lone, struct who who[2])
{
	for (int i = 1; i >= 0; i--) {
		who[i] = (struct who){0x999, 0xc9, 0x1111 * ((uint64_t)i + 1), 0, 0,
			(uint8_t)(3 + i)};
		be(lone, &who[i]);
		lone_claim(lone);
		who[i].token_out = lone->token_out;
	}
}

/* The first one ends, and the second one says that it was the first. */
static void succeed(struct lone *lone, const struct who who[2])
{
	struct wire_packet gone = {.h.type = WIRE_GONE, .h.number = who[0].token_in};
	struct wire_packet hello = {.h.type = WIRE_HELLO_ONLY, .h.flags = WIRE_F_HELLO,
		.hello = {.token = who[0].token_in, .service = lone->service,
		.context = who[1].context, .to_service = ripc_service_id(lone->svc),
		.unasked = 65536}};

	lone_say(lone, &gone, NULL, NULL);
	be(lone, &who[1]);
	lone_say(lone, &hello, NULL, NULL);
}

/* The successor takes the row of numbers, to which an answer that is due belongs. */
START_TEST(replies__row_is_inherited)
{
	static struct lone lone;
	struct ripc_msg *msg;
	struct who who[2];
	uint64_t id;

	lone_open(&lone);
	lone_introduce(&lone);
	id = request_to(&lone);
	two_claim(&lone, who);
	say_long(&lone, WIRE_REPLIES + 1, 100, 100, id);
	succeed(&lone, who);
	lone_pass(&lone, 5000);
	lone_pass(&lone, 60000000); /* the request, which nobody has acknowledged, ends */
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert_int_eq(msg->kind, RIPC_REPLY);
	ck_assert_int_eq(msg->status, 0);
	ck_assert_uint_eq(msg->items[0].iov_len, 100);
	ripc_msg_free(msg);
	lone_close_all(&lone);
}
END_TEST

/* The oldest number that a successor inherits is above the numbers of what it sends. */
START_TEST(numbers__below_what_is_inherited)
{
	static struct lone lone;
	uint64_t row = _i ? WIRE_REPLIES : 0, total = 100, ids[2];
	struct wire_packet far = {.h.type = WIRE_ANNOUNCE, .h.number = row + 1000, .n_items = 1,
		.h.flags = WIRE_F_LAST, .payload_len = 100, .announce = {.total = 100,
		.oldest = row + 1000, .n_items = 1, .unasked = 100,
		.sum = ripc__crc32c(0, junk, 100)}};
	uint64_t refused;
	struct who who[2];

	lone_open(&lone);
	lone_introduce(&lone);
	ids[0] = request_to(&lone);
	ids[1] = request_to(&lone);
	two_claim(&lone, who);
	if (_i) {
		far.h.flags |= WIRE_F_REPLIES | WIRE_F_CALL;
		far.replies = ids[0];
		far.call.kind = WIRE_CALL_ANSWERS;
	}
	lone_say(&lone, &far, &total, junk);
	lone_pass(&lone, 5000);
	be(&lone, &who[1]);
	say_long(&lone, row + 5, 2 * LARGE, 0, _i ? ids[1] : 0);
	be(&lone, &who[0]);
	refused = lone_stats(&lone).messages_refused;
	succeed(&lone, who);
	lone_pass(&lone, 30000000); /* the sender is silent: it is given up */
	ck_assert_uint_eq(lone_stats(&lone).messages_refused, refused + 1);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const struct suite_loop tests[] = {
		{replies__beside_unread_messages, 1},
		{replies__one_for_each_call, 1},
		{replies__nobody_waits_for, 1},
		{replies__numbers_are_their_own, 1},
		{replies__and_others_are_answered_apart, 1},
		{replies__pass_what_waits, 1},
		{replies__of_calls_that_have_ended, 2},
		{replies__row_is_inherited, 1},
		{numbers__below_what_is_inherited, 2},
		{NULL, 0},
	};

	return suite_run_loops("replies", tests);
}
