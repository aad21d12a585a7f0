/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C in four forms: with tables, with the crc32 instructions of x86-64 or arm64 one after
 * the other, with these side by side and the carry-less multiply instruction, and with 512-bit
 * carry-less multiplication. All give the same results; each call chooses one by the processor's
 * feature word, which costs a load or two. Owns nothing but constants.
 *
 * Reflected polynomials throughout: bit 31 of a 32-bit value stands for x^0, bit 0 for x^31.
 * The crc32 instruction has a latency of three cycles and starts one per cycle, so three parts
 * of the data are run through it side by side and joined afterwards: for parts A, B, C of n
 * bytes, CRC(ABC) = CRC(A) x^(16n) + CRC(B) x^(8n) + CRC(C) mod P (Gopal et al., "Fast CRC
 * Computation for iSCSI Polynomial Using CRC32 Instruction", Intel, 2011).
 */
#include <stdbool.h>

#include "util/bytes.h"
#include "util/hash/crc32c.h"

/* The order of x modulo P: x^(2^31 - 1) = 1, so powers repeat. */
#define ORDER 0x7fffffffu
#define WORD  8u

/*
 * powers[d][v] = x^(8 v 16^d - 33) mod P: what a CRC is multiplied by when v 16^d bytes follow,
 * less x^33, which the carry-less product of two reflected values and its reduction by the
 * crc32 instruction put back. Eight digits reach over the whole order of x.
 */
static const uint32_t powers[8][16] = {
	{ 0xa9cdda0d, 0xbf818109, 0x780d5a4d, 0xfe2b5c35, 0x05ec76f1, 0x01000000, 0x00010000,
	  0x00000100, 0x00000001, 0xf26b8303, 0x13a29877, 0xa541927e, 0xdd45aab8, 0x38116fac,
	  0xef306b19, 0x68032cc8 },
	{ 0xa9cdda0d, 0x493c7d27, 0xba4fc28e, 0xddc0152b, 0x9e4addf8, 0x39d3b296, 0x0715ce53,
	  0x47db8317, 0x0d3b6092, 0xc96cfdc0, 0x878a92a7, 0xdaece73e, 0xab7aff2a, 0x2162d385,
	  0x83348832, 0x299847d5 },
	{ 0xa9cdda0d, 0xb9e02b86, 0xdd7e3b0c, 0xd7a4825c, 0x170076fa, 0xdd66cbbb, 0x9ef68d35,
	  0xaa7c7ad5, 0xa51b6135, 0xbedc6ba1, 0x22c3799f, 0x8515c07f, 0x359674f7, 0x5f0e0438,
	  0x96a1f19b, 0x23d5e7e5 },
	{ 0xa9cdda0d, 0x82f89c77, 0x54a86326, 0xc1f19ee1, 0x1dc403cc, 0x68bfa742, 0x6a173fa1,
	  0x0d435f26, 0x5ae703ab, 0xa400fc17, 0xc71795dd, 0x84c8538e, 0x51e9168b, 0x139f7c52,
	  0x21c03eff, 0x8f619e7d },
	{ 0xa9cdda0d, 0xc5013a36, 0xac2ac6dd, 0x9edebb1b, 0x9b4615a9, 0x846228eb, 0xb0c8dc65,
	  0xe8b232b8, 0x688d1c61, 0x5b33a5ee, 0x348ced70, 0xa3905456, 0xd270eff4, 0x508dfe99,
	  0x2985cfbc, 0x604d7164 },
	{ 0xa9cdda0d, 0xf6af14e6, 0xb6ffe386, 0x412ba6cb, 0xb717425b, 0x99358aff, 0xa1c3255d,
	  0xfe8a1ee0, 0x478b0d30, 0x1566bbcc, 0x06e3c216, 0xae567218, 0x6888f894, 0x33186375,
	  0xfa8d7d58, 0xc0918c7a },
	{ 0xa9cdda0d, 0x54cc62e5, 0x7b2102ee, 0x4205f0fe, 0x8a99adef, 0xe46fa6ef, 0x9eb63379,
	  0xf43532c4, 0xa7568c8f, 0xbab529eb, 0xb315c6da, 0xe7702e4b, 0xd4e1d64d, 0xba1050d0,
	  0x5c9400ac, 0x32606c1b },
	{ 0xa9cdda0d, 0xd610d67e, 0x6b086b3f, 0xb7720ee7, 0xd94f3c0b, 0xee51a57d, 0xf5dee9c6,
	  0x7aef74e3, 0xbf818109, 0xdd36fbfc, 0x6e9b7dfe, 0x374dbeff, 0x9950e407, 0xce5e497b,
	  0xe5d91fc5, 0xf01ab49a },
};

/* len modulo the order of x^8, which is that of x: x^(8 len) stays the same. */
static inline uint32_t reduce_len(uint64_t len)
{
	while (len > ORDER)
		len = (len & ORDER) + (len >> 31);
	return (uint32_t)len;
}

/* ---- tables ------------------------------------------------------------------------------ */

/*
 * tables[k][b]: byte b followed by k zero bytes (slicing by eight; Kounavis and Berry, 2005).
 * An entry is the sum of those of its bits, so eight values define a table.
 */
#define SUM(b, t0, t1, t2, t3, t4, t5, t6, t7)                                               \
	(((b) & 1 ? t0 : 0) ^ ((b) & 2 ? t1 : 0) ^ ((b) & 4 ? t2 : 0) ^ ((b) & 8 ? t3 : 0) ^ \
	 ((b) & 16 ? t4 : 0) ^ ((b) & 32 ? t5 : 0) ^ ((b) & 64 ? t6 : 0) ^ ((b) & 128 ? t7 : 0))
#define SUMS_4(b, ...)                                                               \
	SUM(b, __VA_ARGS__), SUM((b) + 1, __VA_ARGS__), SUM((b) + 2, __VA_ARGS__),   \
		SUM((b) + 3, __VA_ARGS__)
#define SUMS_16(b, ...)                                                              \
	SUMS_4(b, __VA_ARGS__), SUMS_4((b) + 4, __VA_ARGS__), SUMS_4((b) + 8, __VA_ARGS__), \
		SUMS_4((b) + 12, __VA_ARGS__)
#define SUMS_64(b, ...)                                                              \
	SUMS_16(b, __VA_ARGS__), SUMS_16((b) + 16, __VA_ARGS__),                     \
		SUMS_16((b) + 32, __VA_ARGS__), SUMS_16((b) + 48, __VA_ARGS__)
#define TABLE(...)                                                                   \
	{                                                                            \
		SUMS_64(0, __VA_ARGS__), SUMS_64(64, __VA_ARGS__),                   \
			SUMS_64(128, __VA_ARGS__), SUMS_64(192, __VA_ARGS__)         \
	}

static const uint32_t tables[8][256] = {
	TABLE(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf,
		0x105ec76f, 0x20bd8ede, 0x417b1dbc, 0x82f63b78),
	TABLE(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8,
		0x3fc5f181, 0x7f8be302, 0xff17c604, 0xfbc3faf9),
	TABLE(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5,
		0x70a27d8a, 0xe144fb14, 0xc76580d9, 0x8b277743),
	TABLE(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6,
		0xe964b13d, 0xd725148b, 0xaba65fe7, 0x52a0c93f),
	TABLE(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91,
		0x8f2261d3, 0x1ba8b557, 0x37516aae, 0x6ea2d55c),
	TABLE(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f,
		0xc00c303e, 0x85f4168d, 0x0e045beb, 0x1c08b7d6),
	TABLE(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53,
		0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a, 0xf56e0ef4),
	TABLE(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da,
		0x847609b4, 0x0d006599, 0x1a00cb32, 0x34019664),
};

static inline uint32_t table_word(uint32_t crc, uint64_t word)
{
	uint32_t sum = 0;

	word ^= crc;
	for (int i = 0; i < 8; i++)
		sum ^= tables[7 - i][word >> (8 * i) & 0xff];
	return sum;
}

static inline uint32_t table_byte(uint32_t crc, uint8_t byte)
{
	return crc >> 8 ^ tables[0][(crc ^ byte) & 0xff];
}

static uint32_t table_crc(uint32_t crc, const uint8_t *from, size_t len)
{
	for (; len >= WORD; len -= WORD, from += WORD)
		crc = table_word(crc, get64(from));
	for (; len; len--)
		crc = table_byte(crc, *from++);
	return crc;
}

static uint32_t table_copy(uint32_t crc, uint8_t *to, const uint8_t *from, size_t len)
{
	for (; len >= WORD; len -= WORD, from += WORD, to += WORD) {
		uint64_t word = get64(from);

		put64(to, word);
		crc = table_word(crc, word);
	}
	for (; len; len--)
		crc = table_byte(crc, *to++ = *from++);
	return crc;
}

/* a b x^33 mod P, like the instructions' product. */
static uint32_t table_multiply(uint32_t a, uint32_t b)
{
	uint64_t product = 0;

	for (int i = 0; i < 32; i++)
		product ^= b >> i & 1 ? (uint64_t)a << i : 0;
	return table_word(0, product);
}

static uint32_t table_shift(uint32_t crc, uint64_t len)
{
	uint32_t rest = reduce_len(len);

	for (int digit = 0; rest; digit++, rest >>= 4) {
		if (rest & 15)
			crc = table_multiply(crc, powers[digit][rest & 15]);
	}
	return crc;
}

/* ---- instructions ------------------------------------------------------------------------ */

/*
 * The instructions of a processor: the functions below are written with FAST, which marks
 * functions that use them, and these five. carryless() needs more of the processor than the
 * others.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#define FAST        __attribute__((target("sse4.2,pclmul")))
#define FAST_INLINE static inline __attribute__((always_inline, target("sse4.2,pclmul")))

static inline bool have_serial(void)
{
	return __builtin_cpu_supports("sse4.2");
}

static inline bool have_fast(void)
{
	return have_serial() && __builtin_cpu_supports("pclmul");
}

FAST_INLINE uint64_t crc_word(uint64_t crc, uint64_t word)
{
	return _mm_crc32_u64(crc, word);
}

FAST_INLINE uint32_t crc_half(uint32_t crc, uint32_t half)
{
	return _mm_crc32_u32(crc, half);
}

FAST_INLINE uint32_t crc_byte(uint32_t crc, uint8_t byte)
{
	return _mm_crc32_u8(crc, byte);
}

FAST_INLINE uint64_t carryless(uint32_t a, uint32_t b)
{
	return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(
		_mm_cvtsi32_si128((int)a), _mm_cvtsi32_si128((int)b), 0));
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

#define FAST
#define FAST_INLINE static inline __attribute__((always_inline))

/* As the kernel has them (asm/hwcap.h). */
#define HAS_PMULL (1ul << 4)
#define HAS_CRC32 (1ul << 7)

static inline bool have_serial(void)
{
	return getauxval(AT_HWCAP) & HAS_CRC32;
}

static inline bool have_fast(void)
{
	return (getauxval(AT_HWCAP) & (HAS_CRC32 | HAS_PMULL)) == (HAS_CRC32 | HAS_PMULL);
}

FAST_INLINE uint64_t crc_word(uint64_t crc, uint64_t word)
{
	uint32_t sum = (uint32_t)crc;

	__asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(sum) : "r"(word));
	return sum;
}

FAST_INLINE uint32_t crc_half(uint32_t crc, uint32_t half)
{
	__asm__(".arch_extension crc\n\tcrc32cw %w0, %w0, %w1" : "+r"(crc) : "r"(half));
	return crc;
}

FAST_INLINE uint32_t crc_byte(uint32_t crc, uint8_t byte)
{
	__asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)byte));
	return crc;
}

FAST_INLINE uint64_t carryless(uint32_t a, uint32_t b)
{
	typedef uint64_t vector __attribute__((vector_size(16)));
	vector product, first = {a}, second = {b};

	__asm__(".arch_extension crypto\n\tpmull %0.1q, %1.1d, %2.1d" : "=w"(product) :
		"w"(first), "w"(second));
	return product[0];
}

#else
#define FAST_NONE
#endif

#ifndef FAST_NONE

/* Below this the parts would be too short to pay for joining them. */
#define INTERLEAVE_MIN 96u

/* a b x^33 mod P. */
FAST_INLINE uint32_t fast_multiply(uint32_t a, uint32_t b)
{
	return (uint32_t)crc_word(0, carryless(a, b));
}

/* x^(8 len - 33); len is not 0. */
FAST_INLINE uint32_t fast_power(uint32_t len)
{
	uint32_t power = powers[0][len & 15];

	len >>= 4;
	for (int digit = 1; len; digit++, len >>= 4)
		power = fast_multiply(power, powers[digit][len & 15]);
	return power;
}

/* One word at offset "at"; "to" is used only if copy is set, here and below. */
FAST_INLINE uint64_t take(uint64_t crc, uint8_t *to, const uint8_t *from, size_t at, bool copy)
{
	uint64_t word = get64(from + at);

	if (copy)
		put64(to + at, word);
	return crc_word(crc, word);
}

/* The last bytes, fewer than a word. */
FAST_INLINE uint32_t fast_tail(uint32_t crc, uint8_t *to, const uint8_t *from, size_t len,
		bool copy)
{
	size_t at = 0;

	if (len & 4) {
		uint32_t half = get32(from);

		if (copy)
			put32(to, half);
		crc = crc_half(crc, half);
		at = 4;
	}
	for (; at < len; at++) {
		if (copy)
			to[at] = from[at];
		crc = crc_byte(crc, from[at]);
	}
	return crc;
}

/* Three parts of "part" bytes each, a multiple of WORD, not 0. */
FAST_INLINE uint32_t fast_parts(uint32_t start, uint8_t *to, const uint8_t *from, size_t part,
		bool copy)
{
	uint32_t power = fast_power((uint32_t)part), power_2 = fast_multiply(power, power);
	uint64_t a = start, b = 0, c = 0;

	for (size_t at = 0; at < part; at += WORD) {
		a = take(a, to, from, at, copy);
		b = take(b, to, from, part + at, copy);
		c = take(c, to, from, 2 * part + at, copy);
	}
	return (uint32_t)(crc_word(0, carryless((uint32_t)a, power_2) ^
		carryless((uint32_t)b, power)) ^ c);
}

/* Longer parts would gain nothing, and shorter ones stay in the first-level cache. */
#define PART_MAX 4096u

/* From at on, word after word: each waits for the one before it. */
FAST_INLINE uint32_t serial_run(uint64_t crc, uint8_t *to, const uint8_t *from, size_t at,
		size_t len, bool copy)
{
	for (; len - at >= WORD; at += WORD)
		crc = take(crc, to, from, at, copy);
	return at == len ? (uint32_t)crc :
		fast_tail((uint32_t)crc, copy ? to + at : NULL, from + at, len - at, copy);
}

FAST_INLINE uint32_t fast_run(uint32_t start, uint8_t *to, const uint8_t *from, size_t len,
		bool copy)
{
	uint64_t crc = start;
	size_t at = 0;

	while (len - at >= INTERLEAVE_MIN) {
		size_t part = (len - at) / (3 * WORD) * WORD;

		if (part > PART_MAX)
			part = PART_MAX;
		crc = fast_parts((uint32_t)crc, copy ? to + at : NULL, from + at, part, copy);
		at += 3 * part;
	}
	return serial_run(crc, to, from, at, len, copy);
}

FAST static uint32_t serial_crc(uint32_t crc, const uint8_t *from, size_t len)
{
	return serial_run(crc, NULL, from, 0, len, false);
}

FAST static uint32_t serial_copy(uint32_t crc, uint8_t *to, const uint8_t *from, size_t len)
{
	return serial_run(crc, to, from, 0, len, true);
}

FAST static uint32_t fast_crc(uint32_t crc, const uint8_t *from, size_t len)
{
	return fast_run(crc, NULL, from, len, false);
}

FAST static uint32_t fast_copy(uint32_t crc, uint8_t *to, const uint8_t *from, size_t len)
{
	return fast_run(crc, to, from, len, true);
}

FAST static uint32_t fast_shift(uint32_t crc, uint64_t len)
{
	uint32_t rest = reduce_len(len);

	return rest ? fast_multiply(crc, fast_power(rest)) : crc;
}

#else

static inline bool have_serial(void)
{
	return false;
}

static inline bool have_fast(void)
{
	return false;
}

#define serial_crc  table_crc
#define serial_copy table_copy
#define fast_crc    table_crc
#define fast_copy   table_copy
#define fast_shift  table_shift

#endif

/* ---- wide folding ------------------------------------------------------------------------ */

#if defined(__x86_64__)
/*
 * Four vectors of 64 bytes are carried along; each is multiplied by what stands for the bytes
 * that follow before the next 64 bytes are added to it (Gopal et al., "Fast CRC Computation for
 * Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009). A factor for n bytes is a
 * pair, x^(8n + 31) for the first half of each 128 bits and x^(8n - 33) for the second.
 */
#define WIDE_TARGET target("avx512f,vpclmulqdq,sse4.2,pclmul")
#define WIDE        __attribute__((WIDE_TARGET))
#define WIDE_INLINE static inline __attribute__((always_inline, WIDE_TARGET))
#define VECTOR      64u
#define WIDE_MIN    (4 * VECTOR)

static inline bool have_wide(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq") &&
		have_fast();
}

WIDE_INLINE __m512i wide_factor(uint32_t first, uint32_t second)
{
	return _mm512_broadcast_i32x4(_mm_set_epi64x(second, first));
}

WIDE_INLINE __m512i wide_multiply(__m512i vector, __m512i factor)
{
	return _mm512_xor_si512(_mm512_clmulepi64_epi128(vector, factor, 0x00),
		_mm512_clmulepi64_epi128(vector, factor, 0x11));
}

WIDE_INLINE __m512i wide_take(uint8_t *to, const uint8_t *from, size_t at, bool copy)
{
	__m512i vector = _mm512_loadu_si512(from + at);

	if (copy)
		_mm512_storeu_si512(to + at, vector);
	return vector;
}

/* One step: the vector, with 64 n bytes behind it, and the 64 bytes at "at". */
#define WIDE_STEP(vector, factor)                                                    \
	_mm512_xor_si512(wide_multiply(vector, factor), wide_take(to, from, at, copy))

/* The four 128-bit parts of a vector become one, and that a CRC. */
WIDE_INLINE uint32_t wide_reduce(__m512i vector)
{
	const __m512i factors = _mm512_set_epi64(0, 0, 0x493c7d27, 0xf20c0dfe, 0xba4fc28e,
		0x3da6d0cb, 0xddc0152b, 0x1c291d04); /* 0, 16, 32, 48 bytes follow */
	__m512i sum = wide_multiply(vector, factors);
	__m256i half;
	__m128i quarter;

	sum = _mm512_xor_si512(sum, _mm512_maskz_mov_epi64(0xc0, vector));
	half = _mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
	quarter = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
	return (uint32_t)_mm_crc32_u64(_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(quarter)),
		(uint64_t)_mm_extract_epi64(quarter, 1));
}

/* len: whole vectors, at least four. */
WIDE_INLINE uint32_t wide_vectors(uint32_t crc, uint8_t *to, const uint8_t *from, size_t len,
		bool copy)
{
	const __m512i by_64 = wide_factor(0x740eef02, 0x9e4addf8);
	const __m512i by_128 = wide_factor(0x6992cea2, 0x0d3b6092);
	const __m512i by_192 = wide_factor(0xa87ab8a8, 0xab7aff2a);
	const __m512i by_256 = wide_factor(0xdcb17aa4, 0xb9e02b86);
	__m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc));
	__m512i a = _mm512_xor_si512(wide_take(to, from, 0, copy), start);
	__m512i b = wide_take(to, from, VECTOR, copy);
	__m512i c = wide_take(to, from, 2 * VECTOR, copy);
	__m512i d = wide_take(to, from, 3 * VECTOR, copy);
	size_t at = 4 * VECTOR;

	while (len - at >= 4 * VECTOR) {
		a = WIDE_STEP(a, by_256);
		at += VECTOR;
		b = WIDE_STEP(b, by_256);
		at += VECTOR;
		c = WIDE_STEP(c, by_256);
		at += VECTOR;
		d = WIDE_STEP(d, by_256);
		at += VECTOR;
	}
	a = _mm512_xor_si512(wide_multiply(a, by_192), wide_multiply(b, by_128));
	a = _mm512_xor_si512(a, _mm512_xor_si512(wide_multiply(c, by_64), d));
	for (; at < len; at += VECTOR)
		a = WIDE_STEP(a, by_64);
	return wide_reduce(a);
}

/* The remaining bytes are not processed after the vectors but beside them, and joined. */
WIDE_INLINE uint32_t wide_run(uint32_t crc, uint8_t *to, const uint8_t *from, size_t len, bool copy)
{
	size_t whole = len / VECTOR * VECTOR, rest = len - whole;

	crc = wide_vectors(crc, to, from, whole, copy);
	if (!rest)
		return crc;
	return fast_multiply(crc, fast_power((uint32_t)rest)) ^
		fast_run(0, copy ? to + whole : NULL, from + whole, rest, copy);
}

WIDE static uint32_t wide_crc(uint32_t crc, const uint8_t *from, size_t len)
{
	return wide_run(crc, NULL, from, len, false);
}

WIDE static uint32_t wide_copy(uint32_t crc, uint8_t *to, const uint8_t *from, size_t len)
{
	return wide_run(crc, to, from, len, true);
}

#else

static inline bool have_wide(void)
{
	return false;
}

#define WIDE_MIN  SIZE_MAX
#define wide_crc  table_crc
#define wide_copy table_copy

#endif

uint32_t ripc__crc32c(uint32_t crc, const void *data, size_t len)
{
	if (len >= WIDE_MIN && have_wide())
		return ~wide_crc(~crc, data, len);
	if (have_fast())
		return ~fast_crc(~crc, data, len);
	return ~(have_serial() ? serial_crc(~crc, data, len) : table_crc(~crc, data, len));
}

uint32_t ripc__crc32c_copy(uint32_t crc, void *dest, const void *data, size_t len)
{
	if (len >= WIDE_MIN && have_wide())
		return ~wide_copy(~crc, dest, data, len);
	if (have_fast())
		return ~fast_copy(~crc, dest, data, len);
	return ~(have_serial() ? serial_copy(~crc, dest, data, len) :
		table_copy(~crc, dest, data, len));
}

uint32_t ripc__crc32c_shift(uint32_t crc, uint64_t len)
{
	return have_fast() ? fast_shift(crc, len) : table_shift(crc, len);
}
