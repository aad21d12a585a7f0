/* SPDX-License-Identifier: BSD-3-Clause */
/* Clocks: those of the operating system, and the processor's own count of time. */
#ifndef RIPC_SYSTEM_CLOCK_H
#define RIPC_SYSTEM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t ripc__clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The monotonic clock. */
static inline uint64_t ripc__clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* The earlier of two times. */
static inline uint64_t ripc__least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * The processor's own count of time: shows, for a tenth of the cost of a clock, that a moment
 * has not passed. Its unit is unknown (one to five in a nanosecond), and it may differ between
 * processors: a difference that looks short can be believed, any other needs a clock.
 */
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
