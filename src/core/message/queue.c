/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of a service, from which messages go to the application. */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/objects.h"
#include "core/partner/claim.h"
#include "core/partner/partner.h"
#include "core/partner/share.h"
#include "core/upcalls.h"
#include "message.h"
#include "queue.h"
#include "util/list.h"
#include "util/rare.h"
#include "util/system/cancel.h"

/* Its descriptor is readable, or not. */
static void fd_set_readable(struct ripc_service *service, bool readable)
{
	RIPC__HOLD_CANCEL;
	uint64_t value = 1;

	if (readable == service->event_set)
		return;
	if (readable)
		service->event_set = write(service->event_fd, &value, sizeof(value)) > 0;
	else if (read(service->event_fd, &value, sizeof(value)) > 0 || errno == EAGAIN)
		service->event_set = false;
}

void ripc__service_tell(struct ripc_service *service)
{
	if (service->event_fd >= 0 && service->n_takers == 0)
		fd_set_readable(service, ripc__queue_ready(service));
}

int ripc__service_fd_open(struct ripc_service *service)
{
	service->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (service->event_fd < 0)
		return -errno;
	service->ctx->n_event_fds++;
	ripc__service_tell(service);
	return 0;
}

void ripc__service_fd_close(struct ripc_service *service)
{
	RIPC__HOLD_CANCEL;

	if (service->event_fd < 0)
		return;
	close(service->event_fd);
	service->event_fd = -1;
	service->event_set = false;
	service->ctx->n_event_fds--;
}

void ripc__service_enqueue(struct ripc_service *service, struct message *message)
{
	list_append(&service->queue, &message->node);
	service->queued++;
	service->ctx->changed = true;
	if (service->event_fd >= 0)
		ripc__service_tell(service);
}

void ripc__queue_take_back(struct ripc_service *service, struct message *message)
{
	list_remove(&message->node);
	service->queued--;
	ripc__service_tell(service);
}

void ripc__service_notice(struct ripc_service *service, struct message *builtin, int status)
{
	builtin->again = builtin->queued && list_empty(&builtin->node); /* the application has it */
	if (builtin->queued)
		return;
	builtin->queued = true;
	builtin->public.status = status;
	ripc__service_enqueue(service, builtin);
}

void ripc__service_noticed(struct message *builtin)
{
	builtin->queued = false;
	if (!builtin->again)
		return;
	list_for_each(node, &builtin->ctx->services) {
		struct ripc_service *service = list_entry(node, struct ripc_service, node);

		if (builtin == &service->retry || builtin == &service->conflict)
			ripc__service_notice(service, builtin, builtin->public.status);
	}
}

/*
 * A NOTICE that is part of a service or watch goes to the application as a copy, so that a copy
 * which the application keeps holds no later NOTICE back. No memory: the original itself goes, and
 * the next one is queued when the application frees the original.
 */
static RIPC__RARE struct message *copy_own(struct message *own)
{
	struct message *copy = ripc__message_alloc(own->ctx, 0, false);

	if (!copy)
		return own;
	copy->public = own->public;
	own->queued = false;
	return copy;
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
	if (partner->proven)
		message->public.sender = RIPC_SENDER_PROVEN;
	message->partner = partner;
	message->share = large ? SHARE_LARGE : SHARE_SMALL;
	message->held = large ? *large : ripc__share_hold(partner, SHARE_SMALL, small_bytes);
	partner->queued++;
	ripc__service_enqueue(partner->service, message);
}

/* The partner is there: while messages of it are queued, it is not forgotten. */
struct message *ripc__queue_pop(struct ripc_service *service)
{
	struct message *message = list_entry(list_pop(&service->queue), struct message, node);
	struct partner *partner = message->partner;

	service->queued--;
	if (partner) {
		partner->queued--;
		ripc__share_release(partner, message->share, message->held);
		message->partner = NULL;
	} else if (service->ctx->n_gaps && message->home == MESSAGE_OUTGOING) {
		service->ctx->up->sent_handed(message);
	} else if (message->home == MESSAGE_WATCH || message->home == MESSAGE_BUILTIN) {
		message = copy_own(message);
	}
	return message;
}

void ripc__queue_free(struct ripc_service *service)
{
	while (!list_empty(&service->queue))
		ripc__message_free(ripc__queue_pop(service));
}

/* The next of its unread messages, from one on; NULL: no more. */
static struct message *unread(const struct partner *partner, struct list *node)
{
	const struct list *end = &partner->service->queue;

	while (node != end && list_entry(node, struct message, node)->partner != partner)
		node = node->next;
	return node == end ? NULL : list_entry(node, struct message, node);
}

void ripc__unread_release(struct partner *partner)
{
	struct message *message;

	for (struct list *at = partner->service->queue.next; (message = unread(partner, at));
			at = message->node.next)
		ripc__share_release(partner, message->share, message->held);
}

void ripc__unread_hold(struct partner *partner)
{
	struct message *message;

	for (struct list *at = partner->service->queue.next; (message = unread(partner, at));
			at = message->node.next)
		message->held = ripc__share_hold(partner, message->share, message->held.all);
}
