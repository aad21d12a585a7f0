/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of a service, from which messages go to the application. */
#include <errno.h>

#include "core/api/descriptor.h"
#include "core/api/service.h"
#include "core/engine/interrupt.h"
#include "core/engine/wait.h"
#include "core/objects.h"
#include "core/partner/claim.h"
#include "core/peer/share.h"
#include "core/receive/order.h"
#include "message.h"
#include "queue.h"
#include "util/list.h"
#include "util/rare.h"

static bool queue_ready(void *arg)
{
	const struct ripc_service *service = arg;

	return !list_empty(&service->queue) || service->closing ||
		(service->draining && service->n_incoming == 0);
}

void ripc__service_tell(struct ripc_service *service)
{
	if (service->event_fd >= 0 && service->n_takers == 0)
		ripc__service_fd_tell(service, queue_ready(service));
}

void ripc__service_enqueue(struct ripc_service *service, struct message *message)
{
	list_append(&service->queue, &message->node);
	service->queued++;
	service->ctx->changed = true;
	if (service->event_fd >= 0)
		ripc__service_tell(service);
}

void ripc__service_notice(struct ripc_service *service, struct message *builtin, int status)
{
	if (builtin->queued)
		return;
	builtin->queued = true;
	builtin->public.status = status;
	ripc__service_enqueue(service, builtin);
}

/*
 * A partner may have as many messages in the queue as there is room left: the next one finds
 * room, too, however little the application reads.
 */
bool ripc__queue_has_room(const struct partner *partner)
{
	return partner->service->queued + partner->queued < QUEUE_MAX;
}

/* Inline, as all that a short message passes through: a call costs as much as what it does. */
extern inline void ripc__service_deliver(struct partner *partner, struct message *message,
		const struct holding *large, uint64_t small_bytes)
{
	if (message->spare && small_bytes < SPARE_BYTES)
		small_bytes = SPARE_BYTES;
	if (partner->resolved)
		message->public.sender = RIPC_SENDER_RESOLVED;
	else if (message->public.reply)
		ripc__claim_asks(partner, message->public.reply);
	message->partner = partner;
	message->share = large ? SHARE_LARGE : SHARE_SMALL;
	message->held = large ? *large : ripc__share_hold(partner, SHARE_SMALL, small_bytes);
	partner->queued++;
	ripc__service_enqueue(partner->service, message);
}

/* The partner is there: while messages of it are queued, it is not forgotten. */
static struct message *queue_pop(struct ripc_service *service)
{
	struct message *message = list_entry(list_pop(&service->queue), struct message, node);
	struct partner *partner = message->partner;

	service->queued--;
	if (partner) {
		partner->queued--;
		ripc__share_release(partner, message->share, message->held);
		message->partner = NULL;
	} else if (service->ctx->n_gaps) {
		ripc__order_handed(message);
	}
	return message;
}

int ripc__service_take(struct ripc_service *service, int timeout_ms, struct message **message)
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
		ready = ripc__wait_or_end(ctx, service, queue_ready, service, deadline);
		service->n_takers--;
		empty = list_empty(&service->queue);
		if (ready <= 0 || empty)
			ripc__service_tell(service);
		ripc__service_put(service);
		if (ready < 0)
			return ready;
		if (!ready)
			return timeout_ms == 0 ? -EAGAIN : -ETIMEDOUT;
		if (empty)
			return -ESHUTDOWN;
	}
	*message = queue_pop(service);
	if (service->event_fd >= 0)
		ripc__service_tell(service);
	return 0;
}

void ripc__queue_free(struct ripc_service *service)
{
	while (!list_empty(&service->queue))
		ripc__message_free(queue_pop(service));
}
