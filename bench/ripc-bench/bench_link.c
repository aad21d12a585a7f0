/* SPDX-License-Identifier: BSD-3-Clause */
/* Implements bench_link.h: how links begin, and what is measured with them. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <ripc/ripc.h>
#include "bench_link.h"
#include "bench_socket.h"

#define BUFFERS_MAX   64	   /* of a direction */
#define BUFFERS_BYTES (512u << 20) /* together */

/* ---- a link begins ---- */

static unsigned int count_buffers(uint64_t wanted, size_t size)
{
	uint64_t most = BUFFERS_BYTES / size;

	most = most < 1 ? 1 : most > BUFFERS_MAX ? BUFFERS_MAX : most;
	return (unsigned int)(wanted < most ? wanted : most);
}

static void set_sizes(struct bench_link *link)
{
	const struct bench_job *job = link->job;
	int acks = job->kind == BENCH_BANDWIDTH || job->kind == BENCH_RATE;

	link->in_size = acks && !link->serves ? BENCH_ACK_LEN : job->size;
	link->out_size = acks && link->serves ? BENCH_ACK_LEN : job->size;
	/* Two acknowledgements may be on their way for one message. */
	link->n_in = count_buffers(job->depth + (acks && !link->serves), link->in_size);
	link->n_out = count_buffers(job->depth + (acks && link->serves), link->out_size);
}

static int swap_addresses(struct bench_link *link, char *address, size_t *len)
{
	uint32_t n = (uint32_t)*len;
	int err = bench_socket_send_all(link->fd, &n, sizeof(n));

	if (err == 0)
		err = bench_socket_send_all(link->fd, address, n);
	if (err == 0)
		err = bench_socket_recv_all(link->fd, &n, sizeof(n), 0);
	if (err == 0 && n > BENCH_ADDRESS_LEN)
		err = -EBADMSG;
	if (err == 0)
		err = bench_socket_recv_all(link->fd, address, n, 0);
	*len = n;
	return err;
}

/* link->fd is connected; what is opened is closed again on failure. */
static int begin_link(struct bench_link *link)
{
	struct timeval patience = {.tv_sec = BENCH_STALL_MS / 1000};
	char address[BENCH_ADDRESS_LEN];
	size_t len = 0;
	int err;

	set_sizes(link);
	if (setsockopt(link->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		return -errno;
	err = link->calls->open(link, address, &len);
	if (err < 0)
		return err;
	err = swap_addresses(link, address, &len);
	if (err == 0)
		err = link->calls->connect(link, address, len);
	if (err < 0)
		link->calls->close(link);
	return err;
}

/* Ours: a client's. */
static int open_link(struct bench_link *link)
{
	int err;

	link->fd = bench_socket_connect(link->job, SOCK_STREAM);
	if (link->fd < 0)
		return link->fd;
	err = begin_link(link);
	if (err < 0)
		close(link->fd);
	return err;
}

/* A server that still ran would complain that its client has gone: it stands still first. */
static void close_link(struct bench_link *link)
{
	struct pollfd poll_fd = {.fd = link->fd, .events = POLLRDHUP};

	shutdown(link->fd, SHUT_WR);
	poll(&poll_fd, 1, BENCH_WAIT_MS);
	link->calls->close(link);
	close(link->fd);
}

void bench_link_url(const struct bench_link *link, const char *host, const char *port, char *url)
{
	int v6 = strchr(link->job->host, ':') != NULL;

	host = host ? host : v6 ? "::" : "0.0.0.0";
	snprintf(url, BENCH_URL_LEN, v6 ? "tcp://[%s]:%s" : "tcp://%s:%s", host, port);
}

/* ---- messages ---- */

/* Waits as job.spin_us says: polls for so long first. */
static int receive(struct bench_link *link, const void **message)
{
	uint64_t spin_us = link->job->spin_us, end_ns, i;
	int err = -EAGAIN;

	if (spin_us && spin_us != RIPC_SPIN_NEVER) {
		end_ns = tool_now_ns() + spin_us * 1000;
		for (i = 1; err == -EAGAIN && (i % BENCH_POLLS || tool_now_ns() < end_ns); i++)
			err = link->calls->recv(link, 0, message);
	}
	return err == -EAGAIN ? link->calls->recv(link, BENCH_STALL_MS, message) : err;
}

/* The same for a server, whose client may have ended: then we are ended, too. */
static int receive_request(struct bench_link *link, const void **message)
{
	int err;

	do
		err = receive(link, message);
	while (err == -ETIMEDOUT);
	return err;
}

static int send_message(struct bench_link *link, uint64_t seed)
{
	void *buffer;
	int err = link->calls->buffer(link, &buffer);

	if (err < 0)
		return err;
	bench_put(link->job, buffer, seed);
	return link->calls->send(link);
}

static int send_ack(struct bench_link *link, uint64_t value)
{
	void *buffer;
	int err = link->calls->buffer(link, &buffer);

	if (err < 0)
		return err;
	memcpy(buffer, &value, sizeof(value));
	return link->calls->send(link);
}

static int receive_ack(struct bench_link *link, uint64_t *value)
{
	const void *message;
	int err = receive(link, &message);

	if (err < 0)
		return err;
	memcpy(value, message, sizeof(*value));
	link->calls->release(link);
	return 0;
}

/* ---- the server, of one client ---- */

static int serve_latency(struct bench_link *link)
{
	const void *message;
	uint64_t seed;
	int err = 0;

	while (err == 0) {
		err = receive_request(link, &message);
		if (err == 0)
			err = bench_take(link->job, message, &seed);
		if (err < 0)
			break;
		link->calls->release(link);
		err = send_message(link, seed);
	}
	return err;
}

/* Says for a single message that it has arrived, then for every one whether it was right. */
static int serve_bandwidth(struct bench_link *link)
{
	const struct bench_job *job = link->job;
	const void *message;
	uint64_t seed;
	int right, err = 0;

	while (err == 0) {
		err = receive_request(link, &message);
		if (err == 0 && job->depth == 1)
			err = send_ack(link, 1);
		if (err < 0)
			break;
		right = bench_take(job, message, &seed) == 0;
		link->calls->release(link);
		err = send_ack(link, (uint64_t)right);
	}
	return err;
}

static int serve_rate(struct bench_link *link)
{
	uint64_t received = 0, seed, step = bench_ack_step(link->job);
	const void *message;
	int err = 0;

	while (err == 0) {
		err = receive_request(link, &message);
		if (err == 0)
			err = bench_take(link->job, message, &seed);
		if (err < 0)
			break;
		link->calls->release(link);
		if (++received % step == 0)
			err = send_ack(link, received);
	}
	return err;
}

static int serve_link(struct bench_link *link)
{
	switch (link->job->kind) {
	case BENCH_LATENCY:
	case BENCH_PACED:
		return serve_latency(link);
	case BENCH_BANDWIDTH:
		return serve_bandwidth(link);
	case BENCH_RATE:
		return serve_rate(link);
	default:
		return -EOPNOTSUPP;
	}
}

/* Does not return: the process ends as soon as one link has failed. */
static void *run_link(void *arg)
{
	struct bench_link *link = arg;
	int err = begin_link(link);

	if (err == 0)
		err = serve_link(link);
	fprintf(stderr, "%s: a link's server: %s\n", PROGRAM, ripc_strerror(err));
	_exit(TOOL_FAILED);
}

/* Waits until all clients have ended what they measure, tells them, and waits to be killed. */
static void stand_still(const struct bench_link *links, uint64_t n)
{
	struct pollfd poll_fd = {.events = POLLRDHUP};
	uint64_t i;

	for (i = 0; i < n; i++) {
		poll_fd.fd = links[i].fd;
		while (poll(&poll_fd, 1, -1) < 0 && errno == EINTR)
			;
	}
	for (i = 0; i < n; i++)
		shutdown(links[i].fd, SHUT_WR);
	raise(SIGSTOP);
}

/* A thread for each client, whether they are said to have one service or several. */
int bench_link_serve(const struct bench_link_calls *calls, const char *variant,
	const struct bench_job *job, int ready_fd)
{
	static struct bench_link links[BENCH_THREADS_MAX];
	int listener = bench_socket_serve(job, SOCK_STREAM, ready_fd), err = listener;
	pthread_t thread;
	uint64_t i;

	for (i = 0; err >= 0 && i < job->threads; i++) {
		err = accept(listener, NULL, NULL);
		if (err < 0)
			return -errno;
		links[i] = (struct bench_link){.calls = calls,
			.variant = variant,
			.job = job,
			.serves = 1,
			.index = i,
			.fd = err};
		if (calls->stands_still && job->threads == 1)
			run_link(&links[i]);
		err = -pthread_create(&thread, NULL, run_link, &links[i]);
	}
	if (err == 0)
		stand_still(links, job->threads);
	while (err == 0)
		pause();
	return err;
}

/* ---- the client: round trips ---- */

/* One round trip, sent or due at begin_ns. */
static int exchange(
	struct bench_link *link, uint64_t i, uint64_t begin_ns, struct bench_result *result)
{
	const void *message;
	uint64_t seed;
	int err = send_message(link, i);

	if (err < 0)
		return bench_failed(result, "sending", err);
	err = receive(link, &message);
	if (err < 0)
		return bench_failed(result, "receiving", err);
	if (bench_take(link->job, message, &seed) < 0)
		result->wrong++;
	link->calls->release(link);
	result->messages++;
	if (i >= link->job->warm_up)
		result->samples[result->n++] = (double)(tool_now_ns() - begin_ns) / 1e3;
	return 0;
}

static int measure_latency(struct bench_link *link, struct bench_result *result)
{
	const struct bench_job *job = link->job;
	uint64_t i, began_ns = tool_now_ns();
	int err = 0;

	for (i = 0; err == 0 && i < job->count + job->warm_up; i++)
		err = exchange(link, i, bench_turn_ns(job, began_ns, i), result);
	return err;
}

/* ---- the client: bandwidth ---- */

static int measure_each(struct bench_link *link, struct bench_result *result)
{
	const struct bench_job *job = link->job;
	uint64_t i, begin_ns, ns, value = 0;
	void *buffer;
	int err;

	for (i = 0; i < job->count + job->warm_up; i++) {
		err = link->calls->buffer(link, &buffer);
		if (err < 0)
			return bench_failed(result, "memory for a message", err);
		bench_fill(buffer, job->size, i);
		begin_ns = tool_now_ns();
		err = link->calls->send(link);
		if (err == 0)
			err = receive_ack(link, &value);
		ns = tool_now_ns() - begin_ns;
		if (err == 0)
			err = receive_ack(link, &value);
		if (err < 0)
			return bench_failed(result, "a message", err);
		result->messages++;
		result->wrong += value != 1;
		if (i >= job->warm_up)
			result->samples[result->n++] = (double)job->size * 1e3 / (double)(ns + !ns);
	}
	return 0;
}

static int measure_stream(struct bench_link *link, struct bench_result *result)
{
	const struct bench_job *job = link->job;
	uint64_t all = job->count + job->warm_up, sent = 0, judged = 0, begin_ns = 0, value = 0;
	int err = 0;

	while (err == 0 && judged < all) {
		if (!begin_ns && judged >= job->warm_up)
			begin_ns = tool_now_ns();
		while (err == 0 && sent < all && sent < judged + job->depth)
			err = send_message(link, sent++);
		if (err == 0)
			err = receive_ack(link, &value);
		judged++;
		result->wrong += err == 0 && value != 1;
	}
	if (err < 0)
		return bench_failed(result, "a message", err);
	result->messages = all;
	result->samples[result->n++] =
		(double)job->size * (double)job->count * 1e3 / (double)(tool_now_ns() - begin_ns);
	return 0;
}

/* ---- the clients of a rate run ---- */

/* The kind of these links; one process runs one peer once. */
static const struct bench_link *rate_kind;

static int rate_open(struct bench_sender *sender)
{
	struct bench_link *link = malloc(sizeof(*link));
	int err;

	if (!link)
		return -ENOMEM;
	*link = *rate_kind;
	link->index = sender->index;
	err = open_link(link);
	if (err < 0)
		free(link);
	sender->state = link;
	return err;
}

static void rate_close(struct bench_sender *sender)
{
	close_link(sender->state);
	free(sender->state);
}

static int rate_stream(struct bench_sender *sender, uint64_t count)
{
	struct bench_link *link = sender->state;
	const struct bench_job *job = sender->job;
	uint64_t step = bench_ack_step(job), sent = 0, acked = 0, value;
	int err = 0;

	while (err == 0 && acked + step <= count) {
		while (err == 0 && sent < count && sent < acked + job->depth)
			err = send_message(link, sender->first + sent++);
		if (err == 0)
			err = receive_ack(link, &value);
		acked += step;
	}
	sender->received = acked;
	return err;
}

static int measure_rate(const struct bench_link *kind, struct bench_result *result)
{
	static const struct bench_rate_calls calls = {rate_open, rate_stream, rate_close};

	rate_kind = kind;
	return bench_measure_rate(kind->job, &calls, result);
}

/* ---- */

int bench_link_measure(const struct bench_link_calls *calls, const char *variant,
	const struct bench_job *job, struct bench_result *result)
{
	struct bench_link link = {.calls = calls, .variant = variant, .job = job};
	int err;

	if (job->kind == BENCH_RATE)
		return measure_rate(&link, result);
	err = open_link(&link);
	if (err < 0)
		return bench_failed(result, "opening a link", err);
	if (job->kind == BENCH_BANDWIDTH)
		err = job->depth > 1 ? measure_stream(&link, result) : measure_each(&link, result);
	else
		err = measure_latency(&link, result);
	if (err == 0)
		close_link(&link);
	return err;
}
