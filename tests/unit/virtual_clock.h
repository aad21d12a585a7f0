/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The monotonic clock of a test that is linked with --wrap=clock_gettime: it stands still but for
 * clock_pass(), so nothing is late because the machine is busy, and nobody waits for what is due.
 */
#ifndef TEST_VIRTUAL_CLOCK_H
#define TEST_VIRTUAL_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);

/* Far ahead of the real one: what is set for a time of it is never due to the kernel. */
static _Atomic uint64_t clock_us = 1ull << 50;

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	uint64_t us = clock_us;

	if (id != CLOCK_MONOTONIC)
		return __real_clock_gettime(id, now);
	*now = (struct timespec){.tv_sec = (time_t)(us / 1000000),
		.tv_nsec = (long)(us % 1000000) * 1000};
	return 0;
}

static inline void clock_pass(uint64_t us)
{
	clock_us += us;
}

#endif
