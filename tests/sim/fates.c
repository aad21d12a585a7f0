/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outcomes of messages to the members of a group (--groups, when the faults are over). A node ends
 * without a word, and no packet tells that it has: its host is gone. This part demands:
 *
 *  - a second after its services are up again, with the same IDs, long messages to a group succeed;
 *  - where they stay away, long messages succeed 10 s later;
 *  - while two services that do not hear of each other have one ID, both get the messages.
 */
#include "app.h"

#define AGAIN_US    100000
#define BORN_US     1000000  /* from the birth of its successor until a dead member is forgotten */
#define DEAD_US     10000000 /* the same without a successor */
#define FOUND_US    2000000  /* until the second of two services with one ID must be a member */
#define TOGETHER    5u       /* messages that reach both */
#define LIMIT_US    150000000

typedef void (*passing)(struct sim_world *world, uint64_t until_us);

/* A service that the node cannot take with it, on another host; NULL: there is none. */
static struct sim_service *apart_from(struct sim_app *app, const struct sim_node *node,
		const struct sim_node *other)
{
	for (uint32_t i = 0; i < app->world->plan.n_services; i++) {
		const struct sim_node *home = sim_home(app, &app->services[i]);

		if (home->address >> 16 != node->address >> 16 &&
				(!other || home->address >> 16 != other->address >> 16))
			return &app->services[i];
	}
	return NULL;
}

/* Sends all the time, as the members are only looked after then. */
static void send_until(struct sim_app *app, struct sim_service *from, uint64_t until_us,
		passing go_on)
{
	while (app->world->now_us < until_us && !sim_failed(app->world)) {
		sim_groups_send(app, from);
		go_on(app->world, app->world->now_us + AGAIN_US);
	}
}

static bool are_up(const struct sim_app *app, uint32_t slot)
{
	for (uint32_t i = 0; i < app->world->plan.n_services; i++) {
		if (app->services[i].home == slot && (!app->services[i].svc ||
				app->services[i].busy))
			return false;
	}
	return true;
}

static void must_succeed(struct sim_app *app, struct sim_service *from, const char *when,
		passing go_on)
{
	struct sim_fan *fan = sim_groups_send(app, from);

	while (!sim_groups_ended(fan) && !sim_failed(app->world))
		go_on(app->world, app->world->now_us + AGAIN_US);
	if (!sim_failed(app->world) && !sim_groups_succeeded(fan))
		model_fail(app->world->model, when);
}

static void node_ends(struct sim_app *app, uint32_t slot, passing go_on)
{
	struct sim_node *node = &app->world->nodes[slot];
	struct sim_service *from = apart_from(app, node, NULL);

	if (!from)
		return;
	sim_app_end_node(app, slot, false);
	send_until(app, from, app->world->now_us + DEAD_US, go_on);
	must_succeed(app, from, "a member is dead for long, and still in the group", go_on);
	sim_app_begin_node(app, slot);
	while (!are_up(app, slot) && !sim_failed(app->world))
		go_on(app->world, app->world->now_us + AGAIN_US);
}

static void node_begins_anew(struct sim_app *app, uint32_t slot, passing go_on)
{
	struct sim_world *world = app->world;
	struct sim_service *from = apart_from(app, &world->nodes[slot], NULL);

	if (!from)
		return;
	send_until(app, from, world->now_us + AGAIN_US, go_on);
	sim_app_end_node(app, slot, true);
	while (!are_up(app, slot) && !sim_failed(world))
		send_until(app, from, world->now_us + 1, go_on);
	if (sim_home(app, from)->slot == slot)
		return;
	send_until(app, from, world->now_us + BORN_US, go_on);
	must_succeed(app, from, "a member has begun anew, and its dead self is still in the group",
		go_on);
}

/* The services with an ID that the first one has, too, do not hear of each other. */
static void two_have_one_id(struct sim_app *app, passing go_on)
{
	struct sim_world *world = app->world;
	struct sim_service *first = &app->services[0], *second = apart_from(app,
		sim_home(app, first), NULL), *from, *rival;
	uint64_t limit_us = world->now_us + LIMIT_US;

	from = second ? apart_from(app, sim_home(app, first), sim_home(app, second)) : NULL;
	/* A clock that is wrong makes the younger one look older. */
	if (!from || world->plan.n_jumps || sim_failed(world))
		return;
	sim_partition(world, first->home, second->home, true);
	rival = sim_app_raise(app, first, second->home);
	go_on(world, world->now_us + AGAIN_US);
	if (rival && rival->svc) {
		send_until(app, from, world->now_us + FOUND_US, go_on);
		for (uint32_t i = 0; i < TOGETHER && rival->svc && !sim_failed(world); i++) {
			struct sim_fan *fan = sim_groups_send(app, from);

			while (!sim_groups_ended(fan) && !sim_failed(world))
				go_on(world, world->now_us + AGAIN_US);
			if (rival->svc && !rival->yields && (!sim_groups_has(fan, first) ||
					!sim_groups_has(fan, rival)))
				model_fail(world->model, "one of two with one ID gets nothing");
		}
	}
	sim_partition(world, first->home, second->home, false);
	while (!sim_app_settled(app) && !sim_failed(world)) {
		go_on(world, world->now_us + AGAIN_US);
		if (world->now_us > limit_us)
			model_fail(world->model, "two with one ID do not learn of each other");
	}
}

void sim_fates(struct sim_app *app, passing go_on)
{
	struct sim_world *world = app->world;
	uint32_t slot = (uint32_t)(world->now_us % world->plan.n_nodes);

	app->patient = true;
	node_begins_anew(app, slot, go_on);
	if (!sim_failed(world))
		node_ends(app, (slot + 1) % world->plan.n_nodes, go_on);
	if (!sim_failed(world))
		two_have_one_id(app, go_on);
}
