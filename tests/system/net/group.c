/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members of a group, and who sends to it: what was sent, what came, and what the sender was told.
 * Knows nothing but the public headers. Speaks JSON, one object per line.
 *
 *   group join NAME [--id N]     joins; tells when the first message has come, since it joined; at
 *                                the end of its input tells what has come
 *   group send NAME [options]    finds the members, then sends
 *
 * options: --members N   waits until so many are known
 *          --shorts N    so many short messages first, one every 200 us (default 0)
 *          --longs N     so many long ones (default 0)
 *          --bytes N     each so long (default 1048576), in one given buffer
 *          --leave-slow  with RIPC_LEAVE_SLOW
 *          --timeout N   ms of a long one (default 5000)
 *          --patience N  ms after which a silent member is given up (default 10000)
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ripc/group.h"
#include "ripc/stats.h"

#define SEEN_MAX 65536u
#define PROBE    UINT64_MAX /* the number of what only finds the members */

struct head {
	uint64_t number, sent_ns;
};

struct counts {
	uint64_t shorts, longs, twice, foreign, joined_ns, first_us;
	uint64_t took_us[SEEN_MAX];
	uint8_t seen[2][SEEN_MAX];
};

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int fail(const char *what, int error)
{
	fprintf(stderr, "group: %s: %s\n", what, ripc_strerror(error));
	return 1;
}

static int compare(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return (one > other) - (one < other);
}

static uint64_t median(uint64_t *values, uint64_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return n ? values[n / 2] : 0;
}

/* ---- a member ---------------------------------------------------------------------------- */

static void took(struct counts *counts, uint64_t group, const struct ripc_msg *msg)
{
	bool is_long = msg->kind == RIPC_LONG;
	struct head head;

	if (!counts->first_us) {
		counts->first_us = (clock_ns() - counts->joined_ns) / 1000;
		printf("{\"first_us\": %" PRIu64 "}\n", counts->first_us);
		fflush(stdout);
	}
	if (msg->group != group || msg->n_items != 1 || msg->items[0].iov_len < sizeof(head)) {
		counts->foreign++;
		return;
	}
	memcpy(&head, msg->items[0].iov_base, sizeof(head));
	if (head.number >= SEEN_MAX)
		return;
	counts->twice += counts->seen[is_long][head.number]++ != 0;
	if (is_long)
		counts->took_us[counts->longs++] = (clock_ns() - head.sent_ns) / 1000;
	else
		counts->shorts++;
}

/* took_us: of each long message, in the order in which they came. */
static void say_counts(struct counts *counts, uint64_t id)
{
	printf("{\"id\": %" PRIu64 ", \"shorts\": %" PRIu64 ", \"longs\": %" PRIu64 ", \"twice\": %"
		PRIu64 ", \"foreign\": %" PRIu64 ", \"took_us\": [", id, counts->shorts,
		counts->longs, counts->twice, counts->foreign);
	for (uint64_t i = 0; i < counts->longs; i++)
		printf("%s%" PRIu64, i ? ", " : "", counts->took_us[i]);
	printf("], \"median_us\": %" PRIu64 "}\n", median(counts->took_us, counts->longs));
}

static int join(struct ripc_service *svc, uint64_t group)
{
	static struct counts counts;
	struct pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {ripc_service_fd(svc), POLLIN, 0}};
	struct ripc_msg *msg;
	int error = ripc_join(svc, group);

	if (error)
		return fail("join", error);
	counts.joined_ns = clock_ns();
	printf("ready\n");
	fflush(stdout);
	while (!fds[0].revents) {
		poll(fds, 2, -1);
		while (ripc_receive(svc, 0, &msg) == 0) {
			took(&counts, group, msg);
			ripc_msg_free(msg);
		}
	}
	say_counts(&counts, ripc_service_id(svc));
	return 0;
}

/* ---- the sender -------------------------------------------------------------------------- */

struct job {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t group, id, members, shorts, longs, bytes;
	uint32_t flags, patience_ms;
	int timeout_ms;
};

static int send_head(const struct job *job, uint64_t number, struct ripc_counts *counts)
{
	struct head head = {number, clock_ns()};
	const struct iovec item = {&head, sizeof(head)};
	struct ripc_send send = {.size = sizeof(send), .to = job->group, .items = &item,
		.n_items = 1, .timeout_ms = job->timeout_ms, .counts = counts,
		.flags = counts ? RIPC_SEND_LONG : 0};

	return ripc_sendmsg(job->svc, &send, NULL);
}

/* Until so many members have what only finds them, or a minute is over. */
static int find(const struct job *job)
{
	struct ripc_counts counts = {0};
	uint64_t began_ns = clock_ns();
	int error = ripc_await(job->ctx, job->group, 60000);

	while (!error && counts.delivered < job->members && clock_ns() - began_ns < 60000000000)
		(void)send_head(job, PROBE, &counts);
	printf("{\"found\": %u, \"found_ms\": %" PRIu64 "}\n", counts.delivered,
		(clock_ns() - began_ns) / 1000000);
	fflush(stdout);
	return error;
}

static int send_shorts(const struct job *job)
{
	struct ripc_stats before = {.size = sizeof(before)}, after = before;
	uint64_t refused = 0;

	ripc_stats_get(job->ctx, &before);
	for (uint64_t i = 0; i < job->shorts; i++) {
		refused += send_head(job, i, NULL) != 0;
		usleep(200);
	}
	ripc_stats_get(job->ctx, &after);
	printf("{\"shorts\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"datagrams\": %" PRIu64
		", \"to_many\": %" PRIu64 "}\n", job->shorts, refused,
		after.datagrams_sent - before.datagrams_sent, after.many_sent - before.many_sent);
	fflush(stdout);
	return 0;
}

static int send_long(const struct job *job, uint64_t number)
{
	struct ripc_counts counts = {0};
	struct iovec item = {NULL, job->bytes};
	struct ripc_send send = {.size = sizeof(send), .to = job->group, .items = &item,
		.n_items = 1, .timeout_ms = job->timeout_ms, .counts = &counts,
		.flags = RIPC_SEND_LONG | RIPC_GIVE | job->flags};
	uint64_t began_ns;
	int error = ripc_buf_alloc(job->ctx, job->bytes, &item.iov_base);

	if (error)
		return error;
	memset(item.iov_base, (int)number, job->bytes);
	began_ns = clock_ns();
	memcpy(item.iov_base, &(struct head){number, began_ns}, sizeof(struct head));
	error = ripc_sendmsg(job->svc, &send, NULL);
	printf("{\"long\": %" PRIu64 ", \"delivered\": %u, \"not_delivered\": %u, \"unknown\": %u, "
		"\"status\": %d, \"ms\": %" PRIu64 "}\n", number, counts.delivered,
		counts.not_delivered, counts.unknown, error, (clock_ns() - began_ns) / 1000000);
	fflush(stdout);
	if (!counts.delivered && !counts.unknown)
		ripc_buf_free(job->ctx, item.iov_base);
	return 0;
}

static int work(const struct job *job)
{
	int error = find(job);
	char line[16];

	if (!error && job->shorts)
		error = send_shorts(job);
	/* A line of input lets the next long one go: what happens in between is the test's. */
	for (uint64_t i = 0; !error && i < job->longs && fgets(line, sizeof(line), stdin); i++)
		error = send_long(job, i);
	return error ? fail("send", error) : 0;
}

static bool job_parse(struct job *job, int argc, char **argv)
{
	static const struct option options[] = {{"members", 1, NULL, 'm'}, {"shorts", 1, NULL, 's'},
		{"longs", 1, NULL, 'l'}, {"bytes", 1, NULL, 'b'}, {"leave-slow", 0, NULL, 'w'},
		{"timeout", 1, NULL, 't'}, {"patience", 1, NULL, 'p'}, {"id", 1, NULL, 'i'},
		{NULL, 0, NULL, 0}};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint64_t number = optarg ? strtoull(optarg, NULL, 0) : 0;

		switch (option) {
		case 'i': job->id = number; break;
		case 'm': job->members = number; break;
		case 's': job->shorts = number; break;
		case 'l': job->longs = number; break;
		case 'b': job->bytes = number; break;
		case 't': job->timeout_ms = (int)number; break;
		case 'p': job->patience_ms = (uint32_t)number; break;
		case 'w': job->flags = RIPC_LEAVE_SLOW; break;
		default: return false;
		}
	}
	return argc - optind == 2;
}

int main(int argc, char **argv)
{
	struct job job = {.bytes = 1 << 20, .timeout_ms = 5000};
	struct ripc_config config = {.size = sizeof(config)};
	int error, status;

	if (!job_parse(&job, argc, argv)) {
		fprintf(stderr, "usage: group join|send NAME [options]\n");
		return 2;
	}
	config.peer_timeout_ms = job.patience_ms;
	error = ripc_open(&config, &job.ctx);
	if (!error)
		error = ripc_service_open(job.ctx, job.id, 0, &job.svc);
	if (error)
		return fail("open", error);
	job.group = ripc_group_from_name(argv[optind + 1]);
	status = strcmp(argv[optind], "join") ? work(&job) : join(job.svc, job.group);
	ripc_close(job.ctx, 1000);
	return status;
}
