/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver source of the simulation: like multicast, every question and notice goes to
 * every node, each on its own through the faulty network. It proves the end of a node that crashes
 * to half of the others, as a source of one host does. The network never says that a port is
 * closed; but a host that is asked by itself has a neighbour of its nodes, who says what is not
 * there any more, and while there are faults now and then denies what is.
 */
#include "app.h"
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/record.h"
#include "util/bytes.h"

#define NEIGHBOUR_PORT 1u
#define LIES_EACH      4u /* of so many questions about what lives there one is denied */

/* last: the event's data, until the next poll. */
struct source {
	struct ripc__host host;
	struct sim_node *node;
	struct sim_packet *last;
};

static int source_probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	(void)host;
	snprintf(why, 256, "simulated");
	remedy[0] = '\0';
	return 0;
}

static int source_open(void *at, const struct ripc__host *host)
{
	struct source *source = at;

	source->host = *host;
	source->node = host->env;
	source->node->context = host->context;
	source->node->n_ended = 0;
	return 0;
}

static void tell_end(struct sim_world *world, void *arg, uint64_t context)
{
	struct sim_node *node = arg;

	if (!node->ctx || node->n_ended == SIM_ENDED_MAX)
		return;
	node->ended[node->n_ended++] = context;
	sim_node_wake(node, world->now_us);
}

void sim_source_crashed(struct sim_node *node)
{
	struct sim_world *world = node->world;

	for (uint32_t i = 0; i < world->plan.n_nodes; i++) {
		if (i != node->slot && (i + node->slot) % 2 == 0)
			sim_at(world, world->now_us + 10, tell_end, &world->nodes[i],
				node->context);
	}
}

static void source_close(void *at)
{
	struct source *source = at;

	free(source->last);
	sim_queue_clear(&source->node->questions);
}

static void to_all(struct sim_node *node, const void *data, size_t len)
{
	struct iovec iov = {(void *)data, len};

	for (uint32_t i = 0; i < node->world->plan.n_nodes; i++) {
		const struct sim_node *to = &node->world->nodes[i];

		if (to->up && !to->cut)
			sim_transmit(node, to->address, true, &iov, 1);
	}
}

static int source_ask(void *at, uint64_t id, const void *data, size_t len)
{
	(void)id;
	to_all(((struct source *)at)->node, data, len);
	return 1;
}

static bool lives_at(const struct sim_node *node, uint64_t id)
{
	const struct sim_app *app = node->world->app;
	bool lives = false;

	for (uint32_t i = 0; i < app->n_services && node->up && !node->cut; i++)
		lives |= app->services[i].svc && app->services[i].home == node->slot &&
			app->services[i].id == id;
	return lives;
}

/* The neighbour of a node answers. */
static void deny(const struct sim_node *at, const struct sim_node *asker, const void *data,
		size_t len)
{
	struct sim_node neighbour = {.world = at->world, .slot = at->slot,
		.address = (at->address & ~0xffffull) | NEIGHBOUR_PORT};
	struct wire_resolve packet;
	uint8_t bytes[WIRE_RESOLVE_MAX];
	struct iovec iov = {.iov_base = bytes};

	if (wire_resolve_decode(data, len, &packet) || (lives_at(at, packet.record.id) &&
			(!at->world->faults || packet.nonce % LIES_EACH)))
		return;
	packet = (struct wire_resolve){.type = WIRE_NOBODY, .definite = true,
		.nonce = packet.nonce, .record.id = packet.record.id};
	iov.iov_len = wire_resolve_encode(bytes, &packet);
	sim_transmit(&neighbour, asker->address, true, &iov, 1);
}

/* A host may have several nodes, of which one hears it; here all do. */
static int source_ask_host(void *at, const uint8_t host[16], const void *data, size_t len)
{
	struct sim_node *node = ((struct source *)at)->node;
	struct iovec iov = {(void *)data, len};
	bool denied = false;
	int sent = 0;

	for (uint32_t i = 0; i < node->world->plan.n_nodes; i++) {
		const struct sim_node *to = &node->world->nodes[i];
		uint8_t there[16];

		sim_host(to->address, there);
		if (memcmp(there, host, sizeof(there)))
			continue;
		if (!denied && to != node)
			deny(to, node, data, len);
		denied = true;
		if (!to->up || to->cut)
			continue;
		sim_transmit(node, to->address, true, &iov, 1);
		sent++;
	}
	return sent;
}

static int source_notify(void *at, const void *data, size_t len)
{
	to_all(((struct source *)at)->node, data, len);
	return 0;
}

int sim_questions_reply(struct sim_node *node, const struct ripc__addr *to, const void *data,
		size_t len)
{
	struct iovec iov = {(void *)data, len};

	if (to->len != 8)
		return -EINVAL;
	sim_transmit(node, get64(to->blob), true, &iov, 1);
	return 0;
}

static int source_reply(void *at, const struct ripc__addr *to, const void *data, size_t len)
{
	return sim_questions_reply(((struct source *)at)->node, to, data, len);
}

int sim_questions_poll(struct sim_node *node, const struct ripc__host *host,
		struct sim_packet **last, struct ripc__source_event *event)
{
	struct sim_packet *packet = sim_queue_pop(&node->questions);

	while (node->n_ended)
		host->gone(host->arg, node->ended[--node->n_ended]);
	free(*last);
	*last = packet;
	memset(event, 0, sizeof(*event));
	if (!packet && node->rehomed) {
		node->rehomed = false;
		event->kind = RIPC_SOURCE_REHOMED;
		return 1;
	}
	if (!packet)
		return 0;
	event->data = packet->bytes;
	event->len = packet->len;
	sim_host(packet->from, event->host);
	memcpy(event->reply.host, event->host, sizeof(event->host));
	event->reply.len = 8;
	put64(event->reply.blob, packet->from);
	event->local = packet->from >> 16 == node->address >> 16;
	return 1;
}

static int source_poll(void *at, struct ripc__source_event *event)
{
	struct source *source = at;

	return sim_questions_poll(source->node, &source->host, &source->last, event);
}

static int source_wait_fd(void *at)
{
	(void)at;
	return -ENOTSUP;
}

const struct ripc__source sim_source = {
	.name = "sim",
	.size = sizeof(struct source),
	.probe = source_probe,
	.open = source_open,
	.close = source_close,
	.ask = source_ask,
	.ask_host = source_ask_host,
	.reply = source_reply,
	.notify = source_notify,
	.poll = source_poll,
	.wait_fd = source_wait_fd,
};
