/* SPDX-License-Identifier: BSD-3-Clause */
/* Digests: what a context names now and then, and what is made of the digests of others. */
#include "core/wire/record.h"
#include "resolver_world.h"

#define ID     0xabc
#define GROUP  (0xffull << 56 | 5)
#define MINUTE (60000 * MS)
#define FEW    (4000 * MS) /* between digests where few contexts are */
#define FRESH  (75000 * MS) /* age up to which a registration is announced as among few */

static struct world *world;

static void setup(void)
{
	world = world_open();
}

static void teardown(void)
{
	world_close(world);
}

/* Registers so many IDs, from 1 on, with incarnations from 1,001 on. */
static void own_many(uint64_t n)
{
	for (uint64_t id = 1; id <= n; id++) {
		own_add(world, id, 1000 + id, 100);
		publish(world, id, false);
	}
	pass(world, 100 * MS);
	sent_skip(world);
	world->seen = world->n_noted;
}

/* ---- what is told ------------------------------------------------------------------------ */

/* The next digest: how many it names. */
static uint32_t next_digest(struct wire_resolve *digest)
{
	const struct sent *sent;

	while (!sent_count(world, NET))
		pass(world, ripc__resolver_deadline(world->resolver) - world->now_us);
	sent = sent_next(world, NET);
	ck_assert_int_eq(sent->kind, NOTIFY);
	ck_assert_int_eq(sent->packet.type, WIRE_DIGEST);
	ck_assert_uint_eq(sent->packet.asker, SELF);
	*digest = sent->packet;
	return digest->n_named;
}

/* Digests of so many others of our kin are heard, by lo, and of as many others. */
static void kin_heard(uint32_t n)
{
	uint8_t named[WIRE_NAMED_LEN];
	struct wire_resolve digest = {.type = WIRE_DIGEST, .named = named, .n_named = 1};
	struct arriving *arriving;

	wire_named_put(named, 0, ID + 1, 7);
	for (uint32_t i = 1; i <= 2 * n; i++) {
		digest.asker = SELF + i * WIRE_DIGEST_KIN / 2;
		arriving = arrive(world, NET, 3, &digest);
		arriving->event.group = arriving->event.local = true;
		step(world);
	}
	world->seen = world->n_noted;
}

/* The time between two digests, of which the second is named in full. */
static uint64_t gap(void)
{
	struct wire_resolve digest;
	uint64_t began_us;

	next_digest(&digest);
	began_us = world->now_us;
	next_digest(&digest);
	return world->now_us - began_us;
}

/* All together send three a second, more or less. */
START_TEST(digest__seldom_where_many_are)
{
	static const uint32_t gaps_s[] = {4, 10, 20, 30, 40, 50, 60, 60, 60};

	own_publish(world, ID, 5, 100);
	pass(world, FRESH);
	sent_skip(world);
	for (uint32_t i = 0; i < sizeof(gaps_s) / sizeof(gaps_s[0]); i++) {
		kin_heard(i);
		kin_heard(i); /* again: the same contexts */
		ck_assert_uint_eq(gap(), gaps_s[i] * 1000 * MS);
	}
	/* The registrations are gone. */
	pass(world, 3 * MINUTE);
	sent_skip(world);
	ck_assert_uint_eq(gap(), FEW);
}
END_TEST

/* Each host of a list gets a datagram of its own. */
START_TEST(digest__seldom_where_many_hosts_are_asked)
{
	own_publish(world, ID, 5, 100);
	world->fakes[NET].n_peers = 12;
	gap();
	ck_assert_uint_eq(gap(), FEW);
	world->fakes[NET].n_peers = 64;
	gap();
	ck_assert_uint_eq(gap(), 20000 * MS);
	world->fakes[NET].n_peers = 256;
	gap();
	ck_assert_uint_eq(gap(), MINUTE);
}
END_TEST

START_TEST(digest__every_four_seconds)
{
	uint64_t id, incarnation, registered_us, first_us;
	struct wire_resolve digest;

	own_publish(world, ID, 5, 100);
	registered_us = world->now_us;
	for (uint64_t i = 0; i < 3; i++) {
		ck_assert_uint_eq(next_digest(&digest), 1);
		wire_named_get(&digest, 0, &id, &incarnation);
		ck_assert_uint_eq(id, ID);
		ck_assert_uint_eq(incarnation, 5);
		first_us = i ? first_us : world->now_us;
		ck_assert_uint_eq(world->now_us, first_us + i * FEW);
	}
	ck_assert_uint_ge(first_us, registered_us + FEW / 2 - 100 * MS);
	ck_assert_uint_le(first_us, registered_us + FEW);
	ck_assert_uint_eq(sent_count(world, HOME), 0);
}
END_TEST

/* Each ID once in that time, in datagrams that come evenly; those that go are named no more. */
START_TEST(digest__of_many)
{
	uint32_t n_named[201] = {0}, n;
	struct wire_resolve digest;
	uint64_t began_us;

	own_many(200);
	next_digest(&digest);
	began_us = world->now_us;
	for (int i = 1; i <= 8; i++) {
		n = next_digest(&digest);
		ck_assert_uint_eq(n, 50);
		ck_assert_uint_eq(world->now_us, began_us + (uint64_t)i * FEW / 4);
		while (n--) {
			uint64_t id, incarnation;

			wire_named_get(&digest, n, &id, &incarnation);
			ck_assert_uint_le(id, 200);
			ck_assert_uint_eq(incarnation, 1000 + id);
			n_named[id]++;
		}
	}
	for (uint64_t id = 1; id <= 200; id++)
		ck_assert_uint_eq(n_named[id], 2);
	for (uint64_t id = 1; id <= 150; id++)
		ripc__resolver_withdraw(world->resolver, id, 1000 + id);
	sent_skip(world);
	for (int i = 0; i < 3; i++)
		n = next_digest(&digest);
	ck_assert_uint_eq(n, 50);
	for (uint64_t id = 151; id <= 200; id++)
		ripc__resolver_withdraw(world->resolver, id, 1000 + id);
	ck_assert_uint_eq(ripc__resolver_deadline(world->resolver), UINT64_MAX);
}
END_TEST

START_TEST(digest__names_no_private_id_and_none_that_ends)
{
	uint64_t id, incarnation;
	struct wire_resolve digest;

	own_many(3);
	own_add(world, ID, 5, 100);
	publish(world, ID, true);
	world->own[1].id = 77; /* as the record of a service that ends: there is none of 2 */
	ck_assert_uint_eq(next_digest(&digest), 2);
	wire_named_get(&digest, 0, &id, &incarnation);
	ck_assert_uint_eq(id, 1);
	wire_named_get(&digest, 1, &id, &incarnation);
	ck_assert_uint_eq(id, 3);
	world->n_own = 0;
	pass(world, 10 * MINUTE);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

START_TEST(digest__names_memberships)
{
	const struct ripc__member member = {.id = ID, .incarnation = 5};
	uint64_t id, incarnation;
	struct wire_resolve digest;

	own_publish(world, ID, 5, 100);
	ck_assert_int_eq(ripc__resolver_join(world->resolver, GROUP, &member, world->now_us), 0);
	pass(world, 400 * MS); /* its notices */
	sent_skip(world);
	ck_assert_uint_eq(next_digest(&digest), 2);
	wire_named_get(&digest, 1, &id, &incarnation);
	ck_assert_uint_eq(id, GROUP);
	ck_assert_uint_eq(incarnation, 5);
	ripc__resolver_leave(world->resolver, GROUP, 5);
	sent_skip(world);
	ck_assert_uint_eq(next_digest(&digest), 1);
}
END_TEST

/* Its last holder may read nothing but what is sent to the name. */
START_TEST(digest__name_taken_by_force_has_its_own_notices)
{
	own_add(world, ID, 5, 100);
	world->fakes[HOME].publish_result = -EADDRINUSE;
	publish(world, ID, false);
	pass(world, 1000 * MS);
	ck_assert_uint_eq(world->fakes[HOME].n_displaced, 1);
	for (int i = 0; i < 3; i++) {
		sent_skip(world);
		pass(world, MINUTE);
		ck_assert_uint_eq(sent_count(world, HOME), 1);
		ck_assert_int_eq(sent_next(world, HOME)->packet.type, WIRE_RECORD);
		ck_assert_uint_eq(sent_count(world, NET), 1);
		ck_assert_int_eq(sent_next(world, NET)->packet.type, WIRE_RECORD);
	}
}
END_TEST

/* ---- what is heard ----------------------------------------------------------------------- */

/* A digest of n IDs from first on, with incarnations from base + first on, comes from a host. */
static struct arriving *digest_of(uint8_t host, uint64_t first, uint32_t n, uint64_t base)
{
	uint8_t named[WIRE_NAMED_MAX * WIRE_NAMED_LEN];
	const struct wire_resolve digest = {.type = WIRE_DIGEST, .asker = OTHER, .named = named,
		.n_named = n};

	for (uint32_t i = 0; i < n; i++)
		wire_named_put(named, i, first + i, base + first + i);
	return arrive(world, NET, host, &digest);
}

static void digest_heard(uint8_t host, uint64_t first, uint32_t n, uint64_t base)
{
	digest_of(host, first, n, base)->event.group = true;
	step(world);
}

START_TEST(heard__finds_a_conflict)
{
	const struct noted *noted;

	own_many(40);
	digest_heard(3, 20, 61, 7000); /* 41 to 80 are not ours */
	ck_assert_uint_gt(sent_count(world, NET), 0);
	answer(world, NET, 3, asked_nonce(world, NET, 20), record_of(20, 7020, 50));
	while ((noted = noted_next(world)) && noted->what == 'm')
		ck_assert_uint_gt(noted->id, 40); /* perhaps of interest */
	ck_assert_ptr_nonnull(noted);
	ck_assert_int_eq(noted->what, 'c');
	ck_assert_uint_eq(noted->id, 20);
	ck_assert_uint_eq(noted->incarnation, 7020);
}
END_TEST

/* Two holders of the same 40 IDs: all conflicts are found, in some minutes. */
START_TEST(heard__finds_all_conflicts_in_the_end)
{
	uint32_t n_conflicts = 0, minutes = 0;
	bool lives[41];

	memset(lives, true, sizeof(lives));
	world->is_unconcerned = true;
	own_many(40);
	while (n_conflicts < 40 && minutes++ < 10) {
		uint64_t end_us = world->now_us + MINUTE;

		digest_heard(3, 1, 40, 7000);
		while (world->now_us < end_us) {
			const struct noted *noted;

			pass(world, 10 * MS);
			while (sent_count(world, NET)) {
				const struct sent *sent = sent_next(world, NET);
				uint64_t id = sent->packet.record.id;

				if (sent->packet.type == WIRE_QUERY)
					answer(world, NET, 3, sent->packet.nonce,
						record_of(id, 7000 + id, 50));
			}
			while ((noted = noted_next(world))) {
				if (noted->what != 'c')
					continue;
				ck_assert(lives[noted->id]);
				lives[noted->id] = false;
				n_conflicts++;
			}
		}
	}
	ck_assert_uint_eq(n_conflicts, 40);
	ck_assert_uint_gt(minutes, 1); /* one host cannot make us ask for all at once */
}
END_TEST

START_TEST(heard__who_has_moved_is_asked_for_again)
{
	fill_cache(world, 1, 1001, 100);
	fill_cache(world, 2, 1002, 100);
	digest_heard(3, 2, 1, 1000); /* nothing new */
	ck_assert_uint_eq(noted_count(world), 0);
	digest_heard(3, 1, 1, 7000);
	ck_assert_int_eq(noted_next(world)->what, 'm');
	ck_assert_uint_eq(cached(world, 2), 1002);
	ck_assert_int_eq(lookup(world, 1), -EINPROGRESS);
}
END_TEST

START_TEST(heard__hurries_a_query_that_waits)
{
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	world->is_unconcerned = true;
	pass(world, 400 * MS);
	sent_skip(world);
	digest_heard(3, ID - 30, 61, 1000);
	pass(world, 0);
	ck_assert_uint_eq(sent_count(world, NET), 1);
}
END_TEST

START_TEST(heard__our_own_come_back)
{
	uint8_t named[WIRE_NAMED_LEN];
	const struct wire_resolve digest = {.type = WIRE_DIGEST, .asker = SELF, .named = named,
		.n_named = 1};

	own_many(1);
	wire_named_put(named, 0, 1, 77);
	arrive(world, NET, 3, &digest)->event.group = true;
	step(world);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

/* Came to us alone: each of its IDs may be another process'. */
START_TEST(heard__is_passed_on_within_the_host)
{
	own_many(1);
	digest_of(3, 1, 61, 7000);
	step(world);
	ck_assert_uint_eq(sent_count(world, HOME), 61);
	ck_assert_int_eq(sent_next(world, HOME)->packet.type, WIRE_QUERY); /* about ours */
	for (uint64_t i = 2; i <= 61; i++) {
		const struct sent *sent = sent_next(world, HOME);
		uint64_t id, incarnation;

		ck_assert_int_eq(sent->packet.type, WIRE_DIGEST);
		ck_assert_uint_eq(sent->packet.asker, OTHER);
		ck_assert_uint_eq(sent->packet.n_named, 1);
		wire_named_get(&sent->packet, 0, &id, &incarnation);
		ck_assert_uint_eq(id, i);
		ck_assert_uint_eq(sent->id, i);
		ck_assert_uint_eq(incarnation, 7000 + i);
	}
}
END_TEST

/* ---- hostile ones ------------------------------------------------------------------------ */

/* Bytes to the network within ms, while digests of the same 61 IDs come from 64 hosts in turn. */
static uint64_t provoked_bytes(uint32_t ms)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < ms; i++) {
		digest_heard((uint8_t)(i % 64), 1, 61, 7000 + i);
		pass(world, 1 * MS);
		while (sent_count(world, NET))
			bytes += sent_next(world, NET)->len;
	}
	return bytes;
}

START_TEST(hostile__names_what_is_ours)
{
	own_many(61);
	digest_heard(3, 1, 61, 7000);
	/* the limit that one host may cause at once */
	ck_assert_uint_le(sent_count(world, NET), 6);
	sent_skip(world);
	ck_assert_uint_le(provoked_bytes(2000), 25000 + 2 * 31250 + 2 * WIRE_RECORD_MAX);
	ck_assert_uint_gt(stats(world).unasked, 0);
}
END_TEST

START_TEST(hostile__names_what_was_looked_up)
{
	uint32_t asked = 0;

	for (uint64_t id = 1; id <= 61; id++)
		fill_cache(world, id, 1000 + id, 100);
	digest_heard(3, 1, 61, 7000);
	ck_assert_uint_eq(sent_count(world, NET), 0); /* asks nothing by itself */
	for (uint64_t id = 1; id <= 61; id++)
		asked += cached(world, id) == 0;
	ck_assert_uint_le(asked, 6);
	ck_assert_uint_ge(asked, 5);
}
END_TEST

START_TEST(hostile__one_id_again_and_again)
{
	uint8_t named[WIRE_NAMED_MAX * WIRE_NAMED_LEN];
	const struct wire_resolve digest = {.type = WIRE_DIGEST, .asker = OTHER, .named = named,
		.n_named = WIRE_NAMED_MAX};

	own_many(1);
	for (uint32_t i = 0; i < WIRE_NAMED_MAX; i++)
		wire_named_put(named, i, 1, 7000 + i);
	for (int i = 0; i < 10; i++) {
		arrive(world, NET, 3, &digest)->event.group = true;
		step(world);
	}
	ck_assert_uint_eq(sent_count(world, NET), 2); /* to all, and how old it is to its host */
	ck_assert_int_eq(sent_next(world, NET)->kind, REPLY);
}
END_TEST

/* A context that has many IDs registers one more: all are named soon. */
START_TEST(digest__comes_soon_after_a_registration)
{
	struct wire_resolve digest;
	uint64_t began_us;

	own_publish(world, ID, 5, 100);
	pass(world, FRESH);
	kin_heard(6);
	pass(world, FEW + MINUTE / 2);
	sent_skip(world);
	own_publish(world, ID + 1, 6, 100);
	began_us = world->now_us;
	for (uint32_t i = 0; i < 18; i++) {
		ck_assert_uint_eq(next_digest(&digest), 2);
		ck_assert_uint_le(world->now_us, began_us + (i + 1) * FEW);
	}
}
END_TEST

/* Where many begin at once, they do not speak more often for it. */
START_TEST(digest__crowd_that_begins)
{
	struct wire_resolve digest;
	uint64_t began_us;

	own_publish(world, ID, 5, 100);
	next_digest(&digest);
	began_us = world->now_us;
	pass(world, FEW - 100 * MS);
	kin_heard(6);
	next_digest(&digest);
	ck_assert_uint_eq(world->now_us, began_us + MINUTE);
	next_digest(&digest);
	ck_assert_uint_eq(world->now_us, began_us + 2 * MINUTE);
}
END_TEST

/* Any news about us counts as a notice: 500 at once, 1,000 a second. */
START_TEST(hostile__many_that_concern_us)
{
	uint64_t came = 0;

	for (uint64_t i = 0; i < 100; i++)
		digest_heard((uint8_t)(i % 64), 1 + 61 * i, 61, 7000);
	ck_assert_uint_gt(noted_count(world), 0);
	ck_assert_uint_le(noted_count(world), 500);
	sent_skip(world);
	world->seen = world->n_noted;
	pass(world, 5000 * MS);
	for (uint64_t i = 0; i < 100; i++) { /* to us alone: each would be passed on */
		digest_of((uint8_t)i, 1 + 61 * i, 61, 7000);
		step(world);
		came += 61;
	}
	ck_assert_uint_le(sent_count(world, HOME), 510);
	ck_assert_uint_gt(came, 5000);
}
END_TEST

/* Among 6,100 IDs of others at once, real news are heard. */
START_TEST(heard__what_concerns_nobody_leaves_room)
{
	world->is_unconcerned = true;
	fill_cache(world, 1, 1001, 100);
	for (uint64_t i = 0; i < 100; i++)
		digest_heard((uint8_t)(i % 40), 1000 * (i + 1), 61, 7000);
	world->seen = world->n_noted;
	digest_heard(99, 1, 1, 7000);
	ck_assert_int_eq(noted_next(world)->what, 'm');
	ck_assert_uint_eq(stats(world).dropped, 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		digest__every_four_seconds, digest__of_many, digest__seldom_where_many_are,
		digest__seldom_where_many_hosts_are_asked,
		digest__names_no_private_id_and_none_that_ends, digest__names_memberships,
		digest__comes_soon_after_a_registration, digest__crowd_that_begins,
		digest__name_taken_by_force_has_its_own_notices, heard__finds_a_conflict,
		heard__finds_all_conflicts_in_the_end, heard__who_has_moved_is_asked_for_again,
		heard__hurries_a_query_that_waits, heard__our_own_come_back,
		heard__is_passed_on_within_the_host, hostile__names_what_is_ours,
		hostile__names_what_was_looked_up, hostile__one_id_again_and_again,
		hostile__many_that_concern_us, heard__what_concerns_nobody_leaves_room, NULL,
	};

	return suite_run_between("digest", tests, setup, teardown);
}
