/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "ripc doctor": tells for each backend and resolver source whether it can be used on this host,
 * why, and what to do if not; then what of the environment and of the system's limits matters.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "ripc_tool.h"

/* Below these the doctor advises. The udp backend asks for 4 MiB of receive buffer. */
#define RECEIVE_BUFFER_GOOD (4u << 20)
#define MEMLOCK_GOOD	    (64u << 20)
#define DESCRIPTORS_GOOD    1024
/* Limits from docs/guarantees.md, shown by tests/unit/core/engine/test_descriptor.c. */
#define DESCRIPTORS_CONTEXT 20
#define DESCRIPTORS_PARTNER 6

static const char usage_text[] =
	"usage: ripc doctor [--json]\n"
	"\n"
	"Reports what can be used on this host, why the rest cannot, and what to do about it.\n"
	"Exit status: 0 if there is a usable backend and a usable way to find services, and the\n"
	"environment is valid; otherwise no program can open a context.\n";

/* One line of the report. */
struct finding {
	char *kind, *name, *detail, *remedy;
	int usable; /* 1, 0, or -1: only something to know */
};

struct report {
	struct finding *findings;
	size_t n, capacity;
	size_t n_refused; /* of n, the first ones: of kind "configuration" */
	int no_memory;
};

static void add(struct report *report, const struct ripc_finding *found)
{
	struct finding *finding;
	size_t capacity = report->capacity ? report->capacity * 2 : 16;

	if (report->n == report->capacity) {
		finding = realloc(report->findings, capacity * sizeof(*finding));
		if (!finding) {
			report->no_memory = 1;
			return;
		}
		report->findings = finding;
		report->capacity = capacity;
	}
	finding = &report->findings[report->n];
	finding->kind = strdup(found->kind);
	finding->name = strdup(found->name);
	finding->detail = strdup(found->detail ? found->detail : "");
	finding->remedy = strdup(found->remedy ? found->remedy : "");
	finding->usable = found->usable;
	report->n++;
	if (!finding->kind || !finding->name || !finding->detail || !finding->remedy)
		report->no_memory = 1;
}

static int take_finding(void *arg, const struct ripc_finding *found)
{
	add(arg, found);
	return 0;
}

/* Moves what was added last to where it is read first. */
static void put_first(struct report *report)
{
	struct finding last = report->findings[report->n - 1];
	struct finding *to = &report->findings[report->n_refused++];

	memmove(to + 1, to, (report->n - report->n_refused) * sizeof(*to));
	*to = last;
}

/* Takes errors of ripc_open() as findings; other log messages are passed on. */
static void take_log(void *arg, int level, const char *text)
{
	const struct ripc_finding finding = {
		.kind = "configuration",
		.name = "environment",
		.detail = text,
		.remedy = "correct this setting: until then no context can be opened",
	};

	if (level != RIPC_LOG_ERROR) {
		tool_log((void *)PROGRAM, level, text);
		return;
	}
	add(arg, &finding);
	if (!((struct report *)arg)->no_memory)
		put_first(arg);
}

static void free_report(struct report *report)
{
	size_t i;

	for (i = 0; i < report->n; i++) {
		free(report->findings[i].kind);
		free(report->findings[i].name);
		free(report->findings[i].detail);
		free(report->findings[i].remedy);
	}
	free(report->findings);
}

/* ---- what surrounds the library ---- */

/* Environment variables that libfabric reads, if they are set. */
static void add_libfabric(struct report *report)
{
	static const char *const names[] = {
		"FI_PROVIDER", "FI_EFA_FORK_SAFE", "FI_EFA_USE_DEVICE_RDMA",
		"FI_EFA_USE_HUGE_PAGE", "FI_EFA_RX_SIZE", "FI_EFA_TX_SIZE"};
	struct ripc_finding finding = {.kind = "environment", .usable = -1, .remedy = ""};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		finding.name = names[i];
		finding.detail = getenv(names[i]);
		if (finding.detail)
			add(report, &finding);
	}
}

static void add_environment(struct report *report)
{
	static const char *const names[] = {
		"RIPC_BACKENDS", "RIPC_PEERS", "RIPC_INTERFACES", "RIPC_OPTIONS", "RIPC_KEYS",
		"RIPC_LOG"};
	struct ripc_finding finding = {.kind = "environment", .usable = -1, .remedy = ""};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		finding.name = names[i];
		finding.detail = getenv(names[i]);
		if (!finding.detail)
			finding.detail = "not set";
		add(report, &finding);
	}
}

static int read_sysctl(const char *path, uint64_t *value)
{
	FILE *stream = fopen(path, "re");
	int n;

	if (!stream)
		return -errno;
	n = fscanf(stream, "%" SCNu64, value);
	fclose(stream);
	return n == 1 ? 0 : -EINVAL;
}

static void add_receive_buffer(struct report *report)
{
	char detail[128];
	struct ripc_finding finding = {
		.kind = "limit",
		.name = "net.core.rmem_max",
		.usable = -1,
		.detail = detail,
		.remedy = "",
	};
	uint64_t bytes;

	if (read_sysctl("/proc/sys/net/core/rmem_max", &bytes) < 0) {
		finding.detail = "cannot be read (in a network namespace or a sandbox)";
		add(report, &finding);
		return;
	}
	snprintf(detail, sizeof(detail), "%" PRIu64 " bytes of receive buffer for a socket", bytes);
	if (bytes < RECEIVE_BUFFER_GOOD)
		finding.remedy =
			"for fast long messages over udp: sysctl -w net.core.rmem_max=4194304";
	add(report, &finding);
}

static void add_limit(
	struct report *report, int resource, const char *name, uint64_t good, const char *remedy)
{
	char detail[128];
	struct ripc_finding finding = {
		.kind = "limit",
		.name = name,
		.usable = -1,
		.detail = detail,
		.remedy = "",
	};
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0)
		return;
	if (limit.rlim_cur == RLIM_INFINITY)
		snprintf(detail, sizeof(detail), "unlimited");
	else
		snprintf(detail, sizeof(detail), "%" PRIu64, (uint64_t)limit.rlim_cur);
	if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < good)
		finding.remedy = remedy;
	add(report, &finding);
}

/* Compares RLIMIT_NOFILE with the needs of contexts. */
static void add_descriptors(struct report *report)
{
	char detail[256];
	const struct ripc_finding finding = {
		.kind = "limit",
		.name = "descriptors",
		.usable = -1,
		.detail = detail,
		.remedy = "",
	};
	struct rlimit limit = {0};
	uint64_t left;

	getrlimit(RLIMIT_NOFILE, &limit);
	left = limit.rlim_cur > DESCRIPTORS_CONTEXT ? limit.rlim_cur - DESCRIPTORS_CONTEXT : 0;
	snprintf(detail, sizeof(detail), "a context takes up to %d, each service 1 (2 with "
		"ripc_service_fd()), each connected context of this host up to %d, until it is "
		"idle for a minute: RLIMIT_NOFILE is enough for %" PRIu64 " of these",
		DESCRIPTORS_CONTEXT, DESCRIPTORS_PARTNER, left / DESCRIPTORS_PARTNER);
	add(report, &finding);
}

/* No probe can tell what a firewall drops. */
static void add_ports(struct report *report)
{
	const struct ripc_finding finding = {
		.kind = "limit",
		.name = "firewall",
		.usable = -1,
		.detail = "between hosts: queries are sent to UDP port 15511 (resolver.port), and "
			"responses from it; a firewall that only admits replies drops the "
			"responses to multicast queries. Messages use the UDP port of each "
			"program: any, or that of option udp.port",
		.remedy = "",
	};

	add(report, &finding);
}

static void add_limits(struct report *report)
{
	add_receive_buffer(report);
	add_limit(report, RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", MEMLOCK_GOOD,
		"only for RDMA devices: ulimit -l unlimited, or LimitMEMLOCK= in systemd");
	add_limit(report, RLIMIT_NOFILE, "RLIMIT_NOFILE", DESCRIPTORS_GOOD,
		"for many services in one process: ulimit -n 4096");
	add_descriptors(report);
	add_ports(report);
	add_limit(report, RLIMIT_FSIZE, "RLIMIT_FSIZE", UINT64_MAX,
		"memory above this length cannot be shared and is copied: ulimit -f unlimited, or "
		"LimitFSIZE= in systemd");
}

static void add_taken_name(void *report, const char *name, unsigned int uid)
{
	char detail[192];
	const struct ripc_finding finding = {
		.kind = "names",
		.name = "taken",
		.usable = -1,
		.detail = detail,
		.remedy = "end that process (as root, \"ss -xap\" shows it by this name): queries "
			"of this host for that service wait for it",
	};

	snprintf(detail, sizeof(detail),
		"a process of another user (uid %u) has bound the local name @%.110s", uid, name);
	add(report, &finding);
}

/* ---- output ---- */

static const char *state_text(const struct finding *finding)
{
	return finding->usable < 0 ? "" : finding->usable ? "usable" : "no";
}

static void print_table(const struct report *report)
{
	const struct finding *finding;
	size_t i;

	puts("The first usable backend that both ends have is used; \"ripc ping\" shows the one in "
	     "use\nfor a service, and why the others are not.\n");
	for (i = 0; i < report->n; i++) {
		finding = &report->findings[i];
		if (i == 0 || strcmp(finding->kind, report->findings[i - 1].kind) != 0)
			printf("%s%s\n", i ? "\n" : "", finding->kind);
		printf("  %-18s %-7s %s\n", finding->name, state_text(finding), finding->detail);
		if (finding->remedy[0])
			printf("  %-18s %-7s -> %s\n", "", "", finding->remedy);
	}
}

static void print_json(const struct report *report)
{
	const struct finding *finding;
	size_t i;

	fputs("{\"findings\":[", stdout);
	for (i = 0; i < report->n; i++) {
		finding = &report->findings[i];
		fputs(i ? ",\n{\"kind\":" : "\n{\"kind\":", stdout);
		tool_json_string(stdout, finding->kind);
		fputs(",\"name\":", stdout);
		tool_json_string(stdout, finding->name);
		if (finding->usable >= 0)
			printf(",\"usable\":%s", finding->usable ? "true" : "false");
		fputs(",\"detail\":", stdout);
		tool_json_string(stdout, finding->detail);
		fputs(",\"remedy\":", stdout);
		tool_json_string(stdout, finding->remedy);
		fputc('}', stdout);
	}
	fputs("\n]}\n", stdout);
}

static int has_usable(const struct report *report, const char *kind)
{
	size_t i;

	for (i = 0; i < report->n; i++)
		if (report->findings[i].usable == 1 && strcmp(report->findings[i].kind, kind) == 0)
			return 1;
	return 0;
}

static int examine(int json)
{
	struct report report = {0};
	struct ripc_config config = {
		.size = sizeof(config),
		.log = take_log,
		.log_arg = &report,
	};
	int err = ripc_probe(&config, take_finding, &report), status;

	if (report.no_memory)
		err = -ENOMEM;
	/* Invalid settings are among the findings. */
	if (err < 0 && err != -EINVAL) {
		free_report(&report);
		return tool_failed(PROGRAM, "cannot inspect this host", err);
	}
	add_environment(&report);
	add_libfabric(&report);
	add_limits(&report);
	tool_names_of_others(add_taken_name, &report);
	status = TOOL_FAILED;
	if (!err && has_usable(&report, "backend") && has_usable(&report, "resolver"))
		status = TOOL_OK;
	if (report.no_memory)
		status = tool_failed(PROGRAM, "cannot print the report", -ENOMEM);
	else if (json)
		print_json(&report);
	else
		print_table(&report);
	free_report(&report);
	return status;
}

int ripc_doctor_main(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option, json = 0;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
		if (option == 'h') {
			fputs(usage_text, stdout);
			return TOOL_OK;
		}
		if (option != 'j')
			return usage_error(usage_text, "invalid option");
		json = 1;
	}
	if (optind < argc)
		return usage_error(usage_text, "no argument is allowed");
	return examine(json);
}
