/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pair of connected UDP sockets in ripc-bench: the least that an exchange of datagrams costs.
 * Both ends are in a plain recv(2). A lost datagram is noticed by an interval timer whose signal
 * interrupts it, because a receive timeout would burden every call.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include "bench_socket.h"

#define DATAGRAM_MAX 65507
#define LOST_MAX     100 /* then the run is given up */

/* The first datagram tells whom to connect to. Returns the socket. */
static int await_client(const struct bench_job *job, int ready_fd)
{
	struct sockaddr_storage client;
	socklen_t len = sizeof(client);
	int fd = bench_socket_serve(job, SOCK_DGRAM, ready_fd);
	char byte;

	if (fd < 0)
		return fd;
	if (recvfrom(fd, &byte, 1, MSG_PEEK, (struct sockaddr *)&client, &len) < 0 ||
		connect(fd, (struct sockaddr *)&client, len) < 0)
		return -errno;
	return fd;
}

static int serve_latency(const struct bench_job *job, int ready_fd)
{
	static uint64_t buffer[DATAGRAM_MAX / sizeof(uint64_t) + 1];
	uint64_t seed;
	ssize_t got;
	int fd;

	if (job->size > DATAGRAM_MAX)
		return -EMSGSIZE;
	bench_fill(buffer, job->size, 0);
	fd = await_client(job, ready_fd);
	if (fd < 0)
		return fd;
	for (;;) {
		got = bench_socket_recv(fd, buffer, sizeof(buffer), job->spin_us);
		/* A client that has ended refuses what came late; we are ended soon, too. */
		if (got < 0 && got != -ECONNREFUSED)
			return (int)got;
		if (got != (ssize_t)job->size || bench_check(buffer, job->size, &seed) < 0)
			continue;
		bench_fill(buffer, job->size, seed);
		send(fd, buffer, job->size, 0);
	}
}

static void wake(int signal)
{
	(void)signal;
}

static void start_timer(void)
{
	struct sigaction action = {.sa_handler = wake}; /* no SA_RESTART: recv() is to return */
	struct itimerval second = {.it_interval = {1, 0}, .it_value = {1, 0}};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &second, NULL);
}

/* Waits for the answer that bears seed. 0, or -ETIMEDOUT. */
static int await_answer(int fd, const struct bench_job *job, uint64_t *buffer, uint64_t seed,
	struct bench_result *result)
{
	uint64_t begin_ns = 0, got_seed;
	ssize_t got;

	for (;;) {
		got = bench_socket_recv(fd, buffer, DATAGRAM_MAX, job->spin_us);
		if (got == -EINTR) {
			/* The first tick may come at once; from the second on it is time. */
			if (begin_ns)
				return -ETIMEDOUT;
			begin_ns = tool_now_ns();
			continue;
		}
		if (got < 0)
			return (int)got;
		if (got != (ssize_t)job->size)
			continue;
		if (bench_check(buffer, job->size, &got_seed) < 0)
			result->wrong++;
		else if (got_seed == seed || job->size < sizeof(seed))
			return 0;
	}
}

static int measure_latency(const struct bench_job *job, struct bench_result *result)
{
	static uint64_t buffer[DATAGRAM_MAX / sizeof(uint64_t) + 1];
	uint64_t i, begin_ns;
	int fd = bench_socket_connect(job, SOCK_DGRAM), err;

	if (fd < 0)
		return bench_failed(result, "connecting", fd);
	start_timer();
	for (i = 0; i < job->count + job->warm_up && result->lost < LOST_MAX; i++) {
		begin_ns = tool_now_ns();
		bench_fill(buffer, job->size, i);
		if (send(fd, buffer, job->size, 0) < 0)
			return bench_failed(result, "sending", -errno);
		err = await_answer(fd, job, buffer, i, result);
		if (err < 0 && err != -ETIMEDOUT)
			return bench_failed(result, "receiving", err);
		if (err < 0)
			result->lost++;
		else if (i >= job->warm_up)
			result->samples[result->n++] = (double)(tool_now_ns() - begin_ns) / 1e3;
	}
	return 0;
}

const struct bench_peer bench_udp = {
	.name = "udp",
	.about = "a pair of connected UDP sockets (latency only)",
	.latency = {serve_latency, measure_latency},
};
