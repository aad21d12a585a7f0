/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: posted by the application, and taken back. Which one a message gets is places.c's.
 *
 * Design notes. A window that a message has is not in the service's list: the message's place
 * names it. So a window is taken back in three steps: it is marked, and serves nobody any more;
 * messages that are on their way into it are refused, which brings it back into the list, at once
 * or when the last read into it has ended; then it is freed.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/engine/wait.h"
#include "core/message/windows.h"
#include "core/partner/partner.h"
#include "core/receive/incoming.h"
#include "core/receive/read.h"
#include "service.h"
#include "util/list.h"

int ripc_window_post(struct ripc_service *svc, const struct iovec *mem, uint64_t cookie)
{
	struct window *window;
	int error;

	if (!svc || !mem || !ripc__mem_is_sane(mem))
		return -EINVAL;
	error = ripc__enter_in(svc);
	if (error)
		return error;
	window = malloc(sizeof(*window));
	if (window) {
		*window = (struct window){.mem = *mem, .cookie = cookie,
			.order = svc->windows_posted++};
		list_append(&svc->windows, &window->node);
	}
	ripc__leave(svc->ctx);
	return window ? 0 : -ENOMEM;
}

/* ---- taking back ------------------------------------------------------------------------- */

struct cancelled {
	struct ripc_service *svc;
	uint64_t cookie;
	bool any, waited;
};

/* Marks the windows of a message on its way that are meant. True: there are such. */
static bool mark_places(struct cancelled *of, const struct message *message)
{
	const struct ripc_buffer *places = message->public.places;
	bool any = false;

	for (uint32_t i = 0; places && i < message->public.n_items; i++) {
		struct window *window = (struct window *)(uintptr_t)places[i].cookie;

		if (places[i].place == RIPC_IN_WINDOW && window->cookie == of->cookie)
			window->cancelled = any = true;
	}
	of->any |= any;
	return any;
}

static struct incoming *marked_incoming(struct cancelled *of)
{
	list_for_each(node, &of->svc->ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (partner->service != of->svc)
			continue;
		list_for_each(in, &partner->incoming) {
			struct incoming *incoming = list_entry(in, struct incoming, node);

			if (mark_places(of, incoming->message))
				return incoming;
		}
	}
	return NULL;
}

/* Given up, but the network may still be writing into their places. */
static bool marked_lingering(struct cancelled *of)
{
	bool any = false;

	list_for_each(node, &of->svc->ctx->lingering) {
		const struct reading *reading = list_entry(node, struct reading, node);

		if (reading->service == of->svc)
			any |= mark_places(of, reading->message);
	}
	return any;
}

static bool nobody_writes(void *arg)
{
	return !marked_lingering(arg);
}

static void free_posted(struct cancelled *of)
{
	list_for_each_safe(node, &of->svc->windows) {
		struct window *window = list_entry(node, struct window, node);

		/* After a wait there may be new ones with the same cookie. */
		if (window->cookie != of->cookie || (of->waited && !window->cancelled))
			continue;
		of->any = true;
		list_remove(&window->node);
		free(window);
	}
}

int ripc_window_cancel(struct ripc_service *svc, uint64_t cookie)
{
	struct ripc_context *ctx = svc ? svc->ctx : NULL;
	struct cancelled of = {.svc = svc, .cookie = cookie};
	struct incoming *incoming;
	int error = ctx ? ripc__enter_in(svc) : -EINVAL;

	if (error)
		return error;
	ripc__service_get(svc);
	while ((incoming = marked_incoming(&of)))
		ripc__incoming_refuse(incoming, -ECANCELED, true);
	/* Those that nobody writes to are freed before others can get them. */
	free_posted(&of);
	if (marked_lingering(&of)) {
		ripc__wait(ctx, nobody_writes, &of, UINT64_MAX);
		of.waited = true;
		free_posted(&of);
	}
	if (svc->ended) /* and what was written into is the context's */
		ripc__orphans_wait(ctx);
	ripc__service_put(svc);
	ripc__leave(ctx);
	return of.any ? 0 : -ENOENT;
}
