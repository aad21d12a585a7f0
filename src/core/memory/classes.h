/* SPDX-License-Identifier: BSD-3-Clause */
/* The lengths that blocks of the pool have. */
#ifndef RIPC_CLASSES_H
#define RIPC_CLASSES_H

#include <stddef.h>
#include <stdint.h>

#define UNIT       64u           /* blocks are multiples of this, and aligned to it */
#define BLOCK_MAX  (512u << 10)  /* longest block of a small slab */
#define CLASSES    26u           /* 1, 2, 3, 4, 6, 8, 12, 16 ... 8192 units */

/* The class of a length: classes are powers of two and the midpoints between them, in units. */
static inline uint32_t class_of(size_t len)
{
	uint32_t units = len ? (uint32_t)((len + UNIT - 1) / UNIT) : 1, bits;

	if (units == 1)
		return 0;
	bits = 32 - (uint32_t)__builtin_clz(units - 1);
	return 2 * bits - (units <= 3u << bits >> 2 && bits > 1 ? 2 : 1);
}

static inline size_t class_len(uint32_t class)
{
	if (class % 2 == 0)
		return class ? (size_t)UNIT * (3u << (class / 2 - 1)) : UNIT;
	return (size_t)UNIT << (class + 1) / 2;
}

/* A big block is rounded up by at most an eighth, so that its slab can serve later buffers. */
static inline size_t big_len(size_t len)
{
	size_t step = (size_t)1 << (63 - __builtin_clzll(len)) >> 3;

	return (len + step - 1) & ~(step - 1);
}

#endif
