/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ending a waiting call early: by ripc_wake(), or, in a context with RIPC_INTERRUPTIBLE, by a
 * signal that the call's thread handles.
 */
#ifndef RIPC_INTERRUPT_H
#define RIPC_INTERRUPT_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The signals of a thread, held back while the thread is awake in a call. So each signal is handled
 * in a sleep, and ends the sleep, or is handled after the call. No signal gets lost between the
 * check of the condition and the sleep.
 */
struct signals {
	sigset_t before; /* the signals that the application holds back */
};

void ripc__signals_hold(struct signals *signals);
void ripc__signals_release(const struct signals *signals);
/* Handles the signals that are pending; true: there was one. Without the lock. */
bool ripc__signals_came(const struct signals *signals);
/* True: a ripc_wake() had ended no call yet, and is used up now. */
bool ripc__wake_take(_Atomic uint32_t *wakes);

static inline bool ripc__wake_pending(const _Atomic uint32_t *wakes)
{
	return atomic_load_explicit(wakes, memory_order_relaxed) > 0;
}

#endif
