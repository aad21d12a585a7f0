/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pair of connected Unix datagram sockets in ripc-bench: the least that an exchange of datagrams
 * on one host costs through the kernel. Nothing gets lost there. The names are abstract ones that
 * the kernel chooses.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "bench_socket.h"

#define DATAGRAM_MAX 65536

static int open_socket(void)
{
	struct sockaddr_un any = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&any, sizeof(any.sun_family)) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* The name without the zero that it begins with. */
static int tell_name(int fd, int ready_fd)
{
	struct sockaddr_un name = {0};
	socklen_t len = sizeof(name);

	if (getsockname(fd, (struct sockaddr *)&name, &len) < 0)
		return -errno;
	return bench_ready(ready_fd, name.sun_path + 1);
}

static int open_client(const struct bench_job *job)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t len = strlen(job->where);
	int fd = open_socket(), err;

	if (fd < 0 || len + 1 > sizeof(to.sun_path))
		return fd < 0 ? fd : -EBADMSG;
	memcpy(to.sun_path + 1, job->where, len);
	if (connect(fd, (struct sockaddr *)&to,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* The first datagram tells whom to connect to. Returns the socket. */
static int open_server(int ready_fd)
{
	struct sockaddr_un client;
	socklen_t len = sizeof(client);
	int fd = open_socket(), err;
	char byte;

	if (fd < 0)
		return fd;
	err = tell_name(fd, ready_fd);
	if (err < 0)
		return err;
	if (recvfrom(fd, &byte, 1, MSG_PEEK, (struct sockaddr *)&client, &len) < 0 ||
		connect(fd, (struct sockaddr *)&client, len) < 0)
		return -errno;
	return fd;
}

static int serve_latency(const struct bench_job *job, int ready_fd)
{
	static uint64_t buffer[DATAGRAM_MAX / sizeof(uint64_t)];
	uint64_t seed;
	ssize_t got;
	int fd;

	if (job->size > DATAGRAM_MAX)
		return -EMSGSIZE;
	bench_fill(buffer, job->size, 0);
	fd = open_server(ready_fd);
	if (fd < 0)
		return fd;
	for (;;) {
		got = bench_socket_recv(fd, buffer, sizeof(buffer), job->spin_us);
		if (got < 0)
			return (int)got;
		if (got != (ssize_t)job->size || bench_take(job, buffer, &seed) < 0)
			return -EBADMSG;
		bench_put(job, buffer, seed);
		if (send(fd, buffer, job->size, MSG_NOSIGNAL) < 0)
			return -errno;
	}
}

static int measure_latency(const struct bench_job *job, struct bench_result *result)
{
	static uint64_t buffer[DATAGRAM_MAX / sizeof(uint64_t)];
	uint64_t i, begin_ns, seed, began_ns = tool_now_ns();
	int fd = open_client(job);
	ssize_t got;

	if (fd < 0)
		return bench_failed(result, "connecting", fd);
	for (i = 0; i < job->count + job->warm_up; i++) {
		begin_ns = bench_turn_ns(job, began_ns, i);
		bench_put(job, buffer, i);
		if (send(fd, buffer, job->size, MSG_NOSIGNAL) < 0)
			return bench_failed(result, "sending", -errno);
		got = bench_socket_recv(fd, buffer, sizeof(buffer), job->spin_us);
		if (got < 0)
			return bench_failed(result, "receiving", (int)got);
		if (got != (ssize_t)job->size || bench_take(job, buffer, &seed) < 0)
			result->wrong++;
		result->messages++;
		if (i >= job->warm_up)
			result->samples[result->n++] = (double)(tool_now_ns() - begin_ns) / 1e3;
	}
	return 0;
}

const struct bench_peer bench_unix = {
	.name = "unix",
	.about = "a pair of connected Unix datagram sockets (latency only)",
	.halves = {
		[BENCH_LATENCY] = {serve_latency, measure_latency},
	},
};
