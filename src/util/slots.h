/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table of pointers by number, from 0 to 65,535: a token that has a number beside some random
 * bits leads to its object without a search. The table grows by a quarter.
 */
#ifndef RIPC_SLOTS_H
#define RIPC_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#define RIPC_SLOTS_MAX 65536u

struct ripc__slots {
	void **values;    /* NULL: free */
	uint16_t *stack;  /* numbers of free ones */
	uint32_t n, n_free;
};

void ripc__slots_free(struct ripc__slots *slots); /* frees the table, not the values */
/* Makes sure that a slot is free. -ENOMEM: no memory, or RIPC_SLOTS_MAX are taken. */
int ripc__slots_grow(struct ripc__slots *slots);

/* Takes a free slot, of which there must be one, for a value, not NULL. Returns its number. */
static inline uint32_t ripc__slots_put(struct ripc__slots *slots, void *value)
{
	uint32_t slot = slots->stack[--slots->n_free];

	slots->values[slot] = value;
	return slot;
}

static inline void ripc__slots_clear(struct ripc__slots *slots, uint32_t slot)
{
	slots->values[slot] = NULL;
	slots->stack[slots->n_free++] = (uint16_t)slot;
}

/* The value of the slot; NULL: none. slot may be any number. */
static inline void *ripc__slots_get(const struct ripc__slots *slots, uint64_t slot)
{
	return slot < slots->n ? slots->values[slot] : NULL;
}

/* Bytes of the table. */
static inline size_t ripc__slots_bytes(const struct ripc__slots *slots)
{
	return slots->n * (sizeof(*slots->values) + sizeof(*slots->stack));
}

#endif
