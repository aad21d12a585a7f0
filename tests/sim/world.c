/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock of the simulated world, its events, and the trace. */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 200000 /* at one moment; more is a livelock */

void sim_world_open(struct sim_world *world, uint64_t seed)
{
	memset(world, 0, sizeof(*world));
	world->seed = seed;
	world->now_us = 1000000;
	sim_random_seed(&world->random, seed);
	sha256_init(&world->trace);
	for (uint32_t i = 0; i < SIM_NODES; i++) {
		struct sim_node *node = &world->nodes[i];

		node->world = world;
		node->slot = i;
		node->poll_at = node->wake_at = SIM_NEVER;
		node->datagrams.last = &node->datagrams.first;
		node->questions.last = &node->questions.first;
	}
}

static bool before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

void sim_at(struct sim_world *world, uint64_t at_us,
		void (*run)(struct sim_world *world, void *arg, uint64_t value), void *arg,
		uint64_t value)
{
	struct sim_event event = {.at = at_us < world->now_us ? world->now_us : at_us,
		.order = world->order++, .run = run, .arg = arg, .value = value};
	uint32_t at = world->n_events++;

	if (world->n_events > world->events_capacity) {
		world->events_capacity = world->events_capacity ? 2 * world->events_capacity : 256;
		world->events = realloc(world->events,
				world->events_capacity * sizeof(*world->events));
		if (!world->events)
			abort();
	}
	for (; at > 0 && before(&event, &world->events[(at - 1) / 2]); at = (at - 1) / 2)
		world->events[at] = world->events[(at - 1) / 2];
	world->events[at] = event;
}

static struct sim_event pop(struct sim_world *world)
{
	struct sim_event first = world->events[0], last = world->events[--world->n_events];
	uint32_t at = 0;

	for (uint32_t child; (child = 2 * at + 1) < world->n_events; at = child) {
		if (child + 1 < world->n_events &&
				before(&world->events[child + 1], &world->events[child]))
			child++;
		if (!before(&world->events[child], &last))
			break;
		world->events[at] = world->events[child];
	}
	world->events[at] = last;
	return first;
}

bool sim_failed(const struct sim_world *world)
{
	const char *text;

	return model_verdict(world->model, &text) != MODEL_OK;
}

static void move_clock(struct sim_world *world, uint64_t to_us)
{
	if (to_us > world->now_us) {
		world->now_us = to_us;
		world->n_steps_now = 0;
	} else if (++world->n_steps_now > STEPS_MAX) {
		model_fail(world->model, "livelock: much is done and no time passes");
	}
}

/* The node that has to be looked at first. Those in a waiting call look after themselves. */
static struct sim_node *first_node(struct sim_world *world, uint64_t *at_us)
{
	struct sim_node *first = NULL;

	*at_us = SIM_NEVER;
	for (uint32_t i = 0; i < world->plan.n_nodes; i++) {
		uint64_t next = sim_node_next(&world->nodes[i]);

		if (next < *at_us) {
			*at_us = next;
			first = &world->nodes[i];
		}
	}
	return first;
}

/* One event, or one node's turn, if there is one until then. */
static bool step(struct sim_world *world, uint64_t until_us)
{
	uint64_t node_at, event_at = world->n_events > 0 ? world->events[0].at : SIM_NEVER;
	struct sim_node *node = first_node(world, &node_at);

	if (event_at > until_us && node_at > until_us)
		return false;
	if (event_at <= node_at) {
		struct sim_event event = pop(world);

		move_clock(world, event.at);
		event.run(world, event.arg, event.value);
	} else {
		move_clock(world, node_at);
		sim_node_step(node);
	}
	return true;
}

void sim_run(struct sim_world *world, uint64_t until_us)
{
	while (!sim_failed(world) && step(world, until_us))
		;
	if (world->now_us < until_us && !sim_failed(world))
		move_clock(world, until_us);
}

/*
 * A waiting call of a node: the others go on, until something arrives at the node or its time
 * is over. A call that comes here again and again without letting time pass would hang.
 */
static void idle(void *arg, uint64_t until_us)
{
	struct sim_node *node = arg;
	struct sim_world *world = node->world;
	uint64_t until = until_us > node->clock_offset_us ? until_us - node->clock_offset_us : 0;

	node->n_idle = node->idle_at == world->now_us ? node->n_idle + 1 : 0;
	node->idle_at = world->now_us;
	if (node->n_idle > 1000) {
		model_fail(world->model, "a waiting call does not sleep");
		until = world->now_us + 1000;
	}
	node->waiting = true;
	while (node->wake_at > world->now_us || node->stalled_until > world->now_us) {
		uint64_t limit = node->wake_at < until ? node->wake_at : until;

		if (limit < node->stalled_until)
			limit = node->stalled_until;
		if (limit <= world->now_us || !step(world, limit)) {
			if (limit > world->now_us && limit != SIM_NEVER)
				move_clock(world, limit);
			break;
		}
	}
	node->wake_at = SIM_NEVER;
	node->waiting = false;
}

static uint64_t now_us(void *arg)
{
	const struct sim_node *node = arg;

	return node->world->now_us + node->clock_offset_us;
}

static uint64_t wall_ns(void *arg)
{
	const struct sim_node *node = arg;

	/* Rights end by it: at the same moment for all. */
	if (node->world->has_authority)
		return 1700000000000000000u + 1000 * node->world->now_us;
	return 1700000000000000000u + 1000 * (node->world->now_us + node->clock_offset_us);
}

static int random_bytes(void *arg, void *bytes, size_t len)
{
	struct sim_node *node = arg;
	uint8_t *to = bytes;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = sim_next(&node->random);

		for (size_t j = 0; j < 8 && i + j < len; j++)
			to[i + j] = (uint8_t)(word >> 8 * j);
	}
	return 0;
}

void sim_env_init(struct sim_node *node)
{
	static const struct ripc__backend *const datagrams[] = {&sim_backend, NULL};
	static const struct ripc__backend *const mixed[] = {&sim_open_backend, &sim_backend, NULL};
	static const struct ripc__backend *const native[] = {&sim_native_backend, NULL};
	static const struct ripc__source *const sources[] = {&sim_source, NULL};
	static const struct ripc__source *const store[] = {&sim_store_source, NULL};

	node->env = (struct ripc__env){
		.arg = node,
		.now_us = now_us,
		.wall_ns = wall_ns,
		.random = random_bytes,
		.backends = node->world->plan.native ? native :
			node->world->keys ? mixed : datagrams,
		.sources = node->world->plan.store ? store : sources,
		.crypto = sim_crypto,
		.host_identity = 0x51a0000 + (node->address >> 16),
		.idle = idle,
	};
}

void sim_trace(struct sim_world *world, const char *format, ...)
{
	char line[256];
	va_list args;
	int n = snprintf(line, sizeof(line), "%llu ", (unsigned long long)world->now_us);

	va_start(args, format);
	vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
	va_end(args);
	sha256_update(&world->trace, line, strlen(line) + 1);
	if (world->verbose)
		printf("%s\n", line);
}

void sim_world_close(struct sim_world *world)
{
	/*
	 * Operations in progress use memory of packets, reads and actions: run them into the void.
	 */
	world->faults = false;
	for (uint32_t i = 0; i < SIM_NODES; i++)
		sim_queue_clear(&world->nodes[i].datagrams);
	while (world->n_events > 0) {
		struct sim_event event = pop(world);

		event.run(world, event.arg, event.value);
	}
	for (uint32_t i = 0; i < SIM_NODES; i++) {
		sim_queue_clear(&world->nodes[i].datagrams);
		sim_queue_clear(&world->nodes[i].questions);
		free(world->nodes[i].hinted);
		free(world->nodes[i].regions);
		free(world->nodes[i].done);
	}
	free(world->events);
	sim_store_free(world);
}
