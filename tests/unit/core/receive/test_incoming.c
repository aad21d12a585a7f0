/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages from partners who have a valid token and say what they like, alone or in crowds. */
#include <stdio.h>

#include "lone.h"

#define MIB (1u << 20)

static uint8_t junk[1200];

static void say_short(struct lone *lone, uint64_t number, uint32_t len)
{
	struct wire_packet packet = {.h.type = WIRE_SHORT, .h.number = number, .n_items = 1,
		.payload_len = len};

	lone_say(lone, &packet, NULL, junk);
}

/* All of it in one packet. */
static void say_whole(struct lone *lone, uint64_t number, uint32_t len)
{
	uint64_t total = len;
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = number, .n_items = 1,
		.h.flags = WIRE_F_LAST, .payload_len = len, .announce = {.total = len,
		.oldest = 1, .n_items = 1, .unasked = len}};

	packet.announce.sum = ripc__crc32c(0, junk, len);
	lone_say(lone, &packet, &total, junk);
}

static void say_announce(struct lone *lone, uint64_t number, uint64_t total, uint32_t unasked)
{
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = number, .n_items = 1,
		.announce = {.total = total, .oldest = 1, .n_items = 1, .unasked = unasked}};

	lone_say(lone, &packet, &total, NULL);
}

static void say_data(struct lone *lone, uint64_t number, uint64_t offset, uint32_t len)
{
	struct wire_packet packet = {.h.type = WIRE_DATA, .h.number = number, .offset = offset,
		.payload_len = len};

	lone_say(lone, &packet, NULL, junk);
}

/* The sender announces more unasked bytes than the message has, and sends them. */
START_TEST(announce__unasked_beyond_total)
{
	static struct lone lone;
	struct ripc_msg *msg;

	lone_open(&lone);
	lone_introduce(&lone);
	memset(junk, 0x41, sizeof(junk));
	say_announce(&lone, 1, 10, 65536);
	say_data(&lone, 1, 0, sizeof(junk));
	say_data(&lone, 1, 10, 1000);
	say_data(&lone, 1, 60000, 1000);
	ck_assert_uint_eq(lone_stats(&lone).drop_malformed, 3);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
	lone_close_all(&lone);
}
END_TEST

/* As many pieces as are kept, and only then what is missing before them. */
START_TEST(data__fills_gap_before_many_pieces)
{
	static struct lone lone;
	struct wire_packet pull;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	say_announce(&lone, 1, 100000, 65536);
	for (uint64_t at = 1; at < 5000; at += 2)
		say_data(&lone, 1, at, 1);
	since = lone.n_sent;
	say_data(&lone, 1, 0, 1);
	say_data(&lone, 1, 2, 1);
	lone_pass(&lone, 300000);
	ck_assert(lone_hear(&lone, since, WIRE_PULL, &pull));
	ck_assert_uint_eq(pull.pull.have, 4);
	lone_close_all(&lone);
}
END_TEST

/* Answers to a number since so many packets had gone out; each speaks of the other one, too. */
static uint32_t answers(struct lone *lone, uint32_t since, uint64_t number, uint64_t also)
{
	struct wire_packet packet;
	uint32_t n = 0;

	for (uint32_t i = since; i < lone->n_sent; i++) {
		if (wire_decode(lone->sent[i], lone->sent_len[i], &packet) == 0 &&
				packet.h.type == WIRE_ANSWER && packet.ack.number == number) {
			ck_assert_uint_eq(packet.ack.status, 0);
			ck_assert_uint_eq(packet.ack.also >> (64 - (number - also)) & 1, 1);
			n++;
		}
	}
	return n;
}

/* The sender could not ask again: what it may not have heard is said three times. */
START_TEST(close__repeats_answers)
{
	static struct lone lone;
	struct wire_packet gone;
	struct ripc_msg *msg;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	for (uint64_t number = 1; number <= 3; number += 2)
		say_whole(&lone, number, 100);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
		ripc_msg_free(msg);
	}
	lone_pass(&lone, 100000);
	ck_assert_uint_eq(answers(&lone, 0, 3, 1), 1);
	since = lone.n_sent;
	lone_close_all(&lone);
	ck_assert_uint_eq(lone.n_sent - since, 3);
	for (; since < lone.n_sent; since++) {
		ck_assert_int_eq(wire_decode(lone.sent[since], lone.sent_len[since], &gone), 0);
		ck_assert_uint_eq(gone.h.type, WIRE_GONE);
		ck_assert_uint_eq(gone.h.flags, WIRE_F_ACK);
		ck_assert_uint_eq(gone.ack.number, 65);
		ck_assert_uint_eq(gone.ack.also, 5); /* not the second, which never came */
	}
}
END_TEST

/* A sender that speaks of later numbers only, or does not ask for long, has heard of them. */
START_TEST(close__repeats_no_answer_that_was_heard)
{
	static struct lone lone;
	struct wire_packet cancel = {.h.type = WIRE_CANCEL, .h.number = 3, .announce.oldest = 3};
	struct ripc_msg *msg;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	say_whole(&lone, 1, 100);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ripc_msg_free(msg);
	if (_i)
		lone_say(&lone, &cancel, NULL, NULL);
	lone_pass(&lone, _i ? 100000 : 1100000);
	since = lone.n_sent;
	lone_close_all(&lone);
	ck_assert_uint_eq(lone.n_sent, since + 1); /* a goodbye */
}
END_TEST

/* Up to where bytes of this message may come, as it was told last; 0: it must wait. */
static uint64_t granted(struct lone *lone, uint32_t since, uint64_t number)
{
	struct wire_packet packet;

	for (uint32_t i = lone->n_sent; i-- > since && lone->n_sent - i <= LONE_SENT_MAX;) {
		uint32_t at = i % LONE_SENT_MAX;

		if (wire_decode(lone->sent[at], lone->sent_len[at], &packet) == 0 &&
				packet.h.type == WIRE_PULL && packet.h.number == number &&
				packet.h.dst == lone->incarnation)
			return packet.pull.limit;
	}
	return 0;
}

static uint32_t receive_all(struct lone *lone)
{
	struct ripc_msg *msg;
	uint32_t n = 0;

	while (ripc_receive(lone->svc, 0, &msg) == 0) {
		ripc_msg_free(msg);
		n++;
	}
	return n;
}

/* The sender announces unrequested bytes, and never sends them. */
START_TEST(announce__unasked_that_never_come)
{
	static struct lone lone;
	uint32_t since;

	lone_open(&lone);
	for (int context = 0; context < 4; context++) {
		lone_newcomer(&lone, 2);
		for (uint64_t number = 1; number <= 64; number++)
			say_announce(&lone, number, 65536, 65536);
	}
	/* The limit of bytes under way is 1 MiB. */
	ck_assert_uint_le(lone_stats(&lone).granted_bytes, MIB / 2);
	lone_newcomer(&lone, 3);
	since = lone.n_sent;
	say_announce(&lone, 1, MIB, 0);
	ck_assert_uint_ge(granted(&lone, since, 1), 65536);
	lone_pass(&lone, 1000000);
	ck_assert_uint_le(lone_stats(&lone).granted_bytes, 65536);
	lone_close_all(&lone);
}
END_TEST

/*
 * A sender that announces and sends nothing delays no other, not even while it may still be on its
 * way.
 */
START_TEST(announce__dead_ones_delay_nobody)
{
	static struct lone lone;
	uint32_t since;

	lone_open(&lone);
	for (int context = 0; context < 8; context++) {
		lone_newcomer(&lone, 2);
		for (uint64_t number = 1; number <= 8; number++)
			say_announce(&lone, number, 100000, 0);
	}
	lone_newcomer(&lone, 3);
	since = lone.n_sent;
	say_announce(&lone, 1, 100000, 0);
	ck_assert_uint_gt(granted(&lone, since, 1), 0);
	/* When they have been silent, one from the same host finds all places free. */
	lone_pass(&lone, 2000000);
	lone_newcomer(&lone, 2);
	since = lone.n_sent;
	for (uint64_t number = 1; number <= 4; number++)
		say_announce(&lone, number, 100000, 0);
	ck_assert_uint_gt(granted(&lone, since, 1), 0);
	ck_assert_uint_gt(granted(&lone, since, 4), 0);
	lone_close_all(&lone);
}
END_TEST

/* Once it is heard again after a silence, the rest is taken to be on its way. */
START_TEST(data__after_a_silence)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	say_announce(&lone, 1, 65536, 65536);
	ck_assert_uint_eq(lone_stats(&lone).granted_bytes, 65536);
	lone_pass(&lone, 1000000);
	ck_assert_uint_eq(lone_stats(&lone).granted_bytes, 0);
	say_data(&lone, 1, 0, 1000);
	ck_assert_uint_eq(lone_stats(&lone).granted_bytes, 65536 - 1000);
	lone_close_all(&lone);
}
END_TEST

static void say_data_before(struct lone *lone, uint64_t number, uint64_t offset, uint32_t len)
{
	struct wire_packet packet = {.h.type = WIRE_DATA, .h.number = number, .offset = offset,
		.payload_len = len};

	lone_say_before(lone, &packet, NULL, junk);
}

/* One look finds bytes of two messages in turn: those of both count. */
START_TEST(data__of_two_messages_in_one_look)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	say_announce(&lone, 1, 65536, 65536);
	say_announce(&lone, 2, 65536, 65536);
	say_data_before(&lone, 1, 0, 1000);
	say_data_before(&lone, 2, 0, 1000);
	say_data_before(&lone, 2, 1000, 1000);
	say_data(&lone, 1, 1000, 1000);
	ck_assert_uint_eq(lone_stats(&lone).granted_bytes, 2 * 65536 - 4000);
	lone_close_all(&lone);
}
END_TEST

/* A message ends in the look that found bytes of it. */
START_TEST(data__before_the_end_in_one_look)
{
	static struct lone lone;
	struct wire_packet cancel = {.h.type = WIRE_CANCEL, .h.number = 1, .announce.oldest = 1};

	lone_open(&lone);
	lone_introduce(&lone);
	say_announce(&lone, 1, 65536, 65536);
	say_data_before(&lone, 1, 0, 1000);
	lone_say(&lone, &cancel, NULL, NULL);
	ck_assert_uint_eq(lone_stats(&lone).granted_bytes, 0);
	ck_assert_uint_eq(lone_stats(&lone).messages_refused, 1);
	lone_close_all(&lone);
}
END_TEST

/* Datagrams overtook another one, and the look that finds them finds that one, too. */
START_TEST(data__gap_that_the_same_look_fills)
{
	static struct lone lone;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	say_announce(&lone, 1, 65536, 65536);
	say_data(&lone, 1, 0, 1000);
	for (uint64_t at = 2000; at < 7000; at += 1000)
		say_data_before(&lone, 1, at, 1000);
	since = lone.n_sent;
	say_data(&lone, 1, 1000, 1000);
	ck_assert_uint_eq(lone.n_sent, since); /* nothing is asked for again */
	lone_close_all(&lone);
}
END_TEST

/* Unread shorts of one sender, and unread longs of another, leave room for others. */
START_TEST(queue__has_room_for_the_next)
{
	static struct lone lone;
	uint32_t n;

	lone_open(&lone);
	lone_introduce(&lone);
	for (uint64_t number = 1; number <= 5000; number++)
		say_short(&lone, number, 10);
	n = (uint32_t)lone_stats(&lone).short_received;
	ck_assert_uint_ge(n, 1000);
	ck_assert_uint_eq(lone_stats(&lone).drop_queue_full, 5000 - n);
	say_whole(&lone, 1, 10);
	ck_assert_uint_eq(lone_stats(&lone).long_received, 0);
	lone_newcomer(&lone, 2);
	for (uint64_t number = 1; number <= 64; number++)
		say_whole(&lone, number, 10);
	ck_assert_uint_eq(lone_stats(&lone).long_received, 64);
	say_short(&lone, 1, 10);
	ck_assert_uint_eq(lone_stats(&lone).short_received, n + 1);
	ck_assert_uint_eq(receive_all(&lone), n + 65);
	for (uint64_t number = 2; number <= 1000; number++)
		say_short(&lone, number, 10);
	ck_assert_uint_eq(receive_all(&lone), 999);
	lone_close_all(&lone);
}
END_TEST

/* Unread messages take a part of the pool, which is 64 MiB, whoever sends it. */
START_TEST(queue__takes_a_share_of_the_pool)
{
	static struct lone lone;
	uint64_t n;

	lone_open(&lone);
	for (int context = 0; context < 20; context++) {
		lone_newcomer(&lone, 2);
		for (uint64_t number = 1; number <= 3000; number++)
			say_short(&lone, number, sizeof(junk));
	}
	ck_assert_uint_le(lone_stats(&lone).pool_used_bytes, 5 * MIB);
	n = lone_stats(&lone).long_received;
	say_whole(&lone, 1, sizeof(junk));
	ck_assert_uint_eq(lone_stats(&lone).long_received, n);
	lone_newcomer(&lone, 3);
	say_whole(&lone, 1, sizeof(junk));
	ck_assert_uint_eq(lone_stats(&lone).long_received, n + 1);
	lone_close_all(&lone);
}
END_TEST

/* The contexts of one host begin, together, no more than leaves room for another host. */
START_TEST(announce__many_contexts_of_one_host)
{
	static struct lone lone;
	uint32_t since;

	lone_open(&lone);
	for (int context = 0; context < 10; context++) {
		lone_newcomer(&lone, 2);
		for (uint64_t number = 1; number <= 4; number++)
			say_announce(&lone, number, 7 * MIB, 0);
	}
	ck_assert_uint_ge(lone_stats(&lone).pool_used_bytes, 14 * MIB);
	ck_assert_uint_le(lone_stats(&lone).pool_used_bytes, 36 * MIB);
	lone_newcomer(&lone, 3);
	since = lone.n_sent;
	say_announce(&lone, 1, 20 * MIB, 65536);
	ck_assert_uint_ge(granted(&lone, since, 1), 65536);
	lone_close_all(&lone);
}
END_TEST

/* One message of a context takes half of the pool: another of the same host finds room besides. */
START_TEST(announce__one_that_takes_much)
{
	static struct lone lone;
	uint32_t since;

	lone_open(&lone);
	lone_newcomer(&lone, 2);
	since = lone.n_sent;
	say_announce(&lone, 1, 40 * MIB, 65536);
	ck_assert_uint_ge(granted(&lone, since, 1), 65536);
	since = lone.n_sent;
	say_announce(&lone, 2, MIB, 65536);
	ck_assert_uint_eq(granted(&lone, since, 2), 0);
	lone_newcomer(&lone, 2);
	since = lone.n_sent;
	say_announce(&lone, 1, MIB, 65536);
	ck_assert_uint_ge(granted(&lone, since, 1), 65536);
	lone_newcomer(&lone, 3);
	since = lone.n_sent;
	say_announce(&lone, 1, 6 * MIB, 65536);
	ck_assert_uint_ge(granted(&lone, since, 1), 65536);
	lone_close_all(&lone);
}
END_TEST

/* A message that no pool can hold is refused also while its host holds something. */
START_TEST(announce__too_long_beside_another)
{
	static struct lone lone;
	uint64_t refused;

	lone_open(&lone);
	lone_newcomer(&lone, 2);
	say_announce(&lone, 1, MIB, 65536);
	refused = lone_stats(&lone).messages_refused;
	say_announce(&lone, 2, 65ull * MIB, 65536);
	ck_assert_uint_eq(lone_stats(&lone).messages_refused, refused + 1);
	lone_close_all(&lone);
}
END_TEST

/* However many messages are begun, there is a place for that of another host. */
START_TEST(announce__more_than_are_received_at_once)
{
	static struct lone lone;
	uint32_t accepted = 0;

	lone_open(&lone);
	for (int context = 0; context < 100; context++) {
		lone_newcomer(&lone, 2);
		for (uint64_t number = 1; number <= 64; number++) {
			uint32_t since = lone.n_sent;

			say_announce(&lone, number, 2000, 1000);
			accepted += granted(&lone, since, number) > 0;
		}
	}
	ck_assert_uint_ge(accepted, 1000);
	ck_assert_uint_le(accepted, 2048);
	lone_newcomer(&lone, 3);
	say_announce(&lone, 1, 2000, 1000);
	ck_assert_uint_ge(granted(&lone, 0, 1), 1000);
	lone_close_all(&lone);
}
END_TEST

/* Memory of the pool that this process has, bytes. */
static uint64_t resident(void)
{
	FILE *stream = fopen("/proc/self/status", "r");
	unsigned long long kib = 0;
	char line[256];

	ck_assert_ptr_nonnull(stream);
	while (fgets(line, sizeof(line), stream) && sscanf(line, "RssShmem: %llu", &kib) != 1)
		;
	fclose(stream);
	return kib << 10;
}

/*
 * 2,048 announcements take of the pool's limit, and no memory: that comes with the bytes. When they
 * have ended what did come goes back to the system.
 */
START_TEST(announce__takes_no_memory)
{
	static const uint64_t lens[] = {130000, 500000, 3 * MIB};
	static struct lone lone;
	uint64_t before, used = 0;
	uint32_t n = 0;

	lone_open(&lone);
	lone_newcomer(&lone, 2);
	before = resident();
	for (uint8_t host = 2; host < 34; host++) {
		lone_newcomer(&lone, host);
		for (uint64_t number = 1; number <= 64; number++, n++)
			say_announce(&lone, number, lens[n % 3], 65536);
		used = lone_stats(&lone).pool_used_bytes;
	}
	ck_assert_uint_ge(used, 32 * MIB);
	ck_assert_uint_le(resident() - before, 4 * MIB);
	lone_newcomer(&lone, 40);
	say_announce(&lone, 1, 100000, 65536);
	for (uint64_t at = 0; at < 60000; at += 1000)
		say_data(&lone, 1, at, 1000);
	ck_assert_uint_ge(lone_stats(&lone).pool_used_bytes, 32 * MIB);
	ck_assert_uint_le(resident() - before, 5 * MIB);
	lone_close_all(&lone);
}
END_TEST

/* Without a call that needs it, and within seconds. */
START_TEST(progress__gives_idle_memory_back)
{
	static struct lone lone;
	void *bufs[6];

	lone_open(&lone);
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(ripc_buf_alloc(lone.ctx, 8 * MIB, &bufs[i]), 0);
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(ripc_buf_free(lone.ctx, bufs[i]), 0);
	ck_assert_uint_ge(lone_stats(&lone).pool_bytes, 48 * MIB);
	for (int i = 0; i < 100; i++) {
		int64_t wait_us = ripc_poll_timeout(lone.ctx);

		lone.now_us += wait_us < 0 || wait_us > 100000 ? 100000 : (uint64_t)wait_us + 1;
		ripc_poll(lone.ctx);
	}
	ck_assert_uint_le(lone_stats(&lone).pool_bytes, 20 * MIB);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ announce__unasked_beyond_total, 1 }, { data__fills_gap_before_many_pieces, 1 },
		{ announce__unasked_that_never_come, 1 },
		{ announce__dead_ones_delay_nobody, 1 }, { data__after_a_silence, 1 },
		{ data__of_two_messages_in_one_look, 1 },
		{ data__before_the_end_in_one_look, 1 },
		{ data__gap_that_the_same_look_fills, 1 },
		{ queue__has_room_for_the_next, 1 }, { queue__takes_a_share_of_the_pool, 1 },
		{ announce__many_contexts_of_one_host, 1 }, { announce__one_that_takes_much, 1 },
		{ announce__too_long_beside_another, 1 }, { announce__takes_no_memory, 1 },
		{ progress__gives_idle_memory_back, 1 },
		{ announce__more_than_are_received_at_once, 1 }, { close__repeats_answers, 1 },
		{ close__repeats_no_answer_that_was_heard, 2 }, { NULL, 0 },
	};

	return suite_run_loops("incoming", loops);
}
