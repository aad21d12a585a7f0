/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ripc-bench: measures libripc beside plain sockets and other libraries. This file owns the
 * command line; see bench.h for the rest.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <ripc/ripc.h>
#include "bench.h"

#define DESCRIPTORS 65536u

static const char usage_head[] =
	"usage: ripc-bench TEST [OPTION...]\n"
	"       ripc-bench --server [--id ID|NAME] [--backend NAME]\n"
	"\n"
	"Starts a client and a server process by itself, or joins one on another host, and\n"
	"measures libripc and its peers in turns.\n"
	"\n";
static const char usage_options[] =
	"\n"
	"  --size N,N,...     bytes of a message; A:B:STEP is a range\n"
	"  --depth, --rate, --gap, --threads, --senders, --partners N,N,...\n"
	"                     values of the parameter that the test varies, see above\n"
	"  --vs NAME,...      peers to compare with, of those below; none\n"
	"  --backend NAME,... libripc's backends, in this order (default: its own choice)\n"
	"  --spin US          poll for so long before sleeping, all peers alike (default 0:\n"
	"                     sockets sleep at once, libripc polls for up to 50 while that pays)\n"
	"  --sleep            libripc, too, sleeps at once\n"
	"  --single           libripc without locks (RIPC_SINGLE_THREAD), on this host\n"
	"  --untouched        while the clock runs nobody writes or sums up messages; those of\n"
	"                     the warm-up are verified\n"
	"  --count N          messages per run (default: as fits the size)\n"
	"  --pairs N          runs per size, value and peer\n"
	"  --pin A,B | none   processors of client and server (default: none; with --spin on\n"
	"                     one host the first two)\n"
	"  --json             one JSON object per size, value and peer\n"
	"  --out PREFIX       also writes PREFIX.jsonl, PREFIX.csv and, for times,\n"
	"                     PREFIX-TEST-PEER-SIZE-VALUE.hgrm (HdrHistogram percentiles)\n"
	"  --server           wait for a client on another host; --id registers a known ID\n"
	"  --to ID|NAME       measure with the server that is registered there\n"
	"  --host ADDRESS     where sockets find it (default: where libripc does)\n"
	"  --help             this text\n"
	"\n"
	"Messages are written before and summed up after each exchange. The clock of bandwidth\n"
	"runs from the send until the sender knows that all has arrived.\n"
	"Exit status: 0 success, 1 failure, 2 usage.\n";

static void print_usage(FILE *stream)
{
	const struct bench_test *test;
	unsigned int i;

	fputs(usage_head, stream);
	for (i = 0; i < bench_n_tests; i++) {
		test = &bench_tests[i];
		fprintf(stream, "  %-18s %s\n%21s(--size %s", test->name, test->about, "",
			test->sizes);
		if (test->variable)
			fprintf(stream, " --%s %s", bench_variables[test->variable], test->values);
		fprintf(stream, " --vs %s)\n", test->peers);
	}
	fputs(usage_options, stream);
	bench_print_peers(stream);
}

static int usage_error(const char *what)
{
	fprintf(stderr, "%s: %s\n", PROGRAM, what);
	print_usage(stderr);
	return TOOL_USAGE;
}

static int add_peer(struct bench_options *options, const char *name)
{
	const struct bench_peer *peer;
	int err = bench_find_peer(name, &peer);

	if (err < 0)
		return err;
	if (peer == &bench_ripc || !peer->halves[options->test->kind].measure)
		return -EINVAL;
	if (options->n_peers == BENCH_PEERS_MAX)
		return -E2BIG;
	options->peers[options->n_peers++] = peer;
	return 0;
}

static int parse_peers(const char *text, struct bench_options *options)
{
	char *copy, *word, *state;
	int err = 0;

	options->n_peers = 1;
	if (strcmp(text, "none") == 0)
		return 0;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	for (word = strtok_r(copy, ",", &state); word && !err; word = strtok_r(NULL, ",", &state))
		err = add_peer(options, word);
	free(copy);
	return err == 0 && options->n_peers == 1 ? -EINVAL : err;
}

static int parse_sizes(const char *text, struct bench_options *options)
{
	int n = tool_parse_sizes(text, options->sizes, BENCH_LIST_MAX), i;

	for (i = 0; i < n; i++)
		if (options->sizes[i] == 0 || options->sizes[i] > 1ull << 32)
			return -EINVAL;
	if (n < 0)
		return n;
	options->n_sizes = (unsigned int)n;
	return 0;
}

static uint64_t value_most(enum bench_variable variable)
{
	switch (variable) {
	case BENCH_DEPTH:
		return BENCH_DEPTH_MAX;
	case BENCH_THREADS:
	case BENCH_SENDERS:
		return BENCH_THREADS_MAX;
	case BENCH_N_PARTNERS:
		return BENCH_PARTNERS_MAX;
	default:
		return 10000000;
	}
}

/* The parameter that the test varies; variable: the option that was used. */
static int parse_values(
	const char *text, enum bench_variable variable, struct bench_options *options)
{
	int n, i;

	if (!options->test || options->test->variable != variable) {
		fprintf(stderr, "%s: --%s is not what this test varies\n", PROGRAM,
			bench_variables[variable]);
		return -EINVAL;
	}
	n = tool_parse_sizes(text, options->values, BENCH_LIST_MAX);
	for (i = 0; i < n; i++)
		if ((options->values[i] == 0 && variable != BENCH_GAP_US) ||
			options->values[i] > value_most(variable))
			return -EINVAL;
	if (n < 0)
		return n;
	options->n_values = (unsigned int)n;
	return 0;
}

/*
 * May this process run there? A processor that sched_setaffinity() would refuse is found before
 * measuring.
 */
static int can_pin(int cpu)
{
	cpu_set_t set;

	return cpu >= 0 && cpu < CPU_SETSIZE && sched_getaffinity(0, sizeof(set), &set) == 0 &&
	       CPU_ISSET(cpu, &set);
}

static int parse_pin(const char *text, struct bench_options *options)
{
	char rest;

	options->cpus[0] = options->cpus[1] = -1;
	if (strcmp(text, "none") == 0)
		return 0;
	if (sscanf(text, "%d,%d%c", &options->cpus[0], &options->cpus[1], &rest) != 2)
		return -EINVAL;
	if (can_pin(options->cpus[0]) && can_pin(options->cpus[1]))
		return 0;
	fprintf(stderr, "%s: --pin %s: not processors that this process may use\n", PROGRAM, text);
	return -EINVAL;
}

/*
 * Blocking ends are left to the scheduler, as a program would be: on one host it runs both where
 * a wake-up is cheapest. Spinning ends need a processor each: the first two that we may use.
 */
static void pin_by_default(struct bench_options *options)
{
	cpu_set_t set;
	int cpu, n = 0;

	options->cpus[0] = options->cpus[1] = -1;
	if (!options->spin_us || options->spin_us == RIPC_SPIN_NEVER || options->to ||
		options->serve || sched_getaffinity(0, sizeof(set), &set) < 0 ||
		CPU_COUNT(&set) < 2)
		return;
	for (cpu = 0; n < 2 && cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			options->cpus[n++] = cpu;
}

static int parse_option(int option, const char *arg, struct bench_options *options)
{
	switch (option) {
	case 's':
		return parse_sizes(arg, options);
	case 'v':
		return parse_peers(arg, options);
	case 'b':
		options->backend = arg;
		return arg[0] ? 0 : -EINVAL;
	case 'u':
		return tool_parse_number(arg, 0, 1000000, &options->spin_us);
	case 'z':
		options->spin_us = RIPC_SPIN_NEVER;
		return 0;
	case 'o':
		options->flags = RIPC_SINGLE_THREAD;
		return 0;
	case 'j':
		options->json = 1;
		return 0;
	case 'U':
		options->untouched = 1;
		return 0;
	case 'S':
		options->serve = 1;
		return 0;
	case 'c':
		return tool_parse_number(arg, 1, BENCH_COUNT_MAX, &options->count);
	case 'p':
		return tool_parse_number(arg, 1, 100000, &options->pairs);
	case 'P':
		return parse_pin(arg, options);
	case 'i':
		return tool_parse_service(arg, &options->server_id);
	case 't':
		return tool_parse_service(arg, &options->to);
	case 'd':
		return parse_values(arg, BENCH_DEPTH, options);
	case 'r':
		return parse_values(arg, BENCH_RATE_HZ, options);
	case 'g':
		return parse_values(arg, BENCH_GAP_US, options);
	case 'T':
		return parse_values(arg, BENCH_THREADS, options);
	case 'n':
		return parse_values(arg, BENCH_SENDERS, options);
	case 'N':
		return parse_values(arg, BENCH_N_PARTNERS, options);
	case 'O':
		options->out = arg;
		return arg[0] && strlen(arg) < 256 ? 0 : -EINVAL;
	case 'H':
		options->host = arg;
		return strlen(arg) < 64 && !strchr(arg, ' ') ? 0 : -EINVAL;
	default:
		return -EINVAL;
	}
}

static int set_test(const char *name, struct bench_options *options)
{
	const struct bench_test *test = bench_find_test(name);

	if (!test)
		return -EINVAL;
	options->test = test;
	options->pairs = test->pairs;
	options->peers[0] = &bench_ripc;
	parse_peers(test->peers, options);
	parse_sizes(test->sizes, options);
	options->n_values = 1;
	if (test->variable)
		parse_values(test->values, test->variable, options);
	return 0;
}

/*
 * Is there such a backend? Asked in a process of its own, as all that opens a context is. Returns
 * TOOL_USAGE if not; whatever else keeps it from running is told by the run itself.
 */
static int check_backend(const char *names)
{
	struct ripc_config config = {
		.size = sizeof(config), .log = tool_log, .log_arg = (void *)PROGRAM};
	struct ripc_context *ctx;
	int status, err;
	pid_t pid = fork();

	if (pid == 0) {
		setenv("RIPC_BACKENDS", names, 1); /* which outdoes the configuration */
		err = ripc_open(&config, &ctx);
		if (err == 0)
			ripc_close(ctx, 0);
		_exit(err == -EINVAL ? TOOL_USAGE : TOOL_OK);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : TOOL_FAILED;
}

static int run(struct bench_options *options)
{
	char host[64];
	int err;

	if (options->serve) {
		err = bench_join_serve(options);
		return tool_failed(PROGRAM, "cannot serve", err);
	}
	if (options->to && !options->host) {
		err = bench_join_host(options->to, host, sizeof(host));
		if (err < 0)
			return tool_failed(PROGRAM, "cannot reach the server", err);
		options->host = host;
	}
	return bench_run_all(options) < 0 ? TOOL_FAILED : TOOL_OK;
}

/* As many as there may be, within reason: a thousand partners take some thousands. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= DESCRIPTORS)
		return;
	limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"size", required_argument, NULL, 's'},
		{"vs", required_argument, NULL, 'v'},
		{"backend", required_argument, NULL, 'b'},
		{"spin", required_argument, NULL, 'u'},
		{"sleep", no_argument, NULL, 'z'},
		{"single", no_argument, NULL, 'o'},
		{"count", required_argument, NULL, 'c'},
		{"pairs", required_argument, NULL, 'p'},
		{"pin", required_argument, NULL, 'P'},
		{"depth", required_argument, NULL, 'd'},
		{"rate", required_argument, NULL, 'r'},
		{"gap", required_argument, NULL, 'g'},
		{"threads", required_argument, NULL, 'T'},
		{"senders", required_argument, NULL, 'n'},
		{"partners", required_argument, NULL, 'N'},
		{"out", required_argument, NULL, 'O'},
		{"untouched", no_argument, NULL, 'U'},
		{"json", no_argument, NULL, 'j'},
		{"server", no_argument, NULL, 'S'},
		{"id", required_argument, NULL, 'i'},
		{"to", required_argument, NULL, 't'},
		{"host", required_argument, NULL, 'H'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	static struct bench_options options = {.cpus = {-2, -2}};
	int option, err, has_test = argc > 1 && argv[1][0] != '-';

	/* The test comes first, as the meaning of the options depends on it. */
	if (has_test && set_test(argv[1], &options) < 0)
		return usage_error("there is no such test");
	argc -= has_test;
	argv += has_test;
	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) >= 0) {
		if (option == 'h') {
			print_usage(stdout);
			return TOOL_OK;
		}
		err = parse_option(option, optarg, &options);
		if (err == -ENOPKG)
			return TOOL_USAGE;
		if (err < 0) {
			tool_bad_value(PROGRAM, optarg);
			return usage_error("invalid option");
		}
	}
	if (optind < argc)
		return usage_error("an argument too many");
	if (!has_test && !options.serve)
		return usage_error("which test?");
	if (options.cpus[0] == -2)
		pin_by_default(&options);
	if (options.backend && check_backend(options.backend) == TOOL_USAGE)
		return usage_error("--backend, or what the environment says, is wrong");
	raise_descriptors();
	return run(&options);
}
