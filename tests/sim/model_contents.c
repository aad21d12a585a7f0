/* SPDX-License-Identifier: BSD-3-Clause */
/* The contents of a message, computed from its sender, kind, length and number. */
#include "model_contents.h"

#include <string.h>

#define GOLDEN 0x9e3779b97f4a7c15u

uint64_t contents_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint64_t contents_tag(uint64_t number, uint64_t len)
{
	return len >= CONTENTS_TAG_BYTES ? number : number & ((1ull << 8 * len) - 1);
}

uint64_t contents_key(uint64_t from, enum ripc_kind kind, uint64_t len, uint64_t tag)
{
	return contents_mix(contents_mix(contents_mix(from + GOLDEN * (uint64_t)kind) + len) + tag);
}

static uint64_t word_of(uint64_t key, uint64_t tag, uint64_t index)
{
	return index == 0 ? tag : contents_mix(key + index * GOLDEN);
}

/* Bytes [at, at + n) of the stream; at is a multiple of 8. Little-endian on every machine. */
void contents_write(uint64_t key, uint64_t tag, uint64_t at, uint8_t *to, size_t n)
{
	for (size_t i = 0; i < n; i += 8) {
		uint64_t word = word_of(key, tag, (at + i) / 8);

		for (size_t j = 0; j < 8 && i + j < n; j++)
			to[i + j] = (uint8_t)(word >> 8 * j);
	}
}

/* How a message of this key is cut into items: anywhere, also into empty ones. */
uint32_t contents_split(uint64_t key, enum ripc_kind kind, uint64_t len, uint64_t lens[5])
{
	uint32_t most = kind == RIPC_LONG ? 5 : 4;
	uint64_t draw = contents_mix(key ^ GOLDEN);
	uint32_t n = draw % 8 < 4 ? 1 : 1 + (uint32_t)(draw >> 8) % most;
	uint64_t left = len;

	for (uint32_t i = 0; i < n; i++) {
		draw = contents_mix(draw + i);
		lens[i] = i == n - 1 ? left : draw % (left + 1);
		left -= lens[i];
	}
	return n;
}

/* Do the items hold the stream? Returns the offset of the first wrong byte, -1 for none. */
int64_t contents_differ(uint64_t key, uint64_t tag, const struct iovec *items, uint32_t n)
{
	uint8_t expected[2048];
	uint64_t at = 0, from = 0;
	size_t have = 0;

	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *bytes = items[i].iov_base;

		for (size_t done = 0, take; done < items[i].iov_len; done += take, at += take) {
			if (at == from + have) {
				from = at;
				have = sizeof(expected);
				contents_write(key, tag, from, expected, have);
			}
			take = items[i].iov_len - done;
			if (take > from + have - at)
				take = from + have - at;
			if (memcmp(bytes + done, expected + (at - from), take) != 0)
				return (int64_t)at;
		}
	}
	return -1;
}

uint64_t contents_tag_received(const struct ripc_msg *msg, uint64_t len)
{
	uint64_t tag = 0, at = 0;

	for (uint32_t i = 0; i < msg->n_items; i++)
		for (size_t j = 0; j < msg->items[i].iov_len && at < 8 && at < len; j++, at++)
			tag |= (uint64_t)((const uint8_t *)msg->items[i].iov_base)[j] << 8 * at;
	return tag;
}
