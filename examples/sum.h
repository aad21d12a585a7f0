/* SPDX-License-Identifier: BSD-3-Clause */
/* The sum of bytes: what fileget --discard, and its rival, make of all that they receive. */
#ifndef SUM_H
#define SUM_H

#include <stdint.h>
#include <string.h>

#define SUM_BLOCK 1024u /* bytes */
#define SUM_AHEAD 4096	/* distance of the prefetch, harmless beyond the end */

#ifdef __SSE2__

#include <emmintrin.h>

/* Sums one block. The processor has an instruction for this, so that memory is the limit. */
static inline uint64_t sum_block(const uint8_t *data)
{
	const __m128i zero = _mm_setzero_si128(), *at = (const __m128i *)data;
	__m128i sums[4] = {zero, zero, zero, zero};
	uint64_t halves[2];

	for (const __m128i *end = at + SUM_BLOCK / 16; at < end; at += 4) {
		_mm_prefetch((const char *)at + SUM_AHEAD, _MM_HINT_T0);
		for (int i = 0; i < 4; i++)
			sums[i] = _mm_add_epi64(sums[i],
				_mm_sad_epu8(_mm_loadu_si128(at + i), zero));
	}
	sums[0] = _mm_add_epi64(_mm_add_epi64(sums[0], sums[1]), _mm_add_epi64(sums[2], sums[3]));
	memcpy(halves, &sums[0], sizeof(halves));
	return halves[0] + halves[1];
}

#else

/* Sums one block, a word at a time, in lanes of 16 bits, which have room for 128 words. */
static inline uint64_t sum_block(const uint8_t *data)
{
	const uint64_t lanes = 0x00ff00ff00ff00ff;
	uint64_t even = 0, odd = 0, sum = 0, word;

	for (unsigned int i = 0; i < SUM_BLOCK; i += sizeof(word)) {
		memcpy(&word, data + i, sizeof(word));
		even += word & lanes;
		odd += word >> 8 & lanes;
	}
	for (unsigned int shift = 0; shift < 64; shift += 16)
		sum += (even >> shift & 0xffff) + (odd >> shift & 0xffff);
	return sum;
}

#endif

static inline uint64_t sum_bytes(const uint8_t *data, size_t len)
{
	uint64_t sum = 0;

	for (; len >= SUM_BLOCK; data += SUM_BLOCK, len -= SUM_BLOCK)
		sum += sum_block(data);
	for (; len > 0; len--)
		sum += *data++;
	return sum;
}

#endif
