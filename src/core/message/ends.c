/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ends of awaited sends and calls. They are kept apart from the queue, so that no other thread
 * that receives can take an end, and unread messages are not in its way.
 */
#include "ends.h"

#include <errno.h>
#include <stdlib.h>

#include "core/objects.h"
#include "core/upcalls.h"
#include "message.h"
#include "queue.h"

#define FIRST_ROOM 8u

void ripc__ends_init(struct ends *ends)
{
	list_init(&ends->arrived);
}

static int grow(struct ends *ends)
{
	uint32_t room = ends->room ? 2 * ends->room : FIRST_ROOM;
	uint64_t *cookies = realloc(ends->cookies, room * sizeof(*cookies));

	if (!cookies)
		return -ENOMEM;
	ends->cookies = cookies;
	ends->room = room;
	return 0;
}

int ripc__ends_add(struct ends *ends, uint64_t cookie)
{
	int error = ends->n_cookies == ends->room ? grow(ends) : 0;

	if (!error)
		ends->cookies[ends->n_cookies++] = cookie;
	return error;
}

/* The index of the last one with this cookie; n_cookies: there is none. */
static uint32_t index_of(const struct ends *ends, uint64_t cookie)
{
	for (uint32_t i = ends->n_cookies; i--;) {
		if (ends->cookies[i] == cookie)
			return i;
	}
	return ends->n_cookies;
}

bool ripc__ends_has(const struct ends *ends, uint64_t cookie)
{
	return index_of(ends, cookie) < ends->n_cookies;
}

void ripc__ends_remove(struct ends *ends, uint64_t cookie)
{
	uint32_t i = index_of(ends, cookie);

	if (i < ends->n_cookies)
		ends->cookies[i] = ends->cookies[--ends->n_cookies];
}

void ripc__end_report(struct ripc_service *service, struct message *message, bool is_awaited)
{
	if (!is_awaited) {
		ripc__service_enqueue(service, message);
		return;
	}
	list_append(&service->ends.arrived, &message->node);
	service->ctx->changed = true;
}

struct message *ripc__ends_find(const struct ends *ends, uint64_t cookie)
{
	list_for_each(node, &ends->arrived) {
		struct message *message = list_entry(node, struct message, node);

		if (message->public.cookie == cookie)
			return message;
	}
	return NULL;
}

void ripc__ends_take(struct ripc_service *service, struct message *message)
{
	struct ripc_context *ctx = service->ctx;

	list_remove(&message->node);
	ripc__ends_remove(&service->ends, message->public.cookie);
	if (ctx->n_gaps && message->home == MESSAGE_OUTGOING)
		ctx->up->sent_handed(message);
	ctx->changed = true; /* perhaps two threads have waited for the same end */
}

void ripc__ends_close(struct ripc_service *service)
{
	struct ends *ends = &service->ends;

	while (!list_empty(&ends->arrived))
		ripc__service_enqueue(service, list_entry(list_pop(&ends->arrived), struct message,
			node));
	free(ends->cookies);
	ends->cookies = NULL;
	ends->n_cookies = ends->room = 0;
}
