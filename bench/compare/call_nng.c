/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reference for calls in bench/compare/call_rates: nng's req and rep sockets, with a context for
 * each request under way.
 *
 * call_nng URL CLIENTS UNDERWAY SECONDS     as calls rate does; URL: ipc:///tmp/x, tcp://...
 */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../micro/clients.h"

#define PARALLEL 128 /* requests that the server has in hand at once */
#define DIALS    200 /* 10 ms apart */

/* One request after the other. */
struct turn {
	nng_ctx ctx;
	nng_aio *aio;
	enum { SENDS, RECEIVES } does;
	volatile unsigned long *answers; /* NULL: it serves */
};

static void check(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "call_nng: %s: %s\n", what, nng_strerror(error));
	exit(1);
}

static void receive(struct turn *turn)
{
	turn->does = RECEIVES;
	nng_ctx_recv(turn->ctx, turn->aio);
}

static void transmit(struct turn *turn, nng_msg *msg)
{
	turn->does = SENDS;
	nng_aio_set_msg(turn->aio, msg);
	nng_ctx_send(turn->ctx, turn->aio);
}

/* The received message goes back: the request as the reply, and the reply as the next request. */
static void next(void *arg)
{
	struct turn *turn = arg;

	check(nng_aio_result(turn->aio), turn->does == SENDS ? "send" : "receive");
	if (turn->does == SENDS) {
		receive(turn);
		return;
	}
	if (turn->answers)
		__sync_fetch_and_add(turn->answers, 1);
	transmit(turn, nng_aio_get_msg(turn->aio));
}

static void turn_open(struct turn *turn, nng_socket socket, volatile unsigned long *answers)
{
	check(nng_ctx_open(&turn->ctx, socket), "context");
	check(nng_aio_alloc(&turn->aio, next, turn), "aio");
	turn->answers = answers;
}

static nng_msg *request(void)
{
	nng_msg *msg;

	check(nng_msg_alloc(&msg, CLIENTS_BYTES), "message");
	memset(nng_msg_body(msg), 'q', CLIENTS_BYTES);
	return msg;
}

static void serve(struct board *board, const char *url)
{
	static struct turn turns[PARALLEL];
	nng_socket socket;

	check(nng_rep0_open(&socket), "socket");
	check(nng_listen(socket, url, NULL, 0), "listen");
	clients_ready(board);
	for (int i = 0; i < PARALLEL; i++) {
		turn_open(&turns[i], socket, NULL);
		receive(&turns[i]);
	}
	for (;;)
		pause();
}

static void ask_one_by_one(nng_socket socket, volatile unsigned long *answers)
{
	nng_msg *msg = request();

	for (;; ++*answers) {
		check(nng_sendmsg(socket, msg, 0), "send");
		check(nng_recvmsg(socket, &msg, 0), "receive");
	}
}

static void ask(struct board *board, const char *url, int me, int underway)
{
	static struct turn turns[PARALLEL];
	nng_socket socket;
	int error = NNG_ECONNREFUSED;

	check(nng_req0_open(&socket), "socket");
	for (int i = 0; i < DIALS && error; i++) {
		error = nng_dial(socket, url, NULL, 0);
		if (error)
			usleep(10000);
	}
	check(error, "dial");
	clients_await(board);
	if (underway == 1)
		ask_one_by_one(socket, &board->answers[me].n);
	for (int i = 0; i < underway && i < PARALLEL; i++) {
		turn_open(&turns[i], socket, &board->answers[me].n);
		transmit(&turns[i], request());
	}
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	static const struct library library = {serve, ask};
	int status;

	if (argc == 5 && clients_main(&library, argv + 1, &status))
		return status;
	fprintf(stderr, "usage: call_nng URL CLIENTS UNDERWAY SECONDS\n");
	return 2;
}
