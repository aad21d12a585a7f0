/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ZeroMQ in ripc-bench: a DEALER socket at each end, over TCP or Unix stream sockets. Small
 * messages are written where ZeroMQ allocates them; long ones lie in buffers of ours, which it
 * sends from without a copy and then hands back. Its I/O thread, one for each link, sleeps in any
 * case: what polls is only who waits for that thread.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>
#include "bench_link.h"

#define LONG_BYTES 8192 /* from here on ZeroMQ sends out of the message itself */

struct slot {
	void *memory;
	atomic_int busy;
};

struct end {
	void *context, *socket;
	zmq_msg_t in, out;
	struct slot slots[]; /* link->n_out; for long messages only */
};

static int failure(void)
{
	int error = zmq_errno();

	return error == EAGAIN ? -ETIMEDOUT : error < ZMQ_HAUSNUMERO ? -error : -EPROTO;
}

static int set_options(const struct bench_link *link, void *socket)
{
	const struct {
		int option, value;
	} settings[] = {{ZMQ_SNDHWM, 0}, {ZMQ_RCVHWM, 0}, {ZMQ_IMMEDIATE, 1}, {ZMQ_LINGER, 0},
		{ZMQ_SNDTIMEO, BENCH_STALL_MS}, {ZMQ_RCVTIMEO, BENCH_STALL_MS},
		{ZMQ_IPV6, strchr(link->job->host, ':') != NULL}};
	size_t i;

	for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (zmq_setsockopt(socket, settings[i].option, &settings[i].value,
			    sizeof(settings[i].value)) < 0)
			return failure();
	return 0;
}

/* Any port, or a name in Linux's own name space, of which no file is left. */
static int listen_anywhere(const struct bench_link *link, void *socket, char *address, size_t *len)
{
	char url[BENCH_URL_LEN] = "tcp://*:*", *port;

	if (strcmp(link->variant, "ipc") == 0)
		snprintf(url, sizeof(url), "ipc://@ripc-bench-%d-%d", (int)getpid(),
			(int)link->index);
	*len = BENCH_ADDRESS_LEN;
	if (zmq_bind(socket, url) < 0 ||
		zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, address, len) < 0)
		return failure();
	port = strcmp(link->variant, "tcp") == 0 ? strrchr(address, ':') : NULL;
	if (port)
		memmove(address, port + 1, strlen(port));
	*len = strlen(address) + 1;
	return 0;
}

static void close_end(struct bench_link *link)
{
	struct end *end = link->state;
	unsigned int i;

	if (end->socket)
		zmq_close(end->socket);
	if (end->context)
		zmq_ctx_term(end->context); /* from here on it hands no buffer back */
	for (i = 0; i < link->n_out; i++)
		free(end->slots[i].memory);
	free(end);
}

static int alloc_slots(struct bench_link *link, struct end *end)
{
	unsigned int i;

	for (i = 0; i < link->n_out && link->out_size >= LONG_BYTES; i++) {
		end->slots[i].memory = aligned_alloc(64, (link->out_size + 64) & ~(size_t)63);
		if (!end->slots[i].memory)
			return -ENOMEM;
		bench_fill(end->slots[i].memory, link->out_size, 0);
	}
	return 0;
}

static int open_end(struct bench_link *link, char *address, size_t *len)
{
	struct end *end = calloc(1, sizeof(*end) + link->n_out * sizeof(end->slots[0]));
	int err;

	if (!end)
		return -ENOMEM;
	link->state = end;
	err = alloc_slots(link, end);
	if (err == 0) {
		end->context = zmq_ctx_new();
		end->socket = end->context ? zmq_socket(end->context, ZMQ_DEALER) : NULL;
		err = end->socket ? set_options(link, end->socket) : failure();
	}
	if (err == 0 && link->serves)
		err = listen_anywhere(link, end->socket, address, len);
	if (err < 0)
		close_end(link);
	return err;
}

static int connect_end(struct bench_link *link, const char *address, size_t len)
{
	struct end *end = link->state;
	char url[BENCH_URL_LEN];

	if (link->serves)
		return 0;
	if (len == 0 || len >= sizeof(url) || address[len - 1])
		return -EBADMSG;
	if (strcmp(link->variant, "tcp") == 0)
		bench_link_url(link, link->job->host, address, url);
	else
		memcpy(url, address, len);
	return zmq_connect(end->socket, url) < 0 ? failure() : 0;
}

/* Called by the I/O thread. */
static void hand_back(void *memory, void *arg)
{
	struct slot *slot = arg;

	(void)memory;
	atomic_store_explicit(&slot->busy, 0, memory_order_release);
}

static int find_slot(struct bench_link *link, struct slot **slot)
{
	uint64_t end_ns = tool_now_ns() + BENCH_STALL_MS * 1000000ull, i;
	struct end *end = link->state;

	for (i = 0; i % link->n_out || tool_now_ns() < end_ns; i++) {
		*slot = &end->slots[i % link->n_out];
		if (!atomic_load_explicit(&(*slot)->busy, memory_order_acquire))
			return 0;
	}
	return -ETIMEDOUT;
}

static int get_buffer(struct bench_link *link, void **buffer)
{
	struct end *end = link->state;
	struct slot *slot = NULL;
	int err;

	if (link->out_size < LONG_BYTES)
		err = zmq_msg_init_size(&end->out, link->out_size) < 0 ? failure() : 0;
	else
		err = find_slot(link, &slot);
	if (err < 0)
		return err;
	if (slot && zmq_msg_init_data(&end->out, slot->memory, link->out_size, hand_back, slot) < 0)
		return failure();
	if (slot)
		atomic_store_explicit(&slot->busy, 1, memory_order_relaxed);
	*buffer = zmq_msg_data(&end->out);
	return 0;
}

static int send_buffer(struct bench_link *link)
{
	struct end *end = link->state;

	return zmq_msg_send(&end->out, end->socket, 0) < 0 ? failure() : 0;
}

static int receive(struct bench_link *link, int timeout_ms, const void **message)
{
	struct end *end = link->state;
	int got, err;

	/* The timeout is an option of the socket: BENCH_STALL_MS. */
	zmq_msg_init(&end->in);
	got = zmq_msg_recv(&end->in, end->socket, timeout_ms ? 0 : ZMQ_DONTWAIT);
	if (got < 0) {
		err = failure();
		if (err != -ETIMEDOUT || timeout_ms)
			return err;
		sched_yield(); /* the I/O thread may have no other processor */
		return -EAGAIN;
	}
	*message = zmq_msg_data(&end->in);
	return (size_t)got == link->in_size ? 0 : -EBADMSG;
}

static void release(struct bench_link *link)
{
	struct end *end = link->state;

	zmq_msg_close(&end->in);
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
	"DEALER at both ends, one I/O thread per link, no high-water mark, ZMQ_IMMEDIATE, "        \
	"from 8 KiB on zmq_msg_init_data(); the I/O thread never polls"

static const struct bench_peer zmq_tcp = {
	.name = "zmq",
	.settings = SETTINGS,
	.halves = BENCH_LINK_HALVES(tcp),
};

static const struct bench_peer zmq_ipc = {
	.name = "zmq-ipc",
	.settings = SETTINGS,
	.halves = BENCH_LINK_HALVES(ipc),
};

BENCH_MODULE(&zmq_tcp, &zmq_ipc);
