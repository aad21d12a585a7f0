/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages: memory for them, and its way back. A message is one pool block: struct message, items,
 * places, and, where they are small, the bytes of the items.
 */
#include <string.h>

#include "core/memory/pool.h"
#include "core/objects.h"
#include "core/upcalls.h"
#include "core/wire/wire.h"
#include "mapped.h"
#include "message.h"
#include "queue.h"
#include "util/list.h"
#include "util/rare.h"

#define SPARE_PER 8u

/* Only with the lock is one taken away, so that nobody else can have. */
static struct message *freed_take(struct ripc_context *ctx)
{
	struct message *message = atomic_load_explicit(&ctx->freed, memory_order_acquire);

	if (message)
		atomic_store_explicit(&ctx->freed, NULL, memory_order_relaxed);
	return message;
}

static RIPC__RARE void *block_alloc(struct ripc_context *ctx, size_t len)
{
	void *block;

	return ripc__pool_alloc(ctx->pool, len, &block) ? NULL : block;
}

/* Where none is kept, one in SPARE_PER is made: messages that an application keeps are small. */
static RIPC__RARE void *spare_find(struct ripc_context *ctx)
{
	if (ctx->n_spares) {
		ctx->n_spares--;
		return list_entry(list_pop(&ctx->spares), struct message, node);
	}
	if (ctx->spares_missed++ % SPARE_PER)
		return NULL;
	return block_alloc(ctx, SPARE_BYTES);
}

static void *spare_take(struct ripc_context *ctx)
{
	void *block = freed_take(ctx);

	return block ? block : spare_find(ctx);
}

/* In a block of so many bytes. */
static struct message *message_make(struct ripc_context *ctx, uint32_t n_items, size_t len)
{
	struct message *message = len <= SPARE_BYTES ? spare_take(ctx) : NULL;
	bool spare = message;

	if (!spare)
		message = block_alloc(ctx, len);
	if (!message)
		return NULL;
	/* One by one: to clear the whole takes longer. What it holds is told when it is queued. */
	message->public = (struct ripc_msg){.n_items = n_items,
		.items = (struct iovec *)(message + 1)};
	list_init(&message->node);
	message->ctx = ctx;
	message->partner = NULL;
	message->home = MESSAGE_POOL;
	message->items_in_pool = message->mapped = message->queued = false;
	message->spare = spare;
	return message;
}

struct message *ripc__message_alloc(struct ripc_context *ctx, uint32_t n_items, bool places)
{
	size_t items = n_items * sizeof(struct iovec);
	size_t more = items + (places ? n_items * sizeof(struct ripc_buffer) : 0);
	struct message *message = message_make(ctx, n_items, sizeof(*message) + more);

	if (!message)
		return NULL;
	memset(message + 1, 0, more);
	if (places)
		message->public.places = (struct ripc_buffer *)((char *)(message + 1) + items);
	return message;
}

struct message *ripc__message_whole(struct ripc_context *ctx, const struct wire_packet *packet)
{
	uint32_t n_items = packet->n_items;
	size_t head = (sizeof(struct message) + n_items * sizeof(struct iovec) + 15) & ~(size_t)15;
	size_t left = packet->payload_len;
	struct message *message = message_make(ctx, n_items, head + left);
	struct iovec *item;
	char *bytes;

	if (!message)
		return NULL;
	item = (struct iovec *)(message + 1);
	bytes = (char *)message + head;
	for (uint32_t i = 0; i + 1 < n_items; i++, item++) {
		*item = (struct iovec){bytes, wire_item_len(packet, i)};
		bytes += item->iov_len;
		left -= item->iov_len;
	}
	*item = (struct iovec){bytes, left}; /* their lengths' sum is the payload's */
	return message;
}

void ripc__message_is_call(struct message *message, const struct wire_packet *packet)
{
	struct ripc_msg *public = &message->public;

	if (packet->call.kind == WIRE_CALL_ASKS) {
		public->kind = RIPC_REQUEST;
		public->reply = packet->lends;
		public->flags = packet->call.value ? RIPC_IDEMPOTENT : 0;
		public->flags |= packet->h.type == WIRE_SHORT ? RIPC_ASKED_SHORTLY : 0;
	} else if (packet->call.kind == WIRE_CALL_GROUP) {
		public->group = packet->lends;
		public->reply = 0;
	} else {
		public->kind = RIPC_REPLY;
		public->reply = packet->replies;
		public->status = -(int)packet->call.value; /* 0: it is no error */
	}
}

/* A mark that is no message fills ctx->freed: no other thread puts one there any more. */
void ripc__spares_free(struct ripc_context *ctx)
{
	struct message *none = (struct message *)&ctx->freed, *freed;

	atomic_store_explicit(&ctx->has_refs, true, memory_order_relaxed);
	freed = atomic_exchange_explicit(&ctx->freed, none, memory_order_acq_rel);
	if (freed && freed != none)
		ripc__pool_free(ctx->pool, freed);
	while (ctx->n_spares) {
		struct list *node = list_pop(&ctx->spares);

		ctx->n_spares--;
		ripc__pool_free(ctx->pool, list_entry(node, struct message, node));
	}
}

bool ripc__message_keep(struct message *message)
{
	struct ripc_context *ctx = message->ctx;
	struct message *none = NULL;

	return message->spare && !message->items_in_pool &&
		!atomic_load_explicit(&ctx->has_refs, memory_order_relaxed) &&
		atomic_compare_exchange_strong_explicit(&ctx->freed, &none, message,
			memory_order_release, memory_order_relaxed);
}

bool ripc__message_spare(struct message *message)
{
	struct ripc_context *ctx = message->ctx;
	struct ripc_msg *public = &message->public;

	for (uint32_t i = 0; message->items_in_pool && i < public->n_items; i++) {
		if (message->mapped)
			ripc__buffer_free(ctx, public->items[i].iov_base);
		else if (!public->places || public->places[i].place == RIPC_IN_POOL)
			ripc__pool_free(ctx->pool, public->items[i].iov_base);
	}
	if (!message->spare || ctx->n_spares == SPARES_MAX ||
			atomic_load_explicit(&ctx->has_refs, memory_order_relaxed))
		return false;
	ctx->n_spares++;
	list_prepend(&ctx->spares, &message->node);
	return true;
}

void ripc__message_free_pool(struct message *message)
{
	if (!ripc__message_spare(message))
		ripc__pool_free(message->ctx->pool, message);
}

void ripc__message_free(struct message *message)
{
	if (message->home == MESSAGE_POOL)
		ripc__message_free_pool(message);
	else if (message->home == MESSAGE_OUTGOING)
		message->ctx->up->sent_freed(message);
	else if (message->home == MESSAGE_CALL)
		message->ctx->up->call_told(message);
	else if (message->home == MESSAGE_WATCH)
		message->ctx->up->watch_told(message);
	else if (message->home == MESSAGE_GROUP)
		message->ctx->up->fanout_told(message);
	else
		ripc__service_noticed(message);
}
