/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hello_server: greets whoever writes to the service named "hello". Start it, then run
 * hello_client on this host or on another one of the same network; neither needs an address.
 * Ctrl-C ends it.
 */
#include <errno.h>
#include <ripc/ripc.h>
#include <signal.h>
#include <stdio.h>

static struct ripc_service *svc;

/* What waits for a message returns; ripc_wake() is made for signal handlers. */
static void stop(int signal)
{
	(void)signal;
	ripc_wake(svc);
}

/* A message lives in the library's memory until it is freed; its text is not ended by a zero. */
static void greet(const struct ripc_msg *msg)
{
	char text[256];
	int name_len = msg->items[0].iov_len > 200 ? 200 : (int)msg->items[0].iov_len;
	int len = snprintf(
		text, sizeof(text), "Hello, %.*s!", name_len, (const char *)msg->items[0].iov_base);
	struct iovec item = {text, (size_t)len};

	/* Short messages never block and may get lost, as datagrams do. */
	ripc_send_short(svc, msg->from, &item, 1);
}

int main(void)
{
	struct ripc_context *ctx = NULL;
	struct ripc_msg *msg;
	int err = ripc_open(NULL, &ctx); /* one context per process; NULL: all defaults */

	if (err == 0)
		err = ripc_service_open(ctx, ripc_id_from_name("hello"), 0, &svc);
	if (err == 0) {
		signal(SIGINT, stop);
		signal(SIGTERM, stop);
	}
	while (err == 0 && (err = ripc_receive(svc, -1, &msg)) == 0) { /* -1: wait for ever */
		if (msg->kind == RIPC_SHORT && msg->n_items == 1)
			greet(msg);
		ripc_msg_free(msg);
	}
	if (err != -EINTR)
		fprintf(stderr, "hello_server: %s\n", ripc_strerror(err));
	signal(SIGINT, SIG_DFL); /* the service is about to go, and with it what stop() uses */
	signal(SIGTERM, SIG_DFL);
	if (ctx)
		ripc_close(ctx, 1000);
	return err != -EINTR;
}
