/* SPDX-License-Identifier: BSD-3-Clause */
/* Entering calls. */
#ifndef RIPC_ENTER_H
#define RIPC_ENTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/objects.h"
#include "util/list.h"
#include "util/mutex.h"

struct signals;

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
/* A sleeper learns of timers that are due earlier than it thinks. */
void ripc__wake_for_timers(struct ripc_context *ctx);
/* The same of the sweep, after the first partner came: those that follow are swept later. */
void ripc__wake_for_sweep(struct ripc_context *ctx);
uint64_t ripc__next_deadline(struct ripc_context *ctx);
void ripc__clock_read(struct ripc_context *ctx);
/* Ends the sleep of waiting calls that are ready. */
void ripc__wake_ready(struct ripc_context *ctx);
/* Is it ready, or to end before it is? */
bool ripc__waiter_is_done(const struct waiter *waiter);
/* Ends the reader's sleep. */
void ripc__kick_reader(struct ripc_context *ctx);

/* Grows with each look at the ports by a call; can be read without the lock. */
static inline uint64_t ripc__activity(struct ripc_context *ctx)
{
	return atomic_load_explicit(&ctx->activity, memory_order_relaxed);
}

/* Only with the lock; it is just read without. */
static inline void ripc__activity_count(struct ripc_context *ctx)
{
	atomic_store_explicit(&ctx->activity, ripc__activity(ctx) + 1, memory_order_relaxed);
}

#endif
