/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes packets; wire.c has the layout. Each function here returns where the next field goes. */
#include "encode.h"
#include "layout.h"
#include "util/bytes.h"
#include "util/hash/crc32c.h"
#include "wire.h"

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

void wire_seal(void *prefix, size_t prefix_len, uint32_t payload_crc)
{
	put32((uint8_t *)prefix + CRC_AT, 0);
	put32((uint8_t *)prefix + CRC_AT, ripc__crc32c(payload_crc, prefix, prefix_len));
}
