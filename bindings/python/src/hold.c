/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory posted to the library: a table whose places are the cookies that the library sees. A place
 * that is taken anew gets another generation, so that a late word of the old one finds nothing.
 */
#include "binding.h"

#include <string.h>

#define FIRST_PLACES 16u

static int grow(struct holds *holds)
{
	uint32_t n = holds->n ? 2 * holds->n : FIRST_PLACES;
	struct hold *table = PyMem_Realloc(holds->table, n * sizeof(*table));

	if (!table)
		return -1;
	memset(table + holds->n, 0, (n - holds->n) * sizeof(*table));
	for (uint32_t i = holds->n; i < n; i++)
		table[i].next_free = i + 1;
	holds->first_free = holds->n;
	holds->table = table;
	holds->n = n;
	return 0;
}

/* NULL with *failed unset: there are none. */
static Py_buffer *views_take(struct items *items, bool *failed)
{
	Py_buffer *views;

	if (!items || !items->n)
		return NULL;
	views = PyMem_Malloc(items->n * sizeof(*views));
	if (views)
		memcpy(views, items->views, items->n * sizeof(*views));
	else
		*failed = true;
	return views;
}

static uint32_t n_of(struct items *items)
{
	return items ? items->n : 0;
}

uint64_t hold_take(struct holds *holds, enum hold_kind kind, PyObject *cookie,
		struct items *items, struct items *returns)
{
	bool failed = holds->first_free == holds->n && grow(holds);
	Py_buffer *of_items = failed ? NULL : views_take(items, &failed);
	Py_buffer *of_returns = failed ? NULL : views_take(returns, &failed);
	uint32_t place = holds->first_free;
	struct hold *hold;

	if (failed) {
		PyMem_Free(of_items);
		PyErr_NoMemory();
		return 0;
	}
	hold = &holds->table[place];
	holds->first_free = hold->next_free;
	*hold = (struct hold){.generation = hold->generation + 1, .kind = (uint8_t)kind,
		.n_items = (uint8_t)n_of(items), .n_returns = (uint8_t)n_of(returns),
		.items = of_items, .returns = of_returns, .cookie = cookie};
	Py_XINCREF(cookie);
	if (items)
		items->n = 0;
	if (returns)
		returns->n = 0;
	return hold_cookie(holds, place);
}

uint64_t hold_cookie(const struct holds *holds, uint32_t place)
{
	return (uint64_t)holds->table[place].generation << 32 | (place + 1);
}

int hold_adopt(struct hold *hold, struct items *items)
{
	bool failed = false;

	hold->items = views_take(items, &failed);
	if (failed)
		return -1;
	hold->n_items = (uint8_t)items->n;
	items->n = 0;
	return 0;
}

struct hold *hold_get(struct holds *holds, uint64_t cookie)
{
	uint32_t place = (uint32_t)cookie - 1;
	struct hold *hold = place < holds->n ? &holds->table[place] : NULL;

	return hold && hold->kind != HOLD_FREE && hold->generation == cookie >> 32 ? hold : NULL;
}

static void place_free(struct holds *holds, struct hold *hold)
{
	hold->kind = HOLD_FREE;
	hold->next_free = holds->first_free;
	holds->first_free = (uint32_t)(hold - holds->table);
}

/* The place is free, or changed, before any Python code runs. */
static void let_go(struct holds *holds, struct hold *hold, bool items, bool returns)
{
	Py_buffer *of_items = items ? hold->items : NULL;
	Py_buffer *of_returns = returns ? hold->returns : NULL;
	uint32_t n_items = items ? hold->n_items : 0, n_returns = returns ? hold->n_returns : 0;
	PyObject *cookie = NULL;

	if (items) {
		hold->items = NULL;
		hold->n_items = 0;
	}
	if (returns) {
		hold->returns = NULL;
		hold->n_returns = 0;
	}
	if (!hold->n_items && !hold->n_returns) {
		cookie = hold->cookie;
		hold->cookie = NULL;
		place_free(holds, hold);
	}
	views_release(of_items, n_items);
	views_release(of_returns, n_returns);
	PyMem_Free(of_items);
	PyMem_Free(of_returns);
	Py_XDECREF(cookie);
}

void hold_items_end(struct holds *holds, struct hold *hold)
{
	let_go(holds, hold, true, false);
}

void hold_returns_end(struct holds *holds, struct hold *hold)
{
	let_go(holds, hold, false, true);
}

void hold_end(struct holds *holds, struct hold *hold)
{
	let_go(holds, hold, true, true);
}

void hold_undo(struct holds *holds, uint64_t cookie)
{
	struct hold *hold = hold_get(holds, cookie);

	if (hold)
		hold_end(holds, hold);
}

void holds_clear(struct holds *holds)
{
	for (uint32_t i = 0; i < holds->n; i++)
		if (holds->table[i].kind != HOLD_FREE)
			hold_end(holds, &holds->table[i]);
	PyMem_Free(holds->table);
	*holds = (struct holds){0};
}

int holds_visit(struct holds *holds, visitproc visit, void *arg)
{
	for (uint32_t i = 0; i < holds->n; i++) {
		struct hold *hold = &holds->table[i];

		if (hold->kind == HOLD_FREE)
			continue;
		Py_VISIT(hold->cookie);
		for (uint32_t item = 0; item < hold->n_items; item++)
			Py_VISIT(hold->items[item].obj);
		for (uint32_t item = 0; item < hold->n_returns; item++)
			Py_VISIT(hold->returns[item].obj);
	}
	return 0;
}
