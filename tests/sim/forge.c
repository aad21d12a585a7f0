/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of an attacker who knows the protocol, the addresses and both incarnations (all of that
 * is public), but has not seen the tokens and proofs of the two partners: well formed, well sealed,
 * and guessed where it counts. These packets must have no effect.
 */
#include "world.h"

#include <string.h>

#include "core/partner/partner.h"
#include "core/wire/wire.h"
#include "util/bytes.h"
#include "util/hash/crc32c.h"

#define TOKEN_AT  24 /* in the header (wire.h) */
#define NUMBER_AT 32
#define PROOF_AT  (WIRE_HEADER + 32)

/* Slots are small numbers and easily guessed, the nonce is not. */
static uint64_t guess_token(struct sim_random *random, uint64_t right)
{
	uint64_t guess = sim_next(random) | 1;

	if (right != 0 && sim_chance(random, 750000))
		guess = (right & ~TOKEN_NONCE_MASK) | (guess & TOKEN_NONCE_MASK);
	return guess != right ? guess : guess ^ 2;
}

/* RETRY, GONE and ABORT give back, as their number, what only its receiver saw. */
static bool gives_back(uint8_t type)
{
	return type == WIRE_RETRY || type == WIRE_GONE || type == WIRE_ABORT;
}

/* The packet as it was, with guessed secrets and perhaps another number or payload. */
static void alter(struct sim_random *random, struct sim_packet *packet,
		const struct wire_packet *p)
{
	uint64_t choice = sim_below(random, 3), number = p->h.number;

	put64(packet->bytes + TOKEN_AT, guess_token(random, p->h.token));
	if (p->h.flags & WIRE_F_HELLO)
		put64(packet->bytes + PROOF_AT, guess_token(random, p->hello.proof));
	if (gives_back(p->h.type))
		number = guess_token(random, number);
	else if (choice == 1)
		number += sim_between(random, 1, 3);
	put64(packet->bytes + NUMBER_AT, number);
	if (p->h.type == WIRE_ANSWER)
		put64(packet->bytes + p->prefix_len - WIRE_ACK, number);
	if (choice == 2 && p->payload_len > 0)
		packet->bytes[p->prefix_len + sim_below(random, p->payload_len)] ^= 0x40;
	wire_checksum(packet->bytes, p->prefix_len,
			ripc__crc32c(0, packet->bytes + p->prefix_len, p->payload_len));
}

/* A word of the protocol that could do harm: it is over, you are forgotten, that was refused. */
static bool invent(struct sim_random *random, struct sim_packet *packet,
		const struct wire_packet *p)
{
	static const uint8_t types[] = {WIRE_RETRY, WIRE_GONE, WIRE_ABORT, WIRE_ANSWER,
		WIRE_CANCEL, WIRE_PULL};
	struct wire_packet made = {.h = {.type = types[sim_below(random, sizeof(types))],
		.src = p->h.src, .dst = p->h.dst}};
	uint8_t bytes[WIRE_PREFIX_MAX];
	size_t len;

	made.h.token = guess_token(random, p->h.token);
	made.h.number = gives_back(made.h.type) ? guess_token(random, p->h.token) : p->h.number;
	made.value = gives_back(made.h.type) ? sim_next(random) : 0;
	made.ack.number = made.h.number;
	len = wire_encode(bytes, &made, NULL, NULL);
	if (len > packet->len)
		return false;
	wire_checksum(bytes, len, 0);
	memcpy(packet->bytes, bytes, len);
	packet->len = (uint32_t)len;
	return true;
}

bool sim_forge(struct sim_random *random, struct sim_packet *packet)
{
	struct wire_packet p;

	if (packet->resolver || wire_decode(packet->bytes, packet->len, &p) != 0)
		return false;
	if (sim_chance(random, 400000))
		return invent(random, packet, &p);
	alter(random, packet, &p);
	return true;
}
