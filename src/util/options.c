/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading options by the lists of the parts that declare them. docs/man/ripc_options.7 describes
 * each option, which tests/abi/manpages.py checks.
 */
#include "options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/net/backend.h"
#include "ripc/ripc.h"
#include "text.h"

/* Lists the options of the part that name begins with, if there is such a part. */
static void say_unknown(const struct ripc__option *const *lists, const char *name,
		char why[OPTION_WHY])
{
	size_t part_len = strcspn(name, ".") + 1; /* with the dot, or the end */
	int len = snprintf(why, OPTION_WHY, "unknown option \"%.40s\"", name);
	const char *before = "; known options: ";

	for (; *lists; lists++) {
		const struct ripc__option *option = *lists;

		if (strncmp(option->name, name, part_len) != 0)
			continue;
		for (; option->name && len < OPTION_WHY; option++) {
			len += snprintf(why + len, OPTION_WHY - (size_t)len, "%s%s", before,
				option->name);
			before = ", ";
		}
	}
}

static const struct ripc__option *find(const struct ripc__option *const *lists, const char *name)
{
	for (; *lists; lists++) {
		for (const struct ripc__option *option = *lists; option->name; option++) {
			if (strcmp(option->name, name) == 0)
				return option;
		}
	}
	return NULL;
}

static int number_read(const struct ripc__option *option, const char *text, uint32_t *value,
		char why[OPTION_WHY])
{
	uint32_t number = option->min;

	if (ripc__parse_number(text, option->max, &number) || number < option->min) {
		snprintf(why, OPTION_WHY, "option %s: \"%.40s\" is not a number from %u to %u",
			option->name, text, option->min, option->max);
		return -EINVAL;
	}
	*value = number;
	return 0;
}

static int switch_read(const struct ripc__option *option, const char *text, bool *value,
		char why[OPTION_WHY])
{
	if (ripc__parse_switch(text, value)) {
		snprintf(why, OPTION_WHY, "option %s: \"%.40s\" is not on or off "
			"(yes or no, true or false, 1 or 0)", option->name, text);
		return -EINVAL;
	}
	return 0;
}

/* Reads a value of an option from configured text. at: where the value is written. */
static int value_read(const struct ripc__option *option, const char *text, void *at,
		char why[OPTION_WHY])
{
	bool on = false;
	int error;

	if (option->kind == RIPC_NUMBER)
		return number_read(option, text, at, why);
	if (option->kind == RIPC_SWITCH)
		return switch_read(option, text, at, why);
	if (option->kind == RIPC_WORD) {
		*(const char **)at = text;
		return 0;
	}
	error = switch_read(option, text, &on, why);
	if (!error)
		*(uint32_t *)at = on;
	return error;
}

int ripc__options_read(const struct ripc__host *host, const struct ripc__option *options,
		void *values)
{
	for (; options->name; options++) {
		const char *text = host->option ? host->option(host->arg, options->name) : NULL;
		char why[OPTION_WHY];

		if (!text || !value_read(options, text, (char *)values + options->at, why))
			continue;
		host->log(host->arg, RIPC_LOG_ERROR, "%s", why);
		return -EINVAL;
	}
	return 0;
}

int ripc__option_check(const struct ripc__option *const *lists, const char *name,
		const char *text, char why[OPTION_WHY])
{
	const struct ripc__option *option = find(lists, name);
	union {
		uint32_t number;
		bool on;
		const char *word;
	} value;

	if (option)
		return value_read(option, text, &value, why);
	say_unknown(lists, name, why);
	return -EINVAL;
}
