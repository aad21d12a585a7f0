/* SPDX-License-Identifier: BSD-3-Clause */
/* The actions of the simulated applications: send, receive, reply, post, cancel. */
#include "app.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY_ID 77 /* a service that never exists */
#define SWIFT_LEN 600 /* such a message is in its announcement, whatever the path */

bool sim_usable(const struct sim_app *app, const struct sim_service *service)
{
	const struct sim_node *node = sim_home(app, service);

	return service->svc && !service->busy && !node->waiting && node->ctx &&
		node->stalled_until <= app->world->now_us;
}

/* ---- sending ----------------------------------------------------------------------------- */

uint32_t sim_lend_returns(struct sim_app *app, struct sim_service *from, uint64_t number,
		struct ripc_buffer returns[SIM_RETURNS])
{
	struct sim_random *random = &app->world->random;
	uint32_t n = (uint32_t)sim_between(random, 1, SIM_RETURNS);
	/* Such as are worth to be written into, where that can be. */
	bool large = app->world->plan.native && sim_chance(random, 700000);

	for (uint32_t i = 0; i < n; i++) {
		struct sim_lent *lent = sim_lend(app, from, number, large ?
			sim_log(random, 65536, 140000) : sim_log(random, 16, 65536));

		returns[i] = (struct ripc_buffer){.mem = lent->mem, .cookie = lent->cookie};
	}
	return n;
}

void sim_unlend(struct sim_app *app, uint64_t number)
{
	for (struct sim_lent *lent = app->lent, *next; lent; lent = next) {
		next = lent->next;
		if (lent->number != number)
			continue;
		model_taken_back(app->world->model, lent->cookie);
		sim_lent_free(app, lent);
	}
}

static int call(struct sim_app *app, struct sim_service *from, const struct sim_wish *wish,
		const struct sim_send *send)
{
	struct sim_random *random = &app->world->random;
	struct ripc_buffer returns[SIM_RETURNS];
	struct ripc_send arg = {
		.size = sizeof(arg), .to = wish->to_handle ? 0 : wish->to,
		.to_handle = wish->to_handle,
		.to_incarnation = wish->to_handle ? 0 : wish->to_incarnation,
		.items = send->items, .n_items = send->n_items, .reply_to = wish->reply_to,
		.cookie = send->number, .timeout_ms = (int32_t)wish->timeout_ms,
		.flags = (wish->kind == RIPC_LONG ? RIPC_SEND_LONG | RIPC_NOWAIT : 0) |
			(send->given ? RIPC_GIVE : 0) | (wish->ordered ? RIPC_ORDERED : 0),
	};
	int status;

	if (wish->len >= 8 && !wish->patient && sim_chance(random, app->world->plan.lend)) {
		arg.n_returns = sim_lend_returns(app, from, send->number, returns);
		sim_at(app->world, app->world->now_us + sim_log(random, 1000, 4000000),
				sim_act_cancel, app, send->number);
		arg.returns = returns;
	}
	if (wish->kind == RIPC_SHORT && !arg.n_returns && !arg.flags && !wish->to_incarnation &&
			sim_chance(random, 500000))
		return ripc_send_short(from->svc, wish->to, send->items, send->n_items);
	status = ripc_sendmsg(from->svc, &arg, NULL);
	if (status != 0)
		sim_unlend(app, send->number);
	return status;
}

/* Patient sends must arrive, whatever becomes of others. */
static bool draw_order(struct sim_world *world, const struct sim_wish *wish)
{
	return wish->flow || (wish->kind == RIPC_LONG && wish->len >= 8 && !wish->patient &&
		!wish->to_handle &&
		sim_chance(&world->random, world->plan.ordered));
}

int sim_send(struct sim_app *app, struct sim_service *from, struct sim_wish *wish)
{
	struct sim_world *world = app->world;
	struct model_send plan = {.from = from->incarnation, .to = wish->to,
		.to_incarnation = wish->to_incarnation, .len = wish->len, .kind = wish->kind,
		.timeout_ms = wish->timeout_ms, .answers = wish->answers,
		.ordered = wish->ordered = draw_order(world, wish), .swift = wish->swift,
		.must_deliver = wish->must_deliver};
	uint64_t number = model_plan(world->model, world->now_us, &plan);
	bool give = sim_chance(&world->random, world->plan.give);
	struct sim_send *send = sim_send_new(app, from, number, give);
	int status = call(app, from, wish, send);

	sim_trace(world, "send %llu %s%s from %llu to %llu len %llu: %d",
			(unsigned long long)number, wish->to_handle ? "by handle " : "",
			wish->kind == RIPC_SHORT ? "short" : "long", (unsigned long long)from->id,
			(unsigned long long)wish->to, (unsigned long long)wish->len, status);
	model_sent(world->model, number, status);
	if (status != 0)
		send->given = false;
	if (status != 0 || wish->kind == RIPC_SHORT)
		sim_send_end(app, send);
	else if (!wish->patient && sim_chance(&world->random, world->plan.cancel))
		sim_at(world, world->now_us + sim_log(&world->random, 10, 1000000),
				sim_act_cancel, app, number);
	sim_node_schedule(sim_home(app, from));
	if (world->has_authority) /* a send without the right may have ended within the call */
		sim_node_wake(sim_home(app, from), world->now_us);
	return status;
}

static void post_windows(struct sim_app *app, struct sim_service *service)
{
	struct sim_random *random = &app->world->random;
	uint64_t n = sim_between(random, 1, 3);

	for (uint64_t i = 0; i < n; i++) {
		struct sim_lent *lent = sim_lend(app, service, 0, sim_log(random, 16, 131072));

		if (ripc_window_post(service->svc, &lent->mem, lent->cookie) != 0)
			model_fail(app->world->model, "a window cannot be posted");
	}
	sim_node_schedule(sim_home(app, service));
}

struct sim_service *sim_draw_usable(struct sim_app *app)
{
	uint32_t n = app->n_services;
	uint32_t first = (uint32_t)sim_below(&app->world->random, n);

	for (uint32_t i = 0; i < n; i++) {
		struct sim_service *service = &app->services[(first + i) % n];

		if (sim_usable(app, service))
			return service;
	}
	return NULL;
}

/* Mostly few partners talk much with each other, so that windows and orders matter. */
void sim_draw_target(struct sim_app *app, struct sim_wish *wish)
{
	struct sim_random *random = &app->world->random;
	uint32_t n = app->world->plan.n_services;
	struct sim_service *to;

	if (sim_chance(random, 10000)) {
		wish->to = NOBODY_ID;
		return;
	}
	to = &app->services[sim_chance(random, app->world->plan.narrow) ? 0 : sim_below(random, n)];
	wish->to = to->id;
	if (wish->len >= 8 && sim_chance(random, 100000))
		wish->to_incarnation = to->incarnation;
	else if (wish->len >= 8 && sim_chance(random, 50000))
		wish->to_incarnation = to->previous;
}

void sim_act_short(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	struct sim_service *from = sim_draw_usable(app);
	struct sim_wish wish = {.kind = RIPC_SHORT};

	if (!from && !app->calm)
		sim_at(world, world->now_us + 1000, sim_act_short, arg, value);
	if (!from || app->calm)
		return;
	wish.len = sim_chance(&world->random, 100000) ? sim_between(&world->random, 1, 8) :
		sim_between(&world->random, 8, RIPC_SHORT_MIN);
	sim_draw_target(app, &wish);
	sim_meet_again(app, from, &wish);
	sim_send(app, from, &wish);
}

static uint64_t long_length(struct sim_random *random, bool native)
{
	uint64_t draw = sim_below(random, 100);

	if (native && sim_chance(random, 300000))
		/* messages long enough to be read, in pieces, too */
		return sim_log(random, 60000, 3 << 20);
	if (draw < 5)
		return 0;
	if (draw < 60)
		return sim_log(random, 1, 4096);
	return sim_log(random, 64, draw < 92 ? 65536 : 262144);
}

/* Some sends have patience, and in a mild world nothing excuses that these do not arrive. */
static void make_sure(struct sim_app *app, struct sim_wish *wish)
{
	const struct sim_service *to = NULL;

	if (!app->world->plan.mild || wish->to_incarnation || app->world->has_authority ||
			sim_chance(&app->world->random, 300000))
		return;
	for (uint32_t i = 0; i < app->n_services; i++)
		if (app->services[i].id == wish->to && app->services[i].svc)
			to = &app->services[i];
	if (!to || app->world->now_us < to->opened_us + 500000)
		return;
	wish->timeout_ms = 5000;
	wish->patient = true;
	/* A burst may leave no room for it to begin. Where there are flows, its bytes are lost. */
	wish->must_deliver = app->world->plan.burst == 0 && app->world->plan.n_flows == 0;
}

void sim_act_long(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	struct sim_service *from = sim_draw_usable(app);
	struct sim_wish wish = {.kind = RIPC_LONG};

	if (!from && !app->calm)
		sim_at(world, world->now_us + 1000, sim_act_long, arg, value);
	if (!from || app->calm)
		return;
	if (sim_chance(&world->random, world->plan.window))
		post_windows(app, from);
	wish.len = long_length(&world->random, world->plan.native);
	wish.timeout_ms = (uint32_t)sim_log(&world->random, 40, world->plan.timeout_ms);
	sim_draw_target(app, &wish);
	sim_meet_again(app, from, &wish);
	make_sure(app, &wish);
	sim_send(app, from, &wish);
}

/* Many sends at once to one service: more than can be in progress. */
void sim_act_burst(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	struct sim_service *from = sim_draw_usable(app);
	struct sim_wish wish = {.kind = RIPC_LONG, .to = app->services[value].id};

	if (!from || app->calm)
		return;
	for (uint32_t i = 0; i < world->plan.burst; i++) {
		wish.len = sim_chance(&world->random, 300000) ? 0 :
			sim_log(&world->random, 1, 3000);
		wish.timeout_ms = (uint32_t)sim_log(&world->random, 100, 4000);
		if (sim_send(app, from, &wish) == -EAGAIN)
			break;
	}
}

/* value: from whom, and to whom. */
static void act_in_flow(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	struct sim_random *random = &world->random;
	struct sim_service *from = &app->services[value / SIM_SERVICES];
	struct sim_wish wish = {.kind = RIPC_LONG, .to = app->services[value % SIM_SERVICES].id,
		.flow = true, .patient = true, .swift = sim_chance(random, 500000)};

	if (!sim_usable(app, from)) {
		if (!app->calm)
			sim_at(world, world->now_us + 1000, act_in_flow, app, value);
		return;
	}
	wish.len = sim_log(random, 8, wish.swift ? SWIFT_LEN : 5000);
	wish.timeout_ms = wish.swift ? 5000 : (uint32_t)sim_log(random, 40, 200);
	sim_send(app, from, &wish);
}

/*
 * A message that takes long. Behind it, mostly in its order, are many that are soon given up, and
 * many that have patience. value: to whom.
 */
void sim_act_flow(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	struct sim_random *random = &world->random;
	struct sim_service *from = sim_draw_usable(app);
	struct sim_wish wish = {.kind = RIPC_LONG, .to = app->services[value].id,
		.flow = sim_chance(random, 700000), .patient = true, .timeout_ms = 5000};

	if (!from || app->calm)
		return;
	wish.len = sim_log(random, 10000, 300000);
	sim_send(app, from, &wish);
	for (uint64_t n = sim_between(random, 10, 30); n > 0; n--)
		sim_at(world, world->now_us + sim_below(random, 1500000), act_in_flow, app,
				(uint64_t)(from - app->services) * SIM_SERVICES + value);
}

/* ---- receiving --------------------------------------------------------------------------- */

uint64_t sim_number_of(const struct ripc_msg *msg)
{
	uint64_t number = 0;
	uint32_t at = 0;

	for (uint32_t i = 0; i < msg->n_items; i++)
		for (size_t j = 0; j < msg->items[i].iov_len && at < 8; j++, at++)
			number |= (uint64_t)((const uint8_t *)msg->items[i].iov_base)[j] << 8 * at;
	return at == 8 ? number : 0;
}

static void answer(struct sim_app *app, struct sim_service *from, const struct ripc_msg *msg)
{
	struct sim_random *random = &app->world->random;
	struct sim_wish wish = {.kind = RIPC_LONG, .to = msg->from, .reply_to = msg->reply,
		.answers = sim_number_of(msg)};

	if (wish.answers == 0)
		return;
	wish.len = sim_log(random, 8, app->world->plan.native ? 140000 : 100000);
	wish.timeout_ms = (uint32_t)sim_log(random, 100, 3000);
	sim_send(app, from, &wish);
}

static void completed(struct sim_app *app, struct sim_service *service,
		const struct ripc_msg *msg)
{
	struct sim_world *world = app->world;
	struct sim_send *send = sim_send_find(app, msg->cookie);

	sim_trace(world, "completion %llu outcome %d status %d", (unsigned long long)msg->cookie,
			(int)msg->outcome, msg->status);
	model_completed(world->model, world->now_us, service->incarnation, msg);
	if (!send || sim_failed(world))
		return;
	if (msg->outcome == RIPC_NOT_DELIVERED)
		send->given = false;
	sim_send_end(app, send);
}

static void noticed(struct sim_app *app, struct sim_service *service, const struct ripc_msg *msg)
{
	struct sim_send *send = msg->cookie ? sim_send_find(app, msg->cookie) : NULL;

	sim_trace(app->world, "notice %llu status %d", (unsigned long long)msg->cookie,
			msg->status);
	model_noticed(app->world->model, service->incarnation, msg);
	if (send && send->limbo)
		sim_send_end(app, send);
	if (msg->status != -EADDRINUSE)
		return;
	service->yields = true;
	sim_at(app->world, app->world->now_us, sim_act_lose, app,
			(uint64_t)(service - app->services));
}

static void keep_or_free(struct sim_app *app, struct sim_service *service, struct ripc_msg *msg)
{
	if (sim_chance(&app->world->random, app->world->plan.hold))
		sim_hold(app, sim_home(app, service), msg);
	else
		sim_done_with(app, msg);
}

static void got(struct sim_app *app, struct sim_service *service, struct ripc_msg *msg)
{
	struct sim_world *world = app->world;

	if (msg->group && msg->kind != RIPC_COMPLETION) {
		sim_groups_got(app, service, msg);
		ripc_msg_free(msg);
		return;
	}
	if (msg->kind == RIPC_COMPLETION || msg->kind == RIPC_NOTICE) {
		if (msg->counts)
			sim_groups_completed(app, service, msg);
		else if (msg->kind == RIPC_COMPLETION)
			completed(app, service, msg);
		else
			noticed(app, service, msg);
		ripc_msg_free(msg);
		return;
	}
	if (msg->kind == RIPC_REPLY) {
		sim_answered(app, service, msg);
		keep_or_free(app, service, msg);
		return;
	}
	if (model_forged(world->model, msg)) {
		sim_met(app, service, msg, true);
		ripc_msg_free(msg);
		return;
	}
	sim_trace(world, "service %llu got %s %llx from %llu", (unsigned long long)service->id,
			msg->kind == RIPC_SHORT ? "short" : msg->kind == RIPC_LONG ? "long" :
			"question", (unsigned long long)sim_number_of(msg),
			(unsigned long long)msg->from);
	model_received(world->model, world->now_us, service->incarnation, msg);
	if (sim_failed(world))
		return;
	sim_app_strand(app, service, msg->from_incarnation);
	if (msg->kind == RIPC_REQUEST)
		sim_asked(app, service, msg);
	else if (msg->reply && !app->calm && !service->busy && sim_chance(&world->random, 700000))
		answer(app, service, msg);
	sim_met(app, service, msg, false);
	keep_or_free(app, service, msg);
}

static void empty(struct sim_app *app, struct sim_service *service)
{
	struct ripc_msg *msg;
	int error;

	while ((error = ripc_receive(service->svc, 0, &msg)) == 0) {
		got(app, service, msg);
		if (sim_failed(app->world))
			return;
	}
	if (error == -ESHUTDOWN && (service->busy || service->yields))
		service->drained = true;
	else if (error != -EAGAIN)
		model_fail(app->world->model, "ripc_receive returned an undocumented code");
}

void sim_app_ready(struct sim_node *node)
{
	struct sim_app *app = node->world->app;

	for (uint32_t i = 0; i < app->n_services; i++) {
		struct sim_service *service = &app->services[i];

		if (service->svc && service->home == node->slot && !sim_failed(node->world))
			empty(app, service);
	}
}
