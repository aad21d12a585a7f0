/* SPDX-License-Identifier: BSD-3-Clause */
/* The user or group that a number means: user_namespaces(7). */
#include "util/system/uid.h"

#include <stdint.h>
#include <stdio.h>

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

/* Has everybody a number here? So it is outside of all user namespaces. */
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
