/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SipHash-2-4, after "SipHash: a fast short-input PRF" (Aumasson and Bernstein, 2012): two
 * rounds per 8 bytes of input, four to finish, 64 bits of output. Owns nothing.
 */
#include "util/bytes.h"
#include "util/hash/siphash.h"

struct state {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate(uint64_t value, int bits)
{
	return value << bits | value >> (64 - bits);
}

static inline void round_once(struct state *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 = rotate(s->v0, 32) + s->v3;
	s->v2 += s->v1;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v2 = rotate(s->v2, 32);
}

static inline void take_word(struct state *s, uint64_t word)
{
	s->v3 ^= word;
	round_once(s);
	round_once(s);
	s->v0 ^= word;
}

uint64_t ripc__siphash(const uint8_t key[16], const void *data, size_t len)
{
	const uint8_t *at = data;
	uint64_t k0 = get64(key), k1 = get64(key + 8);
	struct state s = {
		/* "somepseudorandomlygeneratedbytes" */
		k0 ^ 0x736f6d6570736575,
		k1 ^ 0x646f72616e646f6d,
		k0 ^ 0x6c7967656e657261,
		k1 ^ 0x7465646279746573,
	};
	uint64_t last = (uint64_t)len << 56;
	size_t rest = len % 8;

	for (size_t i = 0; i < len / 8; i++, at += 8)
		take_word(&s, get64(at));
	for (size_t i = 0; i < rest; i++)
		last |= (uint64_t)at[i] << (8 * i);
	take_word(&s, last);
	s.v2 ^= 0xff;
	for (int i = 0; i < 4; i++)
		round_once(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
