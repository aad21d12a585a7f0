/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP stream with TCP_NODELAY in ripc-bench. Both ends know the size of a message and receive
 * into a buffer that is used again and was touched before. For bandwidth the server acknowledges
 * each message with one byte as soon as the last byte of it was read, so that, as with libripc,
 * messages are counted that arrived; a second byte says later whether the content was right.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "bench_socket.h"

static int alloc_touched(const struct bench_job *job, void **buffer)
{
	*buffer = aligned_alloc(64, (job->size + 64) & ~(size_t)63);
	if (!*buffer)
		return -ENOMEM;
	bench_fill(*buffer, job->size, 0);
	return 0;
}

/* Returns a connected socket. The process serves one client and then ends. */
static int accept_client(const struct bench_job *job, int ready_fd, void **buffer)
{
	int listener = bench_socket_serve(job, SOCK_STREAM, ready_fd), fd, err;

	if (listener < 0)
		return listener;
	fd = accept(listener, NULL, NULL);
	err = fd < 0 ? -errno : alloc_touched(job, buffer);
	return err < 0 ? err : fd;
}

static int open_client(const struct bench_job *job, struct bench_result *result, void **buffer)
{
	int err = alloc_touched(job, buffer), fd;

	if (err < 0)
		return bench_failed(result, "no memory", err);
	fd = bench_socket_connect(job, SOCK_STREAM);
	return fd < 0 ? bench_failed(result, "connecting", fd) : fd;
}

/* ---- latency ---- */

static int serve_latency(const struct bench_job *job, int ready_fd)
{
	void *buffer;
	uint64_t seed;
	int fd = accept_client(job, ready_fd, &buffer), err = fd;

	while (err >= 0) {
		err = bench_socket_recv_all(fd, buffer, job->size, job->spin_us);
		if (err == 0)
			err = bench_take(job, buffer, &seed);
		if (err < 0)
			break;
		bench_put(job, buffer, seed);
		err = bench_socket_send_all(fd, buffer, job->size);
	}
	/* The client closed: wait to be ended, as all servers do. */
	while (err == -ECONNRESET)
		pause();
	return err;
}

/* One round trip, sent or due at begin_ns. */
static int exchange(const struct bench_job *job, int fd, void *buffer, uint64_t i,
	uint64_t begin_ns, struct bench_result *result)
{
	uint64_t seed;
	int err;

	bench_put(job, buffer, i);
	err = bench_socket_send_all(fd, buffer, job->size);
	if (err == 0)
		err = bench_socket_recv_all(fd, buffer, job->size, job->spin_us);
	if (err < 0)
		return bench_failed(result, "the stream", err);
	if (bench_take(job, buffer, &seed) < 0)
		result->wrong++;
	result->messages++;
	if (i >= job->warm_up)
		result->samples[result->n++] = (double)(tool_now_ns() - begin_ns) / 1e3;
	return 0;
}

static int measure_latency(const struct bench_job *job, struct bench_result *result)
{
	void *buffer;
	int fd = open_client(job, result, &buffer), err = 0;
	uint64_t i, began_ns = tool_now_ns();

	for (i = 0; fd >= 0 && err == 0 && i < job->count + job->warm_up; i++)
		err = exchange(job, fd, buffer, i, bench_turn_ns(job, began_ns, i), result);
	return fd < 0 ? fd : err;
}

/* ---- bandwidth ---- */

static int serve_bandwidth(const struct bench_job *job, int ready_fd)
{
	void *buffer;
	uint64_t seed;
	char verdict;
	int fd = accept_client(job, ready_fd, &buffer), err = fd;

	while (err >= 0) {
		err = bench_socket_recv_all(fd, buffer, job->size, job->spin_us);
		if (err == 0)
			err = bench_socket_send_all(fd, "a", 1);
		if (err < 0)
			break;
		verdict = bench_take(job, buffer, &seed) == 0 ? 'y' : 'n';
		err = bench_socket_send_all(fd, &verdict, 1);
	}
	while (err == -ECONNRESET)
		pause();
	return err;
}

static int measure_each(
	const struct bench_job *job, int fd, void *buffer, struct bench_result *result)
{
	uint64_t i, begin_ns, ns;
	char byte;
	int err;

	for (i = 0; i < job->count + job->warm_up; i++) {
		bench_fill(buffer, job->size, i);
		begin_ns = tool_now_ns();
		err = bench_socket_send_all(fd, buffer, job->size);
		if (err == 0)
			err = bench_socket_recv_all(fd, &byte, 1, job->spin_us);
		ns = tool_now_ns() - begin_ns;
		if (err == 0)
			err = bench_socket_recv_all(fd, &byte, 1, 0);
		if (err < 0)
			return bench_failed(result, "the stream", err);
		result->messages++;
		result->wrong += byte != 'y';
		if (i >= job->warm_up)
			result->samples[result->n++] = (double)job->size * 1e3 / (double)(ns + !ns);
	}
	return 0;
}

/* Two bytes come back for each message. */
static int take_verdict(
	const struct bench_job *job, int fd, uint64_t *judged, struct bench_result *result)
{
	char bytes[2];
	int err = bench_socket_recv_all(fd, bytes, sizeof(bytes), job->spin_us);

	*judged += err == 0;
	result->wrong += err == 0 && bytes[1] != 'y';
	return err;
}

static int measure_stream(
	const struct bench_job *job, int fd, void *buffer, struct bench_result *result)
{
	uint64_t all = job->count + job->warm_up, sent = 0, judged = 0, begin_ns = 0;
	int err = 0;

	while (err == 0 && judged < all) {
		if (!begin_ns && judged >= job->warm_up)
			begin_ns = tool_now_ns();
		while (err == 0 && sent < all && sent < judged + job->depth) {
			bench_put(job, buffer, sent++);
			err = bench_socket_send_all(fd, buffer, job->size);
		}
		if (err == 0)
			err = take_verdict(job, fd, &judged, result);
	}
	if (err < 0)
		return bench_failed(result, "the stream", err);
	result->messages = all;
	result->samples[result->n++] =
		(double)job->size * (double)job->count * 1e3 / (double)(tool_now_ns() - begin_ns);
	return 0;
}

static int measure_bandwidth(const struct bench_job *job, struct bench_result *result)
{
	void *buffer;
	int fd = open_client(job, result, &buffer);

	if (fd < 0)
		return fd;
	return job->depth > 1 ? measure_stream(job, fd, buffer, result) :
				measure_each(job, fd, buffer, result);
}

/* ---- rate ---- */

struct connection {
	const struct bench_job *job;
	int fd;
};

/* Acknowledges every so many messages by one byte: none is lost. */
static int serve_stream(const struct bench_job *job, int fd)
{
	uint64_t received = 0, seed, step = bench_ack_step(job);
	void *buffer;
	int err = alloc_touched(job, &buffer);

	while (err == 0) {
		err = bench_socket_recv_all(fd, buffer, job->size, job->spin_us);
		if (err == 0)
			err = bench_take(job, buffer, &seed);
		if (err == 0 && ++received % step == 0)
			err = bench_socket_send_all(fd, "a", 1);
	}
	return err;
}

static void *run_connection(void *arg)
{
	struct connection *connection = arg;

	serve_stream(connection->job, connection->fd);
	return NULL;
}

/* A thread for each client, whether they are said to have one service or several. */
static int serve_rate(const struct bench_job *job, int ready_fd)
{
	static struct connection connections[BENCH_THREADS_MAX];
	int listener = bench_socket_serve(job, SOCK_STREAM, ready_fd), err = listener;
	pthread_t thread;
	uint64_t i;

	for (i = 0; err >= 0 && i < job->threads; i++) {
		err = accept(listener, NULL, NULL);
		if (err < 0)
			return -errno;
		connections[i] = (struct connection){job, err};
		err = -pthread_create(&thread, NULL, run_connection, &connections[i]);
	}
	while (err == 0)
		pause();
	return err;
}

static int rate_open(struct bench_sender *sender)
{
	int fd = bench_socket_connect(sender->job, SOCK_STREAM);
	int err = fd < 0 ? fd : alloc_touched(sender->job, &sender->state);

	sender->fd = fd;
	return err;
}

static void rate_close(struct bench_sender *sender)
{
	close(sender->fd);
	free(sender->state);
}

static int rate_stream(struct bench_sender *sender, uint64_t count)
{
	const struct bench_job *job = sender->job;
	uint64_t step = bench_ack_step(job), sent = 0, acked = 0;
	char byte;
	int err = 0;

	while (err == 0 && acked + step <= count) {
		while (err == 0 && sent < count && sent < acked + job->depth) {
			bench_put(job, sender->state, sent++);
			err = bench_socket_send_all(sender->fd, sender->state, job->size);
		}
		if (err == 0)
			err = bench_socket_recv_all(sender->fd, &byte, 1, job->spin_us);
		acked += step;
	}
	sender->received = acked;
	return err;
}

static int measure_rate(const struct bench_job *job, struct bench_result *result)
{
	static const struct bench_rate_calls calls = {rate_open, rate_stream, rate_close};

	return bench_measure_rate(job, &calls, result);
}

const struct bench_peer bench_tcp = {
	.name = "tcp",
	.about = "a TCP stream with TCP_NODELAY",
	.halves = {
		[BENCH_LATENCY] = {serve_latency, measure_latency},
		[BENCH_PACED] = {serve_latency, measure_latency},
		[BENCH_RATE] = {serve_rate, measure_rate},
		[BENCH_BANDWIDTH] = {serve_bandwidth, measure_bandwidth},
	},
};
