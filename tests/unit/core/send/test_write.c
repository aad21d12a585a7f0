/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers that we write into the return buffers of who has asked. */
#include "core/net/backend.h"
#include "core/wire/wire.h"
#include "util/hash/blocksum.h"
#include "writer.h"

/* As it is told of both items, of which the first goes along if it is short. */
static uint32_t sum_of_answer(size_t first)
{
	uint64_t sum = ripc__blocksum(ours + first, 5 * MIB / 2, first);

	return ripc__blocksum_told(first > 512 ? sum + ripc__blocksum(ours, first, 0) : sum);
}

/* Nothing is said before all writes have ended, in whatever order. */
START_TEST(write__then_announced)
{
	static struct lone lone;
	const size_t first = _i & 1 ? 20 : 1000000, total = first + 5 * MIB / 2;
	struct wire_packet announce, done = {.h.type = WIRE_ANSWER};
	uint32_t since;

	writer_open(&lone, (_i & 2 ? CAPS & ~(uint32_t)RIPC_CAP_INTACT : CAPS) |
		RIPC_CAP_REGISTERED);
	fake.n_full = (uint32_t)_i;
	answer(&lone, asked(&lone, 1, 2, _i & 1 ? 0 : MIB), first);
	since = lone.n_sent;
	lone_pass(&lone, 5000);
	ck_assert_uint_eq(fake.n_writes, _i & 1 ? 3 : 4);
	ck_assert_uint_eq(fake.n_regions, _i & 1 ? 1 : 2);
	while (fake.n_writes) {
		ck_assert(!lone_hear(&lone, since, WIRE_ANNOUNCE, &announce));
		write_ends(fake.n_writes / 2, 0);
		ripc_poll(lone.ctx);
	}
	ck_assert(lone_hear(&lone, since, WIRE_ANNOUNCE, &announce));
	ck_assert_uint_eq(announce.announce.keys, WIRE_KEYS_WRITTEN);
	ck_assert_uint_eq(announce.payload_len, _i & 1 ? 20 : 0);
	ck_assert_uint_eq(announce.announce.total, total);
	ck_assert_uint_eq(announce.announce.sum, _i & 2 ? sum_of_answer(first) : 0);
	ck_assert_int_eq(memcmp(theirs + MIB, ours + first, 5 * MIB / 2), 0);
	ck_assert_int_eq(memcmp(theirs, ours, _i & 1 ? 0 : first), 0);
	ck_assert_uint_eq(fake.n_regions, 0);
	ck_assert_uint_eq(lone_stats(&lone).written_bytes, total - announce.payload_len);
	done.h.number = done.ack.number = announce.h.number;
	lone_say(&lone, &done, NULL, NULL);
	check_completion(&lone, RIPC_DELIVERED);
	lone_close_all(&lone);
}
END_TEST

/* One of the writes fails: the answer is announced to be read, and ends when all have ended. */
START_TEST(write__fails)
{
	static struct lone lone;
	struct wire_packet announce, done = {.h.type = WIRE_ANSWER};
	struct ripc_msg *msg;
	uint64_t address, key;

	writer_open(&lone, CAPS);
	answer(&lone, asked(&lone, 1, 2, MIB), 1000000);
	write_ends(1, -EACCES);
	ripc_poll(lone.ctx);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	ck_assert_uint_eq(announce.announce.keys, WIRE_KEYS_READ);
	wire_item_key(&announce, 0, &address, &key);
	ck_assert_uint_eq(address, (uintptr_t)ours);
	ck_assert_uint_eq(lone_stats(&lone).writes_failed, 1);
	done.h.number = done.ack.number = announce.h.number;
	lone_say(&lone, &done, NULL, NULL);
	while (fake.n_writes) {
		ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
		write_ends(0, _i ? -ECONNRESET : 0);
		ripc_poll(lone.ctx);
	}
	check_completion(&lone, RIPC_DELIVERED);
	lone_close_all(&lone);
}
END_TEST

/* Transferred memory goes back to the pool after the last write, deregistered while it is there. */
START_TEST(write__of_what_was_given)
{
	static struct lone lone;
	struct wire_packet announce, done = {.h.type = WIRE_ANSWER};
	struct iovec items[2] = {{.iov_len = 1000000}, {.iov_len = 2000000}};
	struct ripc_send send = {.size = sizeof(send), .items = items, .n_items = 2,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_GIVE, .timeout_ms = 5000};

	writer_open(&lone, CAPS | RIPC_CAP_REGISTERED);
	send.to = lone.service;
	send.reply_to = asked(&lone, 1, 2, MIB);
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(ripc_buf_alloc(lone.ctx, items[i].iov_len, &items[i].iov_base),
			0);
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), 0);
	ck_assert_uint_eq(fake.n_regions, 2);
	write_ends(1, -EACCES);
	ripc_poll(lone.ctx);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	done.h.number = done.ack.number = announce.h.number;
	lone_say(&lone, &done, NULL, NULL);
	ck_assert_uint_gt(fake.n_writes, 0);
	while (fake.n_writes) {
		ck_assert_uint_eq(fake.n_regions, 2);
		write_ends(0, 0);
		ripc_poll(lone.ctx);
	}
	ck_assert_uint_eq(fake.n_regions, 0);
	lone_close_all(&lone);
}
END_TEST

/* The answer does not fit, it fits but is the second one, nothing was offered, it is short. */
START_TEST(write__not_there)
{
	static struct lone lone;
	struct wire_packet announce;
	const struct iovec item = {ours, 10};
	struct ripc_send send = {.size = sizeof(send), .items = &item, .n_items = 1};
	uint64_t reply;

	writer_open(&lone, _i == 2 ? CAPS & ~(uint32_t)RIPC_CAP_WRITE : CAPS);
	reply = asked(&lone, 1, _i == 0 ? 1 : 2, MIB);
	send.to = lone.service;
	send.reply_to = reply;
	if (_i == 1) {
		answer(&lone, reply, 1000000);
		while (fake.n_writes) {
			write_ends(0, -ECONNRESET);
			ripc_poll(lone.ctx);
		}
	}
	if (_i == 3)
		ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), 0);
	answer(&lone, reply, 1000000);
	ck_assert_uint_eq(fake.n_writes, 0);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	ck_assert_uint_eq(announce.announce.keys, WIRE_KEYS_READ);
	lone_close_all(&lone);
}
END_TEST

/* Cancelled while it is being written: certainly not delivered, but its memory is in use. */
START_TEST(write__cancelled)
{
	static struct lone lone;
	struct wire_packet announce;
	struct ripc_msg *msg;

	writer_open(&lone, CAPS);
	answer(&lone, asked(&lone, 1, 2, MIB), 1000000);
	if (_i == 0)
		ck_assert_int_eq(ripc_cancel(lone.svc, 3), 0);
	else
		lone_pass(&lone, 5100000); /* its deadline passes */
	while (fake.n_writes) {
		ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
		write_ends(0, _i ? -ETIMEDOUT : 0);
		ripc_poll(lone.ctx);
	}
	ck_assert(!lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	check_completion(&lone, RIPC_NOT_DELIVERED);
	lone_close_all(&lone);
}
END_TEST

/* There are more answers than writes: who begins later waits for a turn, not for an end. */
START_TEST(write__takes_turns)
{
	static struct lone lone;
	uint64_t replies[5];

	writer_open(&lone, CAPS);
	lone.ctx->peers.devices[0].attr.read_max = MIB / 4;
	for (uint32_t i = 0; i < 5; i++)
		replies[i] = asked(&lone, i + 1, 2, MIB);
	for (uint32_t i = 0; i < 5; i++)
		answer(&lone, replies[i], 1000000); /* 14 writes each, 8 at a time, 11 in all */
	ck_assert_uint_eq(fake.n_writes, 11);
	ck_assert_uint_eq(fake.n_begun, 2);
	for (uint32_t i = 0; i < 5; i++) {
		write_ends(fake.n_writes - 1, 0);
		ripc_poll(lone.ctx);
	}
	ck_assert_uint_eq(fake.n_begun, 5);
	while (fake.n_writes) {
		write_ends(0, 0);
		ripc_poll(lone.ctx);
	}
	ck_assert_uint_eq(lone_stats(&lone).writes_failed, 0);
	lone_close_all(&lone);
}
END_TEST

/*
 * A partner whose writes do not end leaves some for others, whether the answers are cancelled or
 * not.
 */
START_TEST(write__others_have_a_share)
{
	static struct lone lone;
	uint32_t n_writes;

	writer_open(&lone, CAPS);
	lone.ctx->peers.devices[0].attr.read_max = MIB / 4;
	for (uint32_t i = 1; i <= 4; i++)
		answer(&lone, asked(&lone, i, 2, MIB), 1000000);
	n_writes = fake.n_writes;
	ck_assert_uint_ge(n_writes, 8);
	if (_i) {
		ck_assert_int_eq(ripc_cancel(lone.svc, 3), 0);
		check_completion(&lone, RIPC_NOT_DELIVERED); /* the writes that had not begun */
		check_completion(&lone, RIPC_NOT_DELIVERED);
		answer(&lone, asked(&lone, 5, 2, MIB), 1000000);
		ck_assert_uint_eq(fake.n_writes, n_writes);
	}
	lone_newcomer(&lone, lone.host + 1);
	answer(&lone, asked(&lone, 1, 2, MIB), 1000000);
	ck_assert_uint_gt(fake.n_writes, n_writes);
	lone_close_all(&lone);
}
END_TEST

/* The writes end well, but the route has moved meanwhile: the partner would not believe it. */
START_TEST(write__moved)
{
	static struct lone lone;
	struct wire_packet announce;

	writer_open(&lone, CAPS);
	answer(&lone, asked(&lone, 1, 2, MIB), 1000000);
	move(&lone, 1);
	while (fake.n_writes) {
		write_ends(0, 0);
		ripc_poll(lone.ctx);
	}
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	ck_assert_uint_eq(announce.announce.keys, WIRE_KEYS_READ);
	lone_close_all(&lone);
}
END_TEST

/* A device that takes no write, as those of others do not end, is no silent partner. */
START_TEST(write__stuck)
{
	static struct lone lone;
	struct wire_packet announce;

	writer_open(&lone, CAPS);
	fake.n_full = UINT32_MAX;
	answer(&lone, asked(&lone, 1, 2, MIB), 1000000);
	lone_pass(&lone, 2000000);
	ck_assert_uint_eq(fake.n_writes, 0);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	ck_assert_uint_eq(announce.announce.keys, WIRE_KEYS_READ);
	ck_assert_uint_eq(lone_stats(&lone).writes_failed, 1);
	lone_close_all(&lone);
}
END_TEST

/* The partner does not find what was written, and asks for the bytes. */
START_TEST(write__pulled_after_all)
{
	static struct lone lone;
	struct wire_packet announce, data, pull = {.h.type = WIRE_PULL, .pull.limit = 50000};
	uint32_t since;

	writer_open(&lone, CAPS);
	answer(&lone, asked(&lone, 1, 2, 0), 20);
	while (fake.n_writes) {
		write_ends(0, 0);
		ripc_poll(lone.ctx);
	}
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	pull.h.number = announce.h.number;
	since = lone.n_sent;
	lone_say(&lone, &pull, NULL, NULL);
	ck_assert(lone_hear(&lone, since, WIRE_DATA, &data));
	ck_assert_uint_eq(data.offset + data.payload_len, 50000);
	ck_assert_int_eq(memcmp(data.payload, ours + data.offset, data.payload_len), 0);
	lone_pass(&lone, 1000000);
	ck_assert(lone_hear(&lone, since, WIRE_ANNOUNCE, &announce));
	ck_assert_uint_eq(announce.announce.keys, 0);
	lone_close_all(&lone);
}
END_TEST

/* A partner with many requests gets no more kept answers than others. */
START_TEST(write__many_offers)
{
	static struct lone lone;
	uint64_t replies[100];

	writer_open(&lone, CAPS);
	for (uint64_t i = 0; i < 100; i++)
		replies[i] = asked(&lone, 1 + i, 2, MIB);
	answer(&lone, replies[0], 1000000);
	ck_assert_uint_eq(fake.n_writes, 0);
	answer(&lone, replies[99], 1000000);
	ck_assert_uint_gt(fake.n_writes, 0);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ write__then_announced, 4 }, { write__fails, 2 }, { write__not_there, 4 },
		{ write__of_what_was_given, 1 },
		{ write__cancelled, 2 }, { write__pulled_after_all, 1 },
		{ write__takes_turns, 1 }, { write__stuck, 1 }, { write__moved, 1 },
		{ write__many_offers, 1 }, { write__others_have_a_share, 2 }, { NULL, 0 },
	};

	return suite_run_loops("write", loops);
}
