/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two that claim the same ID, incarnation and context: the true one lives at host 2, and a forger,
 * who knows all that is public of it, at host 3.
 */
#ifndef CLAIMANTS_H
#define CLAIMANTS_H

#include "lone.h"

#define TRUE_HOST   2
#define FORGER_HOST 3

struct other {
	uint64_t token_in, token_out, proof;
	uint8_t host;
};

/* From now on the other one speaks; *other keeps the one that spoke so far. */
static inline void swap(struct lone *lone, struct other *other)
{
	struct other now = {lone->token_in, lone->token_out, lone->proof, lone->host};

	lone->token_in = other->token_in;
	lone->token_out = other->token_out;
	lone->proof = other->proof;
	lone->host = other->host;
	*other = now;
}

static const struct other forger = {.token_in = 0xbad, .host = FORGER_HOST};

/* How many packets of a type went to a host since then. */
static inline uint32_t n_sent_to(const struct lone *lone, uint32_t since, uint8_t type,
		uint8_t host)
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

static inline void say_short(struct lone *lone, uint64_t number, uint64_t lends)
{
	struct wire_packet packet = {.h = {.type = WIRE_SHORT, .number = number}, .n_items = 1,
		.payload_len = 4, .lends = lends};
	const uint64_t len = 4;

	if (lends)
		packet.h.flags = WIRE_F_LENDS;
	lone_say(lone, &packet, &len, "word");
}

#endif
