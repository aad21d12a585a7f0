/* SPDX-License-Identifier: BSD-3-Clause */
/* The resolver with an exact source: one that knows for all hosts who has which ID. */
#include "resolver_world.h"

#include "suite.h"

#define ID    7u
#define OWN   5u
#define RIVAL 9u

static struct world *world;
static enum ripc__naming naming; /* of the last publish */
static uint64_t ended;           /* a context whose end is proven */

static int exact_publish(void *at, uint64_t id, uint64_t incarnation, enum ripc__naming how)
{
	struct fake *fake = ((struct fake_state *)at)->fake;

	ck_assert_uint_eq(id, ID);
	ck_assert_uint_eq(incarnation, OWN);
	fake->n_published++;
	naming = how;
	return -EINPROGRESS;
}

static bool home_ended(void *at, uint64_t context)
{
	(void)at;
	return context == ended;
}

static const struct ripc__source exact_source = {.name = "exact", .exact = true,
	.size = sizeof(struct fake_state), .open = net_open, .close = fake_close,
	.publish = exact_publish, .withdraw = fake_withdraw, .ask = fake_ask, .reply = fake_reply,
	.poll = fake_poll, .wait_fd = fake_wait_fd};

static void setup(void)
{
	static struct ripc__source proving;
	static const struct ripc__source *const sources[] = {&proving, &exact_source, NULL};

	proving = home_source;
	proving.ended = home_ended;
	ended = 0;
	world = world_new();
	ck_assert_int_eq(world_open_with(world, sources), 0);
	own_add(world, ID, OWN, 100);
}

static void teardown(void)
{
	world_close(world);
}

/* ---- a list of hosts beside it ----------------------------------------------------------- */

static uint32_t list_asked, list_peers;

static int list_open(void *at, const struct ripc__host *host)
{
	(void)at;
	(void)host;
	return 0;
}

static void list_close(void *at)
{
	(void)at;
}

static int list_ask(void *at, uint64_t id, const void *data, size_t len)
{
	(void)at;
	(void)id;
	(void)data;
	(void)len;
	list_asked++;
	return (int)list_peers;
}

static uint32_t list_n_peers(void *at)
{
	(void)at;
	return list_peers;
}

static int list_poll(void *at, struct ripc__source_event *event)
{
	(void)at;
	(void)event;
	return 0;
}

static int list_wait_fd(void *at)
{
	(void)at;
	return list_peers ? 200 : -1;
}

static void publish_beside_list(uint32_t n_peers)
{
	static const struct ripc__source list_source = {.name = "list", .size = 1,
		.open = list_open, .close = list_close, .ask = list_ask, .n_peers = list_n_peers,
		.poll = list_poll, .wait_fd = list_wait_fd};
	static const struct ripc__source *const sources[] = {&home_source, &exact_source,
		&list_source, NULL};

	world_close(world);
	list_peers = n_peers;
	list_asked = 0;
	world = world_new();
	ck_assert_int_eq(world_open_with(world, sources), 0);
	own_add(world, ID, OWN, 100);
	publish(world, ID, false);
}

static void say(struct ripc__source_event event)
{
	struct fake *fake = &world->fakes[NET];

	event.id = event.id ? event.id : ID;
	fake->arriving[fake->n_arriving++ % ARRIVE_MAX].event = event;
	step(world);
}

static void refuse(void)
{
	say((struct ripc__source_event){.kind = RIPC_SOURCE_PUBLISHED, .status = -EADDRINUSE,
		.incarnation = RIVAL, .holder = OTHER});
}

static void expect_published(int status)
{
	const struct noted *noted = noted_next(world);

	ck_assert_ptr_nonnull(noted);
	ck_assert_int_eq(noted->what, 'p');
	ck_assert_int_eq(noted->status, status);
}

static void expect_resolved(uint64_t id, int status)
{
	const struct noted *noted = noted_next(world);

	ck_assert_ptr_nonnull(noted);
	ck_assert_int_eq(noted->what, 'r');
	ck_assert_uint_eq(noted->id, id);
	ck_assert_int_eq(noted->status, status);
}

START_TEST(exact__decides_without_rounds)
{
	publish(world, ID, false);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(world->fakes[HOME].n_published, 1);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_PUBLISHED});
	expect_published(0);
	ck_assert_uint_eq(cached(world, ID), OWN);
}
END_TEST

START_TEST(exact__list_without_hosts_is_not_waited_for)
{
	publish_beside_list(0);
	ck_assert_uint_eq(world->fakes[NET].n_published, 1);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(list_asked, 0);
}
END_TEST

START_TEST(exact__is_not_asked_before_it_decides)
{
	publish_beside_list(1);
	ck_assert_uint_eq(world->fakes[NET].n_published, 0);
	pass(world, 100 * MS);
	ck_assert_uint_eq(world->fakes[NET].n_published, 1);
	ck_assert_uint_eq(list_asked, 3);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

START_TEST(exact__holder_that_answers_keeps_the_id)
{
	publish(world, ID, false);
	refuse();
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, RIVAL, 50));
	expect_published(-EADDRINUSE);
	ck_assert_uint_eq(world->fakes[HOME].n_withdrawn, 1);
	ck_assert_uint_eq(world->fakes[NET].n_withdrawn, 1);
}
END_TEST

START_TEST(exact__silent_holder_is_awaited)
{
	publish(world, ID, false);
	refuse();
	pass(world, 3000 * MS);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_int_eq(naming, RIPC_NAME_FIRST);
	ck_assert_uint_ge(world->fakes[NET].n_published, 20);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_PUBLISHED});
	expect_published(0);
}
END_TEST

START_TEST(exact__silent_holder_keeps_it_in_the_end)
{
	publish(world, ID, false);
	refuse();
	pass(world, 9400 * MS);
	ck_assert_uint_eq(noted_count(world), 0);
	pass(world, 200 * MS);
	expect_published(-EADDRINUSE);
}
END_TEST

START_TEST(exact__proven_end_displaces)
{
	publish(world, ID, false);
	ended = OTHER;
	refuse();
	ck_assert_int_eq(naming, RIPC_NAME_DISPLACE);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_PUBLISHED});
	expect_published(0);
}
END_TEST

START_TEST(exact__away_is_waited_for)
{
	publish(world, ID, false);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_UNAVAILABLE});
	pass(world, 9400 * MS);
	ck_assert_uint_eq(noted_count(world), 0);
	pass(world, 200 * MS);
	expect_published(-EHOSTUNREACH);
	ck_assert_uint_eq(world->fakes[HOME].n_withdrawn, 1);
}
END_TEST

START_TEST(exact__private_id_does_not_wait)
{
	publish(world, ID, true);
	ck_assert_int_eq(naming, RIPC_NAME_PRIVATE);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_UNAVAILABLE});
	expect_published(0);
}
END_TEST

START_TEST(exact__refusal_is_told)
{
	publish(world, ID, false);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_PUBLISHED, .status = -EACCES});
	expect_published(-EACCES);
}
END_TEST

START_TEST(exact__private_id_may_be_refused)
{
	publish(world, ID, true);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_PUBLISHED, .status = -EACCES});
	expect_published(0);
}
END_TEST

START_TEST(exact__lost_is_a_conflict)
{
	const struct noted *noted;

	publish(world, ID, false);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_PUBLISHED});
	expect_published(0);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_LOST, .incarnation = RIVAL});
	noted = noted_next(world);
	ck_assert_int_eq(noted->what, 'c');
	ck_assert_uint_eq(noted->incarnation, RIVAL);
	ck_assert_uint_eq(world->fakes[HOME].n_withdrawn, 1);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_LOST, .incarnation = RIVAL});
	ck_assert_uint_eq(noted_count(world), 0);
}
END_TEST

START_TEST(exact__withdrawn_while_it_is_stored)
{
	publish(world, ID, false);
	ripc__resolver_withdraw(world->resolver, ID, OWN);
	ck_assert_uint_eq(world->fakes[HOME].n_withdrawn, 1);
	ck_assert_uint_eq(world->fakes[NET].n_withdrawn, 1);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_PUBLISHED});
	ck_assert_uint_eq(noted_count(world), 0);
}
END_TEST

START_TEST(exact__nobody_ends_a_lookup)
{
	ck_assert_int_eq(lookup(world, 8), -EINPROGRESS);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_NOBODY, .id = 8});
	expect_resolved(8, -ENOENT);
	ck_assert_int_eq(lookup(world, 8), -ENOENT);
	pass(world, 250 * MS); /* asking again costs next to nothing */
	ck_assert_int_eq(lookup(world, 8), -EINPROGRESS);
}
END_TEST

/* A service whose name is bound on this host is there, whatever the source says. */
START_TEST(exact__nobody_does_not_end_it_where_the_name_is_bound)
{
	world->fakes[HOME].ask_result = 1;
	ck_assert_int_eq(lookup(world, 8), -EINPROGRESS);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_NOBODY, .id = 8});
	ck_assert_uint_eq(noted_count(world), 0);
	pass(world, 2000 * MS);
	expect_resolved(8, -ETIMEDOUT);
}
END_TEST

START_TEST(exact__silence_of_the_source_is_no_no)
{
	ck_assert_int_eq(lookup(world, 8), -EINPROGRESS);
	pass(world, 2000 * MS);
	expect_resolved(8, -EHOSTUNREACH);
	ck_assert_int_eq(lookup(world, 8), -EINPROGRESS); /* the answer is not remembered */
	ripc__resolver_wanted(world->resolver, 8, world->now_us + 5000 * MS);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_UNAVAILABLE, .id = 8});
	pass(world, 4500 * MS);
	ck_assert_uint_eq(noted_count(world), 0);
	pass(world, 1000 * MS);
	expect_resolved(8, -EHOSTUNREACH);
}
END_TEST

START_TEST(exact__holder_that_is_silent)
{
	ck_assert_int_eq(lookup(world, 8), -EINPROGRESS);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_HELD, .id = 8, .incarnation = 3});
	pass(world, 2000 * MS);
	expect_resolved(8, -ETIMEDOUT);
}
END_TEST

START_TEST(exact__hint_makes_the_next_lookup_ask)
{
	fill_cache(world, 8, 3, 100);
	fill_cache(world, 9, 3, 100);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_HINT, .id = 9, .incarnation = 3});
	ck_assert_int_eq(noted_next(world)->what, 'm'); /* its addresses have changed */
	ck_assert_int_eq(lookup(world, 9), -EINPROGRESS);
	ck_assert_uint_eq(cached(world, 8), 3);
	say((struct ripc__source_event){.kind = RIPC_SOURCE_HINT, .id = 8, .incarnation = 4});
	ck_assert_int_eq(noted_next(world)->what, 'm');
	ck_assert_int_eq(lookup(world, 8), -EINPROGRESS);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		exact__decides_without_rounds,
		exact__list_without_hosts_is_not_waited_for,
		exact__is_not_asked_before_it_decides, exact__holder_that_answers_keeps_the_id,
		exact__silent_holder_is_awaited, exact__silent_holder_keeps_it_in_the_end,
		exact__proven_end_displaces, exact__away_is_waited_for,
		exact__private_id_does_not_wait, exact__refusal_is_told,
		exact__private_id_may_be_refused, exact__lost_is_a_conflict,
		exact__withdrawn_while_it_is_stored, exact__nobody_ends_a_lookup,
		exact__nobody_does_not_end_it_where_the_name_is_bound,
		exact__silence_of_the_source_is_no_no, exact__holder_that_is_silent,
		exact__hint_makes_the_next_lookup_ask,
	};
	TCase *tcase = tcase_create("exact");

	tcase_add_checked_fixture(tcase, setup, teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	return suite_finish("resolver_exact", tcase);
}
