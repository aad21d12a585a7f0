/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one table of options, and reading them by it. docs/man/ripc_open.3 tells of each, which
 * tests/abi/manpages.py checks.
 */
#include "options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/net/backend.h"
#include "parse.h"
#include "ripc/ripc.h"

enum kind { NUMBER, SWITCH, WORD };

struct option {
	const char *name;
	enum kind kind;
	uint32_t min, max; /* of a number */
};

/* By part, so that the names of one part stand together in what is said. */
static const struct option options[] = {
	{"ofi.checksum", SWITCH, 0, 0},
	{"ofi.datagram", NUMBER, 1536, 65536},
	{"ofi.domain", WORD, 0, 0},
	{"ofi.provider", WORD, 0, 0},
	{"ofi.reads", SWITCH, 0, 0},
	{"ofi.receives", NUMBER, 64, 8192},
	{"rdmacm.any", SWITCH, 0, 0},
	{"rdmacm.connections", NUMBER, 2, 4096},
	{"rdmacm.device", WORD, 0, 0},
	{"rdmacm.port", NUMBER, 0, 65535},
	{"rdmacm.receives", NUMBER, 256, 16384},
	{"rdmacm.udp", SWITCH, 0, 0},
	{"resolver.group", WORD, 0, 0},
	{"resolver.port", NUMBER, 1, 65535},
	{"resolver.ttl", NUMBER, 0, 255},
	{"shm.uids", WORD, 0, 0},
	{"udp.gro", SWITCH, 0, 0},
	{"udp.gso", SWITCH, 0, 0},
	{"udp.port", NUMBER, 0, 65535},
	{"udp.rcvbuf", NUMBER, 0, 1073741824},
	{"verbs.connections", NUMBER, 2, 4096},
	{"verbs.device", WORD, 0, 0},
	{"verbs.gid_index", NUMBER, 0, 255},
	{"verbs.receives", NUMBER, 64, 16384},
};

#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

/* Says which options the part that is meant has, if there is such a part. */
static void say_unknown(const char *name, char why[OPTION_WHY])
{
	size_t part_len = strcspn(name, ".") + 1; /* with the dot, or the end */
	int len = snprintf(why, OPTION_WHY, "there is no option \"%.40s\"", name);
	const char *before = "; there are ";

	for (size_t i = 0; i < N_OPTIONS && len < OPTION_WHY; i++) {
		if (strncmp(options[i].name, name, part_len) != 0)
			continue;
		len += snprintf(why + len, OPTION_WHY - (size_t)len, "%s%s", before,
			options[i].name);
		before = ", ";
	}
}

static const struct option *find(const char *name, char why[OPTION_WHY])
{
	for (size_t i = 0; i < N_OPTIONS; i++) {
		if (strcmp(options[i].name, name) == 0)
			return &options[i];
	}
	say_unknown(name, why);
	return NULL;
}

/*
 * Of text as configured, or NULL where it is not; then *value stays as it is. -EINVAL: it is
 * something else than the option takes, or there is no such option; why says so.
 */
static int number_read(const char *name, const char *text, uint32_t *value, char why[OPTION_WHY])
{
	const struct option *option = find(name, why);
	uint32_t number = option ? option->min : 0;

	if (!option)
		return -EINVAL;
	if (ripc__parse_number(text, option->max, &number) || number < option->min) {
		snprintf(why, OPTION_WHY, "option %s: \"%.40s\" is not a number from %u to %u",
			name, text, option->min, option->max);
		return -EINVAL;
	}
	if (text)
		*value = number;
	return 0;
}

/* Likewise. */
static int switch_read(const char *name, const char *text, bool *value, char why[OPTION_WHY])
{
	if (!find(name, why))
		return -EINVAL;
	if (ripc__parse_switch(text, value)) {
		snprintf(why, OPTION_WHY, "option %s: \"%.40s\" is not on or off "
			"(yes or no, true or false, 1 or 0)", name, text);
		return -EINVAL;
	}
	return 0;
}

/* A switch that is something third as long as it is not configured. */
static int third_read(const char *name, const char *text, uint32_t *value, char why[OPTION_WHY])
{
	bool on = false;
	int error = switch_read(name, text, &on, why);

	if (!error && text)
		*value = on;
	return error;
}

int ripc__options_read(const struct ripc__host *host, const struct ripc__option *wanted)
{
	for (; wanted->name; wanted++) {
		const char *name = wanted->name;
		const char *text = host->option ? host->option(host->arg, name) : NULL;
		char why[OPTION_WHY];
		int error = wanted->on ? switch_read(name, text, wanted->on, why) :
			wanted->third ? third_read(name, text, wanted->third, why) :
			number_read(name, text, wanted->number, why);

		if (error) {
			host->log(host->arg, RIPC_LOG_ERROR, "%s", why);
			return error;
		}
	}
	return 0;
}

int ripc__option_check(const char *name, const char *text, char why[OPTION_WHY])
{
	const struct option *option = find(name, why);
	uint32_t number;
	bool on;

	if (!option)
		return -EINVAL;
	if (option->kind == NUMBER)
		return number_read(name, text, &number, why);
	if (option->kind == SWITCH)
		return switch_read(name, text, &on, why);
	return 0;
}
