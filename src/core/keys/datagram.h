/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of sealed datagrams and of handshakes (docs/protocol.md, Sealed datagrams). No other
 * file knows these bytes. All datagrams begin alike:
 *
 *   0 u8 0x91   1 u8 kind   2 u16 zero   4 u32 index
 */
#ifndef RIPC_SEALED_DATAGRAM_H
#define RIPC_SEALED_DATAGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "capability.h"
#include "noise.h"
#include "util/bytes.h"

#define SEALED_MAGIC 0x91u
#define SEALED_MAC   16u

enum sealed_kind {
	SEALED_INIT = 1, /* message 1; index: the sender's */
	SEALED_REPLY,    /* message 2; index: the receiver's */
	SEALED_PROOF,    /* asks to come again with this address proof; index: the receiver's */
	SEALED_DATA,     /* index: the receiver's */
	SEALED_UNKNOWN,  /* a DATA came whose index has no session; index: as in that DATA */
};

/* INIT: 8 context   16 to_context   24 proof   32 message 1   then a MAC of all before. */
#define INIT_HEADER  32u
#define INIT_PAYLOAD 16u
#define INIT_LEN(n)  (INIT_HEADER + NOISE_FIRST + INIT_PAYLOAD + (n) * CAPABILITY_LEN + SEALED_MAC)
#define INIT_MAX     INIT_LEN(CAPABILITIES_MAX)
/* REPLY: 8 u32 the sender's index   12 zero   16 message 2   then a MAC. */
#define REPLY_HEADER  16u
#define REPLY_PAYLOAD 24u
#define REPLY_LEN(n) (REPLY_HEADER + NOISE_SECOND + REPLY_PAYLOAD + (n) * CAPABILITY_LEN + \
		SEALED_MAC)
/* PROOF: 8 context (the initiator's)   16 proof   then a MAC. */
#define PROOF_LEN    (24u + SEALED_MAC)
/* UNKNOWN: 8 counter of that datagram   then a MAC. */
#define UNKNOWN_LEN  (16u + SEALED_MAC)

/* The payloads of message 1 and of message 2. */
struct init_payload {
	uint64_t stamp;      /* grows with each handshake of a context */
	bool has_fast_aes;
	uint32_t n_capabilities;
};

struct reply_payload {
	uint32_t index;      /* the responder's, as in the header */
	uint8_t cipher;
	bool is_refused;     /* no capability counts: no session is made */
	uint64_t context;    /* the responder's */
	uint32_t n_capabilities;
};

static inline void ripc__datagram_begin(uint8_t *bytes, enum sealed_kind kind, uint32_t index)
{
	bytes[0] = SEALED_MAGIC;
	bytes[1] = (uint8_t)kind;
	put16(bytes + 2, 0);
	put32(bytes + 4, index);
}

/* Writes the payload without the capabilities, which follow it. */
void ripc__init_payload_encode(const struct init_payload *payload, uint8_t bytes[INIT_PAYLOAD]);
void ripc__reply_payload_encode(const struct reply_payload *payload,
		uint8_t bytes[REPLY_PAYLOAD]);
/* 0, or -EBADMSG. */
int ripc__init_payload_decode(const uint8_t *bytes, size_t len, struct init_payload *payload);
int ripc__reply_payload_decode(const uint8_t *bytes, size_t len, struct reply_payload *payload);

#endif
