/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the files of core/engine share. No other room includes them. */
#ifndef RIPC_ENGINE_INTERNAL_H
#define RIPC_ENGINE_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/objects.h"
#include "util/list.h"
#include "util/system/thread.h"

struct signals;

/* ---- enter ------------------------------------------------------------------------------- */

/* Entering calls. */

/* A thread that waits. */
struct waiter {
	struct list node;
	bool (*ready)(void *arg);
	void *arg;
	struct ripc__sleep sleep;
	_Atomic uint32_t *wakes; /* wakes that end the wait early (wait.h); NULL: none do */
	struct signals *signals; /* held back while the thread is awake; NULL: none end the wait */
	bool asleep_beside, asleep_on_port, signalled;
};

/*
 * Enters a call: takes the lock and reads the clock. -EOWNERDEAD in a forked child, -ESHUTDOWN in a
 * closed context.
 */
int ripc__enter(struct ripc_context *ctx);
/* As ripc__enter(), for calls that neither measure nor wait: ctx->now_us may be some us old. */
int ripc__enter_hastily(struct ripc_context *ctx);
/* The same for calls in a service: -ESHUTDOWN, too, if the service is closed. */
int ripc__enter_in(const struct ripc_service *service);
int ripc__enter_in_hastily(const struct ripc_service *service);
void ripc__leave(struct ripc_context *ctx);

/* Leaves the context, in which the result was made. */
static inline int ripc__leave_with(struct ripc_context *ctx, int result)
{
	ripc__leave(ctx);
	return result;
}

/*
 * As ripc__enter() and ripc__leave(), for calls that may also be made in a closed context. The
 * caller has a message or buffer of the context, and may free it in between: the context's memory
 * stays until ripc__leave_late().
 */
void ripc__enter_late(struct ripc_context *ctx);
void ripc__leave_late(struct ripc_context *ctx);
/* For work that does not read the clock, and changes nothing that a thread waits for. */
void ripc__lock(struct ripc_context *ctx);
void ripc__unlock(struct ripc_context *ctx);
/* Takes the lock and reads the clock. */
void ripc__lock_timely(struct ripc_context *ctx);
/* Wakes a sleeper if a timer is due before the end of its sleep. */
void ripc__wake_for_timers(struct ripc_context *ctx);
uint64_t ripc__next_deadline(struct ripc_context *ctx);
void ripc__clock_read(struct ripc_context *ctx);
/* Ends the sleep of waiting calls that are ready. */
void ripc__wake_ready(struct ripc_context *ctx);
/* Is the waiter ready, or must its wait end early? */
bool ripc__waiter_is_done(const struct waiter *waiter);
/* Ends the reader's sleep. */
void ripc__kick_reader(struct ripc_context *ctx);

/* Counts polls of the ports by calls. Reading needs no lock. */
static inline uint64_t ripc__activity(struct ripc_context *ctx)
{
	return atomic_load_explicit(&ctx->loop.activity, memory_order_relaxed);
}

/* Counts a poll. Needs the lock. */
static inline void ripc__activity_count(struct ripc_context *ctx)
{
	atomic_store_explicit(&ctx->loop.activity, ripc__activity(ctx) + 1, memory_order_relaxed);
}

/* ---- input ------------------------------------------------------------------------------- */

/* Input: passes received packets to their objects. */

void ripc__input(struct ripc_context *ctx, struct device *device, const struct ripc__event *event);
/* One event that is not a datagram. */
void ripc__input_event(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event);

#endif
