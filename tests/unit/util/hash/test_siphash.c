/* SPDX-License-Identifier: BSD-3-Clause */
/* SipHash-2-4 against the vectors of its authors: key 00 01 .. 0f, input 00 01 .. of each
 * length (appendix A of the paper, and vectors_sip64 of the reference implementation). */
#include <string.h>

#include "suite.h"
#include "util/hash/siphash.h"

static const uint64_t vectors[] = {
	0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
	0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
	0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
	0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5,
};

START_TEST(siphash__vectors)
{
	uint8_t key[16], data[16 + 1];

	for (uint8_t i = 0; i < 16; i++)
		key[i] = i;
	for (size_t len = 0; len < sizeof(vectors) / sizeof(*vectors); len++) {
		for (size_t shift = 0; shift < 2; shift++) { /* also at odd addresses */
			for (size_t i = 0; i < len; i++)
				data[shift + i] = (uint8_t)i;
			ck_assert_uint_eq(ripc__siphash(key, data + shift, len), vectors[len]);
		}
	}
}
END_TEST

START_TEST(siphash__every_bit_counts)
{
	uint8_t key[16] = {0}, data[24] = {0};
	uint64_t before = ripc__siphash(key, data, sizeof(data));

	for (int bit = 0; bit < 8 * 24; bit++) {
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_uint_ne(ripc__siphash(key, data, sizeof(data)), before);
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (int bit = 0; bit < 8 * 16; bit++) {
		key[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_uint_ne(ripc__siphash(key, data, sizeof(data)), before);
		key[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t len = 0; len < sizeof(data); len++)
		ck_assert_uint_ne(ripc__siphash(key, data, len), before);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { siphash__vectors, siphash__every_bit_counts, NULL };

	return suite_run("siphash", tests);
}
