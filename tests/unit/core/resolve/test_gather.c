/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups in the resolver: gathering members, what forgers can cause there, and being a member. */
#include "core/wire/record.h"
#include "resolver_world.h"

#define GROUP (0xffull << 56 | 0x6007)
#define NAME  (1ull << 63)

/* ---- a home source that knows names ------------------------------------------------------ */

static uint64_t names[64];
static uint32_t n_names, n_joined, n_left;

static int names_join(void *at, uint64_t group, uint64_t incarnation)
{
	(void)at;
	(void)group;
	(void)incarnation;
	n_joined++;
	return 0;
}

static void names_leave(void *at, uint64_t group, uint64_t incarnation)
{
	(void)at;
	(void)group;
	(void)incarnation;
	n_left++;
}

static int names_list(void *at, uint64_t group, void (*found)(void *arg, uint64_t name), void *arg)
{
	(void)at;
	(void)group;
	for (uint32_t i = 0; i < n_names; i++)
		found(arg, names[i]);
	return 0;
}

static int names_ask(void *at, uint64_t group, uint64_t name, const void *data, size_t len)
{
	(void)name;
	record_sent(at, ASK, group, NULL, data, len);
	return 1;
}

static const struct ripc__source names_source = {.name = "home", .size = sizeof(struct fake_state),
	.open = home_open, .close = fake_close, .publish = fake_publish,
	.withdraw = fake_withdraw, .ask = fake_ask, .reply = fake_reply, .poll = fake_poll,
	.wait_fd = fake_wait_fd, .list = fake_list,
	.group = {names_join, names_leave, names_list, names_ask}};
static const struct ripc__source *const sources[] = {&names_source, &net_source, NULL};

/* An exact source, which lists names of all hosts. */
static uint64_t far[8];
static uint32_t n_far;
static int list_status, join_status;

static int listed_join(void *at, uint64_t group, uint64_t incarnation)
{
	return join_status ? join_status : names_join(at, group, incarnation);
}

static int listed_list(void *at, uint64_t group, void (*found)(void *arg, uint64_t name), void *arg)
{
	(void)at;
	(void)group;
	for (uint32_t i = 0; i < n_far && !list_status; i++)
		found(arg, far[i]);
	return list_status;
}

static const struct ripc__source listing_source = {.name = "exact", .exact = true,
	.size = sizeof(struct fake_state), .open = net_open, .close = fake_close,
	.publish = fake_publish, .withdraw = fake_withdraw, .ask = fake_ask, .reply = fake_reply,
	.poll = fake_poll, .wait_fd = fake_wait_fd,
	.group = {listed_join, names_leave, listed_list, names_ask}};
static const struct ripc__source *const exact_sources[] = {&names_source, &listing_source, NULL};

static struct world *world;

static void setup_exact(void)
{
	world_close(world);
	n_far = 0;
	list_status = join_status = 0;
	world = world_new();
	ck_assert_int_eq(world_open_with(world, exact_sources), 0);
}

static void list_is(int status, uint32_t n)
{
	struct fake *fake = &world->fakes[NET];

	list_status = status;
	n_far = n;
	fake->arriving[fake->n_arriving++ % ARRIVE_MAX].event = (struct ripc__source_event){
		.kind = RIPC_SOURCE_HINT, .id = GROUP};
	step(world);
}

static void setup(void)
{
	n_names = n_joined = n_left = 0;
	world = world_new();
	ck_assert_int_eq(world_open_with(world, sources), 0);
}

static void teardown(void)
{
	world_close(world);
}

static int gather(void)
{
	struct gathering *gathering;

	return ripc__resolver_gather(world->resolver, GROUP, world->now_us, &gathering);
}

static const struct gathering *gathered(void)
{
	struct gathering *gathering;

	ck_assert_int_ne(ripc__resolver_gather(world->resolver, GROUP, world->now_us, &gathering),
		-ENOMEM);
	return gathering;
}

/* How many members there are; *last is one of them. */
static uint32_t members(struct ripc__member *last)
{
	const struct gathering *gathering = gathered();
	uint32_t n = 0;

	for (uint32_t i = 0; i < ripc__gathering_places(gathering); i++) {
		const struct ripc__member *member = ripc__gathering_at(gathering, i);

		n += member != NULL;
		if (member && last)
			*last = *member;
	}
	return n;
}

static bool is_member(uint64_t incarnation)
{
	const struct gathering *gathering = gathered();
	bool is = false;

	for (uint32_t i = 0; i < ripc__gathering_places(gathering); i++) {
		const struct ripc__member *member = ripc__gathering_at(gathering, i);

		is |= member && member->incarnation == incarnation;
	}
	return is;
}

/* Lets the time pass, as a sender of the group does. */
static void pass_in_use(uint64_t us)
{
	for (uint64_t end_us = world->now_us + us; world->now_us < end_us;) {
		gather();
		pass(world, 50 * MS);
	}
}

/* Bytes that went to the network since the last time. */
static uint64_t bytes_sent(void)
{
	uint64_t bytes = 0;

	while (sent_count(world, NET))
		bytes += sent_next(world, NET)->len;
	return bytes;
}

static uint32_t asked(int source)
{
	uint32_t n = 0;

	while (sent_count(world, source))
		n += sent_next(world, source)->packet.record.id == GROUP;
	return n;
}

static void named(uint64_t id, uint64_t incarnation, uint8_t host)
{
	answer(world, NET, host, asked_nonce(world, NET, GROUP),
		record_of(GROUP, incarnation, id));
}

/* ---- gathering --------------------------------------------------------------------------- */

START_TEST(gather__asks_three_times)
{
	ck_assert_int_eq(gather(), -EINPROGRESS);
	pass(world, 59 * MS);
	ck_assert_uint_eq(asked(NET), 3);
	ck_assert_uint_eq(noted_count(world), 0);
	pass(world, 1 * MS);
	ck_assert_int_eq(noted_next(world)->what, 'g');
	ck_assert_int_eq(gather(), 0);
	ck_assert_uint_eq(members(NULL), 0);
	pass_in_use(900 * MS);
	ck_assert_uint_eq(asked(NET), 0);
	pass_in_use(9000 * MS);
	ck_assert_uint_eq(asked(NET), 3);
	pass_in_use(2000 * MS);
	ck_assert_uint_eq(asked(NET), 3);
}
END_TEST

/* A group that is not in use any more costs nothing, and is forgotten. */
START_TEST(gather__unused_is_forgotten)
{
	gather();
	pass(world, 3000 * MS);
	sent_skip(world);
	pass(world, 120000 * MS);
	ck_assert_uint_eq(asked(NET), 0);
	ck_assert_int_eq(gather(), -EINPROGRESS);
}
END_TEST

/* The host that has named a member is asked first who that is. */
START_TEST(gather__all_who_answer)
{
	struct ripc__member member = {0};
	const struct sent *sent;

	gather();
	named(100, 7, 1);
	ck_assert_uint_eq(members(&member), 1);
	ck_assert_uint_eq(member.id, 100);
	ck_assert_uint_eq(member.incarnation, 7);
	do {
		sent = sent_next(world, NET);
		ck_assert_ptr_nonnull(sent);
	} while (sent->packet.record.id != 100);
	ck_assert_int_eq(sent->kind, ASK_HOST);
	named(101, 8, 2);
	named(100, 7, 1); /* said again */
	ck_assert_uint_eq(members(NULL), 2);
	ripc__resolver_expel(world->resolver, GROUP, 7);
	ck_assert_uint_eq(members(&member), 1);
	ck_assert_uint_eq(member.id, 101);
}
END_TEST

START_TEST(gather__forged_answers)
{
	struct ripc__member member = {0};

	gather();
	named(100, 7, 1);
	named(200, 7, 2); /* another service has that incarnation, says somebody */
	answer(world, NET, 3, 12345, record_of(GROUP, 9, 300));
	answer(world, NET, 3, asked_nonce(world, NET, GROUP), record_of(GROUP ^ 1, 9, 300));
	ck_assert_uint_eq(members(&member), 1);
	ck_assert_uint_eq(member.id, 100);
	ck_assert_uint_eq(stats(world).dropped, 3);
}
END_TEST

/* In 5 s: what outsiders may cause, and our own three rounds every 10 s. */
static void check_caused(uint64_t bytes)
{
	ck_assert_uint_le(bytes, 5 * 31250 + 25000 + 5 * WIRE_RECORD_MAX);
}

/*
 * A host that names ever new members, from any address, causes no more queries than any outsider.
 */
START_TEST(gather__flood_of_members)
{
	uint64_t bytes = 0;

	gather();
	pass(world, 100 * MS);
	bytes_sent();
	for (uint64_t i = 1; i <= 10000; i++) {
		named(1000000 + i, 5000000 + i, (uint8_t)i);
		if (i % 2 == 0) {
			world->now_us += 1 * MS;
			step(world);
			gather();
		}
		bytes += bytes_sent();
	}
	ck_assert_uint_gt(bytes, 25000);
	check_caused(bytes);
	ck_assert_uint_eq(ripc__gathering_places(gathered()), 4096);
}
END_TEST

/* A host that fills all places excludes neither the members of this host, nor those of another. */
START_TEST(gather__flood_keeps_nobody_out)
{
	gather();
	pass(world, 100 * MS);
	for (uint64_t i = 1; i <= 5000; i++)
		named(1000000 + i, 5000000 + i, 1);
	names[n_names++] = 7 | NAME;
	gather();
	pass(world, 100 * MS);
	ck_assert_uint_ge(asked(HOME), 1);
	answer(world, HOME, 1, asked_nonce(world, HOME, GROUP), record_of(GROUP, 7, 100));
	ck_assert(is_member(7));
	named(101, 8, 2);
	ck_assert(is_member(8));
}
END_TEST

START_TEST(gather__flood_of_notices)
{
	struct wire_resolve notice;
	uint64_t bytes = 0;

	gather();
	pass(world, 100 * MS);
	bytes_sent();
	for (uint64_t i = 1; i <= 5000; i++) {
		notice = record_of(GROUP, 5000000 + i, 1000 + i);
		arrive(world, NET, (uint8_t)i, &notice);
		gather();
		pass(world, 1 * MS);
		bytes += bytes_sent();
	}
	ck_assert_uint_gt(bytes, 0);
	check_caused(bytes);
	ck_assert_uint_eq(members(NULL), 0);
}
END_TEST

/* A notice alone is not believed: neither of one that comes, nor of one that goes. */
START_TEST(gather__notices_lead_to_queries)
{
	struct wire_resolve notice = record_of(GROUP, 7, 100);
	struct wire_resolve gone = {.type = WIRE_WITHDRAWN, .asker = OTHER,
		.record = {.id = GROUP, .incarnation = 7}};

	gather();
	pass(world, 100 * MS);
	sent_skip(world);
	arrive(world, NET, 1, &notice);
	step(world);
	ck_assert_uint_eq(members(NULL), 0);
	ck_assert_uint_ge(asked(NET), 1);
	named(100, 7, 1);
	ck_assert_uint_eq(members(NULL), 1);
	pass(world, 200 * MS);
	arrive(world, NET, 2, &gone);
	step(world);
	ck_assert_uint_eq(members(NULL), 1);
	named(100, 7, 1); /* the name was a lie */
	pass_in_use(200 * MS);
	ck_assert_uint_eq(members(NULL), 1);
	arrive(world, NET, 2, &gone);
	pass_in_use(200 * MS);
	ck_assert_uint_eq(members(NULL), 0);
}
END_TEST

static void hears_of(uint64_t id, uint64_t incarnation)
{
	struct wire_resolve notice = record_of(GROUP, incarnation, id);

	arrive(world, NET, 1, &notice);
	step(world);
}

/* A member joins, and nothing of it is heard; queried in the first 300 ms, and after them. */
static void joiner_is_silent(void)
{
	gather();
	pass_in_use(2000 * MS);
	sent_skip(world);
	hears_of(100, 7);
	ck_assert_uint_eq(asked(NET), 1);
	pass_in_use(300 * MS);
	ck_assert_uint_ge(asked(NET), 2);
	pass_in_use(1500 * MS);
	ck_assert_uint_le(asked(NET), 4);
}

/* The query, or its answer, may be lost: who joins is asked for until it answers. */
START_TEST(gather__joiner_is_asked_for_again)
{
	joiner_is_silent();
	hears_of(100, 7);
	named(100, 7, 1);
	pass(world, 30 * MS);
	sent_skip(world);
	pass_in_use(1500 * MS);
	ck_assert_uint_le(asked(NET), 1); /* there may be more news */
	ck_assert_uint_eq(members(NULL), 1);
}
END_TEST

START_TEST(gather__joiner_leaves_at_once)
{
	struct wire_resolve gone = {.type = WIRE_WITHDRAWN, .asker = OTHER,
		.record = {.id = GROUP, .incarnation = 7}};

	joiner_is_silent();
	pass_in_use(1000 * MS); /* the query is given up */
	ck_assert_uint_eq(asked(NET), 0);
	hears_of(100, 7);
	ck_assert_uint_eq(asked(NET), 1);
	arrive(world, NET, 1, &gone);
	pass_in_use(1500 * MS);
	ck_assert_uint_eq(asked(NET), 0);
	ck_assert_uint_eq(members(NULL), 0);
}
END_TEST

/* A host that has used up its budget is queried as soon as there is some again. */
START_TEST(gather__notices_wait_for_the_budget)
{
	struct wire_resolve notice;

	gather();
	pass_in_use(2000 * MS);
	for (uint64_t i = 1; i <= 10; i++) {
		notice = record_of(GROUP, 5000 + i, 1000 + i);
		arrive(world, NET, 1, &notice);
		pass_in_use(50 * MS);
	}
	sent_skip(world);
	notice = record_of(GROUP, 7, 100);
	arrive(world, NET, 1, &notice);
	step(world);
	ck_assert_uint_eq(asked(NET), 0);
	pass_in_use(1000 * MS);
	ck_assert_uint_ge(asked(NET), 1);
}
END_TEST

/* The same for one that goes: it is asked for three times, however long that takes. */
START_TEST(gather__withdrawals_wait_for_the_budget)
{
	struct wire_resolve notice, gone = {.type = WIRE_WITHDRAWN, .asker = OTHER,
		.record = {.id = GROUP, .incarnation = 7}};

	gather();
	named(100, 7, 1);
	pass_in_use(2000 * MS);
	for (uint64_t i = 1; i <= 10; i++) {
		notice = record_of(GROUP, 5000 + i, 1000 + i);
		arrive(world, NET, 1, &notice);
		pass_in_use(50 * MS);
	}
	arrive(world, NET, 1, &gone);
	step(world);
	ck_assert_uint_eq(members(NULL), 1);
	pass_in_use(3000 * MS);
	ck_assert_uint_eq(members(NULL), 0);
}
END_TEST

START_TEST(gather__silent_one_elsewhere_goes)
{
	gather();
	named(100, 7, 1);
	pass_in_use(9000 * MS);
	ck_assert_uint_eq(members(NULL), 1);
	pass_in_use(25000 * MS);
	ck_assert_uint_eq(members(NULL), 0);
}
END_TEST

/* ---- members in doubt -------------------------------------------------------------------- */

static bool doubt(uint64_t incarnation)
{
	return ripc__resolver_doubt(world->resolver, GROUP, incarnation, world->now_us);
}

/* A sender meets silence: the member is asked at once, in three refreshes, and goes. */
START_TEST(doubt__silent_one_goes_soon)
{
	gather();
	named(100, 7, 1);
	named(101, 8, 2);
	pass_in_use(2000 * MS);
	sent_skip(world);
	ck_assert(doubt(7));
	ck_assert(!doubt(9)); /* no member */
	pass_in_use(300 * MS);
	ck_assert(is_member(7));
	pass_in_use(300 * MS);
	ck_assert(!is_member(7));
	ck_assert_uint_eq(asked(NET), 9);
	ck_assert(is_member(8)); /* nobody has doubted it: it may be far away */
	ck_assert(!doubt(7));
}
END_TEST

START_TEST(doubt__answer_ends_it)
{
	gather();
	named(100, 7, 1);
	pass_in_use(2000 * MS);
	sent_skip(world);
	ck_assert(doubt(7));
	pass_in_use(50 * MS);
	named(100, 7, 1);
	ck_assert(doubt(7)); /* too soon after the last one */
	pass_in_use(2000 * MS);
	ck_assert(is_member(7));
	ck_assert_uint_le(asked(NET), 6);
	ck_assert(doubt(7));
	pass_in_use(600 * MS);
	ck_assert(!is_member(7));
}
END_TEST

/* A member that went by mistake is found again soon: the next refreshes are not far. */
START_TEST(doubt__gone_one_comes_back)
{
	gather();
	named(100, 7, 1);
	pass_in_use(2000 * MS);
	doubt(7);
	pass_in_use(600 * MS);
	ck_assert(!is_member(7));
	sent_skip(world);
	pass_in_use(1100 * MS);
	ck_assert_uint_eq(asked(NET), 3);
	named(100, 7, 1);
	ck_assert(is_member(7));
}
END_TEST

/* An answer to a query of before it went is late: it is asked anew whether it lives. */
START_TEST(doubt__late_answer_is_not_believed)
{
	uint64_t nonce;

	gather();
	named(100, 7, 1);
	named(101, 8, 2);
	pass_in_use(2000 * MS);
	nonce = asked_nonce(world, NET, GROUP);
	doubt(7);
	pass_in_use(600 * MS);
	ck_assert(!is_member(7));
	sent_skip(world);
	answer(world, NET, 1, nonce, record_of(GROUP, 7, 100));
	ck_assert(!is_member(7));
	/* members that have not gone are believed */
	answer(world, NET, 2, nonce, record_of(GROUP, 9, 102));
	ck_assert(is_member(9));
	pass(world, 20 * MS);
	named(100, 7, 1);
	ck_assert(is_member(7));
	ripc__resolver_expel(world->resolver, GROUP, 8);
	answer(world, NET, 2, nonce, record_of(GROUP, 8, 101));
	ck_assert(!is_member(8));
}
END_TEST

/* Also where many have gone at once. */
START_TEST(doubt__late_answers_of_a_dead_host)
{
	uint64_t nonce;

	gather();
	for (uint64_t i = 0; i < 20; i++)
		named(100 + i, 7 + i, 1);
	pass_in_use(2000 * MS);
	nonce = asked_nonce(world, NET, GROUP);
	for (uint64_t i = 0; i < 20; i++)
		doubt(7 + i);
	pass_in_use(600 * MS);
	ck_assert_uint_eq(members(NULL), 0);
	for (uint64_t i = 0; i < 20; i++)
		answer(world, NET, 1, nonce, record_of(GROUP, 7 + i, 100 + i));
	ck_assert_uint_eq(members(NULL), 0);
}
END_TEST

/* A service that has begun anew, and joined, casts doubt on its dead self. */
START_TEST(doubt__same_id_twice)
{
	gather();
	named(100, 7, 1);
	named(101, 8, 2);
	pass_in_use(2000 * MS);
	named(100, 9, 1);
	named(101, 10, 3);
	ck_assert_uint_eq(members(NULL), 4);
	pass_in_use(100 * MS);
	named(101, 8, 2); /* two hold this ID */
	pass_in_use(900 * MS);
	ck_assert(!is_member(7));
	ck_assert(is_member(8));
	ck_assert(is_member(9));
	ck_assert(is_member(10));
}
END_TEST

/* A member with a name on this host is removed with its name, and not before. */
START_TEST(doubt__names_are_known_better)
{
	names[n_names++] = 7 | NAME;
	gather();
	pass(world, 20 * MS);
	answer(world, HOME, 1, asked_nonce(world, HOME, GROUP), record_of(GROUP, 7, 100));
	pass_in_use(2000 * MS);
	ck_assert(doubt(7));
	sent_skip(world);
	pass_in_use(1000 * MS);
	ck_assert(is_member(7));
	ck_assert_uint_eq(asked(NET), 0);
}
END_TEST

/* Without anybody to ask nothing is learnt, and the doubt ends. */
START_TEST(doubt__nobody_can_be_asked)
{
	gather();
	named(100, 7, 1);
	pass_in_use(2000 * MS);
	world->fakes[NET].ask_result = 0;
	ck_assert(doubt(7));
	pass_in_use(5000 * MS);
	ck_assert(is_member(7));
}
END_TEST

static int place(uint64_t incarnation, const struct ripc__answer **found)
{
	return ripc__resolver_place(world->resolver, GROUP, incarnation, world->now_us, found);
}

static uint32_t asked_for(uint64_t id)
{
	uint32_t n = 0;

	while (sent_count(world, NET))
		n += sent_next(world, NET)->packet.record.id == id;
	return n;
}

/* Two have one ID: each answers for itself, and the word of one is not that of the other. */
START_TEST(place__of_two_holders)
{
	const struct ripc__answer *found = NULL;
	uint64_t nonce;

	gather();
	named(100, 7, 1);
	named(100, 9, 2);
	ck_assert_int_eq(place(8, &found), -ENOENT);
	ck_assert_int_eq(place(7, &found), -EINPROGRESS);
	pass(world, 40 * MS);
	nonce = asked_nonce(world, NET, 100);
	answer(world, NET, 2, nonce, record_of(100, 9, 20));
	ck_assert_int_eq(place(7, &found), -EINPROGRESS);
	answer(world, NET, 1, nonce, record_of(100, 7, 10)); /* older: not what the ID means */
	ck_assert_int_eq(place(7, &found), 0);
	ck_assert_uint_eq(found->record.incarnation, 7);
	ck_assert_uint_eq(found->record.id, 100);
	ck_assert_uint_eq(found->host[15], 1);
	ck_assert_int_eq(place(9, &found), -EINPROGRESS); /* its answer was not wanted then */
	answer(world, NET, 2, asked_nonce(world, NET, 100), record_of(101, 9, 20));
	ck_assert_int_eq(place(9, &found), -EINPROGRESS);
}
END_TEST

/* The group is queried as long as it is wanted, but waited for only a second; and not often. */
START_TEST(place__of_a_silent_one)
{
	const struct ripc__answer *found;
	uint32_t n = 0;

	gather();
	named(100, 7, 1);
	pass_in_use(1500 * MS);
	sent_skip(world);
	for (uint32_t i = 0; i < 19; i++) {
		ck_assert_int_eq(place(7, &found), -EINPROGRESS);
		pass_in_use(50 * MS);
	}
	ck_assert_uint_ge(asked_for(100), 3);
	pass_in_use(100 * MS);
	for (uint32_t i = 0; i < 200; i++) {
		ck_assert_int_eq(place(7, &found), -EAGAIN);
		pass_in_use(50 * MS);
		n += asked_for(100);
	}
	ck_assert_uint_ge(n, 10);
	ck_assert_uint_le(n, 150);
}
END_TEST

/* ---- this host --------------------------------------------------------------------------- */

START_TEST(gather__names_of_this_host)
{
	struct ripc__member member = {0};

	names[n_names++] = 7 | NAME;
	ck_assert_int_eq(gather(), -EINPROGRESS);
	ck_assert_uint_eq(asked(HOME), 1);
	answer(world, HOME, 1, asked_nonce(world, HOME, GROUP), record_of(GROUP, 7, 100));
	ck_assert_uint_eq(members(&member), 1);
	ck_assert_uint_eq(member.id, 100);
	names[n_names++] = 8 | NAME;
	pass_in_use(100 * MS);
	ck_assert_uint_ge(asked(HOME), 1);
	ck_assert_uint_eq(members(NULL), 1);
	answer(world, HOME, 1, asked_nonce(world, HOME, GROUP), record_of(GROUP, 8, 101));
	ck_assert_uint_eq(members(NULL), 2);
	names[0] = names[--n_names];
	pass_in_use(100 * MS);
	ck_assert_uint_eq(members(&member), 1);
	ck_assert_uint_eq(member.id, 101);
	ck_assert_uint_eq(asked(HOME), 0);
}
END_TEST

/* A name that nobody answers for is waited for only a little, and asked once in a second. */
START_TEST(gather__silent_name)
{
	uint32_t n;

	names[n_names++] = 7 | NAME;
	gather();
	pass(world, 150 * MS);
	ck_assert_int_eq(gather(), -EINPROGRESS);
	pass(world, 100 * MS);
	ck_assert_int_eq(gather(), 0);
	asked(HOME);
	pass_in_use(5000 * MS);
	n = asked(HOME);
	ck_assert(n >= 4 && n <= 6);
	ck_assert_uint_eq(members(NULL), 0);
}
END_TEST

/* ---- an exact source --------------------------------------------------------------------- */

/* Nothing else is asked; as long as the source cannot say its names, who is known stays. */
START_TEST(exact__lists_members)
{
	struct ripc__member member = {0};

	setup_exact();
	far[0] = 7 | NAME;
	list_status = -EINPROGRESS;
	ck_assert_int_eq(gather(), -EINPROGRESS);
	pass(world, 200 * MS);
	ck_assert_int_eq(gather(), -EINPROGRESS);
	ck_assert_uint_eq(asked(NET), 0);
	list_is(0, 1);
	pass(world, 10 * MS);
	ck_assert_uint_eq(asked(NET), 1);
	answer(world, NET, 1, asked_nonce(world, NET, GROUP), record_of(GROUP, 7, 100));
	ck_assert_int_eq(gather(), 0);
	ck_assert_uint_eq(members(&member), 1);
	ck_assert_uint_eq(member.id, 100);
	ck_assert_uint_eq(asked(NET), 0);
	list_is(-EHOSTUNREACH, 0);
	pass_in_use(30000 * MS);
	ck_assert_uint_eq(members(NULL), 1);
	list_is(0, 0);
	pass_in_use(10 * MS);
	ck_assert_uint_eq(members(NULL), 0);
}
END_TEST

START_TEST(exact__not_listed_is_not_believed)
{
	setup_exact();
	far[0] = 7 | NAME;
	n_far = 1;
	gather();
	answer(world, NET, 1, asked_nonce(world, NET, GROUP), record_of(GROUP, 8, 100));
	ck_assert_uint_eq(members(NULL), 0);
	ck_assert_uint_eq(stats(world).dropped, 1);
}
END_TEST

/* Its address may be anybody's: so it is asked ever more seldom. */
START_TEST(exact__silent_name_is_asked_seldom)
{
	uint32_t n;

	setup_exact();
	far[0] = 7 | NAME;
	n_far = 1;
	gather();
	pass_in_use(1000 * MS);
	ck_assert_int_eq(gather(), 0);
	asked(NET);
	pass_in_use(62000 * MS);
	n = asked(NET);
	ck_assert(n >= 4 && n <= 6);
	ck_assert_uint_eq(members(NULL), 0);
}
END_TEST

/* The kernel reports whether a member on this host lives. */
START_TEST(exact__own_host_knows_better)
{
	setup_exact();
	names[n_names++] = far[n_far++] = 7 | NAME;
	gather();
	ck_assert_uint_eq(asked(HOME), 1);
	ck_assert_uint_eq(asked(NET), 0);
	answer(world, HOME, 1, asked_nonce(world, HOME, GROUP), record_of(GROUP, 7, 100));
	ck_assert_uint_eq(members(NULL), 1);
	n_names = 0;
	pass_in_use(100 * MS);
	ck_assert_uint_eq(members(NULL), 0);
}
END_TEST

START_TEST(exact__all_sources_are_joined_or_none)
{
	const struct ripc__member member = {100, 7};

	setup_exact();
	own_add(world, member.id, member.incarnation, 1);
	join_status = -EIO;
	ck_assert_int_eq(ripc__resolver_join(world->resolver, GROUP, &member, 1), -EIO);
	ck_assert_uint_eq(n_joined, 1);
	ck_assert_uint_eq(n_left, 1);
	join_status = 0;
	ck_assert_int_eq(ripc__resolver_join(world->resolver, GROUP, &member, world->now_us), 0);
	ck_assert_uint_eq(n_joined, 3);
	ripc__resolver_leave(world->resolver, GROUP, member.incarnation);
	ck_assert_uint_eq(n_left, 3);
}
END_TEST

/* ---- being a member ---------------------------------------------------------------------- */

static void join(uint64_t id, uint64_t incarnation)
{
	const struct ripc__member member = {id, incarnation};

	own_add(world, id, incarnation, 1);
	ck_assert_int_eq(ripc__resolver_join(world->resolver, GROUP, &member, world->now_us), 0);
}

START_TEST(join__is_announced)
{
	const struct sent *sent;

	join(100, 7);
	ck_assert_uint_eq(n_joined, 1);
	for (int i = 0; i < 5; i++) {
		ck_assert_uint_eq(sent_count(world, NET), 1);
		sent = sent_next(world, NET);
		ck_assert_int_eq(sent->kind, NOTIFY);
		ck_assert_uint_eq(sent->packet.record.id, GROUP);
		ck_assert_uint_eq(sent->packet.record.incarnation, 7);
		ck_assert_uint_eq(sent->packet.record.stamp, 100);
		pass(world, (uint64_t)(20 << i) * MS); /* 20, 40, 80, 160 */
	}
	pass(world, 4000 * MS);
	ck_assert_uint_eq(sent_count(world, NET), 1);
	ck_assert_int_eq(sent_next(world, NET)->packet.type, WIRE_DIGEST);
	ck_assert_uint_eq(members(NULL), 1);
	sent_skip(world);
	ripc__resolver_leave(world->resolver, GROUP, 7);
	ck_assert_uint_eq(n_left, 1);
	ck_assert_int_eq(sent_next(world, NET)->packet.type, WIRE_WITHDRAWN);
	ck_assert_uint_eq(members(NULL), 0);
	ripc__resolver_leave(world->resolver, GROUP, 7);
	ck_assert_uint_eq(n_left, 1);
}
END_TEST

/* Each query gets no more bytes than it has, and all members are told of in turn. */
START_TEST(join__all_answer_in_turn)
{
	struct wire_resolve query = {.type = WIRE_QUERY, .nonce = 5, .asker = OTHER,
		.record.id = GROUP};
	bool seen[40] = {false};
	uint32_t n = 0;

	for (uint64_t i = 0; i < 40; i++)
		join(100 + i, 200 + i);
	for (int round = 0; round < 8; round++) {
		uint64_t bytes = 0;

		sent_skip(world);
		arrive(world, NET, 1, &query)->event.group = true;
		step(world);
		while (sent_count(world, NET)) {
			const struct sent *sent = sent_next(world, NET);

			ck_assert_int_eq(sent->kind, REPLY);
			ck_assert_uint_eq(sent->packet.nonce, 5);
			seen[sent->packet.record.incarnation - 200] = true;
			bytes += sent->len;
		}
		ck_assert_uint_gt(bytes, 0);
		ck_assert_uint_le(bytes, WIRE_RECORD_MAX);
	}
	for (int i = 0; i < 40; i++)
		n += seen[i];
	ck_assert_uint_eq(n, 40);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		gather__asks_three_times, gather__unused_is_forgotten, gather__all_who_answer,
		gather__forged_answers, gather__flood_of_members, gather__flood_keeps_nobody_out,
		gather__flood_of_notices,
		gather__notices_lead_to_queries, gather__joiner_is_asked_for_again,
		gather__joiner_leaves_at_once, gather__notices_wait_for_the_budget,
		gather__withdrawals_wait_for_the_budget, gather__silent_one_elsewhere_goes,
		doubt__silent_one_goes_soon,
		doubt__answer_ends_it,
		doubt__gone_one_comes_back,
		doubt__late_answer_is_not_believed,
		doubt__late_answers_of_a_dead_host,
		doubt__same_id_twice,
		doubt__names_are_known_better,
		doubt__nobody_can_be_asked,
		place__of_two_holders,
		place__of_a_silent_one,
		gather__names_of_this_host, gather__silent_name, exact__lists_members,
		exact__not_listed_is_not_believed, exact__silent_name_is_asked_seldom,
		exact__own_host_knows_better, exact__all_sources_are_joined_or_none,
		join__is_announced,
		join__all_answer_in_turn, NULL,
	};

	return suite_run_between("gather", tests, setup, teardown);
}
