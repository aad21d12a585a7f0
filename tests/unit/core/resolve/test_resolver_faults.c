/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver without memory: each of its allocations fails once, one after the other, and
 * whatever was begun still ends exactly once. And with sources and numbers that are odd.
 */
#include "core/wire/record.h"
#include "resolver_world.h"

#define ID     0xabc
#define IDS    40u
#define LISTED 100u

static struct world *world;

/* The number of the allocation from now on that fails (see meson.build); 0: none. */
static uint32_t fail_nth, n_allocations;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);

static bool fails(void)
{
	return fail_nth && ++n_allocations == fail_nth;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *block, size_t size)
{
	return fails() ? NULL : __real_realloc(block, size);
}

static void setup(void)
{
	world = world_open();
}

static void teardown(void)
{
	world_close(world);
}

/* ---- each allocation fails once ---------------------------------------------------------- */

struct tally {
	uint32_t lookups, resolved, publications, published;
};

/* Counts what has ended, and how. */
static void count_ended(struct tally *tally)
{
	const struct noted *noted;

	while ((noted = noted_next(world))) {
		if (noted->what == 'r') {
			tally->resolved++;
			ck_assert(noted->status == 0 || noted->status == -ENOENT);
		} else if (noted->what == 'p') {
			tally->published++;
			ck_assert(noted->status == 0 || noted->status == -ENOMEM);
		}
	}
}

static void look_up_many(struct tally *tally)
{
	for (uint64_t id = 1; id <= IDS; id++) {
		int status = lookup(world, id);

		ck_assert(status == -EINPROGRESS || status == -ENOMEM);
		if (status == -ENOMEM)
			continue;
		tally->lookups++;
		if (id % 2)
			answer(world, NET, 1, asked_nonce(world, NET, id),
				record_of(id, 5, 100));
	}
	pass(world, 1100 * MS);
}

static void publish_many(struct tally *tally)
{
	for (uint64_t id = 101; id <= 100 + IDS; id++) {
		own_add(world, id, 1000 + id, 200);
		publish(world, id, id % 2);
		tally->publications++;
	}
	pass(world, 100 * MS);
	for (uint64_t id = 101; id <= 100 + IDS; id++) {
		struct wire_resolve rival = record_of(id, 9, 100);

		arrive(world, NET, 3, &rival)->event.group = true;
	}
	pass(world, 100 * MS);
}

/* Queries that came to us alone, about one of this host's IDs and about all of them. */
static void ask_for_the_host(void)
{
	for (uint64_t id = 0; id < IDS; id++) {
		const struct wire_resolve query = {.type = WIRE_QUERY, .nonce = 77,
			.asker = 88, .record.id = id ? 0x9900 + id : 0};

		arrive(world, NET, 9, &query);
		step(world);
	}
	pass(world, 200 * MS);
}

/* Does everything that needs memory. Returns the result of opening. */
static int do_all(struct tally *tally)
{
	int status = world_open_with(world, both_sources);

	if (status)
		return status;
	for (uint32_t i = 0; i < LISTED; i++)
		world->fakes[HOME].listed[world->fakes[HOME].n_listed++] = 0x9900 + i;
	look_up_many(tally);
	publish_many(tally);
	world->fakes[HOME].ask_result = 1;
	ask_for_the_host();
	status = ripc__resolver_list(world->resolver, world->now_us, listed, world);
	ck_assert(status == 0 || status == -ENOMEM);
	step(world);
	for (uint64_t i = 0; status == 0 && i < IDS; i++)
		answer(world, NET, 1, asked_nonce(world, NET, 0), record_of(ID, 100 + i, 100));
	pass(world, 1000 * MS);
	count_ended(tally);
	return 0;
}

/* With memory again everything is as it should be. */
static void check_works(void)
{
	ck_assert_int_eq(ripc__resolver_list(world->resolver, world->now_us, NULL, NULL), 0);
	pass(world, 100000 * MS);
	world->fakes[HOME].ask_result = 0;
	fill_cache(world, 0x777, 7, 100);
	for (uint64_t id = 101; id <= 100 + IDS; id++)
		ripc__resolver_withdraw(world->resolver, id, 1000 + id);
	world->n_own = 0;
	own_publish(world, 101, 5, 100);
	ck_assert_uint_eq(cached(world, 101), 5);
	ck_assert_int_eq(ripc__resolver_list(world->resolver, world->now_us, listed, world), 0);
	pass(world, 1000 * MS);
	ck_assert_uint_eq(noted_next(world)->what, 'l');
}

START_TEST(memory__each_allocation_fails_once)
{
	uint32_t n_failed = 0, made;

	do {
		struct tally tally = {0};
		int status;

		world = world_new();
		fail_nth = ++n_failed;
		n_allocations = 0;
		status = do_all(&tally);
		made = n_allocations;
		fail_nth = 0;
		ck_assert(status == 0 || status == -ENOMEM);
		if (status == 0) {
			ck_assert_uint_eq(tally.resolved, tally.lookups);
			ck_assert_uint_ge(tally.lookups, IDS - 1);
			ck_assert_uint_eq(tally.published, tally.publications);
			check_works();
		} else {
			ck_assert_ptr_null(world->resolver);
		}
		world_close(world);
	} while (made >= n_failed);
	ck_assert_uint_gt(n_failed, 150);
	printf("%u allocations failed, each in its turn\n", n_failed - 1);
}
END_TEST

/* ---- odd numbers ------------------------------------------------------------------------- */

/* 0 stands for no query. */
START_TEST(nonce__is_never_zero)
{
	world->drawn = UINT64_MAX;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	ck_assert_uint_ne(asked_nonce(world, NET, ID), 0);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 5, 100));
	ck_assert_uint_eq(cached(world, ID), 5);
}
END_TEST

START_TEST(nonce__drawn_twice_belongs_to_the_first)
{
	uint64_t before = world->drawn;

	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	world->drawn = before;
	ck_assert_int_eq(lookup(world, ID + 1), -ENOMEM);
	world->drawn = before - 2; /* opening draws two seeds first */
	ck_assert_int_eq(ripc__resolver_list(world->resolver, world->now_us, listed, world),
		-ENOMEM);
	world->drawn = before;
	own_add(world, ID + 2, 6, 100);
	publish(world, ID + 2, false);
	ck_assert_int_eq(noted_next(world)->status, -ENOMEM);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 5, 100));
	ck_assert_uint_eq(cached(world, ID), 5);
	ck_assert_int_eq(lookup(world, ID + 1), -EINPROGRESS);
}
END_TEST

START_TEST(answer__without_id_or_incarnation_is_dropped)
{
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 0, 100));
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(0, 5, 100));
	ck_assert_uint_eq(stats(world).dropped, 2);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

START_TEST(rivals__of_many_ids_make_us_ask_twenty_times_a_second)
{
	uint32_t asked = 0;

	for (uint64_t id = 1; id <= IDS; id++)
		own_publish(world, id, 50 + id, 100);
	for (uint64_t id = 1; id <= IDS; id++) {
		struct wire_resolve rival = record_of(id, 5, 50);

		arrive(world, NET, (uint8_t)id, &rival)->event.group = true;
		step(world);
	}
	while (sent_count(world, NET))
		asked += sent_next(world, NET)->kind == ASK;
	ck_assert_uint_eq(asked, 20);
	/* The others wait for their turn. */
	ck_assert_uint_eq(stats(world).dropped, 0);
	pass(world, 1010 * MS);
	ck_assert_uint_ne(asked_nonce(world, NET, IDS), 0);
}
END_TEST

/* The owner is asked for its record when it counts, and may have none by then. */
START_TEST(rivals__owner_has_no_record_any_more)
{
	struct wire_resolve rival = record_of(ID, 6, 100);

	own_publish(world, ID, 5, 200);
	arrive(world, NET, 3, &rival)->event.group = true;
	step(world);
	sent_skip(world);
	world->n_own = 0;
	answer(world, NET, 3, asked_nonce(world, NET, ID), rival);
	ck_assert_uint_eq(noted_count(world), 0);
	pass(world, 60000 * MS); /* nothing to announce either */
	while (sent_count(world, NET))
		ck_assert_int_eq(sent_next(world, NET)->kind, ASK);
}
END_TEST

START_TEST(publish__private_name_that_is_held_is_refused_at_once)
{
	own_add(world, ID, 5, 100);
	world->fakes[HOME].publish_result = -EADDRINUSE;
	publish(world, ID, true);
	ck_assert_int_eq(noted_next(world)->status, -EADDRINUSE);
	ck_assert_uint_eq(sent_count(world, HOME), 0);
	ck_assert_uint_eq(ripc__resolver_deadline(world->resolver), UINT64_MAX);
}
END_TEST

/* ---- odd sources ------------------------------------------------------------------------- */

static struct world *open_odd(const struct ripc__source *const *sources)
{
	struct world *odd = world_new();

	ck_assert_int_eq(world_open_with(odd, sources), 0);
	return odd;
}

START_TEST(sources__at_most_so_many)
{
	const struct ripc__source *many[12] = {&home_source, &home_source, &net_source,
		&net_source, &net_source, &net_source, &net_source, &net_source, &net_source,
		&net_source, &net_source};
	struct world *odd = open_odd(many);
	int fds[12];
	int n = ripc__resolver_fds(odd->resolver, fds, 12);

	ck_assert_int_ge(n, 3);
	ck_assert_int_le(n, 8);
	/* The first of two sources that can publish does. */
	own_publish(odd, ID, 5, 100);
	ck_assert_uint_eq(odd->fakes[HOME].n_published, 1);
	world_close(odd);
}
END_TEST

START_TEST(sources__without_what_may_be_missing)
{
	struct ripc__source bare = home_source, stateless = net_source;
	const struct ripc__source *const sources[] = {&bare, &stateless, NULL};
	const struct wire_resolve query = {.type = WIRE_QUERY, .nonce = 77, .asker = 88};
	struct world *odd;
	int fds[2];

	bare.list = NULL;
	bare.wait_fd = NULL;
	odd = open_odd(sources);
	ck_assert_int_eq(ripc__resolver_fds(odd->resolver, fds, 2), 1);
	ck_assert_int_eq(ripc__resolver_list(odd->resolver, odd->now_us, listed, odd), 0);
	pass(odd, 1000 * MS);
	ck_assert_uint_eq(sent_count(odd, HOME), 0);
	arrive(odd, NET, 9, &query);
	step(odd);
	ck_assert_uint_eq(sent_count(odd, HOME), 0);
	world_close(odd);
}
END_TEST

START_TEST(sources__only_of_the_network)
{
	static const struct ripc__source *const net_only[] = {&net_source, NULL};
	const struct wire_resolve query = {.type = WIRE_QUERY, .nonce = 77, .asker = 88,
		.record.id = ID};
	struct world *odd = open_odd(net_only);

	ck_assert_int_eq(ripc__resolver_list(odd->resolver, odd->now_us, listed, odd), 0);
	step(odd);
	answer(odd, NET, 1, asked_nonce(odd, NET, 0), record_of(ID, 5, 100));
	ck_assert_int_eq(noted_next(odd)->what, 'l');
	arrive(odd, NET, 9, &query);
	step(odd);
	ck_assert_uint_eq(noted_count(odd), 0);
	world_close(odd);
}
END_TEST

START_TEST(sources__left_out_in_silence_where_nobody_listens)
{
	const struct ripc__resolver_owner owner = {.arg = world, .random = owner_random};
	const struct ripc__host host = {.env = world};
	struct ripc__resolver *resolver = NULL;

	world->fakes[HOME].open_error = -EMFILE;
	ck_assert_int_eq(ripc__resolver_open(&owner, &host, both_sources, &resolver), 0);
	ck_assert_uint_eq(world->n_logged, 0);
	ripc__resolver_close(resolver);
	ripc__resolver_close(NULL);
}
END_TEST

/* ---- looking for very many --------------------------------------------------------------- */

static uint32_t n_found;

static void count_found(void *arg, const struct ripc__answer *answer)
{
	(void)arg;
	(void)answer;
	n_found++;
}

static int list_very_many(void *at, void (*found)(void *arg, uint64_t id, bool is_private),
		void *arg)
{
	(void)at;
	for (uint64_t id = 1; id <= 70000; id++)
		found(arg, id, false);
	return 0;
}

/* One whose answers never end does not take all memory. */
START_TEST(list__is_bounded)
{
	struct ripc__source crowded = home_source;
	const struct ripc__source *const sources[] = {&crowded, &net_source, NULL};
	struct world *odd;
	uint64_t nonce;

	crowded.list = list_very_many;
	odd = open_odd(sources);
	n_found = 0;
	ck_assert_int_eq(ripc__resolver_list(odd->resolver, odd->now_us, count_found, odd), 0);
	step(odd);
	nonce = asked_nonce(odd, HOME, 1);
	for (uint64_t i = 1; i <= 66000; i++)
		answer(odd, HOME, 1, nonce, record_of(i, 100 + i, 100));
	ck_assert_uint_eq(n_found, 65536);
	pass(odd, 25000 * MS);
	ck_assert_uint_gt(odd->fakes[HOME].n_sent, 60000);
	world_close(odd);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		nonce__is_never_zero, nonce__drawn_twice_belongs_to_the_first,
		answer__without_id_or_incarnation_is_dropped,
		rivals__of_many_ids_make_us_ask_twenty_times_a_second,
		rivals__owner_has_no_record_any_more,
		publish__private_name_that_is_held_is_refused_at_once, sources__at_most_so_many,
		sources__without_what_may_be_missing, sources__only_of_the_network,
		sources__left_out_in_silence_where_nobody_listens, list__is_bounded,
	};
	TCase *tcase = tcase_create("faults"), *alone = tcase_create("memory");
	Suite *suite = suite_create("resolver_faults");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tcase, setup, teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	suite_add_tcase(suite, tcase);
	tcase_add_test(alone, memory__each_allocation_fails_once);
	suite_add_tcase(suite, alone);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
