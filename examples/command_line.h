/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The common part of the command lines of the larger examples: a service is given as --id NUMBER
 * (decimal or 0x...) or as --name TEXT, counts may have a suffix K, M or G, and errors name the
 * invalid value of an option.
 */
#ifndef EXAMPLES_COMMAND_LINE_H
#define EXAMPLES_COMMAND_LINE_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ripc/ripc.h>

/* Reads a whole unsigned number. 0 or -EINVAL. */
static inline int parse_number(const char *text, uint64_t *value)
{
	char *end;
	unsigned long long number;

	/* strtoull() would accept a sign and leading blanks, and negate. */
	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	number = strtoull(
		text, &end, text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10);
	if (errno != 0 || *end != '\0')
		return -EINVAL;
	*value = number;
	return 0;
}

/* Reads a number of bytes: 4096, 64K, 8M, 1G. 0 or -EINVAL. */
static inline int parse_bytes(const char *text, uint64_t *value)
{
	char *end;
	unsigned long long number;
	unsigned int shift = 0;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (*end == 'K')
		shift = 10;
	else if (*end == 'M')
		shift = 20;
	else if (*end == 'G')
		shift = 30;
	if (errno != 0 || end[shift ? 1 : 0] != '\0' || number > UINT64_MAX >> shift)
		return -EINVAL;
	*value = (uint64_t)number << shift;
	return 0;
}

/* Reads the argument of --id. 0 or -EINVAL; the ID 0 means none and is refused. */
static inline int parse_service_id(const char *text, uint64_t *id)
{
	uint64_t value;

	if (parse_number(text, &value) < 0 || value == 0)
		return -EINVAL;
	*id = value;
	return 0;
}

/* Reads the argument of --name. 0 or -EINVAL. */
static inline int parse_service_name(const char *text, uint64_t *id)
{
	if (text[0] == '\0')
		return -EINVAL;
	*id = ripc_id_from_name(text);
	return 0;
}

#define OPTION_WRONG_MAX 128

/*
 * Says what is wrong with an option, perhaps in text. arg: its value; NULL if the option itself is
 * wrong, which getopt_long() has said.
 */
static inline const char *option_wrong(const char *arg, char text[OPTION_WRONG_MAX])
{
	if (!arg)
		return "invalid option";
	snprintf(text, OPTION_WRONG_MAX, "\"%s\" is not a valid value of this option", arg);
	return text;
}

#endif
