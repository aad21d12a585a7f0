/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the simulated applications: plain and idempotent ones, with and without return buffers,
 * called off, waited for; and servers that answer at once, late, out of order, with an error,
 * twice, or never. Now and then somebody answers whom nobody has asked, but who knows all of the
 * question.
 */
#include "app.h"

#include <errno.h>
#include <stdlib.h>

#include "ripc/call.h"

#define LATE_MOST_US  2000000 /* an answer can come so much later */
#define CALM_MOST_US  200000  /* the same once the faults are over */
#define BLOCKING_MS   1000    /* a call that waits has no longer deadline: others wait for it */

/* Actions on a request, per million. */
#define PER_NEVER  60000
#define PER_LATE   150000
#define PER_THIEF  30000
#define PER_TWICE  40000
#define PER_ERROR  80000
#define PER_EMPTY  50000
#define PER_LONG   20000 /* beside the answer an ordinary message comes that names the question */

static unsigned long long id_of(const struct sim_service *service)
{
	return (unsigned long long)service->id;
}

/* ---- who is asked ------------------------------------------------------------------------ */

/* by may be another one than who was asked. */
static void reply(struct sim_app *app, struct sim_service *by, const struct ripc_msg *question,
		uint64_t number)
{
	struct sim_world *world = app->world;
	struct sim_random *random = &world->random;
	bool fails = sim_chance(random, PER_ERROR), is_empty = sim_chance(random, PER_EMPTY);
	struct model_send plan = {.kind = RIPC_REPLY, .from = by->incarnation,
		.to = question->from, .to_incarnation = question->from_incarnation,
		.answers = number};
	struct sim_send *send;
	int status;

	if (fails)
		plan.error = MODEL_ERROR + (int)sim_below(random, 2000);
	else if (!is_empty)
		plan.len = sim_log(random, 8, sim_chance(random, 900000) ? 600 : 100000);
	number = model_plan(world->model, world->now_us, &plan);
	send = sim_send_new(app, by, number, plan.len && sim_chance(random, world->plan.give));
	status = fails ? ripc_reply_error(by->svc, question, -plan.error) :
		ripc_reply(by->svc, question, send->items, plan.len ? send->n_items : 0,
			send->given ? RIPC_GIVE : 0);
	sim_trace(world, "service %llu answers %llu with %llu, len %llu error %d: %d", id_of(by),
			(unsigned long long)plan.answers, (unsigned long long)number,
			(unsigned long long)plan.len, plan.error, status);
	model_sent(world->model, number, status);
	if (status)
		send->given = false;
	sim_send_end(app, send);
	sim_node_schedule(sim_home(app, by));
}

static struct sim_service *service_of(struct sim_app *app, uint64_t incarnation)
{
	for (uint32_t i = 0; i < app->n_services; i++)
		if (app->services[i].svc && app->services[i].incarnation == incarnation)
			return &app->services[i];
	return NULL;
}

static void speak(struct sim_world *world, void *arg, uint64_t key)
{
	struct sim_app *app = arg;
	struct sim_late **at = &app->late, *late;
	struct sim_service *by;

	while (*at && (*at)->key != key)
		at = &(*at)->next;
	late = *at;
	if (!late)
		return;
	by = service_of(app, late->by);
	if (by && !sim_usable(app, by)) {
		sim_at(world, world->now_us + 3000, speak, app, key);
		return;
	}
	*at = late->next;
	if (by)
		reply(app, by, &late->question, late->number);
	free(late);
}

static void answer_later(struct sim_app *app, const struct sim_service *by,
		const struct ripc_msg *question)
{
	struct sim_world *world = app->world;
	struct sim_late *late = calloc(1, sizeof(*late));

	if (!late)
		abort();
	*late = (struct sim_late){.next = app->late, .key = ++app->held_key,
		.number = sim_number_of(question), .by = by->incarnation, .question = *question};
	app->late = late;
	sim_at(world, world->now_us + sim_log(&world->random, 100,
			app->calm ? CALM_MOST_US : LATE_MOST_US), speak, app, late->key);
}

void sim_late_free(struct sim_app *app)
{
	while (app->late) {
		struct sim_late *late = app->late;

		app->late = late->next;
		free(late);
	}
}

static void send_beside(struct sim_app *app, struct sim_service *by,
		const struct ripc_msg *question)
{
	struct sim_random *random = &app->world->random;
	struct sim_wish wish = {.kind = RIPC_LONG, .to = question->from,
		.reply_to = question->reply, .answers = sim_number_of(question),
		.len = sim_log(random, 8, 100000),
		.timeout_ms = (uint32_t)sim_log(random, 100, 3000)};

	sim_send(app, by, &wish);
}

void sim_asked(struct sim_app *app, struct sim_service *service, const struct ripc_msg *msg)
{
	struct sim_random *random = &app->world->random;
	struct sim_service *thief = sim_chance(random, PER_THIEF) ? sim_draw_usable(app) : NULL;

	if (!app->calm && !service->busy && sim_chance(random, PER_LONG))
		send_beside(app, service, msg);
	if (thief && thief != service)
		answer_later(app, thief, msg);
	if (!app->calm && sim_chance(random, PER_NEVER))
		return;
	if (sim_chance(random, PER_LATE)) {
		answer_later(app, service, msg);
		return;
	}
	reply(app, service, msg, sim_number_of(msg));
	if (sim_chance(random, PER_TWICE))
		reply(app, service, msg, sim_number_of(msg));
}

/* ---- who asks ---------------------------------------------------------------------------- */

/* The items and the return buffers are the asker's again. */
static void call_ends(struct sim_app *app, uint64_t incarnation, uint64_t number)
{
	struct sim_send *send = sim_send_find(app, number);

	sim_taken_back(app, incarnation, number);
	if (send)
		sim_send_end(app, send);
}

void sim_answered(struct sim_app *app, struct sim_service *service, const struct ripc_msg *msg)
{
	struct sim_world *world = app->world;

	sim_trace(world, "service %llu: call %llu ends, status %d outcome %d", id_of(service),
			(unsigned long long)msg->request_cookie, msg->status, (int)msg->outcome);
	model_answered(world->model, world->now_us, service->incarnation, msg);
	if (!sim_failed(world))
		call_ends(app, service->incarnation, msg->request_cookie);
}

/* Nobody else can act at this node meanwhile. */
static void call_waiting(struct sim_app *app, struct sim_service *from,
		const struct ripc_request *arg)
{
	struct sim_world *world = app->world;
	struct ripc_msg failure = {.kind = RIPC_REPLY, .request_cookie = arg->cookie};
	struct ripc_msg *answer = NULL;
	uint64_t began_us = world->now_us;

	model_sent(world->model, arg->cookie, 0);
	from->busy = true;
	model_blocked(world->model, world->now_us, from->home, true);
	failure.status = ripc_call(from->svc, arg, &answer, &failure.outcome);
	model_blocked(world->model, world->now_us, from->home, false);
	from->busy = false;
	if (world->now_us - began_us > 1000ull * (uint64_t)arg->timeout_ms + SIM_SLACK_US +
			world->plan.poll_delay_us + (world->plan.native ? SIM_FAILED_US : 0))
		model_fail(world->model, "ripc_call() returns after its deadline");
	sim_answered(app, from, answer ? answer : &failure);
	if (answer)
		sim_done_with(app, answer);
	if (!sim_failed(world))
		sim_app_ready(sim_home(app, from));
}

static void call_starting(struct sim_app *app, struct sim_service *from,
		const struct ripc_request *arg, const struct sim_wish *wish)
{
	struct sim_world *world = app->world;
	int status = ripc_call_start(from->svc, arg);

	sim_trace(world, "call %llu: %d", (unsigned long long)arg->cookie, status);
	model_sent(world->model, arg->cookie, status);
	if (status) {
		sim_unlend(app, arg->cookie);
		sim_send_end(app, sim_send_find(app, arg->cookie));
	} else if (!wish->patient && sim_chance(&world->random, world->plan.cancel)) {
		sim_at(world, world->now_us + sim_log(&world->random, 10, 1000000), sim_act_cancel,
				app, arg->cookie);
	}
}

void sim_call(struct sim_app *app, struct sim_service *from, const struct sim_wish *wish,
		bool waits)
{
	struct sim_world *world = app->world;
	struct model_send plan = {.kind = RIPC_REQUEST, .from = from->incarnation, .to = wish->to,
		.to_incarnation = wish->to_incarnation, .len = wish->len,
		.timeout_ms = wish->timeout_ms, .idempotent = wish->idempotent,
		.must_deliver = wish->must_deliver};
	struct ripc_buffer returns[SIM_RETURNS];
	struct ripc_request arg = {.size = sizeof(arg), .to = wish->to,
		.to_incarnation = wish->to_incarnation, .timeout_ms = (int32_t)wish->timeout_ms,
		.flags = wish->idempotent ? RIPC_IDEMPOTENT : 0};
	struct sim_send *send;

	arg.cookie = model_plan(world->model, world->now_us, &plan);
	send = sim_send_new(app, from, arg.cookie, false);
	arg.items = send->items;
	arg.n_items = send->n_items;
	if (sim_chance(&world->random, world->plan.lend / 2)) {
		arg.n_returns = sim_lend_returns(app, from, arg.cookie, returns);
		arg.returns = returns;
	}
	sim_trace(world, "call %llu from %llu to %llu len %llu%s%s", (unsigned long long)arg.cookie,
			id_of(from), (unsigned long long)wish->to, (unsigned long long)wish->len,
			wish->idempotent ? " idempotent" : "", waits ? " waits" : "");
	if (waits)
		call_waiting(app, from, &arg);
	else
		call_starting(app, from, &arg, wish);
	sim_node_schedule(sim_home(app, from));
	if (world->has_authority) /* a call without the right may have ended within the call */
		sim_node_wake(sim_home(app, from), world->now_us);
}

void sim_act_call(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	struct sim_random *random = &world->random;
	struct sim_service *from = sim_draw_usable(app);
	struct sim_wish wish = {.kind = RIPC_REQUEST, .idempotent = sim_chance(random, 500000)};
	bool waits = sim_chance(random, 30000) && !sim_somebody_waits(world);

	if (!from && !app->calm)
		sim_at(world, world->now_us + 1000, sim_act_call, arg, value);
	if (!from || app->calm)
		return;
	wish.len = sim_log(random, 8, sim_chance(random, 900000) ? RIPC_SHORT_MIN : 100000);
	wish.timeout_ms = (uint32_t)sim_log(random, 40, waits ? BLOCKING_MS : 4000);
	sim_draw_target(app, &wish);
	sim_call(app, from, &wish, waits);
}
