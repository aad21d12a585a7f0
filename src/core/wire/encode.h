/* SPDX-License-Identifier: BSD-3-Clause */
/* Encoding packets. */
#ifndef RIPC_ENCODE_H
#define RIPC_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/*
 * Encoding: header with extensions (returns bytes written; which extensions follow from
 * p->h.flags), then the body of the type, then seal with the payload's checksum. The version
 * is always ours. item_lens: SHORT with n_items > 1 and ANNOUNCE, n_items lengths; keys:
 * ANNOUNCE, NULL or n_items pairs of address and key, given if announce.keys says so. Values
 * must keep the decoder's limits.
 */
size_t wire_encode(void *buffer, const struct wire_packet *p, const uint64_t *item_lens,
		const uint64_t *keys);
/* The whole prefix, WIRE_HEADER bytes, of a SHORT of one item without extensions. */
void wire_encode_plain(void *buffer, const struct wire_header *h);
/* The whole prefix, WIRE_CALL_PLAIN bytes, of a plain question, answer or message to a
 * group with that ID. */
void wire_encode_call(void *buffer, const struct wire_header *h, uint64_t id,
		const struct wire_call *call);
/* Puts the checksum of the whole packet into its prefix. */
void wire_seal(void *prefix, size_t prefix_len, uint32_t payload_crc);

#endif
