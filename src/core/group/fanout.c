/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages to groups: an ordinary long message to each member's incarnation, and one end for
 * all of them.
 *
 * The members are those that the resolver knows when its search is complete, or, if that takes too
 * long, when half of the time is over. An item that is transferred (RIPC_GIVE)
 * has one reference more for each member; the sender's own is dropped when a member has the
 * message, or may have it.
 *
 * The ID of a member may belong to another incarnation. Either the member has gone, and its service
 * was started again, or two services have the ID until one of them yields. Then the member's part
 * waits until the place of the member is known, or its end.
 *
 * A fanout is over when each part has ended and the network does not use the items any more. A
 * waiting call ends the parts at the deadline, like outgoing_wait() of api/send.c. A NOTICE follows
 * when the items are free.
 */
#include "fanout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/message/message.h"
#include "core/objects.h"
#include "core/partner/find.h"
#include "core/resolve/resolver.h"
#include "core/send/outgoing.h"
#include "core/wire/wire.h"
#include "group.h"

#define AGAIN_US      20000u  /* until waiting parts are tried again */
#define SLOW_LEAST_US 100000u /* RIPC_LEAVE_SLOW: least time for a slow member */

/* ---- the end ----------------------------------------------------------------------------- */

static struct ripc_context *context_of(const struct fanout *fanout)
{
	return fanout->message.ctx;
}

static void fanout_free(struct fanout *fanout)
{
	ripc__timer_dismiss(context_of(fanout), &fanout->timer);
	list_remove(&fanout->node);
	free(fanout->deliveries);
	free(fanout);
}

/* Sets the status of the fanout: an unknown outcome counts most, then any status that is not 0. */
static void sum_up(struct fanout *fanout)
{
	const struct ripc_counts *counts = &fanout->counts;
	int status = fanout->n ? 0 : fanout->status;

	for (uint32_t i = 0; i < fanout->n && !status; i++)
		status = fanout->deliveries[i].public.status;
	fanout->status = counts->unknown ? -ECONNRESET : status;
	fanout->outcome = counts->delivered ? RIPC_DELIVERED : counts->unknown ? RIPC_UNKNOWN :
		RIPC_NOT_DELIVERED;
}

static void references_drop(struct fanout *fanout)
{
	if (fanout->flags & RIPC_GIVE)
		ripc__buffers_free(context_of(fanout), fanout->items, fanout->n_items);
}

/* Drops the sender's references, unless the application learns that it still has them. */
static void give(struct fanout *fanout)
{
	bool untold = !fanout->service && fanout->flags & RIPC_NOWAIT;

	if (fanout->outcome == RIPC_NOT_DELIVERED && !untold)
		return;
	references_drop(fanout);
	fanout->flags &= ~(uint32_t)RIPC_GIVE;
}

/* Reports the end to the application, unless the service is closed. */
static void report(struct fanout *fanout)
{
	struct ripc_msg *public = &fanout->message.public;
	bool nowait = fanout->flags & RIPC_NOWAIT;

	if (!fanout->service || !(nowait || fanout->counts.unknown)) {
		fanout_free(fanout);
		return;
	}
	public->kind = nowait ? RIPC_COMPLETION : RIPC_NOTICE;
	public->outcome = fanout->outcome;
	public->status = nowait ? fanout->status : 0;
	public->from = public->group = fanout->group;
	public->cookie = fanout->cookie;
	public->counts = nowait ? &fanout->counts : NULL;
	fanout->reported = true;
	ripc__end_report(fanout->service, &fanout->message, fanout->flags & RIPC_AWAITED);
}

/* Ends the fanout once all outcomes are known and the items are free. */
static void settle(struct fanout *fanout)
{
	if (!fanout->begun || fanout->n_open || fanout->over)
		return;
	fanout->over = true;
	context_of(fanout)->loop.changed = true;
	if (!fanout->waiter && !(fanout->flags & RIPC_NOWAIT)) {
		report(fanout); /* the call that waited knows the outcome already */
		return;
	}
	sum_up(fanout);
	give(fanout);
	if (!fanout->waiter)
		report(fanout);
}

static void count(struct fanout *fanout, const struct delivery *delivery)
{
	struct ripc_counts *counts = &fanout->counts;

	counts->delivered += delivery->public.outcome == RIPC_DELIVERED;
	counts->not_delivered += delivery->public.outcome == RIPC_NOT_DELIVERED;
	counts->unknown += delivery->public.outcome == RIPC_UNKNOWN;
}

/* The member may have gone: the resolver checks whether it is still in the group. */
static void doubt(const struct delivery *delivery)
{
	const struct fanout *fanout = delivery->fanout;
	struct ripc_context *ctx = context_of(fanout);

	ripc__resolver_doubt(ctx->resolver, fanout->group, delivery->public.incarnation,
		ctx->now_us);
}

static void conclude(struct delivery *delivery, enum ripc_outcome outcome, int status)
{
	struct fanout *fanout = delivery->fanout;

	delivery->public.outcome = outcome;
	delivery->public.status = status;
	count(fanout, delivery);
	if (status == -ENOENT) /* reported by the member, or by the resolver */
		ripc__resolver_expel(context_of(fanout)->resolver, fanout->group,
			delivery->public.incarnation);
	else if (outcome == RIPC_UNKNOWN || status == -ETIMEDOUT || status == -EHOSTUNREACH)
		doubt(delivery);
}

/* Ends the part of a member that is waited for. */
static void give_up(struct delivery *delivery, int status)
{
	delivery->waits = false;
	delivery->fanout->n_open--;
	conclude(delivery, RIPC_NOT_DELIVERED, status);
}

static void wait_for_member(struct fanout *fanout, struct delivery *delivery)
{
	struct ripc_context *ctx = context_of(fanout);

	delivery->waits = true;
	if (!fanout->timer.index)
		ripc__timer_set(&ctx->loop.timers, &fanout->timer, ctx->now_us + AGAIN_US);
}

/* Has the part not begun, because another service has the member's ID? The member may live. */
static bool is_passed_by(const struct delivery *delivery, const struct outgoing *outgoing)
{
	const struct fanout *fanout = delivery->fanout;
	const struct ripc__member member = {delivery->public.id, delivery->public.incarnation};

	return outgoing->outcome == RIPC_NOT_DELIVERED && outgoing->status == -ENOENT &&
		!outgoing->announced && fanout->service && !fanout->service->closing &&
		ripc__find_is_rivalled(fanout->service, &member);
}

/* At least half of the members have the message: the others get as much time again. */
static void hurry(struct fanout *fanout)
{
	uint64_t now_us = context_of(fanout)->now_us, more_us = now_us - fanout->started_us;

	fanout->hurried = true;
	more_us = more_us < SLOW_LEAST_US ? SLOW_LEAST_US : more_us;
	for (uint32_t i = 0; i < fanout->n; i++) {
		if (fanout->deliveries[i].outgoing)
			ripc__outgoing_hurry(fanout->deliveries[i].outgoing, now_us + more_us);
	}
}

void ripc__delivery_ended(struct outgoing *outgoing)
{
	struct delivery *delivery = outgoing->delivery;
	struct fanout *fanout = delivery->fanout;

	outgoing->delivery = NULL;
	delivery->outgoing = NULL;
	if (!delivery->public.outcome && is_passed_by(delivery, outgoing)) {
		wait_for_member(fanout, delivery);
		return;
	}
	if (!delivery->public.outcome) /* not counted by the waiting call yet */
		conclude(delivery, outgoing->outcome, outgoing->status);
	fanout->n_open--;
	if (fanout->flags & RIPC_LEAVE_SLOW && !fanout->hurried &&
			2 * fanout->counts.delivered >= fanout->n)
		hurry(fanout);
	settle(fanout);
}

void ripc__delivery_silent(const struct outgoing *outgoing)
{
	doubt(outgoing->delivery);
}

void ripc__fanout_untold(struct message *message)
{
	references_drop(list_entry(message, struct fanout, message));
}

void ripc__fanout_told(struct message *message)
{
	fanout_free(list_entry(message, struct fanout, message));
}

/* ---- the beginning ----------------------------------------------------------------------- */

static int references_take(struct fanout *fanout)
{
	return fanout->flags & RIPC_GIVE ? ripc__buffers_ref(context_of(fanout), fanout->items,
		fanout->n_items) : 0;
}

/* Begins a member's part. A part that can neither begin nor wait was not delivered. */
static void deliver(struct fanout *fanout, struct delivery *delivery)
{
	uint64_t now_us = context_of(fanout)->now_us;
	uint64_t left_ms = fanout->deadline_us > now_us ?
		(fanout->deadline_us - now_us + 999) / 1000 : 1;
	const struct ripc_send request = {.to = delivery->public.id,
		.to_incarnation = delivery->public.incarnation, .items = fanout->items,
		.n_items = fanout->n_items, .timeout_ms = (int32_t)left_ms,
		.flags = (fanout->flags & RIPC_GIVE) | RIPC_SEND_LONG | RIPC_NOWAIT};
	const struct sending like = {.lends = fanout->group, .call.kind = WIRE_CALL_GROUP,
		.delivery = delivery, .queues = !(fanout->flags & RIPC_LEAVE_SLOW)};
	int error = references_take(fanout);

	if (!error) {
		error = ripc__outgoing_start(fanout->service, &request, &like,
			&delivery->outgoing);
		if (error)
			references_drop(fanout);
	}
	if (error == -EINPROGRESS)
		wait_for_member(fanout, delivery);
	else if (error)
		give_up(delivery, error);
}

/* Copies the list of members that are known now. -ENOMEM. */
static int snapshot(struct fanout *fanout, const struct gathering *gathering, uint32_t n)
{
	fanout->deliveries = calloc(n ? n : 1, sizeof(*fanout->deliveries));
	if (!fanout->deliveries)
		return -ENOMEM;
	for (uint32_t i = 0; i < ripc__gathering_places(gathering) && fanout->n < n; i++) {
		const struct ripc__member *member = ripc__gathering_at(gathering, i);

		if (!member || member->incarnation == fanout->service->incarnation)
			continue;
		fanout->deliveries[fanout->n++] = (struct delivery){.fanout = fanout,
			.public = {.id = member->id, .incarnation = member->incarnation}};
	}
	fanout->n_open += fanout->n;
	return fanout->n ? 0 : -ENOENT;
}

static void begin(struct fanout *fanout)
{
	struct gathering *gathering;
	uint32_t n;
	int error = ripc__group_members(fanout->service, fanout->group, &gathering, &n);

	ripc__timer_stop(&context_of(fanout)->loop.timers, &fanout->timer);
	fanout->begun = true;
	fanout->n_open = 1; /* this function */
	fanout->status = error == -ENOMEM ? error : snapshot(fanout, gathering, n);
	for (uint32_t i = 0; i < fanout->n; i++)
		deliver(fanout, &fanout->deliveries[i]);
	fanout->n_open--;
	settle(fanout);
}

/* Tries waiting parts again. Sending to one member can end other parts. */
static void try_again(struct fanout *fanout)
{
	bool is_late = context_of(fanout)->now_us >= fanout->deadline_us;

	fanout->n_open++; /* this function */
	for (uint32_t i = 0; i < fanout->n; i++) {
		struct delivery *delivery = &fanout->deliveries[i];

		if (!delivery->waits)
			continue;
		delivery->waits = false;
		if (is_late)
			give_up(delivery, -ETIMEDOUT);
		else
			deliver(fanout, delivery);
	}
	fanout->n_open--;
	settle(fanout);
}

static void fanout_fire(void *owner, struct ripc__timer *timer)
{
	struct fanout *fanout = list_entry(timer, struct fanout, timer);

	(void)owner;
	if (fanout->begun)
		try_again(fanout);
	else
		begin(fanout);
}

static struct fanout *fanout_alloc(struct ripc_service *service, const struct ripc_send *request)
{
	struct ripc_context *ctx = service->ctx;
	uint64_t timeout_ms = request->timeout_ms > 0 ? (uint64_t)request->timeout_ms :
		ctx->cfg.timeout_ms;
	size_t size = request->n_items * sizeof(struct iovec);
	struct fanout *fanout = calloc(1, sizeof(*fanout) + size);

	if (!fanout)
		return NULL;
	if (ripc__timer_admit(ctx)) {
		free(fanout);
		return NULL;
	}
	fanout->message = (struct message){.ctx = ctx, .home = MESSAGE_GROUP};
	list_init(&fanout->message.node);
	fanout->timer.fire = fanout_fire;
	fanout->service = service;
	fanout->group = request->to;
	fanout->cookie = request->cookie;
	fanout->flags = request->flags;
	fanout->waiter = !(request->flags & RIPC_NOWAIT);
	fanout->started_us = ctx->now_us;
	fanout->deadline_us = ctx->now_us + timeout_ms * 1000;
	fanout->n_items = request->n_items;
	memcpy(fanout->items, request->items, size);
	list_append(&ctx->groups.fanouts, &fanout->node);
	return fanout;
}

/* Must the send wait for a slow member? The slowest one sets the pace, unless RIPC_LEAVE_SLOW. */
static bool must_wait(struct ripc_service *service, const struct ripc_send *request,
		const struct gathering *gathering)
{
	if ((request->flags & (RIPC_NOWAIT | RIPC_LEAVE_SLOW | RIPC_AWAITED)) != RIPC_NOWAIT)
		return false;
	for (uint32_t i = 0; i < ripc__gathering_places(gathering); i++) {
		const struct ripc__member *found = ripc__gathering_at(gathering, i);
		const struct ripc__member member = found ? *found : (struct ripc__member){0};

		if (found && member.incarnation != service->incarnation &&
				ripc__member_is_full(service, request->to, &member))
			return true;
	}
	return false;
}

int ripc__fanout_start(struct ripc_service *service, const struct ripc_send *request,
		struct fanout **fanout_out)
{
	struct ripc_context *ctx = service->ctx;
	struct gathering *gathering;
	struct fanout *fanout;
	uint64_t total;
	uint32_t n;
	int status, error = ripc__sum_items(request->items, request->n_items, &total);

	if (!error && request->flags & RIPC_GIVE)
		error = ripc__buffers_check(ctx, request->items, request->n_items);
	if (error)
		return error;
	status = ripc__group_members(service, request->to, &gathering, &n);
	if (status == -ENOMEM || (!status && !n))
		return status ? status : -ENOENT;
	if (must_wait(service, request, gathering))
		return -EAGAIN;
	fanout = fanout_alloc(service, request);
	if (!fanout)
		return -ENOMEM;
	*fanout_out = fanout;
	if (status)
		ripc__timer_set(&ctx->loop.timers, &fanout->timer, fanout->started_us +
			(fanout->deadline_us - fanout->started_us) / 2);
	else
		begin(fanout);
	return 0;
}

static struct fanout *waiting_for(struct ripc_context *ctx, uint64_t group)
{
	list_for_each(node, &ctx->groups.fanouts) {
		struct fanout *fanout = list_entry(node, struct fanout, node);

		if (fanout->group == group && !fanout->begun && fanout->service)
			return fanout;
	}
	return NULL;
}

void ripc__fanouts_gathered(struct ripc_context *ctx, uint64_t group)
{
	struct fanout *fanout;

	/* The beginning of one fanout can end others: search anew. */
	while ((fanout = waiting_for(ctx, group)))
		begin(fanout);
}

/* ---- ends from outside ------------------------------------------------------------------- */

/* The message reaches no member. */
static void abandon(struct fanout *fanout, int status)
{
	ripc__timer_stop(&context_of(fanout)->loop.timers, &fanout->timer);
	fanout->begun = true;
	fanout->status = status;
	settle(fanout);
}

/* The call stops waiting: ends all parts with the outcomes that are known now. */
static void expire(struct fanout *fanout)
{
	if (!fanout->begun)
		abandon(fanout, -ETIMEDOUT);
	for (uint32_t i = 0; i < fanout->n; i++) {
		struct delivery *delivery = &fanout->deliveries[i];

		if (delivery->outgoing && delivery->outgoing->state != OUT_ENDED)
			ripc__outgoing_expire(delivery->outgoing);
		if (delivery->outgoing)
			conclude(delivery, delivery->outgoing->outcome,
				delivery->outgoing->status);
		else if (delivery->waits)
			give_up(delivery, -ETIMEDOUT);
	}
	settle(fanout);
	if (fanout->over)
		return;
	sum_up(fanout);
	give(fanout);
}

int ripc__fanout_end(struct fanout *fanout, uint32_t *outcome, struct ripc_counts *counts)
{
	int status;

	if (!fanout->over)
		expire(fanout);
	status = fanout->status;
	*outcome = fanout->outcome;
	if (counts)
		*counts = fanout->counts;
	fanout->waiter = false;
	if (fanout->over)
		report(fanout);
	return status;
}

/* Gives up all parts that wait for their members. */
static void give_all_up(struct fanout *fanout)
{
	for (uint32_t i = 0; i < fanout->n; i++) {
		if (fanout->deliveries[i].waits)
			give_up(&fanout->deliveries[i], -ECANCELED);
	}
}

static void cancel(struct fanout *fanout)
{
	if (!fanout->begun)
		abandon(fanout, -ECANCELED);
	fanout->n_open++; /* this function */
	for (uint32_t i = 0; i < fanout->n; i++) {
		struct outgoing *outgoing = fanout->deliveries[i].outgoing;

		if (outgoing && outgoing->state < OUT_CANCELLING)
			ripc__outgoing_cancel(outgoing, -ECANCELED);
	}
	give_all_up(fanout);
	fanout->n_open--;
	settle(fanout);
}

bool ripc__fanouts_cancel(struct ripc_service *service, uint64_t cookie)
{
	bool any = false;

	list_for_each_safe(node, &service->ctx->groups.fanouts) {
		struct fanout *fanout = list_entry(node, struct fanout, node);

		if (fanout->service != service || fanout->cookie != cookie || fanout->over)
			continue;
		cancel(fanout);
		any = true;
	}
	return any;
}

void ripc__fanouts_orphan(struct ripc_service *service)
{
	list_for_each_safe(node, &service->ctx->groups.fanouts) {
		struct fanout *fanout = list_entry(node, struct fanout, node);

		if (fanout->service != service)
			continue;
		if (!fanout->begun)
			abandon(fanout, -ECANCELED);
		fanout->service = NULL;
		give_all_up(fanout);
		settle(fanout);
	}
}

void ripc__fanouts_free(struct ripc_context *ctx)
{
	while (!list_empty(&ctx->groups.fanouts)) {
		struct fanout *fanout = list_entry(list_pop(&ctx->groups.fanouts), struct fanout,
			node);

		free(fanout->deliveries);
		free(fanout);
	}
}

const struct fanout *ripc__fanout_of(const struct ripc_msg *completion)
{
	const struct message *message = (const struct message *)completion;

	return completion->kind == RIPC_COMPLETION && message->home == MESSAGE_GROUP ?
		list_entry(message, const struct fanout, message) : NULL;
}
