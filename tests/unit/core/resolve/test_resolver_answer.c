/* SPDX-License-Identifier: BSD-3-Clause */
/* The resolver: answering for itself and for its host. */
#include "core/wire/record.h"
#include "resolver_world.h"

#define ID    0xabc
#define ASKER 0xa5ce4
#define NONCE 0x4042

static struct world *world;

static void setup(void)
{
	world = world_open();
}

static void teardown(void)
{
	world_close(world);
}

static struct wire_resolve query_about(uint64_t id)
{
	return (struct wire_resolve){.type = WIRE_QUERY, .nonce = NONCE, .asker = ASKER,
		.record.id = id};
}

static void ask_from(uint8_t host, int source, uint64_t id, bool group)
{
	const struct wire_resolve query = query_about(id);

	arrive(world, source, host, &query)->event.group = group;
	step(world);
}

/* Somebody asks; group: by multicast. */
static void ask(int source, uint64_t id, bool group)
{
	ask_from(9, source, id, group);
}

/* ---- for ourselves ----------------------------------------------------------------------- */

START_TEST(query__is_answered_to_whom_it_came_from)
{
	const struct sent *sent;

	own_publish(world, ID, 5, 100);
	ask(NET, ID, true);
	ck_assert_uint_eq(sent_count(world, NET), 1);
	sent = sent_next(world, NET);
	ck_assert_int_eq(sent->kind, REPLY);
	ck_assert_uint_eq(sent->to.blob[0], 9);
	ck_assert_int_eq(sent->packet.type, WIRE_RECORD);
	ck_assert_uint_eq(sent->packet.nonce, NONCE);
	ck_assert_uint_eq(sent->packet.record.id, ID);
	ck_assert_uint_eq(sent->packet.record.incarnation, 5);
	ck_assert_uint_eq(world->proof_asker, ASKER);
	ck_assert_uint_eq(world->proof_host[15], 9);
	ck_assert_uint_eq(sent->packet.proof, owner_proof(world, ASKER, world->proof_host));
	ck_assert_uint_eq(stats(world).queries_answered, 1);
	ck_assert_uint_le(sent->len, WIRE_RECORD_MAX);
}
END_TEST

START_TEST(query__of_our_own_is_ignored)
{
	struct wire_resolve query = query_about(ID);

	own_publish(world, ID, 5, 100);
	query.asker = SELF;
	arrive(world, NET, 9, &query)->event.group = true;
	arrive(world, HOME, 9, &query);
	step(world);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(sent_count(world, HOME), 0);
	ck_assert_uint_eq(stats(world).dropped, 0);
}
END_TEST

START_TEST(query__about_what_is_not_here_is_not_answered)
{
	own_add(world, ID, 5, 100);
	ask(NET, ID, true); /* not published yet */
	publish(world, ID, false);
	sent_skip(world);
	ask(NET, ID, true); /* asking whether others have it */
	ask(NET, ID + 1, true);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	pass(world, 100 * MS);
	world->n_own = 0; /* draining */
	sent_skip(world);
	ask(NET, ID, true);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

START_TEST(query__without_nonce_or_asker_is_dropped)
{
	struct wire_resolve query = query_about(ID);

	own_publish(world, ID, 5, 100);
	query.nonce = 0;
	arrive(world, NET, 9, &query);
	query = query_about(ID);
	query.asker = 0;
	arrive(world, NET, 9, &query);
	step(world);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(stats(world).dropped, 2);
}
END_TEST

START_TEST(query__shorter_than_an_answer_is_dropped)
{
	const struct wire_resolve query = query_about(ID);
	uint8_t data[WIRE_RECORD_MAX];
	size_t len = wire_resolve_encode(data, &query);

	own_publish(world, ID, 5, 100);
	arrive_bytes(world, NET, 9, data, len - 1);
	step(world);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(stats(world).dropped, 1);
}
END_TEST

START_TEST(query__flood_is_answered_20000_times_a_second)
{
	uint32_t answered;

	own_publish(world, ID, 5, 100);
	for (int ms = 0; ms < 1000; ms++) {
		for (uint8_t i = 0; i < 50; i++)
			ask_from(i, NET, ID, true);
		pass(world, 1 * MS);
	}
	answered = sent_count(world, NET);
	ck_assert_uint_ge(answered, 20000);
	ck_assert_uint_le(answered, 30001); /* the second's 20,000, and the bucket was full */
	ck_assert_uint_eq(stats(world).dropped, 50000 - answered);
	pass(world, 1000 * MS);
	sent_skip(world);
	ask(NET, ID, true);
	ck_assert_uint_eq(sent_count(world, NET), 1);
}
END_TEST

START_TEST(query__one_host_gets_half_of_the_answers)
{
	uint32_t answered;

	own_publish(world, ID, 5, 100);
	for (int ms = 0; ms < 1000; ms++) {
		for (int i = 0; i < 30; i++)
			ask_from(66, NET, ID, true);
		pass(world, 1 * MS);
	}
	answered = sent_count(world, NET);
	ck_assert_uint_ge(answered, 10000);
	ck_assert_uint_le(answered, 15001);
	ask_from(9, NET, ID, true);
	ck_assert_uint_eq(sent_count(world, NET), answered + 1);
}
END_TEST

/* The processes of our own user on this host could do with us what they like anyway. */
START_TEST(query__those_of_this_host_are_all_answered)
{
	own_publish(world, ID, 5, 100);
	for (int i = 0; i < 40000; i++)
		ask(HOME, ID, true);
	ck_assert_uint_eq(sent_count(world, HOME), 40000);
	ck_assert_uint_eq(stats(world).dropped, 0);
}
END_TEST

/* Its number was drawn at random: who has not been told it does not get it. */
START_TEST(query__private_ids_are_not_listed_to_other_hosts)
{
	own_add(world, ID, 5, 100);
	publish(world, ID, true);
	world->fakes[HOME].listed[world->fakes[HOME].n_listed++] = PRIVATE + 1;
	world->fakes[HOME].ask_result = 1;
	sent_skip(world);
	ask(NET, 0, true);
	ask(NET, 0, false);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(sent_count(world, HOME), 0);
	ask(HOME, 0, false);
	ck_assert_uint_eq(sent_count(world, HOME), 1);
	ask(NET, ID, true);
	ck_assert_uint_eq(sent_count(world, NET), 1);
}
END_TEST

START_TEST(query__what_is_there_gets_no_more_bytes_than_it_had)
{
	bool told[100] = {false};
	uint32_t n_told = 0;

	for (uint64_t id = 0; id < 100; id++) {
		own_add(world, 1 + id, 1000 + id, 100);
		publish(world, 1 + id, false);
	}
	for (int i = 0; i < 40; i++) {
		size_t bytes = 0;

		pass(world, 100 * MS);
		sent_skip(world);
		ask(NET, 0, true);
		ck_assert_uint_gt(sent_count(world, NET), 0);
		while (sent_count(world, NET)) {
			const struct sent *sent = sent_next(world, NET);

			bytes += sent->len;
			n_told += !told[sent->packet.record.id - 1];
			told[sent->packet.record.id - 1] = true;
		}
		ck_assert_uint_le(bytes, WIRE_RECORD_MAX);
	}
	ck_assert_uint_eq(n_told, 100); /* each call goes on where the last one ended */
}
END_TEST

START_TEST(query__what_is_there_on_this_host_tells_64)
{
	for (uint64_t id = 1; id <= 100; id++) {
		own_add(world, id, 1000 + id, 100);
		publish(world, id, true);
	}
	ask(HOME, 0, false);
	ck_assert_uint_eq(sent_count(world, HOME), 64);
}
END_TEST

START_TEST(query__what_is_there_when_nothing_is)
{
	ask(NET, 0, true);
	ask(HOME, 0, false);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(sent_count(world, HOME), 0);
}
END_TEST

/* ---- for our host ------------------------------------------------------------------------ */

START_TEST(relay__unicast_query_goes_round_the_host_and_back)
{
	const struct sent *sent;
	uint64_t nonce;

	world->fakes[HOME].ask_result = 1;
	ask(NET, ID, false);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	sent = sent_next(world, HOME);
	ck_assert_int_eq(sent->kind, ASK);
	ck_assert_uint_eq(sent->packet.record.id, ID);
	ck_assert_uint_eq(sent->packet.hops, 1);
	ck_assert_uint_eq(sent->packet.asker, ASKER);
	ck_assert_uint_eq(sent->packet.host[15], 9);
	nonce = sent->packet.nonce;
	ck_assert_uint_ne(nonce, NONCE);
	answer(world, HOME, 4, nonce, record_of(ID, 6, 100));
	sent = sent_next(world, NET);
	ck_assert_int_eq(sent->kind, REPLY);
	ck_assert_uint_eq(sent->to.blob[0], 9);
	ck_assert_uint_eq(sent->packet.nonce, NONCE);
	ck_assert_uint_eq(sent->packet.proof, 0x9900f);
	ck_assert_uint_eq(sent->packet.record.incarnation, 6);
	ck_assert_uint_eq(sent->packet.record.context, OTHER);
	answer(world, HOME, 4, nonce, record_of(ID, 6, 100));
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

START_TEST(relay__holder_proves_the_first_askers_address)
{
	struct wire_resolve query = query_about(ID);

	own_publish(world, ID, 5, 100);
	query.hops = 1;
	query.host[15] = 77;
	arrive(world, HOME, 4, &query);
	step(world);
	ck_assert_uint_eq(sent_count(world, HOME), 1);
	ck_assert_uint_eq(world->proof_host[15], 77);
	/* Only who is on this host is believed about another's address. */
	arrive(world, NET, 9, &query);
	step(world);
	ck_assert_uint_eq(world->proof_host[15], 9);
}
END_TEST

START_TEST(relay__not_for_multicast_nor_relayed_nor_this_hosts_queries)
{
	struct wire_resolve query = query_about(ID);

	world->fakes[HOME].ask_result = 1;
	ask(NET, ID, true);
	ask(HOME, ID, false);
	query.hops = 1;
	arrive(world, NET, 9, &query);
	step(world);
	ck_assert_uint_eq(sent_count(world, HOME), 0);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

START_TEST(relay__answer_counts_only_from_this_host)
{
	uint64_t nonce;

	world->fakes[HOME].ask_result = 1;
	ask(NET, ID, false);
	nonce = asked_nonce(world, HOME, ID);
	answer(world, NET, 66, nonce, record_of(ID, 66, 100));
	answer(world, HOME, 4, nonce, record_of(ID + 1, 66, 100));
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(stats(world).dropped, 2);
	answer(world, HOME, 4, nonce, record_of(ID, 6, 100));
	ck_assert_uint_eq(sent_count(world, NET), 1);
}
END_TEST

START_TEST(relay__waits_100_ms_then_says_that_the_holder_is_silent)
{
	const struct sent *sent;
	uint64_t nonce;

	world->fakes[HOME].ask_result = 1;
	ask(NET, ID, false);
	nonce = asked_nonce(world, HOME, ID);
	pass(world, 100 * MS);
	sent = sent_next(world, NET);
	ck_assert_int_eq(sent->packet.type, WIRE_NOBODY);
	ck_assert(!sent->packet.definite);
	ck_assert_uint_eq(sent->packet.nonce, NONCE);
	ck_assert_uint_eq(sent->packet.record.id, ID);
	answer(world, HOME, 4, nonce, record_of(ID, 6, 100));
	ck_assert_uint_eq(sent_count(world, NET), 0);
	ck_assert_uint_eq(ripc__resolver_deadline(world->resolver), UINT64_MAX);
}
END_TEST

START_TEST(relay__nobody_on_this_host_is_said_at_once)
{
	const struct sent *sent;

	ask(NET, ID, false);
	sent = sent_next(world, NET);
	ck_assert_int_eq(sent->kind, REPLY);
	ck_assert_uint_eq(sent->to.blob[0], 9);
	ck_assert_int_eq(sent->packet.type, WIRE_NOBODY);
	ck_assert(sent->packet.definite);
	ck_assert_uint_eq(sent->packet.nonce, NONCE);
	ck_assert_uint_eq(sent->packet.record.id, ID);
	ask(NET, ID, true); /* nobody speaks for a whole network */
	ask(NET, 0, false);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

/* We may be one of the hosts that we ask. */
/* The liveness of another user's process is unknown. */
START_TEST(relay__what_another_user_holds_is_not_denied)
{
	const struct sent *sent;

	world->fakes[HOME].ask_result = 0;
	world->fakes[HOME].others = ID;
	ask(NET, ID, false);
	ask(NET, ID + 1, false);
	for (int i = 0; i < 2; i++) {
		sent = sent_next(world, NET);
		ck_assert_ptr_nonnull(sent);
		ck_assert_int_eq(sent->packet.type, WIRE_NOBODY);
		ck_assert_int_eq(sent->packet.definite, i == 1);
	}
}
END_TEST

START_TEST(relay__our_own_query_by_unicast_is_answered)
{
	struct wire_resolve query = query_about(ID);

	query.asker = SELF;
	arrive(world, NET, 9, &query);
	step(world);
	ck_assert_int_eq(sent_next(world, NET)->packet.type, WIRE_NOBODY);
	query.record.id = 0;
	arrive(world, NET, 9, &query);
	step(world);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

START_TEST(relay__at_most_1024_at_once)
{
	world->fakes[HOME].ask_result = 1;
	for (uint64_t id = 1; id <= 1100; id++) {
		pass(world, 50);
		ask_from((uint8_t)id, NET, id, false);
	}
	ck_assert_uint_eq(sent_count(world, HOME), 1024);
	ck_assert_uint_eq(stats(world).dropped, 76);
	pass(world, 100 * MS);
	ask(NET, ID, false);
	ck_assert_uint_eq(sent_count(world, HOME), 1025);
}
END_TEST

START_TEST(relay__of_what_is_there_takes_turns_and_is_bounded)
{
	bool asked[100] = {false};
	uint32_t n_asked = 0;

	world->fakes[HOME].ask_result = 1;
	for (uint64_t i = 0; i < 100; i++)
		world->fakes[HOME].listed[world->fakes[HOME].n_listed++] = 1 + i;
	own_publish(world, 1, 5, 100); /* ours: not to be asked for */
	for (int i = 0; i < 25; i++) {
		size_t bytes = 0;

		sent_skip(world);
		ask(NET, 0, false);
		ck_assert_uint_le(sent_count(world, HOME), 4);
		while (sent_count(world, HOME)) {
			struct sent sent = *sent_next(world, HOME);
			uint64_t id = sent.packet.record.id;

			n_asked += !asked[id - 1];
			asked[id - 1] = true;
			for (uint64_t k = 0; k < 10; k++)
				answer(world, HOME, 4, sent.packet.nonce,
					record_of(id, 100 * id + k, 100));
		}
		while (sent_count(world, NET))
			bytes += sent_next(world, NET)->len;
		ck_assert_uint_le(bytes, WIRE_RECORD_MAX);
		pass(world, 100 * MS);
	}
	ck_assert_uint_eq(n_asked, 99);
	ck_assert(!asked[0]);
}
END_TEST

START_TEST(relay__notice_that_came_to_us_alone_is_passed_on)
{
	struct wire_resolve notice = record_of(ID, 6, 100);
	uint64_t id, incarnation;
	const struct sent *sent;

	arrive(world, NET, 9, &notice);
	step(world);
	sent = sent_next(world, HOME);
	ck_assert_ptr_nonnull(sent);
	ck_assert_uint_eq(sent->id, ID);
	ck_assert_int_eq(sent->packet.type, WIRE_DIGEST);
	ck_assert_uint_eq(sent->packet.n_named, 1);
	wire_named_get(&sent->packet, 0, &id, &incarnation);
	ck_assert_uint_eq(id, ID);
	ck_assert_uint_eq(incarnation, 6);
	arrive(world, NET, 9, &notice)->event.group = true;
	arrive(world, HOME, 9, &notice);
	notice.type = WIRE_WITHDRAWN;
	arrive(world, NET, 9, &notice);
	step(world);
	ck_assert_uint_eq(sent_count(world, HOME), 0);
}
END_TEST

/* ---- looking for everybody --------------------------------------------------------------- */

static int list(struct world *of)
{
	return ripc__resolver_list(of->resolver, of->now_us, listed, of);
}

START_TEST(list__reports_own_once_and_asks_three_times)
{
	own_publish(world, ID, 5, 100);
	own_add(world, ID + 1, 6, 100); /* not published: not to be found */
	ck_assert_int_eq(list(world), 0);
	pass(world, 1000 * MS);
	ck_assert_uint_eq(noted_count(world), 1);
	ck_assert_uint_eq(noted_next(world)->id, ID);
	ck_assert_uint_eq(sent_count(world, NET), 3);
	ck_assert_uint_eq(sent_next(world, NET)->packet.record.id, 0);
	ck_assert_int_eq(ripc__resolver_list(world->resolver, world->now_us, NULL, NULL), 0);
}
END_TEST

START_TEST(list__asks_each_of_this_host_until_it_answers)
{
	uint32_t n_asked[50] = {0};

	own_publish(world, 99, 5, 100); /* this host's source sees it too; no need to ask */
	world->fakes[HOME].listed[world->fakes[HOME].n_listed++] = 99;
	world->fakes[HOME].ask_result = 1;
	for (uint64_t i = 0; i < 50; i++)
		world->fakes[HOME].listed[world->fakes[HOME].n_listed++] = 1 + i;
	ck_assert_int_eq(list(world), 0);
	for (int i = 0; i < 300; i++) {
		pass(world, 1 * MS);
		while (sent_count(world, HOME)) {
			struct sent sent = *sent_next(world, HOME);
			uint64_t id = sent.packet.record.id;

			ck_assert_uint_le(id, 50);
			if (++n_asked[id - 1] == 1 && id % 5 == 0)
				continue; /* this answer gets lost */
			answer(world, HOME, 4, sent.packet.nonce, record_of(id, 100 + id, 100));
		}
	}
	ck_assert_uint_eq(noted_count(world), 51);
	for (uint64_t id = 1; id <= 50; id++)
		ck_assert_uint_eq(n_asked[id - 1], id % 5 ? 1 : 2);
}
END_TEST

START_TEST(list__reports_each_incarnation_once)
{
	ck_assert_int_eq(list(world), 0);
	step(world);
	for (int i = 0; i < 10; i++) {
		answer(world, NET, 1, asked_nonce(world, NET, 0), record_of(ID, 5, 100));
		answer(world, NET, 2, asked_nonce(world, NET, 0), record_of(ID, 6, 100));
	}
	ck_assert_uint_eq(noted_count(world), 2);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS); /* listing fills no cache */
}
END_TEST

START_TEST(list__goes_on_while_there_is_news)
{
	ck_assert_int_eq(list(world), 0);
	for (uint64_t i = 0; i < 10; i++) {
		pass(world, 50 * MS);
		answer(world, NET, 1, asked_nonce(world, NET, 0), record_of(ID, 100 + i, 100));
		pass(world, 50 * MS);
	}
	ck_assert_uint_ge(sent_count(world, NET), 10);
	pass(world, 1000 * MS);
	ck_assert_uint_le(sent_count(world, NET), 12);
	ck_assert_uint_eq(noted_count(world), 10);
}
END_TEST

START_TEST(list__forged_answer_is_not_reported)
{
	ck_assert_int_eq(list(world), 0);
	step(world);
	answer(world, NET, 66, 12345, record_of(ID, 5, 100));
	ck_assert_uint_eq(noted_count(world), 0);
}
END_TEST

START_TEST(list__one_at_a_time_and_again_after_the_end)
{
	uint64_t nonce;

	ck_assert_int_eq(list(world), 0);
	ck_assert_int_eq(list(world), -EBUSY);
	step(world);
	nonce = asked_nonce(world, NET, 0);
	ck_assert_int_eq(ripc__resolver_list(world->resolver, world->now_us, NULL, NULL), 0);
	ck_assert_int_eq(ripc__resolver_list(world->resolver, world->now_us, NULL, NULL), 0);
	answer(world, NET, 1, nonce, record_of(ID, 5, 100));
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_int_eq(list(world), 0);
}
END_TEST

/* ---- everything at once ------------------------------------------------------------------ */

static struct wire_resolve random_packet(uint64_t *state)
{
	struct wire_resolve packet = record_of(suite_random(state) % 6, suite_random(state) % 9,
		suite_random(state) % 3);

	packet.type = (uint8_t)(WIRE_QUERY + suite_random(state) % 3);
	packet.hops = suite_random(state) % 2;
	packet.asker = suite_random(state) % 4 ? suite_random(state) % 3 : SELF;
	packet.host[15] = suite_random(state) % 8 == 0;
	packet.record.context = suite_random(state) % 8 ? OTHER : SELF;
	packet.record.n_addrs = (uint32_t)(suite_random(state) % 3);
	if (suite_random(state) % 2 && world->fakes[NET].n_sent)
		packet.nonce = world->fakes[NET].sent[(world->fakes[NET].n_sent - 1 -
			suite_random(state) % (world->fakes[NET].n_sent % 20 + 1)) %
			SENT_MAX].packet.nonce;
	return packet;
}

static void random_call(uint64_t *state)
{
	uint64_t id = 1 + suite_random(state) % 5;

	switch (suite_random(state) % 8) {
	case 0:
		publish(world, id, suite_random(state) % 2);
		break;
	case 1:
		ripc__resolver_withdraw(world->resolver, id, id);
		break;
	case 2:
		ripc__resolver_suspect(world->resolver, id, suite_random(state) % 9);
		break;
	case 3:
		ripc__resolver_list(world->resolver, world->now_us,
			suite_random(state) % 2 ? listed : NULL, world);
		break;
	case 4:
		world->fakes[HOME].publish_result = suite_random(state) % 2 ? 0 : -EADDRINUSE;
		world->fakes[HOME].ask_result = (int)(suite_random(state) % 2);
		break;
	default:
		lookup(world, id);
	}
}

/* For any input in any order, nothing breaks, and in the end no lookup is left running. */
START_TEST(hostile__any_order_of_anything)
{
	uint64_t state = 77 + (uint64_t)_i;

	for (uint64_t id = 1; id <= 5; id++)
		own_add(world, id, id, 1);
	for (int i = 0; i < 20000; i++) {
		struct wire_resolve packet = random_packet(&state);
		int source = suite_random(&state) % 2 ? HOME : NET;

		arrive(world, source, 9, &packet)->event.group = suite_random(&state) % 2;
		if (suite_random(&state) % 4 == 0)
			random_call(&state);
		if (suite_random(&state) % 2)
			pass(world, suite_random(&state) % (10 * MS));
	}
	while (step(world))
		continue;
	ripc__resolver_list(world->resolver, world->now_us, NULL, NULL);
	for (uint64_t id = 1; id <= 5; id++)
		ripc__resolver_withdraw(world->resolver, id, id);
	pass(world, 5000 * MS);
	ck_assert_uint_eq(ripc__resolver_deadline(world->resolver), UINT64_MAX);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		query__is_answered_to_whom_it_came_from, query__of_our_own_is_ignored,
		query__about_what_is_not_here_is_not_answered,
		query__without_nonce_or_asker_is_dropped,
		query__shorter_than_an_answer_is_dropped,
		query__flood_is_answered_20000_times_a_second,
		query__those_of_this_host_are_all_answered,
		query__one_host_gets_half_of_the_answers,
		query__private_ids_are_not_listed_to_other_hosts,
		query__what_is_there_gets_no_more_bytes_than_it_had,
		query__what_is_there_on_this_host_tells_64,
		query__what_is_there_when_nothing_is,
		relay__unicast_query_goes_round_the_host_and_back,
		relay__holder_proves_the_first_askers_address,
		relay__not_for_multicast_nor_relayed_nor_this_hosts_queries,
		relay__answer_counts_only_from_this_host,
		relay__waits_100_ms_then_says_that_the_holder_is_silent,
		relay__nobody_on_this_host_is_said_at_once,
		relay__what_another_user_holds_is_not_denied,
		relay__our_own_query_by_unicast_is_answered,
		relay__at_most_1024_at_once, relay__of_what_is_there_takes_turns_and_is_bounded,
		relay__notice_that_came_to_us_alone_is_passed_on,
		list__reports_own_once_and_asks_three_times,
		list__asks_each_of_this_host_until_it_answers,
		list__reports_each_incarnation_once, list__goes_on_while_there_is_news,
		list__forged_answer_is_not_reported, list__one_at_a_time_and_again_after_the_end,
	};
	TCase *tcase = tcase_create("answer");

	tcase_add_checked_fixture(tcase, setup, teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	tcase_add_loop_test(tcase, hostile__any_order_of_anything, 0, 4);
	return suite_finish("resolver_answer", tcase);
}
