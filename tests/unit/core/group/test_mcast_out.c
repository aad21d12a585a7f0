/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender's end of what goes to many: whom it tells, when one datagram takes the place of
 * copies, and that it does not where the members' answers do not say that it reaches them.
 */
#include "../../many.h"
#include "core/objects.h"

#define MEMBERS_MAX 8u
#define FIRST_HOST  2

/* The partners speak in turns: lone has the one that speaks now. */
struct crowd {
	struct lone lone;
	struct lone members[MEMBERS_MAX]; /* only who they are */
	uint32_t n, since; /* packets that had gone before the last short */
	uint64_t token, number; /* of the stream, as told last */
};

static void speaks(struct lone *lone, const struct lone *member)
{
	lone->service = member->service;
	lone->incarnation = member->incarnation;
	lone->context = member->context;
	lone->token_in = member->token_in;
	lone->token_out = member->token_out;
	lone->proof = member->proof;
	lone->host = member->host;
}

/* The resolver says that the member that speaks is in the group. */
static void joined_to(struct lone *lone, uint64_t group)
{
	struct wire_resolve answer = {.type = WIRE_RECORD, .nonce = lone->asked_nonce,
		.proof = 0x900f, .record = {.id = group, .incarnation = lone->incarnation,
		.stamp = lone->service, .context = lone->context, .n_addrs = 1}};

	answer.record.addrs[0] = (struct wire_record_addr){.backend = 99, .len = 1,
		.blob = {lone->host}};
	lone->answer_len = wire_resolve_encode(lone->answer, &answer);
	while (lone->answer_len) {
		lone->now_us += 2000;
		ripc_poll(lone->ctx);
	}
}

static void joined(struct lone *lone)
{
	joined_to(lone, GROUP);
}

/* The first thing a member was told of a stream since; false: nothing. */
static bool was_told(struct crowd *crowd, uint32_t since, uint32_t i)
{
	struct wire_packet packet;

	for (uint32_t at = since; at < crowd->lone.n_sent; at++) {
		uint32_t slot = at % LONE_SENT_MAX;

		if (crowd->lone.sent_to[slot] != FIRST_HOST + i || wire_decode(
				crowd->lone.sent[slot], crowd->lone.sent_len[slot], &packet) ||
				packet.h.type != WIRE_STREAM)
			continue;
		ck_assert_uint_eq(packet.stream.group, GROUP);
		crowd->token = packet.stream.token;
		crowd->number = packet.stream.number;
		return true;
	}
	return false;
}

/* Time passes; members from the first on say that they are there when the resolver asks. */
static void crowd_pass(struct crowd *crowd, uint64_t us, uint32_t first)
{
	struct lone *lone = &crowd->lone;

	lone_pass(lone, us);
	if (lone->n_asked == 0 || lone->asked_id != GROUP)
		return;
	for (uint32_t i = first; i < crowd->n; i++) {
		speaks(lone, &crowd->members[i]);
		joined(lone);
	}
	lone->n_asked = 0;
}

static int crowd_send(struct crowd *crowd)
{
	uint64_t text = 7;
	const struct iovec item = {&text, sizeof(text)};

	crowd->since = crowd->lone.n_sent;
	return ripc_send_short(crowd->lone.svc, GROUP, &item, 1);
}

/* Members that are known, each at a host of its own, and partners already. */
static void crowd_open(struct crowd *crowd, const char *options, uint32_t n)
{
	struct lone *lone = &crowd->lone;

	memset(crowd, 0, sizeof(*crowd));
	many_world_open(lone, options);
	crowd->n = n;
	for (uint32_t i = 0; i < n; i++) {
		lone_newcomer(lone, (uint8_t)(FIRST_HOST + i));
		speaks(&crowd->members[i], lone);
	}
	ck_assert_int_eq(crowd_send(crowd), 0);
	ck_assert_uint_eq(lone->asked_id, GROUP);
	for (uint32_t i = 0; i < n; i++) {
		speaks(lone, &crowd->members[i]);
		joined(lone);
	}
	lone_pass(lone, 2000000);
	/* the datagram was kept for them */
	for (uint8_t host = FIRST_HOST; host < FIRST_HOST + n; host++)
		ck_assert_uint_eq(n_to(lone, crowd->since, host, WIRE_SHORT), 1);
}

/* Sends a short. Returns how many copies went, and whether it went to many. */
static uint32_t copies_of_short(struct crowd *crowd, bool to_many)
{
	uint32_t n = 0;

	ck_assert_int_eq(crowd_send(crowd), 0);
	ck_assert_uint_eq(n_to(&crowd->lone, crowd->since, TO_MANY, WIRE_SHORT), to_many);
	for (uint32_t i = 0; i < crowd->n; i++)
		n += n_to(&crowd->lone, crowd->since, (uint8_t)(FIRST_HOST + i), WIRE_SHORT);
	return n;
}

static void check_told(struct crowd *crowd, bool told)
{
	for (uint32_t i = 0; i < crowd->n; i++)
		ck_assert_int_eq(was_told(crowd, crowd->since, i), told);
}

/* The last datagram to many, or (host) copy of it, that went since. */
static struct wire_packet last_short(struct crowd *crowd, uint8_t host)
{
	struct wire_packet packet = {0}, found = {0};

	for (uint32_t at = crowd->since; at < crowd->lone.n_sent; at++) {
		uint32_t slot = at % LONE_SENT_MAX;

		ck_assert_int_eq(wire_decode(crowd->lone.sent[slot], crowd->lone.sent_len[slot],
			&packet), 0);
		if (crowd->lone.sent_to[slot] == host && packet.h.type == WIRE_SHORT)
			found = packet;
	}
	ck_assert_uint_eq(found.h.type, WIRE_SHORT);
	return found;
}

static void says_heard(struct crowd *crowd, uint32_t i, uint64_t token, uint64_t number)
{
	speaks(&crowd->lone, &crowd->members[i]);
	say_stream(&crowd->lone, WIRE_HEARD, GROUP, token, number);
}

/* The first n say that they have heard that number. */
static void all_hear(struct crowd *crowd, uint32_t n, uint64_t number)
{
	for (uint32_t i = 0; i < n; i++)
		says_heard(crowd, i, crowd->token, number);
}

/* A stream that all hear; returns the number of the last short that went to many. */
static uint64_t crowd_hears(struct crowd *crowd, const char *options, uint32_t n)
{
	uint64_t number;

	crowd_open(crowd, options, n);
	ck_assert_uint_eq(copies_of_short(crowd, true), n);
	check_told(crowd, true);
	number = last_short(crowd, TO_MANY).h.number;
	all_hear(crowd, n, number);
	return number;
}

/*
 * All members get STREAM, and the first short goes both ways; after their answers, one datagram is
 * enough.
 */
START_TEST(stream__takes_the_place_of_copies)
{
	static struct crowd crowd;
	struct wire_packet packet, copy;

	crowd_open(&crowd, "group.many=4", 4);
	ck_assert_uint_eq(many.n_routes, 0);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 4);
	check_told(&crowd, true);
	packet = last_short(&crowd, TO_MANY);
	ck_assert_uint_eq(packet.h.src, ripc_service_incarnation(crowd.lone.svc));
	ck_assert_uint_eq(packet.h.dst, GROUP);
	ck_assert_uint_eq(packet.h.token, crowd.token);
	ck_assert_uint_eq(packet.h.number, crowd.number);
	ck_assert_uint_eq(packet.lends, GROUP);
	ck_assert_uint_eq(packet.call.value, 0);
	for (uint8_t host = FIRST_HOST; host < FIRST_HOST + 4; host++) {
		copy = last_short(&crowd, host);
		ck_assert_uint_eq(copy.call.value, (uint32_t)packet.h.number);
	}
	/* the datagram was to show the number */
	ck_assert_uint_eq(copies_of_short(&crowd, false), 4);
	ck_assert_uint_eq(last_short(&crowd, FIRST_HOST).call.value, 0);
	all_hear(&crowd, 4, packet.h.number);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 0);
	ck_assert_uint_eq(last_short(&crowd, TO_MANY).h.number, packet.h.number + 1);
	ck_assert_uint_eq(crowd.lone.n_sent, crowd.since + 1);
	ck_assert_uint_eq(lone_stats(&crowd.lone).many_sent, 2);
	ck_assert_uint_eq(lone_stats(&crowd.lone).short_sent, 4 * 4);
	lone_close_all(&crowd.lone);
	ck_assert_uint_eq(many.n_routes, 0);
}
END_TEST

/* Members that do not hear get copies with the number. For fewer than three it does not pay. */
START_TEST(stream__some_hear)
{
	static struct crowd crowd;
	uint64_t number;

	crowd_open(&crowd, "group.many=4", 5);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 5);
	check_told(&crowd, true);
	number = crowd.number;
	all_hear(&crowd, 2, number);
	says_heard(&crowd, 2, crowd.token, 0);
	ck_assert_uint_eq(copies_of_short(&crowd, false), 5);
	says_heard(&crowd, 2, crowd.token, number);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 2);
	ck_assert_uint_eq(last_short(&crowd, FIRST_HOST + 4).call.value, (uint32_t)number + 1);
	says_heard(&crowd, 1, crowd.token, 0); /* not any more */
	ck_assert_uint_eq(copies_of_short(&crowd, false), 5);
	lone_close_all(&crowd.lone);
}
END_TEST

/* Answers that say more than was sent, or are of another stream, group or partner, do not count. */
START_TEST(stream__invented_answers)
{
	static struct crowd crowd;

	crowd_open(&crowd, "group.many=4", 4);
	lone_newcomer(&crowd.lone, FIRST_HOST + 4); /* no member */
	speaks(&crowd.members[4], &crowd.lone);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 4);
	check_told(&crowd, true);
	all_hear(&crowd, 4, crowd.number + 1);
	all_hear(&crowd, 4, UINT64_MAX);
	crowd.token++;
	all_hear(&crowd, 4, crowd.number);
	crowd.token--;
	say_stream(&crowd.lone, WIRE_HEARD, GROUP + 1, crowd.token, crowd.number);
	says_heard(&crowd, 4, crowd.token, crowd.number);
	ck_assert_uint_eq(copies_of_short(&crowd, false), 4);
	all_hear(&crowd, 4, crowd.number);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 0);
	lone_close_all(&crowd.lone);
}
END_TEST

/* With few members, or 0, or a device that cannot: no stream at all. */
START_TEST(stream__not_for_few)
{
	static const char *const options[] = {"group.many=4", "group.many=0",
		"group.many=4096", ""};
	static struct crowd crowd;

	crowd_open(&crowd, options[_i], 3);
	ck_assert_uint_eq(copies_of_short(&crowd, false), 3);
	check_told(&crowd, false);
	ck_assert_uint_eq(many.n_exposed, 0);
	lone_close_all(&crowd.lone);
}
END_TEST

START_TEST(stream__device_cannot)
{
	static struct crowd crowd;

	crowd_open(&crowd, "group.many=3", 3);
	many.open_error = -EHOSTUNREACH;
	ck_assert_uint_eq(copies_of_short(&crowd, false), 3);
	check_told(&crowd, false);
	many.open_error = 0;
	ck_assert_uint_eq(copies_of_short(&crowd, false), 3); /* looked for again a little later */
	lone_pass(&crowd.lone, 20000);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 3);
	check_told(&crowd, true);
	lone_close_all(&crowd.lone);
}
END_TEST

START_TEST(option__wrong)
{
	static const char *const options[] = {"group.many=4097", "group.many=-1", "group.many=x",
		"group.many=", "group.much=1"};
	static struct lone lone;
	struct ripc_config cfg = {.size = sizeof(cfg), .backends = "lone", .options = options[_i],
		.flags = RIPC_SINGLE_THREAD};

	lone.env = (struct ripc__env){.arg = &lone, .now_us = lone_now_us, .wall_ns = lone_wall_ns,
		.random = lone_random, .backends = lone_backends, .sources = lone_sources,
		.idle = lone_idle};
	ck_assert_int_eq(ripc__open_in(&cfg, &lone.env, &lone.ctx), -EINVAL);
}
END_TEST

/* The network does not do it any more: answers that do not grow are found within 2 s. */
START_TEST(stream__stops_arriving)
{
	static struct crowd crowd;
	uint64_t top = crowd_hears(&crowd, "group.many=3", 4), began_us = crowd.lone.now_us;
	uint32_t n_copies = 0;

	while (n_copies == 0) {
		bool was_copied;

		lone_pass(&crowd.lone, 50000);
		ck_assert_uint_lt(crowd.lone.now_us - began_us, 2500000);
		ck_assert_int_eq(crowd_send(&crowd), 0);
		was_copied = n_to(&crowd.lone, crowd.since, FIRST_HOST, WIRE_SHORT);
		n_copies += was_copied;
		if (was_told(&crowd, crowd.since, 0))
			all_hear(&crowd, 4, top);
	}
	lone_close_all(&crowd.lone);
}
END_TEST

/*
 * Then another way is looked for. Earlier datagrams show nothing of that way: for as long as the
 * members' answers are no later, each short goes to each of them as a copy.
 */
START_TEST(stream__another_way_is_no_better)
{
	static struct crowd crowd;
	uint64_t top = crowd_hears(&crowd, "group.many=3", 4), end_us;

	for (uint32_t i = 0; i < 100; i++) {
		crowd_pass(&crowd, 50000, 0);
		ck_assert_int_eq(crowd_send(&crowd), 0);
		if (was_told(&crowd, crowd.since, 0))
			all_hear(&crowd, 4, top);
	}
	many.n_exposed = 0;
	end_us = crowd.lone.now_us + 60000000;
	while (crowd.lone.now_us < end_us) {
		crowd_pass(&crowd, 200000, 0);
		ck_assert_int_eq(crowd_send(&crowd), 0);
		for (uint8_t host = FIRST_HOST; host < FIRST_HOST + 4; host++)
			ck_assert_uint_eq(n_to(&crowd.lone, crowd.since, host, WIRE_SHORT), 1);
		if (was_told(&crowd, crowd.since, 0))
			all_hear(&crowd, 4, top);
	}
	ck_assert_uint_gt(many.n_exposed, 1);
	ck_assert_uint_lt(many.n_exposed, 8);
	/* The new way is better, as the next answers show. */
	do {
		crowd_pass(&crowd, 200000, 0);
		ck_assert_int_eq(crowd_send(&crowd), 0);
	} while (!was_told(&crowd, crowd.since, 0));
	top = last_short(&crowd, TO_MANY).h.number;
	all_hear(&crowd, 4, top);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 0);
	/* And if it ends, that is found as soon as ever, though nobody had heard for so long. */
	end_us = crowd.lone.now_us + 2500000;
	do {
		ck_assert_uint_lt(crowd.lone.now_us, end_us);
		crowd_pass(&crowd, 100000, 0);
		ck_assert_int_eq(crowd_send(&crowd), 0);
		if (was_told(&crowd, crowd.since, 0))
			all_hear(&crowd, 4, top);
	} while (!n_to(&crowd.lone, crowd.since, FIRST_HOST, WIRE_SHORT));
	lone_close_all(&crowd.lone);
}
END_TEST

/* A member that has not answered for a while gets copies; so do all after a silence. */
START_TEST(stream__answers_grow_old)
{
	static struct crowd crowd;

	(void)crowd_hears(&crowd, "group.many=3", 4);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 0);
	lone_pass(&crowd.lone, 4000000);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 4);
	check_told(&crowd, true);
	all_hear(&crowd, 4, last_short(&crowd, TO_MANY).h.number);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 0);
	lone_close_all(&crowd.lone);
}
END_TEST

/* The network takes nothing, or fails: all get copies, of a number that is not used again. */
START_TEST(stream__cannot_be_sent)
{
	static struct crowd crowd;
	uint64_t top = crowd_hears(&crowd, "group.many=3", 4);

	many.full = true;
	ck_assert_uint_eq(copies_of_short(&crowd, false), 4);
	ck_assert_uint_eq(last_short(&crowd, FIRST_HOST).call.value, (uint32_t)top + 1);
	many.full = false;
	ck_assert_uint_eq(copies_of_short(&crowd, true), 0);
	ck_assert_uint_eq(last_short(&crowd, TO_MANY).h.number, top + 2);
	many.send_error = -ENETUNREACH;
	ck_assert_uint_eq(copies_of_short(&crowd, false), 4);
	ck_assert_uint_eq(last_short(&crowd, FIRST_HOST).call.value, (uint32_t)top + 3);
	ck_assert_uint_eq(many.n_routes, 0);
	many.send_error = 0;
	ck_assert_uint_eq(copies_of_short(&crowd, false), 4);
	all_hear(&crowd, 4, top + 2);
	lone_pass(&crowd.lone, 100000);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 4); /* the new way is to be shown */
	all_hear(&crowd, 4, top + 2);
	ck_assert_uint_eq(copies_of_short(&crowd, false), 4);
	all_hear(&crowd, 4, top + 4);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 0);
	lone_close_all(&crowd.lone);
	ck_assert_uint_eq(many.n_routes, 0);
}
END_TEST

/* A new member gets copies until it has answered; a former member gets nothing. */
START_TEST(stream__members_come_and_go)
{
	static struct crowd crowd;
	struct lone *lone = &crowd.lone;

	(void)crowd_hears(&crowd, "group.many=3", 4);
	lone_newcomer(lone, FIRST_HOST + 4);
	speaks(&crowd.members[crowd.n++], lone);
	lone_pass(lone, 11000000);
	ck_assert_int_eq(crowd_send(&crowd), 0);
	crowd_pass(&crowd, 1000, 0);
	ck_assert_uint_eq(n_to(lone, crowd.since, FIRST_HOST + 4, WIRE_STREAM), 0);
	all_hear(&crowd, 4, last_short(&crowd, TO_MANY).h.number);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 1);
	ck_assert_uint_eq(n_to(lone, crowd.since, FIRST_HOST + 4, WIRE_SHORT), 1);
	lone_pass(lone, 1000000);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 1);
	check_told(&crowd, true);
	all_hear(&crowd, 5, last_short(&crowd, TO_MANY).h.number);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 0);
	lone->heeds = GROUP; /* members that answer no echo are looked for */
	for (uint32_t i = 0; i < 60; i++) {
		crowd_pass(&crowd, 1000000, 1); /* the first member is silent */
		ck_assert_int_eq(crowd_send(&crowd), 0);
		for (uint32_t k = 1; k < 5; k++)
			says_heard(&crowd, k, crowd.token, last_short(&crowd, TO_MANY).h.number);
	}
	ck_assert_uint_eq(n_to(lone, crowd.since, FIRST_HOST, WIRE_STREAM), 0);
	ck_assert_uint_eq(n_to(lone, crowd.since, FIRST_HOST, WIRE_SHORT), 0);
	ck_assert_uint_eq(copies_of_short(&crowd, true), 0);
	lone_close_all(lone);
}
END_TEST

/* The service is closed between a short and the answers; another one has a stream of its own. */
START_TEST(stream__service_closed)
{
	static struct crowd crowd;
	struct lone *lone = &crowd.lone;
	uint64_t top = crowd_hears(&crowd, "group.many=3", 3);
	struct ripc_service *other;
	struct ripc_stats stats;

	ck_assert_int_eq(ripc_service_open(lone->ctx, 0, 0, &other), 0);
	ck_assert_int_eq(crowd_send(&crowd), 0);
	ck_assert_int_eq(ripc_service_drain(lone->svc, 0), 0);
	all_hear(&crowd, 3, top);
	ck_assert_uint_eq(many.n_routes, 1);
	ck_assert_int_eq(ripc_service_close(lone->svc), 0);
	ck_assert_uint_eq(many.n_routes, 0);
	many.comes_by_multicast = false;
	lone->svc = other;
	ck_assert_int_eq(crowd_send(&crowd), 0);
	ck_assert_uint_eq(n_to(lone, crowd.since, TO_MANY, WIRE_SHORT), 0); /* no partners yet */
	stats = lone_stats(lone);
	ck_assert_uint_eq(stats.services, 1);
	lone_close_all(lone);
	ck_assert_uint_eq(many.n_routes, 0);
}
END_TEST

/* After a minute without shorts it gives its way up when another stream begins. */
START_TEST(stream__idle_one_ends)
{
	static struct crowd crowd;
	struct lone *lone = &crowd.lone;
	uint64_t token, text = 1;
	const struct iovec item = {&text, sizeof(text)};

	(void)crowd_hears(&crowd, "group.many=1", 3);
	token = crowd.token;
	for (uint32_t i = 0; i < 61; i++)
		crowd_pass(&crowd, 1000000, 0);
	ck_assert_int_eq(ripc_send_short(lone->svc, GROUP + 1, &item, 1), 0);
	ck_assert_uint_eq(lone->asked_id, GROUP + 1);
	ck_assert_uint_eq(many.n_routes, 1);
	joined_to(lone, GROUP + 1);
	lone_pass(lone, 2000000);
	crowd.since = lone->n_sent;
	ck_assert_int_eq(ripc_send_short(lone->svc, GROUP + 1, &item, 1), 0);
	ck_assert_uint_eq(many.n_exposed, 2);
	ck_assert_uint_eq(many.n_routes, 1); /* the other one's */
	ck_assert_uint_ne(last_short(&crowd, TO_MANY).h.token, token);
	ck_assert_uint_eq(lone->svc->mcast_out.count, 2);
	lone_close_all(lone);
	ck_assert_uint_eq(many.n_routes, 0);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{stream__takes_the_place_of_copies, 1},
		{stream__some_hear, 1},
		{stream__invented_answers, 1},
		{stream__not_for_few, 4},
		{stream__device_cannot, 1},
		{option__wrong, 5},
		{stream__stops_arriving, 1},
		{stream__another_way_is_no_better, 1},
		{stream__answers_grow_old, 1},
		{stream__cannot_be_sent, 1},
		{stream__members_come_and_go, 1},
		{stream__service_closed, 1},
		{stream__idle_one_ends, 1},
		{NULL, 0},
	};

	return suite_run_loops("streams", loops);
}
