/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Services: registration, the queue that ripc_receive() takes from, windows and lent return
 * buffers, and the messages themselves.
 *
 * A message is one pool block: struct message, items, places, and, where they are small, the
 * items' bytes. Built-in notices are part of the service and cannot fail to be delivered.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "claim.h"
#include "core.h"
#include "descriptor.h"
#include "order.h"
#include "interrupt.h"
#include "windows.h"
#include "mapped.h"
#include "receiving.h"
#include "returns.h"
#include "util/rare.h"

/* ---- messages ---------------------------------------------------------------------------- */

/* Only with the lock is one taken away, so that nobody else can have. */
static struct message *freed_take(struct ripc_context *ctx)
{
	struct message *message = atomic_load_explicit(&ctx->freed, memory_order_acquire);

	if (message)
		atomic_store_explicit(&ctx->freed, NULL, memory_order_relaxed);
	return message;
}

static RIPC__RARE void *block_find(struct ripc_context *ctx, size_t len)
{
	void *block;

	if (len == SPARE_BYTES && ctx->n_spares) {
		ctx->n_spares--;
		return list_entry(list_pop(&ctx->spares), struct message, node);
	}
	return ripc__pool_alloc(ctx->pool, len, &block) ? NULL : block;
}

static void *block_take(struct ripc_context *ctx, size_t len)
{
	void *block = len == SPARE_BYTES ? freed_take(ctx) : NULL;

	return block ? block : block_find(ctx, len);
}

/* In a block of so many bytes. */
static struct message *message_make(struct ripc_context *ctx, uint32_t n_items, size_t len)
{
	bool spare = len <= SPARE_BYTES;
	struct message *message = block_take(ctx, spare ? SPARE_BYTES : len);

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

void ripc__spares_free(struct ripc_context *ctx)
{
	struct message *freed = freed_take(ctx);

	if (freed)
		ripc__pool_free(ctx->pool, freed);
	while (ctx->n_spares) {
		struct list *node = list_pop(&ctx->spares);

		ctx->n_spares--;
		ripc__pool_free(ctx->pool, list_entry(node, struct message, node));
	}
}

/* Without the lock, what most often is freed: a short. False: there is no room for it. */
static bool freed_put(struct message *message)
{
	struct ripc_context *ctx = message->ctx;
	struct message *none = NULL;

	return message->spare && !message->items_in_pool &&
		!atomic_load_explicit(&ctx->has_refs, memory_order_relaxed) &&
		atomic_compare_exchange_strong_explicit(&ctx->freed, &none, message,
			memory_order_release, memory_order_relaxed);
}

static void message_free_pool(struct message *message)
{
	struct ripc_msg *public = &message->public;

	for (uint32_t i = 0; message->items_in_pool && i < public->n_items; i++) {
		if (message->mapped)
			ripc__buffer_free(message->ctx, public->items[i].iov_base);
		else if (!public->places || public->places[i].place == RIPC_IN_POOL)
			ripc__pool_free(message->ctx->pool, public->items[i].iov_base);
	}
	if (message->spare && message->ctx->n_spares < SPARES_MAX &&
			!atomic_load_explicit(&message->ctx->has_refs, memory_order_relaxed)) {
		message->ctx->n_spares++;
		list_prepend(&message->ctx->spares, &message->node);
		return;
	}
	ripc__pool_free(message->ctx->pool, message);
}

static void outgoing_message_free(struct outgoing *outgoing)
{
	outgoing->reported = false;
	ripc__outgoing_put(outgoing);
}

/* With the lock. */
void ripc__message_free(struct message *message)
{
	if (message->home == MESSAGE_POOL)
		message_free_pool(message);
	else if (message->home == MESSAGE_OUTGOING)
		outgoing_message_free(list_entry(message, struct outgoing, message));
	else
		message->queued = false;
}

/* The pool has a lock of its own; what is kept for the next short is under ours. */
static RIPC__RARE void free_locked(struct message *message)
{
	struct ripc_context *ctx = message->ctx;

	if (message->home == MESSAGE_POOL && !message->spare && !message->mapped) {
		message_free_pool(message);
	} else if (message->home == MESSAGE_POOL && !message->mapped) {
		ripc__lock(ctx);
		message_free_pool(message);
		ripc__unlock(ctx);
	} else if (ripc__enter(ctx) == 0) {
		ripc__message_free(message);
		ripc__leave(ctx);
	}
}

void ripc_msg_free(struct ripc_msg *msg)
{
	struct message *message = (struct message *)msg;

	if (msg && *message->ctx->alive && !freed_put(message))
		free_locked(message);
}

/* ---- the queue --------------------------------------------------------------------------- */

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

/* ---- lent memory ------------------------------------------------------------------------- */

int ripc__lend(struct ripc_service *service, const struct ripc_send *request, uint64_t *id)
{
	size_t size = request->n_returns * sizeof(struct ripc_buffer);
	struct lent *lent;

	*id = 0;
	if (request->n_returns == 0)
		return 0;
	if (request->n_returns > RIPC_ITEMS_MAX || !request->returns)
		return -EINVAL;
	for (uint32_t i = 0; i < request->n_returns; i++) {
		if (!ripc__mem_is_sane(&request->returns[i].mem))
			return -EINVAL;
	}
	lent = malloc(sizeof(*lent) + size);
	if (!lent)
		return -ENOMEM;
	*lent = (struct lent){.id = ripc__nonce(service->ctx), .to = request->to,
		.cookie = request->cookie, .n = request->n_returns};
	memcpy(lent->buffers, request->returns, size);
	list_append(&service->lent, &lent->node);
	*id = lent->id;
	return 0;
}

struct lent *ripc__lent_find(struct ripc_service *service, uint64_t id, uint64_t from)
{
	list_for_each(node, &service->lent) {
		struct lent *lent = list_entry(node, struct lent, node);

		if (lent->id == id && lent->to == from && !lent->in_use && !lent->cancelled)
			return lent;
	}
	return NULL;
}

void ripc__lent_free(struct lent *lent)
{
	ripc__returns_abandon(lent);
	list_remove(&lent->node);
	free(lent);
}

/* ---- life -------------------------------------------------------------------------------- */

static void builtin_init(struct ripc_service *service, struct message *message)
{
	*message = (struct message){.ctx = service->ctx, .home = MESSAGE_BUILTIN};
	message->public.kind = RIPC_NOTICE;
	list_init(&message->node);
}

static struct ripc_service *service_alloc(struct ripc_context *ctx, uint64_t id)
{
	struct ripc_service *service = calloc(1, sizeof(*service));

	if (!service)
		return NULL;
	service->ctx = ctx;
	service->id = id;
	service->event_fd = -1;
	service->stamp = ctx->env.wall_ns(ctx->env.arg);
	list_init(&service->node);
	list_init(&service->queue);
	list_init(&service->windows);
	list_init(&service->lent);
	builtin_init(service, &service->retry);
	builtin_init(service, &service->conflict);
	ripc__map_init(&service->partners, ripc__nonce(ctx));
	return service;
}

/* A random number that nobody can predict: private IDs and incarnations. */
static int draw(struct ripc_context *ctx, uint64_t *number)
{
	int error = 0;

	*number = 0;
	while (!error && *number == 0)
		error = ctx->env.random(ctx->env.arg, number, sizeof(*number));
	*number = le64toh(*number);
	return error;
}

static int service_register(struct ripc_service *service)
{
	struct ripc_context *ctx = service->ctx;
	int error = ripc__map_put(&ctx->services_by_id, service->id, service);

	if (error)
		return error == -EEXIST ? -EADDRINUSE : error;
	error = ripc__map_put(&ctx->services_by_incarnation, service->incarnation, service);
	if (error) {
		ripc__map_remove(&ctx->services_by_id, service->id);
		return error;
	}
	list_append(&ctx->services, &service->node);
	ctx->stats.services++;
	return 0;
}

int ripc__service_start(struct ripc_context *ctx, uint64_t id, struct ripc_service **service_out)
{
	bool is_private = id == 0;
	struct ripc_service *service;
	int error = is_private ? draw(ctx, &id) : 0;

	if (!error && !(ctx->cfg.flags & RIPC_NO_THREAD))
		error = ripc__thread_start(ctx);
	if (error)
		return error;
	service = service_alloc(ctx, id);
	if (!service)
		return -ENOMEM;
	error = draw(ctx, &service->incarnation);
	error = error ? error : service_register(service);
	if (error) {
		ripc__map_free(&service->partners);
		free(service);
		return error;
	}
	service->publishing = true;
	service->publish_status = -ETIMEDOUT;
	ripc__resolver_publish(ctx->resolver, id, is_private, ctx->now_us);
	*service_out = service;
	return 0;
}

int ripc__service_finish(struct ripc_service *service)
{
	struct ripc_context *ctx = service->ctx;
	const struct ripc__answer *answer;
	int error = service->publish_status;

	if (error) {
		ripc__service_end(service);
		return error;
	}
	if (ripc__resolver_lookup(ctx->resolver, service->id, ctx->now_us, &answer) == 0)
		ripc__partner_resolved(ctx, service->id, 0, answer); /* who waits for it here */
	return 0;
}

static bool nothing_incoming(void *arg)
{
	const struct ripc_service *service = arg;

	return service->n_incoming == 0 || service->closing;
}

/* Ends what partners of this service are sending to it. */
static void refuse_incoming(struct ripc_service *service, int status)
{
	list_for_each(node, &service->ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		while (partner->service == service && !list_empty(&partner->incoming))
			ripc__incoming_refuse(list_entry(partner->incoming.next, struct incoming,
				node), status, true);
	}
}

int ripc__service_drain(struct ripc_service *service, int timeout_ms)
{
	struct ripc_context *ctx = service->ctx;
	uint64_t deadline = ripc__deadline(ctx, timeout_ms);
	bool in_time;

	if (!service->draining) {
		service->draining = true;
		ripc__resolver_withdraw(ctx->resolver, service->id, service->incarnation);
	}
	ctx->changed = true;
	ripc__service_tell(service);
	ripc__service_get(service);
	in_time = ripc__wait(ctx, nothing_incoming, service, deadline);
	if (!in_time)
		refuse_incoming(service, -ESHUTDOWN);
	ripc__service_tell(service);
	ripc__service_put(service);
	return in_time ? 0 : -ETIMEDOUT;
}

static void queue_free(struct ripc_service *service)
{
	while (!list_empty(&service->queue))
		ripc__message_free(queue_pop(service));
}

static void lent_memory_forget(struct ripc_service *service)
{
	while (!list_empty(&service->windows))
		free(list_entry(list_pop(&service->windows), struct window, node));
	while (!list_empty(&service->lent))
		ripc__lent_free(list_entry(service->lent.next, struct lent, node));
}

/* When it was closed tells its partners which of their sends certainly did not reach it. */
static void closed_remember(struct ripc_context *ctx, uint64_t incarnation)
{
	struct closed *closed = &ctx->closed[ctx->n_closed++ % CLOSED_MAX];

	if (closed->incarnation)
		ctx->closed_floor_us = closed->closed_us;
	*closed = (struct closed){incarnation, ctx->now_us};
}

void ripc__service_end(struct ripc_service *service)
{
	struct ripc_context *ctx = service->ctx;

	service->closing = true;
	if (!service->draining)
		ripc__resolver_withdraw(ctx->resolver, service->id, service->incarnation);
	refuse_incoming(service, -ESHUTDOWN);
	ripc__corked_flush(ctx);
	queue_free(service);
	ripc__acks_flush(ctx);
	list_for_each_safe(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (partner->service == service) {
			ripc__goodbye(partner);
			ripc__outgoing_lost(partner, -ECANCELED, UINT64_MAX);
			ripc__partner_free(partner);
		}
	}
	ripc__outgoing_orphan(service);
	ripc__readings_orphan(service);
	ripc__permits_orphan(service);
	queue_free(service); /* also what their ends have added */
	lent_memory_forget(service);
	ripc__map_remove(&ctx->services_by_id, service->id);
	ripc__map_remove(&ctx->services_by_incarnation, service->incarnation);
	closed_remember(ctx, service->incarnation);
	ripc__map_free(&service->partners);
	free(service->askers);
	service->askers = NULL;
	list_remove(&service->node);
	ctx->stats.services--;
	ripc__service_fd_close(service);
	service->ended = true;
	ctx->changed = true;
	if (service->n_waiting == 0)
		free(service);
}

static bool no_orphans(void *arg)
{
	const struct ripc_context *ctx = arg;

	return ctx->n_orphans == 0;
}

void ripc__orphans_wait(struct ripc_context *ctx)
{
	ripc__wait(ctx, no_orphans, ctx, UINT64_MAX);
}

void ripc__service_get(struct ripc_service *service)
{
	service->n_waiting++;
}

void ripc__service_put(struct ripc_service *service)
{
	if (--service->n_waiting == 0 && service->ended)
		free(service);
}
