/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processor's own count of time: shows, for a tenth of the cost of a clock, that a moment
 * has not passed. Its unit is unknown (one to five in a nanosecond), and it may differ between
 * processors: a difference that looks short can be believed, any other needs a clock.
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

/* Other processors count too slowly for a few ticks to prove anything. */
static inline bool ripc__ticks_within(uint64_t since, uint64_t ticks)
{
	(void)since;
	(void)ticks;
	return false;
}
#endif

#endif
