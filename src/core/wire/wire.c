/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layouts of wire.h, and nothing else: the only place that knows where a field lies.
 * Owns no state. docs/protocol.md, "Packets", says the same in tables. Invariants:
 *
 *  - What is decoded and encoded again gives the same bytes: no field has two encodings, and
 *    whatever has no meaning must be zero or absent.
 *  - No count, length or offset leaves this file unchecked against the datagram that holds it.
 *
 * Every packet (offsets in bytes, numbers little-endian):
 *
 *    0 u8 version   1 u8 type   2 u16 flags   4 u32 crc   8 u64 src   16 u64 dst
 *   24 u64 token   32 u64 number (RETRY, GONE, ABORT: of the packet that is answered; HELLO_ONLY,
 *      ECHO, ECHO_REPLY: 0; else not 0). Neither src nor dst is 0, but in an ABORT
 *   40 extensions, in this order, each if its flag is set:
 *      HELLO   u64 token, u64 service, u64 context, u64 to_service, u64 proof, u32 unasked,
 *              u32 zero; the first four are not 0
 *      ACK     u64 number (not 0), u32 status (an errno, below 4096), u64 also, u32 echo
 *      LENDS   u64 id; REPLIES the same
 *      RETURNS (only with LENDS) u32 n (1 to 8), u32 zero, then u64 length, u64 address, u64 key
 *              per buffer; all zero if its length is
 *      ORDERED u64 number of the ordered message before it, less than its own; 0: none
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
 *   then the payload: SHORT, ANNOUNCE (not longer than unasked and total), DATA; else none.
 */
#include <errno.h>
#include <string.h>

#include "ripc/ripc.h"
#include "util/bytes.h"
#include "util/crc32c.h"
#include "util/rare.h"
#include "wire.h"

#define CRC_AT        4u /* where the checksum lies, in packets and resolver packets */
#define CRC_END       8u
#define PULL_BODY     32u
#define STATUS_END    4096u /* errno values lie below, on every system (Linux: MAX_ERRNO) */
#define EXTENSIONS    (WIRE_F_HELLO | WIRE_F_ACK | WIRE_F_LENDS | WIRE_F_REPLIES | WIRE_F_RETURNS)
#define COUNT_SHIFT   8 /* SHORT: the number of items in flags */

/* The flags that have a meaning on each type. */
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
};

/* ---- decoding ---------------------------------------------------------------------------- */

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

/* What has been taken from the datagram: everything before "at". */
struct cursor {
	const uint8_t *at, *end;
};

/* The next len bytes, or NULL if there are not so many. */
static inline const uint8_t *take(struct cursor *cursor, size_t len)
{
	const uint8_t *at = cursor->at;

	if ((size_t)(cursor->end - at) < len)
		return NULL;
	cursor->at += len;
	return at;
}

static int decode_hello(struct cursor *cursor, struct wire_hello *hello)
{
	const uint8_t *at = take(cursor, WIRE_HELLO);

	if (!at || !get64(at) || !get64(at + 8) || !get64(at + 16) || !get64(at + 24) ||
			get32(at + 44))
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

static int decode_ack(struct cursor *cursor, struct wire_ack *ack)
{
	const uint8_t *at = take(cursor, WIRE_ACK);

	if (!at || !get64(at) || get32(at + 8) >= STATUS_END)
		return -EBADMSG;
	ack->number = get64(at);
	ack->status = get32(at + 8);
	ack->also = get64(at + 12);
	ack->echo = get32(at + 20);
	return 0;
}

static int decode_value(struct cursor *cursor, uint64_t *value)
{
	const uint8_t *at = take(cursor, 8);

	if (!at)
		return -EBADMSG;
	*value = get64(at);
	return 0;
}

static int decode_returns(struct cursor *cursor, struct wire_packet *p)
{
	const uint8_t *at = take(cursor, WIRE_RETURNS_LEN(0));
	uint32_t n = at ? get32(at) : 0;

	if (n == 0 || n > WIRE_RETURNS_MAX || get32(at + 4) || !(p->h.flags & WIRE_F_LENDS))
		return -EBADMSG;
	p->returns = take(cursor, WIRE_RETURN * n);
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

static int decode_extensions(struct cursor *cursor, struct wire_packet *p)
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
	return !err && wire_previous(p) && p->previous >= p->h.number ? -EBADMSG : err;
}

static int decode_short(struct cursor *cursor, struct wire_packet *p, uint32_t n_items)
{
	uint32_t sum = 0;

	if (n_items == 0 || n_items > RIPC_ITEMS_MAX)
		return -EBADMSG;
	p->n_items = n_items;
	if (n_items == 1)
		return 0;
	p->lengths = take(cursor, 2u * n_items);
	if (!p->lengths)
		return -EBADMSG;
	for (uint32_t i = 0; i < n_items; i++)
		sum += get16(p->lengths + 2 * i);
	return sum == (size_t)(cursor->end - cursor->at) ? 0 : -EBADMSG;
}

/* A checksum that is there only with LAST, and zero without. */
static bool sum_allowed(const struct wire_packet *p, uint32_t sum)
{
	return sum == 0 || p->h.flags & WIRE_F_LAST;
}

/* Which keys there can be: those of return buffers only in an answer, and no checksum with what
 * says that it comes later. */
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

static int decode_announce(struct cursor *cursor, struct wire_packet *p)
{
	const uint8_t *at = take(cursor, WIRE_ANNOUNCE_BODY);
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
			!keys_allowed(p, announce->keys) || !sum_allowed(p, announce->sum))
		return -EBADMSG;
	p->n_items = announce->n_items;
	p->lengths = take(cursor, p->n_items * (wire_has_keys(announce->keys) ? 24u : 8u));
	if (!p->lengths)
		return -EBADMSG;
	payload_len = (size_t)(cursor->end - cursor->at);
	if (payload_len > announce->unasked || payload_len > announce->total)
		return -EBADMSG;
	return check_announced_lengths(p);
}

static int decode_data(struct cursor *cursor, struct wire_packet *p)
{
	const uint8_t *at = take(cursor, WIRE_DATA_BODY);

	if (!at)
		return -EBADMSG;
	p->offset = get64(at);
	p->sum = p->h.flags & WIRE_F_LAST ? get32(at + 8) : 0;
	p->echo = p->h.flags & WIRE_F_LAST ? 0 : get32(at + 8);
	return (size_t)(cursor->end - cursor->at) > UINT64_MAX - p->offset ? -EBADMSG : 0;
}

static int decode_holes(struct cursor *cursor, struct wire_pull *pull)
{
	const uint8_t *at = take(cursor, 16u * pull->n_holes);
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

static int decode_pull(struct cursor *cursor, struct wire_pull *pull)
{
	const uint8_t *at = take(cursor, PULL_BODY);

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

static int decode_echo(struct cursor *cursor, struct wire_packet *p)
{
	int err = decode_value(cursor, &p->value);

	return err ? err : decode_value(cursor, &p->stamp);
}

/* The number stands twice. */
static int decode_answer(struct cursor *cursor, struct wire_packet *p)
{
	if (decode_ack(cursor, &p->ack) || p->ack.number != p->h.number)
		return -EBADMSG;
	return 0;
}

/* n_items: of a SHORT. */
static int decode_body(struct cursor *cursor, struct wire_packet *p, uint32_t n_items)
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
		return decode_value(cursor, &p->announce.oldest);
	case WIRE_ECHO:
	case WIRE_ECHO_REPLY:
		return decode_echo(cursor, p);
	case WIRE_RETRY:
	case WIRE_GONE:
	case WIRE_ABORT:
		return decode_value(cursor, &p->value);
	default: /* HELLO_ONLY: nothing */
		return 0;
	}
}

static bool has_payload(uint8_t type)
{
	return type == WIRE_SHORT || type == WIRE_ANNOUNCE || type == WIRE_DATA;
}

/* Messages are numbered from 1, incarnations are not 0. */
static bool numbers_allowed(const struct wire_header *h)
{
	if (h->type == WIRE_ABORT)
		return true;
	if (!h->src || !h->dst || h->type == WIRE_RETRY || h->type == WIRE_GONE)
		return h->src && h->dst;
	return (h->number != 0) == (h->type <= WIRE_CANCEL);
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

/* Everything before the payload, so much, has been understood. */
static void split(struct wire_packet *p, const uint8_t *bytes, size_t len, size_t prefix_len)
{
	p->prefix = bytes;
	p->prefix_len = (uint32_t)prefix_len;
	p->payload = bytes + prefix_len;
	p->payload_len = (uint32_t)(len - prefix_len);
}

/* Everything after the header. */
static RIPC__RARE int decode_rest(struct wire_packet *p, const uint8_t *bytes, size_t len)
{
	struct cursor cursor = {bytes + WIRE_HEADER, bytes + len};
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

extern inline int wire_decode(const void *data, size_t len, struct wire_packet *p)
{
	/* The usual case, of one item: neither extensions nor body. */
	static const uint8_t plain_short[4] = {WIRE_VERSION, WIRE_SHORT, 0, 1};

	if (wire_decode_header(data, len, &p->h) || len > UINT32_MAX)
		return -EBADMSG;
	p->lends = p->replies = 0;
	p->n_returns = 0;
	p->n_items = 1;
	p->lengths = NULL;
	p->intact = false;
	if (memcmp(data, plain_short, sizeof(plain_short)) != 0)
		return decode_rest(p, data, len);
	split(p, data, len, WIRE_HEADER);
	return p->h.number && p->h.src && p->h.dst ? 0 : -EBADMSG;
}

/* CRC32C of what crc stands for, followed by bytes whose checksum field counts as zero. */
static uint32_t crc_without_field(uint32_t crc, const uint8_t *bytes, size_t len)
{
	uint8_t head[CRC_END] = {0};

	memcpy(head, bytes, CRC_AT);
	crc = ripc__crc32c(crc, head, CRC_END);
	return ripc__crc32c(crc, bytes + CRC_END, len - CRC_END);
}

bool wire_verify(const struct wire_packet *p, uint32_t payload_crc)
{
	return p->intact || crc_without_field(payload_crc, p->prefix, p->prefix_len) == p->h.crc;
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

/* ---- encoding: each returns where the next field goes ------------------------------------ */

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

/* What the field says, given that there are keys to encode, or are not. */
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

void wire_seal(void *prefix, size_t prefix_len, uint32_t payload_crc)
{
	put32((uint8_t *)prefix + CRC_AT, 0);
	put32((uint8_t *)prefix + CRC_AT, ripc__crc32c(payload_crc, prefix, prefix_len));
}

/* ---- resolver ---------------------------------------------------------------------------- */

/*
 *    0 u8 version   1 u8 type   2 u8 hops   3 u8 zero   4 u32 crc   8 u64 nonce
 *   16 u64 asker   24 u64 proof   32 u8[16] host   48 u64 id
 *   QUESTION: then zeros up to WIRE_RECORD_MAX bytes in all.
 *   NOBODY:    2 u8 definite   nothing follows the id, which is not 0
 *   WITHDRAWN, RECORD: 56 u64 incarnation (id and incarnation are not 0)
 *   RECORD:   64 u64 stamp   72 u64 host identity   80 u64 context   88 u8 n_addrs, at most 8
 *             89 per address: u8 backend, u8 len (at most 64), len bytes
 * The crc is CRC32C of the whole packet with the crc field zero.
 */
#define RESOLVE_ID       48u
#define RESOLVE_ID_END   56u
#define RESOLVE_GONE_END 64u
#define RESOLVE_ADDRS    89u
#define ADDRS_MAX        8u
#define BLOB_MAX         64u

static size_t encode_record(uint8_t *bytes, const struct wire_record *record)
{
	uint8_t *at = bytes + RESOLVE_ADDRS;

	put64(bytes + 64, record->stamp);
	put64(bytes + 72, record->host);
	put64(bytes + 80, record->context);
	bytes[88] = (uint8_t)record->n_addrs;
	for (uint32_t i = 0; i < record->n_addrs; i++) {
		const struct wire_record_addr *addr = &record->addrs[i];

		at[0] = addr->backend;
		at[1] = addr->len;
		memcpy(at + 2, addr->blob, addr->len);
		at += 2 + addr->len;
	}
	return (size_t)(at - bytes);
}

size_t wire_resolve_encode(void *buffer, const struct wire_resolve *r)
{
	size_t len = r->type == WIRE_QUESTION ? WIRE_RECORD_MAX :
		r->type == WIRE_NOBODY ? RESOLVE_ID_END : RESOLVE_GONE_END;
	uint8_t *at = buffer;

	memset(at, 0, len);
	at[0] = WIRE_VERSION;
	at[1] = r->type;
	at[2] = r->type == WIRE_NOBODY ? r->definite : r->hops;
	put64(at + 8, r->nonce);
	put64(at + 16, r->asker);
	put64(at + 24, r->proof);
	memcpy(at + 32, r->host, sizeof(r->host));
	put64(at + RESOLVE_ID, r->record.id);
	if (r->type == WIRE_RECORD || r->type == WIRE_WITHDRAWN)
		put64(at + RESOLVE_ID_END, r->record.incarnation);
	if (r->type == WIRE_RECORD)
		len = encode_record(at, &r->record);
	put32(at + CRC_AT, crc_without_field(0, at, len));
	return len;
}

static int decode_addrs(struct cursor *cursor, struct wire_record *record)
{
	for (uint32_t i = 0; i < record->n_addrs; i++) {
		struct wire_record_addr *addr = &record->addrs[i];
		const uint8_t *head = take(cursor, 2), *blob;

		blob = head && head[1] <= BLOB_MAX ? take(cursor, head[1]) : NULL;
		if (!blob)
			return -EBADMSG;
		addr->backend = head[0];
		addr->len = head[1];
		memcpy(addr->blob, blob, addr->len);
	}
	return cursor->at == cursor->end ? 0 : -EBADMSG;
}

static int decode_record(const uint8_t *bytes, size_t len, struct wire_record *record)
{
	struct cursor cursor = {bytes + RESOLVE_ADDRS, bytes + len};

	if (len < RESOLVE_ADDRS || !bytes[88] || bytes[88] > ADDRS_MAX)
		return -EBADMSG;
	record->stamp = get64(bytes + 64);
	record->host = get64(bytes + 72);
	record->context = get64(bytes + 80);
	record->n_addrs = bytes[88];
	return decode_addrs(&cursor, record);
}

static int decode_question(const uint8_t *bytes, size_t len)
{
	const uint8_t *padding = bytes + RESOLVE_ID_END;

	if (len != WIRE_RECORD_MAX)
		return -EBADMSG; /* a shorter one could draw an answer longer than itself */
	/* All bytes are like the first, which is 0: much faster than one by one. */
	if (padding[0] || memcmp(padding, padding + 1, len - RESOLVE_ID_END - 1))
		return -EBADMSG;
	return 0;
}

static int decode_resolve_body(const uint8_t *bytes, size_t len, struct wire_resolve *r)
{
	r->record.id = get64(bytes + RESOLVE_ID);
	if (r->type == WIRE_QUESTION)
		return decode_question(bytes, len);
	if (r->type == WIRE_NOBODY)
		return r->record.id && r->nonce && len == RESOLVE_ID_END ? 0 : -EBADMSG;
	if (len < RESOLVE_GONE_END)
		return -EBADMSG;
	r->record.incarnation = get64(bytes + RESOLVE_ID_END);
	if (!r->record.id || !r->record.incarnation)
		return -EBADMSG;
	if (r->type == WIRE_RECORD)
		return decode_record(bytes, len, &r->record);
	return r->type == WIRE_WITHDRAWN && len == RESOLVE_GONE_END ? 0 : -EBADMSG;
}

/* Fields that another type of packet has are zero. */
static bool has_only_its_own(const struct wire_resolve *r)
{
	static const uint8_t nowhere[sizeof(r->host)];
	bool is_question = r->type == WIRE_QUESTION;
	bool is_answer = r->type == WIRE_NOBODY || (r->type == WIRE_RECORD && r->nonce);

	return r->hops <= is_question && (r->type == WIRE_RECORD || r->proof == 0) &&
		(!is_answer || r->asker == 0) && (r->type != WIRE_WITHDRAWN || r->nonce == 0) &&
		(r->hops || memcmp(r->host, nowhere, sizeof(nowhere)) == 0);
}

int wire_resolve_decode(const void *data, size_t len, struct wire_resolve *r)
{
	const uint8_t *bytes = data;
	struct wire_resolve found = {0};
	int err;

	if (len < RESOLVE_ID_END || len > WIRE_RECORD_MAX)
		return -EBADMSG;
	if (bytes[0] != WIRE_VERSION)
		return -EPROTONOSUPPORT;
	if (bytes[3] || crc_without_field(0, bytes, len) != get32(bytes + CRC_AT))
		return -EBADMSG;
	found.type = bytes[1];
	found.hops = found.type == WIRE_NOBODY ? 0 : bytes[2];
	found.definite = found.type == WIRE_NOBODY && bytes[2];
	if (found.type == WIRE_NOBODY && bytes[2] > 1)
		return -EBADMSG;
	found.nonce = get64(bytes + 8);
	found.asker = get64(bytes + 16);
	found.proof = get64(bytes + 24);
	memcpy(found.host, bytes + 32, sizeof(found.host));
	err = has_only_its_own(&found) ? decode_resolve_body(bytes, len, &found) : -EBADMSG;
	if (!err)
		*r = found;
	return err;
}
