/* SPDX-License-Identifier: BSD-3-Clause */
/* The resolver's lookups: of claims, of names that are bound and silent, and what a no is worth. */
#include "core/wire/record.h"
#include "resolver_world.h"

#define ID 0xabc

static struct world *world;

static void setup(void)
{
	world = world_open();
}

static void teardown(void)
{
	world_close(world);
}

/* ---- of what somebody claims ------------------------------------------------------------- */

static const uint8_t claimant[16] = {[10] = 0xff, 0xff, 10, 0, 0, 7};
static const uint8_t this_host[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};

static int lookup_at(uint64_t id, const uint8_t host[16])
{
	const struct ripc__answer *found;

	return ripc__resolver_lookup_at(world->resolver, id, host, world->now_us, &found);
}

/* How many queries to everybody, and to one host, there were since the last time. */
static uint32_t asked_of(int kind)
{
	uint32_t n = 0, taken = world->fakes[NET].taken;

	while (sent_count(world, NET))
		n += sent_next(world, NET)->kind == kind;
	world->fakes[NET].taken = taken;
	return n;
}

START_TEST(lookup_at__asks_that_host_first)
{
	const struct sent *sent;

	ck_assert_int_eq(lookup_at(ID, claimant), -EINPROGRESS);
	sent = sent_next(world, NET);
	ck_assert_int_eq(sent->kind, ASK_HOST);
	ck_assert_uint_eq(sent->to.blob[0], 7);
	ck_assert_uint_eq(sent->packet.record.id, ID);
	ck_assert_uint_eq(sent->len, WIRE_RECORD_MAX);
	answer(world, NET, 7, sent->packet.nonce, record_of(ID, 5, 100));
	ck_assert_uint_eq(cached(world, ID), 5);
	pass(world, 1000 * MS);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

START_TEST(lookup_at__asks_everybody_after_20_ms_of_silence)
{
	ck_assert_int_eq(lookup_at(ID, claimant), -EINPROGRESS);
	pass(world, 20 * MS - 1);
	ck_assert_uint_eq(asked_of(ASK), 0);
	pass(world, 1);
	ck_assert_uint_eq(asked_of(ASK), 1);
	answer(world, NET, 3, asked_nonce(world, NET, ID), record_of(ID, 6, 100));
	ck_assert_uint_eq(cached(world, ID), 6);
}
END_TEST

START_TEST(lookup_at__this_host_is_asked_by_its_own_source)
{
	world->fakes[HOME].ask_result = 1;
	ck_assert_int_eq(lookup_at(ID, this_host), -EINPROGRESS);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(sent_count(world, HOME), 1);
	answer(world, HOME, 7, asked_nonce(world, HOME, ID), record_of(ID, 5, 100));
	ck_assert_uint_eq(cached(world, ID), 5);
}
END_TEST

/* Claims from any address have a limit: a burst, and 31,250 bytes a second; one host an eighth. */
START_TEST(lookup_at__claims_cause_few_queries)
{
	uint8_t host[16] = {[10] = 0xff, 0xff, 10, 0, 0, 0};
	uint64_t bytes = 0;

	for (uint64_t id = 1; id <= 5000; id++) {
		host[15] = (uint8_t)id;
		lookup_at(id, host);
		pass(world, 1 * MS);
		while (sent_count(world, NET))
			bytes += sent_next(world, NET)->len;
	}
	ck_assert_uint_gt(bytes, 4 * 31250);
	ck_assert_uint_le(bytes, 5 * 31250 + 25000 + 2 * WIRE_RECORD_MAX);
	ck_assert_uint_gt(stats(world).unasked, 0);
	pass(world, 2000 * MS);
	sent_skip(world);
	bytes = 0;
	for (uint64_t id = 6000; id < 7000; id++) {
		lookup_at(id, claimant);
		pass(world, 1 * MS);
		while (sent_count(world, NET))
			bytes += sent_next(world, NET)->len;
	}
	ck_assert_uint_gt(bytes, 0);
	ck_assert_uint_le(bytes, 8000 + 6250 + 2 * WIRE_RECORD_MAX);
}
END_TEST

START_TEST(lookup_at__is_anybodys_when_we_ask_ourselves)
{
	for (uint64_t id = 1; id < 100; id++)
		lookup_at(id, claimant);
	ck_assert_int_eq(lookup_at(ID, claimant), -EINPROGRESS);
	sent_skip(world);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	pass(world, 20 * MS);
	ck_assert_uint_ge(asked_of(ASK), 1);
}
END_TEST

START_TEST(lookup_at__what_is_known_is_not_asked_for)
{
	fill_cache(world, ID, 5, 100);
	ck_assert_int_eq(lookup_at(ID, claimant), 0);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

/* ---- what a no is worth ------------------------------------------------------------------ */

static void expect_end(int status)
{
	const struct noted *noted = noted_next(world);

	ck_assert_ptr_nonnull(noted);
	ck_assert_int_eq(noted->what, 'r');
	ck_assert_int_eq(noted->status, status);
	ck_assert_uint_eq(noted_count(world), 0);
}

START_TEST(lookup__nobody_at_once_where_only_this_host_is_asked)
{
	world->fakes[NET].ask_result = 0;
	ck_assert_int_eq(lookup(world, ID), -ENOENT);
	ck_assert_uint_eq(ripc__resolver_deadline(world->resolver), UINT64_MAX);
	ck_assert_uint_eq(noted_count(world), 0);
	ripc__resolver_claimed(world->resolver, ID); /* or it is remembered for shorts */
	world->fakes[HOME].ask_result = 1;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, HOME, 7, asked_nonce(world, HOME, ID), record_of(ID, 5, 100));
	ck_assert_uint_eq(cached(world, ID), 5);
}
END_TEST

START_TEST(lookup__without_a_source_for_this_host_nothing_is_certain)
{
	static const struct ripc__source *const net_only[] = {&net_source, NULL};
	struct world *other = world_new();

	other->fakes[NET].ask_result = 0;
	ck_assert_int_eq(world_open_with(other, net_only), 0);
	ck_assert_int_eq(lookup(other, ID), -EINPROGRESS);
	world_close(other);
}
END_TEST

START_TEST(lookup__silent_holder_is_asked_until_nobody_wants_to_know)
{
	world->fakes[HOME].ask_result = 1;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	ripc__resolver_wanted(world->resolver, ID, world->now_us + 5000 * MS);
	ripc__resolver_wanted(world->resolver, ID, world->now_us + 2000 * MS);
	pass(world, 5000 * MS - 1);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_ge(sent_count(world, HOME), 5000 / 160);
	ck_assert_uint_le(sent_count(world, HOME), 5000 / 160 + 6);
	pass(world, 20 * MS);
	expect_end(-ETIMEDOUT);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS); /* not remembered */
}
END_TEST

START_TEST(lookup__silent_holder_that_wakes_is_found)
{
	world->fakes[HOME].ask_result = 1;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	ripc__resolver_wanted(world->resolver, ID, world->now_us + 5000 * MS);
	pass(world, 1500 * MS);
	answer(world, HOME, 7, asked_nonce(world, HOME, ID), record_of(ID, 5, 100));
	expect_end(0);
}
END_TEST

START_TEST(lookup__silent_holder_is_waited_for_a_second_if_nobody_says_how_long)
{
	world->fakes[HOME].ask_result = 1;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	pass(world, 1000 * MS - 1);
	ck_assert_uint_eq(noted_count(world), 0);
	pass(world, 20 * MS);
	expect_end(-ETIMEDOUT);
}
END_TEST

START_TEST(lookup__silent_holder_that_dies_is_nobody)
{
	world->fakes[HOME].ask_result = 1;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	ripc__resolver_wanted(world->resolver, ID, world->now_us + 60000 * MS);
	pass(world, 2000 * MS);
	world->fakes[HOME].ask_result = 0;
	pass(world, 400 * MS);
	expect_end(-ENOENT);
}
END_TEST

/* Silence of all is nobody after a second, however long somebody would wait. */
START_TEST(lookup__multicast_silence_is_nobody)
{
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	ripc__resolver_wanted(world->resolver, ID, world->now_us + 5000 * MS);
	pass(world, 1000 * MS);
	expect_end(-ENOENT);
}
END_TEST

START_TEST(denied__by_all_that_are_asked)
{
	uint64_t nonce;

	world->fakes[NET].n_peers = 2;
	world->fakes[NET].ask_result = 2;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	nonce = asked_nonce(world, NET, ID);
	deny(world, 1, nonce, ID, true);
	deny(world, 1, nonce, ID, true);
	ck_assert_uint_eq(noted_count(world), 0);
	deny(world, 2, nonce, ID, true);
	expect_end(-ENOENT);
	ck_assert_int_eq(lookup(world, ID), -ENOENT);
}
END_TEST

START_TEST(denied__others_by_multicast_have_three_rounds)
{
	world->fakes[NET].n_peers = 1;
	world->fakes[NET].ask_result = 2; /* a result is a group */
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	deny(world, 1, asked_nonce(world, NET, ID), ID, true);
	ck_assert_uint_eq(noted_count(world), 0);
	pass(world, 40 * MS);
	expect_end(-ENOENT);
	ck_assert_uint_eq(sent_count(world, NET), 3);
}
END_TEST

START_TEST(denied__a_silent_holder_there_is_asked_on)
{
	uint64_t nonce;

	world->fakes[NET].n_peers = world->fakes[NET].ask_result = 1;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	ripc__resolver_wanted(world->resolver, ID, world->now_us + 5000 * MS);
	nonce = asked_nonce(world, NET, ID);
	deny(world, 1, nonce, ID, false);
	pass(world, 4000 * MS);
	ck_assert_uint_eq(noted_count(world), 0);
	answer(world, NET, 1, nonce, record_of(ID, 5, 100));
	expect_end(0);
}
END_TEST

START_TEST(denied__silent_to_the_deadline)
{
	world->fakes[NET].n_peers = world->fakes[NET].ask_result = 1;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	ripc__resolver_wanted(world->resolver, ID, world->now_us + 3000 * MS);
	deny(world, 1, asked_nonce(world, NET, ID), ID, false);
	pass(world, 3020 * MS);
	expect_end(-ETIMEDOUT);
}
END_TEST

START_TEST(denied__what_does_not_count)
{
	uint64_t nonce;

	world->fakes[NET].n_peers = world->fakes[NET].ask_result = 1;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	nonce = asked_nonce(world, NET, ID);
	deny(world, 1, nonce + 1, ID, true);
	deny(world, 1, nonce, ID + 1, true);
	deny(world, 0, nonce, ID, true);   /* denied by every source that was asked */
	deny(world, 999, nonce, ID, true);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_eq(stats(world).dropped, 2);
	answer(world, NET, 1, nonce, record_of(ID, 5, 100));
	deny(world, 1, nonce, ID, true); /* too late */
	ck_assert_uint_eq(cached(world, ID), 5);
}
END_TEST

/* A name that is bound here is no more nobody because other hosts say so. */
START_TEST(denied__but_bound_here)
{
	world->fakes[HOME].ask_result = 1;
	world->fakes[NET].n_peers = world->fakes[NET].ask_result = 1;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	pass(world, 340 * MS);
	deny(world, 1, asked_nonce(world, NET, ID), ID, true);
	ck_assert_uint_eq(noted_count(world), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		lookup_at__asks_that_host_first,
		lookup_at__asks_everybody_after_20_ms_of_silence,
		lookup_at__this_host_is_asked_by_its_own_source,
		lookup_at__claims_cause_few_queries,
		lookup_at__is_anybodys_when_we_ask_ourselves,
		lookup_at__what_is_known_is_not_asked_for,
		lookup__nobody_at_once_where_only_this_host_is_asked,
		lookup__without_a_source_for_this_host_nothing_is_certain,
		lookup__silent_holder_is_asked_until_nobody_wants_to_know,
		lookup__silent_holder_that_wakes_is_found,
		lookup__silent_holder_is_waited_for_a_second_if_nobody_says_how_long,
		lookup__silent_holder_that_dies_is_nobody,
		lookup__multicast_silence_is_nobody,
		denied__by_all_that_are_asked,
		denied__others_by_multicast_have_three_rounds,
		denied__a_silent_holder_there_is_asked_on,
		denied__silent_to_the_deadline,
		denied__what_does_not_count,
		denied__but_bound_here,
	};
	TCase *tcase = tcase_create("lookup");

	tcase_add_checked_fixture(tcase, setup, teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	return suite_finish("resolver_lookup", tcase);
}
