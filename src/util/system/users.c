/* SPDX-License-Identifier: BSD-3-Clause */
/* The user or group of a number: user_namespaces(7). */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "users.h"
#include "util/text.h"

#define OVERFLOW_ID 65534u /* where /proc cannot be read */

static uint32_t overflow_read(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned int id = OVERFLOW_ID;

	if (!file)
		return id;
	if (fscanf(file, "%u", &id) != 1)
		id = OVERFLOW_ID;
	fclose(file);
	return id;
}

/* Has every user a number here? So it is outside of all user namespaces. */
static bool all_are_mapped(const char *map)
{
	FILE *file = fopen(map, "re");
	unsigned int inside = 1, outside = 1, count = 0;
	bool all;

	if (!file)
		return false;
	all = fscanf(file, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 &&
		outside == 0 && count == UINT32_MAX;
	fclose(file);
	return all;
}

bool ripc__uid_is_user(uid_t uid)
{
	return uid != (uid_t)-1 && (uid != overflow_read("/proc/sys/kernel/overflowuid") ||
		all_are_mapped("/proc/self/uid_map"));
}

bool ripc__gid_is_group(gid_t gid)
{
	return gid != (gid_t)-1 && (gid != overflow_read("/proc/sys/kernel/overflowgid") ||
		all_are_mapped("/proc/self/gid_map"));
}

/* ---- accounts ---------------------------------------------------------------------------- */

/* See users.h. Lines of both files begin with "name:password:number:": passwd(5), group(5). */

/* Parses the line. */
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
