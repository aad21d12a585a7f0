/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names that this host's processes have bound. They are read at most so often that it takes
 * a fiftieth of a processor: queries from other hosts may cause it.
 */
#include "internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIFETIME_US 40000u
#define COST_TIMES  50u
#define NAMES_MAX   65536u

socklen_t ripc__name_make(uid_t uid, const struct name *wanted, struct sockaddr_un *name)
{
	int len;

	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	len = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1,
		"ripc/%x/%016" PRIx64 "/%" PRIx64, (unsigned int)uid, wanted->id, wanted->k);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static uint64_t clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* Parses "... @ripc/<uid>/<id>/<k>". */
static bool line_parse(const char *line, unsigned int *uid, struct name *found)
{
	const char *at = strchr(line, '@');
	struct sockaddr_un again;
	size_t len;

	if (!at || sscanf(at, "@ripc/%8x/%16" SCNx64 "/%16" SCNx64, uid, &found->id,
			&found->k) != 3)
		return false;
	/* There is one way to write it. */
	ripc__name_make(*uid, found, &again);
	len = strlen(again.sun_path + 1);
	return found->id && strncmp(at + 1, again.sun_path + 1, len) == 0 &&
		(at[1 + len] == '\n' || at[1 + len] == '\0');
}

static int other_add(struct names *names, uint64_t id)
{
	if (names->n_others == NAMES_MAX)
		return 0; /* other users' names never take our room */
	if (names->n_others == names->others_room) {
		uint32_t room = names->others_room ? 2 * names->others_room : 64;
		uint64_t *more = realloc(names->others, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		names->others = more;
		names->others_room = room;
	}
	names->others[names->n_others++] = id;
	return 0;
}

static int name_add(struct names *names, unsigned int uid, const struct name *name)
{
	if (uid != names->uid)
		return other_add(names, name->id);
	if (names->n == names->room) {
		uint32_t room = names->room ? 2 * names->room : 64;
		struct name *more = realloc(names->at, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		names->at = more;
		names->room = room;
	}
	names->at[names->n++] = *name;
	return 0;
}

int ripc__names_refresh(struct names *names)
{
	uint64_t now_us = clock_us(CLOCK_MONOTONIC), patience_us = COST_TIMES * names->took_us;
	uint64_t began_us; /* of this thread's processor time: other threads may run in between */
	unsigned int uid;
	struct name found;
	char *line = NULL;
	size_t size = 0;
	int error = 0;
	FILE *file;

	patience_us = patience_us < LIFETIME_US ? LIFETIME_US : patience_us;
	if (names->read_us && now_us - names->read_us < patience_us)
		return 0;
	began_us = clock_us(CLOCK_THREAD_CPUTIME_ID);
	file = fopen("/proc/net/unix", "re");
	if (!file)
		return -errno;
	names->n = names->n_others = 0;
	while (!error && names->n < NAMES_MAX && getline(&line, &size, file) >= 0) {
		if (line_parse(line, &uid, &found))
			error = name_add(names, uid, &found);
	}
	free(line);
	fclose(file);
	names->read_us = clock_us(CLOCK_MONOTONIC);
	names->took_us = clock_us(CLOCK_THREAD_CPUTIME_ID) - began_us;
	return error;
}

void ripc__names_free(struct names *names)
{
	free(names->at);
	free(names->others);
	*names = (struct names){0};
}
