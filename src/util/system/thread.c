/* SPDX-License-Identifier: BSD-3-Clause */
/* See thread.h. */
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "thread.h"
#include "util/rare.h"

int ripc__thread_make(pthread_t *thread, void *(*begin)(void *arg), void *arg)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, NULL, begin, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

/* ---- mutex ------------------------------------------------------------------------------- */

/* The lock's behaviour when it is not free at once, and sleeping. */

#define TRIES  64u /* of some ten to a hundred cycles each */
#define YIELDS 64u /* of about a microsecond each */

/*
 * Sleeps until the word differs from so, another thread wakes us, it is until (NULL: never), or
 * for no reason.
 */
static void futex_wait(_Atomic uint32_t *word, uint32_t so, const struct timespec *until)
{
	/* The bit set that matches all: only thus is the time an absolute one (futex(2)). */
	syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, so, until, NULL,
		FUTEX_BITSET_MATCH_ANY);
}

static void futex_wake_one(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool try_lock(struct ripc__mutex *mutex)
{
	uint32_t expected = 0;

	return atomic_load_explicit(&mutex->word, memory_order_relaxed) == 0 &&
		atomic_compare_exchange_strong_explicit(&mutex->word, &expected, 1,
			memory_order_acquire, memory_order_relaxed);
}

static void pause_a_little(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Tries for less time than falling asleep takes: most owners hold the lock for less than that. */
static bool lock_soon(struct ripc__mutex *mutex)
{
	for (uint32_t i = 0; i < TRIES; i++) {
		if (try_lock(mutex))
			return true;
		pause_a_little();
	}
	return false;
}

RIPC__RARE void ripc__mutex_wait(struct ripc__mutex *mutex)
{
	atomic_fetch_add_explicit(&mutex->waiters, 1, memory_order_relaxed);
	if (!lock_soon(mutex)) {
		/* A thread that has slept cannot know that it was the last one. */
		while (atomic_exchange_explicit(&mutex->word, 2, memory_order_acquire) != 0)
			futex_wait(&mutex->word, 2, NULL);
	}
	atomic_fetch_sub_explicit(&mutex->waiters, 1, memory_order_relaxed);
}

RIPC__RARE void ripc__mutex_wake(struct ripc__mutex *mutex)
{
	futex_wake_one(&mutex->word);
}

void ripc__mutex_give_way(const struct ripc__mutex *mutex)
{
	for (uint32_t i = 0; i < YIELDS; i++) {
		if (atomic_load_explicit(&mutex->waiters, memory_order_relaxed) == 0)
			return;
		sched_yield();
	}
}

void ripc__sleep(struct ripc__sleep *sleep, struct ripc__mutex *mutex, uint64_t until_us)
{
	const struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
		.tv_nsec = (long)(until_us % 1000000) * 1000};

	atomic_store_explicit(&sleep->ended, 0, memory_order_relaxed);
	ripc__mutex_unlock(mutex);
	futex_wait(&sleep->ended, 0, until_us == UINT64_MAX ? NULL : &until);
	ripc__mutex_lock(mutex);
}

void ripc__sleep_end(struct ripc__sleep *sleep)
{
	atomic_store_explicit(&sleep->ended, 1, memory_order_relaxed);
	futex_wake_one(&sleep->ended);
}
