/* SPDX-License-Identifier: BSD-3-Clause */
/* The lesser of two numbers. */
#ifndef RIPC_UTIL_BOUNDS_H
#define RIPC_UTIL_BOUNDS_H

#include <stdint.h>

static inline uint64_t ripc__least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif
