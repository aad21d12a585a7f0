/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory of the application, for the pool, whose lock protects it. Owns the list. */
#include "foreign.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ripc__piece {
	uint8_t *base;
	size_t len;
};

/* How many pieces begin at or before at. */
static uint32_t count_before(const struct ripc__foreign *foreign, uintptr_t at)
{
	uint32_t low = 0, high = foreign->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if ((uintptr_t)foreign->pieces[middle].base <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool ripc__foreign_overlap(const void *a, size_t a_len, const void *b, size_t b_len)
{
	return (uintptr_t)a < (uintptr_t)b + b_len && (uintptr_t)b < (uintptr_t)a + a_len;
}

static int reserve(struct ripc__foreign *foreign)
{
	uint32_t capacity = foreign->capacity ? 2 * foreign->capacity : 8;
	struct ripc__piece *pieces;

	if (foreign->n < foreign->capacity)
		return 0;
	pieces = reallocarray(foreign->pieces, capacity, sizeof(*pieces));
	if (!pieces)
		return -ENOMEM;
	foreign->pieces = pieces;
	foreign->capacity = capacity;
	return 0;
}

int ripc__foreign_add(struct ripc__foreign *foreign, void *buf, size_t len)
{
	uint32_t at = count_before(foreign, (uintptr_t)buf + len - 1);
	int err;

	if (at && ripc__foreign_overlap(buf, len, foreign->pieces[at - 1].base,
			foreign->pieces[at - 1].len))
		return -EEXIST;
	err = reserve(foreign);
	if (err)
		return err;
	memmove(foreign->pieces + at + 1, foreign->pieces + at,
		(foreign->n - at) * sizeof(*foreign->pieces));
	foreign->pieces[at] = (struct ripc__piece){buf, len};
	foreign->n++;
	return 0;
}

int ripc__foreign_remove(struct ripc__foreign *foreign, const void *buf)
{
	uint32_t n = count_before(foreign, (uintptr_t)buf);

	if (!n || foreign->pieces[n - 1].base != buf)
		return -ENOENT;
	memmove(foreign->pieces + n - 1, foreign->pieces + n,
		(foreign->n - n) * sizeof(*foreign->pieces));
	foreign->n--;
	return 0;
}

bool ripc__foreign_contains(const struct ripc__foreign *foreign, const void *buf, size_t len)
{
	uint32_t n = count_before(foreign, (uintptr_t)buf);
	const struct ripc__piece *piece;
	size_t offset;

	if (!n)
		return false;
	piece = &foreign->pieces[n - 1];
	offset = (size_t)((uintptr_t)buf - (uintptr_t)piece->base);
	return offset < piece->len && len <= piece->len - offset;
}

void ripc__foreign_free(struct ripc__foreign *foreign)
{
	free(foreign->pieces);
}
