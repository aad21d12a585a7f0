/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a waiting call is ended before its time: by ripc_wake(), or, where the context is
 * RIPC_INTERRUPTIBLE, by a signal that its thread handles.
 */
#ifndef RIPC_INTERRUPT_H
#define RIPC_INTERRUPT_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The signals of a thread, held back while it is awake in a call: so each is handled in a sleep,
 * which it ends, or after the call. None gets lost between a look at what is awaited and the sleep.
 */
struct signals {
	sigset_t before; /* those that the application holds back */
};

void ripc__signals_hold(struct signals *signals);
void ripc__signals_release(const struct signals *signals);
/* Handles those that are waiting; true: there was one. Without the lock. */
bool ripc__signals_came(const struct signals *signals);
/* Has somebody called ripc_wake() who has ended no call yet? And takes that: true. */
bool ripc__wake_take(_Atomic uint32_t *wakes);

static inline bool ripc__wake_pending(const _Atomic uint32_t *wakes)
{
	return atomic_load_explicit(wakes, memory_order_relaxed) > 0;
}

#endif
