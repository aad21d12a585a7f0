/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that the application takes from a service's queue, and gives back. */
#include <errno.h>

#include "core/engine/interrupt.h"
#include "core/engine/wait.h"
#include "core/message/message.h"
#include "core/message/queue.h"
#include "core/objects.h"
#include "service.h"
#include "util/list.h"
#include "util/rare.h"

static bool is_ready(void *service)
{
	return ripc__queue_ready(service);
}

static int take(struct ripc_service *service, int timeout_ms, struct message **message)
{
	struct ripc_context *ctx = service->ctx;

	/* Also where there is always something, so that it would never wait. */
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
	ripc__leave(ctx);
	return error;
}

/* The pool has a lock of its own; what is kept for the next short is under ours. */
static RIPC__RARE void free_locked(struct message *message)
{
	struct ripc_context *ctx = message->ctx;

	if (message->home == MESSAGE_POOL && !message->spare && !message->mapped) {
		ripc__message_free_pool(message);
	} else if (message->home == MESSAGE_POOL && !message->mapped) {
		ripc__lock(ctx);
		ripc__message_free_pool(message);
		ripc__unlock(ctx);
	} else if (ripc__enter(ctx) == 0) {
		ripc__message_free(message);
		ripc__leave(ctx);
	}
}

void ripc_msg_free(struct ripc_msg *msg)
{
	struct message *message = (struct message *)msg;

	if (msg && ripc__is_own(message->ctx) && !ripc__message_keep(message))
		free_locked(message);
}
