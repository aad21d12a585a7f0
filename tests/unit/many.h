/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device with multicast, and the answers of its partners. Multicast datagrams are among the sent
 * packets, to the host TO_MANY.
 */
#ifndef MULTICAST_H
#define MULTICAST_H

#include <stdio.h>

#include "core/group/mcast_out.h"
#include "lone.h"
#include "ripc/group.h"

#define TO_MANY    0xee
#define HEARD_MOST 20u /* numbers, as over UDP */
#define GROUP      0xff00000000000001u

static struct {
	struct ripc__backend backend;
	const struct ripc__backend *backends[2];
	uint64_t heard[HEARD_MOST]; /* numbers that are heard */
	uint32_t n_heard;
	uint32_t n_routes, n_exposed; /* routes to many: open now, in all */
	int open_error, send_error;
	uint64_t asked;    /* calls of hear */
	uint64_t shorts;   /* the number of the partner's last short */
	bool comes_by_multicast, alters, full; /* full: what goes to many is not taken now */
} many;

static inline int many_open(void *port, void *route, const void *partner, uint64_t number)
{
	(void)port;
	(void)partner;
	(void)number;
	if (many.open_error)
		return many.open_error;
	*(uint8_t *)route = TO_MANY;
	many.n_routes++;
	many.n_exposed++;
	return 0;
}

static inline void many_route_close(void *port, void *route)
{
	(void)port;
	many.n_routes -= *(uint8_t *)route == TO_MANY;
}

static inline int many_hear(void *port, const void *partner, uint64_t number)
{
	(void)port;
	(void)partner;
	many.asked++;
	for (uint32_t i = 0; i < many.n_heard; i++) {
		if (many.heard[i] == number)
			return 0;
	}
	if (many.n_heard == HEARD_MOST)
		return -ENOBUFS;
	many.heard[many.n_heard++] = number;
	return 0;
}

static inline void many_ignore(void *port, uint64_t number)
{
	(void)port;
	for (uint32_t i = 0; i < many.n_heard; i++) {
		if (many.heard[i] == number)
			many.heard[i--] = many.heard[--many.n_heard];
	}
}

static inline int many_send(void *port, void *route, const struct ripc__tx *tx, uint32_t n)
{
	if (*(uint8_t *)route == TO_MANY && many.send_error)
		return many.send_error;
	if (*(uint8_t *)route == TO_MANY && many.full)
		return 0;
	return lone_send(port, route, tx, n);
}

static inline int many_poll(void *port, struct ripc__event *events, uint32_t n, bool all)
{
	int found = lone_poll(port, events, n, all);

	if (found && many.comes_by_multicast)
		events[found - 1].kind = RIPC_EV_MULTICAST;
	return found;
}

/* options: RIPC_OPTIONS. */
static inline void many_world_open(struct lone *lone, const char *options)
{
	memset(&many, 0, sizeof(many));
	many.backend = lone_backend;
	many.backend.multicast.open = many_open;
	many.backend.multicast.hear = many_hear;
	many.backend.multicast.ignore = many_ignore;
	many.backend.route.close = many_route_close;
	many.backend.datagrams.send = many_send;
	many.backend.datagrams.poll = many_poll;
	many.backends[0] = &many.backend;
	setenv("RIPC_OPTIONS", options, 1);
	lone_open_on(lone, many.backends);
}

/* ---- what a partner says ----------------------------------------------------------------- */

static inline void say_stream(struct lone *lone, uint8_t type, uint64_t group, uint64_t token,
		uint64_t number)
{
	struct wire_packet packet = {.h.type = type, .stream = {group, token, number}};

	lone_say(lone, &packet, NULL, NULL);
}

static inline struct wire_packet group_short(uint64_t group, uint64_t number, uint32_t value)
{
	return (struct wire_packet){.h = {.type = WIRE_SHORT, .number = number,
		.flags = WIRE_F_LENDS | WIRE_F_CALL}, .lends = group,
		.call = {WIRE_CALL_GROUP, value}, .n_items = 1, .payload_len = sizeof(number)};
}

/* A copy; value: the lower half of its number in the stream. */
static inline void say_copy(struct lone *lone, uint64_t group, uint32_t value)
{
	struct wire_packet packet = group_short(group, ++many.shorts, value);
	uint64_t text = value;

	lone_say(lone, &packet, NULL, &text);
}

/* A multicast datagram arrives, in the partner's name, from this host. */
static inline void say_many_from(struct lone *lone, uint8_t host, uint64_t group, uint64_t token,
		uint64_t number)
{
	struct wire_packet packet = group_short(group, number, 0);
	uint64_t text = (uint32_t)number;
	size_t len;

	packet.h.src = lone->incarnation;
	packet.h.dst = group;
	packet.h.token = token;
	len = wire_encode(lone->in, &packet, NULL, NULL);
	wire_checksum(lone->in, len, ripc__crc32c(0, &text, sizeof(text)));
	memcpy(lone->in + len, &text, sizeof(text));
	lone->in[len] ^= many.alters;
	lone->in_len = len + sizeof(text);
	lone->from = (struct ripc__addr){.len = 1, .blob = {host}};
	lone->from.host[15] = host;
	many.comes_by_multicast = true;
	while (lone->in_len)
		ripc_poll(lone->ctx);
	many.comes_by_multicast = false;
}

static inline void say_many(struct lone *lone, uint64_t group, uint64_t token, uint64_t number)
{
	say_many_from(lone, lone->host, group, token, number);
}

/* ---- what is seen ------------------------------------------------------------------------ */

/* A short of the group has come, with this in it, and nothing else. */
static inline void expect_short(struct lone *lone, uint64_t group, uint64_t value)
{
	struct ripc_msg *msg;
	uint64_t text;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), 0);
	ck_assert_int_eq(msg->kind, RIPC_SHORT);
	ck_assert_uint_eq(msg->from, lone->service);
	ck_assert_uint_eq(msg->from_incarnation, lone->incarnation);
	ck_assert_uint_eq(msg->group, group);
	ck_assert_uint_eq(msg->items[0].iov_len, sizeof(text));
	memcpy(&text, msg->items[0].iov_base, sizeof(text));
	ck_assert_uint_eq(text, value);
	ripc_msg_free(msg);
}

static inline void expect_nothing(struct lone *lone)
{
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), -EAGAIN);
}

/* How many packets of a type have gone to a host since. */
static inline uint32_t n_to(const struct lone *lone, uint32_t since, uint8_t host, uint8_t type)
{
	struct wire_packet packet;
	uint32_t n = 0;

	ck_assert_uint_le(lone->n_sent - since, LONE_SENT_MAX);
	for (uint32_t i = since; i < lone->n_sent; i++) {
		uint32_t at = i % LONE_SENT_MAX;

		n += lone->sent_to[at] == host && wire_decode(lone->sent[at],
			lone->sent_len[at], &packet) == 0 && packet.h.type == type;
	}
	return n;
}

#endif
