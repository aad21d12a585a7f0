/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions: the keys of one handshake seal the datagrams of two contexts. Each datagram carries a
 * counter, which is its nonce. The receiver takes each counter once, and no counter that is 1,024
 * or more behind the highest.
 *
 * A context has a session or two for each partner, so a session is small: the replay window is a
 * word as long as all counters that left the word have come. The first one that has not makes the
 * window a ring of 1,024 bits.
 */
#ifndef RIPC_SESSION_H
#define RIPC_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/memory/secret.h"
#include "noise.h"

#define REJECT_COUNT   (1u << 25) /* datagrams that one session seals at most */

#define SEALED_HEADER  16u /* kind, the receiver's index, the counter */
#define SEALED_EXTRA   (SEALED_HEADER + RIPC_TAG_LEN) /* SEALED_BYTES of sealed.h */
#define REPLAY_WINDOW  1024u
#define REPLAY_WORDS   (REPLAY_WINDOW / 64 + 1)
#define SESSION_SLOTS  32u /* keyed ciphers that are kept, for each direction */

struct member;

struct session {
	struct member *member;
	union {
		uint64_t missing; /* bit i: the counter i + 1 below next has not come */
		uint64_t *ring;   /* is_ring: bit counter % 64 of word counter / 64: it came */
	};
	uint32_t sent;       /* the next datagram's counter */
	uint32_t next;       /* one above the highest counter that came */
	uint32_t born_ms, used_ms; /* when it was made; when we began to seal with it */
	uint32_t index, their_index;
	uint32_t their_reset; /* the first bytes of what an UNKNOWN about this session must show */
	uint8_t cipher;      /* enum ripc__cipher */
	uint8_t slots[2];    /* the slots that its ciphers last had: sealing, unsealing */
	bool is_initiator : 1, is_ring : 1;
	bool is_lost : 1;    /* an UNKNOWN has shown that the other end has lost it */
	uint8_t doubts : 3;  /* UNKNOWNs without proof since the last hint to core */
	uint8_t keys[];      /* to seal, then to unseal: ripc__cipher_key_len() bytes each */
};

static inline uint32_t ripc__cipher_key_len(uint8_t cipher)
{
	return cipher == RIPC_AES_128_GCM ? 16 : 32;
}

/* The ciphers of recent sessions, with their keys; ciphers of others are keyed when needed. */
struct ciphers {
	struct cipher_box *box;
	struct secret_memory memory; /* of sessions and handshakes */
	struct cipher_slot {
		const struct session *session; /* that it has the key of, or NULL */
		void *aead;
		uint8_t cipher;
	} slots[2][SESSION_SLOTS];
	uint32_t next[2];
};

/*
 * Makes a session of this cipher; its other fields are zero. The first bytes of the keys are the
 * session's. NULL: no memory.
 */
struct session *ripc__session_alloc(struct ciphers *ciphers, uint8_t cipher,
		const uint8_t send_key[32], const uint8_t receive_key[32]);
/* Wipes and frees it. */
void ripc__session_free(struct ciphers *ciphers, struct session *session);

/* May a datagram with this counter still come? Changes nothing. */
bool ripc__replay_allows(const struct session *session, uint64_t counter);
/*
 * A datagram with this counter has come, and was authentic. Without memory for a ring the counters
 * that have left the word count as come.
 */
void ripc__replay_note(struct session *session, uint64_t counter);

/*
 * Seals one datagram into out: header, ciphertext, tag. out has room for SEALED_EXTRA bytes more
 * than in. Uses up a counter. -ENOMEM; -EKEYEXPIRED: the session has sealed REJECT_COUNT datagrams.
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
void ripc__ciphers_free(struct ciphers *ciphers);

#endif
