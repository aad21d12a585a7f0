/* SPDX-License-Identifier: BSD-3-Clause */
/* See accounts.h. Lines of both files begin with "name:password:number:": passwd(5), group(5). */
#include "util/system/accounts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"

/* Takes the line apart. */
static bool line_has(char *line, const char *name, uint32_t *number)
{
	char *rest = line;
	const char *found = strsep(&rest, ":"), *digits;

	if (!*name || strcmp(found, name) != 0)
		return false;
	(void)strsep(&rest, ":");
	digits = strsep(&rest, ":");
	return digits && ripc__parse_number(digits, UINT32_MAX - 1, number) == 0;
}

int ripc__account_find(const char *path, const char *name, uint32_t *number)
{
	FILE *file = fopen(path, "re");
	int error = -ENOENT;
	char *line = NULL;
	size_t size = 0;

	if (!file)
		return -errno;
	while (error && getline(&line, &size, file) >= 0)
		error = line_has(line, name, number) ? 0 : -ENOENT;
	free(line);
	fclose(file);
	return error;
}
