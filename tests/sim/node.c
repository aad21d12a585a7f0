/* SPDX-License-Identifier: BSD-3-Clause */
/* A node: one libripc context in its simulated process, when it is polled, how it dies. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLLS_MAX  200 /* in one turn */
#define POOL_BYTES (128u << 20)

void sim_host(uint64_t address, uint8_t host[16])
{
	uint64_t number = address >> 16;

	memset(host, 0, 10);
	host[10] = host[11] = 0xff;
	host[12] = 10;
	host[13] = 0;
	host[14] = (uint8_t)(number >> 8);
	host[15] = (uint8_t)number;
}

struct sim_node *sim_node_at(struct sim_world *world, uint64_t address)
{
	for (uint32_t i = 0; i < world->plan.n_nodes; i++) {
		struct sim_node *node = &world->nodes[i];

		if (node->up && !node->cut && node->address == address)
			return node;
	}
	return NULL;
}

static void log_line(void *arg, int level, const char *text)
{
	struct sim_node *node = arg;

	if (node->world->verbose)
		printf("%llu node %u log %d: %s\n", (unsigned long long)node->world->now_us,
				node->slot, level, text);
}

int sim_node_open(struct sim_node *node, uint64_t address)
{
	struct sim_world *world = node->world;
	struct ripc_config cfg = {
		.size = sizeof(cfg),
		.flags = RIPC_NO_THREAD | RIPC_SINGLE_THREAD,
		.peer_timeout_ms = world->plan.peer_timeout_ms,
		.pool_bytes = POOL_BYTES,
		.log = log_line,
		.log_arg = node,
		.keys = world->keys,
		.options = world->groups ? "group.many=2" : NULL,
	};
	char path[96];
	int error;

	if (world->has_authority) {
		sim_rights_dir(node, path);
		cfg.keys = path;
	}
	node->address = address;
	node->cut = false;
	node->generation++;
	sim_random_seed(&node->random, world->seed * 1000003 + node->slot * 1009 +
			node->generation);
	sim_env_init(node);
	error = ripc__open_in(&cfg, &node->env, &node->ctx);
	if (error)
		return error;
	sim_trace(world, "node %u opens at %llx", node->slot, (unsigned long long)address);
	sim_node_schedule(node);
	return 0;
}

void sim_node_close(struct sim_node *node, bool crash)
{
	struct sim_world *world = node->world;

	sim_trace(world, "node %u %s", node->slot, crash ? "crashes" : "closes");
	node->cut = crash;
	if (crash)
		sim_source_crashed(node);
	sim_queue_clear(&node->datagrams);
	sim_queue_clear(&node->questions);
	ripc_close(node->ctx, 0);
	node->closed = node->ctx;
	node->ctx = NULL;
	node->cut = true;
	sim_queue_clear(&node->datagrams);
	sim_queue_clear(&node->questions);
	node->poll_at = node->wake_at = SIM_NEVER;
	if (node->up)
		model_fail(world->model, "closing a context leaves its port open");
}

void sim_node_schedule(struct sim_node *node)
{
	int64_t timeout = ripc_poll_timeout(node->ctx);

	node->poll_at = timeout < 0 ? SIM_NEVER : node->world->now_us + (uint64_t)timeout;
}

void sim_node_wake(struct sim_node *node, uint64_t at_us)
{
	if (at_us < node->wake_at)
		node->wake_at = at_us;
}

uint64_t sim_node_next(const struct sim_node *node)
{
	uint64_t next = node->poll_at < node->wake_at ? node->poll_at : node->wake_at;

	if (!node->ctx || node->waiting)
		return SIM_NEVER;
	return next < node->stalled_until ? node->stalled_until : next;
}

void sim_node_step(struct sim_node *node)
{
	struct sim_world *world = node->world;
	uint32_t n = 0;

	node->wake_at = SIM_NEVER;
	while (n < POLLS_MAX && ripc_poll(node->ctx) > 0)
		n++;
	if (n == POLLS_MAX)
		sim_node_wake(node, world->now_us);
	world->counts.polls += n + 1;
	world->ready(node);
	if (node->ctx)
		sim_node_schedule(node);
}
