/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of a seed: how many nodes, which faults and how often. */
#include "world.h"

#define LEAST_MTU 1232 /* IPv6's least MTU minus headers: these pass everywhere */
#define PERCENT   10000u /* per million */

/* Nothing in a third of the cases, else evenly up to most. */
static uint32_t up_to(struct sim_random *random, uint32_t most)
{
	return sim_chance(random, 333333) ? 0 : (uint32_t)sim_between(random, 0, most);
}

static uint32_t sometimes(struct sim_random *random, uint32_t percent, uint32_t most)
{
	return sim_chance(random, percent * PERCENT) ? (uint32_t)sim_between(random, 1, most) : 0;
}

static void draw_packets(struct sim_random *random, struct sim_plan *plan)
{
	static const uint32_t mtus[] = {1200, 1280, 1472, 1500, 4096, 8972, 65507};

	plan->loss = up_to(random, 30 * PERCENT);
	plan->reorder = up_to(random, 20 * PERCENT);
	plan->duplicate = up_to(random, 5 * PERCENT);
	plan->corrupt = up_to(random, 5 * PERCENT);
	plan->late = up_to(random, 2 * PERCENT);
	plan->forge = sometimes(random, 40, 2 * PERCENT);
	plan->send_full = sometimes(random, 20, 5 * PERCENT);
	plan->mtu = mtus[sim_below(random, sizeof(mtus) / sizeof(mtus[0]))];
	if (plan->mtu > 1500 && sim_chance(random, 20 * PERCENT))
		plan->hole_bytes = (uint32_t)sim_between(random, LEAST_MTU, 1500);
	if (sim_chance(random, 40 * PERCENT))
		plan->receive_buffer = 3 * plan->mtu + (uint32_t)sim_log(random, 16 << 10, 4 << 20);
}

static void draw_delays(struct sim_random *random, struct sim_plan *plan)
{
	uint32_t most_us = (uint32_t)sim_log(random, 20, 5000);

	for (uint32_t a = 0; a < SIM_NODES; a++)
		for (uint32_t b = 0; b < SIM_NODES; b++)
			plan->delay_us[a][b] = (uint32_t)sim_log(random, 10, most_us);
	plan->jitter_us = up_to(random, most_us / 2);
	plan->reorder_us = most_us * 4 + 100;
	plan->poll_delay_us = sim_chance(random, 50 * PERCENT) ?
		(uint32_t)sim_log(random, 5, 2000) : 0;
}

/*
 * To many: all hear all, or nobody does, some nodes are deaf, or some do not hear some; and it may
 * stop working for a while.
 */
static void draw_many(const struct sim_world *world, struct sim_random *random,
		struct sim_plan *plan)
{
	uint64_t kind = sim_below(random, 10);
	uint32_t deaf = kind == 9 ? UINT32_MAX : (uint32_t)sim_next(random);

	for (uint32_t a = 0; a < SIM_NODES; a++) {
		plan->many[a] = (1u << SIM_NODES) - 1;
		if (kind >= 6)
			plan->many[a] &= ~(kind == 8 ? (uint32_t)sim_next(random) : deaf);
	}
	plan->many_loss = sometimes(random, 20, 30 * PERCENT);
	plan->many_fails = sometimes(random, 20, 50 * PERCENT);
	if (!sim_chance(random, 40 * PERCENT))
		return;
	plan->many_off_us = world->now_us + sim_below(random, plan->span_us);
	plan->many_on_us = plan->many_off_us + sim_log(random, 1000, plan->span_us);
}

static void draw_failures(const struct sim_world *world, struct sim_random *random,
		struct sim_plan *plan)
{
	plan->n_partitions = sometimes(random, 40, 4);
	plan->n_crashes = sometimes(random, 40, 3);
	plan->n_moves = sometimes(random, 40, 3);
	plan->n_reopens = sometimes(random, 30, 3);
	plan->n_jumps = sometimes(random, 15, 2);
	plan->n_stalls = sometimes(random, 30, 5);
	plan->n_rivals = sometimes(random, 10, 2);
	plan->n_addresses = world->addresses ? (uint32_t)sim_between(random, 1, 6) : 0;
	plan->n_strands = world->addresses ? (uint32_t)sim_between(random, 0, 3) : 0;
	if (plan->n_rivals)
		plan->n_jumps = 0; /* a clock that is wrong makes the younger one look older */
}

/* A cut so long that sends with all the patience in the world must give up on account of it. */
static void make_long_cut(struct sim_random *random, struct sim_plan *plan)
{
	plan->long_cut = true;
	plan->timeout_ms = 20000;
	plan->peer_timeout_ms = (uint32_t)sim_log(random, 400, 2000);
	plan->pause_us = 0;
	plan->n_jumps = 0;
	plan->span_us = sim_between(random, 13000000, 16000000);
}

/* Every other packet comes twice, out of order, and sends are cancelled while they do. */
static void make_storm(struct sim_plan *plan)
{
	plan->duplicate = 50 * PERCENT;
	plan->reorder = 20 * PERCENT;
	plan->cancel = 40 * PERCENT;
}

/* Packets are lost, but nobody dies and every link works. */
static void make_mild(struct sim_plan *plan)
{
	plan->mild = true;
	plan->loss = plan->loss / 6;
	plan->corrupt = plan->corrupt / 2;
	plan->send_full = plan->send_full / 4;
	plan->hole_bytes = 0;
	plan->n_partitions = plan->n_crashes = plan->n_moves = plan->n_reopens = 0;
	plan->n_jumps = plan->n_stalls = plan->n_rivals = plan->n_strands = 0;
	if (plan->peer_timeout_ms < 2500)
		plan->peer_timeout_ms += 2500;
}

/* One node is far from all others, as are those with the same ID there. */
static void make_far(const struct sim_world *world, struct sim_plan *plan)
{
	uint64_t state = world->seed;
	uint32_t far = (uint32_t)(sim_splitmix(&state) % plan->n_nodes);
	uint32_t delay_us = 25000 + (uint32_t)(sim_splitmix(&state) % 100000);

	for (uint32_t i = 0; i < SIM_NODES; i++)
		plan->delay_us[i][far] = plan->delay_us[far][i] = delay_us;
	plan->far = true;
	plan->n_rivals = 2;
	plan->n_jumps = 0;
	plan->peer_timeout_ms += 2500;
}

/*
 * Only packets with the bytes of longer messages are lost, and CANCELs: all of them, or every
 * second one. An ordered message that is short then waits for nothing but its turn.
 */
static void make_flows(struct sim_random *random, struct sim_plan *plan)
{
	make_mild(plan);
	plan->loss = plan->corrupt = plan->send_full = plan->receive_buffer = plan->burst = 0;
	plan->pause_us = 0;
	plan->span_us = sim_between(random, 3000000, 6000000);
	plan->data_loss = (uint32_t)sim_between(random, 60 * PERCENT, 95 * PERCENT);
	plan->cancel_loss = sim_chance(random, 50 * PERCENT) ? 100 * PERCENT : 50 * PERCENT;
	plan->late = (uint32_t)sim_between(random, 0, 5 * PERCENT);
	plan->n_flows = (uint32_t)sim_between(random, 20, 40);
}

static void draw_use(struct sim_random *random, struct sim_plan *plan)
{
	plan->window = sometimes(random, 50, 60 * PERCENT);
	plan->lend = sometimes(random, 40, 40 * PERCENT);
	plan->give = sometimes(random, 30, 40 * PERCENT);
	plan->cancel = sometimes(random, 40, 30 * PERCENT);
	plan->hold = sometimes(random, 50, 30 * PERCENT);
	plan->narrow = sometimes(random, 50, 40 * PERCENT);
	plan->peer_timeout_ms = (uint32_t)sim_log(random, 400, 4000);
	plan->span_us = sim_log(random, 500000, 8000000);
	plan->late_us = 10000000;
	if (sim_chance(random, 6 * PERCENT)) {
		/* Long enough for state to be forgotten, and packets that live as long. */
		plan->pause_us = sim_between(random, 50000000, 150000000);
		plan->late_us = 160000000;
	}
	plan->ordered = sometimes(random, 50, 100 * PERCENT);
	plan->burst = sometimes(random, 8, 400);
	plan->timeout_ms = 5000;
	plan->incast = sim_chance(random, 20 * PERCENT);
}

/* As InfiniBand is: there is no checksum to save us. */
static void make_intact(struct sim_plan *plan)
{
	plan->intact = true;
	plan->corrupt = plan->forge = 0;
}

/* One seed of eight; the plain form has flows in one of those that the others use. */
static bool is_rehomed(const struct sim_world *world)
{
	return !world->addresses && world->seed % 8 == (world->keys || world->groups ? 6 : 2);
}

/* Nodes get other addresses: nothing excuses that a partner is not followed. */
static void make_rehomed(const struct sim_world *world, struct sim_plan *plan)
{
	make_mild(plan);
	plan->long_cut = false;
	plan->timeout_ms = 5000;
	plan->pause_us = 0;
	plan->claims = 0;
	plan->n_rehomes = 1 + (uint32_t)(world->seed / 8 % 4);
	if (plan->span_us < 2000000)
		plan->span_us = 2000000;
}

void sim_plan_draw(struct sim_world *world, bool native, bool store)
{
	struct sim_random *random = &world->random;
	struct sim_plan *plan = &world->plan;

	plan->claims = world->seed % 4 == 3;
	plan->n_nodes = (uint32_t)sim_between(random, 2, SIM_NODES);
	plan->n_services = plan->n_nodes < 5 ?
		(uint32_t)sim_between(random, plan->n_nodes, 2 * plan->n_nodes) : plan->n_nodes;
	plan->native = native;
	plan->store = store;
	plan->shared_hosts = sim_chance(random, 25 * PERCENT);
	draw_delays(random, plan);
	draw_use(random, plan);
	if (world->groups)
		draw_many(world, random, plan);
	if (world->seed % 8 == 6 && !native && !world->groups && !world->keys) {
		plan->mtu = 1500;
		make_flows(random, plan);
		return;
	}
	if (sim_chance(random, 5 * PERCENT)) {
		plan->mtu = 1500; /* a calm world: whatever fails here has no excuse */
		return;
	}
	draw_packets(random, plan);
	draw_failures(world, random, plan);
	if (native && sim_chance(random, 50 * PERCENT))
		make_intact(plan);
	if (sim_chance(random, 8 * PERCENT))
		make_storm(plan);
	else if (sim_chance(random, 20 * PERCENT))
		make_mild(plan);
	else if (sim_chance(random, 10 * PERCENT))
		make_long_cut(random, plan);
	if (world->seed % 16 == 5 && !plan->mild && !plan->long_cut && !world->groups)
		make_far(world, plan);
	if (is_rehomed(world) && !native && !store && !plan->shared_hosts)
		make_rehomed(world, plan);
}
