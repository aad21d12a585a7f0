/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libripc itself in ripc-bench: what all its tests share, and round trips: short messages as long
 * as the path carries them, else long ones.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include "bench_ripc.h"

static void log_errors(void *arg, int level, const char *text)
{
	(void)arg;
	if (level == RIPC_LOG_ERROR)
		fprintf(stderr, "%s: %s\n", PROGRAM, text);
}

int bench_end_open(const struct bench_job *job, struct bench_end *end)
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

void bench_end_close(const struct bench_end *end)
{
	ripc_buf_free(end->ctx, end->buffer);
	ripc_close(end->ctx, 0);
}

int bench_end_tell(const struct bench_end *end, int ready_fd)
{
	char where[BENCH_WHERE_LEN];

	snprintf(where, sizeof(where), "0x%016" PRIx64, ripc_service_id(end->svc));
	return bench_ready(ready_fd, where);
}

int bench_end_open_server(const struct bench_job *job, struct bench_end *end, int ready_fd)
{
	int err = bench_end_open(job, end);

	return err < 0 ? err : bench_end_tell(end, ready_fd);
}

int bench_end_open_client(
	const struct bench_job *job, struct bench_end *end, struct bench_result *result)
{
	int err = bench_end_open(job, end);

	if (err < 0)
		return bench_failed(result, "opening", err);
	if (tool_parse_number(job->where, 1, UINT64_MAX, &end->partner) < 0)
		return bench_failed(result, "the server's ID", -EBADMSG);
	err = ripc_resolve(end->ctx, end->partner, BENCH_STALL_MS);
	return err < 0 ? bench_failed(result, "looking for the server", err) : 0;
}

void bench_note_path(const struct bench_end *end, struct bench_result *result)
{
	struct ripc_path path = {.size = sizeof(path)};

	if (ripc_path_info(end->svc, end->partner, &path) == 0)
		snprintf(result->note, sizeof(result->note), "%s/%s to %s", path.backend, path.bulk,
			path.address);
}

int bench_is_message(const struct ripc_msg *msg, uint64_t size)
{
	return (msg->kind == RIPC_SHORT || msg->kind == RIPC_LONG) && msg->n_items == 1 &&
	       msg->items[0].iov_len == size;
}

int bench_send_buffer(const struct bench_end *end, uint64_t to, size_t size, int is_long)
{
	struct iovec item = {end->buffer, size};

	if (is_long)
		return ripc_send_long(end->svc, to, &item, 1, BENCH_STALL_MS);
	return ripc_send_short(end->svc, to, &item, 1);
}

/* ---- latency ---- */

static int serve_latency(const struct bench_job *job, int ready_fd)
{
	struct bench_end end = {0};
	struct ripc_msg *msg;
	uint64_t seed;
	int err = bench_end_open_server(job, &end, ready_fd);

	while (err == 0) {
		err = ripc_receive(end.svc, -1, &msg);
		if (err < 0)
			break;
		/* A wrong message is not answered, and so counts as lost at the client. */
		if (bench_is_message(msg, job->size) &&
			bench_take(job, msg->items[0].iov_base, &seed) == 0) {
			bench_put(job, end.buffer, seed);
			bench_send_buffer(&end, msg->from, job->size, msg->kind == RIPC_LONG);
		}
		ripc_msg_free(msg);
	}
	return err;
}

/* Waits for the answer that bears seed. An older one, after its time was up, is passed over. */
static int await_answer(const struct bench_end *end, const struct bench_job *job, uint64_t seed,
	struct bench_result *result)
{
	struct ripc_msg *msg;
	uint64_t got = 0;
	int err, is_right;

	do {
		err = ripc_receive(end->svc, BENCH_WAIT_MS, &msg);
		if (err < 0)
			return err;
		is_right = bench_is_message(msg, job->size);
		if (is_right && bench_take(job, msg->items[0].iov_base, &got) < 0) {
			result->wrong++;
			is_right = 0;
		}
		ripc_msg_free(msg);
	} while (!is_right || (got != seed && job->size >= sizeof(seed)));
	return 0;
}

/* One round trip, sent or due at begin_ns. 0, also if it was lost; or a negative errno. */
static int exchange(const struct bench_end *end, const struct bench_job *job, uint64_t i,
	int is_long, uint64_t begin_ns, struct bench_result *result)
{
	int err;

	bench_put(job, end->buffer, i);
	err = bench_send_buffer(end, end->partner, job->size, is_long);
	if (err < 0 && err != -EAGAIN)
		return bench_failed(result, "sending", err);
	if (err == 0)
		err = await_answer(end, job, i, result);
	if (err < 0 && err != -EAGAIN && err != -ETIMEDOUT)
		return bench_failed(result, "receiving", err);
	result->messages++;
	if (err < 0)
		result->lost++;
	else if (i >= job->warm_up)
		result->samples[result->n++] = (double)(tool_now_ns() - begin_ns) / 1e3;
	return 0;
}

static int open_for_latency(const struct bench_job *job, struct bench_end *end, int *is_long,
	struct bench_result *result)
{
	struct ripc_path path = {.size = sizeof(path)};
	int err = bench_end_open_client(job, end, result);

	if (err == 0)
		err = ripc_path_info(end->svc, end->partner, &path);
	*is_long = err == 0 && job->size > path.short_max_bytes;
	return err;
}

static int measure_latency(const struct bench_job *job, struct bench_result *result)
{
	struct bench_end end = {0};
	int is_long, err = open_for_latency(job, &end, &is_long, result);
	uint64_t i, began_ns = tool_now_ns();

	for (i = 0; err == 0 && i < job->count + job->warm_up; i++)
		err = exchange(&end, job, i, is_long, bench_turn_ns(job, began_ns, i), result);
	if (err < 0)
		return err;
	bench_note_path(&end, result);
	bench_end_close(&end);
	return 0;
}

const struct bench_peer bench_ripc = {
	.name = "ripc",
	.about = "libripc",
	.halves = {
		[BENCH_LATENCY] = {serve_latency, measure_latency},
		[BENCH_PACED] = {serve_latency, measure_latency},
		[BENCH_BANDWIDTH] = {bench_ripc_serve_bandwidth, bench_ripc_measure_bandwidth},
		[BENCH_RATE] = {bench_ripc_serve_rate, bench_ripc_measure_rate},
		[BENCH_PARTNERS] = {bench_ripc_serve_partners, bench_ripc_measure_partners},
		[BENCH_RESOLVE] = {bench_ripc_serve_resolve, bench_ripc_measure_resolve},
	},
};
