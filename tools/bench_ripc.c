/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libripc in ripc-bench. Latency is measured with short messages as long as they fit the path,
 * else with long ones; bandwidth with long messages out of a pool buffer into wherever the
 * library puts them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <ripc/ripc.h>
#include "bench.h"

struct end {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t partner;
	void *buffer; /* of the pool, job.size bytes, touched */
};

static void log_errors(void *arg, int level, const char *text)
{
	(void)arg;
	if (level == RIPC_LOG_ERROR)
		fprintf(stderr, "%s: %s\n", PROGRAM, text);
}

/* The process ends soon after a failure: what was opened goes with it. */
static int open_end(const struct bench_job *job, struct end *end)
{
	struct ripc_config config = {
		.size = sizeof(config),
		.flags = job->flags,
		.spin_us = (uint32_t)job->spin_us,
		.log = log_errors,
	};
	int err = ripc_open(&config, &end->ctx);

	if (err == 0)
		err = ripc_service_open(end->ctx, 0, 0, &end->svc);
	if (err == 0)
		err = ripc_buf_alloc(end->ctx, job->size ? job->size : 1, &end->buffer);
	if (err == 0)
		bench_fill(end->buffer, job->size, 0);
	return err;
}

static int open_server(const struct bench_job *job, struct end *end, int ready_fd)
{
	char where[BENCH_WHERE_LEN];
	int err = open_end(job, end);

	if (err < 0)
		return err;
	snprintf(where, sizeof(where), "0x%016" PRIx64, ripc_service_id(end->svc));
	return bench_ready(ready_fd, where);
}

static int open_client(const struct bench_job *job, struct end *end, struct bench_result *result)
{
	int err = open_end(job, end);

	if (err < 0)
		return bench_failed(result, "opening", err);
	if (tool_parse_number(job->where, 1, UINT64_MAX, &end->partner) < 0)
		return bench_failed(result, "the server's ID", -EBADMSG);
	err = ripc_resolve(end->ctx, end->partner, BENCH_STALL_MS);
	return err < 0 ? bench_failed(result, "looking for the server", err) : 0;
}

static void note_path(const struct end *end, struct bench_result *result)
{
	struct ripc_path path = {.size = sizeof(path)};

	if (ripc_path_info(end->svc, end->partner, &path) == 0)
		snprintf(result->note, sizeof(result->note), "%s/%s to %s", path.backend, path.bulk,
			path.address);
}

static int is_message(const struct ripc_msg *msg, uint64_t size)
{
	return (msg->kind == RIPC_SHORT || msg->kind == RIPC_LONG) && msg->n_items == 1 &&
	       msg->items[0].iov_len == size;
}

/* Sends the buffer to a partner. 0 or a negative errno. */
static int send_buffer(const struct end *end, uint64_t to, size_t size, int is_long)
{
	struct iovec item = {end->buffer, size};

	if (is_long)
		return ripc_send_long(end->svc, to, &item, 1, BENCH_STALL_MS);
	return ripc_send_short(end->svc, to, &item, 1);
}

/* ---- latency ---- */

static int serve_latency(const struct bench_job *job, int ready_fd)
{
	struct end end = {0};
	struct ripc_msg *msg;
	uint64_t seed;
	int err = open_server(job, &end, ready_fd);

	while (err == 0) {
		err = ripc_receive(end.svc, -1, &msg);
		if (err < 0)
			break;
		/* What arrived wrong is not answered, and so counts as lost at the client. */
		if (is_message(msg, job->size) &&
			bench_check(msg->items[0].iov_base, job->size, &seed) == 0) {
			bench_fill(end.buffer, job->size, seed);
			send_buffer(&end, msg->from, job->size, msg->kind == RIPC_LONG);
		}
		ripc_msg_free(msg);
	}
	return err;
}

/* Waits for the answer that bears seed. An older one, after its time was up, is passed over. */
static int await_answer(const struct end *end, const struct bench_job *job, uint64_t seed,
	struct bench_result *result)
{
	struct ripc_msg *msg;
	uint64_t got = 0;
	int err, is_right;

	do {
		err = ripc_receive(end->svc, BENCH_WAIT_MS, &msg);
		if (err < 0)
			return err;
		is_right = is_message(msg, job->size);
		if (is_right && bench_check(msg->items[0].iov_base, job->size, &got) < 0) {
			result->wrong++;
			is_right = 0;
		}
		ripc_msg_free(msg);
	} while (!is_right || (got != seed && job->size >= sizeof(seed)));
	return 0;
}

static int measure_latency(const struct bench_job *job, struct bench_result *result)
{
	struct end end = {0};
	struct ripc_path path = {.size = sizeof(path)};
	uint64_t i, begin_ns;
	int is_long, err = open_client(job, &end, result);

	if (err == 0)
		err = ripc_path_info(end.svc, end.partner, &path);
	if (err < 0)
		return err;
	is_long = job->size > path.short_max_bytes;
	for (i = 0; i < job->count + job->warm_up; i++) {
		begin_ns = tool_now_ns();
		bench_fill(end.buffer, job->size, i);
		err = send_buffer(&end, end.partner, job->size, is_long);
		if (err < 0 && err != -EAGAIN)
			return bench_failed(result, "sending", err);
		if (err == 0)
			err = await_answer(&end, job, i, result);
		if (err < 0 && err != -EAGAIN && err != -ETIMEDOUT)
			return bench_failed(result, "receiving", err);
		if (err < 0)
			result->lost++;
		else if (i >= job->warm_up)
			result->samples[result->n++] = (double)(tool_now_ns() - begin_ns) / 1e3;
	}
	note_path(&end, result);
	ripc_close(end.ctx, 0);
	return 0;
}

/* ---- bandwidth ---- */

/* Says reliably whether the message was right. */
static int send_verdict(const struct end *end, uint64_t to, int is_right)
{
	char verdict = is_right ? 'y' : 'n';
	struct iovec item = {&verdict, 1};

	return ripc_send_long(end->svc, to, &item, 1, BENCH_STALL_MS);
}

static int serve_bandwidth(const struct bench_job *job, int ready_fd)
{
	struct end end = {0};
	struct ripc_msg *msg;
	uint64_t seed, from;
	int is_right, err = open_server(job, &end, ready_fd);

	while (err == 0) {
		err = ripc_receive(end.svc, -1, &msg);
		if (err < 0)
			break;
		if (msg->kind != RIPC_LONG) {
			ripc_msg_free(msg);
			continue;
		}
		from = msg->from;
		is_right = is_message(msg, job->size) &&
			   bench_check(msg->items[0].iov_base, job->size, &seed) == 0;
		/* The memory is for the next message, before that is asked for. */
		ripc_msg_free(msg);
		send_verdict(&end, from, is_right);
	}
	return err;
}

/* Waits for the verdict. 0: right; -EBADMSG: wrong; else what failed. */
static int await_verdict(const struct end *end)
{
	struct ripc_msg *msg;
	int err, verdict = 0;

	while (!verdict) {
		err = ripc_receive(end->svc, BENCH_STALL_MS, &msg);
		if (err < 0)
			return err;
		if (msg->kind == RIPC_LONG && msg->n_items == 1 && msg->items[0].iov_len == 1)
			verdict = *(const char *)msg->items[0].iov_base;
		ripc_msg_free(msg);
	}
	return verdict == 'y' ? 0 : -EBADMSG;
}

static int measure_bandwidth(const struct bench_job *job, struct bench_result *result)
{
	struct end end = {0};
	uint64_t i, begin_ns, ns;
	int err = open_client(job, &end, result);

	if (err < 0)
		return err;
	for (i = 0; i < job->count + job->warm_up; i++) {
		bench_fill(end.buffer, job->size, i);
		begin_ns = tool_now_ns();
		err = send_buffer(&end, end.partner, job->size, 1);
		ns = tool_now_ns() - begin_ns;
		if (err < 0)
			return bench_failed(result, "sending", err);
		err = await_verdict(&end);
		if (err < 0 && err != -EBADMSG)
			return bench_failed(result, "waiting for the verdict", err);
		result->wrong += err == -EBADMSG;
		if (i >= job->warm_up)
			result->samples[result->n++] = (double)job->size * 1e3 / (double)(ns + !ns);
	}
	note_path(&end, result);
	ripc_close(end.ctx, 0);
	return 0;
}

const struct bench_peer bench_ripc = {
	.name = "ripc",
	.about = "libripc",
	.latency = {serve_latency, measure_latency},
	.bandwidth = {serve_bandwidth, measure_bandwidth},
};
