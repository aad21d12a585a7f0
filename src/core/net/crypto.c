/* SPDX-License-Identifier: BSD-3-Clause */
/* See crypto.h. The function is not inline: tests/unit/core/keys/secrets.c checks it. */
#include "crypto.h"

bool ripc__is_equal(const void *a, const void *b, size_t len)
{
	const volatile uint8_t *x = a, *y = b;
	uint8_t differs = 0;

	for (size_t i = 0; i < len; i++)
		differs |= (uint8_t)(x[i] ^ y[i]);
	return differs == 0;
}
