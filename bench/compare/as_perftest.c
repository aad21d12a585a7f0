/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * as_perftest: libripc measured as perftest measures an RDMA device, so that the figures can stand
 * side by side (bench/compare/rdma_compare). Two processes of one host; no byte of a message is
 * written or read while the clock runs, but what came last is compared afterwards. RIPC_BACKENDS
 * chooses the network.
 *
 *   latency  short messages there and back, as ib_send_lat: the median of half a round trip, and
 *            the mean, which is what fi_pingpong tells
 *   read     long messages, so many under way, as ib_read_bw: who receives them reads them
 *   write    long replies into return buffers, so many under way, as ib_write_bw: the end that
 *            replies writes them
 *
 * The end that moves the bytes polls, and the other one sleeps, as with perftest; for latency both
 * poll. With --sleep all sleep, as perftest with -e; with --poll nobody does, as with ofi_stream.
 * Bytes per second count from the first message until the last one has come, which its sender or
 * its client knows; with --steady, from when the warm-up has come, which goes on into what is
 * counted, as with ofi_stream.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <ripc/ripc.h>
#include "../../examples/command_line.h"

#define DEPTH_MAX 64
#define COUNT_MAX 1000000
#define SIZE_MAX_BYTES ((uint64_t)1 << 31)
#define WAIT_MS	  30000
#define POLL_US	  1000000
#define RUN_S	  300 /* no process lives longer */

enum test { LATENCY, READ, WRITE };

struct job {
	enum test test;
	uint64_t size, count, warm_up, depth;
	bool sleep, poll, steady;
};

struct end {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t partner;
	char *buffer; /* of the pool: what is sent */
};

static const char usage_text[] =
	"usage: as_perftest latency|read|write [--size N] [--count N] [--depth N]\n"
	"       [--sleep|--poll] [--steady]\n"
	"\n"
	"Measures libripc as ib_send_lat, ib_read_bw or ib_write_bw measure a device; prints one\n"
	"JSON object. RIPC_BACKENDS chooses the network.\n"
	"\n"
	"  --size N   bytes of a message (default 64 or 1M)\n"
	"  --count N  messages that are measured (default 1000 or 100)\n"
	"  --depth N  long messages under way (default 8)\n"
	"  --sleep    nobody polls\n"
	"  --poll     both ends poll\n"
	"  --steady   of read: the clock starts when the warm-up has come, without a pause\n"
	"  --help     this text\n";

static void check(int error, const char *what)
{
	if (error >= 0)
		return;
	fprintf(stderr, "as_perftest: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void pattern_fill(char *bytes, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		bytes[i] = (char)(i % 251);
}

static void pattern_check(const struct iovec *item, uint64_t len)
{
	const char *bytes = item->iov_base;
	bool is_right = item->iov_len == len;

	for (uint64_t i = 0; is_right && i < len; i++)
		is_right = bytes[i] == (char)(i % 251);
	check(is_right ? 0 : -EBADMSG, "received data");
}

static void end_open(const struct job *job, bool polls, struct end *end)
{
	const struct ripc_config config = {.size = sizeof(config),
		.spin_us = (polls && !job->sleep) || job->poll ? POLL_US : RIPC_SPIN_NEVER};
	void *buffer;

	alarm(RUN_S);
	check(ripc_open(&config, &end->ctx), "opening a context");
	check(ripc_service_open(end->ctx, 0, 0, &end->svc), "opening a service");
	check(ripc_buf_alloc(end->ctx, job->size, &buffer), "memory for messages");
	end->buffer = buffer;
	pattern_fill(end->buffer, job->size);
}

static void end_close(const struct end *end)
{
	check(ripc_buf_free(end->ctx, end->buffer), "freeing memory");
	check(ripc_close(end->ctx, WAIT_MS), "closing");
}

static struct ripc_msg *receive(const struct end *end)
{
	struct ripc_msg *msg;

	check(ripc_receive(end->svc, WAIT_MS, &msg), "receiving");
	return msg;
}

/* ---- the other end ----------------------------------------------------------------------- */

static void serve_latency(const struct job *job, const struct end *end)
{
	const struct iovec item = {end->buffer, job->size};

	for (uint64_t i = 0; i < job->warm_up + job->count; i++) {
		struct ripc_msg *msg = receive(end);

		check(ripc_send_short(end->svc, msg->from, &item, 1), "replying");
		ripc_msg_free(msg);
	}
}

static void serve_read(const struct job *job, const struct end *end)
{
	for (uint64_t i = 1; i <= job->warm_up + job->count; i++) {
		struct ripc_msg *msg = receive(end);

		if (i == job->warm_up + job->count)
			pattern_check(&msg->items[0], job->size);
		ripc_msg_free(msg);
	}
}

static void answer(const struct job *job, const struct end *end, const struct ripc_msg *msg)
{
	const struct iovec item = {end->buffer, job->size};
	const struct ripc_send send = {.size = sizeof(send), .to = msg->from, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = WAIT_MS,
		.reply_to = msg->reply};

	check(ripc_sendmsg(end->svc, &send, NULL), "replying");
}

static void serve_write(const struct job *job, const struct end *end)
{
	uint64_t ended = 0;

	while (ended < job->warm_up + job->count) {
		struct ripc_msg *msg = receive(end);

		if (msg->kind == RIPC_COMPLETION) {
			check(msg->status, "a reply");
			ended++;
		} else {
			answer(job, end, msg);
		}
		ripc_msg_free(msg);
	}
}

static void serve(const struct job *job, int id_fd)
{
	struct end end;
	uint64_t id;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	end_open(job, true, &end);
	id = ripc_service_id(end.svc);
	if (write(id_fd, &id, sizeof(id)) != sizeof(id))
		check(-EPIPE, "telling the ID");
	if (job->test == LATENCY)
		serve_latency(job, &end);
	else if (job->test == READ)
		serve_read(job, &end);
	else
		serve_write(job, &end);
	end_close(&end);
	exit(0);
}

/* ---- the end that measures --------------------------------------------------------------- */

static int compare_doubles(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/* As perftest: a sample is the time between two sends. */
static void measure_latency(const struct job *job, const struct end *end)
{
	const struct iovec item = {end->buffer, job->size};
	double *samples = calloc(job->count, sizeof(*samples)), sent_us = 0, last_us, sum = 0;
	struct ripc_msg *msg = NULL;

	check(samples ? 0 : -ENOMEM, "memory for samples");
	for (uint64_t i = 0; i <= job->warm_up + job->count; i++) {
		last_us = sent_us;
		sent_us = now_us();
		if (i > job->warm_up)
			sum += samples[i - job->warm_up - 1] = (sent_us - last_us) / 2;
		if (i == job->warm_up + job->count)
			break;
		check(ripc_send_short(end->svc, end->partner, &item, 1), "sending");
		ripc_msg_free(msg);
		msg = receive(end);
	}
	pattern_check(&msg->items[0], job->size);
	ripc_msg_free(msg);
	qsort(samples, job->count, sizeof(*samples), compare_doubles);
	printf("{\"half_round_trip_us\": %.3f, \"least_us\": %.3f, \"p99_us\": %.3f, "
	       "\"mean_us\": %.3f", samples[job->count / 2], samples[0],
		samples[job->count - 1 - job->count / 100], sum / (double)job->count);
	free(samples);
}

static void send_one(const struct job *job, const struct end *end)
{
	const struct iovec item = {end->buffer, job->size};
	const struct ripc_send send = {.size = sizeof(send), .to = end->partner, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = WAIT_MS};

	check(ripc_sendmsg(end->svc, &send, NULL), "sending");
}

static void await_completion(const struct end *end)
{
	struct ripc_msg *msg = receive(end);

	check(msg->kind == RIPC_COMPLETION ? msg->status : -EBADMSG, "a long message");
	ripc_msg_free(msg);
}

/* Sends so many, and returns when all have come: the time when so many had ("from"). */
static double stream_read(const struct job *job, const struct end *end, uint64_t count,
		uint64_t from)
{
	double from_us = 0;
	uint64_t sent = 0;

	for (uint64_t ended = 0; ended < count; ended++) {
		if (ended == from)
			from_us = now_us();
		while (sent < count && sent - ended < job->depth) {
			send_one(job, end);
			sent++;
		}
		await_completion(end);
	}
	return from_us;
}

static void ask(const struct job *job, const struct end *end, const struct iovec *place)
{
	const struct ripc_buffer lent = {.mem = *place, .cookie = (uintptr_t)place->iov_base};
	const struct iovec request = {"?", 1};
	const struct ripc_send send = {.size = sizeof(send), .to = end->partner,
		.items = &request, .n_items = 1, .returns = &lent, .n_returns = 1,
		.cookie = (uintptr_t)place->iov_base};

	(void)job;
	check(ripc_sendmsg(end->svc, &send, NULL), "sending requests");
}

/* The place that a reply came into. */
static struct iovec await_answer(const struct job *job, const struct end *end)
{
	struct ripc_msg *msg = receive(end);
	struct iovec place;

	check(msg->kind == RIPC_LONG && msg->n_items == 1 && msg->places &&
		msg->places[0].place == RIPC_IN_RETURN ? 0 : -EBADMSG, "a reply");
	place = (struct iovec){(void *)(uintptr_t)msg->places[0].cookie, job->size};
	ripc_msg_free(msg);
	return place;
}

static void stream_write(const struct job *job, const struct end *end, struct iovec *places,
		uint64_t count)
{
	struct iovec place;
	uint64_t asked = 0;

	for (; asked < count && asked < job->depth; asked++)
		ask(job, end, &places[asked]);
	for (uint64_t ended = 0; ended < count; ended++) {
		place = await_answer(job, end);
		if (asked++ < count)
			ask(job, end, &place);
	}
	pattern_check(&place, job->size);
}

static void measure_long(const struct job *job, const struct end *end)
{
	struct iovec places[DEPTH_MAX];
	double began_us = 0;
	uint64_t count = job->warm_up;

	for (uint64_t i = 0; job->test == WRITE && i < job->depth; i++) {
		check(ripc_buf_alloc(end->ctx, job->size, &places[i].iov_base), "return buffers");
		places[i].iov_len = job->size;
		memset(places[i].iov_base, 0, job->size);
	}
	if (job->steady)
		began_us = stream_read(job, end, job->warm_up + job->count, job->warm_up);
	for (int round = 0; round < 2 && !job->steady; round++, count = job->count) {
		began_us = now_us();
		if (job->test == READ)
			(void)stream_read(job, end, count, 0);
		else
			stream_write(job, end, places, count);
	}
	printf("{\"mib_per_s\": %.3f",
		(double)(job->size * job->count) / 1.048576 / (now_us() - began_us));
	for (uint64_t i = 0; job->test == WRITE && i < job->depth; i++)
		check(ripc_buf_free(end->ctx, places[i].iov_base), "freeing return buffers");
}

static int measure(const struct job *job, uint64_t partner)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc_path path = {.size = sizeof(path)};
	struct end end = {.partner = partner};

	end_open(job, job->test == LATENCY, &end);
	check(ripc_resolve(end.ctx, partner, WAIT_MS), "finding the other end");
	if (job->test == LATENCY)
		measure_latency(job, &end);
	else
		measure_long(job, &end);
	check(ripc_path_info(end.svc, partner, &path), "the path");
	check(ripc_stats_get(end.ctx, &stats), "the statistics");
	printf(", \"path\": \"%s/%s\", \"repeated\": %" PRIu64 "}\n", path.backend, path.bulk,
		stats.announcements_repeated);
	end_close(&end);
	return 0;
}

/* ---- the command line -------------------------------------------------------------------- */

/* Before this process has a context. */
static pid_t start_server(const struct job *job, uint64_t *id)
{
	int fds[2];
	pid_t pid;

	check(pipe(fds) < 0 ? -errno : 0, "a pipe");
	pid = fork();
	check(pid < 0 ? -errno : 0, "a process");
	if (pid == 0)
		serve(job, fds[1]);
	close(fds[1]);
	if (read(fds[0], id, sizeof(*id)) != sizeof(*id))
		check(-ESRCH, "the other end");
	close(fds[0]);
	return pid;
}

static int parse_test(const char *name, struct job *job)
{
	static const char *const names[] = {"latency", "read", "write"};

	for (int i = 0; i < 3; i++) {
		if (strcmp(name, names[i]))
			continue;
		*job = (struct job){.test = (enum test)i, .depth = 8,
			.size = i == LATENCY ? 64 : 1 << 20, .count = i == LATENCY ? 1000 : 100};
		return 0;
	}
	return -EINVAL;
}

static int parse_option(int option, const char *text, struct job *job)
{
	uint64_t value = 0;

	switch (option) {
	case 'z':
		job->sleep = true;
		return 0;
	case 'p':
		job->poll = true;
		return 0;
	case 't':
		job->steady = true;
		return job->test == READ ? 0 : -EINVAL;
	}
	if (option == '?' || parse_bytes(text, &value) < 0 || value == 0)
		return -EINVAL;
	if (option == 's')
		job->size = value;
	else if (option == 'c')
		job->count = value;
	else
		job->depth = value;
	return job->size > SIZE_MAX_BYTES || job->count > COUNT_MAX || job->depth > DEPTH_MAX ?
		-EINVAL : 0;
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"size", required_argument, NULL, 's'},
		{"count", required_argument, NULL, 'c'},
		{"depth", required_argument, NULL, 'd'},
		{"sleep", no_argument, NULL, 'z'},
		{"poll", no_argument, NULL, 'p'},
		{"steady", no_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct job job;
	uint64_t partner;
	int option, error, status;
	pid_t pid;

	error = argc > 1 ? parse_test(argv[1], &job) : -EINVAL;
	while (!error && (option = getopt_long(argc - 1, argv + 1, "", long_options, NULL)) >= 0) {
		if (option == 'h') {
			fputs(usage_text, stdout);
			return 0;
		}
		error = parse_option(option, optarg, &job);
	}
	if (error || optind + 1 < argc) {
		fputs(usage_text, stderr);
		return 2;
	}
	job.warm_up = job.test == LATENCY ? 100 : 2 * job.depth;
	/* without this, a message over siw takes three more system calls */
	signal(SIGPIPE, SIG_IGN);
	pid = start_server(&job, &partner);
	measure(&job, partner);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status))
		check(-EIO, "the other end");
	return 0;
}
