/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake Noise_IKpsk2_25519_ChaChaPoly_SHA256 (The Noise Protocol Framework, revision 34):
 * two messages between an initiator and a responder. The initiator knows the responder's static
 * key. This file uses no clock, no random numbers and no network.
 */
#ifndef RIPC_NOISE_H
#define RIPC_NOISE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/net/crypto.h"

#define NOISE_E      32u /* bytes of an ephemeral key in a message */
#define NOISE_S      (32u + RIPC_TAG_LEN) /* of the initiator's sealed static key */
#define NOISE_FIRST  (NOISE_E + NOISE_S + RIPC_TAG_LEN) /* message 1 without its payload */
#define NOISE_SECOND (NOISE_E + RIPC_TAG_LEN)

/* For handshakes only: a library of cryptography, its state, two ChaCha20-Poly1305 ciphers. */
struct cipher_box {
	const struct ripc__crypto *ops;
	void *lib;
	void *seals, *unseals;
};

/* One handshake on its way. It holds secrets: call ripc__noise_wipe() when it has ended. */
struct noise {
	struct cipher_box *box;
	uint8_t chaining[32], hash[32], key[32];
	uint64_t counter;         /* of messages under key */
	uint8_t ephemeral[32];    /* our own secret one */
	uint8_t remote_e[32], remote_s[32]; /* the other's public ones, once they are known */
};

struct static_keys {
	uint8_t secret[32], public[32];
};

/* The keys after the handshake, one for each direction. */
struct noise_keys {
	uint8_t initiator[32], responder[32]; /* the initiator's, the responder's key to seal */
};

/* 0, or -ENOMEM. box must live as long as all that use it. */
int ripc__box_open(struct cipher_box *box, const struct ripc__crypto *ops);
void ripc__box_close(struct cipher_box *box);

/* responder: the responder's public static key; both ends know it. */
int ripc__noise_begin(struct noise *noise, struct cipher_box *box, const struct iovec *prologue,
		const uint8_t responder[32]);
/*
 * The initiator writes message 1, the responder reads it, and then knows remote_s. out has room for
 * NOISE_FIRST bytes and the payload. The reading writes the payload into payload->iov_base and sets
 * iov_len. ephemeral must be random, and used once. -EKEYREJECTED: forged, or not for this key.
 */
int ripc__noise_write_first(struct noise *noise, const struct static_keys *own,
		const uint8_t ephemeral[32], const struct iovec *payload, uint8_t *out);
int ripc__noise_read_first(struct noise *noise, const struct static_keys *own,
		const struct iovec *in, struct iovec *payload);
/* The responder writes message 2, the initiator reads it. Both know psk. */
int ripc__noise_write_second(struct noise *noise, const uint8_t ephemeral[32],
		const uint8_t psk[32], const struct iovec *payload, uint8_t *out);
int ripc__noise_read_second(struct noise *noise, const struct static_keys *own,
		const uint8_t psk[32], const struct iovec *in, struct iovec *payload);
/* After both messages. */
int ripc__noise_split(struct noise *noise, struct noise_keys *keys);
void ripc__noise_wipe(struct noise *noise);

#endif
