/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The places of a long message's items: each item lands in the first buffer that fits, of the
 * return buffers lent for the message, the windows posted on the service, and the pool. If an item
 * finds no place, no place is used.
 *
 * Design notes. While a message is being received, a window's place holds the window itself as
 * its cookie; when the message is delivered, the window's cookie takes its place.
 */
#include <stdlib.h>
#include <string.h>

#include "core/memory/pool.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "core/wire/wire.h"
#include "message.h"
#include "places.h"
#include "returns.h"
#include "util/list.h"

static struct window *window_for(struct list *windows, size_t len)
{
	list_for_each_entry(window, windows, struct window, node) {
		if (window->mem.iov_len >= len && !window->cancelled)
			return window;
	}
	return NULL;
}

/* Puts a window back in the order of posting. */
static void window_return(struct ripc_service *service, struct window *window)
{
	struct list *before = service->windows.next;

	while (before != &service->windows &&
			list_entry(before, struct window, node)->order < window->order)
		before = before->next;
	list_append(before, &window->node);
}

static void release(struct ripc_service *service, struct message *message, uint32_t n)
{
	struct ripc_buffer *places = (struct ripc_buffer *)message->public.places;

	for (uint32_t i = n; i-- > 0;) {
		if (places[i].place == RIPC_IN_POOL) {
			ripc__pool_free(message->ctx->pool, places[i].mem.iov_base);
		} else if (places[i].place == RIPC_IN_WINDOW) {
			struct window *window = (struct window *)(uintptr_t)places[i].cookie;

			window_return(service, window);
		}
	}
	message->items_in_pool = false;
	ripc__message_free(message);
}

void ripc__places_release(struct ripc_service *service, struct message *message)
{
	release(service, message, message->public.n_items);
}

/*
 * Finds a place for item i. While a message is being received, a window's place holds the window
 * itself as its cookie. windows: NULL: the message may use no windows.
 */
static int place_find(const struct message *message, struct list *windows, struct lent *lent,
		uint32_t i, uint64_t from)
{
	struct ripc_buffer *place = (struct ripc_buffer *)&message->public.places[i];
	size_t len = place->mem.iov_len;
	struct window *window;

	if (lent && i < lent->n && lent->buffers[i].mem.iov_len >= len) {
		*place = lent->buffers[i];
		place->place = RIPC_IN_RETURN;
		return 0;
	}
	window = windows ? window_for(windows, len) : NULL;
	if (window) {
		list_remove(&window->node);
		*place = (struct ripc_buffer){.mem = window->mem, .place = RIPC_IN_WINDOW,
			.cookie = (uintptr_t)window};
		return 0;
	}
	place->place = RIPC_IN_POOL;
	return ripc__pool_promise(message->ctx->pool, len, from, &place->mem.iov_base);
}

/* The sender as a reader in the sense of the pool (ripc__pool_share()). */
static uint64_t reader_of(const struct partner *partner)
{
	const struct ripc_context *ctx = partner->service->ctx;
	const struct peer *peer = partner->peer;

	if (!(ctx->peers.devices[peer->device].attr.caps & RIPC_CAP_MAP) || peer->opening)
		return 0;
	return ripc__peer_where(ctx, peer).reader;
}

struct message *ripc__places_find(struct partner *partner, const struct wire_packet *packet,
		struct lent *lent)
{
	struct ripc_service *service = partner->service;
	/* A call may end before its reply comes: then nobody would get the windows back. */
	struct list *windows = wire_is_answer(packet) ? NULL : &service->windows;
	uint32_t n = packet->announce.n_items;
	struct message *message = ripc__message_alloc(service->ctx, n, true);
	struct ripc_buffer *places;
	struct iovec *items;
	uint64_t from;

	if (!message)
		return NULL;
	message->items_in_pool = true;
	places = (struct ripc_buffer *)message->public.places;
	items = (struct iovec *)message->public.items;
	from = reader_of(partner);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t len = wire_item_len(packet, i);

		places[i].mem.iov_len = len;
		if (place_find(message, windows, lent, i, from)) {
			release(service, message, i);
			return NULL;
		}
		items[i] = (struct iovec){places[i].mem.iov_base, len};
	}
	return message;
}

/* The whole message came with its announcement: no further state is needed. */
struct message *ripc__places_whole(struct partner *partner, const struct wire_packet *packet)
{
	struct message *message = ripc__message_whole(partner->service->ctx, packet);

	if (message)
		memcpy(message->public.items[0].iov_base, packet->payload, packet->payload_len);
	return message;
}

uint64_t ripc__places_kib(const struct ripc_msg *public)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < public->n_items; i++)
		bytes += public->places[i].place == RIPC_IN_POOL ? public->items[i].iov_len : 0;
	return (bytes + 1023) >> 10;
}

void ripc__places_orphan(struct message *message)
{
	struct ripc_buffer *places = (struct ripc_buffer *)message->public.places;

	for (uint32_t i = 0; i < message->public.n_items; i++) {
		if (places[i].place == RIPC_IN_WINDOW)
			free((struct window *)(uintptr_t)places[i].cookie);
		if (places[i].place != RIPC_IN_POOL)
			places[i].place = RIPC_IN_RETURN; /* must not be given back any more */
	}
}

void ripc__places_settle(struct message *message)
{
	struct ripc_buffer *places = (struct ripc_buffer *)message->public.places;
	bool all_in_pool = true;

	for (uint32_t i = 0; i < message->public.n_items; i++) {
		places[i].mem.iov_len = message->public.items[i].iov_len;
		if (places[i].place == RIPC_IN_WINDOW) {
			struct window *window = (struct window *)(uintptr_t)places[i].cookie;

			places[i].cookie = window->cookie;
			free(window);
		}
		all_in_pool &= places[i].place == RIPC_IN_POOL;
	}
	if (all_in_pool)
		message->public.places = NULL;
}

int ripc__places_fault(struct message *message, uint64_t start, uint64_t end)
{
	const struct ripc_msg *public = &message->public;
	struct ripc__pool *pool = message->ctx->pool;
	uint64_t at = 0;
	int error = 0;

	for (uint32_t i = 0; i < public->n_items && at < end && !error; i++) {
		uint64_t len = public->items[i].iov_len;
		uint64_t from = start > at ? start - at : 0, to = end - at < len ? end - at : len;

		if (public->places[i].place == RIPC_IN_POOL && from < to)
			error = ripc__pool_fault(pool, (char *)public->items[i].iov_base + from,
				to - from);
		at += len;
	}
	return error;
}
