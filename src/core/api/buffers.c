/* SPDX-License-Identifier: BSD-3-Clause */
/* Public calls: buffers of the pool, registered memory, and holders of transferred buffers. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "core/engine/wait.h"
#include "core/memory/pool.h"
#include "core/message/message.h"
#include "core/message/places.h"
#include "core/partner/partner.h"
#include "core/receive/incoming.h"
#include "core/send/outgoing.h"
#include "internal.h"
#include "util/list.h"
#include "util/system/cancel.h"

static int pool_of(struct ripc_context *ctx, struct ripc__pool **pool)
{
	if (!ctx)
		return -EINVAL;
	if (!ripc__is_own(ctx))
		return ripc__refusal(ctx);
	*pool = ctx->pool;
	return 0;
}

/* The pool, also of a closed context, which stays as long as one of its buffers does. */
static int pool_of_live(struct ripc_context *ctx, struct ripc__pool **pool)
{
	int error = pool_of(ctx, pool);

	if (error != -ESHUTDOWN)
		return error;
	*pool = ctx->pool;
	return 0;
}

/* Buffers that a partner or the network held may be free by now. True: some of them are. */
static bool take_home(struct ripc_context *ctx)
{
	uint64_t held;

	if (ripc__enter(ctx))
		return false;
	held = ctx->stats.given_held_bytes;
	if (held)
		ripc__progress(ctx);
	held -= ctx->stats.given_held_bytes;
	ripc__leave(ctx);
	return held > 0;
}

/* Logs the lack of memory once: a program that retries until it gets some retries often. */
static void say_no_memory(struct ripc_context *ctx, struct ripc__pool *pool, size_t len)
{
	struct ripc__pool_stats stats;

	if (atomic_exchange_explicit(&ctx->self.said_no_memory, true, memory_order_relaxed))
		return;
	ripc__pool_stats(pool, &stats);
	ripc__log(ctx, RIPC_LOG_WARN, "no memory for a buffer of %zu bytes: the limit of the pool "
		"is %llu bytes, its size %llu, and %llu of these are in use. If the limit is too "
		"low, free buffers or raise pool_bytes; if the pool is far below its limit, the "
		"system has no more memory: close other programs, or raise \"ulimit -v\"",
		len, (unsigned long long)stats.limit, (unsigned long long)stats.taken,
		(unsigned long long)stats.used);
}

/* Faults in the whole block, not only its first MiBs: a write there must not end the program. */
static int alloc_whole(struct ripc__pool *pool, size_t len, void **buf)
{
	void *made;
	int error = ripc__pool_alloc(pool, len, &made);

	if (error)
		return error;
	error = ripc__pool_fault(pool, made, len);
	if (error)
		ripc__pool_free(pool, made);
	else
		*buf = made;
	return error;
}

int ripc_buf_alloc(struct ripc_context *ctx, size_t len, void **buf)
{
	struct ripc__pool *pool;
	int error = buf ? pool_of(ctx, &pool) : -EINVAL;

	if (!error)
		error = alloc_whole(pool, len, buf);
	if (error == -ENOMEM && take_home(ctx))
		error = alloc_whole(pool, len, buf);
	if (error == -ENOMEM)
		say_no_memory(ctx, pool, len);
	return error;
}

int ripc_buf_ref(struct ripc_context *ctx, void *buf)
{
	struct ripc__pool *pool;
	int error = pool_of_live(ctx, &pool);

	if (error)
		return error;
	atomic_store_explicit(&ctx->messages.has_refs, true, memory_order_relaxed);
	error = ripc__pool_ref(pool, buf);
	if (error != -EINVAL)
		return error;
	ripc__enter_late(ctx);
	error = ripc__buffer_ref(ctx, buf);
	ripc__leave_late(ctx);
	return error;
}

int ripc_buf_refs(struct ripc_context *ctx, const void *buf)
{
	struct ripc__pool *pool;
	int error = pool_of_live(ctx, &pool);
	uint32_t refs = error ? 0 : ripc__pool_refs(pool, buf);

	if (error)
		return error;
	return refs ? (int)refs : -EINVAL;
}

int ripc_buf_free(struct ripc_context *ctx, void *buf)
{
	struct ripc__pool *pool;
	int error = pool_of_live(ctx, &pool);

	if (error || !buf || !ripc__pool_free(pool, buf))
		return error;
	ripc__enter_late(ctx);
	error = ripc__buffer_free(ctx, buf);
	ripc__leave_late(ctx);
	return error;
}

int ripc_buf_register(struct ripc_context *ctx, void *buf, size_t len)
{
	struct ripc__pool *pool;
	int error = pool_of(ctx, &pool);

	return error ? error : ripc__pool_register(pool, buf, len);
}

int ripc_buf_unregister(struct ripc_context *ctx, void *buf)
{
	struct ripc__pool *pool;
	int error = pool_of(ctx, &pool);

	return error ? error : ripc__pool_unregister(pool, buf);
}

/* ---- holders: the ledger of send/outgoing.c, summed up by receiver ----------------------- */

static int by_service(const void *a, const void *b)
{
	const struct ripc_holder *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->incarnation > y->incarnation) - (x->incarnation < y->incarnation);
}

static int by_bytes(const void *a, const void *b)
{
	const struct ripc_holder *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static size_t count_mapped(struct ripc_context *ctx)
{
	size_t n = 0;

	list_for_each(node, &ctx->sends.ended)
		n += list_entry(node, struct outgoing, node)->mapped;
	return n;
}

/* Lists the holders, with one entry per message. */
static int collect(struct ripc_context *ctx, struct ripc_holder **holders, size_t *n_out)
{
	size_t n = count_mapped(ctx), at = 0;
	struct ripc_holder *all = malloc((n + 1) * sizeof(*all));

	if (!all)
		return -ENOMEM;
	list_for_each_entry(outgoing, &ctx->sends.ended, const struct outgoing, node) {
		if (outgoing->mapped)
			all[at++] = (struct ripc_holder){outgoing->to, outgoing->to_incarnation,
				outgoing->total, 1};
	}
	*holders = all;
	*n_out = n;
	return 0;
}

/* Merges entries of the same incarnation. Returns the number of entries that remain. */
static size_t merge(struct ripc_holder *holders, size_t n)
{
	size_t last = 0;

	if (n == 0)
		return 0;
	qsort(holders, n, sizeof(*holders), by_service);
	for (size_t i = 1; i < n; i++) {
		if (by_service(&holders[last], &holders[i]) == 0) {
			holders[last].bytes += holders[i].bytes;
			holders[last].messages += holders[i].messages;
		} else {
			holders[++last] = holders[i];
		}
	}
	qsort(holders, last + 1, sizeof(*holders), by_bytes);
	return last + 1;
}

int ripc_holders(struct ripc_context *ctx,
		int (*found)(void *arg, const struct ripc_holder *holder), void *arg)
{
	RIPC__HOLD_CANCEL;
	struct ripc_holder *holders;
	int error, ended = 0;
	size_t n = 0;

	if (!ctx || !found)
		return -EINVAL;
	error = ripc__enter(ctx);
	if (error)
		return error;
	error = collect(ctx, &holders, &n);
	ripc__leave(ctx);
	if (error)
		return error;
	n = merge(holders, n);
	for (size_t i = 0; i < n && !ended; i++)
		ended = found(arg, &holders[i]);
	free(holders);
	return (int)n;
}

/* ---- windows ----------------------------------------------------------------------------- */

/*
 * Windows: posted by the application, and taken back. message/places.c selects the window for a
 * message.
 *
 * Design notes. A window that a message has is not in the service's list: the message's place
 * names it. A window is taken back in three steps. First the window is marked, and no further
 * message gets it. Then messages that are being received into it are refused. This brings the
 * window back into the list, at once or when the last read into it has ended. Then it is freed.
 */

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
	return ripc__leave_with(svc->ctx, window ? 0 : -ENOMEM);
}

/* ---- taking back ------------------------------------------------------------------------- */

struct cancelled {
	struct ripc_service *svc;
	uint64_t cookie;
	bool any, waited;
};

/* Marks those windows of an incoming message that are to be taken back. True: it has some. */
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
	for_each_partner(partner, of->svc->ctx) {
		if (partner->service != of->svc)
			continue;
		list_for_each_entry(incoming, &partner->incoming, struct incoming, node) {
			if (mark_places(of, incoming->message))
				return incoming;
		}
	}
	return NULL;
}

/* Marks windows of messages that were given up, while the network may still write into them. */
static bool marked_lingering(struct cancelled *of)
{
	const struct list *lingering = &of->svc->ctx->receives.lingering;
	bool any = false;

	list_for_each_entry(reading, lingering, const struct reading, mover.node) {
		if (reading->service == of->svc)
			any |= mark_places(of, reading->mover.places);
	}
	return any;
}

static bool nobody_writes(void *arg)
{
	return !marked_lingering(arg);
}

static void free_posted(struct cancelled *of)
{
	list_for_each_entry_safe(window, &of->svc->windows, struct window, node) {
		/* After a wait there may be new windows with the same cookie. */
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
	/* Windows that nobody writes to are freed before another message can take them. */
	free_posted(&of);
	if (marked_lingering(&of)) {
		ripc__wait(ctx, nobody_writes, &of, UINT64_MAX);
		of.waited = true;
		free_posted(&of);
	}
	if (svc->ended) /* then the context owns the memory that is written into */
		ripc__orphans_wait(ctx);
	ripc__service_put(svc);
	return ripc__leave_with(ctx, of.any ? 0 : -ENOENT);
}
