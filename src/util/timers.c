/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timer heap of timers.h. Owns the array of pointers, never the timers. Invariants:
 * heap[1..count] are the set timers, each knows its index, and none comes before its parent
 * heap[index / 2].
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

#include "util/timers.h"

static inline bool before(const struct ripc__timer *a, const struct ripc__timer *b)
{
	return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static inline void place(struct ripc__timers *timers, struct ripc__timer *timer, uint32_t index)
{
	timers->heap[index] = timer;
	timer->index = index;
}

static void sift_up(struct ripc__timers *timers, struct ripc__timer *timer, uint32_t index)
{
	while (index > 1 && before(timer, timers->heap[index / 2])) {
		place(timers, timers->heap[index / 2], index);
		index /= 2;
	}
	place(timers, timer, index);
}

static void sift_down(struct ripc__timers *timers, struct ripc__timer *timer, uint32_t index)
{
	for (uint64_t child = 2ull * index; child <= timers->count; child = 2ull * index) {
		struct ripc__timer **heap = timers->heap;

		if (child < timers->count && before(heap[child + 1], heap[child]))
			child++;
		if (!before(heap[child], timer))
			break;
		place(timers, heap[child], index);
		index = (uint32_t)child;
	}
	place(timers, timer, index);
}

/* Puts a timer at index, whose neighbours may be earlier or later than it. */
static void settle(struct ripc__timers *timers, struct ripc__timer *timer, uint32_t index)
{
	if (index > 1 && before(timer, timers->heap[index / 2]))
		sift_up(timers, timer, index);
	else
		sift_down(timers, timer, index);
}

void ripc__timers_init(struct ripc__timers *timers)
{
	*timers = (struct ripc__timers){0};
}

void ripc__timers_free(struct ripc__timers *timers)
{
	for (uint32_t i = 1; i <= timers->count; i++)
		timers->heap[i]->index = 0;
	free(timers->heap);
	ripc__timers_init(timers);
}

int ripc__timers_reserve(struct ripc__timers *timers, uint32_t n)
{
	uint64_t capacity = timers->capacity ? timers->capacity : 16;
	struct ripc__timer **heap;

	if (n <= timers->capacity)
		return 0;
	while (capacity < n)
		capacity *= 2;
	if (capacity >= UINT32_MAX || capacity + 1 > SIZE_MAX / sizeof(*heap))
		return -ENOMEM;
	heap = realloc(timers->heap, (size_t)(capacity + 1) * sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	timers->heap = heap;
	timers->capacity = (uint32_t)capacity;
	return 0;
}

void ripc__timer_set(struct ripc__timers *timers, struct ripc__timer *timer, uint64_t at_us)
{
	timer->at_us = at_us;
	timer->order = timers->order++;
	settle(timers, timer, timer->index ? timer->index : ++timers->count);
}

void ripc__timer_stop(struct ripc__timers *timers, struct ripc__timer *timer)
{
	struct ripc__timer *last;
	uint32_t index = timer->index;

	if (!index)
		return;
	timer->index = 0;
	last = timers->heap[timers->count--];
	if (last != timer)
		settle(timers, last, index);
}

uint64_t ripc__timers_next(const struct ripc__timers *timers)
{
	return timers->count ? timers->heap[1]->at_us : UINT64_MAX;
}

int ripc__timers_run(struct ripc__timers *timers, uint64_t now_us, void *owner)
{
	/* A timer that sets itself again into the past must not keep us here for ever. */
	uint32_t most = timers->count < INT_MAX ? timers->count : INT_MAX;
	uint32_t fired = 0;

	while (fired < most && ripc__timers_next(timers) <= now_us && timers->count) {
		struct ripc__timer *timer = timers->heap[1];

		ripc__timer_stop(timers, timer);
		timer->fire(owner, timer);
		fired++;
	}
	return (int)fired;
}
