/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any datagram through wire_decode(). Accepted datagrams must be wholly understood: encoding the
 * result gives the same bytes, and every item and key lies inside the datagram.
 */
#include <string.h>

#include "core/wire/wire.h"
#include "fuzz.h"
#include "ripc/ripc.h"
#include "util/hash/crc32c.h"

static bool has_keys(const struct wire_packet *p)
{
	return p->h.type == WIRE_ANNOUNCE && wire_has_keys(p->announce.keys);
}

static void read_items(const struct wire_packet *p, uint64_t *lens, uint64_t *keys)
{
	uint64_t sum = 0;

	CLAIM(p->n_items <= RIPC_ITEMS_MAX);
	for (uint32_t i = 0; i < p->n_items; i++) {
		lens[i] = wire_item_len(p, i);
		sum += lens[i];
		if (has_keys(p))
			wire_item_key(p, i, &keys[2 * i], &keys[2 * i + 1]);
	}
	if (p->h.type == WIRE_SHORT)
		CLAIM(sum == p->payload_len);
	if (p->h.type == WIRE_ANNOUNCE) {
		CLAIM(sum == p->announce.total);
		CLAIM(p->payload_len <= sum && p->payload_len <= p->announce.unasked);
	}
}

static void check_holes(const struct wire_pull *pull)
{
	CLAIM(pull->n_holes <= WIRE_HOLES_MAX);
	for (uint32_t i = 0; i < pull->n_holes; i++) {
		CLAIM(pull->holes[i].start < pull->holes[i].end);
		CLAIM(i == 0 || pull->holes[i - 1].end <= pull->holes[i].start);
	}
}

static void encode_again(const uint8_t *data, const struct wire_packet *p)
{
	uint64_t lens[RIPC_ITEMS_MAX], keys[2 * RIPC_ITEMS_MAX];
	struct wire_return offers[WIRE_RETURNS_MAX];
	struct wire_packet copy = *p;
	uint32_t payload_crc = ripc__crc32c(0, p->payload, p->payload_len);
	uint8_t again[WIRE_PREFIX_MAX];
	struct wire_packet sealed;

	read_items(p, lens, keys);
	CLAIM(p->prefix_len <= WIRE_PREFIX_MAX);
	CLAIM(p->n_returns <= WIRE_RETURNS_MAX);
	for (uint32_t i = 0; i < p->n_returns; i++)
		wire_return_at(p, i, &offers[i]);
	copy.offers = offers;
	CLAIM(wire_encode(again, &copy, lens, has_keys(p) ? keys : NULL) == p->prefix_len);
	/* An ABORT is understood in any version; ours has one. */
	if (p->h.type == WIRE_ABORT)
		again[0] = data[0];
	CLAIM(memcmp(again, data, 4) == 0);
	CLAIM(memcmp(again + 8, data + 8, p->prefix_len - 8) == 0);
	wire_checksum(again, p->prefix_len, payload_crc);
	sealed = *p;
	sealed.prefix = again;
	CLAIM(wire_decode_header(again, p->prefix_len, &sealed.h) == 0);
	CLAIM(wire_verify(&sealed, payload_crc));
	CLAIM(wire_verify(p, payload_crc) == (memcmp(again, data, p->prefix_len) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct wire_packet p;

	if (wire_decode(data, len, &p))
		return 0;
	CLAIM(p.prefix == data && p.payload == data + p.prefix_len);
	CLAIM((size_t)p.prefix_len + p.payload_len == len);
	if (p.h.type == WIRE_PULL)
		check_holes(&p.pull);
	encode_again(data, &p);
	return 0;
}
