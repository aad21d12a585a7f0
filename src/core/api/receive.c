/* SPDX-License-Identifier: BSD-3-Clause */
/* Public calls: messages that the application takes from a service's queue, and frees. */
#include <errno.h>

#include "core/engine/wait.h"
#include "core/memory/pool.h"
#include "core/message/message.h"
#include "core/message/queue.h"
#include "core/objects.h"
#include "internal.h"
#include "util/list.h"
#include "util/rare.h"

static bool is_ready(void *service)
{
	return ripc__queue_ready(service);
}

static int take(struct ripc_service *service, int timeout_ms, struct message **message)
{
	struct ripc_context *ctx = service->ctx;

	/* A wake also ends a call that never waits, because messages are always queued. */
	if (ripc__wake_pending(&service->wakes) && timeout_ms && ripc__wake_take(&service->wakes))
		return -EINTR;
	if (list_empty(&service->queue)) {
		uint64_t deadline = ripc__deadline(ctx, timeout_ms);
		bool empty;
		int ready;

		ripc__service_get(service);
		service->n_takers++;
		ready = ripc__wait_or_end(ctx, service, is_ready, service, deadline);
		service->n_takers--;
		empty = list_empty(&service->queue);
		if (service->event_fd >= 0 && (ready <= 0 || empty))
			ripc__service_tell(service);
		ripc__service_put(service);
		if (ready < 0)
			return ready;
		if (!ready)
			return timeout_ms == 0 ? -EAGAIN : -ETIMEDOUT;
		if (empty)
			return -ESHUTDOWN;
	}
	*message = ripc__queue_pop(service);
	if (service->event_fd >= 0)
		ripc__service_tell(service);
	return 0;
}

int ripc_receive(struct ripc_service *svc, int timeout_ms, struct ripc_msg **msg)
{
	struct message *message;
	struct ripc_context *ctx;
	int error;

	if (!svc || !msg || timeout_ms < -1)
		return -EINVAL;
	ctx = svc->ctx;
	error = ripc__enter_hastily(ctx);
	if (error)
		return error;
	error = take(svc, timeout_ms, &message);
	if (!error)
		*msg = &message->public;
	return ripc__leave_with(ctx, error);
}

struct awaited {
	struct ripc_service *service;
	uint64_t cookie;
};

/* Has the end come? True, too, if none can come any more: an ended service stays "closing". */
static bool has_ended(void *arg)
{
	const struct awaited *awaited = arg;
	const struct ripc_service *service = awaited->service;

	return service->closing || ripc__ends_find(&service->ends, awaited->cookie) ||
		!ripc__ends_has(&service->ends, awaited->cookie);
}

static int take_end(struct awaited *awaited, int timeout_ms, struct message **message)
{
	struct ripc_service *service = awaited->service;
	struct ripc_context *ctx = service->ctx;
	int ready;

	ripc__service_get(service);
	ready = ripc__wait_or_end(ctx, NULL, has_ended, awaited, ripc__deadline(ctx, timeout_ms));
	if (ready > 0 && service->closing) {
		ripc__orphans_wait(ctx); /* then the caller owns the memory that it sent */
		ready = -ESHUTDOWN;
	}
	ripc__service_put(service);
	if (ready < 0)
		return ready;
	if (!ready)
		return timeout_ms == 0 ? -EAGAIN : -ETIMEDOUT;
	*message = ripc__ends_find(&service->ends, awaited->cookie);
	if (!*message)
		return -ENOENT;
	ripc__ends_take(service, *message);
	return 0;
}

int ripc_receive_end(struct ripc_service *svc, uint64_t cookie, int timeout_ms,
		struct ripc_msg **msg)
{
	struct awaited awaited = {svc, cookie};
	struct ripc_context *ctx;
	struct message *message;
	int error;

	if (!svc || !msg || timeout_ms < -1)
		return -EINVAL;
	ctx = svc->ctx;
	error = ripc__enter(ctx);
	if (error)
		return error;
	error = take_end(&awaited, timeout_ms, &message);
	if (!error)
		*msg = &message->public;
	return ripc__leave_with(ctx, error);
}

/*
 * Frees a message that is no block of the pool, or that shows memory of other processes. When the
 * context was closed, each message that is no block was counted as a holder of the pool
 * (api/context.c).
 */
static void free_any(struct message *message)
{
	struct ripc_context *ctx = message->ctx;
	bool is_holder;

	ripc__enter_late(ctx);
	is_holder = ctx->loop.is_shut && message->home != MESSAGE_POOL;
	ripc__message_free(message);
	if (is_holder)
		ripc__pool_drop(ctx->pool);
	ripc__leave_late(ctx);
}

/*
 * Frees a message with the context's lock: the pool has a lock of its own, but messages that are
 * kept for the next short need ours. If the context is closed, or another thread closes it
 * meanwhile, the context may be gone with the message's block.
 */
static RIPC__RARE void free_locked(struct message *message)
{
	struct ripc_context *ctx = message->ctx;
	struct ripc__pool *pool = ctx->pool;
	bool kept;

	if (message->home != MESSAGE_POOL || message->mapped) {
		free_any(message);
	} else if (!message->spare) {
		ripc__message_free_pool(message);
	} else {
		ripc__lock(ctx);
		kept = ripc__message_spare(message);
		ripc__unlock(ctx);
		if (!kept)
			ripc__pool_free(pool, message);
	}
}

static RIPC__RARE void free_after_close(struct message *message)
{
	if (ripc__is_closed(message->ctx))
		free_locked(message);
}

void ripc_msg_free(struct ripc_msg *msg)
{
	struct message *message = (struct message *)msg;

	/* In a forked child the message has no context, or one that is not the child's. */
	if (!msg || !message->ctx)
		return;
	if (!ripc__is_own(message->ctx))
		free_after_close(message);
	else if (!ripc__message_keep(message))
		free_locked(message);
}
