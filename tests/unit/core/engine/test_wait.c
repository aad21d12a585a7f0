/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting while things come that nobody waits for, without end: a device that always has one more
 * datagram, another beside it, and a clock that goes on by one microsecond when it is read.
 */
#include "lone.h"

#define POLLS_MAX 1000000u /* most polls during the waiting time */
#define WAIT_MS   20

static struct {
	struct ripc__backend flooded, quiet;
	const struct ripc__backend *backends[3];
	uint32_t n_polls, n_quiet_polls;
} flood;

static int flooded_poll(void *port, struct ripc__event *events, uint32_t n, bool all)
{
	struct lone *lone = ((struct lone_port *)port)->lone;

	(void)n;
	(void)all;
	ck_assert_uint_lt(flood.n_polls++, POLLS_MAX);
	events[0] = (struct ripc__event){.kind = RIPC_EV_DATAGRAM, .data = lone->in, .len = 3,
		.from = &lone->from};
	return 1;
}

static int quiet_poll(void *port, struct ripc__event *events, uint32_t n, bool all)
{
	(void)port;
	(void)events;
	(void)n;
	(void)all;
	flood.n_quiet_polls++;
	return 0;
}

static uint64_t ticking_now_us(void *arg)
{
	return ((struct lone *)arg)->now_us++;
}

static void flooded_open(struct lone *lone, uint32_t spin_us)
{
	struct ripc_config cfg = {.size = sizeof(cfg), .pool_bytes = 1u << 20, .spin_us = spin_us,
		.flags = RIPC_SINGLE_THREAD};

	memset(&flood, 0, sizeof(flood));
	flood.flooded = flood.quiet = lone_backend;
	flood.flooded.datagrams.poll = flooded_poll;
	flood.quiet.datagrams.poll = quiet_poll;
	flood.quiet.name = "quiet";
	flood.quiet.id = 98;
	flood.backends[0] = &flood.flooded;
	flood.backends[1] = &flood.quiet;
	*lone = (struct lone){.now_us = 1000000000, .seed = 1};
	lone->env = (struct ripc__env){.arg = lone, .now_us = ticking_now_us,
		.wall_ns = lone_wall_ns, .random = lone_random, .backends = flood.backends,
		.sources = lone_sources};
	ck_assert_int_eq(ripc__open_in(&cfg, &lone->env, &lone->ctx), 0);
	ck_assert_int_eq(ripc_service_open(lone->ctx, 0, 0, &lone->svc), 0);
}

/* A call comes back in time, and the other device and what is due are not forgotten. */
START_TEST(wait__beside_a_flood)
{
	static struct lone lone;
	struct ripc_msg *msg;
	uint32_t before;

	flooded_open(&lone, _i ? 1000 : 0);
	ck_assert_int_eq(ripc_receive(lone.svc, WAIT_MS, &msg), -ETIMEDOUT);
	ck_assert_uint_gt(flood.n_polls, 1000);
	before = flood.n_quiet_polls;
	flood.n_polls = 0;
	ck_assert_int_eq(ripc_receive(lone.svc, WAIT_MS, &msg), -ETIMEDOUT);
	ck_assert_uint_ge(flood.n_quiet_polls - before, flood.n_polls / 300);
	ck_assert_uint_gt(flood.n_quiet_polls, before);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {{ wait__beside_a_flood, 2 }, { NULL, 0 }};

	return suite_run_loops("wait", loops);
}
