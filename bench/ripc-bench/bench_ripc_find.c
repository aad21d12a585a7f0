/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many services in ripc-bench: round trips with each in turn, and how long it takes to find one:
 *
 *   ripc          of a service that this context has not heard of
 *   ripc-again    of one that it has found before
 *   ripc-absent   that nobody has it
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "bench_ripc.h"

#define TURN_MS	    100 /* longest wait for a message that should arrive */
#define ABSENT_MOST 3	/* slow: the library waits until it is sure */
#define RESOLVE_SERVICES 201 /* the first one is asked for the others */

/* ---- the server: n services of one context ---- */

struct many {
	struct bench_end end; /* also the first service */
	struct ripc_service **svcs;
	uint64_t *ids;
	uint64_t n;
};

static int open_many(const struct bench_job *job, uint64_t n, struct many *many)
{
	uint64_t i;
	int err = bench_end_open(job, &many->end);

	many->n = n;
	many->svcs = calloc(n, sizeof(*many->svcs));
	many->ids = calloc(n, sizeof(*many->ids));
	if (err == 0 && (!many->svcs || !many->ids))
		err = -ENOMEM;
	for (i = 0; err == 0 && i < n; i++) {
		many->svcs[i] = many->end.svc;
		if (i > 0)
			err = ripc_service_open(many->end.ctx, 0, 0, &many->svcs[i]);
		if (err == 0)
			many->ids[i] = ripc_service_id(many->svcs[i]);
	}
	return err;
}

/* Takes one message of service i, if there is one. Returns whether. */
static int serve_one(const struct bench_job *job, struct many *many, uint64_t i, int timeout_ms)
{
	struct iovec item = {many->ids, many->n * sizeof(*many->ids)};
	struct ripc_msg *msg;
	uint64_t seed;

	if (ripc_receive(many->svcs[i], timeout_ms, &msg) < 0)
		return 0;
	if (msg->kind == RIPC_LONG) {
		ripc_send_long(many->svcs[i], msg->from, &item, 1, BENCH_STALL_MS);
	} else if (bench_is_message(msg, job->size) &&
		   bench_take(job, msg->items[0].iov_base, &seed) == 0) {
		bench_put(job, many->end.buffer, seed);
		item = (struct iovec){many->end.buffer, job->size};
		ripc_send_short(many->svcs[i], msg->from, &item, 1);
	}
	ripc_msg_free(msg);
	return 1;
}

/* Messages come to one service after the other; if one was lost, they are looked for. */
int bench_ripc_serve_partners(const struct bench_job *job, int ready_fd)
{
	struct many many = {0};
	uint64_t next = 0, i;
	int err = open_many(job, job->partners, &many);

	if (err == 0)
		err = bench_end_tell(&many.end, ready_fd);
	while (err == 0) {
		if (serve_one(job, &many, next, TURN_MS)) {
			next = (next + 1) % many.n;
			continue;
		}
		for (i = 0; i < many.n; i++)
			if (serve_one(job, &many, i, 0))
				next = (i + 1) % many.n;
	}
	return err;
}

/* ---- round trips ---- */

static int find_all(const struct bench_job *job, struct bench_end *end, uint64_t n, uint64_t **ids,
	struct bench_result *result)
{
	int err = bench_end_open_client(job, end, result);

	*ids = calloc(n, sizeof(**ids));
	if (err == 0)
		err = *ids ? bench_ask_ids(end, *ids, n) : -ENOMEM;
	return err < 0 ? bench_failed(result, "asking for the services", err) : 0;
}

/* 0, -ETIMEDOUT or what failed. */
static int go_round(const struct bench_end *end, const struct bench_job *job, uint64_t to,
	uint64_t seed, struct bench_result *result)
{
	struct ripc_msg *msg;
	uint64_t got;
	int err;

	bench_put(job, end->buffer, seed);
	err = bench_send_buffer(end, to, job->size, 0);
	if (err == 0)
		err = ripc_receive(end->svc, BENCH_WAIT_MS, &msg);
	if (err < 0)
		return err;
	if (!bench_is_message(msg, job->size) ||
		bench_take(job, msg->items[0].iov_base, &got) < 0)
		result->wrong++;
	ripc_msg_free(msg);
	return 0;
}

int bench_ripc_measure_partners(const struct bench_job *job, struct bench_result *result)
{
	struct bench_end end = {0};
	uint64_t *ids, i, begin_ns, met = job->partners + job->warm_up;
	int err = find_all(job, &end, job->partners, &ids, result);

	for (i = 0; i < job->partners && err == 0; i++)
		err = ripc_resolve(end.ctx, ids[i], BENCH_STALL_MS);
	if (err < 0)
		return bench_failed(result, "finding the services", err);
	for (i = 0; i < met + job->count; i++) {
		begin_ns = tool_now_ns();
		err = go_round(&end, job, ids[i % job->partners], i, result);
		if (err < 0 && err != -ETIMEDOUT && err != -EAGAIN)
			return bench_failed(result, "a round trip", err);
		result->messages++;
		result->lost += err < 0;
		if (err == 0 && i >= met)
			result->samples[result->n++] = (double)(tool_now_ns() - begin_ns) / 1e3;
	}
	bench_note_path(&end, result);
	free(ids);
	bench_end_close(&end);
	return 0;
}

/* ---- finding ---- */

int bench_ripc_serve_resolve(const struct bench_job *job, int ready_fd)
{
	struct many many = {0};
	int err = open_many(job, RESOLVE_SERVICES, &many);

	if (err == 0)
		err = bench_end_tell(&many.end, ready_fd);
	while (err == 0)
		serve_one(job, &many, 0, -1);
	return err;
}

static int time_resolve(const struct bench_end *end, uint64_t id, int expected,
	struct bench_result *result)
{
	uint64_t begin_ns = tool_now_ns();
	int err = ripc_resolve(end->ctx, id, BENCH_STALL_MS);
	double us = (double)(tool_now_ns() - begin_ns) / 1e3;

	if (err != expected)
		return bench_failed(result, "finding", err ? err : -EEXIST);
	result->messages++;
	result->samples[result->n++] = us;
	return 0;
}

static int measure_found(const struct bench_job *job, int again, struct bench_result *result)
{
	struct bench_end end = {0};
	uint64_t *ids, i;
	int err = find_all(job, &end, RESOLVE_SERVICES, &ids, result);

	/* The first one is the partner that was asked. */
	for (i = 1; err == 0 && i < RESOLVE_SERVICES && result->n < job->count; i++) {
		if (again)
			err = ripc_resolve(end.ctx, ids[i], BENCH_STALL_MS);
		if (err == 0)
			err = time_resolve(&end, ids[i], 0, result);
	}
	if (err < 0)
		return err;
	free(ids);
	bench_end_close(&end);
	return 0;
}

int bench_ripc_measure_resolve(const struct bench_job *job, struct bench_result *result)
{
	return measure_found(job, 0, result);
}

static int measure_again(const struct bench_job *job, struct bench_result *result)
{
	return measure_found(job, 1, result);
}

static int measure_absent(const struct bench_job *job, struct bench_result *result)
{
	struct bench_end end = {0};
	uint64_t i;
	int err = bench_end_open_client(job, &end, result);

	/* Next to an ID that was drawn at random there is none, in all likelihood. */
	for (i = 1; err == 0 && i <= job->count && i <= ABSENT_MOST; i++)
		err = time_resolve(&end, end.partner + i, -ENOENT, result);
	if (err < 0)
		return err;
	bench_end_close(&end);
	return 0;
}

const struct bench_peer bench_ripc_again = {
	.name = "ripc-again",
	.about = "libripc: a service that was found before (resolve only)",
	.halves = {[BENCH_RESOLVE] = {bench_ripc_serve_resolve, measure_again}},
};

const struct bench_peer bench_ripc_absent = {
	.name = "ripc-absent",
	.about = "libripc: a service that nobody has (resolve only)",
	.halves = {[BENCH_RESOLVE] = {bench_ripc_serve_resolve, measure_absent}},
};
