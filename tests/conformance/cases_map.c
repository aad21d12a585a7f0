/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about mapping what a partner has opened. */
#include <errno.h>
#include <string.h>

#include "cases.h"
#include "side.h"

#define BACKEND (conformance_under_test->backend)
#define LEN     10000

static uint8_t *theirs; /* of this case's world */

static int event_of(const struct side *side, enum ripc__event_kind kind, uint64_t cookie)
{
	struct ripc__event event;

	side_wait(side, &event, 1);
	ck_assert_int_eq(event.kind, kind);
	ck_assert_uint_eq(event.cookie, cookie);
	return event.status;
}

static int map(const struct side *side, const struct ripc__key *key, size_t len,
		struct ripc__mapping *mapping)
{
	return BACKEND->remote.map(side->port, side->peer, key, len, mapping);
}

/* The key comes with a datagram, as an announcement does. */
static void pair_with_key(struct side *left, struct side *right, int variant,
		struct ripc__key *key)
{
	pair_open(left, right, variant);
	ck_assert_uint_ne(left->attr.caps & RIPC_CAP_MAP, 0);
	theirs = world_memory(LEN);
	pattern_fill(theirs, LEN, 3);
	ck_assert_int_eq(BACKEND->mem.open(left->port, left->peer, theirs, LEN, false, key), 0);
	side_send(left, left->peer, 100, 1);
	side_expect(right, 100, 1);
}

START_TEST(map__stays_until_unmapped)
{
	struct side left, right;
	struct ripc__key key;
	struct ripc__mapping mapping, again;

	pair_with_key(&left, &right, _i, &key);
	ck_assert_int_eq(map(&right, &key, LEN, &mapping), 0);
	ck_assert((char *)mapping.mem >= (char *)mapping.base);
	ck_assert(pattern_is(mapping.mem, LEN, 3));
	ck_assert_int_eq(BACKEND->mem.close(left.port, &key, RIPC_CLOSE_HAND, 5), -EINPROGRESS);
	ck_assert_int_lt(map(&right, &key, LEN, &again), 0);
	ck_assert(pattern_is(mapping.mem, LEN, 3));
	BACKEND->remote.unmap(right.port, mapping.handle);
	ck_assert_int_eq(event_of(&left, RIPC_EV_FENCED, 5), 0);
	pair_close(&left, &right);
}
END_TEST

START_TEST(mem_hand__of_what_is_not_mapped)
{
	struct side left, right;
	struct ripc__key key;
	struct ripc__mapping mapping;

	pair_with_key(&left, &right, _i, &key);
	ck_assert_int_eq(map(&right, &key, LEN, &mapping), 0);
	BACKEND->remote.unmap(right.port, mapping.handle);
	ck_assert_int_eq(BACKEND->mem.close(left.port, &key, RIPC_CLOSE_HAND, 5), 0);
	ck_assert_int_lt(map(&right, &key, LEN, &mapping), 0);
	pair_close(&left, &right);
}
END_TEST

/* Mappings of undelivered messages are not waited for. */
START_TEST(mem_close__of_what_is_mapped)
{
	struct side left, right;
	struct ripc__key key;
	struct ripc__mapping mapping;

	pair_with_key(&left, &right, _i, &key);
	ck_assert_int_eq(map(&right, &key, LEN, &mapping), 0);
	ck_assert_int_eq(BACKEND->mem.close(left.port, &key, RIPC_CLOSE_DONE, 5), 0);
	ck_assert(pattern_is(mapping.mem, LEN, 3));
	BACKEND->remote.unmap(right.port, mapping.handle);
	pair_close(&left, &right);
}
END_TEST

START_TEST(map__needs_the_key)
{
	struct side left, right;
	struct ripc__key key, wrong;
	struct ripc__mapping mapping;

	pair_with_key(&left, &right, _i, &key);
	wrong = key;
	wrong.key ^= 1;
	ck_assert_int_lt(map(&right, &wrong, LEN, &mapping), 0);
	wrong = key;
	wrong.address += 8;
	ck_assert_int_lt(map(&right, &wrong, LEN, &mapping), 0);
	ck_assert_int_lt(map(&right, &key, LEN + 1, &mapping), 0);
	ck_assert_int_lt(map(&right, &key, SIZE_MAX, &mapping), 0);
	ck_assert_int_eq(map(&right, &key, 1, &mapping), 0);
	BACKEND->remote.unmap(right.port, mapping.handle);
	pair_close(&left, &right);
}
END_TEST

START_TEST(map__holder_is_gone)
{
	struct side left, right;
	struct ripc__key key;
	struct ripc__mapping mapping;

	pair_with_key(&left, &right, _i, &key);
	ck_assert_int_eq(map(&right, &key, LEN, &mapping), 0);
	ck_assert_int_eq(BACKEND->mem.close(left.port, &key, RIPC_CLOSE_HAND, 7), -EINPROGRESS);
	side_close(&right);
	ck_assert_int_eq(event_of(&left, RIPC_EV_FENCED, 7), 0);
	side_close(&left);
}
END_TEST

/* Before it handed it over, or after. */
START_TEST(map__owner_is_gone)
{
	for (int hands = 0; hands < 2; hands++) {
		struct side left, right;
		struct ripc__key key;
		struct ripc__mapping mapping;

		pair_with_key(&left, &right, _i, &key);
		ck_assert_int_eq(map(&right, &key, LEN, &mapping), 0);
		if (hands)
			ck_assert_int_eq(BACKEND->mem.close(left.port, &key, RIPC_CLOSE_HAND, 7),
				-EINPROGRESS);
		side_close(&left);
		ck_assert(pattern_is(mapping.mem, LEN, 3));
		BACKEND->remote.unmap(right.port, mapping.handle);
		side_close(&right);
		world_close();
		world_open();
	}
}
END_TEST

void conformance_map_cases(TCase *tcase)
{
	const TTest *const cases[] = {
		map__stays_until_unmapped,
		mem_hand__of_what_is_not_mapped,
		mem_close__of_what_is_mapped,
		map__needs_the_key,
		map__holder_is_gone,
		map__owner_is_gone,
		NULL,
	};

	cases_add(tcase, cases);
}
