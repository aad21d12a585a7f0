/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that partners may write into, and whether they did: with a partner that may say anything,
 * and with two contexts on the loop backend.
 */
#include "loop/loop.h"
#include "core/net/backend.h"
#include "core/net/env.h"
#include "core/wire/wire.h"
#include "util/hash/blocksum.h"
#include "util/hash/crc32c.h"
#include "writer.h"

/* ---- asking ------------------------------------------------------------------------------ */

/* Asks the partner with so many bytes, and so many return buffers of LENT / 2 bytes. */
static void ask_with(struct lone *lone, size_t len, uint32_t n_returns, uint32_t flags,
		struct wire_packet *question)
{
	const struct iovec item = {ours, len};
	struct ripc_buffer returns[2] = {{.mem = {lent, LENT / 2}, .cookie = 1},
		{.mem = {lent + LENT / 2, LENT / 2}, .cookie = 2}};
	struct ripc_send send = {.size = sizeof(send), .to = lone->service, .items = &item,
		.n_items = 1, .returns = returns, .n_returns = n_returns, .cookie = 9,
		.flags = flags, .timeout_ms = flags ? 5000 : 0};
	uint32_t since = lone->n_sent;

	ck_assert_int_eq(ripc_sendmsg(lone->svc, &send, NULL), 0);
	ck_assert(lone_hear(lone, since, flags ? WIRE_ANNOUNCE : WIRE_SHORT, question));
}

/* The same in brief, short or long. */
static void ask(struct lone *lone, uint32_t n_returns, uint32_t flags, struct wire_packet *question)
{
	ask_with(lone, 20, n_returns, flags, question);
}

/* Says that the answer has been written: two items, of which the first came along. */
static void say_written(struct lone *lone, uint64_t number, uint64_t id, uint64_t total,
		uint32_t sum)
{
	const uint64_t lens[2] = {20, total - 20};
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = number, .n_items = 2,
		.h.flags = (uint16_t)(WIRE_F_REPLIES | (sum ? WIRE_F_LAST : 0)), .replies = id,
		.payload_len = 20, .announce = {.total = total, .oldest = 1, .n_items = 2,
			.unasked = 20, .sum = sum, .keys = WIRE_KEYS_WRITTEN}};

	lone_say(lone, &packet, lens, ours);
}

static void check_landed(struct lone *lone, uint64_t total)
{
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), 0);
	ck_assert_uint_eq(msg->n_items, 2);
	ck_assert_ptr_eq(msg->items[0].iov_base, lent);
	ck_assert_ptr_eq(msg->items[1].iov_base, lent + LENT / 2);
	ck_assert_uint_eq(msg->items[1].iov_len, total - 20);
	ck_assert_int_eq(memcmp(msg->items[0].iov_base, ours, 20), 0);
	ck_assert_int_eq(memcmp(msg->items[1].iov_base, ours + 20, total - 20), 0);
	ck_assert_uint_eq(msg->places[1].cookie, 2);
	ck_assert_int_eq(msg->places[1].place, RIPC_IN_RETURN);
	ripc_msg_free(msg);
}

/* The buffer goes to the application where it was written, once no partner can write any more. */
START_TEST(returns__written_into)
{
	static struct lone lone;
	const uint64_t total = 700000;
	struct wire_packet question, answer;
	struct wire_return offered;
	uint32_t sum;

	writer_open(&lone, _i & 1 ? CAPS & ~(uint32_t)RIPC_CAP_INTACT : CAPS);
	sum = _i & 1 ? ripc__blocksum_told(ripc__blocksum(ours + 20, total - 20, 20)) : 0;
	ask(&lone, 2, 0, &question);
	ck_assert_uint_eq(question.n_returns, 2);
	wire_return_at(&question, 1, &offered);
	ck_assert_uint_eq(offered.len, LENT / 2);
	ck_assert_uint_eq(offered.address, (uintptr_t)lent + LENT / 2);
	ck_assert_uint_eq(offered.key, KEY + 1);
	ck_assert_uint_eq(fake.n_writable, 2);
	fake.fences = _i & 2;
	memcpy(lent + LENT / 2, ours + 20, total - 20);
	say_written(&lone, 1, question.lends, total, sum);
	ck_assert_uint_eq(fake.n_closed, 2);
	for (int i = 0; fake.fences && i < 2; i++) {
		struct ripc_msg *msg;

		say_written(&lone, 1, question.lends, total, sum); /* repeated */
		ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
		fenced();
		ripc_poll(lone.ctx);
	}
	check_landed(&lone, total);
	ck_assert_uint_eq(fake.n_closed, 2);
	ck_assert_uint_eq(lone_stats(&lone).landed_bytes, total - 20);
	lone_pass(&lone, 2000);
	ck_assert(lone_hear(&lone, 0, WIRE_ANSWER, &answer));
	ck_assert_uint_eq(answer.ack.status, 0);
	ck_assert_int_eq(ripc_cancel(lone.svc, 9), -ENOENT);
	lone_close_all(&lone);
}
END_TEST

/* Repeating a question offers the same again, and opens nothing. */
START_TEST(returns__offered_again)
{
	static struct lone lone;
	struct wire_packet question, again;
	uint32_t since;

	writer_open(&lone, CAPS);
	ask(&lone, 1, RIPC_SEND_LONG | RIPC_NOWAIT, &question);
	ck_assert_uint_eq(question.n_returns, 1);
	since = lone.n_sent;
	lone_pass(&lone, 100000);
	ck_assert(lone_hear(&lone, since, WIRE_ANNOUNCE, &again));
	ck_assert_uint_eq(again.n_returns, 1);
	ck_assert_uint_eq(fake.n_writable, 1);
	lone_close_all(&lone);
	ck_assert_uint_eq(fake.n_closed, 1);
}
END_TEST

/* Where nothing can be written, or it is not worth it. */
START_TEST(returns__not_offered)
{
	static struct lone lone;
	const struct iovec item = {ours, 20};
	struct ripc_buffer small = {.mem = {lent, 1000}};
	struct ripc_send send = {.size = sizeof(send), .items = &item, .n_items = 1,
		.returns = &small, .n_returns = 1};
	struct wire_packet question;

	writer_open(&lone, _i ? CAPS : RIPC_CAP_READ);
	send.to = lone.service;
	if (_i)
		ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), 0);
	else
		ask(&lone, 2, 0, &question);
	ck_assert(lone_hear(&lone, 0, WIRE_SHORT, &question));
	ck_assert_uint_eq(question.n_returns, 0);
	ck_assert_uint_eq(fake.n_open, 0);
	lone_close_all(&lone);
}
END_TEST

/* Larger than it was lent, not what the checksum says, to a question that offered nothing. */
START_TEST(returns__lies)
{
	static struct lone lone;
	struct wire_packet question, pull;
	struct ripc_msg *msg;

	writer_open(&lone, _i == 1 ? CAPS & ~(uint32_t)RIPC_CAP_INTACT :
		_i == 2 ? CAPS & ~(uint32_t)RIPC_CAP_WRITE : CAPS);
	ask(&lone, 2, 0, &question);
	say_written(&lone, 1, _i == 3 ? question.lends + 1 : question.lends,
		_i == 0 ? LENT : 100000, 0);
	if (_i == 1)
		say_written(&lone, 2, question.lends, 100000, 1234);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
	ck_assert(lone_hear(&lone, 0, WIRE_PULL, &pull));
	ck_assert_uint_gt(pull.pull.limit, 20);
	ck_assert_uint_eq(lone_stats(&lone).landed_bytes, 0);
	ck_assert_uint_eq(fake.n_closed, _i < 2 ? 2 : 0);
	lone_close_all(&lone);
	ck_assert_uint_eq(fake.n_closed, _i == 2 ? 0 : 2);
}
END_TEST

/* Neither what was written by another device is believed, nor keys that came by another one. */
START_TEST(returns__moved)
{
	static struct lone lone;
	const uint64_t lens[1] = {500000}, keys[2] = {12, 34};
	struct wire_packet question, pull, answer = {.h.type = WIRE_ANNOUNCE, .h.number = 1,
		.h.flags = WIRE_F_REPLIES, .n_items = 1, .announce = {.total = lens[0],
			.oldest = 1, .n_items = 1, .keys = WIRE_KEYS_READ}};

	writer_open(&lone, CAPS);
	move(&lone, _i == 0);
	ask(&lone, 2, 0, &question);
	fake.fences = _i;
	if (_i) {
		answer.replies = question.lends;
		lone.keys = keys;
		lone_say(&lone, &answer, lens, NULL);
		move(&lone, 1);
		for (uint32_t i = 0; i < 2; i++)
			fenced();
		ripc_poll(lone.ctx);
	} else {
		move(&lone, 0);
		say_written(&lone, 1, question.lends, 100000, 0);
	}
	ck_assert(lone_hear(&lone, 0, WIRE_PULL, &pull));
	ck_assert_uint_gt(pull.pull.limit, 20);
	ck_assert_uint_eq(lone_stats(&lone).landed_bytes, 0);
	lone_close_all(&lone);
}
END_TEST

/* An answer that comes another way finds its return buffers closed, too. */
START_TEST(returns__answered_otherwise)
{
	static struct lone lone;
	const uint64_t lens[1] = {500};
	struct wire_packet question, answer = {.h.type = _i & 1 ? WIRE_SHORT : WIRE_ANNOUNCE,
		.h.number = 1, .h.flags = WIRE_F_REPLIES, .n_items = 1, .payload_len = 500,
		.announce = {.total = 500, .oldest = 1, .n_items = 1, .unasked = 500}};
	struct ripc_msg *msg;

	writer_open(&lone, CAPS);
	ask(&lone, 1, 0, &question);
	answer.replies = question.lends;
	if (answer.h.type == WIRE_ANNOUNCE) {
		answer.h.flags |= WIRE_F_LAST;
		answer.announce.sum = ripc__crc32c(0, ours, 500);
	}
	fake.fences = _i & 2;
	lone_say(&lone, &answer, lens, ours);
	ck_assert_uint_eq(fake.n_closed, 1);
	if (fake.fences) {
		ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
		memset(lent, 0xee, LENT); /* until now somebody could */
		fenced();
	}
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert_ptr_eq(msg->items[0].iov_base, lent);
	ck_assert_int_eq(memcmp(lent, ours, 500), 0);
	ripc_msg_free(msg);
	lone_close_all(&lone);
}
END_TEST

/* Taken back, or its service closed: the call waits until nobody can write. */
START_TEST(returns__taken_back)
{
	static struct lone lone;
	struct wire_packet question;

	writer_open(&lone, CAPS);
	ask(&lone, 1, 0, &question);
	fake.fences = fake.ends_when_waited_for = true;
	if (_i)
		ck_assert_int_eq(ripc_service_close(lone.svc), 0);
	else
		ck_assert_int_eq(ripc_cancel(lone.svc, 9), 0);
	ck_assert_uint_eq(fake.n_closed, 1);
	ck_assert(!fake.ends_when_waited_for);
	lone_close_all(&lone);
}
END_TEST

static void refuse(struct lone *lone, const struct wire_packet *question)
{
	const uint64_t number = question->h.number;
	struct wire_packet refusal = {.h.type = WIRE_ANSWER, .h.number = number,
		.ack = {.number = number, .status = ENOBUFS}};

	lone_say(lone, &refusal, NULL, NULL);
}

/* The question is refused: its end is told when nobody can write any more. */
START_TEST(returns__of_a_refused_request)
{
	static struct lone lone;
	struct wire_packet question;
	struct ripc_msg *msg;

	writer_open(&lone, CAPS);
	ask(&lone, 1, RIPC_SEND_LONG | RIPC_NOWAIT, &question);
	fake.fences = true;
	refuse(&lone, &question);
	ck_assert_uint_eq(fake.n_closed, 1);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
	fenced();
	ripc_poll(lone.ctx);
	check_completion(&lone, RIPC_NOT_DELIVERED);
	ck_assert_int_eq(ripc_cancel(lone.svc, 9), -ENOENT);
	lone_close_all(&lone);
}
END_TEST

/* Its answer, of 200,000 bytes, is to be read or pulled. */
static void announce_answer(struct lone *lone, const struct wire_packet *question, bool is_read)
{
	const uint64_t len = 200000, keys[2] = {0, 77};
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = 1, .n_items = 1,
		.h.flags = WIRE_F_REPLIES, .replies = question->lends, .announce = {.total = len,
			.oldest = 1, .n_items = 1, .unasked = is_read ? 0 : 65536,
			.keys = is_read ? WIRE_KEYS_READ : 0}};

	lone->keys = is_read ? keys : NULL;
	lone_say(lone, &packet, &len, NULL);
	lone->keys = NULL;
}

/* The next bytes of that come. Do they land in what was lent? */
static bool lands(struct lone *lone)
{
	struct wire_packet data = {.h.type = WIRE_DATA, .h.number = 1, .payload_len = 1000};

	lone_say(lone, &data, NULL, ours);
	return memcmp(lent, ours, 1000) == 0;
}

/*
 * The partner reports that the question did not arrive, and is answering it: its buffers are still
 * posted.
 */
START_TEST(returns__of_a_request_being_answered)
{
	static struct lone lone;
	struct wire_packet question, gone = {.h.type = WIRE_GONE};

	writer_open(&lone, CAPS);
	ask(&lone, 1, RIPC_SEND_LONG | RIPC_NOWAIT, &question);
	announce_answer(&lone, &question, _i);
	ck_assert_uint_eq(fake.n_reads, _i);
	if (_i) {
		gone.h.number = lone.token_in;
		gone.value = lone.now_us / 2;
		lone_say(&lone, &gone, NULL, NULL);
		lone_pass(&lone, 3000000); /* the partner is not at another address, either */
	} else {
		refuse(&lone, &question);
	}
	check_completion(&lone, RIPC_UNKNOWN);
	fake.ends_when_waited_for = true;
	ck_assert_int_eq(ripc_cancel(lone.svc, 9), 0);
	ck_assert(!lands(&lone));
	ck_assert_uint_eq(fake.n_reads, 0);
	lone_close_all(&lone);
}
END_TEST

/*
 * The partner refuses the question, and answers while the items are still being closed: too late.
 */
START_TEST(returns__answered_after_a_refusal)
{
	static struct lone lone;
	struct wire_packet question;

	writer_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	ask_with(&lone, 200000, 1, RIPC_SEND_LONG | RIPC_NOWAIT, &question);
	fake.fences = true;
	refuse(&lone, &question);
	ck_assert_uint_eq(fake.n_closed, 1);
	announce_answer(&lone, &question, false);
	ck_assert(!lands(&lone));
	fenced();
	ripc_poll(lone.ctx);
	check_completion(&lone, RIPC_NOT_DELIVERED);
	ck_assert_int_eq(ripc_cancel(lone.svc, 9), -ENOENT);
	lone_close_all(&lone);
}
END_TEST

/* The partner is gone: so is what it could write into, which stays lent. */
START_TEST(returns__partner_gone)
{
	static struct lone lone;
	struct wire_packet question, gone = {.h.type = WIRE_GONE};

	writer_open(&lone, CAPS);
	ask(&lone, 1, 0, &question);
	gone.h.number = lone.token_in;
	fake.fences = _i;
	lone_say(&lone, &gone, NULL, NULL);
	ck_assert_uint_eq(fake.n_closed, 1);
	if (_i)
		fake.ends_when_waited_for = true;
	ck_assert_int_eq(ripc_cancel(lone.svc, 9), 0);
	ck_assert_uint_eq(fake.n_closed, 1);
	lone_close_all(&lone);
}
END_TEST

/* The context closes while something is being written, and while an answer is parked. */
START_TEST(close__in_between)
{
	static struct lone lone;
	struct wire_packet question;

	writer_open(&lone, CAPS | RIPC_CAP_REGISTERED);
	answer(&lone, asked(&lone, 1, 2, MIB), 1000000);
	ck_assert_uint_eq(fake.n_regions, 2);
	ask(&lone, 2, _i ? RIPC_SEND_LONG | RIPC_NOWAIT : 0, &question);
	fake.fences = true;
	say_written(&lone, 1, question.lends, 100000, 0);
	lone_close_all(&lone);
	ck_assert_uint_eq(fake.n_regions, 0);
}
END_TEST

/* ---- two contexts ------------------------------------------------------------------------ */

static struct ripc_msg *await(struct ripc_context *const ctx[2], struct ripc_service *svc)
{
	struct ripc_msg *msg;

	while (ripc_receive(svc, 0, &msg)) {
		ripc_poll(ctx[0]);
		ripc_poll(ctx[1]);
	}
	return msg;
}

static void ask_and_answer(struct ripc_context *const ctx[2], struct ripc_service *const svc[2])
{
	const struct iovec items[2] = {{ours, 30}, {ours + 30, 2000000}};
	struct ripc_buffer returns[2] = {{.mem = {lent, 50}}, {.mem = {theirs, sizeof(theirs)}}};
	struct ripc_send send = {.size = sizeof(send), .n_items = 1, .items = items,
		.to = ripc_service_id(svc[1]), .returns = returns, .n_returns = 2};
	struct ripc_msg *msg;

	memset(theirs, 0, sizeof(theirs));
	ours[1000]++;
	ck_assert_int_eq(ripc_sendmsg(svc[0], &send, NULL), 0);
	msg = await(ctx, svc[1]);
	send = (struct ripc_send){.size = sizeof(send), .to = msg->from, .items = items,
		.n_items = 2, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 5000,
		.reply_to = msg->reply};
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_sendmsg(svc[1], &send, NULL), 0);
	msg = await(ctx, svc[0]);
	ck_assert_ptr_eq(msg->items[1].iov_base, theirs);
	ck_assert_int_eq(memcmp(theirs, ours + 30, 2000000), 0);
	ck_assert_int_eq(memcmp(lent, ours, 30), 0);
	ripc_msg_free(msg);
	msg = await(ctx, svc[1]);
	ck_assert_int_eq(msg->outcome, RIPC_DELIVERED);
	ripc_msg_free(msg);
}

/* The first answer finds nothing offered, as its asker did not know whom it asked. */
START_TEST(loop__answers_are_written)
{
	struct ripc_config cfg = {.size = sizeof(cfg), .flags = RIPC_SINGLE_THREAD,
		.pool_bytes = 64u << 20};
	const struct ripc__backend *const backends[] = {&ripc__loop_backend, NULL};
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc__loop_hub *hub;
	struct ripc__env env;
	struct ripc_context *ctx[2];
	struct ripc_service *svc[2];

	ck_assert_int_eq(ripc__loop_hub_open(&hub), 0);
	ripc__env_init(&env);
	env.arg = hub;
	env.backends = backends;
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ripc__open_in(&cfg, &env, &ctx[i]), 0);
		ck_assert_int_eq(ripc_service_open(ctx[i], 0, 0, &svc[i]), 0);
	}
	for (uint32_t n = 0; n < 4; n++)
		ask_and_answer(ctx, svc);
	ck_assert_int_eq(ripc_stats_get(ctx[0], &stats), 0);
	ck_assert_uint_eq(stats.landed_bytes, 3 * 2000000);
	ck_assert_uint_eq(stats.read_bytes, 2000000);
	ck_assert_int_eq(ripc_stats_get(ctx[1], &stats), 0);
	ck_assert_uint_eq(stats.written_bytes, 3 * 2000000);
	ck_assert_uint_eq(stats.writes_failed, 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ripc_close(ctx[i], 0), 0);
	ripc__loop_hub_close(hub);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ returns__written_into, 4 }, { returns__offered_again, 1 },
		{ returns__not_offered, 2 }, { returns__lies, 4 },
		{ returns__answered_otherwise, 4 }, { returns__taken_back, 2 },
		{ returns__of_a_refused_request, 1 }, { returns__partner_gone, 2 },
		{ returns__of_a_request_being_answered, 2 },
		{ returns__answered_after_a_refusal, 1 },
		{ returns__moved, 2 }, { close__in_between, 2 },
		{ loop__answers_are_written, 1 }, { NULL, 0 },
	};

	return suite_run_loops("returns", loops);
}
