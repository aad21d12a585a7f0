/* SPDX-License-Identifier: BSD-3-Clause */
/* See points.h. Owns nothing: it looks at what the kernel and the library say. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "points.h"

#define POOL_SLACK     (64u << 10) /* messages that are kept for the next */
#define MAPPINGS_SLACK 8           /* slabs of the pool likewise */

/* Names of memory that is, or was, shared. */
static int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	while (file && fgets(line, sizeof(line), file))
		n += strstr(line, "memfd:libripc") || strstr(line, "/dev/zero");
	if (file)
		fclose(file);
	return n;
}

struct left left_now(struct talker *talker)
{
	struct fault_left known = fault_left_now();
	struct ripc_stats stats = {.size = sizeof(stats)};

	if (ripc_stats_get(talker->ctx, &stats))
		fault_fail("no statistics");
	return (struct left){known.descriptors, known.names, mappings(), stats.pool_used_bytes,
		stats.given_held_bytes, stats.mapped_held_bytes};
}

bool left_is_less(const struct left *now, const struct left *before, bool all)
{
	bool memory = now->pool_bytes <= before->pool_bytes + POOL_SLACK &&
		now->given_bytes <= before->given_bytes &&
		now->mapped_bytes <= before->mapped_bytes;

	return memory && (!all || (now->descriptors <= before->descriptors &&
		now->names <= before->names &&
		now->mappings <= before->mappings + MAPPINGS_SLACK));
}

/* The inode if this is a socket of the process, else 0. */
static unsigned long inode_of(int pid, const char *fd)
{
	char path[64], target[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", pid, fd);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	return strncmp(target, "socket:[", 8) == 0 ? strtoul(target + 8, NULL, 10) : 0;
}

static void name_of(unsigned long inode, char name[64])
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		unsigned long found = 0;
		char path[64] = "";

		if (sscanf(line, "%*s %*s %*s %*s %*s %*s %lu %63s", &found, path) == 2 &&
				found == inode && strncmp(path, "@ripc-shm/", 10) == 0)
			memcpy(name, path, sizeof(path));
	}
	if (file)
		fclose(file);
}

void left_port_name(int pid, char name[64])
{
	char path[32];
	const struct dirent *entry;
	DIR *dir;

	name[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && !name[0] && (entry = readdir(dir))) {
		unsigned long inode = inode_of(pid, entry->d_name);

		if (inode)
			name_of(inode, name);
	}
	if (dir)
		closedir(dir);
}

bool left_name_exists(const char *name)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512];
	bool exists = false;

	while (file && !exists && fgets(line, sizeof(line), file))
		exists = strstr(line, name) != NULL;
	if (file)
		fclose(file);
	return exists;
}
