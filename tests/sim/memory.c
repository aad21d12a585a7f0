/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The applications' memory: items of sends in every kind of memory, lent windows and return
 * buffers, and received messages that are held for a while.
 */
#include "app.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SCRIBBLE 0xdb

static void *allocated(size_t len)
{
	void *memory = malloc(len ? len : 1);

	if (!memory)
		abort();
	return memory;
}

/* A closed context stays until the last of its buffers is freed. */
static void to_pool(struct sim_node *node, void *buffer)
{
	if (ripc_buf_free(node->ctx ? node->ctx : node->closed, buffer) != 0)
		model_fail(node->world->model, "a buffer that is ours cannot be freed");
}

static void *from_pool(struct sim_node *node, size_t len)
{
	void *buffer = NULL;

	if (ripc_buf_alloc(node->ctx, len, &buffer) != 0)
		model_fail(node->world->model, "the pool has no memory left");
	return buffer;
}

/* ---- sends ------------------------------------------------------------------------------- */

static void lay_out(struct sim_node *node, struct sim_send *send)
{
	uint8_t *at;

	for (uint32_t i = 0; i < send->n_items; i++)
		send->block_len += send->lens[i];
	if (send->memory == SIM_REGISTERED) {
		send->block = allocated(send->block_len);
		if (send->block_len > 0 &&
				ripc_buf_register(node->ctx, send->block, send->block_len) != 0)
			model_fail(node->world->model, "memory cannot be registered");
	} else if (send->memory == SIM_POOL_ONE) {
		send->block = from_pool(node, send->block_len);
	}
	at = send->block;
	for (uint32_t i = 0; i < send->n_items; i++) {
		send->items[i].iov_len = send->lens[i];
		if (send->memory == SIM_FOREIGN)
			send->items[i].iov_base = allocated(send->lens[i]);
		else if (send->memory == SIM_POOL)
			send->items[i].iov_base = from_pool(node, send->lens[i]);
		else
			send->items[i].iov_base = at;
		at = at ? at + send->lens[i] : NULL;
	}
}

struct sim_send *sim_send_new(struct sim_app *app, struct sim_service *from, uint64_t number,
		bool give)
{
	struct sim_send *send = calloc(1, sizeof(*send));
	uint8_t *bytes, *at;

	if (!send)
		abort();
	send->node = sim_home(app, from);
	send->number = number;
	send->incarnation = from->incarnation;
	send->given = give;
	send->memory = give ? SIM_POOL : sim_below(&app->world->random, SIM_MEMORIES);
	send->n_items = model_items(app->world->model, number, send->lens);
	lay_out(send->node, send);
	at = bytes = allocated(send->block_len);
	model_contents(app->world->model, number, bytes);
	for (uint32_t i = 0; i < send->n_items; i++, at += send->lens[i - 1])
		if (send->items[i].iov_base)
			memcpy(send->items[i].iov_base, at, send->lens[i]);
	free(bytes);
	send->next = app->sends;
	app->sends = send;
	return send;
}

struct sim_send *sim_send_find(struct sim_app *app, uint64_t number)
{
	for (struct sim_send *send = app->sends; send; send = send->next)
		if (send->number == number)
			return send;
	return NULL;
}

void sim_send_free(struct sim_app *app, struct sim_send *send)
{
	struct sim_send **at = &app->sends;
	struct sim_node *node = send->node;

	while (*at != send)
		at = &(*at)->next;
	*at = send->next;
	for (uint32_t i = 0; i < send->n_items; i++)
		if (send->memory == SIM_FOREIGN)
			free(send->items[i].iov_base);
		else if (send->memory == SIM_POOL && !send->given)
			to_pool(node, send->items[i].iov_base);
	if (send->memory == SIM_POOL_ONE)
		to_pool(node, send->block);
	if (send->memory == SIM_REGISTERED) {
		if (node->ctx && send->block_len > 0)
			ripc_buf_unregister(node->ctx, send->block);
		free(send->block);
	}
	free(send);
}

void sim_send_end(struct sim_app *app, struct sim_send *send)
{
	for (uint32_t i = 0; i < send->n_items && !send->given; i++)
		if (send->items[i].iov_base)
			memset(send->items[i].iov_base, SCRIBBLE, send->lens[i]);
	sim_send_free(app, send);
}

/* ---- windows and return buffers ---------------------------------------------------------- */

struct sim_lent *sim_lend(struct sim_app *app, struct sim_service *service, uint64_t number,
		size_t len)
{
	struct sim_lent *lent = calloc(1, sizeof(*lent));

	if (!lent)
		abort();
	lent->node = sim_home(app, service);
	lent->number = number;
	lent->incarnation = service->incarnation;
	lent->pool = sim_chance(&app->world->random, 300000);
	lent->mem.iov_len = len;
	lent->mem.iov_base = lent->pool ? from_pool(lent->node, len) : allocated(len);
	lent->cookie = model_lend(app->world->model, lent->incarnation, number, &lent->mem);
	lent->next = app->lent;
	app->lent = lent;
	return lent;
}

void sim_lent_free(struct sim_app *app, struct sim_lent *lent)
{
	struct sim_lent **at = &app->lent;

	while (*at != lent)
		at = &(*at)->next;
	*at = lent->next;
	model_unwatch(app->world->model, lent->cookie);
	if (!lent->pool)
		free(lent->mem.iov_base);
	else
		to_pool(lent->node, lent->mem.iov_base);
	free(lent);
}

void sim_taken_back(struct sim_app *app, uint64_t incarnation, uint64_t number)
{
	struct model *model = app->world->model;

	for (struct sim_lent *lent = app->lent; lent; lent = lent->next)
		if (lent->incarnation == incarnation && (number == 0 || lent->number == number) &&
				model_lent(model, lent->cookie)) {
			model_taken_back(model, lent->cookie);
			model_watch(model, lent->cookie);
		}
}

/*
 * Cancels a send and takes back what was lent under its number. The queue is emptied first: an
 * answer in there may lie in the buffers.
 */
void sim_cancel(struct sim_app *app, struct sim_service *service, uint64_t number)
{
	struct sim_world *world = app->world;
	int error;

	sim_app_ready(sim_home(app, service));
	if (sim_failed(world))
		return;
	if (model_in_progress(world->model, number))
		model_cancelled(world->model, number);
	for (struct sim_lent *lent = app->lent; lent; lent = lent->next)
		if (lent->number == number && model_lent(world->model, lent->cookie))
			model_recalled(world->model, number);
	/* The caller may have to wait for reads into the memory that is taken back. */
	service->busy = true;
	model_blocked(world->model, world->now_us, service->home, true);
	error = ripc_cancel(service->svc, number);
	model_blocked(world->model, world->now_us, service->home, false);
	service->busy = false;
	sim_trace(world, "cancel %llu: %d", (unsigned long long)number, error);
	if (error != 0 && error != -ENOENT)
		model_fail(world->model, "ripc_cancel returned an undocumented code");
	if (!model_is_call(world->model, number)) /* with its end */
		sim_taken_back(app, service->incarnation, number);
	sim_app_ready(sim_home(app, service));
	sim_node_schedule(sim_home(app, service));
}

/* value: number. Its sender cancels it or has waited long enough for the answer. */
void sim_act_cancel(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	struct sim_send *send = sim_send_find(app, value);
	uint64_t incarnation = send && !send->limbo ? send->incarnation : 0;

	for (struct sim_lent *lent = app->lent; lent; lent = lent->next)
		if (lent->number == value && model_lent(world->model, lent->cookie))
			incarnation = lent->incarnation;
	for (uint32_t i = 0; incarnation && i < app->n_services; i++) {
		struct sim_service *service = &app->services[i];

		if (service->incarnation != incarnation || !service->svc)
			continue;
		if (sim_usable(app, service))
			sim_cancel(app, service, value);
		else
			sim_at(world, world->now_us + 3000, sim_act_cancel, app, value);
		return;
	}
}

/* ---- received messages ------------------------------------------------------------------- */

void sim_done_with(struct sim_app *app, struct ripc_msg *msg)
{
	uint64_t cookies[RIPC_ITEMS_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; msg->places && i < msg->n_items; i++)
		if ((msg->places[i].place == RIPC_IN_WINDOW ||
				msg->places[i].place == RIPC_IN_RETURN) && !sim_failed(app->world))
			cookies[n++] = msg->places[i].cookie;
	ripc_msg_free(msg);
	for (uint32_t i = 0; i < n; i++)
		model_watch(app->world->model, cookies[i]);
}

static void let_go(struct sim_world *world, void *arg, uint64_t key)
{
	struct sim_app *app = arg;
	struct sim_held **at = &app->held, *held;

	while (*at && (*at)->key != key)
		at = &(*at)->next;
	held = *at;
	if (!held)
		return;
	if (held->node->waiting) {
		sim_at(world, world->now_us + 2000, let_go, app, key);
		return;
	}
	*at = held->next;
	model_recheck(world->model, held->msg);
	sim_done_with(app, held->msg);
	free(held);
}

void sim_hold(struct sim_app *app, struct sim_node *node, struct ripc_msg *msg)
{
	struct sim_held *held = calloc(1, sizeof(*held));

	if (!held)
		abort();
	*held = (struct sim_held){.next = app->held, .node = node, .key = ++app->held_key,
		.msg = msg};
	app->held = held;
	sim_at(app->world, app->world->now_us + sim_log(&app->world->random, 100, 500000),
			let_go, app, held->key);
}

/* ---- the end of a service or node -------------------------------------------------------- */

void sim_forget_service(struct sim_app *app, uint64_t incarnation)
{
	for (struct sim_send *send = app->sends, *next; send; send = next) {
		next = send->next;
		if (send->incarnation != incarnation)
			continue;
		if (send->given)
			send->limbo = true;
		else
			sim_send_end(app, send);
	}
	sim_taken_back(app, incarnation, 0);
}

static void held_free(struct sim_app *app, struct sim_held **at)
{
	struct sim_held *held = *at;

	*at = held->next;
	model_recheck(app->world->model, held->msg);
	sim_done_with(app, held->msg);
	free(held);
}

/*
 * A node's context is about to be closed, and is closed: messages and memory of the pool are given
 * back before or after that. Other memory is freed afterwards.
 */
void sim_forget_node(struct sim_app *app, struct sim_node *node, bool before)
{
	for (struct sim_held **at = &app->held; *at;) {
		if ((*at)->node != node || (before && sim_chance(&app->world->random, 500000)))
			at = &(*at)->next;
		else
			held_free(app, at);
	}
	for (struct sim_lent *lent = app->lent, *next; lent && !before; lent = next) {
		next = lent->next;
		if (lent->node == node)
			sim_lent_free(app, lent);
	}
	for (struct sim_send *send = app->sends, *next; send && !before; send = next) {
		next = send->next;
		if (send->node == node)
			sim_send_free(app, send);
	}
}

void sim_give_back(struct sim_app *app, struct sim_node *node)
{
	for (struct sim_held **at = &app->held; *at;) {
		if ((*at)->node != node)
			at = &(*at)->next;
		else
			held_free(app, at);
	}
	for (struct sim_lent *lent = app->lent, *next; lent; lent = next) {
		next = lent->next;
		if (lent->node == node)
			sim_lent_free(app, lent);
	}
	for (struct sim_send *send = app->sends, *next; send; send = next) {
		next = send->next;
		if (send->node == node)
			sim_send_free(app, send);
	}
}
