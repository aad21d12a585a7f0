/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by xfer and tcpxfer: a pattern of bytes that depends on a seed and the place, so that a
 * byte that is wrong, missing or from another message is noticed; a clock; and numbers on the
 * command line.
 */
#ifndef TESTS_NET_XFER_H
#define TESTS_NET_XFER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline uint64_t pattern_word(uint64_t seed, uint64_t i)
{
	uint64_t word = (seed * 0x9e3779b97f4a7c15u + i + 1) * 0xbf58476d1ce4e5b9u;

	return word ^ word >> 31;
}

/* Fills bytes with the pattern; the first word is the seed itself. */
static inline void pattern_fill(void *bytes, uint64_t len, uint64_t seed)
{
	for (uint64_t at = 0; at < len; at += 8) {
		uint64_t word = at ? pattern_word(seed, at / 8) : seed;

		memcpy((char *)bytes + at, &word, len - at < 8 ? len - at : 8);
	}
}

/* Are these bytes a whole pattern? *seed: whose. Less than 8 bytes are nothing but a seed. */
static inline bool pattern_check(const void *bytes, uint64_t len, uint64_t *seed)
{
	uint64_t own = 0;

	memcpy(&own, bytes, len < 8 ? len : 8);
	for (uint64_t at = 8; at < len; at += 8) {
		uint64_t word = pattern_word(own, at / 8);

		if (memcmp((const char *)bytes + at, &word, len - at < 8 ? len - at : 8) != 0)
			return false;
	}
	*seed = own;
	return true;
}

/* A length that the seed draws: from 1 to most bytes, each power of two equally often. */
static inline uint64_t draw_len(uint64_t most, uint64_t seed)
{
	uint64_t n_octaves = 64 - (uint64_t)__builtin_clzll(most | 1);
	uint64_t low = 1ull << pattern_word(seed, 1) % n_octaves;
	uint64_t len = low + pattern_word(seed, 2) % low;

	return len < most ? len : most;
}

static inline double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A number with an optional suffix K, M or G. */
static inline uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	switch (*end) {
	case 'G':
		value <<= 10; /* fall through */
	case 'M':
		value <<= 10; /* fall through */
	case 'K':
		value <<= 10; /* fall through */
	default:
		return value;
	}
}

#endif
