/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of a service. */
#ifndef RIPC_QUEUE_H
#define RIPC_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/objects.h"
#include "util/list.h"

struct partner;

/* The oldest message; the queue is not empty. */
struct message *ripc__queue_pop(struct ripc_service *service);
void ripc__service_enqueue(struct ripc_service *service, struct message *message);
/* Updates the service's descriptor, unless a call waits, which takes messages first. */
void ripc__service_tell(struct ripc_service *service);
/* Removes a COMPLETION or NOTICE from the queue. */
void ripc__queue_take_back(struct ripc_service *service, struct message *message);
/* Queues a notice of MESSAGE_BUILTIN, unless it is queued. */
void ripc__service_notice(struct ripc_service *service, struct message *builtin, int status);
/* May one more message of this partner be queued? */
bool ripc__queue_has_room(const struct partner *partner);
/*
 * Queues a message of this partner. Until the message is read, it holds "large", its part of
 * SHARE_LARGE since the announcement. If large is NULL, it holds small_bytes of SHARE_SMALL.
 */
void ripc__service_deliver(struct partner *partner, struct message *message,
		const struct quota *large, uint64_t small_bytes);
/* Makes an eventfd that is readable while the queue has something to take; -EMFILE and others. */
int ripc__service_fd_open(struct ripc_service *service);
void ripc__service_fd_close(struct ripc_service *service);
/*
 * A partner moves to another peer: its unread messages count there from now on, even if they exceed
 * the share. Call release before the move, and hold after it. In between the partner receives
 * nothing.
 */
void ripc__unread_release(struct partner *partner);
void ripc__unread_hold(struct partner *partner);
/* Frees the remaining messages. */
void ripc__queue_free(struct ripc_service *service);

/* Has the queue a message, or will it stay empty for ever? */
static inline bool ripc__queue_ready(const struct ripc_service *service)
{
	return !list_empty(&service->queue) || service->closing ||
		(service->draining && service->n_incoming == 0);
}

#endif
