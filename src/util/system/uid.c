/* SPDX-License-Identifier: BSD-3-Clause */
/* The user that a user ID means: user_namespaces(7). */
#include "util/system/uid.h"

#include <stdint.h>
#include <stdio.h>

#define OVERFLOW_UID 65534u /* where /proc cannot be read */

static uint32_t overflow_uid(void)
{
	FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
	unsigned int uid = OVERFLOW_UID;

	if (!file)
		return uid;
	if (fscanf(file, "%u", &uid) != 1)
		uid = OVERFLOW_UID;
	fclose(file);
	return uid;
}

/* Has everybody a number here? So it is outside of all user namespaces. */
static bool all_are_mapped(void)
{
	FILE *file = fopen("/proc/self/uid_map", "re");
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
	return uid != (uid_t)-1 && (uid != overflow_uid() || all_are_mapped());
}
