/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of sealed datagrams and of handshakes (docs/protocol.md, Sealed datagrams). No other
 * file knows these bytes. All datagrams begin alike:
 *
 *   0 u8 0x92   1 u8 kind   2 u16 zero   4 u32 index
 */
#ifndef RIPC_SEALED_DATAGRAM_H
#define RIPC_SEALED_DATAGRAM_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "capability.h"
#include "core/net/crypto.h"
#include "noise.h"
#include "util/bytes.h"

#define SEALED_MAGIC 0x92u
#define SEALED_MAC   16u

enum sealed_kind {
	SEALED_INIT = 1, /* message 1; index: the sender's */
	SEALED_REPLY,    /* message 2; index: the receiver's */
	SEALED_PROOF,    /* asks to come again with this address proof; index: the receiver's */
	SEALED_DATA,     /* index: the receiver's */
	SEALED_UNKNOWN,  /* a DATA came whose index has no session; index: as in that DATA */
};

/*
 * INIT: 8 context   16 to_context   24 proof   32 message 1   then a MAC of all before. INIT has
 * one length, with room for all capabilities, so no answer to it is longer.
 */
#define INIT_HEADER  32u
#define INIT_PAYLOAD 24u
#define INIT_SAID    (INIT_PAYLOAD + CAPABILITIES_MAX * CAPABILITY_LEN)
#define INIT_LEN     (INIT_HEADER + NOISE_FIRST + INIT_SAID + SEALED_MAC)
/* REPLY: 8 u32 the sender's index   12 zero   16 message 2   then a MAC. */
#define REPLY_HEADER  16u
#define REPLY_PAYLOAD 24u
#define REPLY_LEN(n) (REPLY_HEADER + NOISE_SECOND + REPLY_PAYLOAD + (n) * CAPABILITY_LEN + \
		SEALED_MAC)
/*
 * PROOF: 8 context (the initiator's)   16 proof   24 the MAC of that INIT   40 zero   then a MAC.
 * The INIT that follows has at most 1.5 times its bytes.
 */
#define PROOF_HEADER (24u + SEALED_MAC)
#define PROOF_LEN    (2 * INIT_LEN / 3)
_Static_assert(INIT_LEN % 3 == 0, "PROOF_LEN");
_Static_assert(REPLY_LEN(CAPABILITIES_MAX) <= INIT_LEN, "no answer is longer");
/* UNKNOWN: 8 counter of that datagram   16 reset of its session   then a MAC. */
#define UNKNOWN_LEN  (24u + SEALED_MAC)

/* The payloads of message 1 and of message 2. */
struct init_payload {
	uint64_t stamp;      /* grows with each handshake of a context */
	uint32_t index;      /* of the datagram's header, not of the payload */
	bool has_fast_aes;
	uint32_t n_capabilities;
	uint64_t reset;      /* what UNKNOWN shows if the sender loses the session */
};

struct reply_payload {
	uint32_t index;      /* the responder's, as in the header */
	uint8_t cipher;
	bool is_refused;     /* no capability counts: no session is made */
	uint64_t context;    /* the responder's */
	uint64_t reset;      /* as in init_payload */
	uint32_t n_capabilities;
};

static inline void ripc__datagram_begin(uint8_t *bytes, enum sealed_kind kind, uint32_t index)
{
	bytes[0] = SEALED_MAGIC;
	bytes[1] = (uint8_t)kind;
	put16(bytes + 2, 0);
	put32(bytes + 4, index);
}

/* Writing a payload leaves out the capabilities, which follow it; reading says 0 or -EBADMSG. */

/* 0 u64 stamp   8 u8 fast AES   9 u8 n_capabilities   10 zero, 6 bytes   16 u64 reset */
static inline void ripc__init_payload_encode(const struct init_payload *payload,
		uint8_t bytes[INIT_PAYLOAD])
{
	memset(bytes, 0, INIT_PAYLOAD);
	put64(bytes, payload->stamp);
	bytes[8] = payload->has_fast_aes;
	bytes[9] = (uint8_t)payload->n_capabilities;
	put64(bytes + 16, payload->reset);
}

static inline bool ripc__is_zero(const uint8_t *bytes, size_t len)
{
	uint8_t any = 0;

	for (size_t i = 0; i < len; i++)
		any |= bytes[i];
	return !any;
}

static inline int ripc__init_payload_decode(const uint8_t *bytes, size_t len,
		struct init_payload *payload)
{
	size_t end;

	if (len != INIT_SAID || bytes[8] > 1 || bytes[9] > CAPABILITIES_MAX ||
			get16(bytes + 10) || get32(bytes + 12))
		return -EBADMSG;
	end = INIT_PAYLOAD + bytes[9] * CAPABILITY_LEN;
	if (!ripc__is_zero(bytes + end, len - end))
		return -EBADMSG;
	payload->stamp = get64(bytes);
	payload->has_fast_aes = bytes[8];
	payload->n_capabilities = bytes[9];
	payload->reset = get64(bytes + 16);
	return 0;
}

/* 0 u32 index   4 u8 cipher   5 u8 refused   6 u8 n_capabilities   7 u8 zero   8 u64 context
 * 16 u64 reset */
static inline void ripc__reply_payload_encode(const struct reply_payload *payload,
		uint8_t bytes[REPLY_PAYLOAD])
{
	memset(bytes, 0, REPLY_PAYLOAD);
	put32(bytes, payload->index);
	bytes[4] = payload->cipher;
	bytes[5] = payload->is_refused;
	bytes[6] = (uint8_t)payload->n_capabilities;
	put64(bytes + 8, payload->context);
	put64(bytes + 16, payload->reset);
}

static inline int ripc__reply_payload_decode(const uint8_t *bytes, size_t len,
		struct reply_payload *payload)
{
	if (len < REPLY_PAYLOAD || !get32(bytes) || bytes[4] < RIPC_CHACHA20_POLY1305 ||
			bytes[4] > RIPC_AES_128_GCM || bytes[5] > 1 ||
			bytes[6] > CAPABILITIES_MAX || bytes[7] ||
			len != REPLY_PAYLOAD + bytes[6] * CAPABILITY_LEN)
		return -EBADMSG;
	payload->index = get32(bytes);
	payload->cipher = bytes[4];
	payload->is_refused = bytes[5];
	payload->n_capabilities = bytes[6];
	payload->context = get64(bytes + 8);
	payload->reset = get64(bytes + 16);
	return 0;
}

#endif
