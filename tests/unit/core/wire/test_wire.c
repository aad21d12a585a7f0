/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets: golden ones of every type decode to what they mean and encode to the same bytes;
 * cut off, altered or lying ones are refused; random ones survive a round trip.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/wire/record.h"
#include "core/wire/wire.h"
#include "golden.h"
#include "hex.h"
#include "ripc/ripc.h"
#include "suite.h"
#include "util/bytes.h"
#include "util/hash/crc32c.h"
#include "wire_lies.h"

#define PACKET_MAX 4096
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The meaning of a packet: more than struct wire_packet, which points into a datagram. */
struct meaning {
	struct wire_packet p;
	uint64_t lens[RIPC_ITEMS_MAX], keys[2 * RIPC_ITEMS_MAX];
	struct wire_return offers[WIRE_RETURNS_MAX];
	const char *payload;
};

struct golden {
	const char *name, *hex;
	struct meaning means;
};

#define HEADER(t, f, tok, num)                                                       \
	.h = {.version = WIRE_VERSION, .type = t, .flags = f, .src = 0x1122334455667788, \
		.dst = 0x99aabbccddeeff00, .token = tok, .number = num}
#define TOKEN 0x0102030405060708
#define SOME_HELLO                                                                   \
	.hello = {.token = 0x0a0b0c0d0e0f1011, .service = 0x1234,                    \
		.context = 0x5151515151515151, .to_service = 0x4321,                 \
		.proof = 0x7777777766666666, .unasked = 65536}
#define A_STREAM .stream = {0xff0000000000beef, 0x0a0b0c0d0e0f1011, 0x100000002a}
#define STAMPS   .stamp = 0x11223344, .echo = 0x55667788
#define SOME_ACK .ack = {.number = 41, .status = 105, .also = 0x8000000000000005, \
		.echo = 0x0e0d0c0b}

static const struct golden golden[] = {
	{ "short, one item", GOLDEN_SHORT_ONE,
	  { .p = { HEADER(WIRE_SHORT, 0, TOKEN, 42), .n_items = 1 },
	    .lens = {12}, .payload = "hello, world" } },
	{ "short, one empty item", GOLDEN_SHORT_EMPTY,
	  { .p = { HEADER(WIRE_SHORT, 0, TOKEN, 42), .n_items = 1 } } },
	{ "short, three items, all extensions", GOLDEN_SHORT_THREE,
	  { .p = { HEADER(WIRE_SHORT, WIRE_F_HELLO | WIRE_F_ACK | WIRE_F_LENDS | WIRE_F_REPLIES,
			TOKEN, 42), SOME_HELLO, SOME_ACK, .lends = 0xbeef, .replies = 0xfeed,
		   .n_items = 3 }, .lens = {5, 0, 2}, .payload = "abcdefg" } },
	{ "short, offers a return buffer", GOLDEN_SHORT_RETURNS,
	  { .p = { HEADER(WIRE_SHORT, WIRE_F_LENDS | WIRE_F_RETURNS, TOKEN, 42), .lends = 0xbeef,
		   .n_returns = 2, .n_items = 1 }, .lens = {6},
	    .offers = {{0}, {0x100000, 0x7f0000600000, 0x1234abcd}}, .payload = "get it" } },
	{ "short, to a group", GOLDEN_SHORT_GROUP,
	  { .p = { HEADER(WIRE_SHORT, WIRE_F_LENDS | WIRE_F_CALL, TOKEN, 42),
		   .lends = 0xff0000000000beef, .call = {WIRE_CALL_GROUP, 0}, .n_items = 1 },
	    .lens = {4}, .payload = "news" } },
	{ "announce, written", GOLDEN_ANNOUNCE_WRITTEN,
	  { .p = { HEADER(WIRE_ANNOUNCE, WIRE_F_REPLIES | WIRE_F_LAST, TOKEN, 42),
		   .replies = 0xbeef, .n_items = 2, .announce = {.total = 0x10000c, .oldest = 42,
			   .n_items = 2, .unasked = 12, .sum = 0x3ad05b13, .keys = 3,
			   STAMPS} },
	    .lens = {12, 0x100000}, .payload = "here it is: " } },
	{ "announce, the reply to a request", GOLDEN_ANNOUNCE_REPLY,
	  { .p = { HEADER(WIRE_ANNOUNCE, WIRE_F_REPLIES | WIRE_F_CALL | WIRE_F_LAST, TOKEN,
		   WIRE_REPLIES + 42), .replies = 0xbeef, .call = {WIRE_CALL_ANSWERS, 0},
		   .n_items = 1, .announce = {.total = 4, .oldest = WIRE_REPLIES + 40,
			   .n_items = 1, .unasked = 4, .sum = 0x53620cb, STAMPS} },
	    .lens = {4}, .payload = "done" } },
	{ "announce, alone", GOLDEN_ANNOUNCE,
	  { .p = { HEADER(WIRE_ANNOUNCE, 0, 0, 42), .n_items = 2,
		   .announce = {.total = 0x123456789a, .oldest = 40, .n_items = 2,
			   .unasked = 65536, STAMPS} },
	    .lens = {0x1234567890, 10} } },
	{ "announce, ordered", GOLDEN_ANNOUNCE_ORDERED,
	  { .p = { HEADER(WIRE_ANNOUNCE, WIRE_F_ORDERED, TOKEN, 42), .previous = 40, .n_items = 2,
		   .announce = {.total = 0x123456789a, .oldest = 39, .n_items = 2,
			   .unasked = 65536, STAMPS} },
	    .lens = {0x1234567890, 10} } },
	{ "announce, whole message, first contact", GOLDEN_ANNOUNCE_WHOLE,
	  { .p = { HEADER(WIRE_ANNOUNCE, WIRE_F_HELLO | WIRE_F_LENDS | WIRE_F_LAST, 0, 42),
		   SOME_HELLO, .lends = 0xbeef, .n_items = 3,
		   .announce = {.total = 9, .oldest = 42, .n_items = 3, .unasked = 9,
			   .sum = 0x44ec5a2e, STAMPS} },
	    .lens = {4, 0, 5}, .payload = "long text" } },
	{ "announce with keys", GOLDEN_ANNOUNCE_KEYS,
	  { .p = { HEADER(WIRE_ANNOUNCE, WIRE_F_REPLIES, TOKEN, 42), .replies = 0xfeed,
		   .n_items = 2, .announce = {.total = 0x30000, .oldest = 42, .n_items = 2,
			   .keys = 1, STAMPS} },
	    .lens = {0x10000, 0x20000},
	    .keys = {0x7f0000200000, 0xabcd, 0x7f0000400000, 0xef01} } },
	{ "data", GOLDEN_DATA,
	  { .p = { HEADER(WIRE_DATA, 0, TOKEN, 42), .offset = 0x100000000,
		   .echo = 0x55667788 },
	    .payload = "some bytes in the middle" } },
	{ "data, last", GOLDEN_DATA_LAST,
	  { .p = { HEADER(WIRE_DATA, WIRE_F_LAST, TOKEN, 42), .offset = 0x1000,
		   .sum = 0xcafebabe }, .payload = "the end" } },
	{ "pull, no holes", GOLDEN_PULL,
	  { .p = { HEADER(WIRE_PULL, 0, TOKEN, 42),
		   .pull = {.have = 0x10000, .limit = 0x30000, STAMPS} } } },
	{ "pull, two holes, ack", GOLDEN_PULL_HOLES,
	  { .p = { HEADER(WIRE_PULL, WIRE_F_ACK, TOKEN, 42), SOME_ACK,
		   .pull = {.have = 0x1000, .limit = 0x30000, .n_holes = 2, STAMPS,
			   .holes = {{0x1000, 0x1578}, {0x2000, 0x2001}}} } } },
	{ "pull, busy", GOLDEN_PULL_BUSY,
	  { .p = { HEADER(WIRE_PULL, WIRE_F_HELLO, TOKEN, 42), SOME_HELLO,
		   .pull = {.busy = 1, STAMPS} } } },
	{ "answer, delivered", GOLDEN_ANSWER,
	  { .p = { HEADER(WIRE_ANSWER, 0, TOKEN, 42), .ack = {42, 0, 0xff, 0x0e0d0c0b} } } },
	{ "answer, refused", GOLDEN_ANSWER_REFUSED,
	  { .p = { HEADER(WIRE_ANSWER, 0, TOKEN, 42), .ack = {42, 90, 0, 0} } } },
	{ "cancel", GOLDEN_CANCEL,
	  { .p = { HEADER(WIRE_CANCEL, 0, TOKEN, 42), .announce = {.oldest = 39} } } },
	{ "hello only", GOLDEN_HELLO_ONLY,
	  { .p = { HEADER(WIRE_HELLO_ONLY, WIRE_F_HELLO, TOKEN, 0), SOME_HELLO } } },
	{ "retry", GOLDEN_RETRY,
	  { .p = { HEADER(WIRE_RETRY, 0, 0, 0), .value = 0xfedcba9876543210 } } },
	{ "echo", GOLDEN_ECHO,
	  { .p = { HEADER(WIRE_ECHO, 0, TOKEN, 0), .value = 0x0123456789abcdef,
		   .stamp = 0x0005f5e100000000 } } },
	{ "echo reply", GOLDEN_ECHO_REPLY,
	  { .p = { HEADER(WIRE_ECHO_REPLY, 0, TOKEN, 0), .value = 0x0123456789abcdef,
		   .stamp = 0x0005f5e100000000 } } },
	{ "gone", GOLDEN_GONE, { .p = { HEADER(WIRE_GONE, 0, 0, 0), .value = TOKEN } } },
	{ "stream", GOLDEN_STREAM, { .p = { HEADER(WIRE_STREAM, 0, TOKEN, 0), A_STREAM } } },
	{ "heard", GOLDEN_HEARD, { .p = { HEADER(WIRE_HEARD, 0, TOKEN, 0), A_STREAM } } },
	{ "abort", GOLDEN_ABORT,
	  { .p = { HEADER(WIRE_ABORT, 0, 0, 0x0a0b0c0d0e0f1011), .value = 4 } } },
};

/* ---- comparing --------------------------------------------------------------------------- */

static void check_header(const struct wire_header *h, const struct wire_header *want)
{
	ck_assert_uint_eq(h->version, want->version);
	ck_assert_uint_eq(h->type, want->type);
	ck_assert_uint_eq(h->flags, want->flags);
	ck_assert_uint_eq(h->src, want->src);
	ck_assert_uint_eq(h->dst, want->dst);
	ck_assert_uint_eq(h->token, want->token);
	ck_assert_uint_eq(h->number, want->number);
}

static void check_hello(const struct wire_hello *hello, const struct wire_hello *want)
{
	ck_assert_uint_eq(hello->token, want->token);
	ck_assert_uint_eq(hello->service, want->service);
	ck_assert_uint_eq(hello->context, want->context);
	ck_assert_uint_eq(hello->to_service, want->to_service);
	ck_assert_uint_eq(hello->proof, want->proof);
	ck_assert_uint_eq(hello->unasked, want->unasked);
}

static void check_ack(const struct wire_ack *ack, const struct wire_ack *want)
{
	ck_assert_uint_eq(ack->number, want->number);
	ck_assert_uint_eq(ack->status, want->status);
	ck_assert_uint_eq(ack->also, want->also);
	ck_assert_uint_eq(ack->echo, want->echo);
}

static void check_items(const struct wire_packet *p, const struct meaning *want)
{
	ck_assert_uint_eq(p->n_items, want->p.n_items);
	for (uint32_t i = 0; i < p->n_items; i++)
		ck_assert_uint_eq(wire_item_len(p, i), want->lens[i]);
}

static bool has_keys(const struct wire_announce *announce)
{
	return wire_has_keys(announce->keys);
}

static void check_returns(const struct wire_packet *p, const struct meaning *want)
{
	ck_assert_uint_eq(p->n_returns, want->p.n_returns);
	for (uint32_t i = 0; i < p->n_returns; i++) {
		struct wire_return found;

		wire_return_at(p, i, &found);
		ck_assert_uint_eq(found.len, want->offers[i].len);
		ck_assert_uint_eq(found.address, want->offers[i].address);
		ck_assert_uint_eq(found.key, want->offers[i].key);
	}
}

static void check_announce(const struct wire_packet *p, const struct meaning *want)
{
	const struct wire_announce *announce = &want->p.announce;

	ck_assert_uint_eq(p->announce.total, announce->total);
	ck_assert_uint_eq(p->announce.oldest, announce->oldest);
	ck_assert_uint_eq(p->announce.n_items, announce->n_items);
	ck_assert_uint_eq(p->announce.unasked, announce->unasked);
	ck_assert_uint_eq(p->announce.sum, announce->sum);
	ck_assert_uint_eq(p->announce.keys, announce->keys);
	ck_assert_uint_eq(p->announce.stamp, announce->stamp);
	ck_assert_uint_eq(p->announce.echo, announce->echo);
	for (uint32_t i = 0; has_keys(announce) && i < p->n_items; i++) {
		uint64_t address, key;

		wire_item_key(p, i, &address, &key);
		ck_assert_uint_eq(address, want->keys[2 * i]);
		ck_assert_uint_eq(key, want->keys[2 * i + 1]);
	}
}

static void check_pull(const struct wire_pull *pull, const struct wire_pull *want)
{
	ck_assert_uint_eq(pull->have, want->have);
	ck_assert_uint_eq(pull->limit, want->limit);
	ck_assert_uint_eq(pull->n_holes, want->n_holes);
	ck_assert_uint_eq(pull->busy, want->busy);
	ck_assert_uint_eq(pull->stamp, want->stamp);
	ck_assert_uint_eq(pull->echo, want->echo);
	for (uint32_t i = 0; i < pull->n_holes; i++) {
		ck_assert_uint_eq(pull->holes[i].start, want->holes[i].start);
		ck_assert_uint_eq(pull->holes[i].end, want->holes[i].end);
	}
}

static void check_body(const struct wire_packet *p, const struct meaning *want)
{
	switch (p->h.type) {
	case WIRE_ANNOUNCE:
		check_announce(p, want);
		break;
	case WIRE_DATA:
		ck_assert_uint_eq(p->offset, want->p.offset);
		ck_assert_uint_eq(p->sum, want->p.sum);
		break;
	case WIRE_PULL:
		check_pull(&p->pull, &want->p.pull);
		break;
	case WIRE_ANSWER:
		check_ack(&p->ack, &want->p.ack);
		break;
	case WIRE_CANCEL:
		ck_assert_uint_eq(p->announce.oldest, want->p.announce.oldest);
		break;
	case WIRE_ECHO:
	case WIRE_ECHO_REPLY:
		ck_assert_uint_eq(p->stamp, want->p.stamp);
		ck_assert_uint_eq(p->value, want->p.value);
		break;
	case WIRE_RETRY:
	case WIRE_GONE:
	case WIRE_ABORT:
		ck_assert_uint_eq(p->value, want->p.value);
		break;
	}
}

static void check_stream(const struct wire_stream *stream, const struct wire_stream *want)
{
	ck_assert_uint_eq(stream->group, want->group);
	ck_assert_uint_eq(stream->token, want->token);
	ck_assert_uint_eq(stream->number, want->number);
}

static void check_meaning(const struct wire_packet *p, const struct meaning *want)
{
	check_header(&p->h, &want->p.h);
	if (p->h.flags & WIRE_F_HELLO)
		check_hello(&p->hello, &want->p.hello);
	if (p->h.flags & WIRE_F_ACK)
		check_ack(&p->ack, &want->p.ack);
	ck_assert_uint_eq(p->lends, want->p.lends);
	ck_assert_uint_eq(p->replies, want->p.replies);
	ck_assert_uint_eq(wire_previous(p), want->p.previous);
	if (p->h.type == WIRE_STREAM || p->h.type == WIRE_HEARD)
		check_stream(&p->stream, &want->p.stream);
	check_returns(p, want);
	check_items(p, want);
	check_body(p, want);
}

/* ---- helpers ----------------------------------------------------------------------------- */

static size_t golden_bytes(const struct golden *g, uint8_t *bytes)
{
	return hex_bytes(g->hex, bytes);
}

/* Encodes and seals a packet with its payload. Returns its length. */
static size_t whole_packet(uint8_t *bytes, const struct meaning *m, const void *payload, size_t len)
{
	bool has_lens = m->p.h.type == WIRE_ANNOUNCE || m->p.n_items > 1;
	struct wire_packet p = m->p;
	size_t prefix;

	p.offers = m->offers;
	prefix = wire_encode(bytes, &p, has_lens ? m->lens : NULL,
		has_keys(&p.announce) ? m->keys : NULL);
	wire_checksum(bytes, prefix, ripc__crc32c(0, payload, len));
	if (len)
		memcpy(bytes + prefix, payload, len);
	return prefix + len;
}

static bool is_good(const uint8_t *bytes, size_t len)
{
	struct wire_packet p;

	return wire_decode(bytes, len, &p) == 0 &&
		wire_verify(&p, ripc__crc32c(0, p.payload, p.payload_len));
}

static const struct golden *golden_named(const char *name)
{
	for (size_t i = 0; i < COUNT(golden); i++) {
		if (strcmp(golden[i].name, name) == 0)
			return &golden[i];
	}
	ck_abort_msg("no golden packet \"%s\"", name);
	return NULL;
}

/* ---- golden packets ---------------------------------------------------------------------- */

START_TEST(decode__golden)
{
	const struct golden *g = &golden[_i];
	const char *payload = g->means.payload ? g->means.payload : "";
	uint8_t bytes[PACKET_MAX];
	size_t len = golden_bytes(g, bytes);
	struct wire_packet p;
	struct wire_header h;

	ck_assert_int_eq(wire_decode(bytes, len, &p), 0);
	check_meaning(&p, &g->means);
	ck_assert_uint_eq(p.payload_len, strlen(payload));
	ck_assert_int_eq(memcmp(p.payload, payload, strlen(payload)), 0);
	ck_assert_ptr_eq(p.prefix, bytes);
	ck_assert_uint_eq(p.prefix_len + p.payload_len, len);
	ck_assert(wire_verify(&p, ripc__crc32c(0, payload, strlen(payload))));
	ck_assert_int_eq(wire_decode_header(bytes, len, &h), 0);
	check_header(&h, &g->means.p.h);
}
END_TEST

START_TEST(encode__golden)
{
	const struct golden *g = &golden[_i];
	const char *payload = g->means.payload ? g->means.payload : "";
	uint8_t bytes[PACKET_MAX], ours[PACKET_MAX];
	size_t len = golden_bytes(g, bytes);

	memset(ours, 0xee, sizeof(ours));
	ck_assert_uint_eq(whole_packet(ours, &g->means, payload, strlen(payload)), len);
	ck_assert_mem_eq(ours, bytes, len);
	ck_assert_uint_eq(ours[len], 0xee);
}
END_TEST

START_TEST(decode__golden_truncated)
{
	uint8_t bytes[PACKET_MAX] = {0};
	size_t len = golden_bytes(&golden[_i], bytes);

	ck_assert(is_good(bytes, len));
	for (size_t cut = 0; cut < len; cut++) {
		uint8_t *exact = malloc(cut ? cut : 1); /* makes reads beyond the end visible */

		ck_assert_ptr_nonnull(exact);
		memcpy(exact, bytes, cut);
		ck_assert_msg(!is_good(exact, cut), "cut to %zu bytes", cut);
		free(exact);
	}
}
END_TEST

START_TEST(decode__golden_with_one_more_byte)
{
	uint8_t bytes[PACKET_MAX];
	size_t len = golden_bytes(&golden[_i], bytes);
	uint8_t type = bytes[1];
	struct wire_packet p;

	bytes[len] = 0;
	ck_assert(!is_good(bytes, len + 1));
	if (type != WIRE_SHORT && type != WIRE_ANNOUNCE && type != WIRE_DATA)
		ck_assert_int_eq(wire_decode(bytes, len + 1, &p), -EBADMSG);
}
END_TEST

START_TEST(verify__golden_with_one_bit_altered)
{
	uint8_t bytes[PACKET_MAX];
	size_t len = golden_bytes(&golden[_i], bytes);

	for (size_t bit = 0; bit < 8 * len; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_msg(!is_good(bytes, len), "bit %zu", bit);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	ck_assert(is_good(bytes, len));
}
END_TEST

/* ---- lies -------------------------------------------------------------------------------- */

START_TEST(decode__lies)
{
	const struct lie *lie = &lies[_i];
	uint8_t bytes[PACKET_MAX], value[8];
	size_t len = golden_bytes(golden_named(lie->golden), bytes);
	struct wire_packet p;
	int result;

	put64(value, lie->value);
	memcpy(bytes + lie->at, value, lie->n);
	result = wire_decode(bytes, len, &p);
	ck_assert_msg(result == lie->result, "%s, %s: %d", lie->golden, lie->what, result);
	if (result == -EPROTONOSUPPORT)
		ck_assert_uint_eq(p.h.src, 0x1122334455667788);
}
END_TEST

START_TEST(decode_header__foreign_version)
{
	uint8_t bytes[PACKET_MAX];
	struct wire_header h = {0};

	golden_bytes(golden_named("short, three items, all extensions"), bytes);
	bytes[0] = 7;
	ck_assert_int_eq(wire_decode_header(bytes, WIRE_HEADER - 1, &h), -EBADMSG);
	ck_assert_uint_eq(h.src, 0);
	ck_assert_int_eq(wire_decode_header(bytes, WIRE_HEADER, &h), 0);
	ck_assert_uint_eq(h.version, 7);
	ck_assert_uint_eq(h.flags, 0x030f); /* nobody knows what these mean */
	ck_assert_uint_eq(h.src, 0x1122334455667788);
	ck_assert_uint_eq(h.dst, 0x99aabbccddeeff00);
	ck_assert_uint_eq(h.token, TOKEN);
}
END_TEST

START_TEST(encode__prefix_max_suffices)
{
	struct meaning m = { .p = { HEADER(WIRE_ANNOUNCE, WIRE_F_KNOWN, 1, 1), .n_items = 64,
		SOME_HELLO, SOME_ACK,
		.n_returns = WIRE_RETURNS_MAX, .lends = 1, .replies = 1,
		.call = {WIRE_CALL_ASKS, 1},
		.announce = {.n_items = 64, .keys = 1, .total = 64} } };
	uint8_t bytes[WIRE_PREFIX_MAX];
	struct wire_packet p;
	size_t len;

	for (int i = 0; i < 64; i++)
		m.lens[i] = 1;
	len = whole_packet(bytes, &m, NULL, 0);
	ck_assert_uint_eq(len, WIRE_PREFIX_MAX);
	ck_assert_int_eq(wire_decode(bytes, len, &p), 0);
	check_meaning(&p, &m);
}
END_TEST

/* ---- random packets ---------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t any(void)
{
	return suite_random(&random_state);
}

/* Small and huge values alike. */
static uint64_t any_size(void)
{
	return any() >> any() % 64;
}

static void random_items(struct meaning *m, size_t *payload_len)
{
	uint64_t total = 0;

	m->p.n_items = 1 + any() % RIPC_ITEMS_MAX;
	for (uint32_t i = 0; i < m->p.n_items; i++) {
		m->lens[i] = any() % 3 ? any() % 20 : 0;
		total += m->lens[i];
	}
	*payload_len = total;
	m->p.announce = (struct wire_announce){.total = total, .oldest = any(),
		.n_items = m->p.n_items, .unasked = (uint32_t)(total + any() % 100),
		.keys = any() % (m->p.h.flags & WIRE_F_REPLIES ? 4 : 3),
		.sum = m->p.h.flags & WIRE_F_LAST ? (uint32_t)any() : 0,
		.stamp = (uint32_t)any(), .echo = (uint32_t)any()};
	if (!(m->p.h.flags & WIRE_F_LAST) && any() % 4 == 0)
		m->p.announce.keys = WIRE_KEYS_SUMMING;
	if (m->p.h.type == WIRE_ANNOUNCE)
		*payload_len = any() % (total + 1);
}

static void random_returns(struct meaning *m)
{
	if (!m->p.lends)
		m->p.h.flags &= (uint16_t)~WIRE_F_RETURNS;
	if (!(m->p.h.flags & WIRE_F_RETURNS))
		return;
	m->p.n_returns = 1 + any() % WIRE_RETURNS_MAX;
	for (uint32_t i = 0; i < m->p.n_returns; i++) {
		m->offers[i] = (struct wire_return){0};
		if (any() % 3)
			m->offers[i] = (struct wire_return){1 + any_size() / 2, any(), any()};
	}
}

static void random_holes(struct wire_pull *pull)
{
	uint64_t at = any_size() / 2;

	*pull = (struct wire_pull){.have = any_size(), .limit = any_size(), .busy = any() % 2,
		.stamp = (uint32_t)any(), .echo = (uint32_t)any(),
		.n_holes = any() % (WIRE_HOLES_MAX + 1)};
	for (uint32_t i = 0; i < pull->n_holes; i++) {
		pull->holes[i].start = at + any() % 3000;
		pull->holes[i].end = at = pull->holes[i].start + 1 + any() % 3000;
	}
}

static void random_meaning(struct meaning *m, size_t *payload_len)
{
	static const uint16_t allowed[] = { 0, 47, 63, 19, 3, 1, 3, 3, 0, 3, 3, 0, 0, 3, 3 };
	uint8_t type = (uint8_t)(1 + any() % (WIRE_TYPE_END - 1));
	struct wire_packet *p = &m->p;

	_Static_assert(sizeof(allowed) / sizeof(allowed[0]) == WIRE_TYPE_END, "flags of each type");
	*p = (struct wire_packet){.h = {.version = WIRE_VERSION, .type = type,
			.flags = (uint16_t)any() & allowed[type], .src = any(), .dst = any(),
			.token = any(), .number = any_size() | 1},
		.hello = {any(), any() & INT64_MAX, any(), any() & INT64_MAX, any(),
			(uint32_t)any(), 0},
		.ack = {any_size() | 1, any() % 4096, any(), (uint32_t)any()},
		.value = any(), .stamp = any(),
		.stream = {any() | 0xffull << 56, any() | 1, any_size() | 1}};
	p->lends = p->h.flags & WIRE_F_LENDS ? any() : 0;
	p->replies = p->h.flags & WIRE_F_REPLIES ? any() : 0;
	if (type == WIRE_HELLO_ONLY || type == WIRE_ECHO || type == WIRE_ECHO_REPLY ||
			type == WIRE_STREAM || type == WIRE_HEARD)
		p->h.number = 0;
	if (type == WIRE_ANSWER)
		p->ack.number = p->h.number;
	random_returns(m);
	*payload_len = 0;
	if (type == WIRE_SHORT || type == WIRE_ANNOUNCE)
		random_items(m, payload_len);
	if (type == WIRE_DATA) {
		*payload_len = any() % 1400;
		p->offset = any_size() / 2;
		*(p->h.flags & WIRE_F_LAST ? &p->sum : &p->echo) = (uint32_t)any();
	}
	if (type == WIRE_PULL)
		random_holes(&p->pull);
}

START_TEST(encode__random_packets_come_back)
{
	random_state = 1;
	for (int round = 0; round < 20000; round++) {
		uint8_t bytes[PACKET_MAX], payload[2000];
		size_t payload_len, len;
		struct meaning m;
		struct wire_packet p;

		random_meaning(&m, &payload_len);
		for (int i = 0; i < 2 * RIPC_ITEMS_MAX; i++)
			m.keys[i] = any();
		for (size_t i = 0; i < payload_len; i++)
			payload[i] = (uint8_t)any();
		len = whole_packet(bytes, &m, payload, payload_len);
		ck_assert_int_eq(wire_decode(bytes, len, &p), 0);
		check_meaning(&p, &m);
		ck_assert_uint_eq(p.payload_len, payload_len);
		ck_assert_int_eq(memcmp(p.payload, payload, payload_len), 0);
		ck_assert(wire_verify(&p, ripc__crc32c(0, payload, payload_len)));
	}
}
END_TEST

/* A packet that decodes has one encoding: all its bytes are read. */
static void check_same_again(const uint8_t *bytes, size_t len)
{
	uint8_t again[PACKET_MAX];
	struct meaning m;

	if (wire_decode(bytes, len, &m.p))
		return;
	for (uint32_t i = 0; i < m.p.n_items; i++) {
		m.lens[i] = wire_item_len(&m.p, i);
		if (m.p.h.type == WIRE_ANNOUNCE && has_keys(&m.p.announce))
			wire_item_key(&m.p, i, &m.keys[2 * i], &m.keys[2 * i + 1]);
	}
	for (uint32_t i = 0; i < m.p.n_returns; i++)
		wire_return_at(&m.p, i, &m.offers[i]);
	if (m.p.h.type != WIRE_ANNOUNCE)
		m.p.announce.keys = 0;
	ck_assert_uint_eq(whole_packet(again, &m, m.p.payload, m.p.payload_len), len);
	if (m.p.h.type == WIRE_ABORT)
		again[0] = m.p.h.version; /* the only one that is read in any version */
	memcpy(again + 4, bytes + 4, 4);
	ck_assert_mem_eq(again, bytes, len);
}

START_TEST(decode__altered_packets)
{
	random_state = 2;
	for (int round = 0; round < 200000; round++) {
		uint8_t bytes[PACKET_MAX];
		size_t len = golden_bytes(&golden[any() % COUNT(golden)], bytes);

		for (uint64_t n = 1 + any() % 3; n; n--) {
			size_t at = any() % 2 ? any() % len : WIRE_HEADER + any() % 40;

			if (at < len)
				bytes[at] = any() % 2 ? (uint8_t)any() : (uint8_t)(any() % 4);
		}
		check_same_again(bytes, any() % 4 ? len : any() % (len + 1));
	}
}
END_TEST

/* ---- requests and answers of one item ---------------------------------------------------- */

#define GROUP (0xffull << 56)

static const struct plain_call {
	uint64_t id;
	struct wire_call is;
	int result; /* of decoding it */
} plain_calls[] = {
	{ 7, {WIRE_CALL_ASKS, 0}, 0 }, { 7, {WIRE_CALL_ASKS, 1}, 0 },
	{ 7, {WIRE_CALL_ANSWERS, 0}, 0 }, { 7, {WIRE_CALL_FAILS, 1}, 0 },
	{ UINT64_MAX, {WIRE_CALL_FAILS, 4095}, 0 },
	{ 0, {WIRE_CALL_ASKS, 0}, -EBADMSG }, { 7, {WIRE_CALL_ASKS, 2}, -EBADMSG },
	{ 0, {WIRE_CALL_ANSWERS, 0}, -EBADMSG }, { 7, {WIRE_CALL_ANSWERS, 1}, -EBADMSG },
	{ 0, {WIRE_CALL_FAILS, 1}, -EBADMSG }, { 7, {WIRE_CALL_FAILS, 0}, -EBADMSG },
	{ 7, {WIRE_CALL_FAILS, 4096}, -EBADMSG }, { 7, {5, 0}, -EBADMSG },
	{ GROUP, {WIRE_CALL_GROUP, 0}, 0 }, { GROUP, {WIRE_CALL_GROUP, 1}, 0 },
	{ 7, {WIRE_CALL_GROUP, 0}, -EBADMSG }, { GROUP, {WIRE_CALL_ASKS, 0}, 0 },
	{ 7, {0, 0}, -EBADMSG },
};

/* The packets are written and read by a shorter way, to the same bytes. */
START_TEST(encode_call__as_any_packet)
{
	const struct plain_call *call = &plain_calls[_i];
	bool lends = !wire_answers(&call->is);
	struct wire_packet p, packet = {HEADER(WIRE_SHORT, WIRE_F_CALL | (lends ? WIRE_F_LENDS :
		WIRE_F_REPLIES), TOKEN, 42), .n_items = 1, .call = call->is};
	uint8_t bytes[WIRE_CALL_PLAIN + 3], same[WIRE_CALL_PLAIN];

	*(lends ? &packet.lends : &packet.replies) = call->id;
	wire_encode_call(bytes, &packet.h, call->id, &call->is);
	memcpy(bytes + WIRE_CALL_PLAIN, "abc", 3);
	ck_assert_uint_eq(wire_encode(same, &packet, NULL, NULL), sizeof(same));
	ck_assert_mem_eq(bytes, same, sizeof(same));
	for (size_t len = 0; len < WIRE_CALL_PLAIN; len++)
		ck_assert_int_eq(wire_decode(bytes, len, &p), -EBADMSG);
	ck_assert_int_eq(wire_decode(bytes, sizeof(bytes), &p), call->result);
	if (call->result)
		return;
	ck_assert_uint_eq(p.lends, packet.lends);
	ck_assert_uint_eq(p.replies, packet.replies);
	ck_assert_uint_eq(p.call.kind, call->is.kind);
	ck_assert_uint_eq(p.call.value, call->is.value);
	ck_assert_uint_eq(p.prefix_len, WIRE_CALL_PLAIN);
	ck_assert_uint_eq(p.payload_len, 3);
	for (size_t at = 8; at <= 32; at += at == 16 ? 16 : 8) {
		uint8_t altered[sizeof(bytes)];

		memcpy(altered, bytes, sizeof(bytes));
		memset(altered + at, 0, 8); /* from nobody, to nobody, number 0 */
		ck_assert_int_eq(wire_decode(altered, sizeof(altered), &p), -EBADMSG);
	}
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ decode__golden, COUNT(golden) }, { encode__golden, COUNT(golden) },
		{ decode__golden_truncated, COUNT(golden) },
		{ decode__golden_with_one_more_byte, COUNT(golden) },
		{ verify__golden_with_one_bit_altered, COUNT(golden) },
		{ decode__lies, COUNT(lies) }, { decode_header__foreign_version, 1 },
		{ encode__prefix_max_suffices, 1 }, { encode__random_packets_come_back, 1 },
		{ decode__altered_packets, 1 },
		{ encode_call__as_any_packet, COUNT(plain_calls) }, { NULL, 0 },
	};

	return suite_run_loops("wire", loops);
}
