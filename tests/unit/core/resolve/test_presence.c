/* SPDX-License-Identifier: BSD-3-Clause */
/* A host is asked whether a service is still there: what counts as a no, and how often. */
#include "core/wire/record.h"
#include "resolver_world.h"

#define ID      0xabc
#define CONTEXT 0xc0de
#define HOST    7

static struct world *world;

static void setup(void)
{
	world = world_open();
}

static void teardown(void)
{
	world_close(world);
}

static bool ask_host(uint8_t host)
{
	const struct ripc__presence presence = {ID, 5, CONTEXT, 0};

	return ripc__resolver_presence(world->resolver, &presence,
		(uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, host}, world->now_us);
}

/* The nonce of the query, which went to this host alone. */
static uint64_t asked(void)
{
	const struct sent *sent = sent_next(world, NET);

	ck_assert_ptr_nonnull(sent);
	ck_assert_int_eq(sent->kind, ASK_HOST);
	ck_assert_uint_eq(sent->to.blob[0], HOST);
	ck_assert_int_eq(sent->packet.type, WIRE_QUERY);
	ck_assert_uint_eq(sent->packet.record.id, ID);
	ck_assert_uint_eq(sent_count(world, NET) + sent_count(world, HOME), 0);
	return sent->packet.nonce;
}

static struct wire_resolve answer_of(uint8_t type, uint64_t incarnation, uint64_t context)
{
	struct wire_resolve answer = {.type = type, .nonce = asked(), .record.id = ID};

	if (type == WIRE_NOBODY)
		return answer;
	answer.record.incarnation = incarnation;
	answer.record.stamp = 1;
	answer.record.context = context;
	answer.record.n_addrs = 1;
	answer.record.addrs[0].backend = 1;
	answer.record.addrs[0].len = 1;
	return answer;
}

static void hear(const struct wire_resolve *answer)
{
	arrive(world, NET, HOST, answer);
	step(world);
}

static void expect(bool absent)
{
	const struct noted *noted = noted_next(world);

	ck_assert_int_eq(noted != NULL, absent);
	if (!absent)
		return;
	ck_assert_int_eq(noted->what, 'a');
	ck_assert_uint_eq(noted->id, ID);
	ck_assert_uint_eq(noted->incarnation, 5);
}

/* 0: definite; 1: the holder is silent; 2: another ID; 3: another nonce. */
START_TEST(presence__nobody)
{
	struct wire_resolve answer;

	ck_assert(ask_host(HOST));
	answer = answer_of(WIRE_NOBODY, 0, 0);
	answer.definite = _i != 1;
	answer.record.id += _i == 2;
	answer.nonce += _i == 3;
	hear(&answer);
	expect(_i == 0);
	hear(&answer);
	expect(false);
}
END_TEST

/* 0: the service; 1: another one of its context; 2: of another context; 3: that claims to be it. */
START_TEST(presence__record)
{
	struct wire_resolve answer;

	ck_assert(ask_host(HOST));
	answer = answer_of(WIRE_RECORD, _i % 3 ? 6 : 5, _i < 2 ? CONTEXT : CONTEXT + 1);
	hear(&answer);
	expect(_i == 2);
}
END_TEST

/* The cached record stays: the answer is only a hint. */
START_TEST(presence__changes_nothing_in_the_cache)
{
	struct wire_resolve answer;
	uint64_t nonce;

	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	pass(world, 30 * MS);
	nonce = world->fakes[NET].sent[world->fakes[NET].n_sent - 1].packet.nonce;
	sent_skip(world);
	ck_assert(ask_host(HOST));
	answer = answer_of(WIRE_RECORD, 5, CONTEXT);
	answer.nonce = nonce;
	hear(&answer);
	ck_assert_int_eq(noted_next(world)->what, 'r');
	sent_skip(world);
	ck_assert(ask_host(HOST));
	answer = answer_of(WIRE_NOBODY, 0, 0);
	answer.definite = true;
	hear(&answer);
	expect(true);
	ck_assert_uint_eq(cached(world, ID), 5);
}
END_TEST

/* A query is asked once, and its answer does not count for ever. */
START_TEST(presence__late_answer)
{
	struct wire_resolve answer;

	ck_assert(ask_host(HOST));
	answer = answer_of(WIRE_NOBODY, 0, 0);
	answer.definite = true;
	pass(world, 2000 * MS);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	hear(&answer);
	expect(false);
	ck_assert_uint_eq(ripc__resolver_deadline(world->resolver), UINT64_MAX);
}
END_TEST

/* However many partners are silent, and whatever the hosts say. */
START_TEST(presence__is_bounded)
{
	uint32_t one = 0, all = 0;

	for (int i = 0; i < 1000; i++)
		one += ask_host(HOST);
	for (int i = 0; i < 1000; i++)
		all += ask_host((uint8_t)(20 + i % 200));
	ck_assert_uint_le(one, 101);
	ck_assert_uint_ge(one, 50);
	ck_assert_uint_le(one + all, 202);
	ck_assert_uint_ge(all, 50);
	ck_assert_uint_eq(sent_count(world, NET), one + all);
	pass(world, 1000 * MS);
	ck_assert(ask_host(HOST));
}
END_TEST

/* The resolver is closed while its queries are open. */
START_TEST(presence__is_open_at_the_end)
{
	ck_assert(ask_host(HOST));
	ck_assert(ask_host(HOST + 1));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("presence");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_loop_test(tcase, presence__nobody, 0, 4);
	tcase_add_loop_test(tcase, presence__record, 0, 4);
	tcase_add_test(tcase, presence__changes_nothing_in_the_cache);
	tcase_add_test(tcase, presence__late_answer);
	tcase_add_test(tcase, presence__is_bounded);
	tcase_add_test(tcase, presence__is_open_at_the_end);
	return suite_finish("presence", tcase);
}
