/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting in calls. */
#ifndef RIPC_WAIT_H
#define RIPC_WAIT_H

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/objects.h"
#include "internal.h"
#include "loop.h"

/* Waits until ready(arg) or the deadline, and does the context's work meanwhile. True: ready. */
bool ripc__wait(struct ripc_context *ctx, bool (*ready)(void *arg), void *arg,
		uint64_t deadline_us);
/*
 * As ripc__wait(), but ripc_wake() of this service (NULL: of none) ends the wait, and so does a
 * signal in a context with RIPC_INTERRUPTIBLE. 1: ready; 0: not in time; -EINTR.
 */
int ripc__wait_or_end(struct ripc_context *ctx, struct ripc_service *service,
		bool (*ready)(void *arg), void *arg, uint64_t deadline_us);
int ripc__wait_open(struct ripc_context *ctx);
void ripc__wait_close(struct ripc_context *ctx);

static inline uint64_t ripc__deadline(const struct ripc_context *ctx, int64_t timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : ctx->now_us + (uint64_t)timeout_ms * 1000;
}

/* ---- interrupt --------------------------------------------------------------------------- */

/*
 * Ending a waiting call early: by ripc_wake(), or, in a context with RIPC_INTERRUPTIBLE, by a
 * signal that the call's thread handles.
 */

/*
 * The signals of a thread, held back while the thread is awake in a call. So each signal is handled
 * in a sleep, and ends the sleep, or is handled after the call. No signal gets lost between the
 * check of the condition and the sleep.
 */
struct signals {
	sigset_t before; /* the signals that the application holds back */
};

/* True: a ripc_wake() had ended no call yet, and is used up now. */
bool ripc__wake_take(_Atomic uint32_t *wakes);

static inline bool ripc__wake_pending(const _Atomic uint32_t *wakes)
{
	return atomic_load_explicit(wakes, memory_order_relaxed) > 0;
}

/* ---- readiness --------------------------------------------------------------------------- */

/* Descriptors that threads sleep on: of ports and resolver, and eventfds that end a sleep. */

#define POLLS_MAX 25 /* the kick, 8 of the resolver, 8 devices with two each */

/* Ends the sleep of the progress thread. */
void ripc__thread_kick(struct ripc_context *ctx);
/*
 * Adds the ports' descriptors behind the first n, except those of "but" (may be NULL). *ticks: a
 * port has none.
 */
nfds_t ripc__ports_add(struct ripc_context *ctx, struct pollfd *fds, nfds_t n, bool *ticks,
		const struct device *but);
/* Arms the ports except that of "but" (may be NULL). False: an event came in while arming. */
bool ripc__ports_arm(struct ripc_context *ctx, const struct device *but);
/* Adds the resolver's descriptors. */
nfds_t ripc__resolver_add(struct ripc_context *ctx, struct pollfd *fds, nfds_t n);
/*
 * Sleeps, without the lock, until a descriptor is readable or until_us (UINT64_MAX: for ever).
 * mask: the signals that are held back meanwhile; NULL: as before. False: a signal was handled.
 */
bool ripc__sleep_on(struct pollfd *fds, nfds_t n, uint64_t now_us, uint64_t until_us,
		const sigset_t *mask);
/* The descriptor of all ports, for the application's event loop; made at the first call. */
int ripc__context_fd(struct ripc_context *ctx);
/*
 * No call polls the ports from now on, but the application may sleep on descriptors. Either the
 * progress thread takes the ports over at once, or packets make the context's descriptor readable.
 */
void ripc__ports_leave(struct ripc_context *ctx);

/* May the application sleep on descriptors of this context? */
static inline bool ripc__has_descriptors(const struct ripc_context *ctx)
{
	return ctx->loop.n_event_fds > 0 || ctx->loop.ports_fd >= 0;
}

bool ripc__any_revents(const struct pollfd *fds, nfds_t n);

/* ---- thread ------------------------------------------------------------------------------ */

/* The progress thread, which does the work while no call does. */

int ripc__thread_start(struct ripc_context *ctx);
void ripc__thread_end(struct ripc_context *ctx);

#endif
