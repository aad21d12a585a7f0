/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Births, deaths and failures: nodes crash and restart, services move, links are cut, clocks
 * jump. Calls that wait are only made while no other call waits, because the world is one
 * thread; whatever comes in between is put off a little.
 */
#include "app.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUT_OFF_US    2000
#define ADDRESSES_FIRST 0x4000ull
#define FOLLOWED_US 2000000 /* a node with another address is reached by then */
#define STRANDED_YOUNG_US 200000 /* age up to which a service is stranded */
#define STRANDED_LEAST_US 300000 /* for so long: until it is taken for gone */
#define STRANDED_MOST_US  900000
#define HELD_AGAIN_US 500000 /* until a service whose ID is another's tries again */

bool sim_somebody_waits(const struct sim_world *world)
{
	for (uint32_t i = 0; i < world->plan.n_nodes; i++)
		if (world->nodes[i].waiting)
			return true;
	return false;
}

/* Puts an action off while another call waits. */
static bool put_off(struct sim_world *world,
		void (*run)(struct sim_world *world, void *arg, uint64_t value), void *arg,
		uint64_t value)
{
	if (!sim_somebody_waits(world))
		return false;
	sim_at(world, world->now_us + PUT_OFF_US, run, arg, value);
	return true;
}

/* ---- services ---------------------------------------------------------------------------- */

static void service_up(struct sim_app *app, struct sim_service *service)
{
	struct sim_world *world = app->world;
	struct sim_node *node = sim_home(app, service);
	struct ripc_service *svc;
	int error;

	service->busy = true;
	model_blocked(world->model, world->now_us, node->slot, true);
	error = ripc_service_open(node->ctx, service->id, 0, &svc);
	model_blocked(world->model, world->now_us, node->slot, false);
	service->busy = false;
	if (error == -EADDRINUSE) {
		sim_trace(world, "service %llu is held elsewhere",
				(unsigned long long)service->id);
		model_service_refused(world->model, world->now_us, service->id);
		sim_app_ready(node);
		return;
	}
	if (error) {
		char text[100];

		snprintf(text, sizeof(text), "service %llu cannot be opened: %d",
				(unsigned long long)service->id, error);
		model_fail(world->model, text);
		return;
	}
	service->svc = svc;
	service->drained = service->yields = false;
	service->opened_us = world->now_us;
	service->previous = service->incarnation;
	service->incarnation = ripc_service_incarnation(svc);
	if (world->plan.store && !sim_store_granted(world, service->incarnation))
		model_fail(world->model, "a service opens that the store has not granted");
	model_service(world->model, world->now_us, node->slot, service->id,
			service->incarnation);
	sim_trace(world, "service %llu opens at node %u, incarnation %llx",
			(unsigned long long)service->id, node->slot,
			(unsigned long long)service->incarnation);
	sim_groups_join(app, service);
	sim_app_ready(node);
	sim_node_schedule(node);
}

/* Everything it has received was taken out before. */
static void service_down(struct sim_app *app, struct sim_service *service)
{
	struct sim_world *world = app->world;

	model_service_end(world->model, world->now_us, service->incarnation);
	sim_groups_forget(app, service);
	sim_trace(world, "service %llu closes", (unsigned long long)service->id);
	/* the service may have to wait until its memory is not read any more */
	service->busy = true;
	model_blocked(world->model, world->now_us, service->home, true);
	if (ripc_service_close(service->svc) != 0)
		model_fail(world->model, "a service cannot be closed");
	model_blocked(world->model, world->now_us, service->home, false);
	service->busy = false;
	service->svc = NULL;
	sim_forget_service(app, service->incarnation);
}

static uint32_t draw_home(struct sim_app *app)
{
	return (uint32_t)sim_below(&app->world->random, app->world->plan.n_nodes);
}

/* value: the service. Opens it at its home when that is up. */
static void open_service(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	struct sim_service *service = &app->services[value];
	struct sim_node *node = sim_home(app, service);

	if (service->svc || sim_failed(world) || put_off(world, open_service, arg, value))
		return;
	if (!node->ctx || (value >= world->plan.n_services && app->calm))
		return;
	if (node->stalled_until > world->now_us) {
		sim_at(world, node->stalled_until, open_service, arg, value);
		return;
	}
	service_up(app, service);
	if (!service->svc && value < world->plan.n_services)
		sim_at(world, world->now_us + HELD_AGAIN_US, open_service, arg, value);
}

/* Drains a service, closes it and opens it elsewhere, as an application does that moves. */
static void move_service(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	struct sim_service *service = &app->services[value];
	struct sim_node *node = sim_home(app, service);
	int error;

	if (app->calm || !sim_usable(app, service))
		return;
	if (put_off(world, move_service, arg, value))
		return;
	service->busy = true;
	sim_trace(world, "service %llu drains", (unsigned long long)service->id);
	model_blocked(world->model, world->now_us, node->slot, true);
	error = ripc_service_drain(service->svc,
			(int)sim_log(&world->random, 5, 1000));
	model_blocked(world->model, world->now_us, node->slot, false);
	if (error != 0 && error != -ETIMEDOUT)
		model_fail(world->model, "ripc_service_drain returned an undocumented code");
	sim_app_ready(node);
	if (!service->drained)
		model_fail(world->model, "a drained service does not say -ESHUTDOWN");
	if (sim_failed(world))
		return;
	service_down(app, service);
	service->busy = false;
	sim_node_schedule(node);
	service->home = draw_home(app);
	sim_at(world, world->now_us + sim_log(&world->random, 1, 50000), open_service, app, value);
}

/* Closes a service in mid-flight and opens it again, here or elsewhere. */
static void reopen_service(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	struct sim_service *service = &app->services[value];
	struct sim_node *node = sim_home(app, service);

	if (app->calm || !sim_usable(app, service))
		return;
	sim_app_ready(node);
	if (sim_failed(world))
		return;
	service_down(app, service);
	sim_node_schedule(node);
	if (sim_chance(&world->random, 500000))
		service->home = draw_home(app);
	sim_at(world, world->now_us + sim_log(&world->random, 1, 500000), open_service, app, value);
}

/* ---- rivals ------------------------------------------------------------------------------ */

static void heal(struct sim_world *world, void *arg, uint64_t mask);
/*
 * A node registers an ID that lives elsewhere, mostly while it is cut off, so that it does not
 * hear of that. value: the service that is to have a rival.
 */
static void raise_rival(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	uint32_t home = draw_home(app);
	struct sim_service *rival;

	if (app->calm || home == app->services[value].home ||
			app->n_services == world->plan.n_services + SIM_RIVALS)
		return;
	if (put_off(world, raise_rival, arg, value))
		return;
	rival = &app->services[app->n_services++];
	*rival = (struct sim_service){.id = app->services[value].id, .home = home};
	if (sim_chance(&world->random, 700000)) {
		for (uint32_t i = 0; i < world->plan.n_nodes; i++)
			if (i != home)
				sim_partition(world, i, home, true);
		sim_at(world, world->now_us + sim_log(&world->random, 100000, 800000), heal, app,
				1ull << home);
	}
	open_service(world, app, (uint64_t)(rival - app->services));
}

static void open_rival(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;

	if (!sim_failed(world) && !put_off(world, open_rival, arg, value))
		service_up(app, &app->services[value]);
}

struct sim_service *sim_app_raise(struct sim_app *app, const struct sim_service *first,
		uint32_t home)
{
	struct sim_service *rival = &app->services[app->n_services];

	if (app->n_services == app->world->plan.n_services + SIM_RIVALS)
		return NULL;
	*rival = (struct sim_service){.id = first->id, .home = home};
	sim_at(app->world, app->world->now_us, open_rival, app, app->n_services++);
	return rival;
}

/* value: the service. It has heard that its ID is another's, and gives way. */
void sim_act_lose(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	struct sim_service *service = &app->services[value];

	if (!service->svc)
		return;
	if (!sim_usable(app, service)) {
		sim_at(world, world->now_us + PUT_OFF_US, sim_act_lose, app, value);
		return;
	}
	sim_app_ready(sim_home(app, service));
	if (sim_failed(world))
		return;
	service_down(app, service);
	sim_node_schedule(sim_home(app, service));
	if (value < world->plan.n_services)
		sim_at(world, world->now_us + HELD_AGAIN_US, open_service, app, value);
}

bool sim_app_settled(struct sim_app *app)
{
	const struct sim_plan *plan = &app->world->plan;
	bool settled = true;

	for (uint32_t i = 0; i < plan->n_services; i++)
		settled &= app->services[i].svc && !app->services[i].busy;
	for (uint32_t i = plan->n_services; i < app->n_services; i++) {
		struct sim_service *rival = &app->services[i];

		settled &= !rival->svc;
		/* Where the rival has won, the other one comes up again when it goes. */
		if (rival->svc && !app->services[rival->id - SIM_FIRST_ID].svc)
			sim_act_lose(app->world, app, i);
	}
	return settled;
}

/* ---- nodes ------------------------------------------------------------------------------- */

static void open_node(struct sim_world *world, void *arg, uint64_t slot)
{
	struct sim_app *app = arg;
	struct sim_node *node = &world->nodes[slot];
	uint64_t address = node->address;

	if (node->ctx || sim_failed(world))
		return;
	if (sim_chance(&world->random, 500000)) /* another port, or another host as well */
		address += sim_chance(&world->random, 500000) ? 1 : 1 << 20;
	if (sim_node_open(node, address) != 0) {
		model_fail(world->model, "a context cannot be opened");
		return;
	}
	for (uint32_t i = 0; i < world->plan.n_services; i++)
		if (app->services[i].home == slot)
			open_service(world, app, i);
}

/* The services' received messages were taken out before; or all is over, as something was wrong. */
static void end_node(struct sim_app *app, struct sim_node *node, bool crash)
{
	struct sim_world *world = app->world;

	for (uint32_t i = 0; i < app->n_services; i++) {
		struct sim_service *service = &app->services[i];

		if (!service->svc || service->home != node->slot)
			continue;
		model_service_end(world->model, world->now_us, service->incarnation);
		sim_groups_forget(app, service);
		service->svc = NULL;
		service->drained = service->busy = false;
	}
	sim_forget_node(app, node, true);
	sim_node_close(node, crash);
	sim_forget_node(app, node, false);
}

static void node_down(struct sim_app *app, struct sim_node *node, bool crash)
{
	struct sim_world *world = app->world;

	node->cut = crash;
	sim_queue_clear(&node->datagrams);
	sim_queue_clear(&node->questions);
	sim_app_ready(node);
	if (!sim_failed(world))
		end_node(app, node, crash);
}

static void crash_node(struct sim_world *world, void *arg, uint64_t slot)
{
	struct sim_app *app = arg;
	struct sim_node *node = &world->nodes[slot];

	if (app->calm || !node->ctx)
		return;
	if (node->waiting) {
		sim_at(world, world->now_us + PUT_OFF_US, crash_node, arg, slot);
		return;
	}
	node_down(app, node, true);
	sim_at(world, world->now_us + sim_log(&world->random, 10, 2000000), open_node, app, slot);
}

void sim_app_end_node(struct sim_app *app, uint32_t slot, bool again)
{
	struct sim_world *world = app->world;

	sim_trace(world, "node %u ends without a word", slot);
	node_down(app, &world->nodes[slot], true);
	if (again)
		sim_at(world, world->now_us + sim_log(&world->random, 10, 2000000), open_node, app,
			slot);
}

void sim_app_begin_node(struct sim_app *app, uint32_t slot)
{
	sim_at(app->world, app->world->now_us, open_node, app, slot);
}

static void end_stall(struct sim_world *world, void *arg, uint64_t slot)
{
	(void)arg;
	model_blocked(world->model, world->now_us, (uint32_t)slot, false);
}

/*
 * Packets under way to the old address are lost. The node may notice its new address, or not.
 * Sends that end before partners can follow may end UNKNOWN; all others must arrive.
 */
static void rehome_node(struct sim_world *world, void *arg, uint64_t slot)
{
	struct sim_app *app = arg;
	struct sim_node *node = &world->nodes[slot];

	if (app->calm || !node->ctx)
		return;
	node->address += SIM_REHOMED;
	node->rehomed = world->now_us % 2;
	model_blocked(world->model, world->now_us, node->slot, true);
	sim_at(world, world->now_us + FOLLOWED_US, end_stall, app, slot);
	sim_trace(world, "node %u is at %llx now", node->slot, (unsigned long long)node->address);
	if (node->rehomed)
		sim_node_wake(node, world->now_us);
}

/* The process gets no processor for a while. */
static void stall_node(struct sim_world *world, void *arg, uint64_t slot)
{
	struct sim_app *app = arg;
	struct sim_node *node = &world->nodes[slot];

	if (app->calm || node->stalled_until > world->now_us || node->waiting)
		return;
	node->stalled_until = world->now_us + sim_log(&world->random, 1000, 200000);
	sim_trace(world, "node %u stands still for %llu us", node->slot,
			(unsigned long long)(node->stalled_until - world->now_us));
	model_blocked(world->model, world->now_us, node->slot, true);
	sim_at(world, node->stalled_until, end_stall, app, slot);
}

static void jump_clock(struct sim_world *world, void *arg, uint64_t slot)
{
	struct sim_app *app = arg;
	struct sim_node *node = &world->nodes[slot];
	uint64_t us = sim_log(&world->random, 10000, 8000000);

	if (app->calm || !node->ctx || node->waiting)
		return;
	sim_trace(world, "the clock of node %u jumps by %llu us", node->slot,
			(unsigned long long)us);
	node->clock_offset_us += us;
	model_jump(world->model, world->now_us, node->slot);
	sim_node_schedule(node);
}

/* The host gets an address that none had before; by the old one nobody is reached. */
static void change_address(struct sim_world *world, void *arg, uint64_t slot)
{
	struct sim_app *app = arg;
	struct sim_node *node = &world->nodes[slot];
	uint64_t port = node->address & 0xffff;

	if (app->calm || !node->ctx)
		return;
	node->address = (ADDRESSES_FIRST + world->n_addresses++) << 16 | port;
	sim_moved(world, node->slot);
	sim_trace(world, "node %u has the address %llx", node->slot,
			(unsigned long long)node->address);
}

/* value: who sends to a service that was stranded and is reached again, and to whom. */
static void unstrand(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	struct sim_service *from = &app->services[value / SIM_SERVICES];
	const struct sim_service *to = &app->services[value % SIM_SERVICES];
	struct sim_wish wish = {.kind = RIPC_LONG, .to = to->id, .len = 64, .timeout_ms = 2000};

	if (app->calm)
		return;
	sim_partition(world, from->home, to->home, false);
	sim_moved(world, to->home);
	if (sim_usable(app, from))
		sim_send(app, from, &wish);
}

static bool may_strand(const struct sim_app *app, const struct sim_service *sender,
		const struct sim_service *receiver)
{
	return sender->svc && sender->home != receiver->home &&
		app->world->now_us - sender->opened_us <= STRANDED_YOUNG_US;
}

/*
 * The host of a sender that has just begun to talk gets another address, and is cut off from the
 * receiver until the receiver takes the sender for gone. The receiver knows the sender only by its
 * hello. So the next send to the sender's ID makes a second partner object of one pair of
 * incarnations, and what the sender repeats may come to either.
 */
void sim_app_strand(struct sim_app *app, const struct sim_service *receiver, uint64_t incarnation)
{
	struct sim_world *world = app->world;
	uint64_t from = 0, to = (uint64_t)(receiver - app->services);
	const struct sim_service *sender;

	if (!world->plan.n_strands || app->calm || to >= world->plan.n_services)
		return;
	while (from < world->plan.n_services && app->services[from].incarnation != incarnation)
		from++;
	sender = &app->services[from];
	if (from == world->plan.n_services || !may_strand(app, sender, receiver))
		return;
	world->plan.n_strands--;
	change_address(world, app, sender->home);
	sim_partition(world, sender->home, receiver->home, true);
	sim_at(world, world->now_us + sim_between(&world->random, STRANDED_LEAST_US,
			STRANDED_MOST_US), unstrand, app, to * SIM_SERVICES + from);
}

/* ---- links ------------------------------------------------------------------------------- */

static void heal(struct sim_world *world, void *arg, uint64_t mask)
{
	(void)arg;
	for (uint32_t a = 0; a < world->plan.n_nodes; a++)
		for (uint32_t b = 0; b < a; b++)
			if ((mask >> a & 1) != (mask >> b & 1))
				sim_partition(world, a, b, false);
	sim_trace(world, "partition %llx heals", (unsigned long long)mask);
}

static void partition(struct sim_world *world, void *arg, uint64_t mask)
{
	struct sim_app *app = arg;

	if (app->calm)
		return;
	sim_trace(world, "partition %llx", (unsigned long long)mask);
	for (uint32_t a = 0; a < world->plan.n_nodes; a++)
		for (uint32_t b = 0; b < a; b++)
			if ((mask >> a & 1) != (mask >> b & 1))
				sim_partition(world, a, b, true);
	sim_at(world, world->now_us + sim_log(&world->random, 2000, 6000000), heal, app, mask);
}

/* value: a node that is cut off from all others for long. */
static void cut_long(struct sim_world *world, void *arg, uint64_t slot)
{
	struct sim_app *app = arg;

	for (uint32_t i = 0; i < world->plan.n_nodes; i++)
		if (i != slot)
			sim_partition(world, i, (uint32_t)slot, true);
	sim_trace(world, "node %u is cut off for long", (unsigned int)slot);
	sim_at(world, world->now_us + 9500000, heal, app, 1ull << slot);
}

/* ---- the whole --------------------------------------------------------------------------- */

void sim_app_open(struct sim_app *app, struct sim_world *world)
{
	uint32_t shared = world->plan.shared_hosts;

	memset(app, 0, sizeof(*app));
	app->world = world;
	app->n_services = world->plan.n_services;
	world->app = app;
	world->ready = sim_app_ready;
	for (uint32_t i = 0; i < world->plan.n_services; i++) {
		app->services[i].id = SIM_FIRST_ID + i;
		app->services[i].home = i % world->plan.n_nodes;
	}
	for (uint32_t i = 0; i < world->plan.n_nodes; i++)
		if (sim_node_open(&world->nodes[i], (uint64_t)(shared ? 1 + i / 2 : 1 + i) << 16 |
				(4000 + 100 * i)) != 0)
			model_fail(world->model, "a context cannot be opened");
	for (uint32_t i = 0; i < world->plan.n_services && !sim_failed(world); i++)
		sim_at(world, world->now_us + sim_below(&world->random, 20000), open_service, app,
				i);
}

typedef void (*action)(struct sim_world *world, void *arg, uint64_t value);

/* A moment in the phase with faults; if there is a pause, before or after it. */
uint64_t sim_draw_moment(struct sim_world *world, uint64_t from_us)
{
	const struct sim_plan *plan = &world->plan;
	uint64_t at_us = sim_below(&world->random, plan->span_us);

	return from_us + at_us + (at_us > plan->span_us / 2 ? plan->pause_us : 0);
}

static void scatter(struct sim_app *app, uint64_t from_us, action run, uint32_t n, uint32_t below)
{
	struct sim_world *world = app->world;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t at_us = sim_draw_moment(world, from_us);

		sim_at(world, at_us, run, app, sim_below(&world->random, below));
	}
}

void sim_app_plan(struct sim_app *app, uint64_t from_us)
{
	struct sim_world *world = app->world;
	const struct sim_plan *plan = &world->plan;

	scatter(app, from_us, crash_node, plan->n_crashes, plan->n_nodes);
	scatter(app, from_us, stall_node, plan->n_stalls, plan->n_nodes);
	scatter(app, from_us, jump_clock, plan->n_jumps, plan->n_nodes);
	scatter(app, from_us, move_service, plan->n_moves, plan->n_services);
	scatter(app, from_us, reopen_service, plan->n_reopens, plan->n_services);
	scatter(app, from_us, change_address, plan->n_addresses, plan->n_nodes);
	scatter(app, from_us, partition, plan->n_partitions, 1u << plan->n_nodes);
	if (plan->long_cut) {
		uint64_t slot = sim_below(&world->random, plan->n_nodes);

		sim_at(world, from_us + sim_between(&world->random, 500000, 2500000), cut_long, app,
				slot);
	}
	scatter(app, from_us, raise_rival, plan->n_rivals, plan->n_services);
	scatter(app, from_us, sim_act_flow, plan->n_flows, plan->n_services);
	scatter(app, from_us, rehome_node, plan->n_rehomes, plan->n_nodes);
	scatter(app, from_us, sim_act_burst, plan->burst ? 1 : 0, plan->n_services);
}

void sim_app_calm(struct sim_app *app)
{
	struct sim_world *world = app->world;

	app->calm = true;
	world->faults = false;
	/* Flows have a backlog then: what is sent behind it may get its turn too late. */
	model_lossy(world->model, world->now_us, world->plan.n_flows > 0);
	for (uint32_t a = 0; a < world->plan.n_nodes; a++)
		for (uint32_t b = 0; b < a; b++)
			sim_partition(world, a, b, false);
	sim_trace(world, "the faults are over");
}

/* An orderly end: when everything was given back, nothing may be left in the context. */
static void node_ends(struct sim_app *app, struct sim_node *node)
{
	struct sim_world *world = app->world;
	struct ripc_stats stats = {.size = sizeof(stats)};

	sim_app_ready(node);
	for (uint32_t i = 0; i < app->n_services && !sim_failed(world); i++)
		if (app->services[i].svc && app->services[i].home == node->slot)
			service_down(app, &app->services[i]);
	if (sim_failed(world)) {
		end_node(app, node, false);
		return;
	}
	sim_give_back(app, node);
	if (ripc_stats_get(node->ctx, &stats) != 0 || stats.services != 0 || stats.partners != 0 ||
			stats.calls_open != 0)
		model_fail(world->model, "services, partners or calls are left at the end");
	if (stats.granted_bytes != 0)
		model_fail(world->model, "credit is in use at the end");
	if (stats.pool_used_bytes != 0)
		model_fail(world->model, "buffers of the pool are in use at the end");
	sim_node_close(node, false);
}

void sim_app_close(struct sim_app *app)
{
	struct sim_world *world = app->world;

	for (uint32_t i = 0; i < world->plan.n_nodes; i++)
		if (world->nodes[i].ctx && sim_failed(world))
			end_node(app, &world->nodes[i], false);
		else if (world->nodes[i].ctx)
			node_ends(app, &world->nodes[i]);
	while (app->lent)
		sim_lent_free(app, app->lent);
	while (app->sends)
		sim_send_free(app, app->sends);
	sim_late_free(app);
	sim_groups_end(app);
	if (!sim_failed(world) && world->n_held > 0)
		model_fail(world->model, "datagrams were not released");
}
