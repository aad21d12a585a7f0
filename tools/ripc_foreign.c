/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether another user of this host, or a process in another network namespace, has a service: the
 * names of local sockets say so (docs/protocol.md, Local names). They are another's word, and only
 * good for a hint.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "ripc_tool.h"

#define NAMESPACES_MAX 256 /* more are not looked at */

/* The user of a line of /proc/net/unix, if it is about this service. */
static int user_of(const char *line, uint64_t id, unsigned int *user)
{
	const char *name = strstr(line, " @ripc/");
	uint64_t found;

	return name && sscanf(name, " @ripc/%8x/%16" SCNx64 "/", user, &found) == 2 && found == id;
}

/* Does a file like /proc/net/unix name the service, of any user but this one? */
static int is_named(const char *path, uint64_t id, int64_t but, unsigned int *user)
{
	FILE *stream = fopen(path, "re");
	char line[512];
	int found = 0;

	if (!stream)
		return 0;
	while (!found && fgets(line, sizeof(line), stream))
		found = user_of(line, id, user) && (int64_t)*user != but;
	fclose(stream);
	return found;
}

int tool_foreign_user(uint64_t id, unsigned int *user)
{
	return is_named("/proc/net/unix", id, getuid(), user);
}

/* The network namespace of a process, by its number; 0: it may not be looked at. */
static ino_t namespace_of(const char *pid)
{
	char path[64];
	struct stat found;

	snprintf(path, sizeof(path), "/proc/%.20s/ns/net", pid);
	return stat(path, &found) ? 0 : found.st_ino;
}

/* False: it was there before, or there is no more room. */
static bool add_namespace(ino_t *seen, size_t *n, ino_t namespace)
{
	for (size_t i = 0; i < *n; i++) {
		if (seen[i] == namespace)
			return false;
	}
	if (*n == NAMESPACES_MAX)
		return false;
	seen[(*n)++] = namespace;
	return true;
}

int tool_foreign_namespace(uint64_t id, pid_t *pid)
{
	ino_t seen[NAMESPACES_MAX] = {namespace_of("self")};
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	unsigned int user;
	char path[64];
	size_t n = 1;
	int found = 0;

	while (processes && !found && (entry = readdir(processes))) {
		ino_t namespace = entry->d_name[0] > '0' && entry->d_name[0] <= '9' ?
			namespace_of(entry->d_name) : 0;

		if (!namespace || !add_namespace(seen, &n, namespace))
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/net/unix", entry->d_name);
		found = is_named(path, id, -1, &user);
		*pid = (pid_t)strtol(entry->d_name, NULL, 10);
	}
	if (processes)
		closedir(processes);
	return found;
}

int tool_cannot_start(int err)
{
	if (err != -ENOENT)
		return tool_failed(PROGRAM, "cannot start", err);
	fprintf(stderr, "%s: cannot start: a file or directory is missing that the configuration "
		"names (see above)\n", PROGRAM);
	return TOOL_FAILED;
}
