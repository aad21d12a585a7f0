/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interop-partner NAME: a service of libripc that does what the lines of its input say, and tells
 * what comes, one line each; the other side of peer.py.
 *
 *   short TO BYTES ITEMS        sends a short message
 *   long TO BYTES ITEMS LEND ORDERED COOKIE MS   a long one; LEND 1: with a return buffer
 *   call TO BYTES COOKIE MS   makes a request
 *   cancel COOKIE   ping TO   resolve TO   open NAME (and close it)
 *   join TO   leave TO          a group
 *
 * Here, TO and NAME are names of services; TO with "@" before it is the name of a group. A message
 * that can be answered is sent back as a long one, and a request as its reply.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ripc/call.h"
#include "ripc/group.h"
#include "ripc/ripc.h"

#define ITEMS_MAX  64u
#define BYTES_MAX  (4u << 20)
#define PATTERN    65521u
#define TIMEOUT_MS 20000

struct partner {
	struct ripc_context *ctx;
	struct ripc_service *service;
	uint8_t *bytes; /* sent bytes */
};

/* Byte i of all messages. */
static uint8_t pattern(size_t i)
{
	size_t at = i % PATTERN;

	return (uint8_t)(at * at >> 3);
}

static uint32_t cut(const struct partner *partner, size_t len, uint32_t n, struct iovec *items)
{
	size_t at = 0;

	for (uint32_t i = 0; i < n; i++) {
		size_t end = len * (i + 1) / n;

		items[i] = (struct iovec){partner->bytes + at, end - at};
		at = end;
	}
	return n;
}

static bool is_right(const struct ripc_msg *msg, size_t *len)
{
	bool right = true;

	*len = 0;
	for (uint32_t i = 0; i < msg->n_items; i++) {
		const uint8_t *bytes = msg->items[i].iov_base;

		for (size_t j = 0; j < msg->items[i].iov_len; j++)
			right = right && bytes[j] == pattern((*len)++);
	}
	return right;
}

static void answer(struct partner *partner, const struct ripc_msg *msg)
{
	struct ripc_send send = {.size = sizeof(send), .to = msg->from, .items = msg->items,
		.n_items = msg->n_items, .flags = RIPC_SEND_LONG, .reply_to = msg->reply};

	printf("answered %d\n", msg->kind == RIPC_REQUEST ?
		ripc_reply(partner->service, msg, msg->items, msg->n_items, 0) :
		ripc_sendmsg(partner->service, &send, NULL));
}

static const char *name_of(const struct ripc_msg *msg)
{
	return msg->kind == RIPC_REQUEST ? "request" : msg->kind == RIPC_SHORT ? "short" : "long";
}

/* To what the message came. */
static const char *place(const struct ripc_msg *msg)
{
	if (msg->group)
		return "group";
	return msg->places && msg->places[0].place == RIPC_IN_RETURN ? "lent" : "own";
}

static void tell(struct partner *partner, struct ripc_msg *msg)
{
	size_t len;
	bool right = is_right(msg, &len);

	if (msg->kind == RIPC_COMPLETION || msg->kind == RIPC_NOTICE) {
		printf("%s %llu %d %d\n", msg->kind == RIPC_NOTICE ? "notice" : "completion",
			(unsigned long long)msg->cookie, (int)msg->outcome, msg->status);
	} else if (msg->kind == RIPC_REPLY) {
		printf("reply %llu %d %zu %s\n", (unsigned long long)msg->request_cookie,
			msg->status, len, right ? "right" : "wrong");
	} else {
		printf("%s %016llx %u %zu %s %s\n", name_of(msg),
			(unsigned long long)msg->from, msg->n_items, len, right ? "right" : "wrong",
			place(msg));
		if (msg->reply)
			answer(partner, msg);
	}
	ripc_msg_free(msg);
}

static int send_long(struct partner *partner, uint64_t to, const char *rest)
{
	static uint8_t lent[BYTES_MAX];
	struct iovec items[ITEMS_MAX];
	struct ripc_buffer back = {.mem = {lent, sizeof(lent)}};
	struct ripc_send send = {.size = sizeof(send), .to = to, .items = items,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT, .returns = &back};
	unsigned int bytes, n, lend, ordered, cookie, ms;

	if (sscanf(rest, "%u %u %u %u %u %u", &bytes, &n, &lend, &ordered, &cookie, &ms) != 6)
		return -EINVAL;
	send.timeout_ms = ms;
	send.n_items = cut(partner, bytes, n, items);
	send.n_returns = lend;
	send.flags |= ordered ? RIPC_ORDERED : 0;
	send.cookie = back.cookie = cookie;
	return ripc_sendmsg(partner->service, &send, NULL);
}

static int call(struct partner *partner, uint64_t to, const char *rest)
{
	struct iovec items[ITEMS_MAX];
	struct ripc_request request = {.size = sizeof(request), .to = to, .items = items};
	unsigned int bytes, cookie, ms;

	if (sscanf(rest, "%u %u %u", &bytes, &cookie, &ms) != 3)
		return -EINVAL;
	request.n_items = cut(partner, bytes, 1, items);
	request.cookie = cookie;
	request.timeout_ms = (int32_t)ms;
	return ripc_call_start(partner->service, &request);
}

static int send_short(struct partner *partner, uint64_t to, const char *rest)
{
	struct iovec items[ITEMS_MAX];
	unsigned int bytes, n;

	if (sscanf(rest, "%u %u", &bytes, &n) != 2)
		return -EINVAL;
	return ripc_send_short(partner->service, to, items, cut(partner, bytes, n, items));
}

static int open_other(struct partner *partner, uint64_t id)
{
	struct ripc_service *other;
	int err = ripc_service_open(partner->ctx, id, 0, &other);

	return err ? err : ripc_service_close(other);
}

static uint64_t id_of(const char *name)
{
	return name[0] == '@' ? ripc_group_from_name(name + 1) : ripc_id_from_name(name);
}

static int obey(struct partner *partner, const char *verb, const char *name, const char *rest)
{
	uint64_t to = id_of(name), rtt_ns;

	if (strcmp(verb, "short") == 0)
		return send_short(partner, to, rest);
	if (strcmp(verb, "long") == 0)
		return send_long(partner, to, rest);
	if (strcmp(verb, "call") == 0)
		return call(partner, to, rest);
	if (strcmp(verb, "cancel") == 0)
		return ripc_cancel(partner->service, strtoull(name, NULL, 10));
	if (strcmp(verb, "ping") == 0)
		return ripc_ping(partner->service, to, TIMEOUT_MS, &rtt_ns);
	if (strcmp(verb, "resolve") == 0)
		return ripc_resolve(partner->ctx, to, TIMEOUT_MS);
	if (strcmp(verb, "open") == 0)
		return open_other(partner, to);
	if (strcmp(verb, "join") == 0)
		return ripc_join(partner->service, to);
	if (strcmp(verb, "leave") == 0)
		return ripc_leave(partner->service, to);
	return -EINVAL;
}

/* Does what a line says; false: it was the last one. */
static bool line_done(struct partner *partner)
{
	char line[256], verb[16], name[64];
	int used = 0;

	if (!fgets(line, sizeof(line), stdin) ||
			sscanf(line, "%15s %63s%n", verb, name, &used) != 2)
		return false;
	printf("done %s %d\n", verb, obey(partner, verb, name, line + used));
	return true;
}

static void run(struct partner *partner)
{
	struct pollfd ready[] = {{.fd = 0, .events = POLLIN},
		{.fd = ripc_service_fd(partner->service), .events = POLLIN}};
	struct ripc_msg *msg;
	bool more = true;

	while (more && poll(ready, 2, -1) >= 0) {
		if (ready[0].revents)
			more = line_done(partner);
		while (ripc_receive(partner->service, 0, &msg) == 0)
			tell(partner, msg);
	}
}

int main(int argc, char **argv)
{
	struct ripc_config config = {.size = sizeof(config), .backends = "udp"};
	struct partner partner = {.bytes = malloc(BYTES_MAX)};
	int err;

	if (argc != 2 || !partner.bytes)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	for (size_t i = 0; i < BYTES_MAX; i++)
		partner.bytes[i] = pattern(i);
	err = ripc_open(&config, &partner.ctx);
	if (err == 0)
		err = ripc_service_open(partner.ctx, ripc_id_from_name(argv[1]), 0,
			&partner.service);
	printf("ready %d\n", err);
	if (err == 0)
		run(&partner);
	if (partner.ctx)
		printf("closed %d\n", ripc_close(partner.ctx, 1000));
	free(partner.bytes);
	return err ? 1 : 0;
}
