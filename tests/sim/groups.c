/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups in the simulation (--groups): services join and leave, and send to groups, members or not.
 * This file is application and judge in one. It knows nothing but the public headers, and demands:
 *
 *  - a member gets each message to its group at most once, unaltered, and from its true sender;
 *  - nobody gets one of a group that he is not in, or his own;
 *  - a long message is completed once; its counts are those of its list, and outcome and status are
 *    what the counts say; who is DELIVERED got it, and who is NOT_DELIVERED did not;
 *  - when the faults are over, every member is found and gets everything;
 *  - then shorts go to many in one datagram where the network can do it, and reach each member.
 */
#include "app.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ripc/group.h"
#include "ripc/stats.h"

#define GROUPS   SIM_GROUPS
#define GOT_MAX  64u
#define NUMBER   0x6700000000000000u /* from here on numbers are of messages to groups */
#define AGAIN_US 2000
#define FIND_US  120000000ull /* until a member must be found: a notice comes each minute */
#define ROW      40u /* shorts that one service sends to one group, one after the other */
#define CALM     30u    /* the same at the end */
#define GAP_US   40000
#define TOLD_US  1100000 /* members are told, and answer, each second (core/group/mcast_out.c) */
#define MANY     3u     /* members that hear: so many make it pay (core/group/mcast_out.c) */
#define BEGIN_US 40000000ull /* until the network is found to reach many, if it does */

/* A message to a group. Its memory stays until the end. */
struct sim_fan {
	struct sim_fan *next;
	uint64_t number, from, id, at_us, deadline_us;
	uint32_t group;
	enum ripc_kind kind;
	struct iovec item;
	bool accepted, ended, given;
	uint64_t got[GOT_MAX];
	uint32_t n_got;
	struct ripc_delivery list[GOT_MAX];
	uint32_t n_list;
};

static uint64_t group_id(uint32_t group)
{
	char name[16];

	snprintf(name, sizeof(name), "sim %u", group);
	return ripc_group_from_name(name);
}

static void fail(struct sim_app *app, const struct sim_fan *fan, const char *what)
{
	char text[160];

	snprintf(text, sizeof(text), "group message %llx: %s",
			fan ? (unsigned long long)fan->number : 0, what);
	model_fail(app->world->model, text);
}

static uint8_t byte_of(uint64_t number, size_t at)
{
	return (uint8_t)(at < 8 ? number >> 8 * at :
		(number * 31 + at) * 0x9e3779b97f4a7c15u >> 56);
}

static struct sim_fan *fan_of(struct sim_app *app, uint64_t number)
{
	struct sim_fan *fan = app->fans;

	while (fan && fan->number != number)
		fan = fan->next;
	return fan;
}

static bool has_got(const struct sim_fan *fan, uint64_t incarnation)
{
	for (uint32_t i = 0; i < fan->n_got; i++)
		if (fan->got[i] == incarnation)
			return true;
	return false;
}

/* ---- joining ----------------------------------------------------------------------------- */

static void join(struct sim_app *app, struct sim_service *service, uint32_t group)
{
	if (ripc_join(service->svc, group_id(group)) != 0)
		fail(app, NULL, "a service cannot join");
	service->joined |= 1u << group;
	sim_trace(app->world, "service %llu joins %u", (unsigned long long)service->id, group);
}

void sim_groups_join(struct sim_app *app, struct sim_service *service)
{
	service->joined = 0;
	memset(service->left_us, 0, sizeof(service->left_us));
	for (uint32_t group = 0; app->world->groups && group < GROUPS; group++)
		if (app->calm || sim_chance(&app->world->random, 600000))
			join(app, service, group);
}

static void leave(struct sim_app *app, struct sim_service *service, uint32_t group)
{
	sim_app_ready(sim_home(app, service));
	if (sim_failed(app->world))
		return;
	if (ripc_leave(service->svc, group_id(group)) != 0)
		fail(app, NULL, "a service cannot leave");
	service->joined &= ~(1u << group);
	service->left_us[group] = app->world->now_us;
	sim_trace(app->world, "service %llu leaves %u", (unsigned long long)service->id, group);
}

static void act_join(struct sim_world *world, void *arg, uint64_t group)
{
	struct sim_app *app = arg;
	struct sim_service *service = sim_draw_usable(app);

	if (!service || app->calm)
		return;
	if (service->joined >> group & 1)
		leave(app, service, (uint32_t)group);
	else
		join(app, service, (uint32_t)group);
	if (!sim_failed(world))
		sim_node_schedule(sim_home(app, service));
}

/* ---- sending ----------------------------------------------------------------------------- */

static struct sim_fan *fan_new(struct sim_app *app, struct sim_service *from, uint32_t group,
		enum ripc_kind kind)
{
	struct sim_random *random = &app->world->random;
	struct sim_fan *fan = calloc(1, sizeof(*fan));

	if (!fan)
		abort();
	*fan = (struct sim_fan){.next = app->fans, .number = NUMBER + app->n_fans++,
		.from = from->incarnation, .id = from->id, .group = group, .kind = kind,
		.at_us = app->world->now_us};
	fan->item.iov_len = kind == RIPC_SHORT ? sim_between(random, 8, RIPC_SHORT_MIN) :
		sim_log(random, 8, 100000);
	fan->given = kind == RIPC_LONG && sim_chance(random, 300000);
	if (fan->given && ripc_buf_alloc(sim_home(app, from)->ctx, fan->item.iov_len,
			&fan->item.iov_base))
		fan->given = false;
	if (!fan->given)
		fan->item.iov_base = malloc(fan->item.iov_len);
	for (size_t i = 0; i < fan->item.iov_len; i++)
		((uint8_t *)fan->item.iov_base)[i] = byte_of(fan->number, i);
	app->fans = fan;
	return fan;
}

/* Returns what the call did; *fan is what was sent. */
static int send_fan(struct sim_app *app, struct sim_service *from, uint32_t group,
		enum ripc_kind kind, struct sim_fan **fan_out)
{
	struct sim_world *world = app->world;
	struct sim_fan *fan = fan_new(app, from, group, kind);
	struct ripc_send send = {.size = sizeof(send), .to = group_id(group), .items = &fan->item,
		.n_items = 1, .cookie = fan->number};
	int status;

	if (kind == RIPC_LONG) {
		send.flags = RIPC_SEND_LONG | RIPC_NOWAIT | (fan->given ? RIPC_GIVE : 0) |
			(!app->patient && sim_chance(&world->random, 300000) ? RIPC_LEAVE_SLOW :
				0);
		send.timeout_ms = app->calm ? 5000 : (int32_t)sim_log(&world->random, 40, 5000);
		fan->deadline_us = world->now_us + (uint64_t)send.timeout_ms * 1000;
	}
	status = ripc_sendmsg(from->svc, &send, NULL);
	fan->accepted = status == 0;
	fan->ended = status != 0 || kind == RIPC_SHORT;
	if (status && fan->given)
		ripc_buf_free(sim_home(app, from)->ctx, fan->item.iov_base);
	if (status && status != -ENOENT && status != -EAGAIN)
		fail(app, fan, "refused with an undocumented code");
	sim_trace(world, "group send %llx from %llu to %u: %d", (unsigned long long)fan->number,
			(unsigned long long)from->id, group, status);
	if (status == 0 && kind == RIPC_LONG && !app->calm &&
			sim_chance(&world->random, world->plan.cancel)) {
		status = ripc_cancel(from->svc, fan->number);
		if (status && status != -ENOENT)
			fail(app, fan, "cannot be cancelled");
		status = 0;
	}
	*fan_out = fan;
	sim_node_schedule(sim_home(app, from));
	return status;
}

static void act_send(struct sim_world *world, void *arg, uint64_t kind)
{
	struct sim_app *app = arg;
	struct sim_service *from = sim_draw_usable(app);
	struct sim_fan *fan;

	if (from && !app->calm)
		send_fan(app, from, (uint32_t)sim_below(&world->random, GROUPS),
			(enum ripc_kind)kind, &fan);
}

/* value: row << 8 | how many are left. A row is a service's, while that lives. */
static void act_row(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	uint32_t row = (uint32_t)(value >> 8);
	struct sim_service *from = &app->services[app->row_from[row]];
	struct sim_fan *fan;

	if (app->calm)
		return;
	if (sim_usable(app, from))
		send_fan(app, from, row % GROUPS, RIPC_SHORT, &fan);
	else if ((from = sim_draw_usable(app)))
		app->row_from[row] = (uint32_t)(from - app->services);
	if ((value & 0xff) > 1)
		sim_at(world, world->now_us + sim_log(&world->random, 50, 100000), act_row, app,
			value - 1);
}

void sim_groups_plan(struct sim_app *app, uint64_t from_us)
{
	struct sim_world *world = app->world;

	if (!world->groups)
		return;
	for (uint32_t i = 0; i < 60; i++) {
		sim_at(world, sim_draw_moment(world, from_us), act_send, app, RIPC_SHORT);
		sim_at(world, sim_draw_moment(world, from_us), act_send, app, RIPC_LONG);
		if (i % 3 == 0)
			sim_at(world, sim_draw_moment(world, from_us), act_join, app, i % GROUPS);
	}
	for (uint32_t i = 0; i < SIM_ROWS; i++) {
		app->row_from[i] = (uint32_t)sim_below(&world->random, world->plan.n_services);
		sim_at(world, sim_draw_moment(world, from_us), act_row, app, i << 8 | ROW);
	}
}

/* ---- what comes -------------------------------------------------------------------------- */

static bool is_whole(const struct sim_fan *fan, const struct ripc_msg *msg)
{
	const uint8_t *bytes = msg->items[0].iov_base;

	if (msg->n_items != 1 || msg->items[0].iov_len != fan->item.iov_len)
		return false;
	for (size_t i = 0; i < fan->item.iov_len; i++)
		if (bytes[i] != byte_of(fan->number, i))
			return false;
	return true;
}

/* A long message that was under way may still come after its receiver has left. */
static bool may_get(const struct sim_service *service, const struct sim_fan *fan)
{
	return service->joined >> fan->group & 1 ||
		(fan->kind == RIPC_LONG && service->left_us[fan->group] >= fan->at_us);
}

void sim_groups_got(struct sim_app *app, struct sim_service *service, const struct ripc_msg *msg)
{
	struct sim_fan *fan = fan_of(app, sim_number_of(msg));

	if (!fan || msg->group != group_id(fan->group) || msg->kind != fan->kind)
		fail(app, fan, "nobody has sent it to that group");
	else if (msg->from != fan->id || msg->from_incarnation != fan->from)
		fail(app, fan, "received from another than its sender");
	else if (fan->from == service->incarnation)
		fail(app, fan, "received by its own sender");
	else if (!may_get(service, fan))
		fail(app, fan, "received by one that is not in the group");
	else if (!is_whole(fan, msg))
		fail(app, fan, "altered");
	else if (has_got(fan, service->incarnation))
		fail(app, fan, "received twice");
	for (uint32_t i = 0; fan && fan->ended && i < fan->n_list; i++)
		if (fan->list[i].incarnation == service->incarnation &&
				fan->list[i].outcome == RIPC_NOT_DELIVERED)
			fail(app, fan, "received, though NOT_DELIVERED was said");
	sim_trace(app->world, "service %llu got group message %llx",
			(unsigned long long)service->id, (unsigned long long)sim_number_of(msg));
	if (fan && fan->n_got < GOT_MAX)
		fan->got[fan->n_got++] = service->incarnation;
}

/* Does the whole say what its parts say? */
static void check_sum(struct sim_app *app, const struct sim_fan *fan, const struct ripc_msg *msg)
{
	struct ripc_counts counts = {0};
	uint32_t n_wrong = 0;

	for (uint32_t i = 0; i < fan->n_list; i++) {
		const struct ripc_delivery *at = &fan->list[i];

		counts.delivered += at->outcome == RIPC_DELIVERED;
		counts.not_delivered += at->outcome == RIPC_NOT_DELIVERED;
		counts.unknown += at->outcome == RIPC_UNKNOWN;
		n_wrong += (at->status == 0) != (at->outcome == RIPC_DELIVERED);
		n_wrong += at->outcome == RIPC_NOT_DELIVERED && has_got(fan, at->incarnation);
		for (uint32_t k = 0; k < i; k++)
			n_wrong += fan->list[k].incarnation == at->incarnation;
	}
	if (n_wrong || memcmp(&counts, msg->counts, sizeof(counts)))
		fail(app, fan, "the counts are not those of its members");
	if (msg->outcome != (counts.delivered ? RIPC_DELIVERED : counts.unknown ? RIPC_UNKNOWN :
			RIPC_NOT_DELIVERED))
		fail(app, fan, "the outcome is not that of the counts");
	if ((msg->status == 0) != (fan->n_list && counts.delivered == fan->n_list) ||
			(msg->status == -ECONNRESET) != (counts.unknown > 0))
		fail(app, fan, "the status is not that of the counts");
}

void sim_groups_completed(struct sim_app *app, struct sim_service *service,
		const struct ripc_msg *msg)
{
	struct sim_fan *fan = fan_of(app, msg->cookie);
	int n = fan ? ripc_deliveries(msg, fan->list, GOT_MAX, sizeof(*fan->list)) :
		-1;

	if (!fan || n < 0 || n > (int)GOT_MAX || fan->ended || fan->from != service->incarnation) {
		fail(app, fan, "a completion for no send in progress");
		return;
	}
	fan->n_list = (uint32_t)n;
	fan->ended = true;
	check_sum(app, fan, msg);
	if (fan->given && msg->outcome == RIPC_NOT_DELIVERED &&
			ripc_buf_free(sim_home(app, service)->ctx, fan->item.iov_base))
		fail(app, fan, "the buffer is not its sender's again");
	sim_trace(app->world, "group message %llx: %u delivered, %u not, %u unknown, status %d",
			(unsigned long long)fan->number, msg->counts->delivered,
			msg->counts->not_delivered, msg->counts->unknown, msg->status);
}

void sim_groups_forget(struct sim_app *app, const struct sim_service *service)
{
	for (struct sim_fan *fan = app->fans; fan; fan = fan->next)
		fan->ended |= fan->from == service->incarnation;
}

/* ---- the end ----------------------------------------------------------------------------- */

struct sim_fan *sim_groups_send(struct sim_app *app, struct sim_service *from)
{
	struct sim_fan *fan;

	send_fan(app, from, 0, RIPC_LONG, &fan);
	return fan;
}

bool sim_groups_ended(const struct sim_fan *fan)
{
	return fan->ended;
}

bool sim_groups_succeeded(const struct sim_fan *fan)
{
	bool all = true;

	for (uint32_t i = 0; i < fan->n_list; i++)
		all &= fan->list[i].outcome == RIPC_DELIVERED;
	return all;
}

bool sim_groups_has(const struct sim_fan *fan, const struct sim_service *service)
{
	return has_got(fan, service->incarnation);
}

bool sim_groups_busy(const struct sim_app *app)
{
	for (const struct sim_fan *fan = app->fans; fan; fan = fan->next)
		if (!fan->ended)
			return true;
	return false;
}

static uint32_t n_others(const struct sim_app *app, const struct sim_service *from, uint32_t group)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < app->world->plan.n_services; i++)
		n += &app->services[i] != from && app->services[i].joined >> group & 1;
	return n;
}

/* Sends until all members have got it. */
static bool all_get(struct sim_app *app, struct sim_service *from, uint32_t group,
		void (*go_on)(struct sim_world *world, uint64_t until_us))
{
	struct sim_world *world = app->world;
	uint64_t end_us = world->now_us + FIND_US;
	uint32_t n = n_others(app, from, group);

	while (world->now_us < end_us && !sim_failed(world)) {
		struct sim_fan *fan;

		send_fan(app, from, group, RIPC_LONG, &fan);
		while (!fan->ended && !sim_failed(world))
			go_on(world, world->now_us + AGAIN_US);
		if (fan->n_got >= n)
			return true;
		go_on(world, world->now_us + 500000);
	}
	return false;
}

/* Does what this one sends to many reach so many that it pays? */
static bool must_pay(struct sim_app *app, struct sim_service *from)
{
	const struct sim_node *home = sim_home(app, from);
	uint32_t n = 0;

	for (uint32_t i = 0; i < app->world->plan.n_services; i++) {
		const struct sim_node *at = sim_home(app, &app->services[i]);

		n += at->address >> 16 != home->address >> 16 &&
			app->world->plan.many[home->slot] >> at->slot & 1;
	}
	return n >= MANY && !app->world->plan.native && !app->world->keys;
}

static uint64_t many_sent(struct sim_app *app, struct sim_service *from)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ripc_stats_get(sim_home(app, from)->ctx, &stats);
	return stats.many_sent;
}

/* Sends until each short goes to many. */
static bool begins(struct sim_app *app, struct sim_service *from, uint32_t group,
		void (*go_on)(struct sim_world *world, uint64_t until_us))
{
	struct sim_world *world = app->world;
	uint64_t end_us = world->now_us + BEGIN_US;
	uint32_t n_in_row = 0;

	while (n_in_row < 5 && world->now_us < end_us && !sim_failed(world)) {
		uint64_t before = many_sent(app, from);
		struct sim_fan *fan;

		send_fan(app, from, group, RIPC_SHORT, &fan);
		go_on(world, world->now_us + GAP_US);
		n_in_row = many_sent(app, from) > before ? n_in_row + 1 : 0;
	}
	return n_in_row == 5;
}

/* Statements of members from before the end of the faults, and their losses, count no more. */
static void refresh(struct sim_app *app, struct sim_service *from, uint32_t group,
		void (*go_on)(struct sim_world *world, uint64_t until_us))
{
	struct sim_fan *fan;

	for (uint32_t i = 0; i < 4 && !sim_failed(app->world); i++) {
		send_fan(app, from, group, RIPC_SHORT, &fan);
		go_on(app->world, app->world->now_us + TOLD_US);
	}
}

/* Each reaches all. */
static void send_row(struct sim_app *app, struct sim_service *from, uint32_t group,
		void (*go_on)(struct sim_world *world, uint64_t until_us))
{
	struct sim_world *world = app->world;
	struct sim_fan *fans[CALM];

	for (uint32_t i = 0; i < CALM && !sim_failed(world); i++) {
		send_fan(app, from, group, RIPC_SHORT, &fans[i]);
		go_on(world, world->now_us + sim_below(&world->random, GAP_US));
	}
	go_on(world, world->now_us + 500000);
	for (uint32_t i = 0; i < CALM && !sim_failed(world); i++)
		if (fans[i]->n_got != n_others(app, from, group))
			fail(app, fans[i], "a member did not get it, though nothing is lost");
}

static void shorts_reach(struct sim_app *app, struct sim_service *from, uint32_t group,
		void (*go_on)(struct sim_world *world, uint64_t until_us))
{
	uint32_t at = (uint32_t)(from - app->services);
	struct sim_service *other = &app->services[(at + 1) % app->world->plan.n_services];
	bool pays = must_pay(app, from);
	uint64_t before;

	if (pays && !begins(app, from, group, go_on))
		fail(app, NULL, "no short goes to many, though that reaches them");
	refresh(app, from, group, go_on);
	before = many_sent(app, from);
	send_row(app, from, group, go_on);
	if (pays && many_sent(app, from) - before < CALM)
		fail(app, NULL, "not all shorts go to many any more");
	if (sim_failed(app->world))
		return;
	leave(app, other, group);
	join(app, other, group);
	sim_node_schedule(sim_home(app, other));
	if (!all_get(app, from, group, go_on))
		fail(app, NULL, "a member is not found again");
	send_row(app, from, group, go_on);
}

void sim_groups_calm(struct sim_app *app,
		void (*go_on)(struct sim_world *world, uint64_t until_us))
{
	struct sim_world *world = app->world;

	if (!world->groups)
		return;
	for (uint32_t i = 0; i < world->plan.n_services && !sim_failed(world); i++)
		for (uint32_t group = 0; group < GROUPS; group++)
			if (!(app->services[i].joined >> group & 1)) {
				join(app, &app->services[i], group);
				sim_node_schedule(sim_home(app, &app->services[i]));
			}
	for (uint32_t i = 0; i < world->plan.n_services && !sim_failed(world); i += 3)
		if (!all_get(app, &app->services[i], i % GROUPS, go_on))
			fail(app, NULL, "a member is not found");
	for (uint32_t i = 0; i < world->plan.n_services && !sim_failed(world); i += 3)
		shorts_reach(app, &app->services[i], i % GROUPS, go_on);
	if (!sim_failed(world))
		sim_fates(app, go_on);
}

void sim_groups_end(struct sim_app *app)
{
	while (app->fans) {
		struct sim_fan *fan = app->fans;

		app->fans = fan->next;
		if (!fan->ended && !sim_failed(app->world))
			fail(app, fan, "never completed");
		for (uint32_t i = 0; i < fan->n_list && !sim_failed(app->world); i++)
			if (fan->list[i].outcome == RIPC_DELIVERED &&
					!has_got(fan, fan->list[i].incarnation))
				fail(app, fan, "DELIVERED was said, but it was not received");
		if (!fan->given)
			free(fan->item.iov_base);
		free(fan);
	}
}
