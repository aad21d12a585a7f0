/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of a service. */
#ifndef RIPC_QUEUE_H
#define RIPC_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/objects.h"
#include "util/list.h"

struct holding;
struct message;
struct partner;

/* The oldest message; the queue is not empty. */
struct message *ripc__queue_pop(struct ripc_service *service);
void ripc__service_enqueue(struct ripc_service *service, struct message *message);
/* Makes the service's descriptor tell of its queue; not while a call waits, which takes first. */
void ripc__service_tell(struct ripc_service *service);
/* Takes a message of ours that nobody has taken yet out of the queue. */
void ripc__queue_take_back(struct ripc_service *service, struct message *message);
void ripc__service_notice(struct ripc_service *service, struct message *builtin, int status);
/* May one more message of this partner be queued? */
bool ripc__queue_has_room(const struct partner *partner);
/* Queues a message of this partner, which until it is read holds what it held of SHARE_LARGE
 * while it came, or (large NULL) so many bytes of SHARE_SMALL. */
void ripc__service_deliver(struct partner *partner, struct message *message,
		const struct holding *large, uint64_t small_bytes);
/* An eventfd that is readable while there is something to take; -EMFILE and its like. */
int ripc__service_fd_open(struct ripc_service *service);
void ripc__service_fd_close(struct ripc_service *service);
/*
 * The unread messages of a partner that goes to another peer count there from now on, as much as
 * they are; the share may be used up then. The partner receives nothing between the two calls.
 */
void ripc__unread_release(struct partner *partner);
void ripc__unread_hold(struct partner *partner);
/* Frees the messages that are left. */
void ripc__queue_free(struct ripc_service *service);

/* Is there something to take, or will there never be? */
static inline bool ripc__queue_ready(const struct ripc_service *service)
{
	return !list_empty(&service->queue) || service->closing ||
		(service->draining && service->n_incoming == 0);
}

#endif
