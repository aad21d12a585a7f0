/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies that bypass the cache: a byte that is stored the ordinary way is read from memory
 * before, and displaces another in the cache. glibc does the same for copies that are longer
 * than its share of the cache, but we copy in pieces.
 */
#include "stream.h"

#include <string.h>

#if defined(__x86_64__)

#include <emmintrin.h>

#define LINE  64u
#define AHEAD 16 /* lines that are read ahead */

void ripc__copy_past_cache(void *to, const void *from, size_t len)
{
	size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
	const __m128i *source;
	__m128i *line;

	if (len < 16 * LINE) {
		memcpy(to, from, len);
		return;
	}
	memcpy(to, from, head);
	line = (__m128i *)((char *)to + head);
	source = (const __m128i *)((const char *)from + head);
	for (len -= head; len >= LINE; len -= LINE, line += 4, source += 4) {
		__m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
		__m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);

		_mm_prefetch((const char *)(source + AHEAD * LINE / sizeof(*source)), _MM_HINT_T0);
		_mm_stream_si128(line, a);
		_mm_stream_si128(line + 1, b);
		_mm_stream_si128(line + 2, c);
		_mm_stream_si128(line + 3, d);
	}
	/* A thread that is notified of the copy must see it. */
	_mm_sfence();
	memcpy(line, source, len);
}

#else

void ripc__copy_past_cache(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

#endif
