/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages: allocating and freeing them. A message is one pool block: struct message, items,
 * places, and the bytes of small items.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/call/call.h"
#include "core/call/watch.h"
#include "core/group/fanout.h"
#include "core/memory/pool.h"
#include "core/objects.h"
#include "core/partner/claim.h"
#include "core/partner/partner.h"
#include "core/send/order.h"
#include "core/send/outgoing.h"
#include "core/wire/wire.h"
#include "message.h"
#include "queue.h"
#include "util/list.h"
#include "util/rare.h"
#include "util/system/cancel.h"

#define SPARE_PER 8u

/* Takes the message that was freed without the lock. Needs the lock: only one thread takes it. */
static struct message *freed_take(struct ripc_context *ctx)
{
	struct message *message = atomic_load_explicit(&ctx->messages.freed, memory_order_acquire);

	if (message)
		atomic_store_explicit(&ctx->messages.freed, NULL, memory_order_relaxed);
	return message;
}

static RIPC__RARE void *block_alloc(struct ripc_context *ctx, size_t len)
{
	void *block;

	return ripc__pool_alloc(ctx->pool, len, &block) ? NULL : block;
}

/*
 * A kept message; if there is none, each SPARE_PER-th time a new one of that size. The others have
 * just the size that they need, because the application may keep them.
 */
static RIPC__RARE void *spare_find(struct ripc_context *ctx)
{
	if (ctx->messages.n_spares) {
		ctx->messages.n_spares--;
		return list_entry(list_pop(&ctx->messages.spares), struct message, node);
	}
	if (ctx->messages.spares_missed++ % SPARE_PER)
		return NULL;
	return block_alloc(ctx, SPARE_BYTES);
}

static void *spare_take(struct ripc_context *ctx)
{
	void *block = freed_take(ctx);

	return block ? block : spare_find(ctx);
}

/* Makes a message in a block of len bytes. */
static struct message *message_make(struct ripc_context *ctx, uint32_t n_items, size_t len)
{
	struct message *message = len <= SPARE_BYTES ? spare_take(ctx) : NULL;
	bool spare = message;

	if (!spare)
		message = block_alloc(ctx, len);
	if (!message)
		return NULL;
	/*
	 * Fields are set one by one, because clearing the whole struct takes longer. "held" is set
	 * when the message is queued.
	 */
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
	*item = (struct iovec){bytes, left}; /* the last item: the lengths add up to the payload */
	return message;
}

void ripc__message_is_call(struct message *message, const struct wire_packet *packet)
{
	struct ripc_msg *public = &message->public;

	public->reply = packet->lends;
	if (!packet->call.kind)
		return;
	if (packet->call.kind == WIRE_CALL_ASKS) {
		public->kind = RIPC_REQUEST;
		public->flags = packet->call.value ? RIPC_IDEMPOTENT : 0;
		public->flags |= packet->h.type == WIRE_SHORT ? RIPC_ASKED_SHORTLY : 0;
	} else if (packet->call.kind == WIRE_CALL_GROUP) {
		public->group = packet->lends;
		public->reply = 0;
	} else {
		public->kind = RIPC_REPLY;
		public->reply = packet->replies;
		public->status = -(int)packet->call.value; /* 0: no error */
	}
}

/* Frees kept messages. A mark in ctx->messages.freed stops other threads from keeping more. */
void ripc__spares_free(struct ripc_context *ctx)
{
	struct message *none = (struct message *)&ctx->messages.freed, *freed;

	atomic_store_explicit(&ctx->messages.has_refs, true, memory_order_relaxed);
	freed = atomic_exchange_explicit(&ctx->messages.freed, none, memory_order_acq_rel);
	if (freed && freed != none)
		ripc__pool_free(ctx->pool, freed);
	while (ctx->messages.n_spares) {
		struct list *node = list_pop(&ctx->messages.spares);

		ctx->messages.n_spares--;
		ripc__pool_free(ctx->pool, list_entry(node, struct message, node));
	}
}

bool ripc__message_keep(struct message *message)
{
	struct ripc_context *ctx = message->ctx;
	struct message *none = NULL;

	return message->spare && !message->items_in_pool &&
		!atomic_load_explicit(&ctx->messages.has_refs, memory_order_relaxed) &&
		atomic_compare_exchange_strong_explicit(&ctx->messages.freed, &none, message,
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
	if (!message->spare || ctx->messages.n_spares == SPARES_MAX ||
			atomic_load_explicit(&ctx->messages.has_refs, memory_order_relaxed))
		return false;
	ctx->messages.n_spares++;
	list_prepend(&ctx->messages.spares, &message->node);
	return true;
}

void ripc__message_free_pool(struct message *message)
{
	if (!ripc__message_spare(message))
		ripc__pool_free(message->ctx->pool, message);
}

static void service_noticed(struct message *builtin);

void ripc__message_free(struct message *message)
{
	if (message->home == MESSAGE_POOL)
		ripc__message_free_pool(message);
	else if (message->home == MESSAGE_OUTGOING)
		ripc__outgoing_freed(message);
	else if (message->home == MESSAGE_CALL)
		ripc__call_told(message);
	else if (message->home == MESSAGE_WATCH)
		ripc__watch_told(message);
	else if (message->home == MESSAGE_GROUP)
		ripc__fanout_told(message);
	else
		service_noticed(message);
}

/* ---- queue ------------------------------------------------------------------------------- */

/* The queue of a service, from which the application takes messages. */

/* Makes the service's descriptor readable, or unreadable. */
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
	service->ctx->loop.n_event_fds++;
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
	service->ctx->loop.n_event_fds--;
}

void ripc__service_enqueue(struct ripc_service *service, struct message *message)
{
	list_append(&service->queue, &message->node);
	service->queued++;
	service->ctx->loop.changed = true;
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

/* The application has freed the original notice, not a copy. */
static void service_noticed(struct message *builtin)
{
	builtin->queued = false;
	if (!builtin->again)
		return;
	list_for_each_entry(service, &builtin->ctx->services.all, struct ripc_service, node) {
		if (builtin == &service->retry || builtin == &service->conflict)
			ripc__service_notice(service, builtin, builtin->public.status);
	}
}

/*
 * Copies a NOTICE that is part of a service or watch. The application gets the copy: then a NOTICE
 * that the application keeps does not delay the next one. Without memory the application gets the
 * original, and the next NOTICE is queued when the application frees the original.
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
 * A partner may have at most as many messages in the queue as there is room left. So the next
 * partner finds room, too, however little the application reads.
 */
bool ripc__queue_has_room(const struct partner *partner)
{
	return partner->service->queued + partner->queued < QUEUE_MAX;
}

/* Inline, like all functions on the path of a short: a call would cost as much as the work. */
extern inline void ripc__service_deliver(struct partner *partner, struct message *message,
		const struct quota *large, uint64_t small_bytes)
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
	message->quota = large ? *large : ripc__quota_take(partner, SHARE_SMALL, small_bytes);
	partner->queued++;
	ripc__service_enqueue(partner->service, message);
}

/* Takes the oldest message. Its partner exists: a partner with queued messages is not forgotten. */
struct message *ripc__queue_pop(struct ripc_service *service)
{
	struct message *message = list_entry(list_pop(&service->queue), struct message, node);
	struct partner *partner = message->partner;

	service->queued--;
	if (partner) {
		partner->queued--;
		ripc__quota_give(partner, message->share, message->quota);
		message->partner = NULL;
	} else if (service->ctx->sends.n_gaps && message->home == MESSAGE_OUTGOING) {
		ripc__order_handed(message);
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

/* The partner's next unread message, from node on; NULL: no more. */
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
		ripc__quota_give(partner, message->share, message->quota);
}

void ripc__unread_hold(struct partner *partner)
{
	struct message *message;

	for (struct list *at = partner->service->queue.next; (message = unread(partner, at));
			at = message->node.next)
		message->quota = ripc__quota_take(partner, message->share, message->quota.all);
}

/* ---- ends -------------------------------------------------------------------------------- */

/*
 * The ends of awaited sends and calls. They are kept apart from the queue: so no other receiving
 * thread can take an end, and unread messages do not delay it.
 */

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

/* The index of the last entry with this cookie; n_cookies: there is none. */
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
	service->ctx->loop.changed = true;
}

struct message *ripc__ends_find(const struct ends *ends, uint64_t cookie)
{
	list_for_each_entry(message, &ends->arrived, struct message, node) {
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
	if (ctx->sends.n_gaps && message->home == MESSAGE_OUTGOING)
		ripc__order_handed(message);
	ctx->loop.changed = true; /* perhaps two threads have waited for the same end */
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
