/* SPDX-License-Identifier: BSD-3-Clause */
/* A network that was parted: who notices that it is whole again, and what comes of that. */
#include "core/wire/record.h"
#include "resolver_world.h"

#define ID      0xabc
#define THEIRS  0xdef
#define FEW     (4000 * MS)
#define FRESH   (75000 * MS) /* a host that was silent for so long was parted from us */
#define GAP     (20000 * MS)  /* between calls */
#define CLOCK   1000000000000000ull /* on the wall, when we register, ns */

static struct world *world;
static uint64_t registered_us;

static void setup(void)
{
	world = world_open();
	own_publish(world, ID, 5, CLOCK);
	registered_us = world->now_us;
}

static void teardown(void)
{
	world_close(world);
}

static void settle(uint64_t us)
{
	pass(world, us);
	sent_skip(world);
	world->seen = world->n_noted;
}

/* A digest of one of our kin on a host. */
static struct arriving *digest_from(uint8_t host)
{
	uint8_t named[WIRE_NAMED_LEN];
	const struct wire_resolve digest = {.type = WIRE_DIGEST,
		.asker = SELF + WIRE_DIGEST_KIN, .named = named, .n_named = 1};
	struct arriving *arriving;

	wire_named_put(named, 0, THEIRS, 7);
	arriving = arrive(world, NET, host, &digest);
	arriving->event.group = true;
	step(world);
	return arriving;
}

/* Is the host asked about what it has named? Then it says how old that is. */
static bool is_checked(uint8_t host, uint64_t age_us)
{
	const struct sent *sent = sent_count(world, NET) ? sent_next(world, NET) : NULL;
	uint64_t now_ns = CLOCK + (world->now_us - registered_us) * 1000;

	if (!sent)
		return false;
	ck_assert_int_eq(sent->kind, REPLY);
	ck_assert_uint_eq(sent->to.blob[0], host);
	ck_assert_int_eq(sent->packet.type, WIRE_QUERY);
	ck_assert_uint_eq(sent->packet.record.id, THEIRS);
	answer(world, NET, host, sent->packet.nonce,
		record_of(THEIRS, 7, now_ns - age_us * 1000));
	return true;
}

/* Is a call, or are digests, sent within us? */
static bool calls_within(uint64_t us, uint32_t *n_digests)
{
	uint32_t n_calls = 0;

	pass(world, us);
	*n_digests = 0;
	while (sent_count(world, NET)) {
		const struct sent *sent = sent_next(world, NET);

		*n_digests += sent->packet.type == WIRE_DIGEST;
		n_calls += sent->packet.type == WIRE_QUERY && sent->packet.record.id == 0 &&
			sent->packet.hops == 1;
	}
	ck_assert_uint_le(n_calls, 1);
	return n_calls;
}

static void call_from(uint8_t host)
{
	const struct wire_resolve call = {.type = WIRE_QUERY, .hops = 1, .nonce = 99,
		.asker = OTHER};

	arrive(world, NET, host, &call)->event.group = true;
	step(world);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}

START_TEST(heard__host_that_was_silent)
{
	uint32_t n_digests, n_more;

	settle(FRESH + FEW);
	digest_from(3);
	ck_assert(is_checked(3, 2 * FRESH));
	ck_assert(calls_within(800 * MS, &n_digests));
	ck_assert(!calls_within(2000 * MS, &n_more));
	ck_assert_uint_ge(n_digests + n_more, 1);
	for (int i = 0; i < 3; i++) {
		settle(60000 * MS);
		digest_from(3); /* the digest is known */
		ck_assert(!is_checked(3, 0));
	}
	settle(FRESH + FEW);
	digest_from(3);
	ck_assert(is_checked(3, 2 * FRESH));
	ck_assert(calls_within(800 * MS, &n_digests));
}
END_TEST

/* A program was started there, or another one here: nothing is missed. */
START_TEST(heard__nothing_is_missed)
{
	uint32_t n_digests;

	settle(6000 * MS);
	digest_from(3);
	ck_assert(is_checked(3, 10000 * MS)); /* older than ours, which is young */
	ck_assert(!calls_within(1000 * MS, &n_digests));
	settle(FRESH);
	digest_from(4);
	ck_assert(is_checked(4, 4000 * MS));
	ck_assert(!calls_within(1000 * MS, &n_digests));
	digest_from(5);
	ck_assert(is_checked(5, 0 - 10000 * (uint64_t)MS)); /* the clock there is fast */
	ck_assert(!calls_within(1000 * MS, &n_digests));
}
END_TEST

/* Both sides have begun while the network was parted: who was there first misses the other. */
START_TEST(heard__younger_that_is_missed)
{
	uint32_t n_digests;

	settle(20000 * MS);
	digest_from(3);
	ck_assert(is_checked(3, 10000 * MS));
	ck_assert(calls_within(800 * MS, &n_digests));
}
END_TEST

START_TEST(heard__lie)
{
	uint32_t n_digests;

	settle(FRESH + FEW);
	digest_from(3);
	settle(2000 * MS); /* nobody answers */
	ck_assert(!calls_within(1000 * MS, &n_digests));
	digest_from(3);
	ck_assert(is_checked(3, 2 * FRESH)); /* still not known */
}
END_TEST

START_TEST(heard__what_is_not_looked_at)
{
	uint8_t named[WIRE_NAMED_LEN];
	const struct wire_resolve digest = {.type = WIRE_DIGEST, .asker = OTHER, .named = named,
		.n_named = 1};

	wire_named_put(named, 0, THEIRS, 7);
	settle(FRESH + FEW);
	arrive(world, NET, 3, &digest)->event.group = true;
	world->fakes[NET].arriving[0].event.local = true; /* of this host */
	step(world);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	arrive(world, NET, 3, &digest); /* to us alone */
	step(world);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

START_TEST(called__answers_with_digests)
{
	const struct wire_resolve list = {.type = WIRE_QUERY, .nonce = 98, .asker = OTHER};
	uint32_t n_digests;

	settle(FRESH + FEW);
	arrive(world, NET, 3, &list)->event.group = true; /* only wants to know what there is */
	step(world);
	ck_assert_uint_eq(sent_count(world, NET), 1);
	ck_assert_int_eq(sent_next(world, NET)->packet.type, WIRE_RECORD);
	call_from(3);
	ck_assert(!calls_within(2000 * MS, &n_digests));
	ck_assert_uint_ge(n_digests, 1);
	settle(FEW);
	for (int i = 0; i < 4; i++) { /* too soon: only what is due */
		call_from(3);
		ck_assert(!calls_within(FEW, &n_digests));
		ck_assert_uint_eq(n_digests, 1);
	}
}
END_TEST

/* By two families at most: no more than 1.5 times the bytes of the call. */
START_TEST(called__answers_with_few_bytes)
{
	uint8_t bytes[WIRE_RECORD_MAX];
	uint64_t len = 0;

	for (uint64_t id = 1; id <= 100; id++)
		own_publish(world, ID + id, 10 + id, CLOCK);
	settle(FRESH + FEW);
	settle(FRESH); /* due packets come at other times */
	while (sent_count(world, NET) == 0)
		pass(world, MS);
	sent_skip(world);
	call_from(3);
	pass(world, 1500 * MS);
	ck_assert_uint_eq(sent_count(world, NET), 1);
	len = wire_resolve_encode(bytes, &sent_next(world, NET)->packet);
	ck_assert_uint_gt(len, 0);
	ck_assert_uint_le(2 * 2 * len, 3 * WIRE_RECORD_MAX);
}
END_TEST

/* One call is enough. Where the last one was too short ago for it, another one follows. */
START_TEST(called__by_another_meanwhile)
{
	uint32_t n_digests;

	settle(FRESH + FEW);
	digest_from(3);
	ck_assert(is_checked(3, 2 * FRESH));
	call_from(4);
	ck_assert(!calls_within(10000 * MS, &n_digests));
	digest_from(5);
	ck_assert(is_checked(5, 2 * FRESH));
	ck_assert(!calls_within(GAP - 10000 * MS, &n_digests));
	ck_assert(calls_within(2000 * MS, &n_digests));
}
END_TEST

/* Calls for nothing, as where digests get lost: fewer and fewer. */
START_TEST(called__again_and_again)
{
	uint32_t n_digests, n_calls = 0;

	settle(FRESH + FEW);
	for (uint8_t i = 0; i < 60; i++) {
		digest_from(3 + i);
		is_checked(3 + i, 2 * FRESH);
		n_calls += calls_within(GAP, &n_digests);
	}
	ck_assert_uint_ge(n_calls, 5);
	ck_assert_uint_le(n_calls, 8); /* in 20 minutes */
	settle(320000 * MS);
	settle(600000 * MS);
	digest_from(100);
	ck_assert(is_checked(100, 2 * FRESH));
	ck_assert(calls_within(800 * MS, &n_digests));
}
END_TEST

/* Where thousands answer, the rest wait for their turn. */
START_TEST(called__too_many_answer)
{
	uint32_t n_answered = 0;

	settle(FRESH + FEW);
	for (int i = 0; i < 10; i++) {
		uint32_t n_digests;

		settle(100 * GAP);
		call_from(3);
		for (int k = 0; k < 65; k++)
			digest_from(3);
		sent_skip(world);
		calls_within(2000 * MS, &n_digests);
		n_answered += n_digests;
	}
	ck_assert_uint_le(n_answered, 6); /* the due answers */
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		heard__host_that_was_silent, heard__nothing_is_missed,
		heard__younger_that_is_missed, heard__lie, heard__what_is_not_looked_at,
		called__answers_with_digests, called__answers_with_few_bytes,
		called__by_another_meanwhile,
		called__again_and_again, called__too_many_answer, NULL,
	};

	return suite_run_between("heal", tests, setup, teardown);
}
