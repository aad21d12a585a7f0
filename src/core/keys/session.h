/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions: the keys of one handshake seal the datagrams of two contexts. Each datagram carries a
 * counter, which is its nonce. The receiver takes each counter once, and no counter that is 1,024
 * or more behind the highest.
 */
#ifndef RIPC_SESSION_H
#define RIPC_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "noise.h"

#define SEALED_HEADER  16u /* kind, the receiver's index, the counter */
#define SEALED_EXTRA   (SEALED_HEADER + RIPC_TAG_LEN) /* SEALED_BYTES of sealed.h */
#define REPLAY_WINDOW  1024u
#define REPLAY_WORDS   (REPLAY_WINDOW / 64 + 1)
#define SESSION_SLOTS  32u /* keyed ciphers that are kept, for each direction */

struct member;

struct session {
	struct member *member;
	uint64_t serial;     /* never used again */
	uint64_t born_us;
	uint64_t sent;       /* the next datagram's counter */
	uint64_t top;        /* the highest counter that came */
	uint64_t seen[REPLAY_WORDS]; /* a ring: bit counter % 64 of word counter / 64 */
	uint32_t index, their_index;
	uint8_t cipher;      /* enum ripc__cipher */
	uint8_t slots[2];    /* the slots that its ciphers last had: sealing, unsealing */
	bool is_initiator;
	uint8_t send_key[32], receive_key[32];
};

/* The ciphers of recent sessions, with their keys; ciphers of others are keyed when needed. */
struct ciphers {
	struct cipher_box *box;
	struct cipher_slot {
		uint64_t serial; /* 0: of none */
		void *aead;
		uint8_t cipher;
	} slots[2][SESSION_SLOTS];
	uint32_t next[2];
};

/* May a datagram with this counter still come? Changes nothing. */
bool ripc__replay_allows(const struct session *session, uint64_t counter);
/* A datagram with this counter has come, and was authentic. */
void ripc__replay_note(struct session *session, uint64_t counter);

/*
 * Seals one datagram into out: header, ciphertext, tag. out has room for SEALED_EXTRA bytes more
 * than in. Uses up a counter. -ENOMEM.
 */
int ripc__session_seal(struct ciphers *ciphers, struct session *session, const struct iovec *in,
		uint32_t n, uint8_t *out);
/*
 * Unseals a datagram in place: the plaintext begins SEALED_HEADER bytes after the datagram's start,
 * and is SEALED_EXTRA bytes shorter. -EALREADY: the datagram came before, or comes too late;
 * -EKEYREJECTED: it is forged.
 */
int ripc__session_unseal(struct ciphers *ciphers, struct session *session, uint8_t *bytes,
		uint32_t len);
/* Wipes the session's keys. The session stays the caller's. */
void ripc__session_wipe(struct ciphers *ciphers, struct session *session);
void ripc__ciphers_free(struct ciphers *ciphers);

#endif
