/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of the resolver (docs/protocol.md has the same as a table):
 *
 *    0 u8 version   1 u8 type   2 u8 hops   3 u8 zero   4 u32 crc   8 u64 nonce
 *   16 u64 asker   24 u64 proof   32 u8[16] host   48 u64 id
 *   QUERY: then zeros up to WIRE_RECORD_MAX bytes in all.
 *   NOBODY:    2 u8 definite   nothing follows the id, which is not 0
 *   WITHDRAWN, RECORD: 56 u64 incarnation (id and incarnation are not 0)
 *   RECORD:   64 u64 stamp   72 u64 host identity   80 u64 context   88 u8 n_addrs, at most 8
 *             (where id is a group's: stamp is the member's service ID, not 0 and no group's)
 *             89 per address: u8 backend, u8 len (at most 104), len bytes
 *   DIGEST:   2 u8 n, 1 to 61   48 u8[64] bit h % 8 of byte h / 8 for the hash h of each ID
 *             112 per registration: u64 id, u64 incarnation (not 0)
 * The crc is CRC32C of the whole packet with the crc field zero.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "record.h"
#include "util/bytes.h"

#define RESOLVE_ID       48u
#define RESOLVE_ID_END   56u
#define RESOLVE_GONE_END 64u
#define RESOLVE_ADDRS    89u
#define RESOLVE_NAMED    112u
#define ADDRS_MAX        8u

_Static_assert(RESOLVE_NAMED + WIRE_NAMED_MAX * WIRE_NAMED_LEN <= WIRE_RECORD_MAX, "has room");

static uint32_t big_endian(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

uint32_t wire_hash(uint64_t id)
{
	uint8_t bytes[8];

	put64(bytes, id);
	return (big_endian(bytes) ^ big_endian(bytes + 4)) * WIRE_HASH >> WIRE_HASH_SHIFT;
}

void wire_named_put(uint8_t *named, uint32_t i, uint64_t id, uint64_t incarnation)
{
	put64(named + (size_t)i * WIRE_NAMED_LEN, id);
	put64(named + (size_t)i * WIRE_NAMED_LEN + 8, incarnation);
}

void wire_named_get(const struct wire_resolve *r, uint32_t i, uint64_t *id,
		uint64_t *incarnation)
{
	*id = get64(r->named + (size_t)i * WIRE_NAMED_LEN);
	*incarnation = get64(r->named + (size_t)i * WIRE_NAMED_LEN + 8);
}

/* The bits of all named IDs. */
static void digest_bits(const struct wire_resolve *r, uint8_t bits[WIRE_DIGEST_BITS / 8])
{
	memset(bits, 0, WIRE_DIGEST_BITS / 8);
	for (uint32_t i = 0; i < r->n_named; i++) {
		uint64_t id, incarnation;

		wire_named_get(r, i, &id, &incarnation);
		bits[wire_hash(id) / 8] |= (uint8_t)(1u << wire_hash(id) % 8);
	}
}

static size_t encode_digest(uint8_t *bytes, const struct wire_resolve *r)
{
	digest_bits(r, bytes + RESOLVE_ID);
	memcpy(bytes + RESOLVE_NAMED, r->named, (size_t)r->n_named * WIRE_NAMED_LEN);
	return RESOLVE_NAMED + (size_t)r->n_named * WIRE_NAMED_LEN;
}

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
	size_t len = r->type == WIRE_QUERY ? WIRE_RECORD_MAX :
		r->type == WIRE_NOBODY ? RESOLVE_ID_END : RESOLVE_GONE_END;
	uint8_t *at = buffer;

	memset(at, 0, len);
	at[0] = WIRE_VERSION;
	at[1] = r->type;
	at[2] = (uint8_t)(r->hops + r->definite + r->n_named); /* a packet has one of these */
	put64(at + 8, r->nonce);
	put64(at + 16, r->asker);
	put64(at + 24, r->proof);
	memcpy(at + 32, r->host, sizeof(r->host));
	if (r->type == WIRE_DIGEST)
		len = encode_digest(at, r);
	else
		put64(at + RESOLVE_ID, r->record.id);
	if (r->type == WIRE_RECORD || r->type == WIRE_WITHDRAWN)
		put64(at + RESOLVE_ID_END, r->record.incarnation);
	if (r->type == WIRE_RECORD)
		len = encode_record(at, &r->record);
	put32(at + CRC_AT, ripc__crc_without_field(0, at, len));
	return len;
}

static int decode_addrs(struct wire_cursor *cursor, struct wire_record *record)
{
	for (uint32_t i = 0; i < record->n_addrs; i++) {
		struct wire_record_addr *addr = &record->addrs[i];
		const uint8_t *head = wire_take(cursor, 2), *blob;

		blob = head && head[1] <= WIRE_BLOB_MAX ? wire_take(cursor, head[1]) : NULL;
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
	struct wire_cursor cursor = {bytes + RESOLVE_ADDRS, bytes + len};

	if (len < RESOLVE_ADDRS || !bytes[88] || bytes[88] > ADDRS_MAX)
		return -EBADMSG;
	record->stamp = get64(bytes + 64);
	record->host = get64(bytes + 72);
	record->context = get64(bytes + 80);
	record->n_addrs = bytes[88];
	if (wire_is_group(record->id) && (!record->stamp || wire_is_group(record->stamp)))
		return -EBADMSG;
	return decode_addrs(&cursor, record);
}

static int decode_query(const uint8_t *bytes, size_t len)
{
	const uint8_t *padding = bytes + RESOLVE_ID_END;

	if (len != WIRE_RECORD_MAX)
		return -EBADMSG; /* the answer to a shorter query could be longer than the query */
	/* Compare each byte with the one before: much faster than a loop. */
	if (padding[0] || memcmp(padding, padding + 1, len - RESOLVE_ID_END - 1))
		return -EBADMSG;
	return 0;
}

static int decode_digest(const uint8_t *bytes, size_t len, struct wire_resolve *r)
{
	uint8_t bits[WIRE_DIGEST_BITS / 8];

	r->named = bytes + RESOLVE_NAMED;
	r->n_named = bytes[2];
	if (!r->n_named || len != RESOLVE_NAMED + (size_t)r->n_named * WIRE_NAMED_LEN)
		return -EBADMSG;
	for (uint32_t i = 0; i < r->n_named; i++) {
		uint64_t id, incarnation;

		wire_named_get(r, i, &id, &incarnation);
		if (!id || !incarnation)
			return -EBADMSG;
	}
	digest_bits(r, bits);
	return memcmp(bits, bytes + RESOLVE_ID, sizeof(bits)) ? -EBADMSG : 0;
}

static int decode_resolve_body(const uint8_t *bytes, size_t len, struct wire_resolve *r)
{
	if (r->type == WIRE_DIGEST)
		return decode_digest(bytes, len, r);
	r->record.id = get64(bytes + RESOLVE_ID);
	if (r->type == WIRE_QUERY)
		return decode_query(bytes, len);
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

/* Are all fields zero that belong to other types of packets? */
static bool has_only_its_own(const struct wire_resolve *r)
{
	static const uint8_t nowhere[sizeof(r->host)];
	bool is_query = r->type == WIRE_QUERY;
	bool is_notice = r->type == WIRE_WITHDRAWN || r->type == WIRE_DIGEST;
	bool is_answer = r->type == WIRE_NOBODY || (r->type == WIRE_RECORD && r->nonce);

	return r->hops <= is_query && (r->type == WIRE_RECORD || r->proof == 0) &&
		(!is_answer || r->asker == 0) && (!is_notice || r->nonce == 0) &&
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
	if (bytes[3] || ripc__crc_without_field(0, bytes, len) != get32(bytes + CRC_AT))
		return -EBADMSG;
	found.type = bytes[1];
	found.hops = found.type == WIRE_NOBODY || found.type == WIRE_DIGEST ? 0 : bytes[2];
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
