/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hello_server: replies to each request to the service named "hello" with a greeting. Start it,
 * then run hello_client on this host or on another one of the same network; neither needs an
 * address. Ctrl-C ends it.
 */
#include <errno.h>
#include <ripc/call.h>
#include <signal.h>
#include <stdio.h>

static struct ripc_service *svc;

/* A call that waits in the service returns; ripc_wake() is made for signal handlers. */
static void stop(int signal)
{
	(void)signal;
	ripc_wake(svc);
}

/* A message lives in the library's memory until it is freed; its text is not ended by a zero. */
static void greet(const struct ripc_msg *request)
{
	const struct iovec *name = &request->items[0];
	int name_len = name->iov_len > 200 ? 200 : (int)name->iov_len;
	char text[256];
	int len = snprintf(text, sizeof(text), "Hello, %.*s!", name_len, (char *)name->iov_base);
	struct iovec item = {text, (size_t)len};

	/* Never waits: a client that receives no reply keeps no other client waiting. */
	ripc_reply(svc, request, &item, 1, 0);
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
		if (msg->kind == RIPC_REQUEST)
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
