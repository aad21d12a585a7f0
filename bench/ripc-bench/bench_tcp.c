/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP stream with TCP_NODELAY in ripc-bench: a link that is the connection by which its ends
 * found each other. Both know the size of a message, and receive into memory that is used again
 * and was touched before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "bench_link.h"
#include "bench_socket.h"

#define ALIGNMENT ((size_t)64)

struct end {
	char *in, *out; /* a message each */
};

static char *touched(size_t size)
{
	size_t whole = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
	char *buffer = aligned_alloc(ALIGNMENT, whole);

	if (buffer)
		memset(buffer, 1, whole);
	return buffer;
}

static void close_end(struct bench_link *link)
{
	struct end *end = link->state;

	free(end->in);
	free(end->out);
	free(end);
}

static int open_end(struct bench_link *link, char *address, size_t *len)
{
	struct end *end = calloc(1, sizeof(*end));

	(void)address;
	*len = 0;
	if (!end)
		return -ENOMEM;
	link->state = end;
	end->in = touched(link->in_size);
	end->out = touched(link->out_size);
	if (end->in && end->out)
		return 0;
	close_end(link);
	return -ENOMEM;
}

/* From now on without a timeout, which would burden every call: the process has its alarm. */
static int connect_end(struct bench_link *link, const char *address, size_t len)
{
	struct timeval none = {0};

	(void)address;
	(void)len;
	return setsockopt(link->fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)) < 0 ? -errno : 0;
}

static int get_buffer(struct bench_link *link, void **buffer)
{
	struct end *end = link->state;

	*buffer = end->out;
	return 0;
}

static int send_buffer(struct bench_link *link)
{
	struct end *end = link->state;

	return bench_socket_send_all(link->fd, end->out, link->out_size);
}

/* The client has ended: tells it that we stand still, and waits to be ended. */
static int end_stream(const struct bench_link *link)
{
	shutdown(link->fd, SHUT_WR);
	while (link->serves)
		pause();
	return -ECONNRESET;
}

static int receive(struct bench_link *link, int timeout_ms, const void **message)
{
	struct end *end = link->state;
	ssize_t got = recv(link->fd, end->in, link->in_size, timeout_ms ? 0 : MSG_DONTWAIT);

	if (got < 0)
		return -errno;
	if (got == 0)
		return end_stream(link);
	*message = end->in;
	return bench_socket_recv_all(
		link->fd, end->in + got, link->in_size - (size_t)got, link->job->spin_us);
}

static void release(struct bench_link *link)
{
	(void)link;
}

static const struct bench_link_calls calls = {
	.open = open_end,
	.connect = connect_end,
	.buffer = get_buffer,
	.send = send_buffer,
	.recv = receive,
	.release = release,
	.close = close_end,
	.stands_still = 1,
};

BENCH_LINK_FUNCTIONS(calls, tcp)

const struct bench_peer bench_tcp = {
	.name = "tcp",
	.about = "a TCP stream with TCP_NODELAY",
	.halves = BENCH_LINK_HALVES(tcp),
};
