/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranges of ranges.h: an array of them, which it owns. Invariant: all[0..n) begin in the order
 * of their addresses.
 */
#include "util/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_FIRST 8u

/* The index of the first range that begins behind mem. */
static uint32_t index_behind(const struct ripc__ranges *ranges, const uint8_t *mem)
{
	uint32_t low = 0, high = ranges->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ranges->all[middle].mem <= mem)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void ripc__ranges_free(struct ripc__ranges *ranges)
{
	free(ranges->all);
	*ranges = (struct ripc__ranges){0};
}

int ripc__ranges_reserve(struct ripc__ranges *ranges)
{
	uint32_t capacity = ranges->capacity ? 2 * ranges->capacity : CAPACITY_FIRST;
	struct ripc__range *grown;

	if (ranges->n < ranges->capacity)
		return 0;
	grown = realloc(ranges->all, capacity * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	ranges->all = grown;
	ranges->capacity = capacity;
	return 0;
}

void ripc__ranges_put(struct ripc__ranges *ranges, const struct ripc__range *range)
{
	uint32_t at = index_behind(ranges, range->mem);

	memmove(ranges->all + at + 1, ranges->all + at, (ranges->n - at) * sizeof(*range));
	ranges->all[at] = *range;
	ranges->n++;
}

void ripc__ranges_remove(struct ripc__ranges *ranges, const void *mem, const void *owner)
{
	uint32_t at = index_behind(ranges, mem);

	/* Several may begin there. */
	while (ranges->all[--at].owner != owner)
		;
	ranges->n--;
	memmove(ranges->all + at, ranges->all + at + 1, (ranges->n - at) * sizeof(ranges->all[0]));
}

void *ripc__ranges_pop(struct ripc__ranges *ranges)
{
	return ranges->n ? ranges->all[--ranges->n].owner : NULL;
}

void *ripc__ranges_find(const struct ripc__ranges *ranges, const void *mem, size_t len, int uses)
{
	const uint8_t *start = mem;

	/* Ranges seldom overlap, so it is nearly always the first one looked at. */
	for (uint32_t at = index_behind(ranges, start); at-- > 0;) {
		const struct ripc__range *range = &ranges->all[at];
		size_t offset = (size_t)(start - range->mem);

		if ((range->uses & uses) == uses && offset <= range->len &&
				len <= range->len - offset)
			return range->owner;
	}
	return NULL;
}
