/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about native reads, and about native writes for backends that have both. */
#include <errno.h>
#include <string.h>

#include "cases.h"
#include "side.h"

#define BACKEND (conformance_under_test->backend)
#define LEN     10000
#define TURNS   300
#define MANY    100000

static uint8_t *theirs, ours[LEN]; /* memory of this case's world, and of the process */

/* Waits for the end of an operation; returns its status. */
static int end_of(const struct side *side, enum ripc__event_kind kind, uint64_t cookie)
{
	struct ripc__event event;

	side_wait(side, &event, 1);
	ck_assert_int_eq(event.kind, kind);
	ck_assert_uint_eq(event.cookie, cookie);
	ck_assert_int_le(event.status, 0);
	return event.status;
}

/* Registers what is read into, or (source) written from, where that is needed. */
static void *region_open(const struct side *side, bool source)
{
	void *region = NULL;

	if (side->attr.caps & RIPC_CAP_REGISTERED)
		ck_assert_int_eq(BACKEND->mem.reg(side->port, side->peer, ours, LEN, source,
			&region), 0);
	return region;
}

static void region_close(const struct side *side, void *region)
{
	if (region)
		BACKEND->mem.dereg(side->port, region);
}

static int read_now(const struct side *side, const struct ripc__key *key, uint64_t offset,
		size_t len)
{
	static uint64_t cookie;
	void *region = region_open(side, false);
	int status;

	cookie++;
	ck_assert_int_eq(BACKEND->remote.move(side->port, side->peer,
		&(struct ripc__move){.key = *key, .offset = offset, .mem = ours, .len = len,
		.region = region, .cookie = cookie}), 0);
	status = end_of(side, RIPC_EV_READ, cookie);
	region_close(side, region);
	return status;
}

static int write_now(const struct side *side, const struct ripc__key *key, uint64_t offset,
		size_t len)
{
	static uint64_t cookie = 1000;
	void *region = region_open(side, true);
	int status;

	cookie++;
	ck_assert_int_eq(BACKEND->remote.move(side->port, side->peer,
		&(struct ripc__move){.key = *key, .offset = offset, .mem = ours, .len = len,
		.region = region, .cookie = cookie, .writes = true}), 0);
	status = end_of(side, RIPC_EV_WRITE, cookie);
	region_close(side, region);
	return status;
}

/* Closes a key and waits until nobody can reach the memory any more. */
static void close_key(const struct side *holder, const struct ripc__key *key)
{
	int rc = BACKEND->mem.close(holder->port, key, RIPC_CLOSE_DONE, 77);

	if (rc == -EINPROGRESS)
		ck_assert_int_eq(end_of(holder, RIPC_EV_FENCED, 77), 0);
	else
		ck_assert_int_eq(rc, 0);
}

static void open_key(const struct side *holder, bool writable, struct ripc__key *key)
{
	theirs = theirs ? theirs : world_memory(LEN);
	pattern_fill(theirs, LEN, 3);
	memset(ours, 0, LEN);
	ck_assert_int_eq(BACKEND->mem.open(holder->port, holder->peer, theirs, LEN, writable, key),
		0);
}

START_TEST(read__brings_the_bytes)
{
	struct side left, right;
	struct ripc__key key;

	pair_open(&left, &right, _i);
	open_key(&left, false, &key);
	ck_assert_int_eq(read_now(&right, &key, 0, LEN), 0);
	ck_assert(pattern_is(ours, LEN, 3));
	ck_assert_int_eq(read_now(&right, &key, 100, 50), 0);
	ck_assert_mem_eq(ours, theirs + 100, 50);
	ck_assert_int_eq(read_now(&right, &key, LEN, 0), 0);
	close_key(&left, &key);
	pair_close(&left, &right);
}
END_TEST

START_TEST(read__stays_in_range)
{
	struct side left, right;
	struct ripc__key key;

	pair_open(&left, &right, _i);
	open_key(&left, false, &key);
	ck_assert_int_lt(read_now(&right, &key, 1, LEN), 0);
	ck_assert_int_lt(read_now(&right, &key, LEN, 1), 0);
	ck_assert_int_lt(read_now(&right, &key, UINT64_MAX, 2), 0);
	ck_assert_int_lt(read_now(&right, &key, UINT64_MAX - 10, LEN), 0);
	ck_assert_uint_eq(ours[0], 0);
	ck_assert_int_eq(read_now(&right, &key, 0, 10), 0);
	close_key(&left, &key);
	pair_close(&left, &right);
}
END_TEST

START_TEST(read__needs_the_key)
{
	struct side left, right, third;
	struct ripc__key key, wrong;
	struct ripc__addr addr;

	pair_open(&left, &right, _i);
	open_key(&left, false, &key);
	wrong = key;
	wrong.key ^= 1;
	ck_assert_int_lt(read_now(&right, &wrong, 0, 10), 0);
	wrong = key;
	wrong.address += 8;
	ck_assert_int_lt(read_now(&right, &wrong, 0, 10), 0);
	/* The key was opened for right alone. */
	side_open(&third, _i);
	side_address(&left, &third, &addr);
	third.peer = side_route(&third, &addr);
	ck_assert_int_lt(read_now(&third, &key, 0, 10), 0);
	ck_assert_uint_eq(ours[0], 0);
	side_close(&third);
	close_key(&left, &key);
	pair_close(&left, &right);
}
END_TEST

START_TEST(mem_close__ends_access)
{
	struct side left, right;
	struct ripc__key key;

	pair_open(&left, &right, _i);
	open_key(&left, false, &key);
	ck_assert_int_eq(read_now(&right, &key, 0, 10), 0);
	close_key(&left, &key);
	memset(ours, 0, LEN);
	ck_assert_int_lt(read_now(&right, &key, 0, 10), 0);
	ck_assert_uint_eq(ours[0], 0);
	ck_assert_int_eq(BACKEND->mem.close(left.port, &key, RIPC_CLOSE_DONE, 1), -EINVAL);
	pair_close(&left, &right);
}
END_TEST

START_TEST(close__ends_access)
{
	struct side left, right;
	struct ripc__key key;

	pair_open(&left, &right, _i);
	open_key(&left, false, &key);
	side_close(&left);
	ck_assert_int_lt(read_now(&right, &key, 0, 10), 0);
	ck_assert_uint_eq(ours[0], 0);
	side_close(&right);
}
END_TEST

/* Regions and reads that are left go with the port: nothing is written afterwards. */
START_TEST(close__takes_regions_along)
{
	struct side left, right;
	struct ripc__key key;
	void *region;

	pair_open(&left, &right, _i);
	open_key(&left, false, &key);
	ck_assert_int_eq(read_now(&right, &key, 0, 10), 0);
	region = region_open(&right, false);
	for (uint64_t i = 0; i < 4; i++)
		ck_assert_int_eq(BACKEND->remote.move(right.port, right.peer,
			&(struct ripc__move){.key = key, .mem = ours, .len = LEN,
				.region = region, .cookie = i}), 0);
	side_close(&right);
	memset(ours, 0, LEN);
	close_key(&left, &key);
	side_close(&left);
	ck_assert_uint_eq(ours[0] + ours[LEN - 1], 0);
}
END_TEST

/* Where a write may end well before it is dealt with: what is read behind it ends afterwards. */
static void write_deal(const struct side *side, const struct ripc__key *key)
{
	if (side->attr.caps & RIPC_CAP_DUBIOUS)
		(void)read_now(side, key, 0, 1);
	ours[0] = 0;
}

/*
 * A transfer that must move nothing; also reports it, unless the device may end it well all the
 * same.
 */
static void write_in_vain(const struct side *side, const struct ripc__key *key, uint64_t offset,
		size_t len)
{
	int status = write_now(side, key, offset, len);

	if (!(side->attr.caps & RIPC_CAP_DUBIOUS))
		ck_assert_int_lt(status, 0);
	write_deal(side, key);
	ck_assert(pattern_is(theirs, LEN, 3));
}

/* False: not with this variant's options. */
static bool writers_open(struct side *left, struct side *right, int variant)
{
	pair_open(left, right, variant);
	if (right->attr.caps & RIPC_CAP_WRITE)
		return true;
	pair_close(left, right);
	return false;
}

START_TEST(write__needs_permission)
{
	struct side left, right;
	struct ripc__key key;

	if (!writers_open(&left, &right, _i))
		return;
	open_key(&left, false, &key);
	write_in_vain(&right, &key, 0, 10);
	close_key(&left, &key);
	open_key(&left, true, &key);
	write_in_vain(&right, &key, 1, LEN);
	if (!conformance_under_test->writers_read)
		ck_assert_int_lt(read_now(&right, &key, 0, 10), 0);
	ck_assert_uint_eq(ours[0], 0);
	ck_assert_int_eq(write_now(&right, &key, LEN - 10, 10), 0);
	write_deal(&right, &key);
	ck_assert_uint_eq(theirs[LEN - 1], 0);
	ck_assert(pattern_is(theirs, LEN - 10, 3));
	close_key(&left, &key);
	pattern_fill(theirs, LEN, 3);
	write_in_vain(&right, &key, 0, 10);
	pair_close(&left, &right);
}
END_TEST

/* A datagram that is sent when a write has ended finds the bytes there. */
START_TEST(write__notice_does_not_overtake)
{
	struct side left, right;
	struct ripc__key key;
	void *region;

	if (!writers_open(&left, &right, _i))
		return;
	open_key(&left, true, &key);
	region = region_open(&right, true);
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		pattern_fill(ours, LEN, turn);
		ck_assert_int_eq(BACKEND->remote.move(right.port, right.peer,
			&(struct ripc__move){.key = key, .mem = ours, .len = LEN, .region = region,
			.cookie = turn, .writes = true}),
			0);
		ck_assert_int_eq(end_of(&right, RIPC_EV_WRITE, turn), 0);
		side_send(&right, right.peer, 4, turn);
		side_expect(&left, 4, turn);
		ck_assert(pattern_is(theirs, LEN, turn));
	}
	region_close(&right, region);
	close_key(&left, &key);
	pair_close(&left, &right);
}
END_TEST

/* Reads of these cookies below n end well, each once, in any order. */
static void expect_ends(const struct side *side, uint64_t n)
{
	static bool ended[MANY];
	struct ripc__event event;

	memset(ended, 0, sizeof(ended));
	for (uint64_t i = 0; i < n; i++) {
		side_wait(side, &event, 1);
		ck_assert_int_eq(event.kind, RIPC_EV_READ);
		ck_assert_int_eq(event.status, 0);
		ck_assert_uint_lt(event.cookie, n);
		ck_assert(!ended[event.cookie]);
		ended[event.cookie] = true;
	}
}

/* More at once than fit: told so, and every one that was taken ends. */
START_TEST(read__too_many_at_once)
{
	struct side left, right;
	struct ripc__key key;
	uint64_t taken = 0;
	void *region;

	pair_open(&left, &right, _i);
	open_key(&left, false, &key);
	region = region_open(&right, false);
	while (taken < MANY) {
		int rc = BACKEND->remote.move(right.port, right.peer,
			&(struct ripc__move){.key = key, .mem = ours, .len = 10, .region = region,
			.cookie = taken});

		if (rc == -EAGAIN)
			break;
		ck_assert_int_eq(rc, 0);
		taken++;
	}
	ck_assert_uint_gt(taken, 0);
	ck_assert_uint_lt(taken, MANY);
	expect_ends(&right, taken);
	region_close(&right, region);
	ck_assert_int_eq(read_now(&right, &key, 0, 10), 0);
	close_key(&left, &key);
	pair_close(&left, &right);
}
END_TEST

void conformance_read_cases(TCase *tcase)
{
	const TTest *const cases[] = {
		read__brings_the_bytes,
		read__stays_in_range,
		read__needs_the_key,
		mem_close__ends_access,
		close__ends_access,
		close__takes_regions_along,
		read__too_many_at_once,
		NULL,
	};

	cases_add(tcase, cases);
}

void conformance_write_cases(TCase *tcase)
{
	const TTest *const cases[] = {
		write__needs_permission,
		write__notice_does_not_overtake,
		NULL,
	};

	cases_add(tcase, cases);
}
