/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP stream with TCP_NODELAY in ripc-bench. Both ends know the size of a message and receive
 * into a buffer that is used again and was touched before. For bandwidth the server acknowledges
 * each message with one byte as soon as the last byte of it was read, so that, as with libripc,
 * messages are counted that arrived; a second byte says later whether the content was right.
 */
#include <errno.h>
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
			err = bench_check(buffer, job->size, &seed);
		if (err < 0)
			break;
		bench_fill(buffer, job->size, seed);
		err = bench_socket_send_all(fd, buffer, job->size);
	}
	/* The client closed: wait to be ended, as all servers do. */
	while (err == -ECONNRESET)
		pause();
	return err;
}

static int measure_latency(const struct bench_job *job, struct bench_result *result)
{
	void *buffer;
	uint64_t i, seed, begin_ns;
	int fd = open_client(job, result, &buffer), err;

	if (fd < 0)
		return fd;
	for (i = 0; i < job->count + job->warm_up; i++) {
		begin_ns = tool_now_ns();
		bench_fill(buffer, job->size, i);
		err = bench_socket_send_all(fd, buffer, job->size);
		if (err == 0)
			err = bench_socket_recv_all(fd, buffer, job->size, job->spin_us);
		if (err < 0)
			return bench_failed(result, "the stream", err);
		if (bench_check(buffer, job->size, &seed) < 0)
			result->wrong++;
		if (i >= job->warm_up)
			result->samples[result->n++] = (double)(tool_now_ns() - begin_ns) / 1e3;
	}
	return 0;
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
		verdict = bench_check(buffer, job->size, &seed) == 0 ? 'y' : 'n';
		err = bench_socket_send_all(fd, &verdict, 1);
	}
	while (err == -ECONNRESET)
		pause();
	return err;
}

static int measure_bandwidth(const struct bench_job *job, struct bench_result *result)
{
	void *buffer;
	uint64_t i, begin_ns, ns;
	char byte;
	int fd = open_client(job, result, &buffer), err;

	if (fd < 0)
		return fd;
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
		result->wrong += byte != 'y';
		if (i >= job->warm_up)
			result->samples[result->n++] = (double)job->size * 1e3 / (double)(ns + !ns);
	}
	return 0;
}

const struct bench_peer bench_tcp = {
	.name = "tcp",
	.about = "a TCP stream with TCP_NODELAY",
	.latency = {serve_latency, measure_latency},
	.bandwidth = {serve_bandwidth, measure_bandwidth},
};
