/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * longs N BACKEND BYTES: sends N long messages from one context to another of the same process, one
 * after the other, and receives and frees each. To count instructions, as bench/micro/shorts does
 * for short ones. Both contexts are polled by this one thread, so that nobody sleeps.
 */
#include <errno.h>
#include <ripc/ripc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP    20
#define TIMEOUT_MS 60000

struct end {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t id;
};

static void check(int error, const char *what)
{
	if (error >= 0)
		return;
	fprintf(stderr, "longs: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static void end_open(struct end *end, const char *backend)
{
	const struct ripc_config config = {.size = sizeof(config), .backends = backend,
		.flags = RIPC_NO_THREAD};

	check(ripc_open(&config, &end->ctx), "open");
	check(ripc_service_open(end->ctx, 0, 0, &end->svc), "service");
	end->id = ripc_service_id(end->svc);
}

/* True: a message or a completion was there. */
static bool take(struct ripc_service *svc)
{
	struct ripc_msg *msg;
	int error = ripc_receive(svc, 0, &msg);

	if (error == -EAGAIN)
		return false;
	check(error, "receive");
	if (msg->kind == RIPC_COMPLETION)
		check(msg->outcome == RIPC_DELIVERED ? 0 : msg->status, "completion");
	ripc_msg_free(msg);
	return true;
}

static void exchange(const struct end *from, const struct end *to, const struct iovec *item)
{
	const struct ripc_send send = {.size = sizeof(send), .to = to->id,
		.items = item, .n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT,
		.timeout_ms = TIMEOUT_MS};
	bool sent = false, came = false;

	check(ripc_sendmsg(from->svc, &send, NULL), "send");
	while (!sent || !came) {
		came = came || take(to->svc);
		sent = sent || take(from->svc);
		if (came && !sent)
			ripc_poll(to->ctx); /* its answer waits for something to go along with */
	}
}

/* The counted part: callgrind's --toggle-collect=measured. Finding one another is not in it. */
__attribute__((noinline)) void measured(const struct end *from, const struct end *to,
		const struct iovec *item, long n);

void measured(const struct end *from, const struct end *to, const struct iovec *item, long n)
{
	for (long i = 0; i < n; i++)
		exchange(from, to, item);
}

int main(int argc, char **argv)
{
	long n = argc == 4 ? strtol(argv[1], NULL, 10) : 0;
	struct iovec item = {.iov_len = argc == 4 ? strtoul(argv[3], NULL, 10) : 0};
	struct end from, to;

	if (n < 1 || !item.iov_len) {
		fputs("usage: longs N BACKEND BYTES\n", stderr);
		return 2;
	}
	end_open(&from, argv[2]);
	end_open(&to, argv[2]);
	check(ripc_buf_alloc(from.ctx, item.iov_len, &item.iov_base), "buffer");
	memset(item.iov_base, 1, item.iov_len);
	for (long i = 0; i < WARM_UP; i++)
		exchange(&from, &to, &item);
	measured(&from, &to, &item, n);
	check(ripc_buf_free(from.ctx, item.iov_base), "free");
	check(ripc_close(from.ctx, 0), "close");
	check(ripc_close(to.ctx, 0), "close");
	return 0;
}
