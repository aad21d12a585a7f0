/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock of a context, and sleeping beside it. */
#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "suite.h"
#include "util/system/thread.h"

#define THREADS 4u
#define ROUNDS  20000u

static struct ripc__mutex mutex;
static struct ripc__sleep sleeper;
static uint32_t count; /* under the lock */
static bool is_asleep; /* under the lock */

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void *count_up(void *arg)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		ripc__mutex_lock(&mutex);
		count++;
		ripc__mutex_unlock(&mutex);
		if (arg)
			ripc__mutex_give_way(&mutex);
	}
	return NULL;
}

/* All threads get it in the end, alone, and none is counted as waiting after that. */
START_TEST(lock__is_had_by_one_at_a_time)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, count_up, (void *)(i % 2)), 0);
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(count, THREADS * ROUNDS);
	ck_assert_uint_eq(mutex.word, 0);
	ck_assert_uint_eq(mutex.waiters, 0);
}
END_TEST

static void *take_once(void *arg)
{
	(void)arg;
	ripc__mutex_lock(&mutex);
	count = 1;
	ripc__mutex_unlock(&mutex);
	return NULL;
}

/* A thread that has fallen asleep over it is woken. */
START_TEST(lock__wakes_a_sleeper)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	pthread_t thread;

	ripc__mutex_lock(&mutex);
	ck_assert_int_eq(pthread_create(&thread, NULL, take_once, NULL), 0);
	while (mutex.word != 2)
		nanosleep(&moment, NULL);
	ck_assert_uint_eq(mutex.waiters, 1);
	ck_assert_uint_eq(count, 0);
	ripc__mutex_unlock(&mutex);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(count, 1);
	ck_assert_uint_eq(mutex.waiters, 0);
}
END_TEST

static void *sleep_until_ended(void *arg)
{
	ripc__mutex_lock(&mutex);
	while (!count) {
		is_asleep = true;
		ripc__sleep(&sleeper, &mutex, *(uint64_t *)arg);
	}
	count = 2;
	ripc__mutex_unlock(&mutex);
	return NULL;
}

/* The lock is free meanwhile; the end is not missed, whenever it comes. */
START_TEST(sleep__is_ended)
{
	uint64_t never = UINT64_MAX, late = now_us() + 3600000000;

	for (uint32_t i = 0; i < 200; i++) {
		pthread_t thread;
		bool began = false;

		count = 0;
		is_asleep = false;
		ck_assert_int_eq(pthread_create(&thread, NULL, sleep_until_ended,
			i % 2 ? &never : &late), 0);
		while (!began) {
			ripc__mutex_lock(&mutex);
			began = is_asleep;
			if (began) {
				count = 1;
				ripc__sleep_end(&sleeper);
			}
			ripc__mutex_unlock(&mutex);
		}
		pthread_join(thread, NULL);
		ck_assert_uint_eq(count, 2);
	}
}
END_TEST

/* In the past, and soon: it returns with the lock. */
START_TEST(sleep__ends_by_itself)
{
	uint64_t soon_us;

	ripc__mutex_lock(&mutex);
	ripc__sleep(&sleeper, &mutex, 0);
	ck_assert_uint_eq(mutex.word, 1);
	soon_us = now_us() + 2000;
	while (now_us() < soon_us)
		ripc__sleep(&sleeper, &mutex, soon_us);
	ck_assert_uint_eq(mutex.word, 1);
	ripc__mutex_unlock(&mutex);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{lock__is_had_by_one_at_a_time, 1},
		{lock__wakes_a_sleeper, 1},
		{sleep__is_ended, 1},
		{sleep__ends_by_itself, 1},
		{NULL, 0},
	};

	return suite_run_loops("mutex", loops);
}
