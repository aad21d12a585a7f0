/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of ripc-bench. Each run has a server and a client process of its own, forked from a parent
 * that never opens a context or a socket: no run inherits anything from another one. The runs
 * of the peers take turns, A B C A B C, so that what disturbs the machine disturbs all alike.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <ripc/ripc.h>
#include "bench.h"

#define START_MS 10000 /* a server must be ready within this */

/* ---- processes ---- */

static void pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

void bench_end_process(int pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static int read_ready(int fd, struct bench_job *job)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	ssize_t got;

	if (poll(&poll_fd, 1, START_MS) <= 0)
		return -ETIMEDOUT;
	got = read(fd, job->where, sizeof(job->where));
	if (got <= 0 || job->where[got - 1] != '\0')
		return -ECHILD;
	return 0;
}

static void server_process(
	const struct bench_peer *peer, const struct bench_job *job, int cpu, int ready_fd)
{
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(BENCH_RUN_SECONDS);
	pin(cpu);
	err = peer->halves[job->kind].serve(job, ready_fd);
	fprintf(stderr, "%s: %s server: %s\n", PROGRAM, peer->name, ripc_strerror(err));
	_exit(TOOL_FAILED);
}

int bench_start_server(const struct bench_peer *peer, struct bench_job *job, int cpu, int *pid)
{
	int fds[2], child, err;

	if (pipe(fds) < 0)
		return -errno;
	child = fork();
	if (child == 0) {
		close(fds[0]);
		server_process(peer, job, cpu, fds[1]);
	}
	err = child < 0 ? -errno : 0;
	close(fds[1]);
	if (err == 0) {
		err = read_ready(fds[0], job);
		if (err < 0)
			bench_end_process(child);
	}
	close(fds[0]);
	if (err == 0)
		*pid = child;
	return err;
}

/* Runs the client in a process of its own. result is in shared memory. */
static int run_client(const struct bench_peer *peer, const struct bench_job *job, int cpu,
	struct bench_result *result)
{
	int pid, status, err;

	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(BENCH_RUN_SECONDS);
		pin(cpu);
		result->err = peer->halves[job->kind].measure(job, result);
		_exit(TOOL_OK);
	}
	err = bench_cost_wait(
		pid, &status, &result->cost.client_user, &result->cost.client_system);
	if (err == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != TOOL_OK))
		err = -ECHILD;
	return err < 0 ? err : result->err;
}

static int run_once(const struct bench_options *options, const struct bench_peer *peer,
	struct bench_job *job, struct bench_result *result)
{
	int server, status, err;

	memset(result, 0, sizeof(*result));
	if (options->to)
		err = bench_join_start(options->to, peer, job, &server);
	else
		err = bench_start_server(peer, job, options->cpus[1], &server);
	if (err < 0)
		return bench_failed(result, "start of the server", err);
	bench_cost_now(&result->cost);
	err = run_client(peer, job, options->cpus[0], result);
	bench_cost_since(&result->cost);
	if (options->to) {
		bench_join_stop(options->to, server);
		return err;
	}
	kill(server, SIGKILL);
	bench_cost_wait(
		server, &status, &result->cost.server_user, &result->cost.server_system);
	return err;
}

/* ---- in turns ---- */

#define COUNT_BYTES (256u << 20) /* of bulk in a run */
#define WARM_UP_BYTES (8u << 20)
#define PACED_RUN_S 0.5

static uint64_t within(uint64_t least, uint64_t value, uint64_t most)
{
	return value < least ? least : value > most ? most : value;
}

/* Enough for a median, but none that lasts for more than seconds. */
static uint64_t default_count(const struct bench_job *job)
{
	uint64_t at_once = job->depth * job->threads;

	switch (job->kind) {
	case BENCH_LATENCY:
		if (job->gap_us)
			return within(50, 1000000 / job->gap_us, 2000);
		return job->size <= 65536 ? 2000 : job->size <= (1u << 20) ? 200 : 10;
	case BENCH_PACED:
		return within(200, (uint64_t)(PACED_RUN_S * (double)job->rate_hz), 50000);
	case BENCH_BANDWIDTH:
		return within(3, COUNT_BYTES / job->size, 1000) + 3 * (at_once - 1);
	case BENCH_RATE:
		return within(2 * at_once, 50000 / job->threads, 50000);
	case BENCH_PARTNERS:
		return within(2000, 5 * job->partners, BENCH_COUNT_MAX);
	default:
		return 200;
	}
}

/* The same number for every peer. */
static void choose_count(const struct bench_options *options, struct bench_job *job)
{
	job->count = options->count ? options->count : default_count(job);
	job->warm_up = job->count / (job->kind == BENCH_BANDWIDTH ? 20 : 10) + 1;
	/* A peer that counts acknowledged messages counts nothing of less than a window. */
	if (job->kind == BENCH_RATE && job->warm_up < job->depth)
		job->warm_up = job->depth;
	/* Several under way count from when it is seen how they go on, not how they begin. */
	if (job->kind == BENCH_BANDWIDTH && job->depth > 1)
		job->warm_up = 2 * job->depth + within(0, WARM_UP_BYTES / job->size, 1000);
}

static void set_value(const struct bench_options *options, uint64_t value, struct bench_job *job)
{
	job->depth = job->threads = job->services = job->partners = 1;
	switch (options->test->variable) {
	case BENCH_DEPTH:
		job->depth = value;
		break;
	case BENCH_RATE_HZ:
		job->rate_hz = value;
		break;
	case BENCH_GAP_US:
		job->gap_us = value;
		break;
	case BENCH_THREADS:
		job->services = value;
		/* fall through */
	case BENCH_SENDERS:
		job->threads = value;
		job->depth = BENCH_THREADS_DEPTH;
		break;
	case BENCH_N_PARTNERS:
		job->partners = value;
		break;
	default:
		break;
	}
}

static int run_pair(const struct bench_options *options, struct bench_job *job, uint64_t pair,
	struct bench_series *series, struct bench_result *result)
{
	char text[128];
	unsigned int i;
	int err;

	for (i = 0; i < options->n_peers; i++) {
		snprintf(text, sizeof(text), "%s, %llu bytes, %s %llu, pair %llu of %llu, %s",
			options->test->name, (unsigned long long)job->size,
			bench_variables[options->test->variable], (unsigned long long)series->value,
			(unsigned long long)pair + 1, (unsigned long long)options->pairs,
			options->peers[i]->name);
		bench_progress(text);
		err = run_once(options, options->peers[i], job, result);
		bench_progress(NULL);
		if (err == 0 && result->n == 0)
			err = bench_failed(result, "all messages were lost", -ETIMEDOUT);
		if (err == 0)
			err = bench_series_add(series, i, pair, result);
		if (err < 0) {
			fprintf(stderr, "%s: %s, %llu bytes: %s: %s\n", PROGRAM,
				options->peers[i]->name, (unsigned long long)job->size,
				result->failed_at, ripc_strerror(err));
			return err;
		}
	}
	return 0;
}

static int run_point(const struct bench_options *options, uint64_t size, uint64_t value,
	struct bench_result *result)
{
	struct bench_job job = {.kind = options->test->kind,
		.size = size,
		.spin_us = options->spin_us,
		.flags = options->flags,
		.untouched = options->untouched};
	struct bench_series series = {.size = size, .value = value};
	uint64_t pair;
	int err = bench_series_begin(&series, options->n_peers, options->pairs);

	if (err < 0)
		return err;
	snprintf(job.host, sizeof(job.host), "%s", options->host ? options->host : "127.0.0.1");
	set_value(options, value, &job);
	choose_count(options, &job);
	series.count = job.count;
	for (pair = 0; err == 0 && pair < options->pairs; pair++)
		err = run_pair(options, &job, pair, &series, result);
	if (err == 0) {
		bench_series_end(&series);
		err = bench_report(options, &series);
	}
	bench_series_free(&series);
	return err;
}

int bench_run_all(const struct bench_options *options)
{
	size_t len = sizeof(struct bench_result) + BENCH_COUNT_MAX * sizeof(double);
	struct bench_result *result;
	unsigned int i, j;
	int err, end_err;

	/* Pages of it are only taken when a sample is written there. */
	result = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
		-1, 0);
	if (result == MAP_FAILED)
		return -errno;
	if (options->backend)
		setenv("RIPC_BACKENDS", options->backend, 1);
	err = bench_report_begin(options);
	for (i = 0; err == 0 && i < options->n_sizes; i++)
		for (j = 0; err == 0 && j < options->n_values; j++)
			err = run_point(options, options->sizes[i], options->values[j], result);
	end_err = bench_report_end(options);
	munmap(result, len);
	return err < 0 ? err : end_err;
}
