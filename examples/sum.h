/* SPDX-License-Identifier: BSD-3-Clause */
/* The sum of bytes: what fileget --discard, and its rival, make of all that they receive. */
#ifndef SUM_H
#define SUM_H

#include <stdint.h>
#include <string.h>

/*
 * The sum of all bytes, as fast as memory is read: a word at a time, in lanes of 16 bits, which
 * have room for 128 words (255 * 128 < 65536).
 */
static inline uint64_t sum_words(const uint8_t *data, size_t n_words)
{
	const uint64_t lanes = 0x00ff00ff00ff00ff;
	uint64_t even = 0, odd = 0, sum = 0, word;
	unsigned int shift;
	size_t i;

	for (i = 0; i < n_words; i++) {
		memcpy(&word, data + 8 * i, sizeof(word));
		even += word & lanes;
		odd += word >> 8 & lanes;
	}
	for (shift = 0; shift < 64; shift += 16)
		sum += (even >> shift & 0xffff) + (odd >> shift & 0xffff);
	return sum;
}

static inline uint64_t sum_bytes(const uint8_t *data, size_t len)
{
	uint64_t sum = 0;

	for (; len >= 1024; data += 1024, len -= 1024)
		sum += sum_words(data, 128);
	for (; len > 0; len--)
		sum += *data++;
	return sum;
}

#endif
