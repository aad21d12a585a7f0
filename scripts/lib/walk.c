/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk short|long MESSAGES: sends messages over UDP from one context to another of this process,
 * and prints a line for each: the addresses of the functions that it entered, in the order of
 * their first entries, from the public call that sends to the ripc_receive() that returns the
 * message. scripts/walk links it with a library that was compiled with -finstrument-functions. One
 * thread drives both contexts. The rest of a message (its acknowledgement, its completion) is not
 * recorded, nor is the time in which the two services find each other. The monotonic clock stands
 * still but for a step of each turn: no timer is due because the machine is busy.
 */
#include <errno.h>
#include <ripc/ripc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SHORT_LEN     50u
#define LONG_LEN      (1u << 20)
#define WARM_UP	      20
#define TIMEOUT_MS    60000
#define POLLS	      10
#define TURN_US	      20
#define POLL_US	      1000
#define FUNCTIONS_MAX 4096u
#define UNTRACED      __attribute__((no_instrument_function))

struct end {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t id;
};

static bool recording;
static void *entered[FUNCTIONS_MAX]; /* in order */
static void *seen[2 * FUNCTIONS_MAX]; /* the same, by their addresses */
static unsigned int n_entered;
static uint64_t clock_us = (uint64_t)1 << 50; /* far ahead of the kernel's */

void __cyg_profile_func_enter(void *function, void *site) UNTRACED;
void __cyg_profile_func_exit(void *function, void *site) UNTRACED;

void __cyg_profile_func_enter(void *function, void *site)
{
	size_t place;

	(void)site;
	if (!recording)
		return;
	place = (uintptr_t)function / 4 % (2 * FUNCTIONS_MAX);
	while (seen[place] && seen[place] != function)
		place = (place + 1) % (2 * FUNCTIONS_MAX);
	if (seen[place])
		return;
	if (n_entered == FUNCTIONS_MAX)
		abort();
	seen[place] = function;
	entered[n_entered++] = function;
}

void __cyg_profile_func_exit(void *function, void *site)
{
	(void)function;
	(void)site;
}

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	if (id != CLOCK_MONOTONIC)
		return __real_clock_gettime(id, now);
	*now = (struct timespec){.tv_sec = (time_t)(clock_us / 1000000),
		.tv_nsec = (long)(clock_us % 1000000) * 1000};
	return 0;
}

static void check(int error, const char *what)
{
	if (error >= 0)
		return;
	fprintf(stderr, "walk: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static void end_open(struct end *end)
{
	const struct ripc_config config = {.size = sizeof(config), .backends = "udp",
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
	recording = false;
	if (msg->kind == RIPC_COMPLETION)
		check(msg->outcome == RIPC_DELIVERED ? 0 : msg->status, "completion");
	ripc_msg_free(msg);
	return true;
}

static void exchange_short(const struct end *from, const struct end *to, const struct iovec *item)
{
	check(ripc_send_short(from->svc, to->id, item, 1), "send");
	while (!take(to->svc)) {
		ripc_poll(from->ctx);
		clock_us += TURN_US;
	}
}

static void exchange_long(const struct end *from, const struct end *to, const struct iovec *item)
{
	const struct ripc_send send = {.size = sizeof(send), .to = to->id, .items = item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = TIMEOUT_MS};
	bool came = false, sent = false;

	check(ripc_sendmsg(from->svc, &send, NULL), "send");
	while (!came || !sent) {
		came = came || take(to->svc);
		sent = sent || take(from->svc);
		if (came && !sent)
			ripc_poll(to->ctx); /* its answer waits for something to go along with */
		clock_us += TURN_US;
	}
}

/* Acknowledgements, and at first the packets by which the two services meet. */
static void settle(const struct end *from, const struct end *to)
{
	for (int i = 0; i < POLLS; i++) {
		clock_us += POLL_US;
		ripc_poll(from->ctx);
		ripc_poll(to->ctx);
	}
}

static void print_entered(void)
{
	for (unsigned int i = 0; i < n_entered; i++)
		printf("%p%c", entered[i], i + 1 < n_entered ? ' ' : '\n');
	n_entered = 0;
	memset(seen, 0, sizeof(seen));
}

int main(int argc, char **argv)
{
	bool is_long = argc == 3 && strcmp(argv[1], "long") == 0;
	long n = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	struct iovec item = {.iov_len = is_long ? LONG_LEN : SHORT_LEN};
	struct end from, to;

	if (n < 1) {
		fputs("usage: walk short|long MESSAGES\n", stderr);
		return 2;
	}
	end_open(&from);
	end_open(&to);
	check(ripc_buf_alloc(from.ctx, item.iov_len, &item.iov_base), "buffer");
	memset(item.iov_base, 1, item.iov_len);
	for (long i = -WARM_UP; i < n; i++) {
		recording = i >= 0;
		(is_long ? exchange_long : exchange_short)(&from, &to, &item);
		print_entered();
		settle(&from, &to);
	}
	check(ripc_buf_free(from.ctx, item.iov_base), "free");
	check(ripc_close(from.ctx, 0), "close");
	check(ripc_close(to.ctx, 0), "close");
	return 0;
}
