/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk shm|udp BYTES: one message from one context to another of the same process, after some that
 * warm up, with every call of an instrumented function printed: the caller's address and the
 * function's. For scripts/walk.
 */
#include <errno.h>
#include <ripc/ripc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP   20
#define CALLS_MAX (1u << 20)
#define DEPTH_MAX 256u
#define UNTRACED  __attribute__((no_instrument_function))
#define SHORT_MAX 1400u

struct end {
	struct ripc_context *ctx;
	struct ripc_service *svc;
};

static struct {
	void *caller, *callee;
} calls[CALLS_MAX];
static void *stack[DEPTH_MAX];
static unsigned int n_calls, depth;
static bool traces;

void __cyg_profile_func_enter(void *function, void *site) UNTRACED;
void __cyg_profile_func_exit(void *function, void *site) UNTRACED;

void __cyg_profile_func_enter(void *function, void *site)
{
	(void)site;
	if (depth < DEPTH_MAX)
		stack[depth] = function;
	if (traces && n_calls < CALLS_MAX) {
		calls[n_calls].caller = depth > 0 ? stack[depth - 1] : NULL;
		calls[n_calls++].callee = function;
	}
	depth++;
}

void __cyg_profile_func_exit(void *function, void *site)
{
	(void)function;
	(void)site;
	depth--;
}

static void check(int error, const char *what)
{
	if (error >= 0)
		return;
	fprintf(stderr, "walk: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static void end_open(struct end *end, const char *backend)
{
	const struct ripc_config config = {.size = sizeof(config), .backends = backend,
		.flags = RIPC_NO_THREAD};

	check(ripc_open(&config, &end->ctx), "open");
	check(ripc_service_open(end->ctx, 0, 0, &end->svc), "service");
}

/* True: one was there. */
static bool take(struct ripc_service *svc)
{
	struct ripc_msg *msg;
	int error = ripc_receive(svc, 0, &msg);

	if (error == -EAGAIN)
		return false;
	check(error, "receive");
	ripc_msg_free(msg);
	return true;
}

static void exchange(const struct end *from, const struct end *to, const struct iovec *item)
{
	const struct ripc_send send = {.size = sizeof(send), .to = ripc_service_id(to->svc),
		.items = item, .n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT,
		.timeout_ms = 5000};
	bool is_short = item->iov_len <= SHORT_MAX, sent = is_short, came = false;

	if (is_short)
		check(ripc_send_short(from->svc, send.to, item, 1), "send");
	else
		check(ripc_sendmsg(from->svc, &send, NULL), "send");
	while (!came || !sent) {
		came = came || take(to->svc);
		if (!came && is_short)
			ripc_poll(from->ctx); /* they do not know each other yet */
		sent = sent || take(from->svc);
		if (came && !sent)
			ripc_poll(to->ctx); /* its answer waits for something to go along with */
	}
}

int main(int argc, char **argv)
{
	size_t bytes = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	struct end from, to;
	struct iovec item = {.iov_len = bytes};

	if (!bytes) {
		fputs("usage: walk shm|udp BYTES\n", stderr);
		return 2;
	}
	end_open(&from, argv[1]);
	end_open(&to, argv[1]);
	check(ripc_buf_alloc(from.ctx, bytes, &item.iov_base), "buffer");
	memset(item.iov_base, 1, bytes);
	for (int i = 0; i < WARM_UP; i++) {
		exchange(&from, &to, &item);
		ripc_poll(from.ctx);
	}
	traces = true;
	exchange(&from, &to, &item);
	traces = false;
	for (unsigned int i = 0; i < n_calls; i++)
		printf("%p %p\n", calls[i].caller, calls[i].callee);
	return 0;
}
