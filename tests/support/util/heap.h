/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that a process has from the allocator; 0 where that does not tell. */
#ifndef TEST_HEAP_H
#define TEST_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __GLIBC__
#include <malloc.h>

/* Since glibc 2.33; what came before it counts in int, which is enough for a test. */
#if __GLIBC_PREREQ(2, 33)
#define HEAP_INFO mallinfo2
#else
#define HEAP_INFO mallinfo
#endif

static inline size_t heap_bytes(void)
{
	struct HEAP_INFO info = HEAP_INFO();

	return (size_t)info.uordblks + (size_t)info.hblkhd;
}

#else

static inline size_t heap_bytes(void)
{
	return 0;
}

#endif

#endif
