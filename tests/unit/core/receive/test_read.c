/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages that are read: a device whose reads and fences end when the test says so, a
 * partner who may say anything, and two contexts on the loop backend.
 */
#include <sys/mman.h>

#include "core/net/backend.h"
#include "core/net/env.h"
#include "core/peer/devices.h"
#include "core/wire/wire.h"
#include "loop/loop.h"
#include "mover.h"
#include "util/hash/blocksum.h"
#include "util/hash/crc32c.h"
#include "util/list.h"

static uint8_t window[12 * MIB];

/* As it is told of two items, of which the first ends there. */
static uint32_t sum_of_two(uint64_t end, uint64_t total)
{
	return ripc__blocksum_told(ripc__blocksum(theirs, end, 0) +
		ripc__blocksum(theirs + end, total - end, end));
}

/* Two items: of the first MiB but one byte, and the rest. keys NULL: they cannot be read. */
static void say_two(struct lone *lone, uint64_t number, uint64_t total, uint32_t sum,
		const uint64_t *keys)
{
	const uint64_t lens[2] = {MIB - 1, total - (MIB - 1)};
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = number,
		.h.flags = sum ? WIRE_F_LAST : 0, .n_items = 2,
		.announce = {.total = total, .oldest = 1, .n_items = 2, .sum = sum}};

	lone->keys = keys;
	lone_say(lone, &packet, lens, NULL);
	lone->keys = NULL;
}

static void say_keyed(struct lone *lone, uint64_t number, uint64_t total, uint32_t sum)
{
	const uint64_t keys[4] = {0, 77, MIB - 1, 78};

	say_two(lone, number, total, sum, keys);
}

static void end_all(struct lone *lone)
{
	while (fake.n_reads) {
		read_ends(fake.n_reads / 2, 0);
		ripc_poll(lone->ctx);
	}
}

/* The message came whole, and its sender was told. */
static void check_delivered(struct lone *lone, uint32_t since, uint64_t total)
{
	struct wire_packet answer;
	struct ripc_msg *msg;
	uint64_t at = 0;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), 0);
	for (uint32_t i = 0; i < msg->n_items; at += msg->items[i++].iov_len)
		ck_assert_int_eq(memcmp(msg->items[i].iov_base, theirs + at,
			msg->items[i].iov_len), 0);
	ck_assert_uint_eq(at, total);
	ripc_msg_free(msg);
	lone_pass(lone, 2000);
	ck_assert(lone_hear(lone, since, WIRE_ANSWER, &answer));
	ck_assert_uint_eq(answer.ack.status, 0);
}

/*
 * Its sender hears of a long one while the application has not looked at it yet; of a shorter one
 * when nothing else is to be done, or with what is sent next.
 */
START_TEST(read__told_before_it_is_taken)
{
	static struct lone lone;
	const uint64_t total = MIB - (uint64_t)_i;
	struct wire_packet answer;
	uint32_t since;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	since = lone.n_sent;
	say_keyed(&lone, 1, total, 0);
	end_all(&lone);
	ck_assert(lone_hear(&lone, since, WIRE_ANSWER, &answer) == !_i);
	check_delivered(&lone, since, total);
	lone_close_all(&lone);
}
END_TEST

/* In pieces, so many at a time, which end in any order; registered where that is needed. */
START_TEST(read__pieces_in_any_order)
{
	static struct lone lone;
	const uint64_t total = 12 * MIB - 5;
	uint32_t since;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_REGISTERED | (_i ? RIPC_CAP_INTACT : 0));
	lone_introduce(&lone);
	since = lone.n_sent;
	say_keyed(&lone, 1, total, _i ? 0 : sum_of_two(MIB - 1, total));
	ck_assert_uint_eq(fake.n_reads, 8);
	ck_assert_uint_eq(fake.n_regions, 2);
	end_all(&lone);
	check_delivered(&lone, since, total);
	ck_assert_uint_eq(lone_stats(&lone).read_bytes, total);
	ck_assert_uint_eq(lone_stats(&lone).pull_requests, 0);
	ck_assert_uint_eq(fake.n_regions, 0);
	lone_close_all(&lone);
}
END_TEST

/*
 * Where they are compared, pieces end with blocks, also if the device takes no MiB at once; one
 * that takes no block reads nothing.
 */
START_TEST(read__pieces_are_whole_blocks)
{
	static struct lone lone;
	const uint64_t total = MIB + 50000;

	mover_open_most(&lone, RIPC_CAP_READ | (_i == 2 ? RIPC_CAP_INTACT : 0),
		_i == 1 ? RIPC__BLOCK - 1 : 2 * RIPC__BLOCK + 1);
	lone_introduce(&lone);
	say_keyed(&lone, 1, total, sum_of_two(MIB - 1, total));
	ck_assert_uint_eq(fake.n_reads, _i == 1 ? 0 : 8);
	for (uint32_t i = 0; i < fake.n_reads; i++)
		ck_assert_uint_eq(fake.reads[i].len, 2 * RIPC__BLOCK + (_i == 2));
	end_all(&lone);
	if (_i != 1)
		check_delivered(&lone, 0, total);
	lone_close_all(&lone);
}
END_TEST

/* The first item and half of the second came with the announcement: the rest is read. */
START_TEST(read__what_did_not_come_along)
{
	static struct lone lone;
	const uint64_t total = 3 * MIB, lens[3] = {300, 200, total - 500};
	const uint64_t keys[6] = {0, 0, 300, 77, 500, 78};
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = 1, .n_items = 3,
		.payload_len = 400, .announce = {.total = total, .oldest = 1, .n_items = 3,
			.unasked = 400}};

	mover_open(&lone, RIPC_CAP_READ | (_i ? RIPC_CAP_INTACT : 0));
	lone_introduce(&lone);
	if (!_i) {
		packet.h.flags = WIRE_F_LAST;
		packet.announce.sum = ripc__blocksum_told(ripc__blocksum(theirs + 400, 100, 400) +
			ripc__blocksum(theirs + 500, total - 500, 500));
	}
	lone.keys = keys;
	lone_say(&lone, &packet, lens, theirs);
	lone.keys = NULL;
	ck_assert_uint_eq(fake.n_reads, 4);
	ck_assert_uint_eq(fake.reads[0].len, 100);
	end_all(&lone);
	check_delivered(&lone, 0, total);
	ck_assert_uint_eq(lone_stats(&lone).read_bytes, total - 400);
	lone_close_all(&lone);
}
END_TEST

/* All of it came, and keys beside it: into windows, as it would else be taken at once. */
START_TEST(read__nothing_left)
{
	static struct lone lone;
	const uint64_t lens[1] = {400}, keys[2] = {0, 77};
	const struct iovec mem = {window, sizeof(window)};
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = 1, .n_items = 1,
		.h.flags = WIRE_F_LAST, .payload_len = 400, .announce = {.total = 400, .oldest = 1,
			.n_items = 1, .unasked = 400}};

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	packet.announce.sum = ripc__crc32c(0, theirs, 400);
	ck_assert_int_eq(ripc_window_post(lone.svc, &mem, 5), 0);
	lone.keys = keys;
	lone_say(&lone, &packet, lens, theirs);
	lone.keys = NULL;
	ck_assert_uint_eq(fake.n_reads, 0);
	check_delivered(&lone, 0, 400);
	lone_close_all(&lone);
}
END_TEST

/* Announced again with other items, by a partner who means harm: nothing is done about it. */
START_TEST(read__announced_again_otherwise)
{
	static const uint64_t keys[8] = {0, 77, 0, 78, 0, 79, 0, 80};
	static const uint64_t otherwise[][4] = {{2 * MIB}, {MIB, MIB / 2, MIB / 4, MIB / 4},
		{MIB + 1, MIB - 1}, {MIB, MIB + 1}};
	static const uint32_t n_otherwise[] = {1, 4, 2, 2};
	static struct lone lone;
	const uint64_t lens[2] = {MIB, MIB};
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = 1, .n_items = 2,
		.announce = {.total = 2 * MIB, .oldest = 1, .n_items = 2}};

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT | RIPC_CAP_REGISTERED);
	lone_introduce(&lone);
	lone_say(&lone, &packet, lens, NULL);
	lone.keys = keys;
	packet.n_items = packet.announce.n_items = n_otherwise[_i];
	packet.announce.total += _i == 3;
	lone_say(&lone, &packet, otherwise[_i], NULL);
	ck_assert_uint_eq(lone_stats(&lone).drop_malformed, 1);
	ck_assert_uint_eq(fake.n_reads + fake.n_regions, 0);
	/* As it was announced it is read. */
	packet.n_items = packet.announce.n_items = 2;
	packet.announce.total = 2 * MIB;
	lone_say(&lone, &packet, lens, NULL);
	lone.keys = NULL;
	ck_assert_uint_eq(fake.n_reads, 2);
	lone_close_all(&lone);
}
END_TEST

/* Being pulled, it is announced again with keys; the device refuses to read: the pull goes on. */
START_TEST(read__announced_again_and_refused)
{
	static struct lone lone;
	struct wire_packet pull;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	say_two(&lone, 1, 2 * MIB, 0, NULL);
	ck_assert(lone_hear(&lone, 0, WIRE_PULL, &pull));
	ck_assert_uint_eq(lone.ctx->peers.quota[SHARE_GRANTED], 1);
	fake.n_full = 1;
	fake.refusal = -EACCES;
	say_keyed(&lone, 1, 2 * MIB, 0);
	ck_assert_uint_eq(lone_stats(&lone).reads_failed, 1);
	ck_assert_uint_eq(fake.n_reads, 0);
	/* The message is in one list, once. */
	ck_assert_uint_eq(lone.ctx->peers.quota[SHARE_GRANTED], 1);
	ck_assert(list_empty(&lone.ctx->receives.ungranted));
	ck_assert(lone.ctx->receives.granted.next->next == &lone.ctx->receives.granted);
	ck_assert_int_eq(ripc_service_close(lone.svc), 0);
	ck_assert_uint_eq(lone.ctx->peers.quota[SHARE_GRANTED], 0);
	ck_assert(list_empty(&lone.ctx->receives.granted));
	lone.svc = NULL;
	lone_close_all(&lone);
}
END_TEST

/* The device takes none at first. */
START_TEST(read__again)
{
	static struct lone lone;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	fake.n_full = 3;
	say_keyed(&lone, 1, 2 * MIB, 0);
	ck_assert_uint_eq(fake.n_reads, 0);
	lone_pass(&lone, 100000);
	ck_assert_uint_eq(fake.n_reads, 3);
	end_all(&lone);
	check_delivered(&lone, 0, 2 * MIB);
	lone_close_all(&lone);
}
END_TEST

/* A device that takes no read at all, as those of others do not end: it is pulled. */
START_TEST(read__stuck)
{
	static struct lone lone;
	struct wire_packet pull;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	fake.n_full = UINT32_MAX;
	say_keyed(&lone, 1, 2 * MIB, 0);
	lone_pass(&lone, 2000000);
	ck_assert_uint_eq(fake.n_reads, 0);
	ck_assert(lone_hear(&lone, 0, WIRE_PULL, &pull));
	ck_assert_uint_gt(pull.pull.limit, 0);
	ck_assert_uint_eq(lone_stats(&lone).reads_failed, 1);
	lone_close_all(&lone);
}
END_TEST

/* A partner whose reads do not end leaves some for others, whether it cancels or not. */
START_TEST(read__others_have_a_share)
{
	static struct lone lone;
	struct wire_packet cancel = {.h.type = WIRE_CANCEL};
	uint32_t n_reads;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	for (uint64_t number = 1; number <= 16; number++)
		say_keyed(&lone, number, MIB, 0);
	n_reads = fake.n_reads;
	for (uint64_t number = 1; _i && number <= 16; number++) {
		cancel.h.number = number;
		cancel.announce.oldest = number;
		lone_say(&lone, &cancel, NULL, NULL);
		say_keyed(&lone, 16 + number, MIB, 0);
	}
	ck_assert_uint_ge(n_reads, 8);
	ck_assert_uint_eq(fake.n_reads, n_reads);
	lone_newcomer(&lone, lone.host + 1);
	say_keyed(&lone, 1, 2 * MIB, 0);
	ck_assert_uint_eq(fake.n_reads, n_reads + 3);
	lone_close_all(&lone);
}
END_TEST

/* Messages of which the first byte is being read. */
static uint32_t n_begun(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < fake.n_reads; i++)
		n += fake.reads[i].offset == 0 && fake.reads[i].key.key == 77;
	return n;
}

/* A message for which no read is left waits for a turn, not for the end of another. */
START_TEST(read__takes_turns)
{
	static struct lone lone;

	mover_open_most(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT, MIB / 4);
	lone_introduce(&lone);
	for (uint64_t number = 1; number <= 3; number++)
		say_keyed(&lone, number, 3 * MIB, 0);
	ck_assert_uint_eq(n_begun(), 2);
	for (uint32_t i = 1; i <= 3; i++) {
		read_ends(i, 0);
		ripc_poll(lone.ctx);
	}
	ck_assert_uint_eq(n_begun(), 3);
	end_all(&lone);
	ck_assert_uint_eq(lone_stats(&lone).read_bytes, 9 * MIB);
	ck_assert_uint_eq(lone_stats(&lone).reads_failed, 0);
	lone_close_all(&lone);
}
END_TEST

/*
 * Without a checksum where it is needed, with a wrong one, with a key that opens nothing; the first
 * two also where datagrams are intact, but reads may not be.
 */
START_TEST(read__in_vain)
{
	static struct lone lone;
	struct wire_packet pull;

	mover_open(&lone, RIPC_CAP_READ | (_i >= 2 ? RIPC_CAP_INTACT : 0) |
		(_i >= 3 ? RIPC_CAP_DUBIOUS : 0));
	lone_introduce(&lone);
	say_keyed(&lone, 1, 2 * MIB, _i == 1 || _i == 4 ? 1234 : 0);
	if (_i == 0 || _i == 3)
		ck_assert_uint_eq(fake.n_reads, 0);
	if (_i == 1 || _i == 4)
		end_all(&lone);
	if (_i == 2) {
		read_ends(1, -EACCES);
		ripc_poll(lone.ctx);
		/* Other partners may still write to the places: no other use is permitted. */
		ck_assert(!lone_hear(&lone, 0, WIRE_PULL, &pull));
		end_all(&lone);
	}
	ck_assert(lone_hear(&lone, 0, WIRE_PULL, &pull));
	ck_assert_uint_gt(pull.pull.limit, 0);
	ck_assert_uint_eq(pull.pull.have, 0);
	lone_close_all(&lone);
}
END_TEST

/* The sender says that it has moved to another path. */
START_TEST(read__announced_without_keys)
{
	static struct lone lone;
	struct wire_packet pull;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	say_keyed(&lone, 1, 2 * MIB, 0);
	say_two(&lone, 1, 2 * MIB, 0, NULL);
	ck_assert(lone_hear(&lone, 0, WIRE_PULL, &pull));
	ck_assert_uint_eq(pull.pull.limit, 0);
	end_all(&lone);
	ck_assert(lone_hear(&lone, 0, WIRE_PULL, &pull));
	ck_assert_uint_gt(pull.pull.limit, 0);
	lone_close_all(&lone);
}
END_TEST

/* A window is not used again, nor given back, while reads may write into it. */
START_TEST(cancel__place_is_kept_until_reads_end)
{
	static struct lone lone;
	const struct iovec mem = {window, sizeof(window)};
	struct wire_packet cancel = {.h.type = WIRE_CANCEL, .h.number = 1,
		.announce.oldest = 1}, answer;
	struct ripc_msg *msg;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	ck_assert_int_eq(ripc_window_post(lone.svc, &mem, 5), 0);
	say_keyed(&lone, 1, 2 * MIB, 0);
	ck_assert_ptr_eq(fake.reads[0].mem, window);
	lone_say(&lone, &cancel, NULL, NULL);
	ck_assert(lone_hear(&lone, 0, WIRE_ANSWER, &answer));
	ck_assert_uint_eq(answer.ack.status, ECANCELED);
	for (uint64_t number = 2; number < 4; number++) {
		say_keyed(&lone, number, 2 * MIB, 0);
		end_all(&lone);
		ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
		ck_assert((msg->places != NULL) == (number == 3));
		ripc_msg_free(msg);
	}
	lone_close_all(&lone);
}
END_TEST

/*
 * Memory of an abandoned message is deregistered before it goes back, when the last read has ended.
 */
START_TEST(cancel__deregistered_while_it_is_there)
{
	static struct lone lone;
	struct wire_packet cancel = {.h.type = WIRE_CANCEL, .h.number = 1,
		.announce.oldest = 1};

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT | RIPC_CAP_REGISTERED);
	lone_introduce(&lone);
	say_keyed(&lone, 1, 2 * MIB, 0);
	ck_assert_uint_eq(fake.n_regions, 2);
	lone_say(&lone, &cancel, NULL, NULL);
	ck_assert_uint_eq(fake.n_regions, 2);
	end_all(&lone);
	ck_assert_uint_eq(fake.n_regions, 0);
	lone_close_all(&lone);
}
END_TEST

/* After ripc_service_close() the window is ours: it waits for the reads. */
START_TEST(service_close__waits_for_reads)
{
	static struct lone lone;
	const struct iovec mem = {window, sizeof(window)};

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	ck_assert_int_eq(ripc_window_post(lone.svc, &mem, 5), 0);
	say_keyed(&lone, 1, 2 * MIB, 0);
	ck_assert_uint_eq(fake.n_reads, 3);
	fake.ends_when_waited_for = true;
	ck_assert_int_eq(ripc_service_close(lone.svc), 0);
	ck_assert_uint_eq(fake.n_reads, 0);
	lone_close_all(&lone);
}
END_TEST

/* Short items go along as far as all of them together are short, and need no key. */
START_TEST(open__what_does_not_go_along)
{
	static struct lone lone;
	const struct iovec items[4] = {{theirs, 500}, {theirs + 500, 12}, {theirs + 512, 1},
		{theirs + 513, 100000}};
	struct ripc_send send = {.size = sizeof(send), .n_items = 4, .items = items,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 5000};
	struct wire_packet announce;
	uint64_t address, key;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	send.to = lone.service;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), 0);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	ck_assert_uint_eq(announce.announce.unasked, 512);
	ck_assert_uint_eq(announce.payload_len, 512);
	ck_assert_int_eq(memcmp(announce.payload, theirs, 512), 0);
	for (uint32_t i = 0; i < 4; i++) {
		wire_item_key(&announce, i, &address, &key);
		ck_assert_uint_eq(address, i < 2 ? 0 : (uintptr_t)items[i].iov_base);
	}
	ck_assert_int_eq(ripc_service_close(lone.svc), 0);
	ck_assert_uint_eq(fake.n_closed, 2);
	lone_close_all(&lone);
}
END_TEST

static void send_to_partner(struct lone *lone, struct wire_packet *announce)
{
	struct iovec items[2] = {{theirs, 100000}, {theirs + 100000, 5}};
	struct ripc_send send = {.size = sizeof(send), .n_items = 2, .items = items, .cookie = 9,
		.to = lone->service, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 5000};

	ck_assert_int_eq(ripc_sendmsg(lone->svc, &send, NULL), 0);
	ck_assert(lone_hear(lone, 0, WIRE_ANNOUNCE, announce));
}

/* The keys of so many items have no room: that is not tried again and again. */
START_TEST(open__keys_have_no_room)
{
	static struct lone lone;
	struct iovec items[RIPC_ITEMS_MAX];
	struct ripc_send send = {.size = sizeof(send), .n_items = RIPC_ITEMS_MAX, .items = items,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 5000};
	struct wire_packet announce, pull = {.h.type = WIRE_PULL, .pull.busy = 1};

	mover_open(&lone, RIPC_CAP_READ | (_i ? RIPC_CAP_SIZED : 0));
	lone_introduce(&lone);
	for (uint32_t i = 0; i < send.n_items; i++)
		items[i] = (struct iovec){theirs + i * 2048, 2048};
	send.to = lone.service;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), 0);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	pull.h.number = announce.h.number;
	for (int i = 0; i < 100; i++)
		lone_say(&lone, &pull, NULL, NULL);
	ck_assert_uint_le(lone_stats(&lone).announcements_repeated, 1);
	lone_close_all(&lone);
}
END_TEST

/* The items are told by their keys, and are ours again only when nobody can read them. */
START_TEST(open__closed_before_the_end_is_told)
{
	static struct lone lone;
	struct wire_packet announce, done = {.h.type = WIRE_ANSWER};
	struct ripc_msg *msg;
	uint64_t address, key;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_REGISTERED);
	lone_introduce(&lone);
	send_to_partner(&lone, &announce);
	ck_assert_uint_eq(announce.announce.keys, 1);
	ck_assert_uint_eq(announce.announce.unasked, 0);
	ck_assert_uint_eq(announce.announce.sum, sum_of_two(100000, 100005));
	wire_item_key(&announce, 1, &address, &key);
	ck_assert_uint_eq(address, (uintptr_t)theirs + 100000);
	ck_assert_uint_eq(key, 0x4e2);
	fake.fences = _i;
	done.h.number = done.ack.number = announce.h.number;
	lone_say(&lone, &done, NULL, NULL);
	ck_assert_uint_eq(fake.n_closed, 2);
	for (int i = 0; _i && i < 2; i++) {
		ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
		event((struct ripc__event){.kind = RIPC_EV_FENCED, .cookie = fake.fence});
		ripc_poll(lone.ctx);
	}
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert_int_eq(msg->outcome, RIPC_DELIVERED);
	ripc_msg_free(msg);
	ck_assert_uint_eq(fake.n_regions, 0);
	lone_close_all(&lone);
}
END_TEST

/* A partner that lately took long to read gets as long before it is asked again; then it is. */
START_TEST(open__repeated_when_reading_should_have_ended)
{
	static struct lone lone;
	struct wire_packet announce, done = {.h.type = WIRE_ANSWER};
	struct ripc_msg *msg;
	uint64_t repeated;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	send_to_partner(&lone, &announce);
	lone_pass(&lone, 40000);
	done.h.number = done.ack.number = announce.h.number;
	lone_say(&lone, &done, NULL, NULL);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ripc_msg_free(msg);
	repeated = lone_stats(&lone).announcements_repeated;
	ck_assert_uint_gt(repeated, 0);
	send_to_partner(&lone, &announce);
	lone_pass(&lone, 40000);
	ck_assert_uint_eq(lone_stats(&lone).announcements_repeated, repeated);
	lone_pass(&lone, 40000);
	ck_assert_uint_gt(lone_stats(&lone).announcements_repeated, repeated);
	ck_assert_int_eq(ripc_service_close(lone.svc), 0);
	lone_close_all(&lone);
}
END_TEST

/* Refused packets are sent when the network accepts packets again, not only some time later. */
START_TEST(open__said_again_when_the_route_is_back)
{
	static struct lone lone;
	struct wire_packet announce;
	uint32_t since;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	send_to_partner(&lone, &announce);
	since = lone.n_sent;
	event((struct ripc__event){.kind = RIPC_EV_PEER, .from = &lone.from, .status = -EBUSY});
	ripc_poll(lone.ctx);
	ck_assert_uint_eq(lone.n_sent, since);
	event((struct ripc__event){.kind = RIPC_EV_PEER, .from = &lone.from});
	ripc_poll(lone.ctx);
	ck_assert(lone_hear(&lone, since, WIRE_ANNOUNCE, &announce));
	lone_close_all(&lone);
}
END_TEST

/* Nobody answers, nor does the device say that nobody can read: the call returns all the same. */
START_TEST(open__unknown_then_notice)
{
	static struct lone lone;
	const struct iovec item = {theirs, 100000};
	struct ripc_send send = {.size = sizeof(send), .n_items = 1, .items = &item, .cookie = 9,
		.flags = RIPC_SEND_LONG, .timeout_ms = 500};
	enum ripc_outcome outcome;
	struct ripc_msg *msg;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	fake.fences = true;
	send.to = lone.service;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, &outcome), -ECONNRESET);
	ck_assert_int_eq(outcome, RIPC_UNKNOWN);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
	event((struct ripc__event){.kind = RIPC_EV_FENCED, .cookie = fake.fence});
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert_int_eq(msg->kind, RIPC_NOTICE);
	ck_assert_uint_eq(msg->cookie, 9);
	ripc_msg_free(msg);
	lone_close_all(&lone);
}
END_TEST

static bool is_mapped(const void *at)
{
	unsigned char resident;

	return mincore((void *)at, 1, &resident) == 0; /* at begins a page */
}

/*
 * The partner may still read what was given when the context closes. Nobody hears of the end: the
 * references are dropped, and so the pool goes with the context.
 */
START_TEST(open__given_then_closed)
{
	static struct lone lone;
	struct wire_packet announce, refused = {.h.type = WIRE_ANSWER, .ack.status = ENOBUFS};
	struct iovec item = {.iov_len = MIB};
	struct ripc_send send = {.size = sizeof(send), .n_items = 1, .items = &item,
		.flags = RIPC_SEND_LONG | RIPC_GIVE | RIPC_NOWAIT, .timeout_ms = 500};
	struct ripc_msg *msg;

	mover_open(&lone, RIPC_CAP_READ | RIPC_CAP_INTACT);
	lone_introduce(&lone);
	ck_assert_int_eq(ripc_buf_alloc(lone.ctx, item.iov_len, &item.iov_base), 0);
	fake.fences = true;
	send.to = lone.service;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), 0);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	ck_assert_uint_eq(announce.announce.keys, 1);
	refused.h.number = refused.ack.number = announce.h.number;
	if (_i)
		lone_say(&lone, &refused, NULL, NULL);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
	lone_close_all(&lone);
	ck_assert(!is_mapped(item.iov_base));
}
END_TEST

/* Nothing goes by a route that is still being made. */
START_TEST(peer_open__takes_its_time)
{
	static struct lone lone;
	const struct iovec item = {theirs, 1000};
	struct ripc_send send = {.size = sizeof(send), .n_items = 1, .items = &item,
		.to = 0x5e41, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 60000};
	struct ripc__addr addr = {.len = 1, .blob = {2}};
	struct wire_packet announce;

	mover_open(&lone, RIPC_CAP_INTACT);
	fake.opens_slowly = true;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), 0);
	ck_assert_int_eq(ripc_send_short(lone.svc, send.to, &item, 1), 0);
	lone_answer(&lone, lone.incarnation, lone.context, 2);
	lone_pass(&lone, 1000000);
	ck_assert_uint_eq(lone.n_sent, 0);
	event((struct ripc__event){.kind = RIPC_EV_PEER, .from = &addr,
		.status = _i ? -ECONNREFUSED : 0});
	ripc_poll(lone.ctx);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce) == !_i);
	ck_assert(lone_hear(&lone, 0, WIRE_SHORT, &announce) == !_i);
	lone_close_all(&lone);
}
END_TEST

/* ---- two contexts ------------------------------------------------------------------------ */

static void pump(struct ripc_context *const ctx[2])
{
	for (int i = 0; i < 200; i++) {
		ripc_poll(ctx[0]);
		ripc_poll(ctx[1]);
	}
}

/* Long messages go by reads, the very first message too: no packet has any of its bytes. */
START_TEST(loop__long_is_read)
{
	struct ripc_config cfg = {.size = sizeof(cfg), .flags = RIPC_SINGLE_THREAD,
		.pool_bytes = 64u << 20};
	const struct ripc__backend *const backends[] = {&ripc__loop_backend, NULL};
	const struct iovec item = {theirs, sizeof(theirs)};
	struct ripc_send send = {.size = sizeof(send), .n_items = 1, .items = &item,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 20000};
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc_path path = {.size = sizeof(path)};
	struct ripc__loop_hub *hub;
	struct ripc__env env;
	struct ripc_context *ctx[2];
	struct ripc_service *svc[2];
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc__loop_hub_open(&hub), 0);
	ripc__env_init(&env);
	env.arg = hub;
	env.backends = backends;
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ripc__open_in(&cfg, &env, &ctx[i]), 0);
		ck_assert_int_eq(ripc_service_open(ctx[i], 0, 0, &svc[i]), 0);
	}
	send.to = ripc_service_id(svc[1]);
	for (uint32_t n = 1; n < 4; n++) {
		theirs[n]++;
		ck_assert_int_eq(ripc_sendmsg(svc[0], &send, NULL), 0);
		while (ripc_receive(svc[1], 0, &msg))
			pump(ctx);
		ck_assert_int_eq(memcmp(msg->items[0].iov_base, theirs, sizeof(theirs)), 0);
		ripc_msg_free(msg);
		while (ripc_receive(svc[0], 0, &msg))
			pump(ctx);
		ck_assert_int_eq(msg->outcome, RIPC_DELIVERED);
		ripc_msg_free(msg);
		ck_assert_int_eq(ripc_stats_get(ctx[1], &stats), 0);
		ck_assert_uint_eq(stats.read_bytes, (uint64_t)n * sizeof(theirs));
	}
	ck_assert_int_eq(ripc_stats_get(ctx[0], &stats), 0);
	ck_assert_uint_lt(stats.datagrams_sent, 100);
	ck_assert_int_eq(ripc_path_info(svc[0], send.to, &path), 0);
	ck_assert_str_eq(path.bulk, "loop");
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ripc_close(ctx[i], 0), 0);
	ripc__loop_hub_close(hub);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ read__pieces_in_any_order, 2 }, { read__pieces_are_whole_blocks, 3 },
		{ read__announced_again_otherwise, 4 },
		{ read__announced_again_and_refused, 1 }, { read__again, 1 },
		{ read__stuck, 1 }, { read__others_have_a_share, 2 }, { read__takes_turns, 1 },
		{ read__in_vain, 5 }, { read__told_before_it_is_taken, 2 },
		{ read__announced_without_keys, 1 }, { cancel__place_is_kept_until_reads_end, 1 },
		{ cancel__deregistered_while_it_is_there, 1 },
		{ service_close__waits_for_reads, 1 }, { open__closed_before_the_end_is_told, 2 },
		{ open__unknown_then_notice, 1 }, { open__given_then_closed, 2 },
		{ open__repeated_when_reading_should_have_ended, 1 },
		{ open__said_again_when_the_route_is_back, 1 },
		{ peer_open__takes_its_time, 2 },
		{ loop__long_is_read, 1 }, { read__what_did_not_come_along, 2 },
		{ read__nothing_left, 1 }, { open__what_does_not_go_along, 1 },
		{ open__keys_have_no_room, 2 }, { NULL, 0 },
	};

	return suite_run_loops("read", loops);
}
