/* SPDX-License-Identifier: BSD-3-Clause */
/* A partner whose end is proven: what becomes of what was under way, and of what it held. */
#include <stdatomic.h>

#include "core/objects.h"
#include "core/partner/death.h"
#include "core/peer/devices.h"
#include "core/wire/wire.h"
#include "lone.h"

#define SETTLED_US 10000u

static void die(struct lone *lone)
{
	ripc__death_told(lone->ctx, lone->context);
	lone_pass(lone, SETTLED_US);
}

/* Wholly sent: UNKNOWN. Sent in part: NOT_DELIVERED. Later: it cannot begin. */
START_TEST(death__ends_what_is_under_way)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, _i ? LONE_LONG : 100), 0);
	lone_pass(&lone, 1000);
	die(&lone);
	lone_expect_end(&lone, _i ? RIPC_NOT_DELIVERED : RIPC_UNKNOWN);
	ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, 100), -ENOENT);
	lone_close_all(&lone);
}
END_TEST

/* Two holders end one after the other: a send begun between the two ends is UNKNOWN. */
START_TEST(death__two_end_one_after_the_other)
{
	static struct lone lone;
	uint64_t first;

	lone_open(&lone);
	lone_introduce(&lone);
	first = lone.context;
	lone_newcomer(&lone, 3);
	ripc__death_told(lone.ctx, first);
	lone_pass(&lone, 1000);
	ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, 100), 0);
	lone_pass(&lone, 100);
	die(&lone);
	lone_expect_end(&lone, RIPC_UNKNOWN);
	lone_close_all(&lone);
}
END_TEST

static bool looks_everywhere;

static int shy_poll(void *port, struct ripc__event *events, uint32_t n, bool all)
{
	looks_everywhere |= all;
	return looks_everywhere ? lone_poll(port, events, n, all) : 0;
}

/* An answer that came before the proof, and lies where polls seldom look, counts. */
START_TEST(death__last_words_are_heard)
{
	static struct ripc__backend shy;
	static const struct ripc__backend *const backends[] = {&shy, NULL};
	struct wire_packet packet, answer = {.h.type = WIRE_ANSWER};
	static struct lone lone;
	uint32_t since;

	shy = lone_backend;
	shy.datagrams.poll = shy_poll;
	looks_everywhere = true;
	lone_open_on(&lone, backends);
	lone_introduce(&lone);
	since = lone.n_sent;
	ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, 100), 0);
	lone_pass(&lone, 1000);
	ck_assert(lone_hear(&lone, since, WIRE_ANNOUNCE, &packet));
	looks_everywhere = false;
	answer.ack.number = packet.h.number;
	lone_put(&lone, &answer, NULL, NULL);
	die(&lone);
	lone_expect_end(&lone, RIPC_DELIVERED);
	lone_close_all(&lone);
}
END_TEST

static uint32_t n_wakes;

static void count_wake(void *port)
{
	(void)port;
	n_wakes++;
}

/* A call sleeps in the port: it is woken, and the end counts as soon as it is back. */
START_TEST(death__beside_a_sleep_in_the_port)
{
	static struct ripc__backend sleepy;
	static const struct ripc__backend *const backends[] = {&sleepy, NULL};
	static struct lone lone;
	struct ripc_msg *msg;

	sleepy = lone_backend;
	sleepy.net.wake = count_wake;
	n_wakes = 0;
	lone_open_on(&lone, backends);
	lone_introduce(&lone);
	ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, 100), 0);
	lone_pass(&lone, 1000);
	atomic_store(&lone.ctx->loop.waits_on, &lone.ctx->peers.devices[0]);
	die(&lone);
	ck_assert_uint_gt(n_wakes, 0);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
	atomic_store(&lone.ctx->loop.waits_on, NULL);
	lone_pass(&lone, 1);
	lone_expect_end(&lone, RIPC_UNKNOWN);
	lone_close_all(&lone);
}
END_TEST

/* Messages that were certainly not delivered go to the next owner of the ID. */
START_TEST(death__next_holder_gets_what_is_left)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	ck_assert_int_eq(lone_send_long(&lone, 0, LONE_LONG), 0);
	lone_pass(&lone, 1000);
	die(&lone);
	lone_expect_next_holder(&lone, 2);
	lone_close_all(&lone);
}
END_TEST

/* An answer that the dead has given before its end names nobody. */
START_TEST(death__late_answer_is_asked_again)
{
	static struct lone lone;
	uint32_t since, n_asked;

	lone_open(&lone);
	lone_introduce(&lone);
	die(&lone);
	ck_assert_int_eq(lone_send_long(&lone, 0, 100), 0);
	since = lone.n_sent;
	n_asked = lone.n_asked;
	lone_answer(&lone, lone.incarnation, lone.context, 2);
	lone_pass(&lone, 400000);
	ck_assert_uint_eq(lone.n_sent, since);
	ck_assert_uint_gt(lone.n_asked, n_asked);
	lone_close_all(&lone);
}
END_TEST

/* Four that die in the middle of a message leave all that they held to others, at once. */
START_TEST(death__gives_back_shares)
{
	static struct lone lone;
	struct wire_packet packet = {.h = {.type = WIRE_ANNOUNCE, .number = 1}, .n_items = 1,
		.announce = {.total = 5000000, .oldest = 1, .n_items = 1}};
	uint64_t context;

	lone_open(&lone);
	lone_introduce(&lone);
	context = lone.context;
	for (uint8_t i = 0; i < 4; i++) {
		lone_newcomer(&lone, (uint8_t)(10 + i));
		lone_say(&lone, &packet, &packet.announce.total, NULL);
	}
	ck_assert_uint_eq(lone.ctx->peers.quota[SHARE_UNFINISHED], 4);
	while (lone.context > context)
		ripc__death_told(lone.ctx, lone.context--);
	lone_pass(&lone, SETTLED_US);
	for (int share = 0; share < SHARES; share++)
		ck_assert_uint_eq(lone.ctx->peers.quota[share], 0);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{death__ends_what_is_under_way, 2},
		{death__two_end_one_after_the_other, 1},
		{death__last_words_are_heard, 1},
		{death__beside_a_sleep_in_the_port, 1},
		{death__next_holder_gets_what_is_left, 1},
		{death__late_answer_is_asked_again, 1},
		{death__gives_back_shares, 1},
		{NULL, 0},
	};

	return suite_run_loops("death", loops);
}
