/* SPDX-License-Identifier: BSD-3-Clause */
/* Public calls: requests and replies, and watching. */
#include <errno.h>
#include <stddef.h>

#include "core/base/base.h"
#include "core/call/call.h"
#include "core/call/reply.h"
#include "core/call/spare.h"
#include "core/call/watch.h"
#include "core/engine/summing.h"
#include "core/engine/wait.h"
#include "core/message/ends.h"
#include "core/message/lent.h"
#include "core/message/message.h"
#include "core/objects.h"
#include "core/send/outgoing.h"
#include "core/wire/record.h"
#include "ripc/call.h"
#include "service.h"

#define KNOWN (RIPC_IDEMPOTENT | RIPC_GIVE)

/* Copies what the caller's struct has. */
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
	if (!call->service) /* closed: what was written into is the context's */
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

/* The awaited end was added, if there is one. */
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
	if (!error)
		error = call_begin(svc, &request);
	ripc__leave(ctx);
	return error;
}

static int reply(struct ripc_service *svc, const struct ripc_msg *question,
		const struct reply *reply)
{
	struct outgoing *outgoing;
	struct ripc_context *ctx;
	int error;

	if (!svc || !question || question->kind != RIPC_REQUEST || !question->from ||
			!question->reply)
		return -EINVAL;
	ctx = svc->ctx;
	error = ripc__enter_in_hastily(svc);
	if (error)
		return error;
	error = ripc__reply(svc, question, reply, &outgoing);
	if (!error && outgoing)
		ripc__sum_follows(outgoing);
	ripc__leave(ctx);
	return error;
}

static const struct iovec nothing;

int ripc_reply(struct ripc_service *svc, const struct ripc_msg *question,
		const struct iovec *items, uint32_t n_items, uint32_t flags)
{
	const struct reply answer = {.items = n_items ? items : &nothing,
		.n_items = n_items ? n_items : 1, .flags = n_items ? flags : 0};

	if (flags & ~RIPC_GIVE || n_items > RIPC_ITEMS_MAX || (n_items && !items))
		return -EINVAL;
	return reply(svc, question, &answer);
}

int ripc_reply_error(struct ripc_service *svc, const struct ripc_msg *question, int error)
{
	const struct reply answer = {.items = &nothing, .n_items = 1, .status = error};

	return error < 0 && error >= -4095 ? reply(svc, question, &answer) : -EINVAL;
}

int ripc_watch(struct ripc_service *svc, uint64_t id, uint64_t cookie)
{
	int error = svc && wire_is_service(id) ? ripc__enter_in(svc) : -EINVAL;

	if (error)
		return error;
	error = ripc__watch_begin(svc, id, cookie);
	ripc__leave(svc->ctx);
	return error;
}

int ripc_unwatch(struct ripc_service *svc, uint64_t id)
{
	int error = svc && id ? ripc__enter_in(svc) : -EINVAL;

	if (error)
		return error;
	error = ripc__watch_end(svc, id);
	ripc__leave(svc->ctx);
	return error;
}
