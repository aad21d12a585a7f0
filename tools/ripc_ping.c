/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "ripc ping": round trips to the library that holds a service, with percentiles, and the path
 * that messages to it take.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "ripc_tool.h"

static const char usage_text[] =
	"usage: ripc ping ID|NAME [-c COUNT] [-i MS] [--timeout MS] [--json]\n"
	"\n"
	"Measures round trips to the library of the service; its program is not involved.\n"
	"\n"
	"  -c COUNT       how many (default 10)\n"
	"  -i MS          pause between them (default 100; 0: none)\n"
	"  --timeout MS   longest wait for a reply, and for finding the service (default 2000)\n"
	"  --json         one JSON object\n"
	"\n"
	"Exit status: 0 if at least one reply arrived.\n";

struct ping {
	const char *name; /* as it was given */
	uint64_t id, count, interval_ms, timeout_ms;
	int json;
	struct ripc_context *ctx;
	struct ripc_service *svc;
	double *rtts_us;
	uint64_t n_sent, n_answered;
	int last_error;
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

/* Which of the causes that an error has is that of a ping. */
static const char *why(int err)
{
	switch (err) {
	case -ENOENT:
		return "the service has ended, and no other has its ID";
	case -ETIMEDOUT:
		return "no reply in time";
	default:
		return ripc_strerror(err);
	}
}

static void ping_once(struct ping *ping)
{
	uint64_t rtt_ns;
	int err = ripc_ping(ping->svc, ping->id, (int)ping->timeout_ms, &rtt_ns);

	ping->n_sent++;
	if (err < 0) {
		ping->last_error = err;
		if (!ping->json)
			printf("%" PRIu64 ": %s\n", ping->n_sent, why(err));
		return;
	}
	ping->rtts_us[ping->n_answered++] = (double)rtt_ns / 1e3;
	if (!ping->json && ping->count <= 20)
		printf("%" PRIu64 ": %.1f us\n", ping->n_sent, (double)rtt_ns / 1e3);
	fflush(stdout);
}

/* path: NULL if nothing is known of it; without a backend if none leads there. */
static void print_json(const struct ping *ping, const struct ripc_path *path)
{
	const double *rtts = ping->rtts_us;
	size_t n = ping->n_answered;

	fputs("{\"service\":", stdout);
	tool_json_string(stdout, ping->name);
	printf(",\"id\":\"0x%016" PRIx64 "\",\"sent\":%" PRIu64 ",\"answered\":%zu", ping->id,
		ping->n_sent, n);
	if (n > 0)
		printf(",\"min_us\":%.3f,\"median_us\":%.3f,\"p90_us\":%.3f,\"p99_us\":%.3f,"
		       "\"max_us\":%.3f",
			rtts[0], tool_median(rtts, n), tool_percentile(rtts, n, 0.9),
			tool_percentile(rtts, n, 0.99), rtts[n - 1]);
	if (path) {
		fputs(",\"others\":", stdout);
		tool_json_string(stdout, path->others);
	}
	if (path && path->backend[0]) {
		fputs(",\"backend\":", stdout);
		tool_json_string(stdout, path->backend);
		fputs(",\"bulk\":", stdout);
		tool_json_string(stdout, path->bulk);
		fputs(",\"address\":", stdout);
		tool_json_string(stdout, path->address);
		printf(",\"short_max_bytes\":%" PRIu32 ",\"datagram_bytes\":%" PRIu32
		       ",\"incarnation\":\"0x%016" PRIx64 "\"",
			path->short_max_bytes, path->datagram_bytes, path->incarnation);
	}
	fputs("}\n", stdout);
}

static void print_text(const struct ping *ping, const struct ripc_path *path)
{
	const double *rtts = ping->rtts_us;
	size_t n = ping->n_answered;

	printf("%" PRIu64 " sent, %zu answered\n", ping->n_sent, n);
	if (n > 0)
		printf("round trip in us: min %.1f, median %.1f, p90 %.1f, p99 %.1f, max %.1f\n",
			rtts[0], tool_median(rtts, n), tool_percentile(rtts, n, 0.9),
			tool_percentile(rtts, n, 0.99), rtts[n - 1]);
	if (path && path->backend[0])
		printf("path: %s, long messages by %s, to %s; shorts up to %" PRIu32
		       " bytes, datagrams of %" PRIu32 "\n",
			path->backend, path->bulk, path->address, path->short_max_bytes,
			path->datagram_bytes);
	if (path && path->others[0])
		printf("not used: %s\n", path->others);
}

/* The service was found, but did not respond. */
static int silent(const struct ping *ping, const struct ripc_path *path)
{
	bool is_udp = path && strcmp(path->backend, "udp") == 0;

	if (ping->last_error != -ETIMEDOUT || !is_udp) {
		fprintf(stderr, "%s: %s: %s%s\n", PROGRAM, ping->name, why(ping->last_error),
			ping->last_error == -ETIMEDOUT ? ": its process is stopped or too busy" :
			"");
		return TOOL_FAILED;
	}
	fprintf(stderr,
		"%s: %s: found, but no response from %s over UDP: a firewall on either host or "
		"between them drops the packets, or the process is stopped. Discovery needs UDP "
		"port 15511, messages need the port of each program: open all UDP ports, or choose "
		"a port (RIPC_OPTIONS=udp.port=NUMBER) and open that port\n",
		PROGRAM, ping->name, path->address);
	return TOOL_FAILED;
}

static int print_result(struct ping *ping)
{
	struct ripc_path path = {.size = sizeof(path)};
	int err = ripc_path_info(ping->svc, ping->id, &path);
	int has_path = err == 0 || err == -EHOSTUNREACH;

	tool_sort(ping->rtts_us, ping->n_answered);
	if (ping->json)
		print_json(ping, has_path ? &path : NULL);
	else
		print_text(ping, has_path ? &path : NULL);
	fflush(stdout);
	return ping->n_answered > 0 ? TOOL_OK : silent(ping, has_path ? &path : NULL);
}

/* Why nobody was found, as far as that can be told. */
static int not_found(const struct ping *ping, int err)
{
	unsigned int user;
	pid_t pid;

	if (tool_foreign_user(ping->id, &user))
		fprintf(stderr,
			"%s: %s: a process of another user (uid %u) of this host has this service, "
			"and it was not found by the network: let multicast pass, or set "
			"RIPC_PEERS=127.0.0.1\n",
			PROGRAM, ping->name, user);
	else if (tool_foreign_namespace(ping->id, &pid))
		fprintf(stderr,
			"%s: %s: the service is in another network namespace of this host (that of "
			"process %d), but did not respond to queries: connect the two namespaces, "
			"set RIPC_PEERS to an address of that namespace, or run \"nsenter -t %d -n "
			"ripc ping ...\"\n",
			PROGRAM, ping->name, (int)pid, (int)pid);
	else if (err == -ENOENT || err == -ETIMEDOUT)
		fprintf(stderr,
			"%s: %s: %s. A service on another host is not found if multicast does not "
			"pass (set RIPC_PEERS), or if a firewall of either host drops UDP port "
			"15511: the other host must admit packets to that port, and this host "
			"packets from it, which a firewall that only admits replies drops after "
			"multicast\n",
			PROGRAM, ping->name, err == -ENOENT ? "service not found: start it, or see "
			"\"ripc ls\"" : "service not found in time: its process does not respond, "
			"or needs longer (--timeout)");
	else
		return tool_failed(PROGRAM, ping->name, err);
	return TOOL_FAILED;
}

/* With the service open: finds the other one and measures. */
static int measure(struct ping *ping)
{
	int err = ripc_resolve(ping->ctx, ping->id, (int)ping->timeout_ms);

	if (err < 0)
		return not_found(ping, err);
	if (!ping->json)
		printf("ping %s (0x%016" PRIx64 ")\n", ping->name, ping->id);
	while (ping->n_sent < ping->count && !stopped) {
		ping_once(ping);
		if (ping->n_sent < ping->count && ping->interval_ms > 0 && !stopped)
			tool_sleep_ns(ping->interval_ms * 1000000);
	}
	return print_result(ping);
}

static int run(struct ping *ping)
{
	struct ripc_config config = {
		.size = sizeof(config),
		.log = tool_log,
		.log_arg = (void *)PROGRAM,
	};
	struct sigaction action = {.sa_handler = stop};
	int err, status;

	ping->rtts_us = calloc(ping->count, sizeof(double));
	if (!ping->rtts_us)
		return tool_failed(PROGRAM, "no memory", -ENOMEM);
	err = ripc_open(&config, &ping->ctx);
	if (err < 0) {
		free(ping->rtts_us);
		return tool_cannot_start(err);
	}
	sigaction(SIGINT, &action, NULL);
	err = ripc_service_open(ping->ctx, 0, 0, &ping->svc);
	status = err < 0 ? tool_failed(PROGRAM, "cannot open a service", err) : measure(ping);
	ripc_close(ping->ctx, 0);
	free(ping->rtts_us);
	return status;
}

static int parse_option(int option, const char *arg, struct ping *ping)
{
	switch (option) {
	case 'c':
		return tool_parse_number(arg, 1, 10000000, &ping->count);
	case 'i':
		return tool_parse_number(arg, 0, 3600000, &ping->interval_ms);
	case 't':
		return tool_parse_number(arg, 1, 3600000, &ping->timeout_ms);
	case 'j':
		ping->json = 1;
		return 0;
	default:
		return -EINVAL;
	}
}

int ripc_ping_main(int argc, char **argv)
{
	static const struct option options[] = {
		{"count", required_argument, NULL, 'c'},
		{"interval", required_argument, NULL, 'i'},
		{"timeout", required_argument, NULL, 't'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct ping ping = {.count = 10, .interval_ms = 100, .timeout_ms = 2000};
	int option;

	while ((option = getopt_long(argc, argv, "c:i:h", options, NULL)) >= 0) {
		if (option == 'h') {
			fputs(usage_text, stdout);
			return TOOL_OK;
		}
		if (parse_option(option, optarg, &ping) < 0) {
			tool_bad_value(PROGRAM, optarg);
			return usage_error(usage_text, "invalid option");
		}
	}
	if (optind != argc - 1)
		return usage_error(usage_text, "a service is needed");
	ping.name = argv[optind];
	if (tool_parse_service(ping.name, &ping.id) < 0)
		return usage_error(usage_text, "not a service ID or name");
	if (tool_is_group(ping.id))
		return usage_error(usage_text, "the ID is that of a group: ping a member by its "
			"own ID, which \"ripc top\" shows on the member's host");
	return run(&ping);
}
