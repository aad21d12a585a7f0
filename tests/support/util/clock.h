/* SPDX-License-Identifier: BSD-3-Clause */
/* The real time of a test, in milliseconds since some moment. */
#ifndef TEST_CLOCK_H
#define TEST_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

#endif
