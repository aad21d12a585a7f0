/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256 after FIPS 180-4, section 6.2; plain C, so that every compiler gives the same. */
#include "sha256.h"

#include <stdio.h>
#include <string.h>

static const uint32_t constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned int n)
{
	return x >> n | x << (32 - n);
}

static uint32_t get_big(const uint8_t *from)
{
	return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static void put_big(uint8_t *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void schedule(const uint8_t block[64], uint32_t w[64])
{
	for (int i = 0; i < 16; i++)
		w[i] = get_big(block + 4 * i);
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
			(rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
}

/* One round; v is not moved, but seen turned by as many places as there were rounds. */
static inline __attribute__((always_inline))
void round_one(uint32_t v[8], unsigned int i, uint32_t add)
{
	uint32_t a = v[-i & 7], b = v[(1 - i) & 7], c = v[(2 - i) & 7];
	uint32_t e = v[(4 - i) & 7], f = v[(5 - i) & 7], g = v[(6 - i) & 7];
	uint32_t t1 = v[(7 - i) & 7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
		(g ^ (e & (f ^ g))) + add;
	uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));

	v[(3 - i) & 7] += t1;
	v[(7 - i) & 7] = t1 + t2;
}

static void compress(uint32_t state[8], const uint8_t block[64])
{
	uint32_t w[64], v[8];

	schedule(block, w);
	memcpy(v, state, sizeof(v));
	for (unsigned int i = 0; i < 64; i += 8) {
		round_one(v, 0, constants[i] + w[i]);
		round_one(v, 1, constants[i + 1] + w[i + 1]);
		round_one(v, 2, constants[i + 2] + w[i + 2]);
		round_one(v, 3, constants[i + 3] + w[i + 3]);
		round_one(v, 4, constants[i + 4] + w[i + 4]);
		round_one(v, 5, constants[i + 5] + w[i + 5]);
		round_one(v, 6, constants[i + 6] + w[i + 6]);
		round_one(v, 7, constants[i + 7] + w[i + 7]);
	}
	for (int i = 0; i < 8; i++)
		state[i] += v[i];
}

void sha256_init(struct sha256 *hash)
{
	static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

	memcpy(hash->state, start, sizeof(start));
	hash->len = 0;
}

void sha256_update(struct sha256 *hash, const void *data, size_t len)
{
	const uint8_t *from = data;

	while (len > 0) {
		size_t at = hash->len % 64;
		size_t n = len < 64 - at ? len : 64 - at;

		if (n == 64) {
			compress(hash->state, from);
		} else {
			memcpy(hash->block + at, from, n);
			if (at + n == 64)
				compress(hash->state, hash->block);
		}
		hash->len += n;
		from += n;
		len -= n;
	}
}

void sha256_final(struct sha256 *hash, uint8_t digest[32])
{
	static const uint8_t padding[64] = {0x80};
	uint64_t bits = hash->len * 8;
	uint8_t end[8];

	put_big(end, (uint32_t)(bits >> 32));
	put_big(end + 4, (uint32_t)bits);
	sha256_update(hash, padding, 1 + (119 - hash->len % 64) % 64);
	sha256_update(hash, end, sizeof(end));
	for (int i = 0; i < 8; i++)
		put_big(digest + 4 * i, hash->state[i]);
}

void sha256_hex(const uint8_t digest[32], char text[65])
{
	for (int i = 0; i < 32; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
}
