/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C against the vectors of RFC 3720 appendix B.4, and every form of it (tables and
 * instructions, alone and with a copy, in parts and shifted) against the definition, bit by bit.
 * Includes the source, so that forms are tested which this processor would not choose.
 */
#include "util/hash/crc32c.c"

#include <string.h>

#include "suite.h"

#define LONGEST 40000

static uint32_t slow_crc(uint32_t crc, const uint8_t *data, size_t len)
{
	crc = ~crc;
	for (size_t i = 0; i < len; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

static void fill(uint8_t *data, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)suite_random(&seed);
}

/* Every form that runs here, and the one that is chosen. to NULL: without a copy. */
enum form { TABLE_FORM, SERIAL_FORM, FAST_FORM, WIDE_FORM, CHOSEN_FORM, FORMS };

static bool form_runs(enum form form, size_t len)
{
	return (form != SERIAL_FORM || have_serial()) && (form != FAST_FORM || have_fast()) &&
		(form != WIDE_FORM || (have_wide() && len >= WIDE_MIN));
}

static uint32_t form_crc(enum form form, uint32_t crc, uint8_t *to, const uint8_t *from, size_t len)
{
	switch (form) {
	case TABLE_FORM:
		return ~(to ? table_copy(~crc, to, from, len) : table_crc(~crc, from, len));
	case SERIAL_FORM:
		return ~(to ? serial_copy(~crc, to, from, len) : serial_crc(~crc, from, len));
	case FAST_FORM:
		return ~(to ? fast_copy(~crc, to, from, len) : fast_crc(~crc, from, len));
	case WIDE_FORM:
		return ~(to ? wide_copy(~crc, to, from, len) : wide_crc(~crc, from, len));
	default:
		return to ? ripc__crc32c_copy(crc, to, from, len) : ripc__crc32c(crc, from, len);
	}
}

/* Lengths that cross every boundary of the code once; then coarser. */
static size_t next_len(size_t len)
{
	return len < 300 ? len + 1 : len + 1 + len / 13;
}

struct vector {
	const char *name;
	uint8_t data[48];
	size_t len;
	uint32_t crc;
};

static const struct vector vectors[] = {
	{ "nothing", {0}, 0, 0x00000000 },
	{ "digits", "123456789", 9, 0xe3069283 },
	{ "zeros", {0}, 32, 0x8a9136aa },
	{ "ones", { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, 32, 0x62a8ab43 },
	{ "ascending", { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
		21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31 }, 32, 0x46dd794e },
	{ "descending", { 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14,
		13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0 }, 32, 0x113fdb5c },
	{ "iSCSI read", { 0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0,
		0x04, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0,
		0, 0, 0 }, 48, 0xd9963a56 },
};

START_TEST(crc32c__vectors)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		const struct vector *v = &vectors[i];

		ck_assert_msg(ripc__crc32c(0, v->data, v->len) == v->crc, "%s", v->name);
		ck_assert_msg(~table_crc(~0u, v->data, v->len) == v->crc, "%s", v->name);
	}
}
END_TEST

START_TEST(crc32c__every_length_and_alignment)
{
	uint8_t *data = malloc(LONGEST + 8);

	ck_assert_ptr_nonnull(data);
	fill(data, LONGEST + 8, 1);
	for (size_t len = 0; len <= LONGEST; len = next_len(len)) {
		const uint8_t *from = data + len % 8;
		uint32_t start = (uint32_t)len * 0x9e3779b9;
		uint32_t expected = slow_crc(start, from, len);

		for (int form = 0; form < FORMS; form++) {
			if (form_runs(form, len))
				ck_assert_uint_eq(form_crc(form, start, NULL, from, len), expected);
		}
	}
	free(data);
}
END_TEST

START_TEST(crc32c__parts_follow_each_other)
{
	uint8_t data[2000];
	uint64_t random = 2;
	uint32_t whole;

	fill(data, sizeof(data), 3);
	whole = ripc__crc32c(0, data, sizeof(data));
	for (int i = 0; i < 1000; i++) {
		size_t cut = suite_random(&random) % (sizeof(data) + 1);
		uint32_t crc = ripc__crc32c(0, data, cut);

		ck_assert_uint_eq(ripc__crc32c(crc, data + cut, sizeof(data) - cut), whole);
	}
}
END_TEST

/* All copies, with guards around the destination. */
static void check_copy(uint8_t *dest, const uint8_t *from, size_t len, uint32_t start)
{
	uint32_t expected = slow_crc(start, from, len);

	for (int form = 0; form < FORMS; form++) {
		if (!form_runs(form, len))
			continue;
		memset(dest, 0xa5, len + 16);
		ck_assert_uint_eq(form_crc(form, start, dest + 8, from, len), expected);
		ck_assert_int_eq(memcmp(dest + 8, from, len), 0);
		for (int i = 0; i < 8; i++) {
			ck_assert_uint_eq(dest[i], 0xa5);
			ck_assert_uint_eq(dest[8 + len + i], 0xa5);
		}
	}
}

START_TEST(crc32c_copy__every_length_and_alignment)
{
	uint8_t *data = malloc(LONGEST + 8), *dest = malloc(LONGEST + 24);

	ck_assert(data && dest);
	fill(data, LONGEST + 8, 4);
	for (size_t len = 0; len <= LONGEST; len = next_len(len))
		check_copy(dest + len / 8 % 8, data + len % 8, len, (uint32_t)len * 77);
	free(data);
	free(dest);
}
END_TEST

START_TEST(crc32c_shift__joins_parts)
{
	uint8_t *data = malloc(LONGEST);

	ck_assert_ptr_nonnull(data);
	fill(data, LONGEST, 5);
	for (size_t len = 0; len < LONGEST; len = next_len(len)) {
		uint32_t a = ripc__crc32c(0, data, LONGEST - len);
		uint32_t b = ripc__crc32c(0, data + LONGEST - len, len);
		uint32_t whole = ripc__crc32c(a, data + LONGEST - len, len);

		ck_assert_uint_eq(ripc__crc32c_shift(a, len) ^ b, whole);
		ck_assert_uint_eq(table_shift(a, len) ^ b, whole);
	}
	free(data);
}
END_TEST

/* Shifting by one byte is eight multiplications by x. */
static uint32_t slow_shift(uint32_t crc, uint64_t bytes)
{
	for (uint64_t bit = 0; bit < 8 * bytes; bit++)
		crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	return crc;
}

START_TEST(crc32c_shift__huge_lengths)
{
	static const uint64_t order = 0x7fffffff;
	uint64_t random = 6;

	for (int i = 0; i < 2000; i++) {
		uint32_t crc = (uint32_t)suite_random(&random);
		uint64_t a = suite_random(&random), b = suite_random(&random) >> i % 64;
		uint32_t once = ripc__crc32c_shift(crc, b);

		a = UINT64_MAX - b < a ? UINT64_MAX - b : a;
		ck_assert_uint_eq(ripc__crc32c_shift(once, a), ripc__crc32c_shift(crc, a + b));
		ck_assert_uint_eq(table_shift(crc, b), once);
		b %= 5000;
		ck_assert_uint_eq(ripc__crc32c_shift(crc, b + order * 3), slow_shift(crc, b));
	}
	ck_assert_uint_eq(ripc__crc32c_shift(1, order), 1);
	ck_assert_uint_eq(ripc__crc32c_shift(0x1234, 1 << 20), slow_shift(0x1234, 1 << 20));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		crc32c__vectors, crc32c__every_length_and_alignment,
		crc32c__parts_follow_each_other, crc32c_copy__every_length_and_alignment,
		crc32c_shift__joins_parts, crc32c_shift__huge_lengths, NULL,
	};

	return suite_run("crc32c", tests);
}
