/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reference for calls in bench/compare/call_rates: gRPC's core, to which its C++, Python and
 * other libraries add their own; unary calls of bytes, without protobuf and without encryption.
 *
 * call_grpc TARGET CLIENTS UNDERWAY SECONDS     as calls rate does; TARGET: unix:/tmp/x, HOST:PORT
 */
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../micro/clients.h"

#define PARALLEL 128 /* requests that the server has in hand at once */
#define METHOD   "/calls/echo"

/* One request after the other. */
struct turn {
	enum { REQUESTED, READ, ANSWERED } state; /* of a server's */
	grpc_call *call;
	grpc_call_details details;
	grpc_metadata_array initial, trailing;
	grpc_byte_buffer *in;
	grpc_slice text;
	grpc_status_code status;
	int cancelled;
};

static grpc_completion_queue *queue;
static grpc_server *server;
static grpc_channel *channel;

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "call_grpc: %s failed\n", what);
	exit(1);
}

static void start(struct turn *turn, const grpc_op *ops, size_t n)
{
	check(grpc_call_start_batch(turn->call, ops, n, turn, NULL) == GRPC_CALL_OK, "batch");
}

/* The next that has gone on; good: it has not failed. */
static struct turn *gone_on(bool *good)
{
	grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME),
		NULL);

	*good = event.type == GRPC_OP_COMPLETE && event.success;
	return event.tag;
}

/* ---- the server -------------------------------------------------------------------------- */

static void request(struct turn *turn)
{
	*turn = (struct turn){.state = REQUESTED};
	grpc_call_details_init(&turn->details);
	grpc_metadata_array_init(&turn->initial);
	check(grpc_server_request_call(server, &turn->call, &turn->details, &turn->initial, queue,
		queue, turn) == GRPC_CALL_OK, "request");
}

static void read_request(struct turn *turn)
{
	const grpc_op ops[] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA},
		{.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &turn->in},
	};

	turn->state = READ;
	start(turn, ops, 2);
}

static void answer(struct turn *turn)
{
	const grpc_op ops[] = {
		{.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = turn->in},
		{.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
			.data.send_status_from_server.status = GRPC_STATUS_OK},
		{.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
			.data.recv_close_on_server.cancelled = &turn->cancelled},
	};

	turn->state = ANSWERED;
	start(turn, ops, 3);
}

static void serve(struct board *board, const char *target)
{
	static struct turn turns[PARALLEL];
	grpc_server_credentials *open;

	grpc_init();
	open = grpc_insecure_server_credentials_create();
	queue = grpc_completion_queue_create_for_next(NULL);
	server = grpc_server_create(NULL, NULL);
	grpc_server_register_completion_queue(server, queue, NULL);
	check(grpc_server_add_http2_port(server, target, open), "listen");
	grpc_server_start(server);
	for (int i = 0; i < PARALLEL; i++)
		request(&turns[i]);
	clients_ready(board);
	for (;;) {
		bool good;
		struct turn *turn = gone_on(&good);

		check(good || turn->state == ANSWERED, "serving");
		if (turn->state == REQUESTED) {
			read_request(turn);
		} else if (turn->state == READ) {
			answer(turn);
		} else {
			grpc_byte_buffer_destroy(turn->in);
			grpc_call_details_destroy(&turn->details);
			grpc_metadata_array_destroy(&turn->initial);
			grpc_call_unref(turn->call);
			request(turn);
		}
	}
}

/* ---- clients ----------------------------------------------------------------------------- */

/* The sent bytes are taken out of their buffer. */
static void ask_one(struct turn *turn, grpc_slice bytes)
{
	grpc_byte_buffer *payload = grpc_raw_byte_buffer_create(&bytes, 1);
	const grpc_op ops[] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA},
		{.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = payload},
		{.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
		{.op = GRPC_OP_RECV_INITIAL_METADATA,
			.data.recv_initial_metadata.recv_initial_metadata = &turn->initial},
		{.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &turn->in},
		{.op = GRPC_OP_RECV_STATUS_ON_CLIENT, .data.recv_status_on_client = {
			&turn->trailing, &turn->status, &turn->text, NULL}},
	};

	*turn = (struct turn){.state = REQUESTED};
	grpc_metadata_array_init(&turn->initial);
	grpc_metadata_array_init(&turn->trailing);
	turn->call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
		grpc_slice_from_static_string(METHOD), NULL,
		gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	start(turn, ops, 6);
	grpc_byte_buffer_destroy(payload);
}

static void answered(struct turn *turn)
{
	if (turn->status != GRPC_STATUS_OK) {
		fprintf(stderr, "call_grpc: status %d: %s\n", turn->status,
			grpc_slice_to_c_string(turn->text));
		exit(1);
	}
	check(turn->in && grpc_byte_buffer_length(turn->in) == CLIENTS_BYTES, "call");
	grpc_byte_buffer_destroy(turn->in);
	grpc_metadata_array_destroy(&turn->initial);
	grpc_metadata_array_destroy(&turn->trailing);
	grpc_slice_unref(turn->text);
	grpc_call_unref(turn->call);
}

static void ask(struct board *board, const char *target, int me, int underway)
{
	static struct turn turns[PARALLEL];
	char bytes[CLIENTS_BYTES] = "request";
	grpc_slice slice;

	grpc_init();
	queue = grpc_completion_queue_create_for_next(NULL);
	channel = grpc_channel_create(target, grpc_insecure_credentials_create(), NULL);
	slice = grpc_slice_from_copied_buffer(bytes, sizeof(bytes));
	clients_await(board);
	for (int i = 0; i < underway && i < PARALLEL; i++)
		ask_one(&turns[i], slice);
	for (;; board->answers[me].n++) {
		bool good;
		struct turn *turn = gone_on(&good);

		check(good, "sending requests");
		answered(turn);
		ask_one(turn, slice);
	}
}

int main(int argc, char **argv)
{
	static const struct library library = {serve, ask};
	int status;

	if (argc == 5 && clients_main(&library, argv + 1, &status))
		return status;
	fprintf(stderr, "usage: call_grpc TARGET CLIENTS UNDERWAY SECONDS\n");
	return 2;
}
