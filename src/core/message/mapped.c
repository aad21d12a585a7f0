/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Items of received messages that lie in the memory of their sender (RIPC_GIVE). The items are
 * mapped when the message is announced, and returned when the application has dropped its
 * references.
 *
 * Design notes. One mapping is one buffer of the owner, and can show several items of several
 * messages. The application's references to the mapping are counted together. Each key that showed
 * the mapping is a reference of ours to the owner's buffer. All keys are alike: as soon as the
 * application has fewer references than there are keys, one key is returned. The pool knows nothing
 * of mappings. They are few, therefore a linear search finds them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/pool.h"
#include "core/net/backend.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "core/wire/wire.h"
#include "message.h"
#include "util/list.h"

struct hold {
	struct list node;
	void *handle; /* the backend's */
	size_t len;
};

struct mapped {
	struct list node; /* ctx->messages.mapped */
	struct device *device;
	uint8_t *base;
	size_t len;
	uint32_t refs, n_holds; /* the application's references; the owner's */
	struct list holds;
};

static struct mapped *find(struct ripc_context *ctx, const void *buf)
{
	list_for_each_entry(mapped, &ctx->messages.mapped, struct mapped, node) {
		if ((uintptr_t)buf - (uintptr_t)mapped->base < mapped->len)
			return mapped;
	}
	return NULL;
}

static void hold_drop(struct ripc_context *ctx, struct mapped *mapped)
{
	struct hold *hold = list_entry(list_pop(&mapped->holds), struct hold, node);

	mapped->n_holds--;
	ctx->stats.mapped_held_bytes -= hold->len;
	mapped->device->ops->remote.unmap(mapped->device->port, hold->handle);
	free(hold);
}

/*
 * Frees a mapping. When the context was closed, each mapping was counted as a holder of the pool
 * (api/context.c).
 */
static void mapped_free(struct ripc_context *ctx, struct mapped *mapped)
{
	list_remove(&mapped->node);
	free(mapped);
	if (ctx->loop.is_shut)
		ripc__pool_drop(ctx->pool);
}

/* ---- references -------------------------------------------------------------------------- */

/* The end of the buffer that contains buf, and its references; NULL: no such buffer. */
static const uint8_t *buffer_end(struct ripc_context *ctx, const void *buf, uint32_t *refs)
{
	const struct mapped *mapped;

	*refs = ripc__pool_refs(ctx->pool, buf);
	if (*refs)
		return (const uint8_t *)buf + ripc__pool_room(ctx->pool, buf);
	mapped = find(ctx, buf);
	if (!mapped)
		return NULL;
	*refs = mapped->refs;
	return mapped->base + mapped->len;
}

int ripc__buffers_check(struct ripc_context *ctx, const struct iovec *items, uint32_t n)
{
	const uint8_t *ends[RIPC_ITEMS_MAX];
	uint32_t refs;

	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *start = items[i].iov_base;

		ends[i] = buffer_end(ctx, start, &refs);
		if (!ends[i] || items[i].iov_len > (size_t)(ends[i] - start))
			return -EINVAL;
		for (uint32_t j = 0; j <= i; j++) {
			if (ends[j] == ends[i] && refs-- == 0)
				return -EINVAL;
		}
	}
	return 0;
}

int ripc__buffer_ref(struct ripc_context *ctx, const void *buf)
{
	int error = ripc__pool_ref(ctx->pool, buf);
	struct mapped *mapped = error == -EINVAL ? find(ctx, buf) : NULL;

	if (!mapped)
		return error;
	if (mapped->refs == INT32_MAX)
		return -EOVERFLOW;
	mapped->refs++;
	return 0;
}

int ripc__buffer_free(struct ripc_context *ctx, const void *buf)
{
	int error = ripc__pool_free(ctx->pool, buf);
	struct mapped *mapped = error ? find(ctx, buf) : NULL;

	if (!mapped)
		return error;
	mapped->refs--;
	while (mapped->n_holds > mapped->refs)
		hold_drop(ctx, mapped);
	if (mapped->refs == 0)
		mapped_free(ctx, mapped);
	return 0;
}

void ripc__buffers_free(struct ripc_context *ctx, const struct iovec *items, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		ripc__buffer_free(ctx, items[i].iov_base);
}

int ripc__buffers_ref(struct ripc_context *ctx, const struct iovec *items, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		int error = ripc__buffer_ref(ctx, items[i].iov_base);

		if (error) {
			ripc__buffers_free(ctx, items, i);
			return error;
		}
	}
	return 0;
}

void ripc__mapped_close(struct ripc_context *ctx)
{
	list_for_each_entry(mapped, &ctx->messages.mapped, struct mapped, node) {
		while (mapped->n_holds)
			hold_drop(ctx, mapped);
	}
}

/* ---- mapping ----------------------------------------------------------------------------- */

/* Records a mapping of a device. False: no memory for the record. */
static bool note(struct ripc_context *ctx, struct device *device,
		const struct ripc__mapping *mapping, size_t len)
{
	struct mapped *mapped = find(ctx, mapping->base);
	struct hold *hold = malloc(sizeof(*hold));

	if (!hold)
		return false;
	if (!mapped) {
		mapped = calloc(1, sizeof(*mapped));
		if (!mapped) {
			free(hold);
			return false;
		}
		mapped->device = device;
		mapped->base = mapping->base;
		mapped->len = mapping->base_len;
		list_init(&mapped->holds);
		list_append(&ctx->messages.mapped, &mapped->node);
	}
	*hold = (struct hold){.handle = mapping->handle, .len = len};
	list_append(&mapped->holds, &hold->node);
	mapped->n_holds++;
	mapped->refs++;
	ctx->stats.mapped_held_bytes += len;
	return true;
}

/* Copies a short item, which came with the announcement or is empty, into a buffer of the pool. */
static bool item_copy(struct ripc_context *ctx, const void *bytes, struct iovec *item)
{
	if (ripc__pool_alloc(ctx->pool, item->iov_len, &item->iov_base))
		return false;
	if (item->iov_len)
		memcpy(item->iov_base, bytes, item->iov_len);
	return true;
}

/* The item lies in a buffer of our own that has come back: it gets one more reference. */
static bool item_own(struct ripc_context *ctx, void *mem, struct iovec *item)
{
	if (item->iov_len > ripc__pool_room(ctx->pool, mem) || ripc__pool_ref(ctx->pool, mem))
		return false;
	item->iov_base = mem;
	return true;
}

/* Finds memory for one item, which begins at start. */
static bool item_map(struct partner *partner, const struct wire_packet *announce, uint32_t i,
		uint64_t start, struct iovec *item)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct device *device = ripc__peer_device(ctx, partner->peer);
	struct ripc__mapping mapping;
	struct ripc__key key;

	item->iov_len = wire_item_len(announce, i);
	if (item->iov_len == 0 || start + item->iov_len <= announce->payload_len)
		return item_copy(ctx, announce->payload + start, item);
	wire_item_key(announce, i, &key.address, &key.key);
	if (device->ops->remote.map(device->port, partner->peer->route, &key, item->iov_len,
		&mapping))
		return false;
	if (!mapping.handle)
		return item_own(ctx, mapping.mem, item);
	if (!note(ctx, device, &mapping, item->iov_len)) {
		device->ops->remote.unmap(device->port, mapping.handle);
		return false;
	}
	item->iov_base = mapping.mem;
	return true;
}

/*
 * Can the network map the items? The application must not want copies, and must not have posted
 * windows. (Replies use no windows.)
 */
static bool may_map(struct partner *partner, const struct wire_packet *announce)
{
	struct ripc_context *ctx = partner->service->ctx;
	const struct device *device = ripc__peer_device(ctx, partner->peer);

	return !(ctx->cfg.flags & RIPC_COPY_GIVEN) && device->attr.caps & RIPC_CAP_MAP &&
		!partner->peer->opening &&
		(wire_is_answer(announce) || list_empty(&partner->service->windows));
}

struct message *ripc__mapped_message(struct partner *partner, const struct wire_packet *announce)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct ripc_buffer *places;
	struct message *message;
	struct iovec *items;
	uint64_t start = 0;

	if (!may_map(partner, announce))
		return NULL;
	message = ripc__message_alloc(ctx, announce->n_items, true);
	if (!message)
		return NULL;
	items = (struct iovec *)message->public.items;
	places = (struct ripc_buffer *)message->public.places;
	for (uint32_t i = 0; i < announce->n_items; i++) {
		if (item_map(partner, announce, i, start, &items[i])) {
			places[i].mem = items[i];
			places[i].place = find(ctx, items[i].iov_base) ? RIPC_IN_SENDER :
				RIPC_IN_POOL;
			start += items[i].iov_len;
			continue;
		}
		ripc__buffers_free(ctx, items, i);
		ripc__message_free(message);
		return NULL;
	}
	message->items_in_pool = message->mapped = true;
	ctx->stats.mapped_bytes += announce->announce.total - announce->payload_len;
	return message;
}
