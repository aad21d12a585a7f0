/* SPDX-License-Identifier: BSD-3-Clause */
/* The timer heap against a plain search for the earliest. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "suite.h"
#include "util/timers.h"

#define TIMERS 200

struct world {
	struct ripc__timers timers;
	struct ripc__timer timer[TIMERS];
	uint32_t fired[2 * TIMERS], n_fired; /* which ones, in order */
	uint64_t again_us;                   /* if not 0: set fired timers to this time */
};

static void fire(void *owner, struct ripc__timer *timer)
{
	struct world *world = owner;

	ck_assert_uint_eq(timer->index, 0);
	ck_assert_uint_lt(world->n_fired, 2 * TIMERS);
	world->fired[world->n_fired++] = (uint32_t)(timer - world->timer);
	if (world->again_us)
		ripc__timer_set(&world->timers, timer, world->again_us);
}

static struct world *world_open(void)
{
	struct world *world = calloc(1, sizeof(*world));

	ck_assert_ptr_nonnull(world);
	ripc__timers_init(&world->timers);
	ck_assert_int_eq(ripc__timers_reserve(&world->timers, TIMERS), 0);
	for (int i = 0; i < TIMERS; i++)
		world->timer[i].fire = fire;
	return world;
}

static void world_close(struct world *world)
{
	ripc__timers_free(&world->timers);
	free(world);
}

static bool is_heap(const struct ripc__timers *timers)
{
	for (uint32_t i = 1; i <= timers->count; i++) {
		const struct ripc__timer *timer = timers->heap[i], *parent = timers->heap[i / 2];

		if (timer->index != i)
			return false;
		if (i > 1 && (timer->at_us < parent->at_us ||
				(timer->at_us == parent->at_us && timer->order < parent->order)))
			return false;
	}
	return true;
}

/* The set timer that should fire next: the earliest, of equals the first set. */
static const struct ripc__timer *expected_next(const struct world *world)
{
	const struct ripc__timer *next = NULL;

	for (int i = 0; i < TIMERS; i++) {
		const struct ripc__timer *timer = &world->timer[i];

		if (!timer->index)
			continue;
		if (!next || timer->at_us < next->at_us ||
				(timer->at_us == next->at_us && timer->order < next->order))
			next = timer;
	}
	return next;
}

START_TEST(timer_set__any_order)
{
	struct world *world = world_open();
	uint64_t random = 1;

	for (int i = 0; i < 20000; i++) {
		struct ripc__timer *timer = &world->timer[suite_random(&random) % TIMERS];
		const struct ripc__timer *next;

		if (suite_random(&random) % 4)
			ripc__timer_set(&world->timers, timer, suite_random(&random) % 64);
		else
			ripc__timer_stop(&world->timers, timer);
		ck_assert(is_heap(&world->timers));
		next = expected_next(world);
		ck_assert_uint_eq(ripc__timers_next(&world->timers),
			next ? next->at_us : UINT64_MAX);
	}
	world_close(world);
}
END_TEST

START_TEST(timers_run__due_ones_in_order)
{
	struct world *world = world_open();
	uint32_t n = 0;

	for (uint32_t i = 0; i < TIMERS; i++)
		ripc__timer_set(&world->timers, &world->timer[i], i * 37 % TIMERS / 2);
	for (uint64_t now = 0; now <= TIMERS / 2; now += 5) {
		int fired = ripc__timers_run(&world->timers, now, world);

		ck_assert_uint_eq(world->n_fired, n + (uint32_t)fired);
		for (; n < world->n_fired; n++) {
			const struct ripc__timer *timer = &world->timer[world->fired[n]];
			const struct ripc__timer *last;

			ck_assert_uint_le(timer->at_us, now);
			last = n ? &world->timer[world->fired[n - 1]] : NULL;
			ck_assert(!last || last->at_us < timer->at_us ||
				(last->at_us == timer->at_us && last->order < timer->order));
		}
		ck_assert_uint_gt(ripc__timers_next(&world->timers), now);
	}
	ck_assert_uint_eq(n, TIMERS);
	world_close(world);
}
END_TEST

START_TEST(timers_run__equal_times_in_order_of_setting)
{
	struct world *world = world_open();

	for (uint32_t i = 0; i < TIMERS; i++)
		ripc__timer_set(&world->timers, &world->timer[i], 100);
	ripc__timer_set(&world->timers, &world->timer[0], 100); /* moved: now the last */
	ck_assert_int_eq(ripc__timers_run(&world->timers, 99, world), 0);
	ck_assert_int_eq(ripc__timers_run(&world->timers, 100, world), TIMERS);
	for (uint32_t i = 0; i < TIMERS; i++)
		ck_assert_uint_eq(world->fired[i], (i + 1) % TIMERS);
	world_close(world);
}
END_TEST

START_TEST(timers_run__setting_again_ends)
{
	struct world *world = world_open();

	world->again_us = 1; /* into the past */
	ripc__timer_set(&world->timers, &world->timer[0], 10);
	ripc__timer_set(&world->timers, &world->timer[1], 10);
	ck_assert_int_eq(ripc__timers_run(&world->timers, 10, world), 2);
	ck_assert_uint_eq(world->timers.count, 2);
	world->again_us = 20; /* into the future */
	ck_assert_int_eq(ripc__timers_run(&world->timers, 10, world), 2);
	ck_assert_int_eq(ripc__timers_run(&world->timers, 10, world), 0);
	ck_assert_uint_eq(ripc__timers_next(&world->timers), 20);
	world_close(world);
}
END_TEST

START_TEST(timer_stop__not_set)
{
	struct world *world = world_open();

	ck_assert_uint_eq(ripc__timers_next(&world->timers), UINT64_MAX);
	ripc__timer_stop(&world->timers, &world->timer[0]);
	ck_assert_uint_eq(world->timers.count, 0);
	ck_assert_int_eq(ripc__timers_run(&world->timers, UINT64_MAX, world), 0);
	world_close(world);
}
END_TEST

START_TEST(timers_reserve__keeps_what_is_set)
{
	struct world *world = world_open();

	for (uint32_t i = 0; i < TIMERS; i++)
		ripc__timer_set(&world->timers, &world->timer[i], TIMERS - i);
	ck_assert_int_eq(ripc__timers_reserve(&world->timers, 100000), 0);
	ck_assert_uint_ge(world->timers.capacity, 100000);
	ck_assert(is_heap(&world->timers));
	ck_assert_int_eq(ripc__timers_run(&world->timers, TIMERS, world), TIMERS);
	ck_assert_int_eq(ripc__timers_reserve(&world->timers, UINT32_MAX), -ENOMEM);
	world_close(world);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		timer_set__any_order, timers_run__due_ones_in_order,
		timers_run__equal_times_in_order_of_setting, timers_run__setting_again_ends,
		timer_stop__not_set, timers_reserve__keeps_what_is_set, NULL,
	};

	return suite_run("timers", tests);
}
