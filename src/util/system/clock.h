/* SPDX-License-Identifier: BSD-3-Clause */
/* Clocks of the operating system. */
#ifndef RIPC_SYSTEM_CLOCK_H
#define RIPC_SYSTEM_CLOCK_H

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

#endif
