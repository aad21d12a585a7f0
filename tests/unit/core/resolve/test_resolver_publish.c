/* SPDX-License-Identifier: BSD-3-Clause */
/* The resolver: registering, withdrawing, announcing, and what rivals bring about. */
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

static void expect_published(int status)
{
	const struct noted *noted = noted_next(world);

	ck_assert_ptr_nonnull(noted);
	ck_assert_int_eq(noted->what, 'p');
	ck_assert_uint_eq(noted->id, ID);
	ck_assert_int_eq(noted->status, status);
	ck_assert_uint_eq(noted_count(world), 0);
}

/* ---- registering ------------------------------------------------------------------------- */

START_TEST(publish__asks_three_times_then_takes_the_name)
{
	uint64_t start_us = world->now_us;

	own_add(world, ID, 5, 100);
	publish(world, ID, false);
	pass(world, 60 * MS - 1);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_eq(world->fakes[HOME].n_published, 0);
	ck_assert_uint_eq(sent_count(world, HOME), 1); /* nobody has bound its name */
	ck_assert_uint_eq(sent_count(world, NET), 3);
	for (uint64_t i = 0; i < 3; i++) {
		const struct sent *sent = sent_next(world, NET);

		ck_assert_int_eq(sent->kind, ASK);
		ck_assert_uint_eq(sent->packet.record.id, ID);
		ck_assert_uint_eq(sent->at_us, start_us + i * 20 * MS);
	}
	pass(world, 1);
	expect_published(0);
	ck_assert_uint_eq(world->fakes[HOME].n_published, 1);
}
END_TEST

START_TEST(publish__tells_everybody_twice)
{
	static const uint64_t at_ms[] = {60, 80};
	uint64_t start_us = world->now_us;

	own_add(world, ID, 5, 100);
	publish(world, ID, false);
	pass(world, 50 * MS);
	sent_skip(world);
	pass(world, 2000 * MS); /* digests begin later */
	ck_assert_uint_eq(sent_count(world, NET), 2);
	for (int i = 0; i < 2; i++) {
		const struct sent *sent = sent_next(world, NET);

		ck_assert_int_eq(sent->kind, NOTIFY);
		ck_assert_int_eq(sent->packet.type, WIRE_RECORD);
		ck_assert_uint_eq(sent->packet.nonce, 0);
		ck_assert_uint_eq(sent->packet.record.incarnation, 5);
		ck_assert_uint_eq(sent->at_us, start_us + at_ms[i] * MS);
	}
	ck_assert_uint_eq(sent_count(world, HOME), 0);
}
END_TEST

START_TEST(publish__private_is_done_at_once_and_in_silence)
{
	own_add(world, ID, 5, 100);
	publish(world, ID, true);
	expect_published(0);
	pass(world, 200000 * MS);
	ck_assert_uint_eq(sent_count(world, HOME), 0);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(ripc__resolver_deadline(world->resolver), UINT64_MAX);
	ripc__resolver_withdraw(world->resolver, ID, 5);
	ck_assert_uint_eq(world->fakes[HOME].n_withdrawn, 1);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

START_TEST(publish__any_answer_refuses)
{
	own_add(world, ID, 5, 100);
	publish(world, ID, false);
	pass(world, 50 * MS);
	/* However young: who is there was there first. */
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 6, 200));
	expect_published(-EADDRINUSE);
	pass(world, 1000 * MS);
	ck_assert_uint_eq(world->fakes[HOME].n_published, 0);
	ck_assert_uint_eq(noted_count(world), 0);
}
END_TEST

START_TEST(publish__forged_answer_does_not_refuse)
{
	own_add(world, ID, 5, 100);
	publish(world, ID, false);
	for (uint64_t nonce = 1; nonce < 50; nonce++)
		answer(world, NET, 66, nonce, record_of(ID, 6, 1));
	answer(world, NET, 66, 0, record_of(ID, 6, 1));
	pass(world, 100 * MS);
	ck_assert_int_eq(world->noted[world->n_noted - 1].status, 0);
}
END_TEST

START_TEST(publish__held_name_whose_holder_answers)
{
	own_add(world, ID, 5, 100);
	world->fakes[HOME].publish_result = -EADDRINUSE;
	publish(world, ID, false);
	pass(world, 70 * MS);
	ck_assert_uint_eq(noted_count(world), 0);
	answer(world, HOME, 1, asked_nonce(world, HOME, ID), record_of(ID, 6, 100));
	expect_published(-EADDRINUSE);
	ck_assert_uint_eq(world->fakes[HOME].n_displaced, 0);
}
END_TEST

START_TEST(publish__held_name_whose_holder_is_silent_is_displaced)
{
	own_add(world, ID, 5, 100);
	world->fakes[HOME].publish_result = -EADDRINUSE;
	world->fakes[HOME].ask_result = 1;
	publish(world, ID, false);
	pass(world, 560 * MS - 1);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_eq(sent_count(world, HOME), 3 + 5);
	ck_assert_uint_eq(sent_count(world, NET), 3);
	pass(world, 1);
	expect_published(0);
	ck_assert_uint_eq(world->fakes[HOME].n_displaced, 1);
}
END_TEST

START_TEST(publish__other_errors_are_passed_on)
{
	own_add(world, ID, 5, 100);
	world->fakes[HOME].publish_result = -EMFILE;
	publish(world, ID, false);
	pass(world, 100 * MS);
	expect_published(-EMFILE);
	world->fakes[HOME].publish_result = -EADDRINUSE;
	publish(world, ID, true);
	expect_published(-EADDRINUSE);
	world->fakes[HOME].publish_result = 0;
	publish(world, ID, true);
	expect_published(0);
}
END_TEST

START_TEST(publish__twice_is_refused)
{
	own_publish(world, ID, 5, 100);
	publish(world, ID, false);
	expect_published(-EADDRINUSE);
	publish(world, ID, true);
	expect_published(-EADDRINUSE);
}
END_TEST

START_TEST(publish__without_a_source_for_this_host)
{
	static const struct ripc__source *const net_only[] = {&net_source, NULL};
	struct world *other = world_new();

	ck_assert_int_eq(world_open_with(other, net_only), 0);
	own_publish(other, ID, 5, 100);
	ripc__resolver_withdraw(other->resolver, ID, 5);
	ck_assert_int_eq(sent_next(other, NET)->packet.type, WIRE_WITHDRAWN);
	world_close(other);
}
END_TEST

START_TEST(publish__forgets_what_was_cached)
{
	fill_cache(world, ID, 6, 100);
	own_publish(world, ID, 5, 100);
	ck_assert_uint_eq(cached(world, ID), 5);
	world->n_own = 0;
	ripc__resolver_withdraw(world->resolver, ID, 5);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

START_TEST(publish__many_at_once)
{
	for (uint64_t id = 1; id <= 200; id++)
		own_add(world, id, 1000 + id, 100);
	for (uint64_t id = 1; id <= 200; id++)
		publish(world, id, id % 2);
	pass(world, 100 * MS);
	ck_assert_uint_eq(noted_count(world), 200);
	for (uint64_t id = 1; id <= 200; id++) {
		ck_assert_int_eq(world->noted[id - 1].status, 0);
		ck_assert_uint_eq(cached(world, id), 1000 + id);
		ripc__resolver_withdraw(world->resolver, id, 1000 + id);
	}
	ck_assert_uint_eq(ripc__resolver_deadline(world->resolver), UINT64_MAX);
}
END_TEST

/* ---- long paths -------------------------------------------------------------------------- */

/* Answers the last query, as a holder does that is so far away. */
static void answer_after(uint64_t us, const struct wire_resolve *record)
{
	uint64_t nonce = asked_nonce(world, NET, ID);

	pass(world, us);
	answer(world, NET, 3, nonce, *record);
}

START_TEST(late__older_that_answers_is_a_conflict)
{
	static const uint32_t trips_ms[] = {70, 100, 200, 400, 3000};
	const struct wire_resolve older = record_of(ID, 6, 50);

	for (size_t i = 0; i < sizeof(trips_ms) / sizeof(trips_ms[0]); i++) {
		world->n_own = 0;
		own_add(world, ID, 5, 100);
		publish(world, ID, false);
		answer_after(trips_ms[i] * MS, &older);
		expect_published(0);
		answer_after(trips_ms[i] * MS, &older);
		ck_assert_ptr_nonnull(noted_next(world));
		ck_assert_int_eq(world->noted[world->seen - 1].what, 'c');
		ck_assert_uint_eq(world->noted[world->seen - 1].incarnation, 6);
		pass(world, 100000 * MS);
		ck_assert_uint_eq(noted_count(world), 0);
	}
}
END_TEST

START_TEST(late__younger_is_told_of_us)
{
	const struct wire_resolve younger = record_of(ID, 6, 200);
	uint32_t n = 0;

	own_add(world, ID, 5, 100);
	publish(world, ID, false);
	answer_after(400 * MS, &younger);
	expect_published(0);
	answer_after(400 * MS, &younger);
	while (sent_count(world, NET))
		n += sent_next(world, NET)->kind == REPLY;
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(noted_count(world), 0);
}
END_TEST

/* The owner may have ended meanwhile. */
START_TEST(late__answer_alone_is_not_believed)
{
	const struct wire_resolve older = record_of(ID, 6, 50);

	own_add(world, ID, 5, 100);
	publish(world, ID, false);
	answer_after(400 * MS, &older);
	expect_published(0);
	pass(world, 20000 * MS);
	ck_assert_uint_eq(noted_count(world), 0);
}
END_TEST

START_TEST(late__counts_for_seconds)
{
	const struct wire_resolve older = record_of(ID, 6, 50);
	uint64_t nonce;

	own_add(world, ID, 5, 100);
	publish(world, ID, false);
	nonce = asked_nonce(world, NET, ID);
	pass(world, 11000 * MS);
	expect_published(0);
	sent_skip(world);
	answer(world, NET, 3, nonce, older);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(stats(world).dropped, 1);
}
END_TEST

/* A late answer makes the next registrations wait longer, for a minute. */
START_TEST(late__round_trip_is_known_then)
{
	const struct wire_resolve older = record_of(ID, 6, 50);

	own_add(world, ID, 5, 100);
	publish(world, ID, false);
	answer_after(400 * MS, &older);
	expect_published(0);
	ripc__resolver_withdraw(world->resolver, ID, 5);
	publish(world, ID, false);
	answer_after(420 * MS, &older);
	expect_published(-EADDRINUSE);
	publish(world, ID, false);
	pass(world, 3000 * MS); /* its answers may have been lost */
	expect_published(0);
	ripc__resolver_withdraw(world->resolver, ID, 5);
	pass(world, 60000 * MS);
	publish(world, ID, false);
	pass(world, 60 * MS);
	expect_published(0);
}
END_TEST

START_TEST(late__short_paths_are_not_waited_for)
{
	struct wire_resolve older = record_of(ID, 6, 50);

	own_add(world, ID, 5, 100);
	publish(world, ID, false);
	answer_after(1 * MS, &older);
	expect_published(-EADDRINUSE);
	publish(world, ID, false);
	answer(world, HOME, 1, asked_nonce(world, HOME, ID), older);
	expect_published(-EADDRINUSE);
	publish(world, ID, false);
	pass(world, 50 * MS);
	/* By multicast, but of this host, which is busy. */
	older.nonce = asked_nonce(world, NET, ID);
	arrive(world, NET, 1, &older)->event.local = true;
	step(world);
	expect_published(-EADDRINUSE);
	pass(world, 1000 * MS);
	publish(world, ID, false);
	pass(world, 60 * MS);
	expect_published(0);
}
END_TEST

/* ---- withdrawing ------------------------------------------------------------------------- */

START_TEST(withdraw__tells_everybody)
{
	const struct sent *sent;

	own_publish(world, ID, 5, 100);
	ripc__resolver_withdraw(world->resolver, ID, 5);
	sent = sent_next(world, NET);
	ck_assert_int_eq(sent->kind, NOTIFY);
	ck_assert_int_eq(sent->packet.type, WIRE_WITHDRAWN);
	ck_assert_uint_eq(sent->packet.record.id, ID);
	ck_assert_uint_eq(sent->packet.record.incarnation, 5);
	ck_assert_uint_eq(world->fakes[HOME].n_withdrawn, 1);
	pass(world, 100000 * MS);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

START_TEST(withdraw__of_what_is_not_published_is_harmless)
{
	ripc__resolver_withdraw(world->resolver, ID, 5);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(world->fakes[HOME].n_withdrawn, 0);
}
END_TEST

START_TEST(withdraw__while_asking_ends_it_in_silence)
{
	own_add(world, ID, 5, 100);
	publish(world, ID, false);
	pass(world, 30 * MS);
	sent_skip(world);
	ripc__resolver_withdraw(world->resolver, ID, 5);
	pass(world, 1000 * MS);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(sent_count(world, HOME), 0);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_eq(world->fakes[HOME].n_published, 0);
	ck_assert_uint_eq(ripc__resolver_deadline(world->resolver), UINT64_MAX);
}
END_TEST

/* ---- rivals ------------------------------------------------------------------------------ */

static void rival_heard(uint64_t incarnation, uint64_t stamp)
{
	struct wire_resolve packet = record_of(ID, incarnation, stamp);

	arrive(world, NET, 3, &packet)->event.group = true;
	step(world);
}

START_TEST(rival__older_that_answers_is_a_conflict)
{
	const struct noted *noted;

	own_publish(world, ID, 5, 200);
	rival_heard(6, 100);
	ck_assert_uint_eq(noted_count(world), 0); /* hearsay */
	answer(world, NET, 3, asked_nonce(world, NET, ID), record_of(ID, 6, 100));
	noted = noted_next(world);
	ck_assert_int_eq(noted->what, 'c');
	ck_assert_uint_eq(noted->id, ID);
	ck_assert_uint_eq(noted->incarnation, 6);
	pass(world, 200 * MS);
	ck_assert_uint_eq(noted_count(world), 0);
	/* A service that must yield is not found any more, and all contexts hear of it. */
	ck_assert_uint_eq(world->fakes[HOME].n_withdrawn, 1);
	ck_assert_int_eq(world->fakes[NET].sent[world->fakes[NET].n_sent - 1].packet.type,
		WIRE_WITHDRAWN);
}
END_TEST

START_TEST(publish__tells_on_this_host_whom_it_displaced)
{
	uint32_t n = 0;

	own_add(world, ID, 5, 100);
	world->fakes[HOME].publish_result = -EADDRINUSE;
	publish(world, ID, false);
	pass(world, 650 * MS);
	expect_published(0);
	while (sent_count(world, HOME)) {
		const struct sent *sent = sent_next(world, HOME);

		if (sent->packet.type != WIRE_RECORD)
			continue;
		n++;
		ck_assert_uint_eq(sent->packet.nonce, 0);
		ck_assert_uint_eq(sent->packet.record.incarnation, 5);
	}
	ck_assert_uint_eq(n, 2);
}
END_TEST

/* Each of 1,000 IDs once a second, and all that is sent for it is bounded all the same. */
START_TEST(rival__forged_notices_cause_few_bytes)
{
	uint64_t bytes = 0, came = 0;
	uint8_t forger = 0;

	for (uint64_t id = 1; id <= 200; id++) {
		own_add(world, id, 1000 + id, 100);
		publish(world, id, false);
	}
	pass(world, 200 * MS);
	sent_skip(world);
	for (uint64_t i = 0; i < 10000; i++) {
		struct wire_resolve packet = record_of(1 + i % 200, 77 + i, 50);
		uint8_t data[WIRE_RECORD_MAX];

		came += wire_resolve_encode(data, &packet);
		arrive(world, NET, forger++, &packet);
		pass(world, 1 * MS);
		while (sent_count(world, NET))
			bytes += sent_next(world, NET)->len;
	}
	ck_assert_uint_le(bytes, 25000 + 10 * 31250 + 2 * WIRE_RECORD_MAX);
	ck_assert_uint_le(bytes, came + came / 2);
}
END_TEST

START_TEST(rival__that_does_not_answer_is_none)
{
	own_publish(world, ID, 5, 200);
	rival_heard(6, 100);
	pass(world, 500 * MS);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_eq(sent_count(world, NET), 3);
	ck_assert_uint_eq(sent_count(world, HOME), 3);
	sent_skip(world);
	pass(world, 600 * MS);
	rival_heard(6, 100);
	ck_assert_uint_eq(sent_count(world, NET), 1);
}
END_TEST

START_TEST(rival__younger_is_told_of_us)
{
	const struct sent *sent;

	own_publish(world, ID, 5, 100);
	rival_heard(6, 200);
	sent_next(world, NET);
	answer(world, NET, 3, asked_nonce(world, NET, ID), record_of(ID, 6, 200));
	ck_assert_uint_eq(noted_count(world), 0);
	sent = sent_next(world, NET);
	ck_assert_int_eq(sent->kind, REPLY);
	ck_assert_uint_eq(sent->to.blob[0], 3);
	ck_assert_uint_eq(sent->packet.nonce, 0);
	ck_assert_uint_eq(sent->packet.record.incarnation, 5);
	ck_assert_uint_eq(sent->packet.record.context, SELF);
}
END_TEST

START_TEST(rival__equal_stamps_only_one_gives_way)
{
	own_publish(world, ID, 5, 100);
	rival_heard(6, 100);
	answer(world, NET, 3, asked_nonce(world, NET, ID), record_of(ID, 6, 100));
	ck_assert_uint_eq(noted_count(world), 0);
	pass(world, 1000 * MS);
	rival_heard(4, 100);
	answer(world, NET, 3, asked_nonce(world, NET, ID), record_of(ID, 4, 100));
	ck_assert_int_eq(noted_next(world)->what, 'c');
}
END_TEST

START_TEST(rival__flood_of_notices_makes_us_ask_once_a_second)
{
	own_publish(world, ID, 5, 100);
	for (uint64_t i = 0; i < 100; i++) {
		rival_heard(100 + i, 50);
		pass(world, 10 * MS);
	}
	ck_assert_uint_le(sent_count(world, NET), 3);
	ck_assert_uint_ge(stats(world).dropped, 90);
}
END_TEST

START_TEST(rival__flood_of_answers_causes_few_notices)
{
	uint64_t nonce;

	own_publish(world, ID, 5, 100);
	rival_heard(6, 200);
	nonce = asked_nonce(world, NET, ID);
	sent_skip(world);
	for (uint64_t i = 0; i < 100; i++)
		answer(world, NET, 66, nonce, record_of(ID, 1000 + i, 200));
	ck_assert_uint_le(sent_count(world, NET), 4);
}
END_TEST

START_TEST(rival__our_own_incarnation_is_none)
{
	own_publish(world, ID, 5, 100);
	rival_heard(6, 50);
	answer(world, NET, 66, asked_nonce(world, NET, ID), record_of(ID, 5, 50));
	ck_assert_uint_eq(noted_count(world), 0);
}
END_TEST

START_TEST(rival__withdrawal_is_none)
{
	struct wire_resolve packet = {.type = WIRE_WITHDRAWN,
		.record = {.id = ID, .incarnation = 5}};

	own_publish(world, ID, 5, 100);
	arrive(world, NET, 66, &packet);
	step(world);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(cached(world, ID), 5);
}
END_TEST

START_TEST(rival__withdrawn_meanwhile)
{
	uint64_t nonce;

	own_publish(world, ID, 5, 200);
	rival_heard(6, 100);
	nonce = asked_nonce(world, NET, ID);
	ripc__resolver_withdraw(world->resolver, ID, 5);
	answer(world, NET, 3, nonce, record_of(ID, 6, 100));
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_eq(stats(world).dropped, 1);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		publish__asks_three_times_then_takes_the_name,
		publish__tells_everybody_twice,
		publish__private_is_done_at_once_and_in_silence, publish__any_answer_refuses,
		publish__forged_answer_does_not_refuse,
		publish__held_name_whose_holder_answers,
		publish__held_name_whose_holder_is_silent_is_displaced,
		publish__other_errors_are_passed_on, publish__twice_is_refused,
		publish__without_a_source_for_this_host, publish__forgets_what_was_cached,
		publish__many_at_once, withdraw__tells_everybody,
		withdraw__of_what_is_not_published_is_harmless,
		withdraw__while_asking_ends_it_in_silence,
		publish__tells_on_this_host_whom_it_displaced,
		rival__forged_notices_cause_few_bytes,
		rival__older_that_answers_is_a_conflict, rival__that_does_not_answer_is_none,
		rival__younger_is_told_of_us, rival__equal_stamps_only_one_gives_way,
		rival__flood_of_notices_makes_us_ask_once_a_second,
		rival__flood_of_answers_causes_few_notices, rival__our_own_incarnation_is_none,
		rival__withdrawal_is_none, rival__withdrawn_meanwhile,
		late__older_that_answers_is_a_conflict, late__younger_is_told_of_us,
		late__answer_alone_is_not_believed, late__counts_for_seconds,
		late__round_trip_is_known_then, late__short_paths_are_not_waited_for,
	};
	TCase *tcase = tcase_create("publish");

	tcase_add_checked_fixture(tcase, setup, teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	return suite_finish("resolver_publish", tcase);
}
