/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles in the simulation (--handles): services send to whoever has sent to them, at once and
 * much later, when the sender has ended, moved or was forgotten. The model is told that only the
 * sender's incarnation may get it; what goes to a forger nobody may get.
 */
#include "app.h"

#define PER_ANSWER 200000 /* of a million messages so many are answered at once */
#define PER_AGAIN  300000 /* of a million sends so many go to a sender */

void sim_met(struct sim_app *app, struct sim_service *service, const struct ripc_msg *msg,
		bool forged)
{
	struct sim_random *random = &app->world->random;
	struct sim_wish wish = {.to = msg->from, .to_handle = msg->from_handle,
		.to_incarnation = forged ? UINT64_MAX : msg->from_incarnation};

	if (!app->world->handles)
		return;
	if (!msg->from_handle)
		model_fail(app->world->model, "a message without a handle");
	app->met[app->n_met++ % SIM_MET] = (struct sim_met){service->incarnation, msg->from,
		msg->from_incarnation, msg->from_handle, forged};
	if (app->calm || service->busy || !sim_chance(random, PER_ANSWER))
		return;
	wish.kind = forged || sim_chance(random, 500000) ? RIPC_SHORT : RIPC_LONG;
	wish.len = wish.kind == RIPC_SHORT ? sim_between(random, 8, RIPC_SHORT_MIN) :
		sim_log(random, 8, 100000);
	wish.timeout_ms = (uint32_t)sim_log(random, 40, app->world->plan.timeout_ms);
	sim_send(app, service, &wish);
}

void sim_meet_again(struct sim_app *app, const struct sim_service *from, struct sim_wish *wish)
{
	struct sim_random *random = &app->world->random;
	const struct sim_met *met;

	if (!app->world->handles || !app->n_met || wish->len < 8 || !sim_chance(random, PER_AGAIN))
		return;
	met = &app->met[sim_below(random, app->n_met < SIM_MET ? app->n_met : SIM_MET)];
	if (met->by != from->incarnation || (met->forged && wish->kind != RIPC_SHORT))
		return;
	wish->to = met->from;
	wish->to_incarnation = met->forged ? UINT64_MAX : met->incarnation;
	wish->to_handle = met->handle;
}
