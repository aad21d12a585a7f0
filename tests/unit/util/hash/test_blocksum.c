/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checksum of what others move: against values that another program computed from the
 * definition in docs/protocol.md, in parts, and with whatever a device may do wrong.
 */
#include "util/hash/blocksum.h"

#include <string.h>

#include "suite.h"

#define LONGEST (3 * RIPC__BLOCK + 100)

static uint8_t data[LONGEST];

static void fill(uint64_t seed)
{
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)suite_random(&seed);
}

/* Byte i of the longer ones is 7 i + i / 256. */
START_TEST(blocksum__vectors)
{
	static const struct {
		uint32_t len;
		uint64_t offset, sum;
		uint32_t told;
	} vectors[] = {
		{1, 0, 0x03958ce92d516866, 0x2ec4e48f},
		{9, 0, 0xfde2bee03710351c, 0xcaf28bfc},
		{64, 1, 0xbf8df665190335bf, 0xa68ec3da},
		{4096, 300, 0xfe3057fffca97982, 0x02992e7d},
		{4097, 300, 0x0b9b31410a82b94f, 0x0119880e},
		{10000, 1ull << 40, 0xfdc2a9a9555b0068, 0xa899a9c1},
	};

	for (size_t v = 0; v < sizeof(vectors) / sizeof(vectors[0]); v++) {
		uint64_t sum;

		for (size_t i = 0; i < sizeof(data); i++)
			data[i] = (uint8_t)(i * 7 + (i >> 8));
		if (vectors[v].len == 1)
			data[0] = 0;
		if (vectors[v].len == 9)
			memcpy(data, "123456789", 9);
		sum = ripc__blocksum(data, vectors[v].len, vectors[v].offset);
		ck_assert_uint_eq(sum, vectors[v].sum);
		ck_assert_uint_eq(ripc__blocksum_told(sum), vectors[v].told);
	}
}
END_TEST

/* Sums of any length, at any address, with nothing read beyond it. */
START_TEST(blocksum__every_length_and_alignment)
{
	fill(1);
	for (size_t len = 1; len < 200; len++) {
		uint64_t sum = ripc__blocksum(data, len, 7);

		for (size_t shift = 0; shift < 8; shift++) {
			uint8_t *copy = malloc(shift + len);

			ck_assert_ptr_nonnull(copy);
			memcpy(copy + shift, data, len);
			ck_assert_uint_eq(ripc__blocksum(copy + shift, len, 7), sum);
			free(copy);
		}
	}
}
END_TEST

/* Pieces that begin and end with blocks are added in any order. */
START_TEST(blocksum__parts_are_added)
{
	uint64_t sum = 0;

	fill(2);
	for (size_t at = 3 * RIPC__BLOCK; at < sizeof(data); at -= RIPC__BLOCK)
		sum += ripc__blocksum(data + at, at < 3 * RIPC__BLOCK ? RIPC__BLOCK :
			sizeof(data) - at, 500 + at);
	ck_assert_uint_eq(sum, ripc__blocksum(data, sizeof(data), 500));
	ck_assert_uint_eq(ripc__blocksum(data, 0, 500), 0);
}
END_TEST

static uint32_t told(uint64_t offset)
{
	return ripc__blocksum_told(ripc__blocksum(data, sizeof(data), offset));
}

static void swap(uint8_t *one, uint8_t *other, size_t len)
{
	uint8_t kept[RIPC__BLOCK];

	memcpy(kept, one, len);
	memcpy(one, other, len);
	memcpy(other, kept, len);
}

/* A bit; words, groups or blocks in each other's place; what did not come; all a byte late. */
START_TEST(blocksum__differs)
{
	static const size_t lens[] = {8, 16, 64, 1024, RIPC__BLOCK};
	uint32_t right;

	fill(3);
	right = told(0);
	for (size_t bit = 0; bit < sizeof(data) * 8; bit += 61) {
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_uint_ne(told(0), right);
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		swap(data, data + lens[i], lens[i]);
		ck_assert_uint_ne(told(0), right);
		swap(data, data + lens[i], lens[i]);
		memset(data + 100, 0, lens[i]);
		ck_assert_uint_ne(told(0), right);
		fill(3);
	}
	memmove(data + 1, data, sizeof(data) - 1);
	ck_assert_uint_ne(told(0), right);
	fill(3);
	ck_assert_uint_ne(told(RIPC__BLOCK), right);
	ck_assert_uint_eq(told(0), right);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		blocksum__vectors, blocksum__every_length_and_alignment,
		blocksum__parts_are_added, blocksum__differs, NULL,
	};

	return suite_run("blocksum", tests);
}
