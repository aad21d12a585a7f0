/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers that were given, and are given on: contexts of one thread, over shared memory. The
 * statistics show that nothing is copied, and who holds what.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../support/util/kernel.h"
#include "../../../support/util/process.h"
#include "core/net/env.h"
#include "ripc/call.h"
#include "suite.h"

#define LEN         ((size_t)3 << 20)
#define HUGE_LEN    ((size_t)50 << 20)
#define CLIENTS     8
#define ENDS_MAX    (2 + CLIENTS)
#define PATIENCE_MS 20000

struct end {
	struct ripc_context *ctx; /* NULL: closed */
	struct ripc_service *svc;
	uint64_t id;
};

static struct end ends[ENDS_MAX];
static int n_ends;

static void open_one(uint32_t flags)
{
	static char options[40];
	const struct ripc_config cfg = {.size = sizeof(cfg), .interfaces = "lo",
		.flags = RIPC_SINGLE_THREAD | RIPC_NO_THREAD | flags, .backends = "shm",
		.options = options};
	struct end *end = &ends[n_ends++];

	snprintf(options, sizeof(options), "resolver.port=%d", 20000 + getpid() % 12000);
	ck_assert_int_eq(ripc_open(&cfg, &end->ctx), 0);
	ck_assert_int_eq(ripc_service_open(end->ctx, 0, 0, &end->svc), 0);
	end->id = ripc_service_id(end->svc);
}

static void open_all(int n)
{
	n_ends = 0;
	while (n_ends < n)
		open_one(0);
}

static void close_one(int i)
{
	ck_assert_int_eq(ripc_close(ends[i].ctx, 0), 0);
	ends[i].ctx = NULL;
}

static struct ripc_stats stats_of(int i)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ck_assert_int_eq(ripc_stats_get(ends[i].ctx, &stats), 0);
	return stats;
}

static uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void pump(void)
{
	for (int i = 0; i < n_ends; i++) {
		if (ends[i].ctx)
			ripc_poll(ends[i].ctx);
	}
}

static void pump_ms(uint64_t ms)
{
	uint64_t until_ms = clock_ms() + ms;

	while (clock_ms() < until_ms)
		pump();
}

static struct ripc_msg *take(int i)
{
	uint64_t until_ms = clock_ms() + PATIENCE_MS;
	struct ripc_msg *msg = NULL;

	while (ripc_receive(ends[i].svc, 0, &msg) && clock_ms() < until_ms)
		pump();
	ck_assert_ptr_nonnull(msg);
	return msg;
}

/* Until i's buffer is the application's alone, or has so many references. */
static void refs_become(int i, const void *buf, int refs)
{
	uint64_t until_ms = clock_ms() + PATIENCE_MS;

	while (ripc_buf_refs(ends[i].ctx, buf) != refs && clock_ms() < until_ms)
		pump();
	ck_assert_int_eq(ripc_buf_refs(ends[i].ctx, buf), refs);
}

/* Everything has come home. */
static void check_empty(void)
{
	uint64_t until_ms = clock_ms() + PATIENCE_MS;

	for (int i = 0; i < n_ends; i++) {
		if (!ends[i].ctx)
			continue;
		while ((stats_of(i).given_held_bytes || stats_of(i).mapped_held_bytes ||
				stats_of(i).pool_used_bytes > 65536) && clock_ms() < until_ms)
			pump();
		ck_assert_uint_eq(stats_of(i).given_held_bytes, 0);
		ck_assert_uint_eq(stats_of(i).mapped_held_bytes, 0);
		ck_assert_uint_le(stats_of(i).pool_used_bytes, 65536);
	}
}

static void close_all(void)
{
	check_empty();
	for (int i = 0; i < n_ends; i++) {
		if (ends[i].ctx)
			close_one(i);
	}
}

static void *buffer(int i, size_t len, uint8_t byte)
{
	void *buf;

	ck_assert_int_eq(ripc_buf_alloc(ends[i].ctx, len, &buf), 0);
	memset(buf, byte, len);
	return buf;
}

static void give(int from, int to, void *buf, size_t len)
{
	const struct iovec item = {buf, len};
	struct ripc_send send = {.size = sizeof(send), .to = ends[to].id, .items = &item,
		.n_items = 1, .timeout_ms = PATIENCE_MS,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_GIVE};

	ck_assert_int_eq(ripc_sendmsg(ends[from].svc, &send, NULL), 0);
}

static void see_delivered(int i)
{
	struct ripc_msg *msg = take(i);

	ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
	ck_assert_int_eq(msg->outcome, RIPC_DELIVERED);
	ripc_msg_free(msg);
}

static struct ripc_msg *pass(int from, int to, void *buf, size_t len)
{
	struct ripc_msg *msg;

	give(from, to, buf, len);
	msg = take(to);
	see_delivered(from);
	return msg;
}

/* Gives on the only item of a message, which goes. */
static struct ripc_msg *pass_on(int from, int to, struct ripc_msg *msg)
{
	const struct iovec item = msg->items[0];

	ck_assert_int_eq(ripc_buf_ref(ends[from].ctx, item.iov_base), 0);
	ripc_msg_free(msg);
	return pass(from, to, item.iov_base, item.iov_len);
}

static void check_bytes(const struct ripc_msg *msg, size_t len, uint8_t byte)
{
	const uint8_t *bytes = msg->items[0].iov_base;

	ck_assert_uint_eq(msg->items[0].iov_len, len);
	ck_assert_uint_eq(bytes[0], byte);
	ck_assert_mem_eq(bytes, bytes + 1, len - 1);
}

/* The number of bytes that came to i in all, none of them copied. */
static void check_mapped(int i, uint64_t bytes)
{
	ck_assert_uint_eq(stats_of(i).mapped_bytes, bytes);
	ck_assert_uint_eq(stats_of(i).read_bytes, 0);
	ck_assert_uint_eq(stats_of(i).sends_from_foreign_memory, 0);
	ck_assert_uint_lt(stats_of(i).pool_used_bytes, LEN);
}

START_TEST(give_on__through_a_chain)
{
	struct ripc_msg *msg;

	open_all(4);
	for (uint64_t round = 1; round < 4; round++) {
		msg = pass(0, 1, buffer(0, LEN, (uint8_t)round), LEN);
		for (int i = 1; i < 3; i++)
			msg = pass_on(i, i + 1, msg);
		check_bytes(msg, LEN, (uint8_t)round);
		ck_assert_uint_eq(msg->places[0].place, RIPC_IN_SENDER);
		for (int i = 1; i < 4; i++)
			check_mapped(i, round * LEN);
		for (int i = 0; i < 3; i++)
			ck_assert_uint_eq(stats_of(i).given_held_bytes, LEN);
		ripc_msg_free(msg);
		check_empty();
	}
	close_all();
}
END_TEST

/* Its first owner has one more reference to its own buffer, and nobody else holds it. */
START_TEST(give_on__back_to_its_owner)
{
	int hops = _i + 1;
	struct ripc_msg *msg;
	void *own;

	open_all(4);
	own = buffer(0, LEN, 7);
	ck_assert_int_eq(ripc_buf_ref(ends[0].ctx, own), 0);
	msg = pass(0, 1, own, LEN);
	for (int i = 1; i < hops; i++)
		msg = pass_on(i, i + 1, msg);
	msg = pass_on(hops, 0, msg);
	ck_assert_ptr_eq(msg->items[0].iov_base, own);
	ck_assert_uint_eq(msg->places[0].place, RIPC_IN_POOL);
	for (int i = 1; i <= hops; i++)
		check_mapped(i, LEN);
	ck_assert_uint_eq(stats_of(0).mapped_bytes, LEN);
	ck_assert_uint_eq(stats_of(0).read_bytes, 0);
	refs_become(0, own, 2);
	ck_assert_uint_eq(stats_of(0).given_held_bytes, 0);
	check_bytes(msg, LEN, 7);
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_buf_refs(ends[0].ctx, own), 1);
	ck_assert_int_eq(ripc_buf_free(ends[0].ctx, own), 0);
	close_all();
}
END_TEST

/* A buffer that has come home is transferred again: all keep it mapped, and it comes home again. */
START_TEST(give_on__the_same_buffer_again)
{
	struct ripc_msg *msg;
	uint8_t *own;

	open_all(3);
	own = buffer(0, LEN, 0);
	for (uint8_t round = 1; round < 100; round++) {
		memset(own, round, LEN);
		ck_assert_int_eq(ripc_buf_ref(ends[0].ctx, own), 0);
		msg = pass_on(1, 2, pass(0, 1, own, LEN));
		check_bytes(msg, LEN, round);
		check_mapped(2, round * LEN);
		ripc_msg_free(msg);
		refs_become(0, own, 1);
	}
	ck_assert_int_eq(ripc_buf_free(ends[0].ctx, own), 0);
	close_all();
}
END_TEST

/* New buffers each time: nobody keeps what the owner has freed. */
START_TEST(give_on__nothing_is_kept)
{
	int before = 0, after;
	uint64_t until_ms = clock_ms() + PATIENCE_MS;

	open_all(4);
	for (uint8_t round = 0; round < 30; round++) {
		ripc_msg_free(pass_on(2, 3, pass_on(1, 2, pass(0, 1, buffer(0, LEN, round), LEN))));
		check_empty();
		check_mapped(3, (round + 1) * LEN);
		if (round == 1)
			before = descriptors_open();
	}
	/* The last slab that was shown goes with the next one, or by the clock. */
	while ((after = descriptors_open()) > before && clock_ms() < until_ms)
		pump();
	ck_assert_int_le(after, before);
	close_all();
}
END_TEST

START_TEST(give_on__to_many)
{
	struct ripc_msg *msg, *msgs[CLIENTS];

	open_all(2 + CLIENTS);
	msg = pass(0, 1, buffer(0, LEN, 5), LEN);
	for (int i = 0; i < CLIENTS; i++) {
		ck_assert_int_eq(ripc_buf_ref(ends[1].ctx, msg->items[0].iov_base), 0);
		msgs[i] = pass(1, 2 + i, msg->items[0].iov_base, LEN);
		check_mapped(2 + i, LEN);
	}
	ripc_msg_free(msg);
	for (int i = 0; i < CLIENTS; i++) {
		pump_ms(5);
		ck_assert_uint_eq(stats_of(0).given_held_bytes, LEN);
		check_bytes(msgs[i], LEN, 5);
		ripc_msg_free(msgs[i]);
	}
	close_all();
}
END_TEST

/*
 * The owner has its buffer for itself, and may write, only when the last one has let go of it: also
 * when the one between has closed its context, before or after the buffer has gone further.
 */
START_TEST(give_on__middle_closes)
{
	struct ripc_msg *msg;
	uint8_t *own;

	open_all(4);
	own = buffer(0, LEN, 9);
	ck_assert_int_eq(ripc_buf_ref(ends[0].ctx, own), 0);
	msg = pass_on(1, 2, pass(0, 1, own, LEN));
	if (_i == 1)
		msg = pass_on(2, 3, msg);
	close_one(1);
	pump_ms(1200);
	if (_i == 2)
		msg = pass_on(2, 3, msg);
	if (_i) {
		check_mapped(3, LEN);
		close_one(2);
		pump_ms(1200);
	}
	ck_assert_int_eq(ripc_buf_refs(ends[0].ctx, own), 2);
	check_bytes(msg, LEN, 9);
	ripc_msg_free(msg);
	refs_become(0, own, 1);
	ck_assert_int_eq(ripc_buf_free(ends[0].ctx, own), 0);
	close_all();
}
END_TEST

/* The first relay lives, and the second has closed: the last one still reads it. */
START_TEST(give_on__second_middle_closes)
{
	struct ripc_msg *msg, *other;
	uint8_t *own;

	open_all(5);
	own = buffer(0, LEN, 9);
	ck_assert_int_eq(ripc_buf_ref(ends[0].ctx, own), 0);
	msg = pass(0, 1, own, LEN);
	/* A member has the buffer mapped, and does not read it any more. */
	ck_assert_int_eq(ripc_buf_ref(ends[1].ctx, msg->items[0].iov_base), 0);
	other = pass(1, 4, msg->items[0].iov_base, LEN);
	msg = pass_on(2, 3, pass_on(1, 2, msg));
	ripc_msg_free(other);
	close_one(2);
	pump_ms(1200);
	ck_assert_int_eq(ripc_buf_refs(ends[0].ctx, own), 2);
	ck_assert_uint_eq(stats_of(1).mapped_held_bytes, 0);
	check_bytes(msg, LEN, 9);
	ripc_msg_free(msg);
	refs_become(0, own, 1);
	/* And again. */
	ck_assert_int_eq(ripc_buf_ref(ends[0].ctx, own), 0);
	msg = pass_on(1, 4, pass(0, 1, own, LEN));
	check_mapped(4, 2 * LEN);
	ripc_msg_free(msg);
	refs_become(0, own, 1);
	ck_assert_int_eq(ripc_buf_free(ends[0].ctx, own), 0);
	close_all();
}
END_TEST

START_TEST(give_on__last_closes)
{
	struct ripc_msg *msg;
	uint8_t *own;

	open_all(3);
	own = buffer(0, LEN, 9);
	ck_assert_int_eq(ripc_buf_ref(ends[0].ctx, own), 0);
	msg = pass_on(1, 2, pass(0, 1, own, LEN));
	close_one(2);
	refs_become(0, own, 1);
	ck_assert_uint_eq(stats_of(1).mapped_held_bytes, 0);
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_buf_free(ends[0].ctx, own), 0);
	close_all();
}
END_TEST

/* When the owner is gone, others may still have what was given on, and it goes on as a copy. */
START_TEST(give_on__owner_closes)
{
	struct ripc_msg *msg, *held;

	open_all(4);
	held = pass(0, 1, buffer(0, LEN, 9), LEN);
	ck_assert_int_eq(ripc_buf_ref(ends[1].ctx, held->items[0].iov_base), 0);
	msg = pass(1, 2, held->items[0].iov_base, LEN);
	close_one(0);
	pump_ms(50);
	check_bytes(msg, LEN, 9);
	ripc_msg_free(msg);
	msg = pass_on(1, 3, held);
	check_bytes(msg, LEN, 9);
	ck_assert_uint_eq(stats_of(3).mapped_bytes, 0);
	ripc_msg_free(msg);
	close_all();
}
END_TEST

/* A receiver that copies given messages reads the buffer where it is, once. */
START_TEST(give_on__to_one_that_copies)
{
	struct ripc_msg *msg;

	open_all(2);
	open_one(RIPC_COPY_GIVEN);
	msg = pass_on(1, 2, pass(0, 1, buffer(0, LEN, 6), LEN));
	check_bytes(msg, LEN, 6);
	ck_assert_uint_eq(stats_of(2).read_bytes, LEN);
	ck_assert_uint_eq(stats_of(2).mapped_bytes, 0);
	ripc_msg_free(msg);
	close_all();
}
END_TEST

/* Then it is copied. */
START_TEST(give_on__without_descriptors)
{
	struct ripc_msg *msg, *first;
	rlim_t before;

	open_all(3);
	first = pass(0, 1, buffer(0, LEN, 6), LEN);
	ripc_msg_free(pass(1, 2, buffer(1, 100, 1), 100));
	before = descriptors_limit(0);
	msg = pass_on(1, 2, first);
	descriptors_limit(before);
	check_bytes(msg, LEN, 6);
	ck_assert_uint_eq(stats_of(2).mapped_bytes, 0);
	ripc_msg_free(msg);
	close_all();
}
END_TEST

/* Part of a buffer, behind a header of the one between. */
START_TEST(give_on__a_part)
{
	struct ripc_msg *msg;
	struct iovec items[2];
	struct ripc_send send = {.size = sizeof(send), .items = items, .n_items = 2,
		.timeout_ms = PATIENCE_MS, .flags = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_GIVE};
	uint8_t *own;

	open_all(3);
	own = buffer(0, LEN, 4);
	own[4999] = own[5000 + 200000] = 5;
	msg = pass(0, 1, own, LEN);
	items[0] = (struct iovec){buffer(1, 100, 1), 100};
	items[1] = (struct iovec){(uint8_t *)msg->items[0].iov_base + 5000, 200000};
	ck_assert_int_eq(ripc_buf_ref(ends[1].ctx, items[1].iov_base), 0);
	ripc_msg_free(msg);
	send.to = ends[2].id;
	ck_assert_int_eq(ripc_sendmsg(ends[1].svc, &send, NULL), 0);
	msg = take(2);
	see_delivered(1);
	ck_assert_uint_eq(msg->n_items, 2);
	ck_assert_uint_eq(msg->places[0].place, RIPC_IN_POOL);
	ck_assert_uint_eq(msg->places[1].place, RIPC_IN_SENDER);
	for (size_t at = 0; at < 200000; at++)
		ck_assert_uint_eq(((uint8_t *)msg->items[1].iov_base)[at], 4);
	ck_assert_uint_eq(stats_of(2).mapped_bytes, 200000);
	ck_assert_uint_eq(stats_of(2).read_bytes, 0);
	ripc_msg_free(msg);
	close_all();
}
END_TEST

/* ---- a proxy ----------------------------------------------------------------------------- */

static void request(int from, int to, void *buf, uint64_t cookie)
{
	const struct iovec item = {buf, HUGE_LEN};
	const struct ripc_request call = {.size = sizeof(call), .to = ends[to].id,
		.items = &item, .n_items = 1, .flags = RIPC_GIVE, .timeout_ms = PATIENCE_MS,
		.cookie = cookie};

	ck_assert_int_eq(ripc_call_start(ends[from].svc, &call), 0);
}

static struct ripc_msg *take_kind(int i, uint32_t kind)
{
	struct ripc_msg *msg = take(i);

	ck_assert_uint_eq(msg->kind, kind);
	ck_assert_uint_eq(msg->items[0].iov_len, HUGE_LEN);
	return msg;
}

/* Takes one more reference to the item of a message. */
static void *item_of(int i, const struct ripc_msg *msg)
{
	ck_assert_int_eq(ripc_buf_ref(ends[i].ctx, msg->items[0].iov_base), 0);
	return msg->items[0].iov_base;
}

static void reply(int from, struct ripc_msg *to, void *buf)
{
	const struct iovec item = {buf, HUGE_LEN};

	ck_assert_int_eq(ripc_reply(ends[from].svc, to, &item, 1, RIPC_GIVE), 0);
	ripc_msg_free(to);
}

static void check_marks(const struct ripc_msg *msg, uint8_t mark)
{
	const uint8_t *bytes = msg->items[0].iov_base;

	ck_assert_uint_eq(bytes[0], mark);
	ck_assert_uint_eq(bytes[HUGE_LEN / 2], mark);
	ck_assert_uint_eq(bytes[HUGE_LEN - 1], mark);
}

static void *marked(int i, uint8_t mark)
{
	uint8_t *bytes;

	ck_assert_int_eq(ripc_buf_alloc(ends[i].ctx, HUGE_LEN, (void **)&bytes), 0);
	memset(bytes, 0, HUGE_LEN);
	bytes[0] = bytes[HUGE_LEN / 2] = bytes[HUGE_LEN - 1] = mark;
	return bytes;
}

/*
 * Requests and replies of 50 MB of 8 clients through a proxy (1) to a server (0): none is copied,
 * at no end. The server replies with memory of its own, or (_i) with the request itself, which then
 * comes back to its client as the client's own buffer.
 */
START_TEST(give_on__requests_and_replies_of_50_mb)
{
	struct ripc_msg *asked[CLIENTS], *msg;
	void *own = NULL, *sent[CLIENTS];

	open_all(2 + CLIENTS);
	if (!_i)
		own = marked(0, 99);
	for (int i = 0; i < CLIENTS; i++) {
		sent[i] = marked(2 + i, (uint8_t)(1 + i));
		request(2 + i, 1, sent[i], 0);
	}
	for (int i = 0; i < CLIENTS; i++) {
		asked[i] = take_kind(1, RIPC_REQUEST);
		request(1, 0, item_of(1, asked[i]), (uint64_t)i);
	}
	for (int i = 0; i < CLIENTS; i++) {
		msg = take_kind(0, RIPC_REQUEST);
		ck_assert_uint_eq(msg->places[0].place, RIPC_IN_SENDER);
		if (!_i)
			ck_assert_int_eq(ripc_buf_ref(ends[0].ctx, own), 0);
		reply(0, msg, _i ? item_of(0, msg) : own);
	}
	for (int i = 0; i < CLIENTS; i++) {
		void *buf;

		msg = take_kind(1, RIPC_REPLY);
		buf = item_of(1, msg);
		reply(1, asked[msg->cookie], buf);
		ripc_msg_free(msg);
	}
	for (int i = 0; i < CLIENTS; i++) {
		msg = take_kind(2 + i, RIPC_REPLY);
		check_marks(msg, _i ? (uint8_t)(1 + i) : 99);
		ck_assert_uint_eq(msg->places[0].place, _i ? RIPC_IN_POOL : RIPC_IN_SENDER);
		ck_assert_int_eq(msg->items[0].iov_base == sent[i], _i);
		ck_assert_uint_eq(stats_of(2 + i).mapped_bytes, HUGE_LEN);
		ck_assert_uint_eq(stats_of(2 + i).read_bytes, 0);
		ck_assert_uint_eq(stats_of(2 + i).sends_from_foreign_memory, 0);
		ripc_msg_free(msg);
	}
	ck_assert_uint_eq(stats_of(1).mapped_bytes, 2 * CLIENTS * HUGE_LEN);
	ck_assert_uint_eq(stats_of(1).read_bytes, 0);
	ck_assert_uint_eq(stats_of(1).sends_from_foreign_memory, 0);
	ck_assert_uint_eq(stats_of(0).mapped_bytes, CLIENTS * HUGE_LEN);
	ck_assert_uint_eq(stats_of(0).read_bytes, 0);
	if (own)
		ck_assert_int_eq(ripc_buf_free(ends[0].ctx, own), 0);
	close_all();
}
END_TEST

/* ---- leases that nobody reads ------------------------------------------------------------ */

static void *held_again(int i, const struct ripc_msg *msg)
{
	void *buf = msg->items[0].iov_base;

	ck_assert_int_eq(ripc_buf_ref(ends[i].ctx, buf), 0);
	return buf;
}

/*
 * One relay (1) closes while its receiver (2) reads. Another (3) has given the same buffer on to
 * one that has freed it (4), or (_i) back to the owner.
 */
START_TEST(give_on__lease_of_another_relay)
{
	struct ripc_msg *msg;
	void *own;

	open_all(5);
	own = buffer(0, LEN, 9);
	ck_assert_int_eq(ripc_buf_ref(ends[0].ctx, own), 0);
	ripc_msg_free(pass_on(3, _i ? 0 : 4, pass(0, 3, own, LEN)));
	refs_become(0, own, 1);
	ck_assert_int_eq(ripc_buf_ref(ends[0].ctx, own), 0);
	msg = pass_on(1, 2, pass(0, 1, own, LEN));
	close_one(1);
	pump_ms(700);
	ck_assert_int_eq(ripc_buf_refs(ends[0].ctx, own), 2);
	check_bytes(msg, LEN, 9);
	ripc_msg_free(msg);
	refs_become(0, own, 1);
	ck_assert_int_eq(ripc_buf_free(ends[0].ctx, own), 0);
	close_all();
}
END_TEST

/* A child of the reader has its descriptors, and the reader frees the buffer. */
START_TEST(give_on__child_of_the_reader)
{
	struct ripc_msg *msg;
	void *own;
	pid_t child;

	open_all(3);
	own = buffer(0, LEN, 9);
	ck_assert_int_eq(ripc_buf_ref(ends[0].ctx, own), 0);
	msg = pass_on(1, 2, pass(0, 1, own, LEN));
	child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	close_one(1);
	pump_ms(700);
	ck_assert_int_eq(ripc_buf_refs(ends[0].ctx, own), 2);
	ripc_msg_free(msg);
	refs_become(0, own, 1);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	ck_assert_int_eq(ripc_buf_free(ends[0].ctx, own), 0);
	close_all();
}
END_TEST

/* When an end is to be polled though its descriptor is not readable. */
static uint64_t due(int i)
{
	int timeout_ms = ripc_poll_timeout(ends[i].ctx);

	return timeout_ms < 0 ? UINT64_MAX : clock_ms() + (uint64_t)timeout_ms;
}

/* Polls one end only when its descriptor is readable, or when it is due. */
static uint64_t pump_asleep(int asleep, uint64_t due_ms, uint64_t ms)
{
	struct pollfd poller = {.fd = ripc_context_fd(ends[asleep].ctx), .events = POLLIN};
	uint64_t until_ms = clock_ms() + ms;

	ck_assert_int_ge(poller.fd, 0);
	while (clock_ms() < until_ms) {
		for (int i = 0; i < n_ends; i++) {
			if (ends[i].ctx && i != asleep)
				ripc_poll(ends[i].ctx);
		}
		if (poll(&poller, 1, 0) <= 0 && clock_ms() < due_ms)
			continue;
		ripc_poll(ends[asleep].ctx);
		due_ms = due(asleep);
	}
	return due_ms;
}

/*
 * The first relay (1) closes while the second (2) has the buffer. Its receiver (3) has freed the
 * buffer. The second frees it last, and sleeps: so nothing but the second knows.
 */
START_TEST(give_on__taken_back_by_a_sleeper)
{
	struct ripc_msg *held;
	uint64_t due_ms;
	void *own;

	open_all(4);
	own = buffer(0, LEN, 9);
	ck_assert_int_eq(ripc_buf_ref(ends[0].ctx, own), 0);
	held = pass_on(1, 2, pass(0, 1, own, LEN));
	ripc_msg_free(pass(2, 3, held_again(2, held), LEN));
	close_one(1);
	pump_ms(700);
	ck_assert_int_ge(ripc_context_fd(ends[2].ctx), 0);
	due_ms = pump_asleep(2, 0, 100);
	ck_assert_int_eq(ripc_buf_refs(ends[0].ctx, own), 2);
	/* As if it slept in another thread. */
	ripc_msg_free(held);
	pump_asleep(2, due_ms, 4000);
	ck_assert_int_eq(ripc_buf_refs(ends[0].ctx, own), 1);
	ck_assert_int_eq(ripc_buf_free(ends[0].ctx, own), 0);
	close_all();
}
END_TEST

/* More often than a partner can show memory: then it is copied. */
START_TEST(give_on__ping_pong)
{
	struct ripc_msg *msg;

	open_all(3);
	msg = pass(0, 1, buffer(0, LEN, 3), LEN);
	for (int i = 0; i < 300; i++)
		msg = pass_on(1 + i % 2, 2 - i % 2, msg);
	check_bytes(msg, LEN, 3);
	ripc_msg_free(msg);
	close_all();
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ give_on__through_a_chain, 1 }, { give_on__back_to_its_owner, 3 },
		{ give_on__the_same_buffer_again, 1 }, { give_on__nothing_is_kept, 1 },
		{ give_on__to_many, 1 },
		{ give_on__middle_closes, 3 }, { give_on__second_middle_closes, 1 },
		{ give_on__last_closes, 1 }, { give_on__owner_closes, 1 },
		{ give_on__to_one_that_copies, 1 }, { give_on__without_descriptors, 1 },
		{ give_on__lease_of_another_relay, 2 }, { give_on__child_of_the_reader,
			kernel_runs(kernel_lacks_dontfork(), "give_on__child_of_the_reader", 1) },
		{ give_on__taken_back_by_a_sleeper, 1 }, { give_on__ping_pong, 1 },
		{ give_on__a_part, 1 }, { give_on__requests_and_replies_of_50_mb, 2 }, { NULL, 0 },
	};

	return suite_run_loops("given_on", loops);
}
