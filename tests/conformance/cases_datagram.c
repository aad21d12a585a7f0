/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about sending and what arrives. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "../support/util/kernel.h"
#include "cases.h"
#include "side.h"

#define BACKEND (conformance_under_test->backend)
#define BATCH        64
#define QUIET_MS     200
#define QUIETS_MAX   100 /* until what was sent must have come */

/* A batch of datagrams that holds its bytes. */
struct batch {
	uint8_t *bytes[BATCH];
	struct iovec iov[BATCH][2];
	struct ripc__tx tx[BATCH];
	uint32_t n;
};

/* Each datagram has two pieces, as header and payload. */
static void batch_add(struct batch *batch, uint32_t len)
{
	uint32_t i = batch->n++, first = len < 40 ? len : 40;

	batch->bytes[i] = malloc(len);
	ck_assert_ptr_nonnull(batch->bytes[i]);
	pattern_fill(batch->bytes[i], len, i);
	batch->iov[i][0] = (struct iovec){batch->bytes[i], first};
	batch->iov[i][1] = (struct iovec){batch->bytes[i] + first, len - first};
	batch->tx[i] = (struct ripc__tx){.iov = batch->iov[i], .n_iov = 2, .len = len};
}

/* Sends what is left of a batch, as far as it is taken. */
static void batch_push(const struct side *from, struct batch *batch, uint32_t *sent)
{
	int rc;

	if (*sent == batch->n)
		return;
	rc = BACKEND->datagrams.send(from->port, from->peer, batch->tx + *sent, batch->n - *sent);
	ck_assert_int_ge(rc, 0);
	ck_assert_int_le(rc, (int)(batch->n - *sent));
	*sent += (uint32_t)rc;
}

/* Sends a batch and checks that each datagram arrives once, whole and with the right length. */
static void batch_exchange(const struct side *from, const struct side *to, struct batch *batch)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	bool seen[BATCH] = {false};
	uint32_t sent = 0, got = 0;

	while (got < batch->n) {
		batch_push(from, batch, &sent);
		int n = side_wait(to, events, RIPC_EVENTS_MAX);

		for (int i = 0; i < n; i++) {
			uint32_t number = pattern_number(events[i].data);

			ck_assert_uint_lt(number, batch->n);
			ck_assert(!seen[number]);
			seen[number] = true;
			ck_assert_uint_eq(events[i].len, batch->tx[number].len);
			ck_assert(pattern_is(events[i].data, events[i].len, number));
			BACKEND->datagrams.release(to->port, events[i].handle);
			got++;
		}
	}
	ck_assert_int_eq(BACKEND->datagrams.poll(to->port, events, 1, false), 0);
}

static void batch_free(struct batch *batch)
{
	for (uint32_t i = 0; i < batch->n; i++)
		free(batch->bytes[i]);
}

START_TEST(send__lengths)
{
	static const uint32_t lens[] = {1, 50, 896, 1400, 2048, 2049};
	struct side left, right;
	uint32_t mtu;

	pair_open(&left, &right, _i);
	mtu = BACKEND->route.mtu(left.port, left.peer);
	for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		if (lens[i] > mtu)
			continue;
		side_send(&left, left.peer, lens[i], i);
		side_expect(&right, lens[i], i);
	}
	side_send(&left, left.peer, mtu - 1, 77);
	side_expect(&right, mtu - 1, 77);
	side_send(&left, left.peer, mtu, 78);
	side_expect(&right, mtu, 78);
	pair_close(&left, &right);
}
END_TEST

START_TEST(send__too_long)
{
	static uint8_t bytes[2 * RIPC_DATAGRAM_MAX];
	struct iovec iov = {.iov_base = bytes};
	struct ripc__tx tx[2] = {{.iov = &iov, .n_iov = 1}, {.iov = &iov, .n_iov = 1}};
	struct side left, right;
	uint32_t mtu;

	pair_open(&left, &right, _i);
	mtu = BACKEND->route.mtu(left.port, left.peer);
	for (uint32_t len = mtu + 1; len <= sizeof(bytes); len += mtu) {
		iov.iov_len = tx[0].len = tx[1].len = len;
		ck_assert_int_eq(BACKEND->datagrams.send(left.port, left.peer, tx, 1), -EMSGSIZE);
		ck_assert_int_eq(BACKEND->datagrams.send(left.port, left.peer, tx, 2), -EMSGSIZE);
	}
	ck_assert_uint_eq(BACKEND->route.mtu(left.port, left.peer), mtu);
	side_send(&left, left.peer, mtu, 3);
	side_expect(&right, mtu, 3);
	pair_close(&left, &right);
}
END_TEST

/* Datagrams before the one that is too long are received. */
START_TEST(send__too_long_in_a_batch)
{
	struct batch batch = {.n = 0};
	struct side left, right;

	pair_open(&left, &right, _i);
	for (uint32_t i = 0; i < 3; i++)
		batch_add(&batch, 500);
	batch_add(&batch, BACKEND->route.mtu(left.port, left.peer) + 1);
	for (int taken = 0; taken < 3;) {
		int rc = BACKEND->datagrams.send(left.port, left.peer, batch.tx + taken,
			4 - (uint32_t)taken);

		ck_assert_int_gt(rc, 0);
		taken += rc;
	}
	ck_assert_int_eq(BACKEND->datagrams.send(left.port, left.peer, batch.tx + 3, 1), -EMSGSIZE);
	for (uint32_t i = 0, seen = 0; i < 3; i++) {
		struct ripc__event event;

		side_wait(&right, &event, 1);
		ck_assert(event.len == 500 && pattern_number(event.data) < 3);
		ck_assert(pattern_is(event.data, 500, pattern_number(event.data)));
		ck_assert(!(seen >> pattern_number(event.data) & 1));
		seen |= 1u << pattern_number(event.data);
		BACKEND->datagrams.release(right.port, event.handle);
	}
	batch_free(&batch);
	pair_close(&left, &right);
}
END_TEST

START_TEST(send__gathers_many_pieces)
{
	struct iovec iov[RIPC_IOV_MAX] = {{0}};
	struct ripc__tx tx[BATCH];
	uint8_t bytes[1200];
	struct side left, right;
	uint32_t at = 0;

	pair_open(&left, &right, _i);
	pattern_fill(bytes, sizeof(bytes), 9);
	for (uint32_t i = 0; i < 65; i++) {
		uint32_t len = i == 64 ? sizeof(bytes) - at : i % 5 * 6;

		iov[i] = (struct iovec){.iov_base = bytes + at, .iov_len = len};
		at += len;
	}
	for (uint32_t i = 0; i < BATCH; i++)
		tx[i] = (struct ripc__tx){.iov = iov, .n_iov = 65, .len = sizeof(bytes)};
	ck_assert_int_eq(BACKEND->datagrams.send(left.port, left.peer, tx, 1), 1);
	side_expect(&right, sizeof(bytes), 9);
	/* 64 of them together have more pieces than the kernel takes at once (UIO_MAXIOV). */
	for (uint32_t sent = 0; sent < BATCH;) {
		int rc = BACKEND->datagrams.send(left.port, left.peer, tx + sent, BATCH - sent);

		/* 0: what lets more be sent is still on its way back. */
		ck_assert_int_ge(rc, 0);
		for (int i = 0; i < rc; i++)
			side_expect(&right, sizeof(bytes), 9);
		sent += (uint32_t)rc;
	}
	pair_close(&left, &right);
}
END_TEST

START_TEST(send__batch_of_equal_datagrams)
{
	static const uint32_t lens[] = {50, 1200, 1420};
	struct side left, right;

	pair_open(&left, &right, _i);
	for (uint32_t k = 0; k < sizeof(lens) / sizeof(lens[0]); k++) {
		struct batch batch = {.n = 0};

		for (uint32_t i = 0; i < BATCH; i++)
			batch_add(&batch, lens[k]);
		batch_exchange(&left, &right, &batch);
		batch_free(&batch);
	}
	pair_close(&left, &right);
}
END_TEST

START_TEST(send__batch_of_unequal_datagrams)
{
	static const uint32_t lens[] = {
		100, 100, 60, 100, 60, 60, 61, 1400, 1400, 1400, 9, 1400, 1, 5, 1400, 7000,
		7000, 10,
		8000, 8000, 8000, 8000, 8000, 8000, 8000, 8000, 8000, 8000, 40, 39, 39, 38, 38, 38,
	};
	struct batch batch = {.n = 0};
	struct side left, right;
	uint32_t mtu;

	pair_open(&left, &right, _i);
	mtu = BACKEND->route.mtu(left.port, left.peer);
	for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		batch_add(&batch, lens[i] < 4 ? 4 : lens[i] < mtu ? lens[i] : mtu);
	batch_exchange(&left, &right, &batch);
	batch_free(&batch);
	pair_close(&left, &right);
}
END_TEST

START_TEST(send__batch_of_the_longest)
{
	struct batch batch = {.n = 0};
	struct side left, right;

	pair_open(&left, &right, _i);
	for (uint32_t i = 0; i < 6; i++)
		batch_add(&batch, BACKEND->route.mtu(left.port, left.peer));
	batch_exchange(&left, &right, &batch);
	batch_free(&batch);
	pair_close(&left, &right);
}
END_TEST

/* The datagrams present now; or, if they may be late, until none has arrived for a while. */
static int poll_patiently(const struct side *side, struct ripc__event *events, uint32_t n)
{
	int filled = BACKEND->datagrams.poll(side->port, events, n, false);

	for (int i = 0; conformance_under_test->later && filled == 0 && i < QUIET_MS; i++) {
		side_others_move(side);
		poll(NULL, 0, 1);
		filled = BACKEND->datagrams.poll(side->port, events, n, false);
	}
	return filled;
}

/* Takes all that is there; returns how many. Each must be whole. */
static uint32_t drain(const struct side *side, uint32_t len)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	uint32_t got = 0;
	int n;

	while ((n = poll_patiently(side, events, RIPC_EVENTS_MAX)) > 0) {
		for (int i = 0; i < n; i++) {
			ck_assert_int_eq(events[i].kind, RIPC_EV_DATAGRAM);
			ck_assert_uint_eq(events[i].len, len);
			ck_assert(pattern_is(events[i].data, len, pattern_number(events[i].data)));
			BACKEND->datagrams.release(side->port, events[i].handle);
		}
		got += (uint32_t)n;
	}
	ck_assert_int_eq(n, 0);
	return got;
}

static uint32_t overflows(const struct side *side)
{
	struct ripc__net_stats stats = {0};

	if (BACKEND->net.stats)
		BACKEND->net.stats(side->port, &stats);
	return stats.overflows;
}

/* Where they come later, each of those that were sent comes, or is counted as dropped. */
static void account_for_all(const struct side *left, const struct side *right, uint32_t len,
		uint32_t sent)
{
	uint32_t got = 0, dropped = 0;

	for (int i = 0; got + dropped < sent && i < QUIETS_MAX; i++) {
		got += drain(right, len);
		dropped += overflows(right);
	}
	ck_assert_uint_eq(got + dropped, sent);
	if (left->attr.caps & RIPC_CAP_RELIABLE)
		ck_assert_uint_eq(dropped, 0);
}

/* The same where they come at once; what a kernel's buffer drops may be several counted as one. */
static void account_at_once(const struct side *left, const struct side *right, uint32_t len,
		uint32_t sent, bool all_taken)
{
	uint32_t got = drain(right, len), lost = sent - got, counted;

	ck_assert_uint_ge(sent, got);
	/* Drops are reported with the next datagram that finds room. */
	side_send(left, left->peer, len, 5);
	side_expect(right, len, 5);
	if (left->attr.caps & RIPC_CAP_RELIABLE)
		ck_assert_uint_eq(lost, 0);
	else if (all_taken)
		ck_assert_uint_gt(lost, 0);
	if (!BACKEND->net.stats)
		return;
	counted = overflows(right);
	ck_assert_uint_le(counted, lost);
	ck_assert(!counted == !lost);
	ck_assert_uint_eq(overflows(right), 0);
}

/* Nobody polls: datagrams are dropped without an error and counted, or are not taken. */
START_TEST(send__burst_to_who_does_not_poll)
{
	struct batch batch = {.n = 0};
	struct side left, right;
	uint32_t sent = 0;

	world_override(conformance_under_test->small_buffer);
	pair_open(&left, &right, _i);
	for (uint32_t i = 0; i < 16; i++)
		batch_add(&batch, 1200);
	for (uint32_t turn = 0; turn < 100; turn++) {
		int rc = BACKEND->datagrams.send(left.port, left.peer, batch.tx, batch.n);

		ck_assert_int_ge(rc, 0);
		sent += (uint32_t)rc;
	}
	if (conformance_under_test->later && !right.attr.receive_buffer)
		account_for_all(&left, &right, 1200, sent);
	else
		account_at_once(&left, &right, 1200, sent, sent == 100 * batch.n);
	batch_free(&batch);
	pair_close(&left, &right);
}
END_TEST

/* An answer to where a datagram came from reaches its sender, from the address it knows. */
START_TEST(from__can_be_answered)
{
	struct side left, right;
	struct ripc__event event;
	void *back;

	pair_open(&left, &right, _i);
	side_send(&left, left.peer, 50, 1);
	side_wait(&right, &event, 1);
	back = side_route(&right, event.from);
	ck_assert(BACKEND->route.matches(right.port, back, event.from));
	BACKEND->datagrams.release(right.port, event.handle);
	for (uint32_t i = 0; i < 3; i++) {
		side_send(&right, back, 60 + i, i);
		side_wait(&left, &event, 1);
		ck_assert_uint_eq(event.len, 60 + i);
		ck_assert(BACKEND->route.matches(left.port, left.peer, event.from));
		BACKEND->datagrams.release(left.port, event.handle);
	}
	side_unroute(&right, back);
	pair_close(&left, &right);
}
END_TEST

START_TEST(peer_matches__knows_others)
{
	struct side left, right, third;
	struct ripc__event event;
	struct ripc__addr addr;

	pair_open(&left, &right, _i);
	side_open(&third, _i);
	side_address(&right, &third, &addr);
	third.peer = side_route(&third, &addr);
	side_send(&third, third.peer, 50, 1);
	side_wait(&right, &event, 1);
	ck_assert(!BACKEND->route.matches(right.port, right.peer, event.from));
	BACKEND->datagrams.release(right.port, event.handle);
	side_close(&third);
	pair_close(&left, &right);
}
END_TEST

/* Ten datagrams, in any order: first, first + 2, ... */
static void expect_all(const struct side *side, uint32_t first)
{
	struct ripc__event event;
	uint32_t seen = 0;

	for (uint32_t i = 0; i < 10; i++) {
		uint32_t number;

		side_wait(side, &event, 1);
		ck_assert_int_eq(event.kind, RIPC_EV_DATAGRAM);
		ck_assert_uint_eq(event.len, 100);
		number = pattern_number(event.data);
		ck_assert(pattern_is(event.data, 100, number));
		ck_assert(number >= first && (number - first) % 2 == 0 && number < 20);
		ck_assert(!(seen >> number & 1));
		seen |= 1u << number;
		BACKEND->datagrams.release(side->port, event.handle);
	}
}

START_TEST(ports__are_apart)
{
	struct side left, right, third;
	struct ripc__event event;
	struct ripc__addr addr;
	void *peer;

	pair_open(&left, &right, _i);
	side_open(&third, _i);
	side_address(&third, &left, &addr);
	peer = side_route(&left, &addr);
	for (uint32_t i = 0; i < 10; i++) {
		side_send(&left, left.peer, 100, 2 * i);
		side_send(&left, peer, 100, 2 * i + 1);
	}
	expect_all(&right, 0);
	expect_all(&third, 1);
	ck_assert_int_eq(BACKEND->datagrams.poll(right.port, &event, 1, false), 0);
	ck_assert_int_eq(BACKEND->datagrams.poll(third.port, &event, 1, false), 0);
	ck_assert_int_eq(BACKEND->datagrams.poll(left.port, &event, 1, false), 0);
	side_unroute(&left, peer);
	side_close(&third);
	pair_close(&left, &right);
}
END_TEST

/* A port may send to itself: two services of one context. */
START_TEST(ports__reach_themselves)
{
	struct ripc__addr addr;
	struct side side;

	side_open(&side, _i);
	side_address(&side, &side, &addr);
	side.peer = side_route(&side, &addr);
	side_send(&side, side.peer, 300, 4);
	side_expect(&side, 300, 4);
	side_close(&side);
}
END_TEST

/* Errors about a dead port must not hurt sends to others. */
START_TEST(send__dead_port_hurts_nobody)
{
	uint8_t bytes[100] = {0};
	struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	struct ripc__tx tx = {.iov = &iov, .n_iov = 1, .len = sizeof(bytes)};
	struct side left, right, dead;
	struct ripc__addr addr;
	void *peer;

	if (conformance_under_test->mortal)
		return;
	pair_open(&left, &right, _i);
	side_open(&dead, _i);
	side_address(&dead, &left, &addr);
	side_close(&dead);
	peer = side_route_maybe(&left, &addr);
	for (uint32_t i = 0; i < 50; i++) {
		BACKEND->datagrams.send(left.port, peer, &tx, 1);
		side_send(&left, left.peer, 100, i);
		side_expect(&right, 100, i);
		side_send(&right, right.peer, 100, i);
		side_expect(&left, 100, i);
	}
	side_unroute(&left, peer);
	pair_close(&left, &right);
}
END_TEST

void conformance_datagram_cases(TCase *tcase)
{
	const struct conformance *backend = conformance_under_test;
	const TTest *const cases[] = {
		send__lengths,
		send__gathers_many_pieces,
		send__batch_of_equal_datagrams,
		send__batch_of_unequal_datagrams,
		send__batch_of_the_longest,
		from__can_be_answered,
		peer_matches__knows_others,
		ports__are_apart,
		ports__reach_themselves,
		send__dead_port_hurts_nobody,
		NULL,
	};
	const TTest *const too_long[] = {send__too_long, send__too_long_in_a_batch, NULL};
	const TTest *const burst[] = {send__burst_to_who_does_not_poll, NULL};

	cases_add(tcase, cases);
	if (kernel_runs(backend->lacks_mtu, "send__too_long", 1))
		cases_add(tcase, too_long);
	if (kernel_runs(backend->lacks_overflows, "send__burst_to_who_does_not_poll", 1))
		cases_add(tcase, burst);
}
