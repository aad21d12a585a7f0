/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast datagrams: heard only as announced by the sender, each short once, by any route. */
#include "../../many.h"
#include "core/group/mcast_in.h"
#include "core/objects.h"
#include "core/partner/partner.h"

#define TOKEN  0x70ce70ceu
#define FIRST  ((1ull << 32) + (1u << 21) + 1)
#define LOW(n) ((uint32_t)(n))

/* A member, and a partner that sends to the group. */
static void member_open(struct lone *lone)
{
	many_world_open(lone, "");
	lone_introduce(lone);
	ck_assert_int_eq(ripc_join(lone->svc, GROUP), 0);
}

/* The partner says that it sends to many from this number on. Returns what is answered: the highest
 * that was heard; UINT64_MAX: nothing is answered. */
static uint64_t told(struct lone *lone, uint64_t group, uint64_t token, uint64_t number)
{
	struct wire_packet packet;
	uint32_t since = lone->n_sent;

	say_stream(lone, WIRE_STREAM, group, token, number);
	if (!lone_hear(lone, since, WIRE_HEARD, &packet))
		return UINT64_MAX;
	ck_assert_uint_eq(packet.stream.group, group);
	ck_assert_uint_eq(packet.stream.token, token);
	ck_assert_uint_eq(packet.h.dst, lone->incarnation);
	ck_assert_uint_eq(lone->n_sent, since + 1);
	return packet.stream.number;
}

/* The first STREAM is answered at once, the others with the next STREAM. */
START_TEST(many__is_heard_and_answered)
{
	static struct lone lone;
	struct wire_packet packet;
	uint32_t since;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	ck_assert_uint_eq(many.n_heard, 1);
	since = lone.n_sent;
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_short(&lone, GROUP, LOW(FIRST));
	ck_assert(lone_hear(&lone, since, WIRE_HEARD, &packet));
	ck_assert_uint_eq(packet.stream.number, FIRST);
	since = lone.n_sent;
	say_many(&lone, GROUP, TOKEN, FIRST + 2);
	expect_short(&lone, GROUP, LOW(FIRST + 2));
	ck_assert(!lone_hear(&lone, since, WIRE_HEARD, &packet));
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST + 3), FIRST + 2);
	say_many(&lone, GROUP, TOKEN, FIRST + 1); /* late, but new */
	expect_short(&lone, GROUP, LOW(FIRST + 1));
	say_many(&lone, GROUP, TOKEN, FIRST + 1);
	say_many(&lone, GROUP, TOKEN, FIRST + 2);
	expect_nothing(&lone);
	ck_assert_uint_eq(lone_stats(&lone).drop_duplicate, 2);
	ck_assert_uint_eq(lone_stats(&lone).short_received, 3);
	lone_close_all(&lone);
}
END_TEST

/* To many and as a copy, in either order; before and after STREAM; and a number of before it. */
START_TEST(many__comes_once_beside_copies)
{
	static struct lone lone;

	member_open(&lone);
	say_copy(&lone, GROUP, LOW(FIRST));
	expect_short(&lone, GROUP, LOW(FIRST));
	say_many(&lone, GROUP, TOKEN, FIRST + 1); /* not told yet */
	expect_nothing(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_nothing(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST + 1), FIRST);
	say_many(&lone, GROUP, TOKEN, FIRST + 1);
	expect_short(&lone, GROUP, LOW(FIRST + 1));
	say_copy(&lone, GROUP, LOW(FIRST + 1));
	say_copy(&lone, GROUP, LOW(FIRST));
	expect_nothing(&lone);
	say_copy(&lone, GROUP, LOW(FIRST - 1)); /* late: it was not heard */
	expect_short(&lone, GROUP, LOW(FIRST - 1));
	say_many(&lone, GROUP, TOKEN, FIRST - 1); /* and could not have been */
	expect_nothing(&lone);
	say_copy(&lone, GROUP, 0); /* of one that did not go to many */
	expect_short(&lone, GROUP, 0);
	lone_close_all(&lone);
}
END_TEST

/* The number's upper half is told by STREAM; where the lower half is 0 copies say nothing. */
START_TEST(many__numbers_pass_the_lower_half)
{
	static struct lone lone;
	const uint64_t last = (5ull << 32) - 1;

	member_open(&lone);
	say_copy(&lone, GROUP, LOW(last - 1));
	expect_short(&lone, GROUP, LOW(last - 1));
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, last), 0);
	say_copy(&lone, GROUP, LOW(last));
	expect_short(&lone, GROUP, LOW(last));
	say_many(&lone, GROUP, TOKEN, last);
	expect_nothing(&lone);
	say_copy(&lone, GROUP, LOW(last + 2));
	expect_short(&lone, GROUP, 1);
	say_many(&lone, GROUP, TOKEN, last + 2);
	expect_nothing(&lone);
	say_many(&lone, GROUP, TOKEN, last + 3);
	expect_short(&lone, GROUP, 2);
	say_copy(&lone, GROUP, 2);
	say_copy(&lone, GROUP, LOW(last));
	expect_nothing(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, last + 4), last + 3);
	lone_close_all(&lone);
}
END_TEST

/* A service has one stream to a group: another token is not answered, and does not count. */
START_TEST(many__token_changes)
{
	static struct lone lone;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN + 1, FIRST + 1), UINT64_MAX);
	say_many(&lone, GROUP, TOKEN + 1, FIRST + 1);
	expect_nothing(&lone);
	say_many(&lone, GROUP, TOKEN, FIRST + 1);
	expect_short(&lone, GROUP, LOW(FIRST + 1));
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), FIRST + 1); /* the STREAM comes late */
	say_copy(&lone, GROUP, LOW(FIRST + 1));
	expect_nothing(&lone);
	lone_close_all(&lone);
}
END_TEST

/* The partner is known for all of the silence, and nothing of the stream comes. */
static void pass_in_silence(struct lone *lone)
{
	for (uint32_t i = 0; i < 30; i++) {
		lone_pass(lone, PARTNER_IDLE_US / 20);
		say_copy(lone, GROUP, 0);
		expect_short(lone, GROUP, 0);
	}
}

/* After so long a silence copies may have any number; what comes to many must be told again. */
START_TEST(many__after_a_silence)
{
	static struct lone lone;
	uint32_t since;
	const uint64_t next = FIRST + (1ull << 31) + 5;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_short(&lone, GROUP, LOW(FIRST));
	pass_in_silence(&lone);
	say_copy(&lone, GROUP, LOW(next));
	expect_short(&lone, GROUP, LOW(next));
	say_many(&lone, GROUP, TOKEN, next + 1);
	expect_nothing(&lone);
	since = lone.n_sent;
	ck_assert_int_eq(ripc_leave(lone.svc, GROUP), 0); /* there is no stream to tell of it */
	ck_assert_uint_eq(lone.n_sent, since);
	ck_assert_int_eq(ripc_join(lone.svc, GROUP), 0);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, next), 0);
	say_many(&lone, GROUP, TOKEN, next);
	expect_nothing(&lone);
	say_many(&lone, GROUP, TOKEN, next + 1);
	expect_short(&lone, GROUP, LOW(next + 1));
	lone_close_all(&lone);
}
END_TEST

/*
 * The same for a number whose lower half looks like the next, or like one that has come.
 */
START_TEST(many__jump_of_the_upper_half)
{
	static struct lone lone;
	const uint64_t nexts[] = {FIRST + (1ull << 32), FIRST + (2ull << 32) + 1,
		FIRST + (3ull << 32) + 64};

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_short(&lone, GROUP, LOW(FIRST));
	for (uint32_t i = 0; i < 3; i++) {
		pass_in_silence(&lone);
		say_copy(&lone, GROUP, LOW(nexts[i]));
		expect_short(&lone, GROUP, LOW(nexts[i]));
		say_copy(&lone, GROUP, LOW(nexts[i]));
		say_many(&lone, GROUP, TOKEN, nexts[i]);
		expect_nothing(&lone);
		ck_assert_uint_eq(told(&lone, GROUP, TOKEN, nexts[i]), 0);
		say_many(&lone, GROUP, TOKEN, nexts[i]);
		expect_nothing(&lone);
	}
	lone_close_all(&lone);
}
END_TEST

/* STREAM, which has the whole number, may be what ends the silence; or a datagram to many. */
START_TEST(many__stream_ends_a_silence)
{
	static struct lone lone;
	const uint64_t next = FIRST + (1ull << 32) + 5;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_short(&lone, GROUP, LOW(FIRST));
	pass_in_silence(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, next), 0);
	say_copy(&lone, GROUP, LOW(next));
	expect_short(&lone, GROUP, LOW(next));
	say_many(&lone, GROUP, TOKEN, next);
	expect_nothing(&lone);
	pass_in_silence(&lone);
	say_many(&lone, GROUP, TOKEN, next + (1ull << 32));
	expect_short(&lone, GROUP, LOW(next));
	say_copy(&lone, GROUP, LOW(next));
	expect_nothing(&lone);
	lone_close_all(&lone);
}
END_TEST

/* Until then nothing is forgotten. */
START_TEST(many__goes_on_before_so_long_a_silence)
{
	static struct lone lone;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_short(&lone, GROUP, LOW(FIRST));
	for (uint32_t i = 0; i < 19; i++) {
		lone_pass(&lone, PARTNER_IDLE_US / 20);
		say_copy(&lone, GROUP, 0);
		expect_short(&lone, GROUP, 0);
	}
	say_copy(&lone, GROUP, LOW(FIRST));
	expect_nothing(&lone);
	say_many(&lone, GROUP, TOKEN, FIRST + 70);
	expect_short(&lone, GROUP, LOW(FIRST + 70));
	say_copy(&lone, GROUP, LOW(FIRST + 1)); /* too late to tell */
	say_copy(&lone, GROUP, LOW(FIRST + 70));
	expect_nothing(&lone);
	lone_close_all(&lone);
}
END_TEST

/* Neither the address nor the token alone is enough; nor are datagrams of another kind. */
START_TEST(many__forged)
{
	static struct lone lone;
	struct wire_packet packet = {.h = {.type = WIRE_ECHO}, .value = 1};
	uint32_t since;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	since = lone.n_sent;
	say_many_from(&lone, lone.host + 1, GROUP, TOKEN, FIRST);
	say_many(&lone, GROUP, TOKEN + 1, FIRST);
	say_many(&lone, GROUP, 0, FIRST);
	say_many(&lone, GROUP + 1, TOKEN, FIRST);
	lone.incarnation++;
	say_many(&lone, GROUP, TOKEN, FIRST);
	lone.incarnation--;
	ck_assert_uint_eq(lone_stats(&lone).drop_token, 5);
	many.comes_by_multicast = true;
	lone_say(&lone, &packet, NULL, NULL); /* with the partner's own token */
	packet = group_short(GROUP, 1, 0);
	lone_say(&lone, &packet, NULL, "12345678"); /* to our incarnation */
	many.comes_by_multicast = false;
	ck_assert_uint_eq(lone_stats(&lone).drop_malformed, 2);
	expect_nothing(&lone);
	ck_assert_uint_eq(lone.n_sent, since);
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_short(&lone, GROUP, LOW(FIRST));
	lone_close_all(&lone);
}
END_TEST

/* Bytes that were altered on the way are dropped, and the copy, or the same once more, counts. */
START_TEST(many__altered)
{
	static struct lone lone;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	many.alters = true;
	say_many(&lone, GROUP, TOKEN, FIRST);
	many.alters = false;
	expect_nothing(&lone);
	ck_assert_uint_eq(lone_stats(&lone).drop_checksum, 1);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST + 1), 0);
	say_copy(&lone, GROUP, LOW(FIRST));
	expect_short(&lone, GROUP, LOW(FIRST));
	lone_close_all(&lone);
}
END_TEST

/* Messages to groups that the service has not joined, or has left, are not heard. */
START_TEST(stream__of_other_groups)
{
	static struct lone lone;
	struct wire_packet packet;
	uint32_t since;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP + 1, TOKEN, FIRST), UINT64_MAX);
	say_many(&lone, GROUP + 1, TOKEN, FIRST);
	say_copy(&lone, GROUP + 1, LOW(FIRST));
	expect_nothing(&lone);
	ck_assert_uint_eq(many.asked, 0);
	ck_assert_uint_eq(lone.ctx->peers.quota[SHARE_MCAST_IN], 0);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_short(&lone, GROUP, LOW(FIRST));
	since = lone.n_sent;
	ck_assert_int_eq(ripc_leave(lone.svc, GROUP), 0);
	ck_assert(lone_hear(&lone, since, WIRE_HEARD, &packet)); /* its sender knows at once */
	ck_assert_uint_eq(packet.stream.number, 0);
	ck_assert_uint_eq(many.n_heard, 0);
	say_many(&lone, GROUP, TOKEN, FIRST + 1);
	ck_assert_uint_eq(lone_stats(&lone).drop_token, 2);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST + 2), UINT64_MAX);
	say_copy(&lone, GROUP, LOW(FIRST + 1));
	expect_nothing(&lone);
	ck_assert_uint_eq(lone_stats(&lone).drop_no_member, 2);
	ck_assert_int_eq(ripc_join(lone.svc, GROUP), 0);
	ck_assert_uint_ne(told(&lone, GROUP, TOKEN, FIRST + 2), UINT64_MAX);
	ck_assert_uint_eq(many.n_heard, 1);
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_nothing(&lone);
	say_many(&lone, GROUP, TOKEN, FIRST + 2);
	expect_short(&lone, GROUP, LOW(FIRST + 2));
	lone_close_all(&lone);
}
END_TEST

/* Two services here are members, and were told by partners of their own: each gets it once. */
START_TEST(many__for_two_services)
{
	static struct lone lone;
	struct ripc_service *first;
	uint64_t first_token;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	first = lone.svc;
	first_token = lone.token_out;
	ck_assert_int_eq(ripc_service_open(lone.ctx, 0, 0, &lone.svc), 0);
	ck_assert_int_eq(ripc_join(lone.svc, GROUP), 0);
	lone.token_out = lone.proof = 0;
	lone.token_in++;
	lone_claim(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	ck_assert_uint_eq(many.n_heard, 1);
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_short(&lone, GROUP, LOW(FIRST));
	expect_nothing(&lone);
	ck_assert_int_eq(ripc_leave(lone.svc, GROUP), 0);
	ck_assert_uint_eq(many.n_heard, 1); /* for the other one */
	say_many(&lone, GROUP, TOKEN, FIRST + 1);
	expect_nothing(&lone);
	ck_assert_int_eq(ripc_service_close(lone.svc), 0);
	lone.svc = first;
	lone.token_out = first_token;
	expect_short(&lone, GROUP, LOW(FIRST));
	expect_short(&lone, GROUP, LOW(FIRST + 1));
	expect_nothing(&lone);
	ck_assert_int_eq(ripc_service_close(lone.svc), 0);
	ck_assert_uint_eq(many.n_heard, 0);
	ck_assert_uint_eq(lone.ctx->peers.quota[SHARE_MCAST_IN], 0);
	say_many(&lone, GROUP, TOKEN, FIRST + 2);
	lone_close_all(&lone);
}
END_TEST

/* The device hears no more numbers: of those beyond nothing is answered, and copies count. */
START_TEST(stream__more_than_the_device_hears)
{
	static struct lone lone;

	member_open(&lone);
	for (uint32_t i = 1; i <= HEARD_MOST; i++)
		ck_assert_int_eq(ripc_join(lone.svc, GROUP + i), 0);
	for (uint32_t i = 0; i < HEARD_MOST; i++)
		ck_assert_uint_eq(told(&lone, GROUP + i, TOKEN, FIRST), 0);
	ck_assert_uint_eq(told(&lone, GROUP + HEARD_MOST, TOKEN, FIRST), UINT64_MAX);
	say_many(&lone, GROUP + HEARD_MOST, TOKEN, FIRST);
	expect_nothing(&lone);
	say_copy(&lone, GROUP + HEARD_MOST, LOW(FIRST));
	expect_short(&lone, GROUP + HEARD_MOST, LOW(FIRST));
	ck_assert_int_eq(ripc_leave(lone.svc, GROUP), 0);
	ck_assert_uint_eq(told(&lone, GROUP + HEARD_MOST, TOKEN, FIRST + 1), 0);
	lone_close_all(&lone);
}
END_TEST

/*
 * Copies to ever more groups come, from group n on. Returns the first group that was not counted,
 * or n.
 */
static uint32_t streams_fill(struct lone *lone, uint32_t n)
{
	uint64_t before;

	for (;; n++) {
		ck_assert_uint_le(n, MCAST_IN_MAX);
		before = lone->ctx->peers.quota[SHARE_MCAST_IN];
		if (!ripc__map_get(&lone->svc->groups, GROUP + n))
			ck_assert_int_eq(ripc_join(lone->svc, GROUP + n), 0);
		say_copy(lone, GROUP + n, LOW(FIRST));
		expect_short(lone, GROUP + n, LOW(FIRST));
		if (lone->ctx->peers.quota[SHARE_MCAST_IN] == before)
			return n;
	}
}

/*
 * A partner that sends to more groups than are remembered is not heard by datagrams to many from
 * then on, as its copies are not counted; all of them count.
 */
START_TEST(stream__more_than_are_remembered)
{
	static struct lone lone;
	uint32_t n;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	n = streams_fill(&lone, 1);
	ck_assert_uint_eq(n, (MCAST_IN_MAX + 2) / 3); /* as it is alone (partner/partner.c) */
	say_copy(&lone, GROUP + n, LOW(FIRST + 1));
	expect_short(&lone, GROUP + n, LOW(FIRST + 1));
	ck_assert_uint_eq(told(&lone, GROUP + n, TOKEN, FIRST), UINT64_MAX);
	say_many(&lone, GROUP + n, TOKEN, FIRST);
	expect_nothing(&lone);
	/*
	 * Earlier numbers are heard, and counted beside their copies; they are not reported again.
	 */
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_short(&lone, GROUP, LOW(FIRST));
	say_copy(&lone, GROUP, LOW(FIRST));
	expect_nothing(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST + 1), UINT64_MAX);
	lone_close_all(&lone);
}
END_TEST

/* One host tells of streams without end, in the name of many contexts: others are heard. */
START_TEST(stream__of_a_host_beside_a_greedy_one)
{
	static struct lone lone;
	uint8_t host;

	member_open(&lone);
	host = lone.host;
	streams_fill(&lone, 1);
	for (uint32_t i = 0; i < 20; i++) {
		lone_newcomer(&lone, host);
		streams_fill(&lone, 1);
	}
	lone_newcomer(&lone, host + 1);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_short(&lone, GROUP, LOW(FIRST));
	ck_assert_uint_gt(streams_fill(&lone, 1), MCAST_IN_MAX / 8);
	lone_close_all(&lone);
	ck_assert_uint_eq(many.n_routes, 0);
}
END_TEST

/* A partner's streams count at the host where it lives now. */
START_TEST(stream__counts_where_the_partner_lives)
{
	static struct lone lone;
	struct partner *partner;
	struct ripc__addr addr;
	struct peer *peer;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	partner = list_entry(lone.ctx->partners.all.next, struct partner, node);
	ck_assert_uint_eq(partner->peer->host->quota[SHARE_MCAST_IN], 1);
	addr = (struct ripc__addr){.len = 1, .blob = {lone.host + 1}};
	addr.host[15] = addr.blob[0];
	ck_assert_int_eq(ripc__peer_get(lone.ctx, lone.ctx->peers.devices, lone.context, &addr,
		&peer), 0);
	ck_assert_ptr_ne(partner->peer->host, peer->host);
	ripc__partner_to_peer(partner, peer);
	ck_assert_uint_eq(partner->peer->host->quota[SHARE_MCAST_IN], 1);
	ck_assert_uint_eq(partner->peer->quota[SHARE_MCAST_IN], 1);
	ck_assert_uint_eq(lone.ctx->peers.quota[SHARE_MCAST_IN], 1);
	ripc__mcast_in_forget(partner);
	ck_assert_uint_eq(lone.ctx->peers.quota[SHARE_MCAST_IN], 0);
	ck_assert_uint_eq(partner->peer->host->quota[SHARE_MCAST_IN], 0);
	lone_close_all(&lone);
}
END_TEST

/* A partner that was taken for gone, and lives: the numbers that came before are still known. */
START_TEST(many__once_though_the_partner_was_lost)
{
	static struct lone lone;
	struct wire_packet gone = {.h = {.type = WIRE_GONE}, .value = 1};
	struct wire_packet hello = {.h = {.type = WIRE_HELLO_ONLY}}, packet;
	uint32_t since;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_short(&lone, GROUP, LOW(FIRST));
	gone.h.number = lone.token_in;
	lone_say(&lone, &gone, NULL, NULL);
	say_many(&lone, GROUP, TOKEN, FIRST + 1);
	expect_nothing(&lone);
	since = lone.n_sent;
	lone.token_out = 0;
	lone_say(&lone, &hello, NULL, NULL);
	ck_assert(lone_hear(&lone, since, WIRE_HELLO_ONLY, &packet));
	lone.token_out = packet.hello.token;
	say_copy(&lone, GROUP, LOW(FIRST));
	expect_nothing(&lone);
	say_copy(&lone, GROUP, LOW(FIRST + 1));
	expect_short(&lone, GROUP, LOW(FIRST + 1));
	say_many(&lone, GROUP, TOKEN, FIRST + 2); /* STREAM must come again first */
	expect_nothing(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST + 2), 0);
	say_many(&lone, GROUP, TOKEN, FIRST + 2);
	expect_short(&lone, GROUP, LOW(FIRST + 2));
	lone_close_all(&lone);
}
END_TEST

/* A partner that is forgotten takes what was told along. */
START_TEST(stream__partner_is_forgotten)
{
	static struct lone lone;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	ck_assert_uint_eq(lone.ctx->peers.quota[SHARE_MCAST_IN], 1);
	lone_pass(&lone, 200 * 1000000ull);
	ck_assert_uint_eq(lone_stats(&lone).partners, 0);
	ck_assert_uint_eq(lone.ctx->peers.quota[SHARE_MCAST_IN], 0);
	say_many(&lone, GROUP, TOKEN, FIRST);
	expect_nothing(&lone);
	lone_close_all(&lone);
}
END_TEST

/* While shorts come to many, and nothing else, the partner is in use. */
START_TEST(many__keeps_the_partner)
{
	static struct lone lone;
	const uint64_t n = 20;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	for (uint64_t i = 0; i < n; i++) {
		lone_pass(&lone, 10 * 1000000ull);
		say_many(&lone, GROUP, TOKEN, FIRST + i);
		expect_short(&lone, GROUP, LOW(FIRST + i));
	}
	lone_close_all(&lone);
}
END_TEST

/* A short to many, or a copy, comes and is delivered. */
static void takes_many(struct lone *lone, uint64_t number)
{
	say_many(lone, GROUP, TOKEN, number);
	expect_short(lone, GROUP, LOW(number));
}

static void takes_copy(struct lone *lone, uint64_t number)
{
	say_copy(lone, GROUP, LOW(number));
	expect_short(lone, GROUP, LOW(number));
}

/* A member, and a sender that the member has not resolved. */
static void claimed_open(struct lone *lone)
{
	many_world_open(lone, "");
	lone_claim(lone);
	ck_assert_int_eq(ripc_join(lone->svc, GROUP), 0);
}

/* The partner's context has another address from now on, and has drawn another token. */
static void moves(struct lone *lone, uint8_t host)
{
	lone->host = host;
	lone->token_in++;
	lone->token_out = lone->proof = 0;
	lone_claim(lone);
}

/* Copies come from one address, and what goes to many from another one: each short comes once. */
START_TEST(many__once_from_two_addresses)
{
	static struct lone lone;
	struct wire_packet packet;
	uint32_t since;
	uint8_t first;

	claimed_open(&lone);
	first = lone.host;
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	takes_many(&lone, FIRST);
	takes_many(&lone, FIRST + 1);
	moves(&lone, first + 1);
	since = lone.n_sent;
	say_copy(&lone, GROUP, LOW(FIRST));
	say_copy(&lone, GROUP, LOW(FIRST + 1));
	expect_nothing(&lone);
	takes_copy(&lone, FIRST + 2);
	ck_assert_uint_eq(n_to(&lone, since, first, WIRE_HEARD), 1); /* copies are needed */
	ck_assert(lone_hear(&lone, since, WIRE_HEARD, &packet));
	ck_assert_uint_eq(packet.stream.number, 0);
	say_many_from(&lone, first, GROUP, TOKEN, FIRST + 2);
	expect_nothing(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST + 3), 0);
	say_copy(&lone, GROUP, LOW(FIRST)); /* the copy came from the first address */
	say_many_from(&lone, first, GROUP, TOKEN, FIRST + 3);
	expect_nothing(&lone);
	takes_many(&lone, FIRST + 3);
	lone_close_all(&lone);
}
END_TEST

/* A liar claims to be the partner, says high numbers, and keeps none of its shorts away. */
START_TEST(many__claimed_numbers)
{
	static struct lone lone;

	claimed_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST + 500), 0);
	takes_many(&lone, FIRST + 500);
	moves(&lone, lone.host + 1); /* the true one */
	takes_copy(&lone, FIRST);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST + 1), 0);
	takes_copy(&lone, FIRST + 1);
	takes_many(&lone, FIRST + 2);
	lone_close_all(&lone);
}
END_TEST

/* The same where the partner is resolved, and the claim is that it has another ID. */
START_TEST(many__claimed_by_another_service)
{
	static struct lone lone;
	uint64_t service, token_in, token_out;
	uint8_t host;

	member_open(&lone);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), 0);
	service = lone.service;
	token_in = lone.token_in;
	token_out = lone.token_out;
	host = lone.host;
	lone.service++;
	moves(&lone, host + 1);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST + 10), 0);
	for (uint32_t i = 1; i < 10; i++)
		takes_copy(&lone, FIRST + i);
	lone.service = service;
	lone.token_in = token_in;
	lone.token_out = token_out;
	lone.host = host;
	takes_many(&lone, FIRST + 1);
	takes_copy(&lone, FIRST + 2);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST + 3), FIRST + 1);
	takes_many(&lone, FIRST + 3);
	lone_close_all(&lone);
}
END_TEST

/* 0: nothing is heard. */
START_TEST(stream__not_wanted)
{
	static struct lone lone;

	many_world_open(&lone, "group.many=0");
	lone_introduce(&lone);
	ck_assert_int_eq(ripc_join(lone.svc, GROUP), 0);
	ck_assert_uint_eq(told(&lone, GROUP, TOKEN, FIRST), UINT64_MAX);
	ck_assert_uint_eq(many.asked, 0);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		many__is_heard_and_answered,
		many__comes_once_beside_copies,
		many__numbers_pass_the_lower_half,
		many__token_changes,
		many__after_a_silence,
		many__jump_of_the_upper_half,
		many__stream_ends_a_silence,
		many__goes_on_before_so_long_a_silence,
		many__forged,
		many__altered,
		many__for_two_services,
		many__keeps_the_partner,
		many__once_though_the_partner_was_lost,
		many__once_from_two_addresses,
		many__claimed_numbers,
		many__claimed_by_another_service,
		stream__of_other_groups,
		stream__more_than_the_device_hears,
		stream__more_than_are_remembered,
		stream__of_a_host_beside_a_greedy_one,
		stream__counts_where_the_partner_lives,
		stream__partner_is_forgotten,
		stream__not_wanted,
		NULL,
	};

	return suite_run("heard", tests);
}
