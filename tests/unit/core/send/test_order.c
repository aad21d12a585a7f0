/* SPDX-License-Identifier: BSD-3-Clause */
/* Ordered long messages: to and from a partner who says and loses what the test wants. */
#include "lone.h"

#define LONGS 64u
#define MIB   (1u << 20)

static uint8_t bytes[1u << 20];

/* ---- what the partner sends -------------------------------------------------------------- */

/* A message whose one byte is its number; oldest: of those not resolved. */
static void say_ordered(struct lone *lone, uint64_t number, uint64_t previous, uint64_t oldest)
{
	const uint8_t byte = (uint8_t)number;
	uint64_t total = 1;
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = number, .n_items = 1,
		.h.flags = WIRE_F_LAST | WIRE_F_ORDERED, .previous = previous, .payload_len = 1,
		.announce = {.total = 1, .oldest = oldest, .n_items = 1, .unasked = 1,
		.sum = ripc__crc32c(0, &byte, 1)}};

	lone_say(lone, &packet, &total, &byte);
}

static void say_unordered(struct lone *lone, uint64_t number)
{
	const uint8_t byte = (uint8_t)number;
	uint64_t total = 1;
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = number, .n_items = 1,
		.h.flags = WIRE_F_LAST, .payload_len = 1, .announce = {.total = 1, .oldest = 1,
		.n_items = 1, .unasked = 1, .sum = ripc__crc32c(0, &byte, 1)}};

	lone_say(lone, &packet, &total, &byte);
}

/* A long one, of which nothing comes by itself. */
static void say_large(struct lone *lone, uint64_t number, uint64_t previous, uint64_t total)
{
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = number, .n_items = 1,
		.h.flags = WIRE_F_ORDERED, .previous = previous, .announce = {.total = total,
		.oldest = 1, .n_items = 1}};

	lone_say(lone, &packet, &total, NULL);
}

static void say_cancel(struct lone *lone, uint64_t number, uint64_t oldest)
{
	struct wire_packet packet = {.h.type = WIRE_CANCEL, .h.number = number,
		.announce.oldest = oldest};

	lone_say(lone, &packet, NULL, NULL);
}

/* The next message is the one with that number; 0: there is none. */
static void check_next(struct lone *lone, uint64_t number)
{
	struct ripc_msg *msg;
	int error = ripc_receive(lone->svc, 0, &msg);

	ck_assert_int_eq(error, number ? 0 : -EAGAIN);
	if (error)
		return;
	ck_assert_int_eq(msg->kind, RIPC_LONG);
	ck_assert_uint_eq(((const uint8_t *)msg->items[0].iov_base)[0], number);
	ripc_msg_free(msg);
}

/* The answer about that number, alone or with a packet; -1: none since then. */
static int status_told(struct lone *lone, uint32_t since, uint64_t number)
{
	struct wire_packet packet;
	int found = -1;

	lone_pass(lone, 3000); /* answers wait for a packet to ride on */
	for (uint32_t i = since; i < lone->n_sent; i++) {
		uint32_t at = i % LONE_SENT_MAX;

		if (wire_decode(lone->sent[at], lone->sent_len[at], &packet) == 0 &&
				(packet.h.type == WIRE_ANSWER || packet.h.flags & WIRE_F_ACK) &&
				packet.ack.number == number)
			found = (int)packet.ack.status;
	}
	return found;
}

/* A message before its turn is delivered in its turn, and is not called done before. */
START_TEST(announce__in_its_turn)
{
	static struct lone lone;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	since = lone.n_sent;
	say_ordered(&lone, 3, 2, 1);
	say_ordered(&lone, 2, 1, 1);
	say_unordered(&lone, 4);
	ck_assert_int_eq(status_told(&lone, since, 3), -1);
	check_next(&lone, 4); /* unordered messages pass by */
	check_next(&lone, 0);
	say_ordered(&lone, 1, 0, 1);
	for (uint64_t number = 1; number <= 3; number++)
		check_next(&lone, number);
	check_next(&lone, 0);
	ck_assert_int_eq(status_told(&lone, since, 3), 0);
	lone_close_all(&lone);
}
END_TEST

/*
 * A message that waits for its turn is acknowledged when its sender asks, and given up if it never
 * does.
 */
START_TEST(announce__waits_while_its_sender_is_there)
{
	static struct lone lone;
	struct wire_packet pull;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	say_ordered(&lone, 2, 1, 1);
	for (int i = 0; i < 40; i++) {
		lone_pass(&lone, 1000000);
		since = lone.n_sent;
		say_ordered(&lone, 2, 1, 1);
		ck_assert(lone_hear(&lone, since, WIRE_PULL, &pull));
		ck_assert_uint_eq(pull.h.number, 2);
	}
	lone_pass(&lone, 30000000);
	ck_assert_uint_eq(lone_stats(&lone).messages_abandoned, 1);
	lone_close_all(&lone);
}
END_TEST

/* A refused message takes with it the waiting ones, and the later ones. */
START_TEST(announce__behind_a_refused_one)
{
	static struct lone lone;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	since = lone.n_sent;
	say_ordered(&lone, 2, 1, 1);
	say_ordered(&lone, 3, 2, 1);
	say_cancel(&lone, 1, 1);
	ck_assert_int_eq(status_told(&lone, since, 3), ECANCELED);
	since = lone.n_sent;
	say_ordered(&lone, 4, 3, 1);
	ck_assert_int_eq(status_told(&lone, since, 4), ECANCELED);
	check_next(&lone, 0);
	lone_close_all(&lone);
}
END_TEST

/*
 * The sender has given up the predecessor: its successor is dropped, also when announced again. A
 * message without predecessor begins a new order.
 */
START_TEST(announce__behind_a_lost_one)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	say_ordered(&lone, 2, 1, 1);
	say_ordered(&lone, 3, 0, 2);
	check_next(&lone, 3);
	say_ordered(&lone, 2, 1, 1);
	check_next(&lone, 0);
	lone_close_all(&lone);
}
END_TEST

/*
 * Its CANCEL was lost, and a later message names the one before it: it holds up nobody, whether all
 * of it has come or not, and is not handed out any more.
 */
START_TEST(announce__behind_one_that_was_given_up)
{
	static struct lone lone;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	if (_i)
		say_ordered(&lone, 2, 1, 1);
	else
		say_large(&lone, 2, 1, 2000);
	say_ordered(&lone, 3, 1, 1);
	check_next(&lone, 0);
	say_ordered(&lone, 1, 0, 1);
	check_next(&lone, 1);
	check_next(&lone, 3);
	since = lone.n_sent;
	say_ordered(&lone, 2, 1, 1);
	ck_assert_int_eq(status_told(&lone, since, 2), ECANCELED);
	check_next(&lone, 0);
	lone_close_all(&lone);
}
END_TEST

/* The message does not keep room that a later message needs, either. */
START_TEST(announce__needs_room_of_one_that_was_given_up)
{
	static struct lone lone;
	struct wire_packet pull;
	uint32_t since;

	lone_open(&lone); /* a pool of 64 MiB */
	lone_introduce(&lone);
	say_large(&lone, 2, 1, 40 * MIB);
	since = lone.n_sent;
	say_large(&lone, 3, 1, 40 * MIB);
	ck_assert(lone_hear(&lone, since, WIRE_PULL, &pull));
	ck_assert_uint_eq(pull.h.number, 3);
	ck_assert_uint_eq(pull.pull.busy, 0);
	lone_close_all(&lone);
}
END_TEST

/* A message that comes when a later one waits, or was handed out, is refused: it was given up. */
START_TEST(announce__after_a_later_one)
{
	static struct lone lone;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	since = lone.n_sent;
	say_ordered(&lone, 4, 1, 1);
	say_ordered(&lone, 2, 1, 1);
	ck_assert_int_eq(status_told(&lone, since, 2), ECANCELED);
	say_ordered(&lone, 1, 0, 1);
	check_next(&lone, 1);
	check_next(&lone, 4);
	say_unordered(&lone, 5);
	check_next(&lone, 5);
	since = lone.n_sent;
	say_ordered(&lone, 3, _i ? 1 : 0, 1);
	ck_assert_int_eq(status_told(&lone, since, 3), ECANCELED);
	check_next(&lone, 0);
	lone_close_all(&lone);
}
END_TEST

/* A delivered message below the oldest number delays no other. */
START_TEST(announce__behind_a_resolved_one)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	say_large(&lone, 2, 1, 2000);
	say_ordered(&lone, 1, 0, 1);
	check_next(&lone, 1);
	say_unordered(&lone, 3);
	check_next(&lone, 3);
	/* Number 1 is resolved; number 2, which knew it, is still being received. */
	say_ordered(&lone, 4, 2, 2);
	check_next(&lone, 0);
	for (uint64_t offset = 0; offset < 2000; offset += 1000) {
		static uint8_t twos[2000];
		struct wire_packet data = {.h.type = WIRE_DATA, .h.number = 2, .offset = offset,
			.payload_len = 1000};

		memset(twos, 2, sizeof(twos));
		if (offset) {
			data.h.flags = WIRE_F_LAST;
			data.sum = ripc__crc32c(0, twos, 2000);
		}
		lone_say(&lone, &data, NULL, twos);
	}
	check_next(&lone, 2);
	check_next(&lone, 4);
	lone_close_all(&lone);
}
END_TEST

/* Messages before their turn hold the whole pool; the one that they wait for finds room. */
START_TEST(announce__finds_room_in_its_turn)
{
	static struct lone lone;
	struct wire_packet pull;
	uint32_t since;

	lone_open(&lone); /* a pool of 64 MiB */
	lone_introduce(&lone);
	for (uint64_t number = 2; number <= 9; number++)
		say_large(&lone, number, number - 1, 8 * MIB);
	since = lone.n_sent;
	say_large(&lone, 1, 0, 40 * MIB);
	ck_assert(lone_hear(&lone, since, WIRE_PULL, &pull));
	ck_assert_uint_eq(pull.h.number, 1);
	ck_assert_uint_eq(pull.pull.busy, 0);
	/* A later message gives up no earlier one for itself. */
	since = lone.n_sent;
	say_large(&lone, 9, 8, 40 * MIB);
	ck_assert(lone_hear(&lone, since, WIRE_PULL, &pull));
	ck_assert_uint_eq(pull.pull.busy, 1);
	lone_close_all(&lone);
}
END_TEST

/* Any order of arrival, with repetitions: handed out are all, in order. */
START_TEST(announce__any_order_of_arrival)
{
	static struct lone lone;
	uint64_t seed = (uint64_t)_i + 1, oldest = 1;
	uint8_t n_told = 0;

	lone_open(&lone);
	lone_introduce(&lone);
	while (n_told < 200) {
		uint64_t number = oldest + suite_random(&seed) % 20;
		struct ripc_msg *msg;

		if (number > 200)
			continue;
		say_ordered(&lone, number, number > oldest ? number - 1 : 0, oldest);
		while (ripc_receive(lone.svc, 0, &msg) == 0) {
			ck_assert_uint_eq(((const uint8_t *)msg->items[0].iov_base)[0], ++n_told);
			ripc_msg_free(msg);
		}
		/* The sender learns of it some time. */
		if (suite_random(&seed) % 4 == 0)
			oldest = n_told + 1u;
	}
	lone_close_all(&lone);
}
END_TEST

/* ---- what we send ------------------------------------------------------------------------ */

static int32_t timeout_ms = 10000;

static int send_flags(struct lone *lone, uint64_t cookie, size_t len, uint32_t flags)
{
	const struct iovec item = {bytes, len};
	struct ripc_send send = {.size = sizeof(send), .to = lone->service, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT | flags, .cookie = cookie,
		.timeout_ms = timeout_ms};

	return ripc_sendmsg(lone->svc, &send, NULL);
}

static void send_ordered(struct lone *lone, uint64_t cookie)
{
	ck_assert_int_eq(send_flags(lone, cookie, 100, RIPC_ORDERED), 0);
}

static void say_answer(struct lone *lone, uint64_t number, uint32_t status)
{
	struct wire_packet packet = {.h.type = WIRE_ANSWER,
		.ack = {.number = number, .status = status}};

	lone_say(lone, &packet, NULL, NULL);
}

static void say_gone(struct lone *lone)
{
	struct wire_packet gone = {.h.type = WIRE_GONE, .h.number = lone->token_in, .value = 1};

	lone_say(lone, &gone, NULL, NULL);
}

/* The next completion. */
static void check_end(struct lone *lone, uint64_t cookie, enum ripc_outcome outcome, int status)
{
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), 0);
	ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
	ck_assert_uint_eq(msg->cookie, cookie);
	ck_assert_int_eq(msg->outcome, outcome);
	ck_assert_int_eq(msg->status, status);
	ripc_msg_free(msg);
}

/* The announcement of that number says which one comes before it. */
static void check_previous(struct lone *lone, uint64_t number, uint64_t previous)
{
	struct wire_packet packet;

	for (uint32_t i = lone->n_sent; i-- > 0 && lone->n_sent - i <= LONE_SENT_MAX;) {
		uint32_t at = i % LONE_SENT_MAX;

		if (wire_decode(lone->sent[at], lone->sent_len[at], &packet) ||
				packet.h.type != WIRE_ANNOUNCE || packet.h.number != number)
			continue;
		ck_assert(packet.h.flags & WIRE_F_ORDERED);
		ck_assert_uint_eq(packet.previous, previous);
		return;
	}
	ck_abort_msg("number %u was not announced", (unsigned int)number);
}

/* Each names the one before, past those that are not ordered, until that is known to be there. */
START_TEST(number__chain)
{
	static struct lone lone;
	struct wire_packet packet;

	lone_open(&lone);
	lone_introduce(&lone);
	send_ordered(&lone, 1);
	ck_assert_int_eq(send_flags(&lone, 2, 100, 0), 0);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &packet));
	ck_assert(!(packet.h.flags & WIRE_F_ORDERED));
	send_ordered(&lone, 3);
	check_previous(&lone, 1, 0);
	check_previous(&lone, 3, 1);
	say_answer(&lone, 1, 0);
	lone_pass(&lone, 100000); /* the message is repeated */
	check_previous(&lone, 3, 0);
	send_ordered(&lone, 4);
	check_previous(&lone, 4, 3);
	lone_close_all(&lone);
}
END_TEST

/* A message is refused: those behind it end, whether they were begun or not; those ahead, and those
 * that have no order, do not. Until all those ends were handed out nothing new that is ordered is
 * taken. */
START_TEST(ends__not_delivered)
{
	static struct lone lone;
	uint64_t cookie;
	struct ripc_msg *msg;

	timeout_ms = 10000;
	lone_open(&lone);
	lone_introduce(&lone);
	for (cookie = 1; cookie <= LONGS + 6; cookie++)
		ck_assert_int_eq(send_flags(&lone, cookie, 100, cookie == 5 ? 0 : RIPC_ORDERED), 0);
	say_answer(&lone, 3, ENOBUFS);
	lone_pass(&lone, 1);
	ck_assert_int_eq(send_flags(&lone, 99, 100, RIPC_ORDERED), -ECANCELED);
	ck_assert_int_eq(send_flags(&lone, 100, 100, 0), 0);
	check_end(&lone, 3, RIPC_NOT_DELIVERED, -ENOBUFS);
	ck_assert_int_eq(send_flags(&lone, 99, 100, RIPC_ORDERED), -ECANCELED);
	for (uint32_t left = LONGS + 6 - 4; left > 0; left--) { /* in whatever order */
		ck_assert_int_eq(send_flags(&lone, 99, 100, RIPC_ORDERED), -ECANCELED);
		ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
		ck_assert(msg->cookie > 3 && msg->cookie != 5 && msg->cookie < 99);
		ck_assert_int_eq(msg->outcome, RIPC_NOT_DELIVERED);
		ck_assert_int_eq(msg->status, -ECANCELED);
		ripc_msg_free(msg);
	}
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
	send_ordered(&lone, 99);
	say_answer(&lone, 1, 0);
	say_answer(&lone, 2, 0);
	say_answer(&lone, 5, 0);
	check_end(&lone, 1, RIPC_DELIVERED, 0);
	check_end(&lone, 2, RIPC_DELIVERED, 0);
	check_end(&lone, 5, RIPC_DELIVERED, 0);
	lone_close_all(&lone);
}
END_TEST

/* The outcome of a message is unknown: its receiver is asked about those behind it. */
START_TEST(ends__unknown)
{
	static struct lone lone;
	struct wire_packet cancel;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	send_ordered(&lone, 1);
	/* Nothing is heard of it until its deadline, but of the others. */
	timeout_ms = 60000;
	send_ordered(&lone, 2);
	ck_assert_int_eq(send_flags(&lone, 3, sizeof(bytes), RIPC_ORDERED), 0);
	send_ordered(&lone, 4);
	for (int i = 0; i < 9; i++) {
		struct wire_packet pull = {.h.type = WIRE_PULL, .pull.busy = 1};

		lone_pass(&lone, 1000000);
		for (pull.h.number = 2; pull.h.number <= 4; pull.h.number++)
			lone_say(&lone, &pull, NULL, NULL);
	}
	since = lone.n_sent;
	lone_pass(&lone, 1500000);
	check_end(&lone, 1, RIPC_UNKNOWN, -ECONNRESET);
	check_end(&lone, 3, RIPC_NOT_DELIVERED, -ECANCELED); /* never wholly sent */
	/* the message is not delivered, therefore, either */
	check_end(&lone, 4, RIPC_NOT_DELIVERED, -ECANCELED);
	for (uint64_t i = since; i < lone.n_sent; i++) {
		ck_assert_int_eq(wire_decode(lone.sent[i % LONE_SENT_MAX],
			lone.sent_len[i % LONE_SENT_MAX], &cancel), 0);
		if (cancel.h.type == WIRE_CANCEL && cancel.h.number == 2)
			since = 0;
	}
	ck_assert_uint_eq(since, 0);
	ck_assert_int_eq(send_flags(&lone, 99, 100, RIPC_ORDERED), -ECANCELED);
	say_answer(&lone, 2, 0);
	check_end(&lone, 2, RIPC_DELIVERED, 0);
	send_ordered(&lone, 99);
	timeout_ms = 10000;
	lone_close_all(&lone);
}
END_TEST

/*
 * The end of one is unknown, and the application has been told so: the next one begins a new order,
 * and says nothing about the one before (ripc.h, ripc_sendmsg()).
 */
START_TEST(ends__unknown_and_told)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	timeout_ms = 50;
	send_ordered(&lone, 1);
	lone_pass(&lone, 60000);
	timeout_ms = 10000;
	ck_assert_int_eq(send_flags(&lone, 99, 100, RIPC_ORDERED), -ECANCELED);
	check_end(&lone, 1, RIPC_UNKNOWN, -ECONNRESET);
	send_ordered(&lone, 2);
	check_previous(&lone, 2, 0);
	say_answer(&lone, 2, 0);
	check_end(&lone, 2, RIPC_DELIVERED, 0);
	lone_close_all(&lone);
}
END_TEST

/* The partner is gone: what was whole is unknown, and what came behind it goes to nobody. */
START_TEST(ends__partner_is_gone)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	send_ordered(&lone, 1);
	ck_assert_int_eq(send_flags(&lone, 2, sizeof(bytes), RIPC_ORDERED), 0);
	send_ordered(&lone, 3);
	lone_pass(&lone, 10000);
	say_gone(&lone);
	check_end(&lone, 1, RIPC_UNKNOWN, -ECONNRESET);
	check_end(&lone, 2, RIPC_NOT_DELIVERED, -ECANCELED);
	check_end(&lone, 3, RIPC_NOT_DELIVERED, -ECANCELED);
	lone_close_all(&lone);
}
END_TEST

/* A leaving service refuses all: they go to its successor, in their order, whichever refusal comes
 * first. */
START_TEST(refused__all_move_in_order)
{
	static struct lone lone;
	uint32_t number = 0;

	lone_open(&lone);
	lone_introduce(&lone);
	for (uint64_t cookie = 1; cookie <= 4; cookie++)
		send_ordered(&lone, cookie);
	say_answer(&lone, 2, ESHUTDOWN);
	say_answer(&lone, 1, ESHUTDOWN);
	lone.incarnation++;
	lone.context++;
	lone.token_in++;
	lone.token_out = 0;
	lone_pass(&lone, 100000);
	lone_answer(&lone, lone.incarnation, lone.context, 3);
	lone_pass(&lone, 1000);
	for (uint32_t i = 0; i < lone.n_sent && i < LONE_SENT_MAX && number < 4; i++) {
		struct wire_packet packet;

		if (lone.sent_to[i] != 3 || wire_decode(lone.sent[i], lone.sent_len[i], &packet) ||
				packet.h.type != WIRE_ANNOUNCE)
			continue;
		ck_assert_uint_eq(packet.h.number, ++number);
		ck_assert_uint_eq(packet.previous, number - 1);
	}
	ck_assert_uint_eq(number, 4);
	lone_close_all(&lone);
}
END_TEST

/*
 * An ordered message was lost on its way to the old holder, and a later one has gone to the new
 * holder: the lost one is not sent again.
 */
START_TEST(lost__goes_not_behind_a_later_one)
{
	static struct lone lone;
	struct wire_packet gone = {.h.type = WIRE_GONE};
	uint64_t token, old, since_us;

	lone_open(&lone);
	lone_introduce(&lone);
	old = lone.incarnation;
	token = lone.token_out;
	gone.h.number = lone.token_in;
	lone_pass(&lone, 1000000);
	since_us = lone.now_us - 100000;
	send_ordered(&lone, 1);
	/* Refused is one that is not ordered: its receiver is leaving. */
	ck_assert_int_eq(send_flags(&lone, 2, 100, 0), 0);
	say_answer(&lone, 2, ESHUTDOWN);
	lone_pass(&lone, 30000);
	lone_answer(&lone, old + 1, lone.context + 1, 3);
	send_ordered(&lone, 3);
	lone_pass(&lone, 1000);
	lone.incarnation = old;
	lone.token_out = token;
	gone.value = lone.now_us - since_us;
	lone_say(&lone, &gone, NULL, NULL);
	check_end(&lone, 1, RIPC_NOT_DELIVERED, -ENOENT);
	lone_close_all(&lone);
}
END_TEST

/* A short message cannot be ordered. */
START_TEST(sendmsg__order_of_a_short)
{
	static struct lone lone;
	const struct iovec item = {bytes, 10};
	struct ripc_send send = {.size = sizeof(send), .to = 5, .items = &item, .n_items = 1,
		.to_incarnation = 1};

	lone_open(&lone);
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), 0);
	send.flags = RIPC_ORDERED;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), -EINVAL);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ announce__in_its_turn, 1 },
		{ announce__waits_while_its_sender_is_there, 1 },
		{ announce__behind_a_refused_one, 1 },
		{ announce__behind_a_lost_one, 1 },
		{ announce__behind_one_that_was_given_up, 2 },
		{ announce__needs_room_of_one_that_was_given_up, 1 },
		{ announce__after_a_later_one, 2 },
		{ announce__behind_a_resolved_one, 1 },
		{ announce__finds_room_in_its_turn, 1 },
		{ announce__any_order_of_arrival, 20 },
		{ number__chain, 1 },
		{ ends__not_delivered, 1 },
		{ ends__unknown, 1 },
		{ ends__unknown_and_told, 1 },
		{ ends__partner_is_gone, 1 },
		{ refused__all_move_in_order, 1 },
		{ lost__goes_not_behind_a_later_one, 1 },
		{ sendmsg__order_of_a_short, 1 },
		{ NULL, 0 },
	};

	return suite_run_loops("order", loops);
}
