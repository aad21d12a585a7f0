/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processor's own count of time: says, for a tenth of what a clock costs, that a moment has
 * not passed. Its unit is unknown (one to five in a nanosecond), and it may differ between
 * processors: a difference that looks short can be believed, any other asks for a clock.
 */
#ifndef RIPC_UTIL_TICKS_H
#define RIPC_UTIL_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
static inline uint64_t ripc__ticks(void)
{
	return __builtin_ia32_rdtsc();
}

static inline bool ripc__ticks_within(uint64_t since, uint64_t ticks)
{
	return ripc__ticks() - since < ticks;
}
#else
static inline uint64_t ripc__ticks(void)
{
	return 0;
}

/* Others count so slowly that a few say nothing. */
static inline bool ripc__ticks_within(uint64_t since, uint64_t ticks)
{
	(void)since;
	(void)ticks;
	return false;
}
#endif

#endif
