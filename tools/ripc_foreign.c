/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether another user of this host has a service: the names of local sockets say so
 * (docs/protocol.md, Local names). They are another's word, and only good for a hint.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include "ripc_tool.h"

/* The user of a line of /proc/net/unix, if it is about this service. */
static int user_of(const char *line, uint64_t id, unsigned int *user)
{
	const char *name = strstr(line, " @ripc/");
	uint64_t found;

	return name && sscanf(name, " @ripc/%8x/%16" SCNx64 "/", user, &found) == 2 &&
		found == id && *user != (unsigned int)getuid();
}

int tool_foreign_user(uint64_t id, unsigned int *user)
{
	FILE *stream = fopen("/proc/net/unix", "re");
	char line[512];
	int found = 0;

	if (!stream)
		return 0;
	while (!found && fgets(line, sizeof(line), stream))
		found = user_of(line, id, user);
	fclose(stream);
	return found;
}
