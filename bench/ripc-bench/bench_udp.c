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
#include <unistd.h>
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
		if (got != (ssize_t)job->size || bench_take(job, buffer, &seed) < 0)
			continue;
		bench_put(job, buffer, seed);
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
		if (bench_take(job, buffer, &got_seed) < 0)
			result->wrong++;
		else if (got_seed == seed || job->size < sizeof(seed))
			return 0;
	}
}

/* One round trip, sent or due at begin_ns. */
static int exchange(const struct bench_job *job, int fd, uint64_t *buffer, uint64_t i,
	uint64_t begin_ns, struct bench_result *result)
{
	int err;

	bench_put(job, buffer, i);
	if (send(fd, buffer, job->size, 0) < 0)
		return bench_failed(result, "sending", -errno);
	err = await_answer(fd, job, buffer, i, result);
	if (err < 0 && err != -ETIMEDOUT)
		return bench_failed(result, "receiving", err);
	result->messages++;
	if (err < 0)
		result->lost++;
	else if (i >= job->warm_up)
		result->samples[result->n++] = (double)(tool_now_ns() - begin_ns) / 1e3;
	return result->lost < LOST_MAX ? 0 : bench_failed(result, "too much is lost", -ETIMEDOUT);
}

static int open_client(const struct bench_job *job, struct bench_result *result)
{
	int fd = bench_socket_connect(job, SOCK_DGRAM);

	if (fd < 0)
		return bench_failed(result, "connecting", fd);
	start_timer();
	return fd;
}

static int measure_latency(const struct bench_job *job, struct bench_result *result)
{
	static uint64_t buffer[DATAGRAM_MAX / sizeof(uint64_t) + 1];
	int fd = open_client(job, result), err = 0;
	uint64_t i, began_ns = tool_now_ns();

	for (i = 0; fd >= 0 && err == 0 && i < job->count + job->warm_up; i++)
		err = exchange(job, fd, buffer, i, bench_turn_ns(job, began_ns, i), result);
	return fd < 0 ? fd : err;
}

/* ---- rate ---- */

/* Acknowledges with how many have come in all. There is one client. */
static int serve_rate(const struct bench_job *job, int ready_fd)
{
	static uint64_t buffer[DATAGRAM_MAX / sizeof(uint64_t) + 1];
	uint64_t received = 0, told = 0, seed;
	ssize_t got;
	int fd = job->size > DATAGRAM_MAX ? -EMSGSIZE : await_client(job, ready_fd);

	while (fd >= 0) {
		got = bench_socket_recv(fd, buffer, sizeof(buffer), job->spin_us);
		if (got < 0 && got != -ECONNREFUSED)
			return (int)got;
		if (got != (ssize_t)job->size ||
			bench_take(job, buffer, &seed) < 0)
			continue;
		if (++received - told < bench_ack_step(job))
			continue;
		told = received;
		send(fd, &received, sizeof(received), 0);
	}
	return fd;
}

struct udp_client {
	uint64_t acked;
	uint64_t buffer[DATAGRAM_MAX / sizeof(uint64_t) + 1];
};

static int rate_open(struct bench_sender *sender)
{
	struct timeval patience = {.tv_usec = BENCH_ACK_MS * 1000};
	struct udp_client *client = calloc(1, sizeof(*client));

	sender->state = client;
	sender->fd = bench_socket_connect(sender->job, SOCK_DGRAM);
	if (sender->fd < 0 || !client)
		return sender->fd < 0 ? sender->fd : -ENOMEM;
	if (setsockopt(sender->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		return -errno;
	return 0;
}

static void rate_close(struct bench_sender *sender)
{
	close(sender->fd);
	free(sender->state);
}

/* Notes what the server has received. -EAGAIN: nothing came in time. */
static int take_ack(struct bench_sender *sender)
{
	struct udp_client *client = sender->state;
	uint64_t received;
	ssize_t got = bench_socket_recv(sender->fd, &received, sizeof(received),
		sender->job->spin_us);

	if (got < 0)
		return (int)got;
	if (got == sizeof(received) && received > client->acked)
		client->acked = received;
	return 0;
}

static int rate_stream(struct bench_sender *sender, uint64_t count)
{
	struct udp_client *client = sender->state;
	const struct bench_job *job = sender->job;
	uint64_t began = client->acked, sent = 0, received;
	uint64_t settled = 0; /* received or lost */
	int err = 0;

	sender->lost = 0;
	while (err == 0 && settled + bench_ack_step(job) <= count) {
		for (; sent < count && sent < settled + job->depth; sent++) {
			bench_put(job, client->buffer, sender->first + sent);
			if (send(sender->fd, client->buffer, job->size, 0) < 0)
				return -errno;
		}
		err = take_ack(sender);
		if (err == -EAGAIN) {
			received = client->acked - began; /* late ones of the warm-up, too */
			sender->lost = received < sent ? sent - received : 0;
			err = 0;
		}
		settled = client->acked - began + sender->lost;
	}
	sender->received = client->acked - began;
	return err;
}

static int measure_rate(const struct bench_job *job, struct bench_result *result)
{
	static const struct bench_rate_calls calls = {rate_open, rate_stream, rate_close};

	if (job->threads > 1)
		return bench_failed(result, "one client is all it serves", -EOPNOTSUPP);
	return bench_measure_rate(job, &calls, result);
}

const struct bench_peer bench_udp = {
	.name = "udp",
	.about = "a pair of connected UDP sockets (latency, saturation, rate)",
	.halves = {
		[BENCH_PACED] = {serve_latency, measure_latency},
		[BENCH_RATE] = {serve_rate, measure_rate},
		[BENCH_LATENCY] = {serve_latency, measure_latency},
	},
};
