/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decodes and encodes the layouts of wire.h, and nothing else. This file owns no state.
 * docs/protocol.md, "Packets", has the same layouts as tables. Invariants:
 *
 *  - A packet that is decoded and encoded again has the same bytes: no field has two encodings, and
 *    bits without a meaning must be zero or absent.
 *  - No count, length or offset leaves this file unchecked against the datagram that holds it.
 *
 * Every packet (offsets in bytes, numbers little-endian):
 *
 *    0 u8 version   1 u8 type   2 u16 flags   4 u32 crc   8 u64 src   16 u64 dst
 *   24 u64 token   32 u64 number (RETRY, GONE, ABORT: of the packet that is answered; HELLO_ONLY,
 *      ECHO, ECHO_REPLY, STREAM, HEARD: 0; else not 0). Neither src nor dst is 0, but in an ABORT
 *   40 extensions, in this order, each if its flag is set:
 *      HELLO   u64 token, u64 service, u64 context, u64 to_service, u64 proof, u32 unasked,
 *              u32 zero; the first four are not 0, and no ID is that of a group
 *      ACK     u64 number (not 0), u32 status (an errno, below 4096), u64 also, u32 echo
 *      LENDS   u64 id; REPLIES the same
 *      RETURNS (only with LENDS) u32 n (1 to 8), u32 zero, then u64 length, u64 address, u64 key
 *              per buffer; all zero if its length is
 *      ORDERED u64 number of the ordered message before it, less than its own; 0: none
 *      CALL    u32 kind: 1 (only with LENDS), 2 or 3 (only with REPLIES), 4 (only with LENDS that
 *              is the ID of a group, and without RETURNS and REPLIES); u32 value: with kind 1
 *              0 or 1, with 2 zero, with 3 an errno (1 to 4095), with 4 any in a SHORT, else zero
 *   then the body of the type:
 *      SHORT      nothing if there is one item, else u16 length per item. The number of items,
 *                 1 to 64, is the upper byte of flags. The lengths' sum is the payload's length.
 *      ANNOUNCE   u64 total, u64 oldest, u32 n_items (1 to 64), u32 unasked, u32 sum (zero
 *                 without LAST), u32 keys (0 to 2, with REPLIES 3, without LAST 4), u32 stamp,
 *                 u32 echo, u64 length per item (sum: total); with keys 1, 2 or 4: u64 address,
 *                 u64 key per item
 *      DATA       u64 offset, u32 sum (with LAST; else echo)
 *      PULL       u64 have, u64 limit, u32 n_holes (at most 48), u32 busy (0 to 2), u32 stamp,
 *                 u32 echo, u64 start, u64 end per hole, ascending, none empty or overlapping
 *      ANSWER     as the ACK extension, with the header's number
 *      CANCEL     u64 oldest; RETRY: u64 proof; HELLO_ONLY: nothing
 *      ECHO, ECHO_REPLY  u64 nonce, u64 stamp
 *      GONE       u64 microseconds that it has not been here
 *      ABORT      u64: bit i is set if version i is understood
 *      STREAM, HEARD  u64 group (the ID of one), u64 token (not 0), u64 number (not 0 in STREAM)
 *   then the payload: SHORT, ANNOUNCE (not longer than unasked and total), DATA; else none.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "record.h"
#include "ripc/ripc.h"
#include "util/bytes.h"
#include "util/hash/crc32c.h"
#include "util/rare.h"
#include "wire.h"

/* The valid flags of each type. */
static const uint8_t flags_allowed[WIRE_TYPE_END] = {
	[WIRE_SHORT] = EXTENSIONS,
	[WIRE_ANNOUNCE] = EXTENSIONS | WIRE_F_LAST | WIRE_F_ORDERED,
	[WIRE_DATA] = WIRE_F_HELLO | WIRE_F_ACK | WIRE_F_LAST,
	[WIRE_PULL] = WIRE_F_HELLO | WIRE_F_ACK,
	[WIRE_ANSWER] = WIRE_F_HELLO,
	[WIRE_CANCEL] = WIRE_F_HELLO | WIRE_F_ACK,
	[WIRE_HELLO_ONLY] = WIRE_F_HELLO | WIRE_F_ACK,
	[WIRE_ECHO] = WIRE_F_HELLO | WIRE_F_ACK,
	[WIRE_ECHO_REPLY] = WIRE_F_HELLO | WIRE_F_ACK,
	[WIRE_GONE] = WIRE_F_ACK,
	[WIRE_STREAM] = WIRE_F_HELLO | WIRE_F_ACK,
	[WIRE_HEARD] = WIRE_F_HELLO | WIRE_F_ACK,
};

int wire_decode_header(const void *data, size_t len, struct wire_header *h)
{
	const uint8_t *at = data;

	if (len < WIRE_HEADER)
		return -EBADMSG;
	h->version = at[0];
	h->type = at[1];
	h->flags = get16(at + 2);
	h->crc = get32(at + CRC_AT);
	h->src = get64(at + 8);
	h->dst = get64(at + 16);
	h->token = get64(at + 24);
	h->number = get64(at + 32);
	if (h->version == WIRE_VERSION && h->type == WIRE_SHORT)
		h->flags &= (1 << COUNT_SHIFT) - 1;
	return 0;
}

static int decode_hello(struct wire_cursor *cursor, struct wire_hello *hello)
{
	const uint8_t *at = wire_take(cursor, WIRE_HELLO);

	if (!at || !get64(at) || !get64(at + 8) || !get64(at + 16) || !get64(at + 24) ||
			get32(at + 44) || wire_is_group(get64(at + 8)) ||
			wire_is_group(get64(at + 24)))
		return -EBADMSG;
	hello->token = get64(at);
	hello->service = get64(at + 8);
	hello->context = get64(at + 16);
	hello->to_service = get64(at + 24);
	hello->proof = get64(at + 32);
	hello->unasked = get32(at + 40);
	hello->reserved = 0;
	return 0;
}

static int decode_ack(struct wire_cursor *cursor, struct wire_ack *ack)
{
	const uint8_t *at = wire_take(cursor, WIRE_ACK);

	if (!at || !get64(at) || get32(at + 8) >= STATUS_END)
		return -EBADMSG;
	ack->number = get64(at);
	ack->status = get32(at + 8);
	ack->also = get64(at + 12);
	ack->echo = get32(at + 20);
	return 0;
}

static int decode_value(struct wire_cursor *cursor, uint64_t *value)
{
	const uint8_t *at = wire_take(cursor, 8);

	if (!at)
		return -EBADMSG;
	*value = get64(at);
	return 0;
}

static int decode_returns(struct wire_cursor *cursor, struct wire_packet *p)
{
	const uint8_t *at = wire_take(cursor, WIRE_RETURNS_LEN(0));
	uint32_t n = at ? get32(at) : 0;

	if (n == 0 || n > WIRE_RETURNS_MAX || get32(at + 4) || !(p->h.flags & WIRE_F_LENDS))
		return -EBADMSG;
	p->returns = wire_take(cursor, WIRE_RETURN * n);
	if (!p->returns)
		return -EBADMSG;
	p->n_returns = n;
	for (uint32_t i = 0; i < n; i++) {
		struct wire_return found;

		wire_return_at(p, i, &found);
		if (!found.len && (found.address || found.key))
			return -EBADMSG;
	}
	return 0;
}

/*
 * Does the call extension fit the others? LENDS has the ID of a request, or of a group; REPLIES has
 * the ID of the request that a reply answers.
 */
static inline __attribute__((always_inline)) bool call_allowed(const struct wire_packet *p)
{
	switch (p->call.kind) {
	case WIRE_CALL_ASKS:
		return p->h.flags & WIRE_F_LENDS && p->lends && p->call.value <= 1;
	case WIRE_CALL_ANSWERS:
		return p->h.flags & WIRE_F_REPLIES && p->replies && p->call.value == 0;
	case WIRE_CALL_FAILS:
		return p->h.flags & WIRE_F_REPLIES && p->replies && p->call.value &&
			p->call.value < STATUS_END;
	case WIRE_CALL_GROUP:
		return !(p->h.flags & (WIRE_F_RETURNS | WIRE_F_REPLIES)) &&
			(p->call.value == 0 || p->h.type == WIRE_SHORT) &&
			p->h.flags & WIRE_F_LENDS && wire_is_group(p->lends);
	default:
		return false;
	}
}

static int decode_call(struct wire_cursor *cursor, struct wire_packet *p)
{
	const uint8_t *at = wire_take(cursor, WIRE_CALL);

	if (!at)
		return -EBADMSG;
	p->call = (struct wire_call){get32(at), get32(at + 4)};
	return call_allowed(p) ? 0 : -EBADMSG;
}

static int decode_extensions(struct wire_cursor *cursor, struct wire_packet *p)
{
	int err = 0;

	if (p->h.flags & WIRE_F_HELLO)
		err = decode_hello(cursor, &p->hello);
	if (!err && p->h.flags & WIRE_F_ACK)
		err = decode_ack(cursor, &p->ack);
	if (!err && p->h.flags & WIRE_F_LENDS)
		err = decode_value(cursor, &p->lends);
	if (!err && p->h.flags & WIRE_F_REPLIES)
		err = decode_value(cursor, &p->replies);
	if (!err && p->h.flags & WIRE_F_RETURNS)
		err = decode_returns(cursor, p);
	if (!err && p->h.flags & WIRE_F_ORDERED)
		err = decode_value(cursor, &p->previous);
	if (!err && p->h.flags & WIRE_F_CALL)
		err = decode_call(cursor, p);
	return !err && wire_previous(p) && p->previous >= p->h.number ? -EBADMSG : err;
}

static int decode_short(struct wire_cursor *cursor, struct wire_packet *p, uint32_t n_items)
{
	uint32_t sum = 0;

	if (n_items == 0 || n_items > RIPC_ITEMS_MAX)
		return -EBADMSG;
	p->n_items = n_items;
	if (n_items == 1)
		return 0;
	p->lengths = wire_take(cursor, 2u * n_items);
	if (!p->lengths)
		return -EBADMSG;
	for (uint32_t i = 0; i < n_items; i++)
		sum += get16(p->lengths + 2 * i);
	return sum == (size_t)(cursor->end - cursor->at) ? 0 : -EBADMSG;
}

/* Is the checksum valid? Without LAST it must be zero. */
static bool sum_allowed(const struct wire_packet *p, uint32_t sum)
{
	return sum == 0 || p->h.flags & WIRE_F_LAST;
}

/*
 * Are the keys valid? WIRE_KEYS_WRITTEN is valid only in a reply, and WIRE_KEYS_SUMMING only
 * without a checksum.
 */
static bool keys_allowed(const struct wire_packet *p, uint32_t keys)
{
	return keys <= WIRE_KEYS_GIVEN ||
		(keys == WIRE_KEYS_WRITTEN && p->h.flags & WIRE_F_REPLIES) ||
		(keys == WIRE_KEYS_SUMMING && !(p->h.flags & WIRE_F_LAST));
}

static int check_announced_lengths(const struct wire_packet *p)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->n_items; i++) {
		if (__builtin_add_overflow(sum, get64(p->lengths + 8 * i), &sum))
			return -EBADMSG;
	}
	return sum == p->announce.total ? 0 : -EBADMSG;
}

static int decode_announce(struct wire_cursor *cursor, struct wire_packet *p)
{
	const uint8_t *at = wire_take(cursor, WIRE_ANNOUNCE_BODY);
	struct wire_announce *announce = &p->announce;
	size_t payload_len;

	if (!at)
		return -EBADMSG;
	announce->total = get64(at);
	announce->oldest = get64(at + 8);
	announce->n_items = get32(at + 16);
	announce->unasked = get32(at + 20);
	announce->sum = get32(at + 24);
	announce->keys = get32(at + 28);
	announce->stamp = get32(at + 32);
	announce->echo = get32(at + 36);
	if (announce->n_items == 0 || announce->n_items > RIPC_ITEMS_MAX ||
			announce->oldest > WIRE_OLDEST_MAX ||
			!keys_allowed(p, announce->keys) || !sum_allowed(p, announce->sum))
		return -EBADMSG;
	p->n_items = announce->n_items;
	p->lengths = wire_take(cursor, p->n_items * (wire_has_keys(announce->keys) ? 24u : 8u));
	if (!p->lengths)
		return -EBADMSG;
	payload_len = (size_t)(cursor->end - cursor->at);
	if (payload_len > announce->unasked || payload_len > announce->total)
		return -EBADMSG;
	return check_announced_lengths(p);
}

static int decode_data(struct wire_cursor *cursor, struct wire_packet *p)
{
	const uint8_t *at = wire_take(cursor, WIRE_DATA_BODY);

	if (!at)
		return -EBADMSG;
	p->offset = get64(at);
	p->sum = p->h.flags & WIRE_F_LAST ? get32(at + 8) : 0;
	p->echo = p->h.flags & WIRE_F_LAST ? 0 : get32(at + 8);
	return (size_t)(cursor->end - cursor->at) > UINT64_MAX - p->offset ? -EBADMSG : 0;
}

static int decode_holes(struct wire_cursor *cursor, struct wire_pull *pull)
{
	const uint8_t *at = wire_take(cursor, 16u * pull->n_holes);
	uint64_t before = 0;

	if (!at)
		return -EBADMSG;
	for (uint32_t i = 0; i < pull->n_holes; i++, at += 16) {
		struct wire_range hole = {get64(at), get64(at + 8)};

		if (hole.start < before || hole.start >= hole.end)
			return -EBADMSG;
		before = hole.end;
		pull->holes[i] = hole;
	}
	return 0;
}

static int decode_pull(struct wire_cursor *cursor, struct wire_pull *pull)
{
	const uint8_t *at = wire_take(cursor, PULL_BODY);

	if (!at)
		return -EBADMSG;
	pull->have = get64(at);
	pull->limit = get64(at + 8);
	pull->n_holes = get32(at + 16);
	pull->busy = get32(at + 20);
	pull->stamp = get32(at + 24);
	pull->echo = get32(at + 28);
	if (pull->n_holes > WIRE_HOLES_MAX || pull->busy > WIRE_NO_ROOM)
		return -EBADMSG;
	return decode_holes(cursor, pull);
}

static int decode_echo(struct wire_cursor *cursor, struct wire_packet *p)
{
	int err = decode_value(cursor, &p->value);

	return err ? err : decode_value(cursor, &p->stamp);
}

static int decode_stream(struct wire_cursor *cursor, struct wire_packet *p)
{
	const uint8_t *at = wire_take(cursor, WIRE_STREAM_BODY);

	if (!at || !wire_is_group(get64(at)) || !get64(at + 8) ||
			(p->h.type == WIRE_STREAM && !get64(at + 16)))
		return -EBADMSG;
	p->stream = (struct wire_stream){get64(at), get64(at + 8), get64(at + 16)};
	return 0;
}

/* Decodes an ANSWER, whose number is in the header, too. */
static int decode_answer(struct wire_cursor *cursor, struct wire_packet *p)
{
	if (decode_ack(cursor, &p->ack) || p->ack.number != p->h.number)
		return -EBADMSG;
	return 0;
}

static int decode_cancel(struct wire_cursor *cursor, struct wire_packet *p)
{
	int err = decode_value(cursor, &p->announce.oldest);

	return !err && p->announce.oldest > WIRE_OLDEST_MAX ? -EBADMSG : err;
}

/* Decodes the body. n_items: of a SHORT. */
static int decode_body(struct wire_cursor *cursor, struct wire_packet *p, uint32_t n_items)
{
	switch (p->h.type) {
	case WIRE_SHORT:
		return decode_short(cursor, p, n_items);
	case WIRE_ANNOUNCE:
		return decode_announce(cursor, p);
	case WIRE_DATA:
		return decode_data(cursor, p);
	case WIRE_PULL:
		return decode_pull(cursor, &p->pull);
	case WIRE_ANSWER:
		return decode_answer(cursor, p);
	case WIRE_CANCEL:
		return decode_cancel(cursor, p);
	case WIRE_ECHO:
	case WIRE_ECHO_REPLY:
		return decode_echo(cursor, p);
	case WIRE_RETRY:
	case WIRE_GONE:
	case WIRE_ABORT:
		return decode_value(cursor, &p->value);
	case WIRE_STREAM:
	case WIRE_HEARD:
		return decode_stream(cursor, p);
	default: /* HELLO_ONLY: nothing */
		return 0;
	}
}

static bool has_payload(uint8_t type)
{
	return type == WIRE_SHORT || type == WIRE_ANNOUNCE || type == WIRE_DATA;
}

/* Are the numbers valid? Messages are numbered from 1, and incarnations are not 0. */
static bool numbers_allowed(const struct wire_header *h)
{
	if (h->type == WIRE_ABORT)
		return true;
	if (!h->src || !h->dst || h->type == WIRE_RETRY || h->type == WIRE_GONE)
		return h->src && h->dst;
	return (h->number != 0) == wire_is_numbered(h->type);
}

static int check_header(const struct wire_header *h)
{
	/* ABORT is the same in every version. */
	if (h->version != WIRE_VERSION && h->type != WIRE_ABORT)
		return -EPROTONOSUPPORT;
	if (h->type == 0 || h->type >= WIRE_TYPE_END)
		return -EBADMSG;
	if (h->flags & ~WIRE_F_KNOWN)
		return -EPROTONOSUPPORT;
	return h->flags & ~flags_allowed[h->type] || !numbers_allowed(h) ? -EBADMSG : 0;
}

/* Splits a datagram into the prefix, of prefix_len decoded bytes, and the payload. */
static void split(struct wire_packet *p, const uint8_t *bytes, size_t len, size_t prefix_len)
{
	p->prefix = bytes;
	p->prefix_len = (uint32_t)prefix_len;
	p->payload = bytes + prefix_len;
	p->payload_len = (uint32_t)(len - prefix_len);
}

/* Decodes everything after the header. */
static RIPC__RARE int decode_rest(struct wire_packet *p, const uint8_t *bytes, size_t len)
{
	struct wire_cursor cursor = {bytes + WIRE_HEADER, bytes + len};
	int error = check_header(&p->h);

	if (error)
		return error;
	p->n_items = 0;
	if (decode_extensions(&cursor, p) || decode_body(&cursor, p, bytes[3]))
		return -EBADMSG;
	if (cursor.at != cursor.end && !has_payload(p->h.type))
		return -EBADMSG;
	split(p, bytes, len, (size_t)(cursor.at - bytes));
	return 0;
}

/* Is this the second most frequent case: a request or reply of one item, without extras? */
static inline bool is_plain_call(const uint8_t *bytes, size_t len)
{
	static const uint8_t asks[4] = {WIRE_VERSION, WIRE_SHORT, WIRE_F_CALL | WIRE_F_LENDS, 1};
	static const uint8_t answers[4] = {WIRE_VERSION, WIRE_SHORT,
		WIRE_F_CALL | WIRE_F_REPLIES, 1};

	return len >= WIRE_CALL_PLAIN && (memcmp(bytes, asks, sizeof(asks)) == 0 ||
		memcmp(bytes, answers, sizeof(answers)) == 0);
}

static int decode_plain_call(struct wire_packet *p, const uint8_t *bytes, size_t len)
{
	const uint8_t *at = bytes + WIRE_HEADER;

	p->call = (struct wire_call){get32(at + WIRE_REPLY), get32(at + WIRE_REPLY + 4)};
	if (p->h.flags & WIRE_F_LENDS)
		p->lends = get64(at);
	else
		p->replies = get64(at);
	split(p, bytes, len, WIRE_CALL_PLAIN);
	return call_allowed(p) && p->h.number && p->h.src && p->h.dst ? 0 : -EBADMSG;
}

extern inline int wire_decode(const void *data, size_t len, struct wire_packet *p)
{
	/* The most frequent case: one item, without extensions and body. */
	static const uint8_t plain_short[4] = {WIRE_VERSION, WIRE_SHORT, 0, 1};

	if (wire_decode_header(data, len, &p->h) || len > UINT32_MAX)
		return -EBADMSG;
	p->lends = p->replies = 0;
	p->call.kind = 0;
	p->n_returns = 0;
	p->n_items = 1;
	p->lengths = NULL;
	p->intact = false;
	p->plain = memcmp(data, plain_short, sizeof(plain_short)) == 0;
	if (!p->plain)
		return is_plain_call(data, len) ? decode_plain_call(p, data, len) :
			decode_rest(p, data, len);
	split(p, data, len, WIRE_HEADER);
	return p->h.number && p->h.src && p->h.dst ? 0 : -EBADMSG;
}

bool wire_verify(const struct wire_packet *p, uint32_t payload_crc)
{
	return p->intact ||
		ripc__crc_without_field(payload_crc, p->prefix, p->prefix_len) == p->h.crc;
}

uint64_t wire_item_len(const struct wire_packet *p, uint32_t i)
{
	if (p->h.type == WIRE_ANNOUNCE)
		return get64(p->lengths + 8 * i);
	return p->n_items == 1 ? p->payload_len : get16(p->lengths + 2 * i);
}

void wire_item_key(const struct wire_packet *p, uint32_t i, uint64_t *address, uint64_t *key)
{
	const uint8_t *at = p->lengths + 8 * p->n_items + 16 * i;

	*address = get64(at);
	*key = get64(at + 8);
}

void wire_return_at(const struct wire_packet *p, uint32_t i, struct wire_return *found)
{
	const uint8_t *at = p->returns + WIRE_RETURN * i;

	*found = (struct wire_return){get64(at), get64(at + 8), get64(at + 16)};
}

/* ---- encode ------------------------------------------------------------------------------ */

/* Encodes packets. Each function here returns the position of the next field. */

static uint8_t *encode_u64(uint8_t *at, uint64_t value)
{
	put64(at, value);
	return at + 8;
}

static uint8_t *encode_hello(uint8_t *at, const struct wire_hello *hello)
{
	put64(at, hello->token);
	put64(at + 8, hello->service);
	put64(at + 16, hello->context);
	put64(at + 24, hello->to_service);
	put64(at + 32, hello->proof);
	put32(at + 40, hello->unasked);
	put32(at + 44, 0);
	return at + WIRE_HELLO;
}

static uint8_t *encode_ack(uint8_t *at, const struct wire_ack *ack)
{
	put64(at, ack->number);
	put32(at + 8, ack->status);
	put64(at + 12, ack->also);
	put32(at + 20, ack->echo);
	return at + WIRE_ACK;
}

static uint8_t *encode_returns(uint8_t *at, const struct wire_packet *p)
{
	put32(at, p->n_returns);
	put32(at + 4, 0);
	at += WIRE_RETURNS_LEN(0);
	for (uint32_t i = 0; i < p->n_returns; i++) {
		at = encode_u64(at, p->offers[i].len);
		at = encode_u64(at, p->offers[i].address);
		at = encode_u64(at, p->offers[i].key);
	}
	return at;
}

static uint8_t *encode_call(uint8_t *at, const struct wire_call *call)
{
	put32(at, call->kind);
	put32(at + 4, call->value);
	return at + WIRE_CALL;
}

static uint8_t *encode_extensions(uint8_t *at, const struct wire_packet *p)
{
	if (p->h.flags & WIRE_F_HELLO)
		at = encode_hello(at, &p->hello);
	if (p->h.flags & WIRE_F_ACK)
		at = encode_ack(at, &p->ack);
	if (p->h.flags & WIRE_F_LENDS)
		at = encode_u64(at, p->lends);
	if (p->h.flags & WIRE_F_REPLIES)
		at = encode_u64(at, p->replies);
	if (p->h.flags & WIRE_F_RETURNS)
		at = encode_returns(at, p);
	if (p->h.flags & WIRE_F_ORDERED)
		at = encode_u64(at, p->previous);
	if (p->h.flags & WIRE_F_CALL)
		at = encode_call(at, &p->call);
	return at;
}

static uint8_t *encode_short(uint8_t *at, const struct wire_packet *p, const uint64_t *item_lens)
{
	if (p->n_items == 1)
		return at;
	for (uint32_t i = 0; i < p->n_items; i++, at += 2)
		put16(at, (uint16_t)item_lens[i]);
	return at;
}

/* The value of the field "keys". keys: the keys to encode, or NULL. */
static uint32_t keys_of(const struct wire_packet *p, const uint64_t *keys)
{
	uint32_t without = p->announce.keys == WIRE_KEYS_WRITTEN ? WIRE_KEYS_WRITTEN : 0;

	if (!keys)
		return without;
	return wire_has_keys(p->announce.keys) ? p->announce.keys : WIRE_KEYS_READ;
}

static uint8_t *encode_announce(uint8_t *at, const struct wire_packet *p,
		const uint64_t *item_lens, const uint64_t *keys)
{
	put64(at, p->announce.total);
	put64(at + 8, p->announce.oldest);
	put32(at + 16, p->n_items);
	put32(at + 20, p->announce.unasked);
	put32(at + 24, p->h.flags & WIRE_F_LAST ? p->announce.sum : 0);
	put32(at + 28, keys_of(p, keys));
	put32(at + 32, p->announce.stamp);
	put32(at + 36, p->announce.echo);
	at += WIRE_ANNOUNCE_BODY;
	for (uint32_t i = 0; i < p->n_items; i++)
		at = encode_u64(at, item_lens[i]);
	for (uint32_t i = 0; keys && i < 2 * p->n_items; i++)
		at = encode_u64(at, keys[i]);
	return at;
}

static uint8_t *encode_data(uint8_t *at, const struct wire_packet *p)
{
	put64(at, p->offset);
	put32(at + 8, p->h.flags & WIRE_F_LAST ? p->sum : p->echo);
	return at + WIRE_DATA_BODY;
}

static uint8_t *encode_pull(uint8_t *at, const struct wire_pull *pull)
{
	put64(at, pull->have);
	put64(at + 8, pull->limit);
	put32(at + 16, pull->n_holes);
	put32(at + 20, pull->busy);
	put32(at + 24, pull->stamp);
	put32(at + 28, pull->echo);
	at += PULL_BODY;
	for (uint32_t i = 0; i < pull->n_holes; i++) {
		at = encode_u64(at, pull->holes[i].start);
		at = encode_u64(at, pull->holes[i].end);
	}
	return at;
}

static uint8_t *encode_stream(uint8_t *at, const struct wire_stream *stream)
{
	at = encode_u64(at, stream->group);
	at = encode_u64(at, stream->token);
	return encode_u64(at, stream->number);
}

static uint8_t *encode_body(uint8_t *at, const struct wire_packet *p, const uint64_t *item_lens,
		const uint64_t *keys)
{
	switch (p->h.type) {
	case WIRE_SHORT:
		return encode_short(at, p, item_lens);
	case WIRE_DATA:
		return encode_data(at, p);
	case WIRE_ANNOUNCE:
		return encode_announce(at, p, item_lens, keys);
	case WIRE_PULL:
		return encode_pull(at, &p->pull);
	case WIRE_ANSWER:
		return encode_ack(at, &p->ack);
	case WIRE_CANCEL:
		return encode_u64(at, p->announce.oldest);
	case WIRE_ECHO:
	case WIRE_ECHO_REPLY:
		return encode_u64(encode_u64(at, p->value), p->stamp);
	case WIRE_RETRY:
	case WIRE_GONE:
	case WIRE_ABORT:
		return encode_u64(at, p->value);
	case WIRE_STREAM:
	case WIRE_HEARD:
		return encode_stream(at, &p->stream);
	default: /* HELLO_ONLY: nothing */
		return at;
	}
}

static void encode_header(uint8_t *at, const struct wire_header *h, uint32_t flags)
{
	at[0] = WIRE_VERSION;
	at[1] = h->type;
	put16(at + 2, (uint16_t)flags);
	put32(at + CRC_AT, 0);
	put64(at + 8, h->src);
	put64(at + 16, h->dst);
	put64(at + 24, h->token);
	put64(at + 32, h->number);
}

void wire_encode_plain(void *buffer, const struct wire_header *h)
{
	encode_header(buffer, h, 1 << COUNT_SHIFT);
}

void wire_encode_call(void *buffer, const struct wire_header *h, uint64_t id,
		const struct wire_call *call)
{
	uint32_t names = wire_answers(call) ? WIRE_F_REPLIES : WIRE_F_LENDS;
	uint8_t *at = buffer;

	encode_header(at, h, 1 << COUNT_SHIFT | WIRE_F_CALL | names);
	encode_call(encode_u64(at + WIRE_HEADER, id), call);
}

size_t wire_encode(void *buffer, const struct wire_packet *p, const uint64_t *item_lens,
		const uint64_t *keys)
{
	uint32_t flags = p->h.flags;
	uint8_t *at = buffer;

	if (p->h.type == WIRE_SHORT)
		flags |= p->n_items << COUNT_SHIFT;
	encode_header(at, &p->h, flags);
	at += WIRE_HEADER;
	if (flags & (EXTENSIONS | WIRE_F_ORDERED))
		at = encode_extensions(at, p);
	at = encode_body(at, p, item_lens, keys);
	return (size_t)(at - (uint8_t *)buffer);
}

void wire_checksum(void *prefix, size_t prefix_len, uint32_t payload_crc)
{
	put32((uint8_t *)prefix + CRC_AT, 0);
	put32((uint8_t *)prefix + CRC_AT, ripc__crc32c(payload_crc, prefix, prefix_len));
}
