/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls enter a context and leave it: the lock, the clock, and a sleeper that must learn of what a
 * call has made due.
 */
#include <errno.h>

#include "core/memory/pool.h"
#include "core/partner/partner.h"
#include "core/partner/roam.h"
#include "core/resolve/resolver.h"
#include "enter.h"
#include "interrupt.h"
#include "readiness.h"
#include "util/list.h"
#include "util/rare.h"
#include "util/system/cancel.h"
#include "util/system/mutex.h"
#include "util/ticks.h"
#include "util/timers.h"

#define MOMENT         4096u /* ticks: some microseconds at most; so long a clock is right */

static bool is_single(const struct ripc_context *ctx)
{
	return ctx->cfg.flags & RIPC_SINGLE_THREAD;
}

void ripc__lock(struct ripc_context *ctx)
{
	if (!is_single(ctx))
		ripc__mutex_lock(&ctx->lock);
}

void ripc__unlock(struct ripc_context *ctx)
{
	if (!is_single(ctx))
		ripc__mutex_unlock(&ctx->lock);
}

void ripc__clock_read(struct ripc_context *ctx)
{
	ctx->now_us = ctx->env.now_us(ctx->env.arg);
	ctx->read_at = ripc__ticks();
}

void ripc__lock_timely(struct ripc_context *ctx)
{
	ripc__lock(ctx);
	ripc__clock_read(ctx);
}

RIPC__RARE void ripc__kick_reader(struct ripc_context *ctx)
{
	RIPC__HOLD_CANCEL;
	struct device *device = atomic_load_explicit(&ctx->waits_on, memory_order_relaxed);

	if (ctx->reader_kicked)
		return;
	ctx->reader_kicked = true;
	if (device)
		device->ops->net.wake(device->port);
	else
		ripc__kick(ctx->kick_fd);
}

int ripc__enter(struct ripc_context *ctx)
{
	if (!ripc__is_own(ctx))
		return ripc__refusal(ctx);
	ripc__lock_timely(ctx);
	return 0;
}

int ripc__enter_hastily(struct ripc_context *ctx)
{
	if (!ripc__is_own(ctx))
		return ripc__refusal(ctx);
	ripc__lock(ctx);
	if (!ctx->has_ticks || !ripc__ticks_within(ctx->read_at, MOMENT))
		ripc__clock_read(ctx);
	return 0;
}

static RIPC__RARE int leave_ended(struct ripc_context *ctx)
{
	ripc__leave(ctx);
	return -ESHUTDOWN;
}

int ripc__enter_in(const struct ripc_service *service)
{
	int error = ripc__enter(service->ctx);

	return error || !service->ended ? error : leave_ended(service->ctx);
}

int ripc__enter_in_hastily(const struct ripc_service *service)
{
	int error = ripc__enter_hastily(service->ctx);

	return error || !service->ended ? error : leave_ended(service->ctx);
}

/* So what idle partners hold (links, descriptors) is given back where nothing else happens. */
static uint64_t sweep_due(const struct ripc_context *ctx)
{
	uint64_t due;

	if (list_empty(&ctx->partners))
		return UINT64_MAX;
	due = list_entry(ctx->partners.next, struct partner, node)->used_us + PARTNER_IDLE_US;
	return due < ctx->next_sweep_us ? ctx->next_sweep_us : due;
}

/* When something is due that calls may have made due sooner than a sleeper knows. */
static inline uint64_t soonest(const struct ripc_context *ctx)
{
	uint64_t next = ripc__timers_next(&ctx->timers);
	uint64_t due = ripc__resolver_deadline(ctx->resolver);

	next = due < next ? due : next;
	if (!list_empty(&ctx->acks) && ctx->acks_due_us < next)
		next = ctx->acks_due_us;
	if (ctx->n_corked && ctx->corked_due_us < next)
		next = ctx->corked_due_us;
	if (ctx->pool_due_us < next && ripc__pool_is_large(ctx->pool))
		next = ctx->pool_due_us;
	return next;
}

/*
 * Does somebody sleep until the deadline that it has computed? The progress thread only if it
 * sleeps for long: while it ticks, a timer may be late by a tick.
 */
static inline bool is_slept(const struct ripc_context *ctx)
{
	return ctx->reader ? ctx->reader->asleep_on_port : ctx->thread_holds && ctx->thread_asleep;
}

static inline void wake_before(struct ripc_context *ctx, uint64_t due_us)
{
	if (ctx->reader && due_us < ctx->reader_until_us)
		ripc__kick_reader(ctx);
	else if (!ctx->reader && due_us < atomic_load(&ctx->thread_until_us))
		ripc__thread_kick(ctx);
}

/* A sleeper must learn of a timer that is due earlier than it thinks. */
void ripc__wake_for_timers(struct ripc_context *ctx)
{
	if (is_slept(ctx))
		wake_before(ctx, soonest(ctx));
}

void ripc__wake_for_sweep(struct ripc_context *ctx)
{
	if (is_slept(ctx))
		wake_before(ctx, sweep_due(ctx));
}

extern inline void ripc__leave(struct ripc_context *ctx)
{
	if (ctx->any_broken)
		ripc__routes_mend(ctx);
	if (ctx->changed && !list_empty(&ctx->waiters))
		ripc__wake_ready(ctx);
	if (is_single(ctx))
		return;
	if (is_slept(ctx))
		wake_before(ctx, soonest(ctx));
	ripc__mutex_unlock(&ctx->lock);
}

void ripc__enter_late(struct ripc_context *ctx)
{
	ripc__lock_timely(ctx);
	if (ctx->is_shut)
		ripc__pool_hold(ctx->pool, 1);
}

void ripc__leave_late(struct ripc_context *ctx)
{
	struct ripc__pool *pool = ctx->pool;

	if (!ctx->is_shut) {
		ripc__leave(ctx);
		return;
	}
	ripc__unlock(ctx);
	ripc__pool_drop(pool);
}

uint64_t ripc__next_deadline(struct ripc_context *ctx)
{
	uint64_t next = soonest(ctx), due = sweep_due(ctx);

	return due < next ? due : next;
}

bool ripc__waiter_is_done(const struct waiter *waiter)
{
	return waiter->ready(waiter->arg) || waiter->signalled ||
		(waiter->wakes && ripc__wake_pending(waiter->wakes));
}

void ripc__wake_ready(struct ripc_context *ctx)
{
	ctx->changed = false;
	list_for_each(node, &ctx->waiters) {
		struct waiter *waiter = list_entry(node, struct waiter, node);

		if (!ripc__waiter_is_done(waiter))
			continue;
		if (waiter->asleep_on_port)
			ripc__kick_reader(ctx);
		else if (waiter->asleep_beside)
			ripc__sleep_end(&waiter->sleep);
	}
}
