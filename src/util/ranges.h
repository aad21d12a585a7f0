/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges of memory in the order of their addresses, to find one that some bytes lie in. They may
 * overlap, or be the same. Putting one there and taking it away moves those behind it; finding one
 * costs O(log n) where they do not overlap.
 */
#ifndef RIPC_RANGES_H
#define RIPC_RANGES_H

#include <stddef.h>
#include <stdint.h>

struct ripc__range {
	const uint8_t *mem;
	size_t len;
	int uses;    /* bits: what it may be used for, in the owner's own terms */
	void *owner; /* whose it is; not NULL */
};

/* Zeroed: there are none. */
struct ripc__ranges {
	struct ripc__range *all;
	uint32_t n, capacity;
};

/* The owners are not touched. */
void ripc__ranges_free(struct ripc__ranges *ranges);
/* Makes room for one more, so that the next ripc__ranges_put cannot fail. -ENOMEM. */
int ripc__ranges_reserve(struct ripc__ranges *ranges);
/* There must be room (ripc__ranges_reserve). */
void ripc__ranges_put(struct ripc__ranges *ranges, const struct ripc__range *range);
/* Takes away the one that begins at mem and is this owner's: it must be there. */
void ripc__ranges_remove(struct ripc__ranges *ranges, const void *mem, const void *owner);
/* Takes away any one, and returns its owner; NULL: there is none. */
void *ripc__ranges_pop(struct ripc__ranges *ranges);
/* The owner of one that has all of [mem, mem + len), and all of these uses; NULL: there is none. */
void *ripc__ranges_find(const struct ripc__ranges *ranges, const void *mem, size_t len, int uses);

#endif
