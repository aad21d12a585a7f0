/* SPDX-License-Identifier: BSD-3-Clause */
/* Hexadecimal text to bytes, for golden packets. */
#ifndef HEX_H
#define HEX_H

#include <ctype.h>
#include <stddef.h>
#include <stdint.h>

static inline uint8_t hex_digit(char digit)
{
	return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

/* Pairs of lower-case digits, blanks between them allowed; returns how many bytes. */
static inline size_t hex_bytes(const char *text, uint8_t *bytes)
{
	size_t len = 0;

	while (*text) {
		if (isspace((unsigned char)*text)) {
			text++;
			continue;
		}
		bytes[len++] = (uint8_t)(hex_digit(text[0]) << 4 | hex_digit(text[1]));
		text += 2;
	}
	return len;
}

#endif
