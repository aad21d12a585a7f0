/* SPDX-License-Identifier: BSD-3-Clause */
/* Resolver packets of wire.c: golden ones, cut off, altered and lying ones, and round trips. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/wire/record.h"
#include "core/wire/wire.h"
#include "golden.h"
#include "hex.h"
#include "suite.h"
#include "util/bytes.h"
#include "util/hash/crc32c.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CONTEXT 0x5151515151515151
#define RELAYED_FOR { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3 }
#define UDP { 1, 4, { 1, 0, 0x3b, 0x97 } }
#define RECORD                                                                       \
	.id = 0x1234, .incarnation = 0x1122334455667788, .stamp = 0x17a0000000000000, \
	.host = 0x9999000099990000, .context = CONTEXT

struct golden {
	const char *name, *hex;
	size_t len; /* with the zeros that follow */
	struct wire_resolve means;
};

static const uint8_t two_named[] = {
	0x34, 0x12, 0, 0, 0, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
	0xef, 0xbe, 0, 0, 0, 0, 0, 0xff, 0x89, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
};

static const struct golden golden[] = {
	{ "query", GOLDEN_QUERY, WIRE_RECORD_MAX,
	  { .type = WIRE_QUERY, .nonce = 0x1111222233334444, .asker = 0x5555666677778888,
	    .record = {.id = 0x1234} } },
	{ "query, relayed, about everybody", GOLDEN_QUERY_RELAYED, WIRE_RECORD_MAX,
	  { .type = WIRE_QUERY, .hops = 1, .nonce = 0x1111222233334444,
	    .asker = 0x5555666677778888, .host = RELAYED_FOR } },
	{ "record", GOLDEN_RECORD, 121,
	  { .type = WIRE_RECORD, .nonce = 0x1111222233334444, .proof = 0x0123456789abcdef,
	    .record = { RECORD, .n_addrs = 2, .addrs = {
		    { 2, 24, { 0, 0, 0x99, 0x99, 0, 0, 0x99, 0x99, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
			    10, 11, 12, 13, 14, 15 } },
		    UDP } } } },
	{ "record, notice", GOLDEN_RECORD_NOTICE, 95,
	  { .type = WIRE_RECORD, .asker = 0x5555666677778888,
	    .record = { RECORD, .n_addrs = 1, .addrs = { UDP } } } },
	{ "withdrawn", GOLDEN_WITHDRAWN, 64,
	  { .type = WIRE_WITHDRAWN, .asker = 0x5555666677778888,
	    .record = {.id = 0x1234, .incarnation = 0x1122334455667788} } },
	{ "nobody", GOLDEN_NOBODY, 56,
	  { .type = WIRE_NOBODY, .definite = true, .nonce = 0x1111222233334444,
	    .record = {.id = 0x1234} } },
	{ "nobody that answers", GOLDEN_NOBODY_SILENT, 56,
	  { .type = WIRE_NOBODY, .nonce = 0x1111222233334444, .record = {.id = 0x1234} } },
	{ "record of a member of a group", GOLDEN_RECORD_MEMBER, 95,
	  { .type = WIRE_RECORD, .nonce = 0x1111222233334444, .proof = 0x0123456789abcdef,
	    .record = { .id = 0xff0000000000beef, .incarnation = 0x1122334455667788,
		    .stamp = 0x1234, .host = 0x9999000099990000, .context = 0x5151515151515151,
		    .n_addrs = 1, .addrs = { UDP } } } },
	{ "digest", GOLDEN_DIGEST, 144,
	  { .type = WIRE_DIGEST, .asker = 0x5555666677778888, .named = two_named, .n_named = 2 } },
};

static size_t golden_bytes(const struct golden *g, uint8_t bytes[WIRE_RECORD_MAX])
{
	memset(bytes, 0, WIRE_RECORD_MAX);
	ck_assert_uint_le(hex_bytes(g->hex, bytes), g->len);
	return g->len;
}

static void seal(uint8_t *bytes, size_t len)
{
	put32(bytes + 4, 0);
	put32(bytes + 4, ripc__crc32c(0, bytes, len));
}

static void check_record(const struct wire_record *r, const struct wire_record *want)
{
	ck_assert_uint_eq(r->id, want->id);
	ck_assert_uint_eq(r->incarnation, want->incarnation);
	ck_assert_uint_eq(r->stamp, want->stamp);
	ck_assert_uint_eq(r->host, want->host);
	ck_assert_uint_eq(r->context, want->context);
	ck_assert_uint_eq(r->n_addrs, want->n_addrs);
	for (uint32_t i = 0; i < r->n_addrs; i++) {
		ck_assert_uint_eq(r->addrs[i].backend, want->addrs[i].backend);
		ck_assert_uint_eq(r->addrs[i].len, want->addrs[i].len);
		ck_assert_int_eq(memcmp(r->addrs[i].blob, want->addrs[i].blob,
			r->addrs[i].len), 0);
	}
}

static void check_same(const struct wire_resolve *r, const struct wire_resolve *want)
{
	ck_assert_uint_eq(r->type, want->type);
	ck_assert_uint_eq(r->hops, want->hops);
	ck_assert_int_eq(r->definite, want->definite);
	ck_assert_uint_eq(r->nonce, want->nonce);
	ck_assert_uint_eq(r->asker, want->asker);
	ck_assert_uint_eq(r->proof, want->proof);
	ck_assert_mem_eq(r->host, want->host, 16);
	check_record(&r->record, &want->record);
	ck_assert_uint_eq(r->n_named, want->n_named);
	for (uint32_t i = 0; i < r->n_named; i++) {
		uint64_t id, incarnation, want_id, want_incarnation;

		wire_named_get(r, i, &id, &incarnation);
		wire_named_get(want, i, &want_id, &want_incarnation);
		ck_assert_uint_eq(id, want_id);
		ck_assert_uint_eq(incarnation, want_incarnation);
	}
}

START_TEST(resolve_decode__golden)
{
	uint8_t bytes[WIRE_RECORD_MAX];
	size_t len = golden_bytes(&golden[_i], bytes);
	struct wire_resolve r;

	ck_assert_int_eq(wire_resolve_decode(bytes, len, &r), 0);
	check_same(&r, &golden[_i].means);
}
END_TEST

START_TEST(resolve_encode__golden)
{
	uint8_t bytes[WIRE_RECORD_MAX], ours[WIRE_RECORD_MAX];
	size_t len = golden_bytes(&golden[_i], bytes);

	memset(ours, 0xee, sizeof(ours));
	ck_assert_uint_eq(wire_resolve_encode(ours, &golden[_i].means), len);
	ck_assert_mem_eq(ours, bytes, len);
}
END_TEST

START_TEST(resolve_decode__golden_truncated)
{
	uint8_t bytes[WIRE_RECORD_MAX];
	size_t len = golden_bytes(&golden[_i], bytes);
	struct wire_resolve r, before;

	memset(&before, 0x77, sizeof(before));
	r = before;
	for (size_t cut = 0; cut < len; cut++) {
		uint8_t *exact = malloc(cut ? cut : 1); /* makes reads beyond the end visible */

		ck_assert_ptr_nonnull(exact);
		memcpy(exact, bytes, cut);
		ck_assert_int_eq(wire_resolve_decode(exact, cut, &r), -EBADMSG);
		if (cut >= 8) { /* the checksum alone must not be what refuses it */
			seal(exact, cut);
			ck_assert_int_eq(wire_resolve_decode(exact, cut, &r), -EBADMSG);
		}
		free(exact);
	}
	ck_assert_mem_eq(&r, &before, sizeof(r)); /* untouched on failure */
}
END_TEST

START_TEST(resolve_decode__golden_with_one_more_byte)
{
	uint8_t bytes[WIRE_RECORD_MAX + 1] = {0};
	size_t len = golden_bytes(&golden[_i], bytes);
	struct wire_resolve r;

	seal(bytes, len + 1);
	ck_assert_int_eq(wire_resolve_decode(bytes, len + 1, &r), -EBADMSG);
}
END_TEST

START_TEST(resolve_decode__golden_with_one_bit_altered)
{
	uint8_t bytes[WIRE_RECORD_MAX];
	size_t len = golden_bytes(&golden[_i], bytes);
	struct wire_resolve r;

	for (size_t bit = 0; bit < 8 * len; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(wire_resolve_decode(bytes, len, &r),
			bit < 8 ? -EPROTONOSUPPORT : -EBADMSG);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}
END_TEST

/* A golden packet with one byte replaced and the checksum made right again. */
struct lie {
	int golden;
	const char *what;
	size_t at;
	uint8_t value;
	int result;
};

static const struct lie lies[] = {
	{ 0, "version", 0, WIRE_VERSION + 1, -EPROTONOSUPPORT },
	{ 0, "type of another kind of packet", 1, WIRE_ECHO, -EBADMSG },
	{ 4, "type unknown", 1, 37, -EBADMSG },
	{ 0, "type and length disagree", 1, WIRE_WITHDRAWN, -EBADMSG },
	{ 0, "reserved byte", 3, 1, -EBADMSG },
	{ 0, "two hops", 2, 2, -EBADMSG },
	{ 2, "a record with a hop", 2, 1, -EBADMSG },
	{ 0, "a query with a proof", 24, 1, -EBADMSG },
	{ 0, "a host, but not relayed", 32, 1, -EBADMSG },
	{ 4, "withdrawn, with a proof", 31, 1, -EBADMSG },
	{ 4, "withdrawn, with a host", 47, 1, -EBADMSG },
	{ 0, "first byte of the padding", 56, 1, -EBADMSG },
	{ 0, "last byte of the padding", WIRE_RECORD_MAX - 1, 1, -EBADMSG },
	{ 0, "another ID", 55, 1, 0 },
	{ 3, "two addresses, bytes of one", 88, 2, -EBADMSG },
	{ 3, "no address", 88, 0, -EBADMSG },
	{ 2, "a record with a host", 47, 1, -EBADMSG },
	{ 2, "an answer with an asker", 16, 1, -EBADMSG },
	{ 4, "withdrawn, with a nonce", 8, 1, -EBADMSG },
	{ 5, "nobody, neither definite nor silent", 2, 2, -EBADMSG },
	{ 5, "nobody, with an asker", 16, 1, -EBADMSG },
	{ 5, "nobody, with a proof", 24, 1, -EBADMSG },
	{ 5, "nobody, and not definite", 2, 0, 0 },
	{ 5, "nobody, as long as a withdrawal is not", 1, WIRE_WITHDRAWN, -EBADMSG },
	{ 2, "nine addresses", 88, 9, -EBADMSG },
	{ 2, "255 addresses", 88, 255, -EBADMSG },
	{ 2, "one address, bytes left", 88, 1, -EBADMSG },
	{ 2, "three addresses, no bytes", 88, 3, -EBADMSG },
	{ 2, "blob longer than the rest", 90, 64, -EBADMSG },
	{ 2, "blob of 105 bytes", 90, 105, -EBADMSG },
	{ 2, "blob of 255 bytes", 90, 255, -EBADMSG },
	{ 2, "blob shorter", 90, 4, -EBADMSG },
	{ 2, "second blob longer than the rest", 116, 5, -EBADMSG },
	{ 7, "a member that is a group", 71, 0xff, -EBADMSG },
	{ 8, "a digest of none", 2, 0, -EBADMSG },
	{ 8, "a digest of fewer than it has", 2, 1, -EBADMSG },
	{ 8, "a digest of more than it has", 2, 3, -EBADMSG },
	{ 8, "a digest of 255", 2, 255, -EBADMSG },
	{ 8, "a digest with a nonce", 8, 1, -EBADMSG },
	{ 8, "a digest of nobody", 16, 0, 0 },
	{ 8, "a digest with a proof", 24, 1, -EBADMSG },
	{ 8, "a digest with a host", 47, 1, -EBADMSG },
	{ 8, "a digest with a bit too many", 48, 1, -EBADMSG },
	{ 8, "a digest with a bit too few", 80, 0, -EBADMSG },
	{ 8, "a digest of another ID than its bits say", 112, 0x35, -EBADMSG },
	{ 8, "a digest of another incarnation", 120, 0x35, 0 },
};

START_TEST(resolve_decode__lies)
{
	const struct lie *lie = &lies[_i];
	uint8_t bytes[WIRE_RECORD_MAX];
	size_t len = golden_bytes(&golden[lie->golden], bytes);
	struct wire_resolve r;

	bytes[lie->at] = lie->value;
	seal(bytes, len);
	ck_assert_msg(wire_resolve_decode(bytes, len, &r) == lie->result, "%s", lie->what);
}
END_TEST

START_TEST(resolve_decode__no_id_or_incarnation)
{
	static const int with_both[] = { 2, 3, 4 };

	for (size_t i = 0; i < COUNT(with_both); i++) {
		uint8_t bytes[WIRE_RECORD_MAX];
		struct wire_resolve r = golden[with_both[i]].means;

		r.record.id = 0;
		ck_assert_int_eq(wire_resolve_decode(bytes, wire_resolve_encode(bytes, &r), &r),
			-EBADMSG);
		r.record.id = 1;
		r.record.incarnation = 0;
		ck_assert_int_eq(wire_resolve_decode(bytes, wire_resolve_encode(bytes, &r), &r),
			-EBADMSG);
	}
}
END_TEST

START_TEST(resolve_decode__member_without_id)
{
	struct wire_resolve r = golden[7].means;
	uint8_t bytes[WIRE_RECORD_MAX];

	r.record.stamp = 0;
	ck_assert_int_eq(wire_resolve_decode(bytes, wire_resolve_encode(bytes, &r), &r), -EBADMSG);
}
END_TEST

START_TEST(resolve_encode__longest_record_fits)
{
	struct wire_resolve r = { .type = WIRE_RECORD, .record = { RECORD, .n_addrs = 8 } }, back;
	uint8_t bytes[WIRE_RECORD_MAX];
	size_t len;

	for (uint8_t i = 0; i < 8; i++) {
		r.record.addrs[i] = (struct wire_record_addr){ .backend = i, .len = 104 };
		memset(r.record.addrs[i].blob, 0xf0 + i, 104);
	}
	len = wire_resolve_encode(bytes, &r);
	ck_assert_uint_eq(len, 89 + 8 * 106);
	ck_assert_int_eq(wire_resolve_decode(bytes, len, &back), 0);
	check_same(&back, &r);
}
END_TEST

/* As many as a datagram has room for; and one more. */
START_TEST(resolve_encode__longest_digest_fits)
{
	uint8_t named[WIRE_NAMED_MAX * WIRE_NAMED_LEN], bytes[WIRE_RECORD_MAX + WIRE_NAMED_LEN];
	struct wire_resolve r = {.type = WIRE_DIGEST, .asker = 1, .named = named,
		.n_named = WIRE_NAMED_MAX}, back;
	size_t len;

	for (uint32_t i = 0; i < WIRE_NAMED_MAX; i++)
		wire_named_put(named, i, i + 1, ~(uint64_t)i);
	len = wire_resolve_encode(bytes, &r);
	ck_assert_uint_eq(len, 112 + 61 * 16);
	ck_assert_int_eq(wire_resolve_decode(bytes, len, &back), 0);
	check_same(&back, &r);
	bytes[2]++;
	memcpy(bytes + len, bytes + len - WIRE_NAMED_LEN, WIRE_NAMED_LEN);
	seal(bytes, len + WIRE_NAMED_LEN);
	ck_assert_int_eq(wire_resolve_decode(bytes, len + WIRE_NAMED_LEN, &back), -EBADMSG);
}
END_TEST

START_TEST(resolve_decode__digest_without_id_or_incarnation)
{
	uint8_t bytes[WIRE_RECORD_MAX], named[sizeof(two_named)];
	struct wire_resolve r = golden[8].means, back;

	r.named = named;
	for (size_t at = 0; at < sizeof(named); at += 8) {
		memcpy(named, two_named, sizeof(named));
		memset(named + at, 0, 8);
		ck_assert_int_eq(wire_resolve_decode(bytes, wire_resolve_encode(bytes, &r), &back),
			-EBADMSG);
	}
}
END_TEST

/* A datagram that decodes has one encoding. */
START_TEST(resolve_decode__altered_packets)
{
	uint64_t random = 1;
	int good = 0;

	for (int round = 0; round < 100000; round++) {
		uint8_t bytes[WIRE_RECORD_MAX], again[WIRE_RECORD_MAX];
		size_t len = golden_bytes(&golden[round % COUNT(golden)], bytes);
		struct wire_resolve r;

		for (uint64_t n = 1 + suite_random(&random) % 2; n; n--)
			bytes[suite_random(&random) % (len < 110 ? len : 110)] =
				(uint8_t)(suite_random(&random) >> suite_random(&random) % 64);
		seal(bytes, len);
		if (wire_resolve_decode(bytes, len, &r))
			continue;
		good++;
		ck_assert_uint_eq(wire_resolve_encode(again, &r), len);
		ck_assert_mem_eq(again, bytes, len);
	}
	ck_assert_int_gt(good, 1000);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ resolve_decode__golden, COUNT(golden) },
		{ resolve_encode__golden, COUNT(golden) },
		{ resolve_decode__golden_truncated, COUNT(golden) },
		{ resolve_decode__golden_with_one_more_byte, COUNT(golden) },
		{ resolve_decode__golden_with_one_bit_altered, COUNT(golden) },
		{ resolve_decode__lies, COUNT(lies) }, { resolve_decode__no_id_or_incarnation, 1 },
		{ resolve_decode__member_without_id, 1 },
		{ resolve_decode__digest_without_id_or_incarnation, 1 },
		{ resolve_encode__longest_digest_fits, 1 },
		{ resolve_encode__longest_record_fits, 1 }, { resolve_decode__altered_packets, 1 },
		{ NULL, 0 },
	};

	return suite_run_loops("wire_resolve", loops);
}
