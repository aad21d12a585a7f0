/* SPDX-License-Identifier: BSD-3-Clause */
/* Entering calls, and waiting in them. */
#ifndef RIPC_WAIT_H
#define RIPC_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/objects.h"
#include "util/list.h"
#include "util/mutex.h"

struct signals;

#define POOL_TURN_US       1000000u /* idle memory goes back after one to two of these, */
#define POOL_SOON_US       100000u  /* and in pieces, so far apart */
#define THREAD_TICK_US 1000u

/* A thread that waits. */
struct waiter {
	struct list node;
	bool (*ready)(void *arg);
	void *arg;
	struct ripc__sleep sleep;
	_Atomic uint32_t *wakes; /* end it before it is ready (interrupt.h); NULL: nothing does */
	struct signals *signals; /* held back while it is awake; NULL: they do not end it */
	bool asleep_beside, asleep_on_port, signalled;
};

/* Enters a call: -EOWNERDEAD in a forked child, else takes the lock and reads the clock. */
int ripc__enter(struct ripc_context *ctx);
/* The same; ctx->now_us may be some microseconds old: for who neither measures nor waits. */
int ripc__enter_hastily(struct ripc_context *ctx);
void ripc__leave(struct ripc_context *ctx);
/* For what neither needs the time nor changes what anybody waits for. */
void ripc__lock(struct ripc_context *ctx);
void ripc__unlock(struct ripc_context *ctx);
/* Takes the lock and reads the clock. */
void ripc__lock_timely(struct ripc_context *ctx);
/* Waits until ready(arg) or the deadline, doing what there is to do. True: ready. */
bool ripc__wait(struct ripc_context *ctx, bool (*ready)(void *arg), void *arg,
		uint64_t deadline_us);
/*
 * The same for a call that ripc_wake() of this service (NULL: of none) ends, and a signal, where
 * the context is RIPC_INTERRUPTIBLE. 1: ready; 0: not in time; -EINTR.
 */
int ripc__wait_or_end(struct ripc_context *ctx, struct ripc_service *service,
		bool (*ready)(void *arg), void *arg, uint64_t deadline_us);
/* Does what there is to do, without waiting; returns how much that was. */
int ripc__poll(struct ripc_context *ctx);
/* One look at the ports and the timers; returns the work done. */
int ripc__progress(struct ripc_context *ctx);
/* Takes in all that has come by now. False: a reader sleeps in a port, and is woken first. */
bool ripc__ports_drain(struct ripc_context *ctx);
int ripc__timers_progress(struct ripc_context *ctx);
int ripc__resolver_progress(struct ripc_context *ctx);
/* Ends the sleep of waiting calls that are ready. */
void ripc__wake_ready(struct ripc_context *ctx);
/* A sleeper learns of timers that are due earlier than it thinks. */
void ripc__wake_for_timers(struct ripc_context *ctx);
/* The same of the sweep, after the first partner came: those that follow are swept later. */
void ripc__wake_for_sweep(struct ripc_context *ctx);
uint64_t ripc__next_deadline(struct ripc_context *ctx);
int ripc__wait_open(struct ripc_context *ctx);
void ripc__wait_close(struct ripc_context *ctx);

static inline uint64_t ripc__deadline(const struct ripc_context *ctx, int64_t timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : ctx->now_us + (uint64_t)timeout_ms * 1000;
}

/* Grows with each look at the ports by a call; can be read without the lock. */
static inline uint64_t ripc__activity(struct ripc_context *ctx)
{
	return atomic_load_explicit(&ctx->activity, memory_order_relaxed);
}

#endif
