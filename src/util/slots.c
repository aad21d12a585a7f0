/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of slots.h: growing and freeing. Owns the arrays, never the values. */
#include <errno.h>
#include <stdlib.h>

#include "util/slots.h"

#define SLOTS_FIRST 16u

void ripc__slots_free(struct ripc__slots *slots)
{
	free(slots->values);
	free(slots->stack);
	*slots = (struct ripc__slots){0};
}

int ripc__slots_grow(struct ripc__slots *slots)
{
	uint32_t n = slots->n ? slots->n + slots->n / 4 : SLOTS_FIRST;
	uint16_t *stack;
	void **values;

	if (slots->n_free)
		return 0;
	n = n < RIPC_SLOTS_MAX ? n : RIPC_SLOTS_MAX;
	if (n == slots->n)
		return -ENOMEM;
	values = realloc(slots->values, n * sizeof(*values));
	if (!values)
		return -ENOMEM;
	slots->values = values;
	stack = realloc(slots->stack, n * sizeof(*stack));
	if (!stack)
		return -ENOMEM;
	slots->stack = stack;
	for (uint32_t i = n; i > slots->n; i--) {
		values[i - 1] = NULL;
		stack[slots->n_free++] = (uint16_t)(i - 1);
	}
	slots->n = n;
	return 0;
}
