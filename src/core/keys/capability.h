/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capabilities: a capability lets the holder of a key be a service, or send to one, until a time;
 * the authority of the deployment signs it. docs/protocol.md has the bytes. A capability that a
 * partner shows counts only if it is signed, names the partner's key, and has not expired. All that
 * count make up a struct rights.
 */
#ifndef RIPC_CAPABILITY_H
#define RIPC_CAPABILITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "noise.h"

#define CAPABILITY_LEN   120u
#define CAPABILITIES_MAX 8u

enum capability_what { CAPABILITY_BE = 1, CAPABILITY_SEND = 2 };

struct capability {
	uint8_t what;      /* enum capability_what, or both */
	uint64_t id;       /* of a service; 0: any */
	uint64_t until_s;  /* seconds since 1970 */
	uint8_t holder[32]; /* the static key that may use it */
};

/* The rights of one key. */
struct rights {
	bool all;          /* there is no authority: each holder of the secret may do everything */
	uint32_t n;
	uint64_t private_bits; /* of a member: see below */
	struct {
		uint64_t id, until_s;
		uint8_t what;
	} may[CAPABILITIES_MAX]; /* a member's rights have room for n of them */
};

static inline size_t ripc__rights_bytes(const struct rights *rights)
{
	return offsetof(struct rights, may) + rights->n * sizeof(rights->may[0]);
}

/* 0; -EBADMSG: that is no capability. Does not verify the signature. */
int ripc__capability_decode(const uint8_t bytes[CAPABILITY_LEN], struct capability *capability);
/* Writes all but the signature; ripc__capability_sign() adds the signature. */
void ripc__capability_encode(const struct capability *capability, uint8_t bytes[CAPABILITY_LEN]);
int ripc__capability_sign(struct cipher_box *box, const uint8_t authority_secret[32],
		uint8_t bytes[CAPABILITY_LEN]);
/* 0; -EKEYREJECTED: the authority has not signed this. */
int ripc__capability_verify(struct cipher_box *box, const uint8_t authority[32],
		const uint8_t bytes[CAPABILITY_LEN]);

/* Adds the rights that a verified capability gives its holder. */
void ripc__rights_add(struct rights *rights, const struct capability *capability);
bool ripc__rights_has(const struct rights *rights, enum capability_what what, uint64_t id,
		uint64_t now_s);
/* Is any right left, not expired? */
bool ripc__rights_any(const struct rights *rights, uint64_t now_s);

/*
 * A private ID belongs to a key: its upper 40 bits are a hash of the key, the lower 24 are random.
 * So no capability is needed to have a private ID, or to answer to one.
 */
int ripc__private_bits(const struct cipher_box *box, const uint8_t key[32], uint64_t *bits);
#define PRIVATE_BITS 40u
static inline bool ripc__is_private_of(uint64_t id, uint64_t bits)
{
	return id >> (64 - PRIVATE_BITS) == bits >> (64 - PRIVATE_BITS);
}

#endif
