/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing of numbers and switches, strictly: nothing before, nothing after, no sign. */
#include "parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
