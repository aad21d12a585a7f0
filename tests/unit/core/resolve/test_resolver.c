/* SPDX-License-Identifier: BSD-3-Clause */
/* The resolver: opening, lookups, cache, suspicion, and what hints and hostile answers do. */
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

/* ---- opening ----------------------------------------------------------------------------- */

START_TEST(open__leaves_out_a_source_that_cannot)
{
	struct world *other = world_new();
	int fds[4] = {-1, -1, -1, -1};

	other->fakes[HOME].open_error = -EMFILE;
	ck_assert_int_eq(world_open_with(other, both_sources), 0);
	ck_assert_uint_eq(other->n_logged, 1);
	ck_assert_int_eq(ripc__resolver_fds(other->resolver, fds, 4), 1);
	ck_assert_int_eq(fds[0], 100 + NET);
	ck_assert_int_eq(fds[1], -1);
	ck_assert_int_eq(lookup(other, ID), -EINPROGRESS);
	ck_assert_uint_eq(sent_count(other, HOME), 0);
	ck_assert_uint_eq(sent_count(other, NET), 1);
	world_close(other);
}
END_TEST

START_TEST(open__passes_on_a_wrong_configuration)
{
	struct world *other = world_new();

	other->fakes[NET].open_error = -EINVAL;
	ck_assert_int_eq(world_open_with(other, both_sources), -EINVAL);
	ck_assert_ptr_null(other->resolver);
	ck_assert_uint_eq(other->fakes[HOME].n_closed, 1);
	ck_assert_uint_eq(other->fakes[NET].n_closed, 0);
	world_close(other);
}
END_TEST

START_TEST(close__with_everything_under_way)
{
	own_add(world, 1, 11, 100);
	publish(world, 1, true);
	own_add(world, 2, 22, 100);
	publish(world, 2, false);
	ck_assert_int_eq(lookup(world, 3), -EINPROGRESS);
	fill_cache(world, 4, 44, 100);
	ck_assert_int_eq(ripc__resolver_list(world->resolver, world->now_us, listed, world), 0);
	step(world);
}
END_TEST

START_TEST(fds__tells_how_many_there_are)
{
	int fds[2] = {-1, -1};

	ck_assert_int_eq(ripc__resolver_fds(world->resolver, fds, 1), 2);
	ck_assert_int_eq(fds[0], 100 + HOME);
	ck_assert_int_eq(fds[1], -1);
}
END_TEST

/* ---- asking ------------------------------------------------------------------------------ */

START_TEST(lookup__goes_on_at_once_when_nobody_is_here)
{
	const struct sent *sent;

	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	ck_assert_uint_eq(sent_count(world, HOME), 1);
	sent = sent_next(world, NET);
	ck_assert_ptr_nonnull(sent);
	ck_assert_int_eq(sent->packet.type, WIRE_QUERY);
	ck_assert_uint_eq(sent->packet.record.id, ID);
	ck_assert_uint_eq(sent->packet.asker, SELF);
	ck_assert_uint_ne(sent->packet.nonce, 0);
	ck_assert_uint_eq(sent->packet.hops, 0);
	ck_assert_uint_eq(sent->len, WIRE_RECORD_MAX);
}
END_TEST

START_TEST(lookup__waits_200_ms_for_somebody_here)
{
	world->fakes[HOME].ask_result = 1;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	pass(world, 340 * MS - 1); /* asked here after 0, 20, 40, 60, 100, 180 and 340 ms */
	ck_assert_uint_eq(sent_count(world, HOME), 6);
	ck_assert_uint_eq(sent_count(world, NET), 0);
	pass(world, 1);
	ck_assert_uint_eq(sent_count(world, NET), 1);
}
END_TEST

START_TEST(lookup__answer_from_here_asks_no_further)
{
	const struct noted *noted;

	world->fakes[HOME].ask_result = 1;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, HOME, 7, asked_nonce(world, HOME, ID), record_of(ID, 5, 100));
	noted = noted_next(world);
	ck_assert_int_eq(noted->what, 'r');
	ck_assert_int_eq(noted->status, 0);
	ck_assert(noted->answer.local);
	ck_assert_str_eq(noted->answer.source, "home");
	pass(world, 2000 * MS);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

START_TEST(lookup__gives_all_of_the_record_from_the_cache)
{
	const struct ripc__answer *found;
	struct wire_resolve record = record_of(ID, 5, 100);

	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, NET, 7, asked_nonce(world, NET, ID), record);
	ck_assert_int_eq(ripc__resolver_lookup(world->resolver, ID, world->now_us, &found), 0);
	ck_assert_mem_eq(&found->record, &record.record, sizeof(record.record));
	ck_assert_uint_eq(found->proof, record.proof);
	ck_assert_uint_eq(found->host[15], 7);
	ck_assert(!found->local);
	ck_assert_str_eq(found->source, "net");
}
END_TEST

START_TEST(lookup__one_query_for_many_lookups)
{
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	ck_assert_uint_eq(sent_count(world, NET), 1);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 5, 100));
	ck_assert_uint_eq(noted_count(world), 1);
}
END_TEST

START_TEST(lookup__asks_in_growing_gaps_then_says_nobody)
{
	static const uint64_t at_ms[] = {0, 20, 40, 80, 160, 320, 480, 640, 800, 960};
	uint64_t start_us = world->now_us;
	const struct noted *noted;

	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	pass(world, 1000 * MS - 1);
	ck_assert_uint_eq(noted_count(world), 0);
	pass(world, 1);
	ck_assert_uint_eq(sent_count(world, NET), 10);
	ck_assert_uint_eq(sent_count(world, HOME), 10);
	for (int i = 0; i < 10; i++)
		ck_assert_uint_eq(sent_next(world, NET)->at_us, start_us + at_ms[i] * MS);
	noted = noted_next(world);
	ck_assert_int_eq(noted->what, 'r');
	ck_assert_int_eq(noted->status, -ENOENT);
	ck_assert_uint_eq(noted->id, ID);
	ck_assert_uint_eq(ripc__resolver_deadline(world->resolver), UINT64_MAX);
}
END_TEST

START_TEST(lookup__late_step_still_asks_three_times)
{
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	world->now_us += 5000 * MS;
	step(world);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_eq(sent_count(world, NET), 2);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 5, 100));
	ck_assert_int_eq(noted_next(world)->status, 0);
}
END_TEST

START_TEST(lookup__remembers_nobody_for_a_second)
{
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	pass(world, 1000 * MS);
	ck_assert_int_eq(lookup(world, ID), -ENOENT);
	pass(world, 999 * MS);
	ck_assert_int_eq(lookup(world, ID), -ENOENT);
	pass(world, 1 * MS);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

START_TEST(lookup__remembers_somebody_for_a_minute)
{
	fill_cache(world, ID, 5, 100);
	pass(world, 60000 * MS - 1);
	ck_assert_uint_eq(cached(world, ID), 5);
	pass(world, 1);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

START_TEST(lookup__own_id_needs_no_query)
{
	const struct ripc__answer *found;

	own_publish(world, ID, 5, 100);
	ck_assert_int_eq(ripc__resolver_lookup(world->resolver, ID, world->now_us, &found), 0);
	ck_assert_uint_eq(found->record.incarnation, 5);
	ck_assert(found->local);
	ck_assert_uint_eq(found->host[12], 127);
	ck_assert_uint_eq(found->proof, owner_proof(world, SELF, found->host));
	ck_assert_uint_eq(sent_count(world, NET), 0);
	world->n_own = 0; /* draining: others may have it already */
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

START_TEST(lookup__id_0_is_nobody)
{
	ck_assert_int_eq(lookup(world, 0), -ENOENT);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

static void look_for_another(struct world *of, uint64_t id)
{
	if (id != ID)
		return;
	ripc__resolver_suspect(of->resolver, ID, 5);
	ck_assert_int_eq(lookup(of, ID), -EINPROGRESS);
	ck_assert_int_eq(lookup(of, ID + 1), -EINPROGRESS);
}

START_TEST(lookup__may_be_called_from_resolved)
{
	world->on_resolved = look_for_another;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 5, 100));
	ck_assert_uint_eq(noted_count(world), 1);
	world->on_resolved = NULL;
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 6, 200));
	answer(world, NET, 1, asked_nonce(world, NET, ID + 1), record_of(ID + 1, 7, 200));
	ck_assert_uint_eq(cached(world, ID), 6);
	ck_assert_uint_eq(cached(world, ID + 1), 7);
}
END_TEST

/* ---- limits ------------------------------------------------------------------------------ */

START_TEST(lookup__at_most_4096_at_once)
{
	for (uint64_t id = 1; id <= 4096; id++)
		ck_assert_int_eq(lookup(world, id), -EINPROGRESS);
	ck_assert_int_eq(lookup(world, 5000), -ENOMEM);
	ck_assert_int_eq(lookup(world, 17), -EINPROGRESS);
	/* A lookup that has its answer only lingers, and gives way. */
	answer(world, NET, 1, asked_nonce(world, NET, 17), record_of(17, 5, 100));
	ck_assert_int_eq(lookup(world, 5000), -EINPROGRESS);
	ck_assert_int_eq(lookup(world, 5001), -ENOMEM);
}
END_TEST

START_TEST(lookup__forgets_the_oldest_beyond_65536)
{
	for (uint64_t id = 1; id <= 65537; id++) {
		ck_assert_int_eq(lookup(world, id), -EINPROGRESS);
		answer(world, NET, 1, asked_nonce(world, NET, id), record_of(id, id, 100));
		world->now_us++;
	}
	ck_assert_uint_eq(cached(world, 65537), 65537);
	ck_assert_uint_eq(cached(world, 2), 2);
	ck_assert_int_eq(lookup(world, 1), -EINPROGRESS);
}
END_TEST

START_TEST(step__takes_64_datagrams_at_most)
{
	uint8_t junk[100] = {0};

	for (int i = 0; i < 200; i++)
		arrive_bytes(world, NET, 1, junk, sizeof(junk));
	ck_assert_int_eq(step(world), 64);
	ck_assert_int_eq(step(world), 64);
	ck_assert_int_eq(step(world), 64);
	ck_assert_int_eq(step(world), 8);
	ck_assert_int_eq(step(world), 0);
}
END_TEST

START_TEST(step__a_flood_at_one_source_does_not_keep_the_other_waiting)
{
	uint8_t junk[100] = {0};
	struct wire_resolve record = record_of(ID, 5, 100);

	world->fakes[HOME].ask_result = 1;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	for (int i = 0; i < 1000; i++)
		arrive_bytes(world, NET, 1, junk, sizeof(junk));
	record.nonce = asked_nonce(world, HOME, ID);
	arrive(world, HOME, 1, &record);
	step(world);
	ck_assert_uint_eq(cached(world, ID), 5);
}
END_TEST

/* ---- answers that must not count --------------------------------------------------------- */

START_TEST(answer__with_another_nonce_is_dropped)
{
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	for (uint64_t nonce = 1; nonce < 100; nonce++)
		answer(world, NET, 1, nonce, record_of(ID, 5, 100));
	ck_assert_uint_eq(stats(world).dropped, 99);
	ck_assert_uint_eq(stats(world).responses_received, 0);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

START_TEST(answer__about_another_id_is_dropped)
{
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID + 1, 5, 100));
	ck_assert_uint_eq(stats(world).dropped, 1);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	ck_assert_int_eq(lookup(world, ID + 1), -EINPROGRESS);
}
END_TEST

START_TEST(answer__without_addresses_is_dropped)
{
	struct wire_resolve record = record_of(ID, 5, 100);

	record.record.n_addrs = 0;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record);
	ck_assert_uint_eq(stats(world).dropped, 1);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

START_TEST(answer__on_behalf_of_another_host_is_dropped)
{
	struct wire_resolve record = record_of(ID, 5, 100);

	record.host[15] = 66;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record);
	ck_assert_uint_eq(stats(world).dropped, 1);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

START_TEST(answer__in_our_own_name_is_ignored)
{
	struct wire_resolve record = record_of(ID, 5, 100);

	record.record.context = SELF;
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

START_TEST(answer__altered_anywhere_is_dropped)
{
	struct wire_resolve record = record_of(ID, 5, 100);
	uint8_t data[WIRE_RECORD_MAX];
	size_t len;

	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	record.nonce = asked_nonce(world, NET, ID);
	len = wire_resolve_encode(data, &record);
	for (size_t i = 0; i < len; i++) {
		data[i] ^= 0x10;
		arrive_bytes(world, NET, 1, data, len);
		data[i] ^= 0x10;
		arrive_bytes(world, NET, 1, data, i);
	}
	pass(world, 10 * MS);
	while (step(world))
		continue;
	ck_assert_uint_eq(stats(world).dropped, 2 * len);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

START_TEST(answer__too_late_is_dropped)
{
	uint64_t nonce;

	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	nonce = asked_nonce(world, NET, ID);
	pass(world, 1000 * MS);
	answer(world, NET, 1, nonce, record_of(ID, 5, 100));
	ck_assert_uint_eq(stats(world).dropped, 1);
	ck_assert_int_eq(lookup(world, ID), -ENOENT);
}
END_TEST

/* ---- two answers ------------------------------------------------------------------------- */

START_TEST(rivals__younger_second_replaces_and_is_told)
{
	const struct sent *sent;
	const struct noted *noted;
	uint64_t nonce;

	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	nonce = asked_nonce(world, NET, ID);
	sent_skip(world);
	answer(world, NET, 1, nonce, record_of(ID, 5, 100));
	answer(world, NET, 2, nonce, record_of(ID, 6, 200));
	ck_assert_uint_eq(cached(world, ID), 6);
	ck_assert_int_eq(noted_next(world)->what, 'r');
	noted = noted_next(world);
	ck_assert_int_eq(noted->what, 'm');
	ck_assert_uint_eq(noted->incarnation, 6);
	sent = sent_next(world, NET);
	ck_assert_int_eq(sent->kind, REPLY);
	ck_assert_uint_eq(sent->to.blob[0], 2);
	ck_assert_int_eq(sent->packet.type, WIRE_RECORD);
	ck_assert_uint_eq(sent->packet.nonce, 0);
	ck_assert_uint_eq(sent->packet.record.incarnation, 5);
}
END_TEST

START_TEST(rivals__older_second_stays_out_and_the_first_is_told)
{
	const struct sent *sent;
	uint64_t nonce;

	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	nonce = asked_nonce(world, NET, ID);
	sent_skip(world);
	answer(world, NET, 1, nonce, record_of(ID, 6, 200));
	answer(world, NET, 2, nonce, record_of(ID, 5, 100));
	ck_assert_uint_eq(cached(world, ID), 6);
	ck_assert_uint_eq(noted_count(world), 1);
	sent = sent_next(world, NET);
	ck_assert_uint_eq(sent->to.blob[0], 1);
	ck_assert_uint_eq(sent->packet.record.incarnation, 5);
}
END_TEST

START_TEST(rivals__equal_stamps_are_ordered_by_incarnation)
{
	uint64_t nonce;

	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	nonce = asked_nonce(world, NET, ID);
	answer(world, NET, 1, nonce, record_of(ID, 6, 100));
	answer(world, NET, 2, nonce, record_of(ID, 5, 100));
	ck_assert_uint_eq(cached(world, ID), 6);
}
END_TEST

START_TEST(rivals__same_incarnation_twice_is_one)
{
	uint64_t nonce;

	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	nonce = asked_nonce(world, NET, ID);
	sent_skip(world);
	answer(world, NET, 1, nonce, record_of(ID, 5, 100));
	answer(world, NET, 1, nonce, record_of(ID, 5, 999));
	ck_assert_uint_eq(noted_count(world), 1);
	ck_assert_uint_eq(sent_count(world, NET), 0);
}
END_TEST

START_TEST(rivals__a_flood_of_answers_causes_few_notices)
{
	uint64_t nonce;

	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	nonce = asked_nonce(world, NET, ID);
	sent_skip(world);
	for (uint64_t i = 1; i <= 1000; i++)
		answer(world, NET, 1, nonce, record_of(ID, i, i));
	ck_assert_uint_le(sent_count(world, NET), 4);
	ck_assert_uint_ge(stats(world).dropped, 990);
}
END_TEST

/* ---- suspicion --------------------------------------------------------------------------- */

START_TEST(suspect__asks_again_and_takes_the_next_at_once)
{
	fill_cache(world, ID, 5, 100);
	ripc__resolver_suspect(world->resolver, ID, 5);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 6, 50));
	ck_assert_uint_eq(cached(world, ID), 6);
	ck_assert_uint_eq(noted_next(world)->incarnation, 6);
}
END_TEST

START_TEST(suspect__is_believed_again_when_it_alone_answers)
{
	fill_cache(world, ID, 5, 100);
	ripc__resolver_suspect(world->resolver, ID, 5);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 5, 100));
	ck_assert_uint_eq(noted_count(world), 0);
	pass(world, 20 * MS);
	ck_assert_uint_eq(noted_next(world)->incarnation, 5);
	ck_assert_uint_eq(cached(world, ID), 5);
}
END_TEST

START_TEST(suspect__with_a_young_stamp_does_not_hide_another)
{
	fill_cache(world, ID, 5, UINT64_MAX);
	ripc__resolver_suspect(world->resolver, ID, 5);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, NET, 66, asked_nonce(world, NET, ID), record_of(ID, 5, UINT64_MAX));
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 6, 100));
	answer(world, NET, 66, asked_nonce(world, NET, ID), record_of(ID, 5, UINT64_MAX));
	ck_assert_uint_eq(cached(world, ID), 6);
	ck_assert_uint_eq(noted_count(world), 1);
}
END_TEST

START_TEST(suspect__old_answer_does_not_count)
{
	uint64_t nonce;

	fill_cache(world, ID, 5, 100);
	nonce = asked_nonce(world, NET, ID);
	ripc__resolver_suspect(world->resolver, ID, 5);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, NET, 1, nonce, record_of(ID, 5, 100));
	pass(world, 100 * MS);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_eq(stats(world).dropped, 1);
}
END_TEST

START_TEST(suspect__of_another_incarnation_changes_nothing)
{
	fill_cache(world, ID, 5, 100);
	ripc__resolver_suspect(world->resolver, ID, 4);
	ck_assert_uint_eq(cached(world, ID), 5);
	ripc__resolver_suspect(world->resolver, ID + 1, 5);
	ck_assert_int_eq(lookup(world, ID + 1), -EINPROGRESS);
}
END_TEST

START_TEST(suspect__while_asking_refuses_that_one)
{
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	ripc__resolver_suspect(world->resolver, ID, 5);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 5, 100));
	ck_assert_uint_eq(noted_count(world), 0);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 6, 100));
	ck_assert_uint_eq(noted_next(world)->incarnation, 6);
}
END_TEST

/* ---- notices that were overheard --------------------------------------------------------- */

static void notice_from(uint8_t host, int type, uint64_t id, uint64_t incarnation)
{
	struct wire_resolve packet = record_of(id, incarnation, 300);

	packet.type = (uint8_t)type;
	packet.proof = type == WIRE_RECORD ? packet.proof : 0;
	arrive(world, NET, host, &packet)->event.group = true;
	step(world);
}

static void notice(int type, uint64_t id, uint64_t incarnation)
{
	notice_from(3, type, id, incarnation);
}

START_TEST(notice__makes_the_next_lookup_ask)
{
	const struct noted *noted;

	fill_cache(world, ID, 5, 100);
	notice(WIRE_RECORD, ID, 6);
	noted = noted_next(world);
	ck_assert_int_eq(noted->what, 'm');
	ck_assert_uint_eq(noted->id, ID);
	ck_assert_uint_eq(noted->incarnation, 6);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 5, 100));
	pass(world, 20 * MS);
	ck_assert_uint_eq(cached(world, ID), 5);
}
END_TEST

START_TEST(notice__is_no_answer)
{
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	notice(WIRE_RECORD, ID, 6);
	ck_assert_int_eq(noted_next(world)->what, 'm');
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

/* From another host: the address may have changed, though the incarnation has not. */
START_TEST(notice__of_another_address_makes_the_next_lookup_ask)
{
	fill_cache(world, ID, 5, 100);
	notice(WIRE_RECORD, ID, 5);
	ck_assert_int_eq(noted_next(world)->what, 'm');
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

static void notice_over_ipv6(uint64_t id, uint64_t incarnation)
{
	struct wire_resolve packet = record_of(id, incarnation, 300);
	struct arriving *arriving = arrive(world, NET, 1, &packet);

	memcpy(arriving->event.host, (uint8_t[16]){0xfd, [15] = 1}, 16);
	arriving->event.group = true;
	step(world);
}

/* A host with IPv4 and IPv6 sends each notice over both. */
START_TEST(notice__over_the_other_family_is_a_copy)
{
	fill_cache(world, ID, 5, 100);
	notice_over_ipv6(ID, 5); /* of the notice that made us ask */
	pass(world, 100 * MS);
	notice_from(1, WIRE_RECORD, ID, 5);
	notice_over_ipv6(ID, 5);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_eq(cached(world, ID), 5);
}
END_TEST

/* Its address of IPv4 has gone. */
START_TEST(notice__over_the_other_family_alone_makes_the_next_lookup_ask)
{
	fill_cache(world, ID, 5, 100);
	pass(world, 100 * MS);
	notice_over_ipv6(ID, 5);
	ck_assert_int_eq(noted_next(world)->what, 'm');
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

START_TEST(notice__of_what_is_known_changes_nothing)
{
	fill_cache(world, ID, 5, 100);
	notice_from(1, WIRE_RECORD, ID, 5);
	notice(WIRE_WITHDRAWN, ID, 4);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_eq(cached(world, ID), 5);
}
END_TEST

START_TEST(notice__of_withdrawal_makes_the_next_lookup_ask)
{
	fill_cache(world, ID, 5, 100);
	notice(WIRE_WITHDRAWN, ID, 5);
	ck_assert_int_eq(noted_next(world)->what, 'm');
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

START_TEST(notice__ends_the_memory_of_nobody)
{
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	pass(world, 1000 * MS);
	ck_assert_int_eq(lookup(world, ID), -ENOENT);
	notice(WIRE_WITHDRAWN, ID, 5);
	ck_assert_int_eq(lookup(world, ID), -ENOENT);
	notice(WIRE_RECORD, ID, 5);
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
}
END_TEST

START_TEST(notice__hurries_a_query_that_waits)
{
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	pass(world, 400 * MS); /* asked last at 320 ms, next at 640 */
	sent_skip(world);
	notice(WIRE_RECORD, ID, 5);
	pass(world, 0);
	ck_assert_uint_eq(sent_count(world, NET), 1);
	for (int i = 0; i < 100; i++)
		notice(WIRE_RECORD, ID, 5);
	ck_assert_uint_eq(sent_count(world, NET), 1); /* but not within 20 ms */
}
END_TEST

START_TEST(notice__in_the_last_moment_leaves_time_for_the_answer)
{
	ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
	pass(world, 999 * MS);
	notice(WIRE_RECORD, ID, 5);
	pass(world, 10 * MS);
	ck_assert_uint_eq(noted_count(world), 1);
	ck_assert_int_eq(noted_next(world)->what, 'm');
	answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 5, 100));
	ck_assert_int_eq(noted_next(world)->status, 0);
	ck_assert_uint_eq(cached(world, ID), 5);
}
END_TEST

START_TEST(notice__flood_makes_us_ask_ten_times_a_second)
{
	uint32_t asked = 0;

	fill_cache(world, ID, 5, 100);
	for (int i = 0; i < 1000; i++) {
		notice(WIRE_RECORD, ID, 1000 + (uint64_t)i);
		if (lookup(world, ID) == -EINPROGRESS) {
			asked++;
			answer(world, NET, 1, asked_nonce(world, NET, ID), record_of(ID, 5, 100));
			ripc__resolver_suspect(world->resolver, ID, 4);
			pass(world, 20 * MS); /* 1,000 notices take longer, then */
		}
		pass(world, 1 * MS);
	}
	ck_assert_uint_ge(asked, 4); /* one host may cause no more bytes */
	ck_assert_uint_le(asked, 17); /* in 1.3 s; and a few at once */
	ck_assert_uint_ge(stats(world).dropped, 900);
}
END_TEST

/* The second time at once after the first: what is sent then must not go to where nobody is. */
START_TEST(notice__of_two_moves_in_a_row)
{
	fill_cache(world, ID, 5, 100);
	for (uint64_t incarnation = 5; incarnation < 8; incarnation++) {
		notice(WIRE_WITHDRAWN, ID, incarnation);
		ck_assert_uint_eq(noted_count(world), 1);
		ck_assert_int_eq(noted_next(world)->what, 'm');
		notice(WIRE_RECORD, ID, incarnation + 1);
		ck_assert_int_eq(noted_next(world)->what, 'm');
		ck_assert_int_eq(lookup(world, ID), -EINPROGRESS);
		answer(world, NET, 1, asked_nonce(world, NET, ID),
			record_of(ID, incarnation + 1, 100 + incarnation));
		ck_assert_int_eq(noted_next(world)->what, 'r');
		ck_assert_uint_eq(cached(world, ID), incarnation + 1);
	}
	ck_assert_uint_eq(stats(world).dropped, 0);
}
END_TEST

START_TEST(notice__flood_about_many_ids_is_bounded)
{
	for (uint64_t id = 1; id <= 5000; id++)
		notice(WIRE_RECORD, id, 5);
	ck_assert_uint_le(noted_count(world), 500);
	ck_assert_uint_ge(stats(world).dropped, 4500);
	pass(world, 100 * MS);
	notice(WIRE_RECORD, ID, 5);
	ck_assert_uint_eq(world->noted[(world->n_noted - 1) % NOTED_MAX].id, ID);
}
END_TEST

START_TEST(notice__of_our_own_comes_back_to_no_effect)
{
	struct wire_resolve packet = record_of(ID, 5, 100);

	packet.record.context = SELF;
	arrive(world, NET, 3, &packet);
	packet = (struct wire_resolve){.type = WIRE_WITHDRAWN, .asker = SELF,
		.record = {.id = ID, .incarnation = 5}};
	arrive(world, NET, 3, &packet);
	step(world);
	ck_assert_uint_eq(noted_count(world), 0);
	ck_assert_uint_eq(stats(world).dropped, 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		open__leaves_out_a_source_that_cannot, open__passes_on_a_wrong_configuration,
		close__with_everything_under_way, fds__tells_how_many_there_are,
		lookup__goes_on_at_once_when_nobody_is_here, lookup__waits_200_ms_for_somebody_here,
		lookup__answer_from_here_asks_no_further,
		lookup__gives_all_of_the_record_from_the_cache,
		lookup__one_query_for_many_lookups,
		lookup__asks_in_growing_gaps_then_says_nobody,
		lookup__late_step_still_asks_three_times, lookup__remembers_nobody_for_a_second,
		lookup__remembers_somebody_for_a_minute, lookup__own_id_needs_no_query,
		lookup__id_0_is_nobody, lookup__may_be_called_from_resolved,
		lookup__at_most_4096_at_once, lookup__forgets_the_oldest_beyond_65536,
		step__takes_64_datagrams_at_most,
		step__a_flood_at_one_source_does_not_keep_the_other_waiting,
		answer__with_another_nonce_is_dropped, answer__about_another_id_is_dropped,
		answer__without_addresses_is_dropped,
		answer__on_behalf_of_another_host_is_dropped,
		answer__in_our_own_name_is_ignored, answer__altered_anywhere_is_dropped,
		answer__too_late_is_dropped, rivals__younger_second_replaces_and_is_told,
		rivals__older_second_stays_out_and_the_first_is_told,
		rivals__equal_stamps_are_ordered_by_incarnation,
		rivals__same_incarnation_twice_is_one,
		rivals__a_flood_of_answers_causes_few_notices,
		suspect__asks_again_and_takes_the_next_at_once,
		suspect__is_believed_again_when_it_alone_answers,
		suspect__with_a_young_stamp_does_not_hide_another,
		suspect__old_answer_does_not_count,
		suspect__of_another_incarnation_changes_nothing,
		suspect__while_asking_refuses_that_one, notice__makes_the_next_lookup_ask,
		notice__is_no_answer, notice__of_what_is_known_changes_nothing,
		notice__over_the_other_family_is_a_copy,
		notice__over_the_other_family_alone_makes_the_next_lookup_ask,
		notice__of_another_address_makes_the_next_lookup_ask,
		notice__of_withdrawal_makes_the_next_lookup_ask,
		notice__ends_the_memory_of_nobody, notice__hurries_a_query_that_waits,
		notice__in_the_last_moment_leaves_time_for_the_answer,
		notice__flood_makes_us_ask_ten_times_a_second,
		notice__of_two_moves_in_a_row,
		notice__flood_about_many_ids_is_bounded,
		notice__of_our_own_comes_back_to_no_effect,
	};
	TCase *tcase = tcase_create("lookup");

	tcase_add_checked_fixture(tcase, setup, teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	return suite_finish("resolver", tcase);
}
