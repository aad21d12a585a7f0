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

/* ---- messages ---- */

/* A message is words of seed, seed + 1, ... and, if it is shorter than a word, one byte of it. */
void bench_fill(void *buffer, size_t size, uint64_t seed)
{
	size_t n = size / sizeof(uint64_t), i;
	uint64_t *words = buffer;

	for (i = 0; i < n; i++)
		words[i] = seed + i;
	memset((char *)buffer + n * sizeof(uint64_t), (int)(seed & 0xff), size % sizeof(uint64_t));
}

int bench_check(const void *buffer, size_t size, uint64_t *seed)
{
	const uint64_t *words = buffer;
	const uint8_t *bytes = buffer;
	size_t n = size / sizeof(uint64_t), i;
	uint64_t sum = 0, expected;

	*seed = n ? words[0] : size ? bytes[0] : 0;
	for (i = 0; i < n; i++)
		sum += words[i];
	for (i = n * sizeof(uint64_t); i < size; i++)
		sum += bytes[i];
	/* n consecutive numbers from seed on; n * (n - 1) is even, so that nothing is lost. */
	expected = n ? n * *seed + n * (n - 1) / 2 : 0;
	expected += (size % sizeof(uint64_t)) * (*seed & 0xff);
	return sum == expected ? 0 : -EBADMSG;
}

int bench_failed(struct bench_result *result, const char *where, int err)
{
	snprintf(result->failed_at, sizeof(result->failed_at), "%s", where);
	result->err = err;
	return err;
}

/* ---- processes ---- */

int bench_ready(int ready_fd, const char *where)
{
	size_t len = strlen(where) + 1;

	return write(ready_fd, where, len) == (ssize_t)len ? 0 : -EPIPE;
}

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
	err = bench_half(peer, job->test)->serve(job, ready_fd);
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
	int pid, status;

	memset(result, 0, sizeof(*result));
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(BENCH_RUN_SECONDS);
		pin(cpu);
		result->err = bench_half(peer, job->test)->measure(job, result);
		_exit(TOOL_OK);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status))
		return -ECHILD;
	return result->err;
}

static int run_once(const struct bench_options *options, const struct bench_peer *peer,
	struct bench_job *job, struct bench_result *result)
{
	int server, err;

	if (options->to)
		err = bench_join_start(options->to, peer, job, &server);
	else
		err = bench_start_server(peer, job, options->cpus[1], &server);
	if (err < 0)
		return bench_failed(result, "start of the server", err);
	err = run_client(peer, job, options->cpus[0], result);
	if (options->to)
		bench_join_stop(options->to, server);
	else
		bench_end_process(server);
	return err;
}

/* ---- in turns ---- */

static void free_series(struct bench_series *series)
{
	unsigned int i;

	for (i = 0; i < BENCH_PEERS_MAX; i++) {
		free(series->medians[i]);
		free(series->p99s[i]);
	}
}

static int alloc_series(const struct bench_options *options, struct bench_series *series)
{
	unsigned int i;

	series->pairs = options->pairs;
	for (i = 0; i < options->n_peers; i++) {
		series->medians[i] = calloc(options->pairs, sizeof(double));
		series->p99s[i] = calloc(options->pairs, sizeof(double));
		if (!series->medians[i] || !series->p99s[i]) {
			free_series(series);
			return -ENOMEM;
		}
	}
	return 0;
}

static void keep_result(
	struct bench_series *series, unsigned int peer, uint64_t pair, struct bench_result *result)
{
	tool_sort(result->samples, result->n);
	series->medians[peer][pair] = tool_median(result->samples, result->n);
	series->p99s[peer][pair] = tool_percentile(result->samples, result->n, 0.99);
	series->lost[peer] += result->lost;
	series->wrong[peer] += result->wrong;
	if (result->note[0])
		memcpy(series->note, result->note, sizeof(series->note));
}

/* The same number for every peer: enough for a median, and about a quarter GiB of bulk. */
static void choose_count(const struct bench_options *options, struct bench_job *job)
{
	uint64_t count = options->count;

	if (count == 0 && job->test == BENCH_LATENCY)
		count = job->size <= 65536 ? 2000 : job->size <= (1u << 20) ? 200 : 10;
	else if (count == 0) {
		count = (256u << 20) / (job->size ? job->size : 1);
		count = count < 3 ? 3 : count > 1000 ? 1000 : count;
	}
	job->count = count;
	job->warm_up = job->test == BENCH_LATENCY ? count / 10 + 1 : count / 20 + 1;
}

static int run_pair(const struct bench_options *options, struct bench_job *job, uint64_t pair,
	struct bench_series *series, struct bench_result *result)
{
	char text[96];
	unsigned int i;
	int err;

	for (i = 0; i < options->n_peers; i++) {
		snprintf(text, sizeof(text), "%llu bytes, pair %llu of %llu, %s",
			(unsigned long long)job->size, (unsigned long long)pair + 1,
			(unsigned long long)options->pairs, options->peers[i]->name);
		bench_progress(options, text);
		err = run_once(options, options->peers[i], job, result);
		bench_progress(options, NULL);
		if (err == 0 && result->n == 0)
			err = bench_failed(result, "all messages were lost", -ETIMEDOUT);
		if (err < 0) {
			fprintf(stderr, "%s: %s, %llu bytes: %s: %s\n", PROGRAM,
				options->peers[i]->name, (unsigned long long)job->size,
				result->failed_at, ripc_strerror(err));
			return err;
		}
		keep_result(series, i, pair, result);
	}
	return 0;
}

static int run_size(const struct bench_options *options, uint64_t size, struct bench_result *result)
{
	struct bench_job job = {.test = options->test, .size = size, .spin_us = options->spin_us,
		.flags = options->flags};
	struct bench_series series = {.size = size};
	uint64_t pair;
	int err = alloc_series(options, &series);

	if (err < 0)
		return err;
	snprintf(job.host, sizeof(job.host), "%s", options->host ? options->host : "127.0.0.1");
	choose_count(options, &job);
	series.count = job.count;
	for (pair = 0; err == 0 && pair < options->pairs; pair++)
		err = run_pair(options, &job, pair, &series, result);
	if (err == 0)
		bench_report(options, &series);
	free_series(&series);
	return err;
}

int bench_run_all(const struct bench_options *options)
{
	size_t len = sizeof(struct bench_result) + BENCH_COUNT_MAX * sizeof(double);
	struct bench_result *result;
	unsigned int i;
	int err = 0;

	/* Pages of it are only taken when a sample is written there. */
	result = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
		-1, 0);
	if (result == MAP_FAILED)
		return -errno;
	if (options->backend)
		setenv("RIPC_BACKENDS", options->backend, 1);
	bench_report_begin(options);
	for (i = 0; err == 0 && i < options->n_sizes; i++)
		err = run_size(options, options->sizes[i], result);
	munmap(result, len);
	return err;
}
