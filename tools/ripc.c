/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ripc: looks at libripc on this host and around. This file owns the choice of the subcommand,
 * and "ripc id".
 */
#include <inttypes.h>
#include <ripc/group.h>
#include <string.h>
#include "ripc_tool.h"

static const char usage_text[] =
	"usage: ripc doctor [--json]\n"
	"       ripc ls [--json] [--timeout MS]\n"
	"       ripc ping ID|NAME [-c COUNT] [-i MS] [--timeout MS] [--json]\n"
	"       ripc top [--json] [--once] [--interval MS]\n"
	"       ripc metrics [--listen [HOST:]PORT]\n"
	"       ripc id [--group] NAME\n"
	"       ripc key new|show|grant|revoke|rotate ...\n"
	"       ripc --version | --help\n"
	"\n"
	"  doctor   usable backends of this host, why the others are not, and remedies\n"
	"  ls       all services that can be found\n"
	"  ping     round trips to a service's library, and the path they take\n"
	"  top      activity of this user's contexts: rates, memory, drops, partners\n"
	"  metrics  the same for Prometheus (OpenMetrics)\n"
	"  id       the ID of a service, or of a group, by its name\n"
	"  key      keys: encrypt all traffic, and admit only programs with keys\n"
	"\n"
	"A service is a number, decimal or 0x..., or else a name. \"ripc COMMAND --help\"\n"
	"prints details. Exit status: 0 success, 1 failure, 2 usage.\n";

static const char id_usage[] = "usage: ripc id [--group] NAME\n"
			       "\n"
			       "Prints the service ID of a name; --group: the ID of a group.\n";

static const struct command {
	const char *name;
	int (*main)(int argc, char **argv);
} commands[] = {
	{"doctor", ripc_doctor_main},
	{"ls", ripc_ls_main},
	{"ping", ripc_ping_main},
	{"id", ripc_id_main},
	{"key", ripc_key_main},
	{"top", ripc_top_main},
	{"metrics", ripc_metrics_main},
};

int usage_error(const char *usage, const char *what)
{
	fprintf(stderr, "%s: %s\n%s", PROGRAM, what, usage);
	return TOOL_USAGE;
}

int ripc_id_main(int argc, char **argv)
{
	uint64_t (*id_of)(const char *name) = ripc_id_from_name;

	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(id_usage, stdout);
		return TOOL_OK;
	}
	if (argc == 3 && strcmp(argv[1], "--group") == 0)
		id_of = ripc_group_from_name;
	else if (argc != 2)
		return usage_error(id_usage, "exactly one name is needed");
	if (argv[argc - 1][0] == '\0')
		return usage_error(id_usage, "exactly one name is needed");
	printf("0x%016" PRIx64 "\n", id_of(argv[argc - 1]));
	return TOOL_OK;
}

int main(int argc, char **argv)
{
	size_t i;
	int status;

	if (argc < 2)
		return usage_error(usage_text, "no command given");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		fputs(usage_text, stdout);
		return TOOL_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("ripc %d.%d.%d\n", RIPC_VERSION_MAJOR, RIPC_VERSION_MINOR,
			RIPC_VERSION_PATCH);
		return TOOL_OK;
	}
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		status = commands[i].main(argc - 1, argv + 1);
		/* A full disk or a closed pipe is not a success. */
		return fflush(stdout) == 0 || status ? status : TOOL_FAILED;
	}
	return usage_error(usage_text, "unknown command");
}
