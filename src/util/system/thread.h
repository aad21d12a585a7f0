/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of the library: the application's signals are not for them. */
#ifndef RIPC_UTIL_THREAD_H
#define RIPC_UTIL_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* Makes a thread that has all signals blocked. 0, or a positive errno. */
int ripc__thread_make(pthread_t *thread, void *(*begin)(void *arg), void *arg);

/* ---- mutex ------------------------------------------------------------------------------- */

/*
 * A lock of one word, and sleeping until another thread ends that (futex(2); the states are
 * those of the second mutex in Drepper, "Futexes are tricky", 2011). Locking and unlocking are a
 * few instructions in place, where pthread's are two calls: a short message locks and unlocks twice
 * (docs/decisions/threads.md). Works in this process only; not for signal handlers; does not
 * recurse. All zero: free.
 */

struct ripc__mutex {
	_Atomic uint32_t word; /* 0: free, 1: taken, 2: taken, and others may sleep */
	_Atomic uint32_t waiters;
};

/* Sleeps until the caller has the lock. */
void ripc__mutex_wait(struct ripc__mutex *mutex);
/* Wakes a thread that waits for the lock. */
void ripc__mutex_wake(struct ripc__mutex *mutex);

static inline void ripc__mutex_lock(struct ripc__mutex *mutex)
{
	uint32_t expected = 0;

	if (!atomic_compare_exchange_strong_explicit(&mutex->word, &expected, 1,
			memory_order_acquire, memory_order_relaxed))
		ripc__mutex_wait(mutex);
}

static inline void ripc__mutex_unlock(struct ripc__mutex *mutex)
{
	if (atomic_exchange_explicit(&mutex->word, 0, memory_order_release) == 2)
		ripc__mutex_wake(mutex);
}

/*
 * Called without the lock. A thread that took the lock again at once would be before all threads
 * that wait for it, because these wake up late.
 */
void ripc__mutex_give_way(const struct ripc__mutex *mutex);

/* The sleep of a thread that others can end. The condition is under the lock. */
struct ripc__sleep {
	_Atomic uint32_t ended;
};

/*
 * With the lock, which is unlocked meanwhile. Returns after ripc__sleep_end(), at until_us (of
 * CLOCK_MONOTONIC; UINT64_MAX: never), or for no reason.
 */
void ripc__sleep(struct ripc__sleep *sleep, struct ripc__mutex *mutex, uint64_t until_us);
/* With the lock. */
void ripc__sleep_end(struct ripc__sleep *sleep);

#endif
