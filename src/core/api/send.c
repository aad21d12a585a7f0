/* SPDX-License-Identifier: BSD-3-Clause */
/* Public calls: sending, and cancelling of sends. */
#include <errno.h>
#include <stddef.h>

#include "core/base/base.h"
#include "core/call/call.h"
#include "core/call/watch.h"
#include "core/engine/loop.h"
#include "core/engine/wait.h"
#include "core/group/fanout.h"
#include "core/group/group.h"
#include "core/message/message.h"
#include "core/message/returns.h"
#include "core/objects.h"
#include "core/partner/find.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "core/receive/incoming.h"
#include "core/send/order.h"
#include "core/send/outgoing.h"
#include "core/send/short.h"
#include "core/wire/record.h"
#include "internal.h"
#include "ripc/call.h"
#include "util/list.h"
#include "util/rare.h"

#define WAIT_AGAIN_US 20000u /* until a send to an ID without owner is retried (RIPC_WAIT) */

/* Sends a short to a group, or rejects ID 0. */
static RIPC__RARE int group_short(struct ripc_service *svc, uint64_t to,
		const struct iovec *items, uint32_t n_items)
{
	const struct ripc_send request = {.size = sizeof(request), .to = to, .items = items,
		.n_items = n_items};

	return ripc_sendmsg(svc, &request, NULL);
}

int ripc_send_short(struct ripc_service *svc, uint64_t to, const struct iovec *items,
		uint32_t n_items)
{
	int error;

	if (!svc || !wire_is_service(to))
		return group_short(svc, to, items, n_items);
	error = ripc__enter_in_hastily(svc);
	return error ? error :
		ripc__leave_with(svc->ctx, ripc__short_send_items(svc, to, items, n_items));
}

int ripc_send_long(struct ripc_service *svc, uint64_t to, const struct iovec *items,
		uint32_t n_items, int timeout_ms)
{
	struct ripc_send request = {.size = sizeof(request), .to = to, .items = items,
		.n_items = n_items, .flags = RIPC_SEND_LONG, .timeout_ms = timeout_ms};

	return timeout_ms > 0 ? ripc_sendmsg(svc, &request, NULL) : -EINVAL;
}

static bool outgoing_ended(void *arg)
{
	const struct outgoing *outgoing = arg;

	return outgoing->state == OUT_ENDED;
}

static int outgoing_wait(struct ripc_context *ctx, struct outgoing *outgoing,
		uint32_t *outcome)
{
	int status;

	/*
	 * A timer ends the send at its deadline. The wait itself ends a tick later, in case the
	 * thread that runs the timer has stopped.
	 */
	ripc__wait(ctx, outgoing_ended, outgoing, outgoing->deadline_us + TICK_US);
	if (outgoing->state != OUT_ENDED)
		ripc__outgoing_expire(outgoing);
	status = outgoing->status;
	*outcome = outgoing->outcome;
	outgoing->waiter = false;
	ripc__order_told(outgoing);
	ripc__outgoing_put(outgoing);
	return status;
}

static bool fanout_is_over(void *arg)
{
	return ((const struct fanout *)arg)->over;
}

/* Sets the outcome if it has waited for it. */
static int group_send(struct ripc_service *svc, const struct ripc_send *request,
		uint32_t *outcome)
{
	struct ripc_context *ctx = svc->ctx;
	struct fanout *fanout;
	int error = ripc__fanout_start(svc, request, &fanout);

	if (error || request->flags & RIPC_NOWAIT)
		return error;
	ripc__wait(ctx, fanout_is_over, fanout, fanout->deadline_us + TICK_US);
	return ripc__fanout_end(fanout, outcome, request->counts);
}

/* Sets the outcome if it has waited for it. */
static int long_send(struct ripc_service *svc, const struct ripc_send *request,
		uint32_t *outcome)
{
	struct ripc_context *ctx = svc->ctx;
	struct outgoing *outgoing;
	uint64_t lends = 0;
	int error;

	if (wire_is_group(request->to))
		return group_send(svc, request, outcome);
	error = request->n_returns ? ripc__lend(svc, request, &lends) : 0;
	if (error)
		return error;
	error = ripc__outgoing_start(svc, request, &(struct sending){.lends = lends, .sums = true},
		&outgoing);
	if (error) {
		ripc__lend_end(svc, lends);
		return error;
	}
	/* This drops the lock for a while: the service may be closed and freed meanwhile. */
	if (outgoing->exposed)
		ripc__sum_follows(outgoing);
	else
		outgoing->sums = false;
	return request->flags & RIPC_NOWAIT ? 0 : outgoing_wait(ctx, outgoing, outcome);
}

static bool is_closing(void *arg)
{
	const struct ripc_service *service = arg;

	return service->closing;
}

/* Retries while nobody has the ID (RIPC_WAIT), until the deadline. */
static int long_send_patient(struct ripc_service *svc, const struct ripc_send *request,
		uint32_t *outcome)
{
	struct ripc_context *ctx = svc->ctx;
	struct ripc_send again = *request;
	uint64_t deadline_us = ripc__deadline(ctx, request->timeout_ms ? request->timeout_ms :
		(int64_t)ctx->cfg.timeout_ms);
	bool was_nobody = false;
	int error;

	ripc__service_get(svc);
	for (;;) {
		uint64_t left_ms = (deadline_us - ctx->now_us) / 1000;

		again.timeout_ms = left_ms ? (int32_t)left_ms : 1;
		error = long_send(svc, &again, outcome);
		if (error != -ENOENT || *outcome != RIPC_NOT_DELIVERED)
			break;
		was_nobody = true;
		if (ripc__wait(ctx, is_closing, svc, ctx->now_us + WAIT_AGAIN_US) ||
				ctx->now_us >= deadline_us)
			break;
	}
	ripc__service_put(svc);
	return error == -ETIMEDOUT && was_nobody ? -ENOENT : error;
}

static int long_send_awaited(struct ripc_service *svc, const struct ripc_send *request)
{
	int error = ripc__ends_add(&svc->ends, request->cookie);

	if (error)
		return error;
	error = long_send(svc, request, &(uint32_t){0});
	if (error)
		ripc__ends_remove(&svc->ends, request->cookie);
	return error;
}

/* Do the flags fit the receiver? Some are for groups only, others for single services only. */
static bool may_go_to(const struct ripc_send *request)
{
	if (!wire_is_group(request->to))
		return !(request->flags & RIPC_LEAVE_SLOW);
	return !(request->flags & RIPC_ORDERED) && !request->n_returns && !request->reply_to &&
		!request->to_incarnation && !request->to_handle;
}

/* Fills *request with the readable part of *send, also when the check fails. */
static int check_send(struct ripc_service *svc, const struct ripc_send *send,
		struct ripc_send *request)
{
	const uint32_t known = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_GIVE | RIPC_ORDERED | RIPC_WAIT |
		RIPC_LEAVE_SLOW | RIPC_AWAITED;
	int error = ripc__struct_take(request, sizeof(*request), send,
		offsetof(struct ripc_send, reply_to));

	if (error)
		return error;
	if (!svc || (request->to == 0 && request->to_handle == 0) || request->flags & ~known ||
			request->timeout_ms < 0)
		return -EINVAL;
	if (request->flags & (RIPC_NOWAIT | RIPC_ORDERED | RIPC_WAIT | RIPC_LEAVE_SLOW) &&
			!(request->flags & RIPC_SEND_LONG))
		return -EINVAL;
	if (request->flags & RIPC_WAIT && (request->flags & RIPC_NOWAIT ||
			request->to_incarnation))
		return -EINVAL;
	/* A message to a handle overtakes messages that wait for the ID, and never waits itself. */
	if (request->to_handle && request->flags & (RIPC_ORDERED | RIPC_WAIT))
		return -EINVAL;
	if (request->flags & RIPC_AWAITED && !(request->flags & RIPC_NOWAIT))
		return -EINVAL;
	return may_go_to(request) ? 0 : -EINVAL;
}

/* If the receiver is named by a handle alone, fills in the receiver's ID. */
static int address(const struct ripc_service *svc, struct ripc_send *request)
{
	const struct partner *sender;

	if (!request->to_handle)
		return 0;
	if (svc->closing)
		return -ESHUTDOWN;
	sender = ripc__find_sender(svc, request->to_handle);
	if (!sender)
		return -ENOENT;
	if (request->to && request->to != sender->id)
		return -EINVAL;
	request->to = sender->id;
	return 0;
}

static int send_addressed(struct ripc_service *svc, const struct ripc_send *request,
		uint32_t *outcome)
{
	if (request->flags & RIPC_AWAITED)
		return long_send_awaited(svc, request);
	if (request->flags & RIPC_WAIT)
		return long_send_patient(svc, request, outcome);
	if (request->flags & RIPC_SEND_LONG)
		return long_send(svc, request, outcome);
	return wire_is_group(request->to) ? ripc__group_short(svc, request) :
		ripc__short_send(svc, request);
}

static int send_checked(struct ripc_service *svc, struct ripc_send *request, uint32_t *outcome)
{
	struct ripc_context *ctx = svc->ctx;
	int error = ripc__enter_in(svc);

	if (error)
		return error;
	error = address(svc, request);
	return ripc__leave_with(ctx, error ? error : send_addressed(svc, request, outcome));
}

int ripc_sendmsg(struct ripc_service *svc, const struct ripc_send *send,
		uint32_t *outcome)
{
	uint32_t result = RIPC_NOT_DELIVERED;
	struct ripc_send request;
	int error = check_send(svc, send, &request);

	if (!error)
		error = send_checked(svc, &request, &result);
	if (outcome && (request.flags & (RIPC_SEND_LONG | RIPC_NOWAIT)) == RIPC_SEND_LONG)
		*outcome = result;
	return error;
}

struct cancelled {
	struct ripc_service *svc;
	uint64_t cookie;
};

static bool was_taken_back(const struct lent *lent, const struct cancelled *of)
{
	return lent->cancelled && lent->cookie == of->cookie;
}

/* Is the network done with all memory that was taken back? */
static bool cancelled_are_idle(void *arg)
{
	const struct cancelled *of = arg;

	list_for_each_entry(lent, &of->svc->lent, const struct lent, node) {
		if (was_taken_back(lent, of) && (lent->in_use || lent->permit))
			return false;
	}
	return true;
}

static bool cancel_lent(struct ripc_service *svc, uint64_t cookie)
{
	struct cancelled of = {svc, cookie};
	bool any = false;

	list_for_each_entry_safe(lent, &svc->lent, struct lent, node) {
		if (lent->cookie != cookie)
			continue;
		lent->cancelled = any = true;
		ripc__incoming_stop(svc->ctx, lent);
		ripc__returns_withdraw(lent, false);
	}
	if (!any)
		return false;
	ripc__wait(svc->ctx, cancelled_are_idle, &of, UINT64_MAX);
	list_for_each_entry_safe(lent, &svc->lent, struct lent, node) {
		if (was_taken_back(lent, &of))
			ripc__lent_free(lent);
	}
	return true;
}

static struct outgoing *outgoing_with(struct ripc_service *svc, uint64_t cookie, bool cancelling)
{
	for_each_partner(partner, svc->ctx) {
		if (partner->service != svc)
			continue;
		list_for_each_entry(outgoing, &partner->longs.outgoing, struct outgoing, node) {
			if (outgoing->cookie == cookie && !outgoing->call.kind &&
					(outgoing->state == OUT_CANCELLING) == cancelling)
				return outgoing;
		}
	}
	return NULL;
}

int ripc_cancel(struct ripc_service *svc, uint64_t cookie)
{
	struct ripc_context *ctx = svc ? svc->ctx : NULL;
	struct outgoing *outgoing;
	bool any;
	int error = ctx ? ripc__enter_in(svc) : -EINVAL;

	if (error)
		return error;
	ripc__service_get(svc);
	any = ripc__calls_cancel(svc, cookie);
	any = ripc__fanouts_cancel(svc, cookie) || any;
	any = cancel_lent(svc, cookie) || any || outgoing_with(svc, cookie, true);
	/* A message that is cancelled may end at once, and free others of its partner: restart. */
	while ((outgoing = outgoing_with(svc, cookie, false))) {
		ripc__outgoing_cancel(outgoing, -ECANCELED);
		any = true;
	}
	ripc__service_put(svc);
	return ripc__leave_with(ctx, any ? 0 : -ENOENT);
}

/* ---- call -------------------------------------------------------------------------------- */

/* Public calls: requests and replies, and watching. */

#define KNOWN (RIPC_IDEMPOTENT | RIPC_GIVE)

/* Copies and checks the caller's struct. */
static int check_call(struct ripc_service *svc, const struct ripc_request *call,
		uint32_t known, struct ripc_request *request)
{
	int error = ripc__struct_take(request, sizeof(*request), call,
		offsetof(struct ripc_request, timeout_ms) + sizeof(call->timeout_ms));

	if (error)
		return error;
	if (!svc || !wire_is_service(request->to) ||
			request->flags & ~known ||
			request->timeout_ms < 0 || !request->items || request->n_items == 0 ||
			request->n_items > RIPC_ITEMS_MAX ||
			!ripc__returns_are_sane(request->returns, request->n_returns))
		return -EINVAL;
	return 0;
}

static bool call_ended(void *arg)
{
	const struct call *call = arg;

	return call->state == CALL_ENDED;
}

static int call_wait(struct ripc_context *ctx, struct call *call, struct ripc_msg **answer,
		uint32_t *asked)
{
	int status;

	if (call->outgoing)
		ripc__sum_follows(call->outgoing);
	ripc__wait(ctx, call_ended, call, UINT64_MAX);
	if (!call->service) /* closed: the context owns the memory that is written into */
		ripc__orphans_wait(ctx);
	status = call->status;
	*asked = call->asked;
	if (call->answer && status)
		ripc__message_free(call->answer);
	else if (call->answer)
		*answer = &call->answer->public;
	ripc__call_free(call);
	return status;
}

int ripc_call(struct ripc_service *svc, const struct ripc_request *call, struct ripc_msg **answer,
		uint32_t *asked)
{
	uint32_t result = RIPC_NOT_DELIVERED;
	struct ripc_request request;
	struct call *open;
	int error = answer ? check_call(svc, call, KNOWN, &request) : -EINVAL;

	if (!error)
		error = ripc__enter_in(svc);
	if (!error) {
		struct ripc_context *ctx = svc->ctx;

		error = ripc__call_begin(svc, &request, true, &open);
		if (!error)
			error = call_wait(ctx, open, answer, &result);
		ripc__leave(ctx);
	}
	if (asked)
		*asked = result;
	return error;
}

/* Begins the call. The caller has added the awaited end, if there is one. */
static int call_begin(struct ripc_service *svc, const struct ripc_request *request)
{
	struct call *open;
	int error = ripc__call_begin(svc, request, false, &open);

	if (error && request->flags & RIPC_AWAITED)
		ripc__ends_remove(&svc->ends, request->cookie);
	if (!error && open && open->outgoing)
		ripc__sum_follows(open->outgoing);
	return error;
}

int ripc_call_start(struct ripc_service *svc, const struct ripc_request *call)
{
	struct ripc_request request;
	struct ripc_context *ctx;
	int error = check_call(svc, call, KNOWN | RIPC_AWAITED, &request);

	if (error)
		return error;
	ctx = svc->ctx;
	error = ripc__enter_in(svc);
	if (error)
		return error;
	if (request.flags & RIPC_AWAITED)
		error = ripc__ends_add(&svc->ends, request.cookie);
	return ripc__leave_with(ctx, error ? error : call_begin(svc, &request));
}

static int reply(struct ripc_service *svc, const struct ripc_msg *request,
		const struct reply *reply)
{
	struct outgoing *outgoing;
	struct ripc_context *ctx;
	int error;

	if (!svc || !request || request->kind != RIPC_REQUEST || !request->from ||
			!request->reply)
		return -EINVAL;
	ctx = svc->ctx;
	error = ripc__enter_in_hastily(svc);
	if (error)
		return error;
	error = ripc__reply(svc, request, reply, &outgoing);
	if (!error && outgoing)
		ripc__sum_follows(outgoing);
	return ripc__leave_with(ctx, error);
}

static const struct iovec nothing;

int ripc_reply(struct ripc_service *svc, const struct ripc_msg *request,
		const struct iovec *items, uint32_t n_items, uint32_t flags)
{
	const struct reply answer = {.items = n_items ? items : &nothing,
		.n_items = n_items ? n_items : 1, .flags = n_items ? flags : 0};

	if (flags & ~RIPC_GIVE || n_items > RIPC_ITEMS_MAX || (n_items && !items))
		return -EINVAL;
	return reply(svc, request, &answer);
}

int ripc_reply_error(struct ripc_service *svc, const struct ripc_msg *request, int error)
{
	const struct reply answer = {.items = &nothing, .n_items = 1, .status = error};

	return error < 0 && error >= -4095 ? reply(svc, request, &answer) : -EINVAL;
}

int ripc_watch(struct ripc_service *svc, uint64_t id, uint64_t cookie)
{
	int error = svc && wire_is_service(id) ? ripc__enter_in(svc) : -EINVAL;

	return error ? error : ripc__leave_with(svc->ctx, ripc__watch_begin(svc, id, cookie));
}

int ripc_unwatch(struct ripc_service *svc, uint64_t id)
{
	int error = svc && id ? ripc__enter_in(svc) : -EINVAL;

	return error ? error : ripc__leave_with(svc->ctx, ripc__watch_end(svc, id));
}
