/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timers in a binary heap. A timer is a member of the object that it times; setting, moving and
 * stopping cost O(log n). Equal times fire in the order in which they were set: a run can be
 * repeated exactly.
 */
#ifndef RIPC_TIMERS_H
#define RIPC_TIMERS_H

#include <stdint.h>

struct ripc__timer {
	uint64_t at_us;  /* when; meaningful while set */
	uint64_t order;  /* of setting */
	uint32_t index;  /* in the heap, from 1; 0: not set */
	void (*fire)(void *owner, struct ripc__timer *timer);
};

struct ripc__timers {
	struct ripc__timer **heap; /* heap[0] is unused */
	uint32_t count, capacity;
	uint64_t order;
};

void ripc__timers_init(struct ripc__timers *timers);
void ripc__timers_free(struct ripc__timers *timers);
/* Makes room for n timers to be set at once: ripc__timer_set then cannot fail. -ENOMEM. */
int ripc__timers_reserve(struct ripc__timers *timers, uint32_t n);
/* Sets or moves a timer. There must be room (ripc__timers_reserve). */
void ripc__timer_set(struct ripc__timers *timers, struct ripc__timer *timer, uint64_t at_us);
void ripc__timer_stop(struct ripc__timers *timers, struct ripc__timer *timer);
/* When the next one fires, UINT64_MAX if none is set. */
uint64_t ripc__timers_next(const struct ripc__timers *timers);
/* Fires all that are due, each stopped before it fires. Returns how many. */
int ripc__timers_run(struct ripc__timers *timers, uint64_t now_us, void *owner);

#endif
