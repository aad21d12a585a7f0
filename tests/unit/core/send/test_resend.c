/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages to a partner who asks for the same again and again. */
#include "core/net/backend.h"
#include "core/wire/wire.h"
#include "mover.h"

static uint8_t bytes[200000];

/* A long message to the partner; returns its number. */
static uint64_t announced_for(struct lone *lone, const struct iovec *item, int timeout_ms)
{
	struct ripc_send send = {.size = sizeof(send), .to = lone->service, .n_items = 1,
		.items = item, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = timeout_ms};
	struct wire_packet announce;
	uint32_t since = lone->n_sent;

	ck_assert_int_eq(ripc_sendmsg(lone->svc, &send, NULL), 0);
	ck_assert(lone_hear(lone, since, WIRE_ANNOUNCE, &announce));
	return announce.h.number;
}

static uint64_t announced(struct lone *lone, const struct iovec *item)
{
	return announced_for(lone, item, 10000);
}

/* The receiver has been sent all, and asks for it again and again: it draws little. */
START_TEST(pull__asks_again_and_again)
{
	static uint8_t large[1 << 20];
	static struct lone lone;
	const struct iovec item = {large, sizeof(large)};
	struct wire_packet pull = {.h.type = WIRE_PULL, .pull.limit = sizeof(large)};
	uint64_t before;

	lone_open(&lone);
	lone_introduce(&lone);
	pull.h.number = announced(&lone, &item);
	lone_say(&lone, &pull, NULL, NULL);
	pull.pull.n_holes = 1;
	pull.pull.holes[0] = (struct wire_range){0, sizeof(large)};
	/* A path gets the bytes that it may lose at once. */
	for (int round = 0; round < 3; round++) {
		before = lone.sent_bytes;
		lone_say(&lone, &pull, NULL, NULL);
		ck_assert_uint_ge(lone.sent_bytes - before, sizeof(large));
	}
	before = lone.sent_bytes;
	for (int round = 0; round < 100; round++) {
		lone.now_us += 500; /* a time-out, at least */
		lone_say(&lone, &pull, NULL, NULL);
	}
	ck_assert_uint_ge(lone.sent_bytes - before, 1 << 20);
	ck_assert_uint_le(lone.sent_bytes - before, 9 << 20);
	lone_close_all(&lone);
}
END_TEST

/*
 * Packets that the network does not take were not sent: they go with the next request, and nothing
 * twice.
 */
START_TEST(pull__network_is_full)
{
	static struct lone lone;
	const struct iovec item = {bytes, sizeof(bytes)};
	struct wire_packet pull = {.h.type = WIRE_PULL, .pull.limit = sizeof(bytes)};
	struct wire_packet data;
	uint32_t since;
	uint64_t sent;

	memset(bytes, 7, sizeof(bytes));
	lone_open(&lone);
	lone_introduce(&lone);
	sent = lone.sent_bytes;
	pull.h.number = announced(&lone, &item);
	lone.room = 6;
	lone_say(&lone, &pull, NULL, NULL);
	lone.room = 0;
	ck_assert_uint_lt(lone.sent_bytes - sent, sizeof(bytes));
	since = lone.n_sent;
	lone_say(&lone, &pull, NULL, NULL);
	ck_assert_uint_ge(lone.sent_bytes - sent, sizeof(bytes));
	ck_assert_uint_le(lone.sent_bytes - sent, sizeof(bytes) + sizeof(bytes) / 16);
	/* The checksum is that of all bytes. */
	ck_assert(lone_hear(&lone, since, WIRE_DATA, &data));
	ck_assert(data.h.flags & WIRE_F_LAST);
	ck_assert_uint_eq(data.sum, ripc__crc32c(0, bytes, sizeof(bytes)));
	lone_close_all(&lone);
}
END_TEST

/* The partner says at every turn that it has forgotten us. */
START_TEST(retry__again_and_again)
{
	static struct lone lone;
	const struct iovec item = {bytes, sizeof(bytes)};
	struct wire_packet retry = {.h.type = WIRE_RETRY, .value = 1};
	uint32_t before;
	uint64_t token;

	lone_open(&lone);
	lone_introduce(&lone);
	for (int i = 0; i < 50; i++)
		announced(&lone, &item);
	retry.h.number = lone.token_in;
	token = lone.token_out;
	before = lone.n_sent;
	for (int i = 0; i < 100; i++) {
		lone.token_out = token;
		lone_say(&lone, &retry, NULL, NULL);
	}
	ck_assert_uint_ge(lone.n_sent - before, 50);
	ck_assert_uint_le(lone.n_sent - before, 100);
	lone.now_us += 20000;
	before = lone.n_sent;
	lone_say(&lone, &retry, NULL, NULL);
	ck_assert_uint_ge(lone.n_sent - before, 50);
	lone_close_all(&lone);
}
END_TEST

/* Half of it has been sent for so long that it is not announced again: it was not delivered. */
START_TEST(retry__when_half_is_sent)
{
	static struct lone lone;
	const struct iovec item = {bytes, sizeof(bytes)};
	struct wire_packet pull = {.h.type = WIRE_PULL, .pull.limit = sizeof(bytes) / 2};
	struct wire_packet retry = {.h.type = WIRE_RETRY, .value = 1};
	struct ripc_msg *msg;

	lone_open(&lone);
	lone_introduce(&lone);
	pull.h.number = announced_for(&lone, &item, 60000);
	for (int i = 0; i < 7; i++) {
		lone_say(&lone, &pull, NULL, NULL);
		lone_pass(&lone, 5000000);
	}
	retry.h.number = lone.token_in;
	lone_say(&lone, &retry, NULL, NULL);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
	ck_assert_int_eq(msg->outcome, RIPC_NOT_DELIVERED);
	ck_assert_int_eq(msg->status, -EHOSTUNREACH);
	ripc_msg_free(msg);
	lone_close_all(&lone);
}
END_TEST

static uint32_t n_announced(struct lone *lone, uint32_t since)
{
	struct wire_packet packet;
	uint32_t n = 0;

	for (uint32_t i = since; i < lone->n_sent; i++)
		n += wire_decode(lone->sent[i % LONE_SENT_MAX], lone->sent_len[i % LONE_SENT_MAX],
			&packet) == 0 && packet.h.type == WIRE_ANNOUNCE;
	return n;
}

/* To a silent partner: first after two repetition times and 1 ms, then each time twice as long. */
START_TEST(silence__is_asked_less_and_less)
{
	static struct lone lone;
	const struct iovec item = {bytes, sizeof(bytes)};
	uint64_t told_us, wait_us = 7000;
	uint32_t n_sent;

	lone_open(&lone);
	lone_introduce(&lone);
	announced(&lone, &item);
	for (int n = 0; n < 6; n++) {
		told_us = lone.now_us;
		n_sent = lone.n_sent;
		while (n_announced(&lone, n_sent) == 0)
			lone_pass(&lone, 100);
		ck_assert_uint_eq(lone.now_us - told_us, wait_us);
		wait_us *= 2;
	}
	lone_close_all(&lone);
}
END_TEST

/* A partner falls silent before a queue that is longer than what is told to it at once. */
START_TEST(silence__ends_what_waits)
{
	static struct lone lone;
	const struct iovec item = {bytes, 100};
	struct ripc_send send = {.size = sizeof(send), .n_items = 1, .items = &item,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 60000};
	uint32_t n_sent = 0, n_unknown = 0, n_ended = 0;
	struct ripc_msg *msg;

	lone_open(&lone);
	lone_introduce(&lone);
	send.to = lone.service;
	send.to_incarnation = lone.incarnation;
	while (ripc_sendmsg(lone.svc, &send, NULL) == 0)
		n_sent++;
	ck_assert_uint_gt(n_sent, 64);
	for (int s = 0; s < 12; s++)
		lone_pass(&lone, 1000000);
	while (ripc_receive(lone.svc, 0, &msg) == 0) {
		ck_assert_int_eq(msg->status, msg->outcome == RIPC_UNKNOWN ? -ECONNRESET :
			msg->outcome == RIPC_NOT_DELIVERED ? -EHOSTUNREACH : 0);
		n_unknown += msg->outcome == RIPC_UNKNOWN;
		n_ended += msg->outcome != 0; /* the other messages report room */
		ripc_msg_free(msg);
	}
	ck_assert_uint_eq(n_ended, n_sent);
	ck_assert_uint_gt(n_unknown, 0);
	ck_assert_uint_le(n_unknown, 64); /* the sent messages */
	lone_close_all(&lone);
}
END_TEST

/*
 * Partners are given up soon here, but this one answers each announcement: it is busy, or still
 * reads. Once what it is asked, or its answer, is lost.
 */
START_TEST(pull__in_good_time)
{
	static struct lone lone;
	const struct iovec item = {bytes, sizeof(bytes)};
	struct wire_packet announce, pull = {.h.type = WIRE_PULL, .pull.busy = 1};
	const uint32_t timeouts_ms[] = {200, 400, 200};
	uint32_t since, n_heard = 0;
	struct ripc_msg *msg;

	mover_open(&lone, _i == 2 ? RIPC_CAP_READ : 0);
	lone.ctx->cfg.peer_timeout_ms = timeouts_ms[_i];
	lone_introduce(&lone);
	pull.h.number = announced(&lone, &item);
	since = lone.n_sent;
	for (int ms = 0; ms < 1000; ms++) {
		lone_pass(&lone, 1000);
		if (!lone_hear(&lone, since, WIRE_ANNOUNCE, &announce))
			continue;
		since = lone.n_sent;
		if (++n_heard != 2)
			lone_say(&lone, &pull, NULL, NULL);
	}
	ck_assert_uint_ge(n_heard, 5);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ pull__asks_again_and_again, 1 }, { pull__network_is_full, 1 },
		{ retry__again_and_again, 1 },
		{ retry__when_half_is_sent, 1 }, { silence__ends_what_waits, 1 },
		{ silence__is_asked_less_and_less, 1 },
		{ pull__in_good_time, 3 }, { NULL, 0 },
	};

	return suite_run_loops("resend", loops);
}
