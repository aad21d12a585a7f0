/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many long messages of mixed sizes with RIPC_ORDERED, each with its place in the order: none may
 * come out of it. Knows nothing but ripc.h. Speaks JSON, one object per line.
 *
 *   ordered serve --id N --count N        receives so many ordered ones, then ends
 *   ordered send --to N --count N         sends them, as many at once as are taken
 *
 * options: --most N   bytes of the longest (default 262144): most are short
 *          --least N  bytes of the shortest (default 16)
 *          --give     each in a pool buffer, which is given
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ripc/ripc.h"

#define UNORDERED UINT64_MAX /* instead of a place */
#define SLOTS     1024
#define ORDERED   (1ull << 32) /* in a cookie, beside the slot */

struct job {
	struct ripc_service *svc;
	struct ripc_context *ctx;
	uint64_t id, to, count, least, most, seed;
	bool give;
	uint64_t sent, ended, wrong, free_slots[SLOTS];
	uint32_t n_free;
	uint8_t *memory[SLOTS];
};

static int fail(const char *what, int error)
{
	fprintf(stderr, "ordered: %s: %s\n", what, ripc_strerror(error));
	return 1;
}

static uint64_t draw(struct job *job)
{
	job->seed = job->seed * 6364136223846793005u + 1442695040888963407u;
	return job->seed >> 33;
}

/* Every power of two between the bounds is half as likely as the one before. */
static uint64_t length(struct job *job)
{
	uint64_t most = job->least;

	while (most < job->most && draw(job) % 3)
		most *= 2;
	most = most < job->most ? most : job->most;
	return job->least + draw(job) % (most - job->least + 1);
}

/* The place stands at either end. */
static int serve_one(struct job *job, const struct ripc_msg *msg, uint64_t *next)
{
	const uint8_t *bytes = msg->items[0].iov_base;
	size_t len = msg->items[0].iov_len;
	uint64_t first, last;

	if (msg->kind != RIPC_LONG || len < 16)
		return 0;
	memcpy(&first, bytes, 8);
	memcpy(&last, bytes + len - 8, 8);
	if (first == UNORDERED)
		return 0;
	job->wrong += first != last || first != *next;
	*next = first + 1;
	return 1;
}

static int serve(struct job *job)
{
	uint64_t got = 0, next = 0;
	struct ripc_msg *msg;

	printf("ready\n");
	while (got < job->count) {
		int error = ripc_receive(job->svc, 60000, &msg);

		if (error)
			return fail("receive", error);
		got += (uint64_t)serve_one(job, msg, &next);
		ripc_msg_free(msg);
	}
	printf("{\"received\":%llu,\"wrong\":%llu}\n", (unsigned long long)got,
		(unsigned long long)job->wrong);
	return job->wrong != 0;
}

static int take_end(struct job *job)
{
	struct ripc_msg *msg;
	int error = ripc_receive(job->svc, 60000, &msg);

	if (error)
		return fail("completion", error);
	if (msg->kind == RIPC_COMPLETION) {
		job->ended++;
		/* The server ends with the last ordered one. */
		job->wrong += msg->cookie & ORDERED && msg->outcome != RIPC_DELIVERED;
		if (!job->give)
			job->free_slots[job->n_free++] = (uint32_t)msg->cookie;
	}
	ripc_msg_free(msg);
	return 0;
}

/* -EAGAIN: later. One of eight passes by the others. */
static int send_one(struct job *job)
{
	bool ordered = draw(job) % 8 != 0;
	uint64_t slot = job->give ? 0 : job->free_slots[job->n_free - 1];
	uint64_t len = length(job), place = ordered ? job->sent : UNORDERED;
	void *bytes = job->memory[slot];
	struct iovec item = {bytes, len};
	struct ripc_send send = {.size = sizeof(send), .to = job->to, .items = &item,
		.n_items = 1, .timeout_ms = 60000, .cookie = slot | (ordered ? ORDERED : 0),
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT | (ordered ? RIPC_ORDERED : 0) |
		(job->give ? RIPC_GIVE : 0)};
	int error = job->give ? ripc_buf_alloc(job->ctx, len, &item.iov_base) : 0;

	if (error)
		return error == -ENOMEM ? -EAGAIN : error;
	memcpy(item.iov_base, &place, 8);
	memcpy((uint8_t *)item.iov_base + len - 8, &place, 8);
	error = ripc_sendmsg(job->svc, &send, NULL);
	if (error && job->give)
		ripc_buf_free(job->ctx, item.iov_base);
	if (error)
		return error;
	job->n_free -= !job->give;
	job->sent += ordered;
	job->ended--; /* counted down to what is under way */
	return 0;
}

static int send_all(struct job *job)
{
	int error = 0;

	for (uint32_t i = 0; i < SLOTS && !job->give; i++) {
		job->memory[i] = calloc(1, job->most);
		job->free_slots[job->n_free++] = i;
		if (!job->memory[i])
			return fail("memory", -ENOMEM);
	}
	while (job->sent < job->count && !error) {
		error = job->give || job->n_free ? send_one(job) : -EAGAIN;
		if (error == -EAGAIN)
			error = take_end(job);
		else if (error)
			return fail("send", error);
	}
	while (job->ended != 0 && !error)
		error = take_end(job);
	printf("{\"sent\":%llu,\"wrong\":%llu}\n", (unsigned long long)job->sent,
		(unsigned long long)job->wrong);
	return error || job->wrong;
}

static void parse(int argc, char **argv, struct job *job)
{
	static const struct option names[] = {{"id", required_argument, NULL, 'i'},
		{"to", required_argument, NULL, 't'}, {"count", required_argument, NULL, 'c'},
		{"least", required_argument, NULL, 'l'}, {"most", required_argument, NULL, 'm'},
		{"give", no_argument, NULL, 'g'}, {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		uint64_t value = optarg ? strtoull(optarg, NULL, 10) : 0;

		switch (c) {
		case 'i': job->id = value; break;
		case 't': job->to = value; break;
		case 'c': job->count = value; break;
		case 'l': job->least = value < 16 ? 16 : value; break;
		case 'm': job->most = value; break;
		case 'g': job->give = true; break;
		default: exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	static struct job job = {.count = 1000, .least = 16, .most = 262144, .seed = 1};
	struct ripc_config cfg = {.size = sizeof(cfg)};
	int error;

	setvbuf(stdout, NULL, _IOLBF, 0);
	parse(argc, argv, &job);
	error = ripc_open(&cfg, &job.ctx);
	if (!error)
		error = ripc_service_open(job.ctx, job.id, 0, &job.svc);
	if (error)
		return fail("open", error);
	error = optind < argc && strcmp(argv[optind], "send") == 0 ? send_all(&job) : serve(&job);
	ripc_close(job.ctx, 5000);
	return error;
}
