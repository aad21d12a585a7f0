/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing of numbers and switches, strictly: nothing before, nothing after, no sign. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

int ripc__parse_number(const char *text, uint32_t max, uint32_t *value)
{
	unsigned long long number;
	char *end;

	if (!text)
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || !isdigit((unsigned char)*text) || *end || number > max)
		return -EINVAL;
	*value = (uint32_t)number;
	return 0;
}

int ripc__parse_switch(const char *text, bool *value)
{
	static const char words[][2][6] = {{"off", "on"}, {"no", "yes"}, {"false", "true"},
		{"0", "1"}};

	if (!text)
		return 0;
	for (size_t i = 0; i < 2 * sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(text, words[i / 2][i % 2]) == 0) {
			*value = i % 2;
			return 0;
		}
	}
	return -EINVAL;
}

/* ---- hex --------------------------------------------------------------------------------- */

/* Bytes as hexadecimal digits, lower case when written. */

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool ripc__hex_read(const char *text, uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++, text += 2) {
		int high = digit(text[0]), low = high < 0 ? -1 : digit(text[1]);

		if (low < 0)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

void ripc__hex_write(char *text, const uint8_t *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		*text++ = digits[bytes[i] >> 4];
		*text++ = digits[bytes[i] & 15];
	}
	*text = 0;
}
