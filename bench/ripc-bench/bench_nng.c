/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nng in ripc-bench: a pair0 socket at each end, over TCP or Unix stream sockets. Messages are
 * written and read where nng has them (nng_sendmsg(), nng_recvmsg()), and what was received is
 * what is sent next if the size is the same: nothing is copied in between. Its own threads sleep in
 * any case: what polls is only who waits for them.
 */
#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/pair0/pair.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench_link.h"

#define QUEUE_MAX 8192 /* nng's own limit */

struct end {
	nng_socket socket;
	nng_msg *in, *out; /* in: received, and not released; out: the one to be sent next */
	nng_msg *spare;
};

static int failure(int error)
{
	switch (error) {
	case 0:
		return 0;
	case NNG_ETIMEDOUT:
		return -ETIMEDOUT;
	case NNG_EAGAIN:
		return -EAGAIN;
	case NNG_ENOMEM:
		return -ENOMEM;
	case NNG_ECONNREFUSED:
		return -ECONNREFUSED;
	case NNG_ECLOSED:
	case NNG_ECONNRESET:
		return -ECONNRESET;
	default:
		return error & NNG_ESYSERR ? -(error & ~NNG_ESYSERR) : -EPROTO;
	}
}

static int set_options(const struct bench_link *link, nng_socket socket)
{
	int depth = (int)link->job->depth, error;

	depth = depth == 1 ? 0 : depth < QUEUE_MAX ? depth : QUEUE_MAX;
	error = nng_socket_set_int(socket, NNG_OPT_SENDBUF, depth);
	if (!error)
		error = nng_socket_set_int(socket, NNG_OPT_RECVBUF, depth);
	if (!error)
		error = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, 0); /* no limit */
	if (!error)
		error = nng_socket_set_ms(socket, NNG_OPT_SENDTIMEO, BENCH_STALL_MS);
	if (!error)
		error = nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, BENCH_STALL_MS);
	return failure(error);
}

/* Any port; fills in the port. */
static int listen_tcp(const struct bench_link *link, nng_socket socket, char *address, size_t *len)
{
	char url[BENCH_URL_LEN];
	nng_listener listener;
	int error, port = 0;

	bench_link_url(link, NULL, "0", url);
	error = nng_listener_create(&listener, socket, url);
	if (!error)
		error = nng_listener_set_bool(listener, NNG_OPT_TCP_NODELAY, true);
	if (!error)
		error = nng_listener_start(listener, 0);
	if (!error)
		error = nng_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &port);
	*len = (size_t)snprintf(address, BENCH_ADDRESS_LEN, "%d", port) + 1;
	return failure(error);
}

/* A name in Linux's own name space, of which no file is left. */
static int listen_ipc(const struct bench_link *link, nng_socket socket, char *address, size_t *len)
{
	*len = (size_t)snprintf(address, BENCH_ADDRESS_LEN, "abstract://ripc-bench-%d-%d",
		       (int)getpid(), (int)link->index) +
	       1;
	return failure(nng_listen(socket, address, NULL, 0));
}

static void close_end(struct bench_link *link)
{
	struct end *end = link->state;

	nng_close(end->socket);
	if (end->spare)
		nng_msg_free(end->spare);
	free(end);
}

static int open_end(struct bench_link *link, char *address, size_t *len)
{
	struct end *end = calloc(1, sizeof(*end));
	int err;

	if (!end)
		return -ENOMEM;
	link->state = end;
	err = failure(nng_pair0_open(&end->socket));
	if (err < 0) {
		free(end);
		return err;
	}
	err = set_options(link, end->socket);
	if (err == 0 && link->serves)
		err = strcmp(link->variant, "tcp") == 0
			      ? listen_tcp(link, end->socket, address, len)
			      : listen_ipc(link, end->socket, address, len);
	if (err < 0)
		close_end(link);
	return err;
}

static int dial_tcp(const struct bench_link *link, nng_socket socket, const char *port)
{
	char url[BENCH_URL_LEN];
	nng_dialer dialer;
	int error;

	bench_link_url(link, link->job->host, port, url);
	error = nng_dialer_create(&dialer, socket, url);
	if (!error)
		error = nng_dialer_set_bool(dialer, NNG_OPT_TCP_NODELAY, true);
	if (!error)
		error = nng_dialer_start(dialer, 0);
	return failure(error);
}

static int connect_end(struct bench_link *link, const char *address, size_t len)
{
	struct end *end = link->state;

	if (link->serves)
		return 0;
	if (len == 0 || len >= BENCH_URL_LEN || address[len - 1])
		return -EBADMSG;
	if (strcmp(link->variant, "tcp") == 0)
		return dial_tcp(link, end->socket, address);
	return failure(nng_dial(end->socket, address, NULL, 0));
}

static int get_buffer(struct bench_link *link, void **buffer)
{
	struct end *end = link->state;
	int error = 0;

	end->out = end->spare;
	end->spare = NULL;
	if (!end->out)
		error = nng_msg_alloc(&end->out, link->out_size);
	if (error)
		return failure(error);
	*buffer = nng_msg_body(end->out);
	return 0;
}

static int send_buffer(struct bench_link *link)
{
	struct end *end = link->state;
	int err = failure(nng_sendmsg(end->socket, end->out, 0));

	if (err < 0)
		nng_msg_free(end->out);
	return err;
}

static int receive(struct bench_link *link, int timeout_ms, const void **message)
{
	struct end *end = link->state;
	int err;

	/* The timeout is an option of the socket: BENCH_STALL_MS. */
	err = failure(nng_recvmsg(end->socket, &end->in, timeout_ms ? 0 : NNG_FLAG_NONBLOCK));
	if (err == -EAGAIN)
		sched_yield(); /* nng's threads may have no other processor */
	if (err < 0)
		return err;
	*message = nng_msg_body(end->in);
	return nng_msg_len(end->in) == link->in_size ? 0 : -EBADMSG;
}

static void release(struct bench_link *link)
{
	struct end *end = link->state;

	if (!end->spare && link->in_size == link->out_size)
		end->spare = end->in;
	else
		nng_msg_free(end->in);
}

static const struct bench_link_calls calls = {
	.open = open_end,
	.connect = connect_end,
	.buffer = get_buffer,
	.send = send_buffer,
	.recv = receive,
	.release = release,
	.close = close_end,
};

BENCH_LINK_FUNCTIONS(calls, tcp)
BENCH_LINK_FUNCTIONS(calls, ipc)

#define SETTINGS                                                                                   \
	"pair0, nng_sendmsg() and nng_recvmsg(), NNG_OPT_TCP_NODELAY, queues as long as the "      \
	"depth if that is above 1, no limit of size; its threads never poll"

static const struct bench_peer nng_tcp = {
	.name = "nng",
	.settings = SETTINGS,
	.halves = BENCH_LINK_HALVES(tcp),
};

static const struct bench_peer nng_ipc = {
	.name = "nng-ipc",
	.settings = SETTINGS,
	.halves = BENCH_LINK_HALVES(ipc),
};

BENCH_MODULE(&nng_tcp, &nng_ipc);
