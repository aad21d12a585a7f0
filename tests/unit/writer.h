/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers that are written into return buffers: a device whose writes and fences end when the test
 * says so, and a partner who may say anything.
 */
#ifndef WRITER_H
#define WRITER_H

#include "mover.h"

#define CAPS (RIPC_CAP_READ | RIPC_CAP_WRITE | RIPC_CAP_INTACT)

static uint8_t ours[4 * MIB];

/* A partner that is known and has nothing but zeros. */
static inline void writer_open(struct lone *lone, uint32_t caps)
{
	mover_open(lone, caps);
	memset(theirs, 0, sizeof(theirs));
	for (size_t i = 0; i < sizeof(ours); i++)
		ours[i] = (uint8_t)(i * 2654435761u >> 16);
	lone_introduce(lone);
}

/* The route to the partner goes by another device from now on. */
static inline void move(struct lone *lone, uint8_t device)
{
	lone->ctx->peers.devices[1] = lone->ctx->peers.devices[0];
	list_for_each(node, &lone->ctx->partners.all)
		list_entry(node, struct partner, node)->peer->device = device;
}

/* ---- answering --------------------------------------------------------------------------- */

/* The partner asks, and lends up to two buffers: at 0, and 3 MiB from 1 MiB on in its memory. */
static inline uint64_t asked(struct lone *lone, uint64_t number, uint32_t n_returns,
		size_t first_len)
{
	const struct wire_return offers[2] = {{first_len, 0, first_len ? 77 : 0},
		{3 * MIB, MIB, 78}};
	struct wire_packet question = {.h.type = WIRE_SHORT, .h.number = number, .n_items = 1,
		.h.flags = WIRE_F_LENDS | WIRE_F_RETURNS, .lends = 0x1d0 + number,
		.n_returns = n_returns, .offers = offers, .payload_len = 5};
	struct ripc_msg *msg;
	uint64_t reply;

	lone_say(lone, &question, NULL, ours);
	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), 0);
	reply = msg->reply;
	ck_assert_uint_eq(reply, 0x1d0 + number);
	ripc_msg_free(msg);
	return reply;
}

/* Answers with two items: so many bytes, and 2.5 MiB. */
static inline void answer(struct lone *lone, uint64_t reply, size_t first)
{
	const struct iovec items[2] = {{ours, first}, {ours + first, 5 * MIB / 2}};
	struct ripc_send send = {.size = sizeof(send), .to = lone->service, .items = items,
		.n_items = 2, .reply_to = reply, .cookie = 3, .timeout_ms = 5000,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT};

	ck_assert_int_eq(ripc_sendmsg(lone->svc, &send, NULL), 0);
}

static inline void check_completion(struct lone *lone, enum ripc_outcome outcome)
{
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), 0);
	ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
	ck_assert_int_eq(msg->outcome, outcome);
	ripc_msg_free(msg);
}

#endif
