/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server that replies, and clients that write to it. Knows nothing but ripc.h.
 * Each answers with lines of JSON.
 *
 *   nat serve NAME          replies to each message with one of the same kind and bytes: to its
 *                           sender (from_handle), with reply_to where it lends a return buffer
 *
 *   write [short]           a long message to the client that wrote last, which is waited for; or
 *                           a short one
 *   write id                the same, to its ID alone
 *   writers                 how many messages have come
 *
 *   nat use NAME [OWN]      OWN: the name of its own service; else its ID is private
 *
 *   short|long [lends] BYTES [MS]   writes to the server, and waits for the reply
 *   take                    messages that came unasked since the last command
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ripc/ripc.h"

#define REPLY_MS  8000
#define BYTES_MAX (1u << 20)

static struct {
	atomic_bool stop;
	atomic_uint_fast64_t writer, handle, n_messages;
} serving;
static char bytes[BYTES_MAX], lent[BYTES_MAX];

static void check(const char *what, int error)
{
	if (error >= 0)
		return;
	fprintf(stderr, "nat: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* ---- the server -------------------------------------------------------------------------- */

/* The items of a long message are in use until its COMPLETION, which frees them. */
static void reply(struct ripc_service *service, struct ripc_msg *msg)
{
	const struct ripc_send send = {.size = sizeof(send), .to_handle = msg->from_handle,
		.items = msg->items, .n_items = msg->n_items, .reply_to = msg->reply,
		.timeout_ms = REPLY_MS,
		.flags = msg->kind == RIPC_LONG ? RIPC_SEND_LONG | RIPC_NOWAIT : 0,
		.cookie = (uint64_t)(uintptr_t)msg};
	int error = ripc_sendmsg(service, &send, NULL);

	if (error)
		fprintf(stderr, "nat: reply: %s\n", ripc_strerror(error));
	if (error || msg->kind == RIPC_SHORT)
		ripc_msg_free(msg);
}

static void *serve(void *service)
{
	struct ripc_msg *msg;

	while (!atomic_load(&serving.stop)) {
		if (ripc_receive(service, 100, &msg))
			continue;
		if (msg->kind == RIPC_SHORT || msg->kind == RIPC_LONG) {
			atomic_store(&serving.writer, msg->from);
			atomic_store(&serving.handle, msg->from_handle);
			atomic_fetch_add(&serving.n_messages, 1);
			reply(service, msg);
			continue;
		}
		if (msg->kind == RIPC_COMPLETION && msg->status)
			fprintf(stderr, "nat: reply: %s\n", ripc_strerror(msg->status));
		if (msg->kind == RIPC_COMPLETION)
			ripc_msg_free((struct ripc_msg *)(uintptr_t)msg->cookie);
		ripc_msg_free(msg);
	}
	return NULL;
}

static void write_to(struct ripc_service *service, bool by_id, bool is_short)
{
	const struct iovec item = {bytes, 1000};
	const struct ripc_send send = {.size = sizeof(send), .to = atomic_load(&serving.writer),
		.to_handle = by_id ? 0 : atomic_load(&serving.handle), .items = &item,
		.n_items = 1, .timeout_ms = REPLY_MS, .flags = is_short ? 0 : RIPC_SEND_LONG};
	double began = now_ms();
	int error = ripc_sendmsg(service, &send, NULL);

	printf("{\"status\":%d,\"ms\":%.1f}\n", error, now_ms() - began);
}

static void serve_line(struct ripc_service *service, const char *line)
{
	if (strncmp(line, "writers", 7) == 0)
		printf("{\"n\":%llu}\n", (unsigned long long)atomic_load(&serving.n_messages));
	else
		write_to(service, strstr(line, "id"), strstr(line, "short"));
}

/* ---- a client ---------------------------------------------------------------------------- */

/* The next message of the server, or an error. */
static int receive(struct ripc_service *service, int ms, struct ripc_msg **msg)
{
	double until = now_ms() + ms;
	int error;

	for (;;) {
		double left = until - now_ms();

		error = ripc_receive(service, left > 0 ? (int)left : 0, msg);
		if (error || (*msg)->kind == RIPC_SHORT || (*msg)->kind == RIPC_LONG)
			return error;
		ripc_msg_free(*msg);
	}
}

static void ask(struct ripc_service *service, uint64_t to, bool is_long, bool lends, size_t len,
		int ms)
{
	const struct iovec item = {bytes, len};
	const struct ripc_buffer buffer = {.mem = {lent, len}};
	const struct ripc_send send = {.size = sizeof(send), .to = to, .items = &item, .n_items = 1,
		.returns = &buffer, .n_returns = lends, .timeout_ms = REPLY_MS,
		.flags = is_long ? RIPC_SEND_LONG : 0};
	struct ripc_msg *msg;
	double began = now_ms();
	int error = ripc_sendmsg(service, &send, NULL);

	if (!error)
		error = receive(service, ms, &msg);
	if (error) {
		printf("{\"status\":%d,\"ms\":%.1f}\n", error, now_ms() - began);
		return;
	}
	if (msg->from != to || msg->kind != (is_long ? RIPC_LONG : RIPC_SHORT) ||
			msg->n_items != 1 || msg->items[0].iov_len != len ||
			memcmp(msg->items[0].iov_base, bytes, len) != 0)
		error = -EBADMSG;
	printf("{\"status\":%d,\"ms\":%.1f,\"sender\":%u}\n", error, now_ms() - began,
		msg->sender);
	ripc_msg_free(msg);
}

static void take(struct ripc_service *service)
{
	struct ripc_msg *msg;
	unsigned n = 0;

	while (receive(service, n ? 0 : 200, &msg) == 0) {
		n++;
		ripc_msg_free(msg);
	}
	printf("{\"n\":%u}\n", n);
}

static void use_line(struct ripc_service *service, uint64_t to, char *line)
{
	bool is_long = strncmp(line, "long", 4) == 0, lends = strstr(line, "lends");
	const char *numbers = strpbrk(line, "0123456789");
	unsigned long len = 0;
	int ms = REPLY_MS;

	if (numbers)
		sscanf(numbers, "%lu %d", &len, &ms);
	if (strncmp(line, "take", 4) == 0)
		take(service);
	else
		ask(service, to, is_long, lends, len < BYTES_MAX ? len : BYTES_MAX, ms);
}

int main(int argc, char **argv)
{
	bool serves = argc == 3 && strcmp(argv[1], "serve") == 0;
	struct ripc_service *service;
	struct ripc_context *ctx;
	pthread_t thread;
	uint64_t server;
	char line[100];

	check("arguments", argc < 3 ? -EINVAL : 0);
	server = ripc_id_from_name(argv[2]);
	memset(bytes, 'n', sizeof(bytes));
	check("open", ripc_open(NULL, &ctx));
	check("service", ripc_service_open(ctx, serves ? server :
		argc > 3 ? ripc_id_from_name(argv[3]) : 0, 0, &service));
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("{\"id\":\"%llu\"}\n", (unsigned long long)ripc_service_id(service));
	if (serves)
		check("thread", -pthread_create(&thread, NULL, serve, service));
	while (fgets(line, sizeof(line), stdin)) {
		if (serves)
			serve_line(service, line);
		else
			use_line(service, server, line);
	}
	atomic_store(&serving.stop, true);
	if (serves)
		pthread_join(thread, NULL);
	ripc_close(ctx, 1000);
	return 0;
}
