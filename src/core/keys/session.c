/* SPDX-License-Identifier: BSD-3-Clause */
/* See internal.h. The replay window is that of RFC 6479. */
#include "internal.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/bytes.h"

#define GATHERED_MAX 2048u /* bytes */

/* The window becomes a ring: bits from the word, and counters below the word have come. */
static bool ring_make(struct session *session)
{
	uint64_t *ring = malloc(REPLAY_WORDS * sizeof(*ring));
	uint32_t next = session->next;

	if (!ring)
		return false;
	memset(ring, next ? 0xff : 0, REPLAY_WORDS * sizeof(*ring));
	if (next % 64)
		ring[next / 64 % REPLAY_WORDS] = (1ull << next % 64) - 1;
	for (uint32_t i = 0; i < 64 && i < next; i++) {
		uint32_t counter = next - 1 - i;

		if (session->missing >> i & 1)
			ring[counter / 64 % REPLAY_WORDS] &= ~(1ull << counter % 64);
	}
	session->ring = ring;
	session->is_ring = true;
	return true;
}

/* Would a counter leave the word that has not come, were this one the highest? */
static bool outgrows(const struct session *session, uint32_t counter)
{
	uint32_t by = counter + 1 - session->next;

	return by > 64 || session->missing >> (64 - by);
}

static void word_note(struct session *session, uint32_t counter)
{
	uint32_t by = counter + 1 - session->next;

	if (counter < session->next) {
		session->missing &= ~(1ull << (session->next - 1 - counter));
		return;
	}
	session->missing = by < 64 ? session->missing << by | ((1ull << by) - 2) : UINT64_MAX - 1;
	session->next = counter + 1;
}

bool ripc__replay_allows(const struct session *session, uint64_t counter)
{
	uint64_t behind = session->next - 1 - counter;

	if (counter >= session->next)
		return counter < UINT32_MAX;
	if (session->is_ring)
		return behind < REPLAY_WINDOW &&
			!(session->ring[counter / 64 % REPLAY_WORDS] >> counter % 64 & 1);
	return behind < 64 && session->missing >> behind & 1;
}

void ripc__replay_note(struct session *session, uint64_t counter)
{
	uint64_t at = session->next ? (session->next - 1) / 64 : 0, to = counter / 64;

	if (!session->is_ring && (counter < session->next ||
			!outgrows(session, (uint32_t)counter) || !ring_make(session))) {
		word_note(session, (uint32_t)counter);
		return;
	}
	if (counter >= session->next) {
		for (uint32_t i = 1; i <= REPLAY_WORDS && at + i <= to; i++)
			session->ring[(at + i) % REPLAY_WORDS] = 0;
		session->next = (uint32_t)counter + 1;
	}
	session->ring[to % REPLAY_WORDS] |= 1ull << counter % 64;
}

/* ---- ciphers ----------------------------------------------------------------------------- */

static void slot_clear(struct ciphers *ciphers, struct cipher_slot *slot)
{
	if (slot->aead) /* without cryptography none has one */
		ciphers->box->ops->aead_free(slot->aead);
	*slot = (struct cipher_slot){0};
}

/* The cipher of a session, with its key. NULL: no memory. */
static void *cipher_of(struct ciphers *ciphers, struct session *session, bool seals)
{
	const struct ripc__crypto *ops = ciphers->box->ops;
	struct cipher_slot *slot = &ciphers->slots[seals][session->slots[seals]];

	if (slot->session == session)
		return slot->aead;
	session->slots[seals] = (uint8_t)(ciphers->next[seals]++ % SESSION_SLOTS);
	slot = &ciphers->slots[seals][session->slots[seals]];
	if (slot->cipher != session->cipher)
		slot_clear(ciphers, slot);
	if (!slot->aead)
		slot->aead = ops->aead_alloc(ciphers->box->lib, session->cipher, seals);
	slot->cipher = session->cipher;
	slot->session = NULL;
	if (!slot->aead || ops->aead_key(slot->aead, session->keys +
			(seals ? 0 : ripc__cipher_key_len(session->cipher))))
		return NULL;
	slot->session = session;
	return slot->aead;
}

/* ---- making and freeing ------------------------------------------------------------------- */

static size_t bytes_of(uint8_t cipher)
{
	return sizeof(struct session) + 2 * ripc__cipher_key_len(cipher);
}

struct session *ripc__session_alloc(struct ciphers *ciphers, uint8_t cipher,
		const uint8_t send_key[32], const uint8_t receive_key[32])
{
	uint32_t len = ripc__cipher_key_len(cipher);
	struct session *session = ripc__secret_alloc(&ciphers->memory, bytes_of(cipher));

	if (!session)
		return NULL;
	session->cipher = cipher;
	memcpy(session->keys, send_key, len);
	memcpy(session->keys + len, receive_key, len);
	return session;
}

void ripc__session_free(struct ciphers *ciphers, struct session *session)
{
	for (int seals = 0; seals < 2; seals++) {
		struct cipher_slot *slot = &ciphers->slots[seals][session->slots[seals]];

		if (slot->session == session)
			slot_clear(ciphers, slot);
	}
	if (session->is_ring)
		free(session->ring);
	ripc__secret_free(&ciphers->memory, session, bytes_of(session->cipher));
}

void ripc__ciphers_free(struct ciphers *ciphers)
{
	for (uint32_t i = 0; i < SESSION_SLOTS; i++) {
		slot_clear(ciphers, &ciphers->slots[0][i]);
		slot_clear(ciphers, &ciphers->slots[1][i]);
	}
}

/* ---- datagrams --------------------------------------------------------------------------- */

/* As Noise has it (section 12): little-endian, but for AES-GCM. */
static void nonce_of(const struct session *session, uint64_t counter,
		uint8_t nonce[RIPC_NONCE_LEN])
{
	uint64_t bytes = session->cipher == RIPC_AES_128_GCM ? htobe64(counter) : htole64(counter);

	memset(nonce, 0, 4);
	memcpy(nonce + 4, &bytes, 8);
}

/* Small pieces become one, in the place of the ciphertext: a copy costs less than a call. */
static uint32_t gather(const struct iovec **in, uint32_t n, uint8_t *out, struct iovec *whole)
{
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++)
		len += (*in)[i].iov_len;
	if (n < 2 || len > GATHERED_MAX)
		return n;
	*whole = (struct iovec){out, len};
	for (uint32_t i = 0; i < n; out += (*in)[i++].iov_len)
		if ((*in)[i].iov_len)
			memcpy(out, (*in)[i].iov_base, (*in)[i].iov_len);
	*in = whole;
	return 1;
}

int ripc__session_seal(struct ciphers *ciphers, struct session *session, const struct iovec *in,
		uint32_t n, uint8_t *out)
{
	uint8_t nonce[RIPC_NONCE_LEN];
	struct iovec whole;
	const struct ripc__beside beside = {nonce, out, SEALED_HEADER};
	void *aead = cipher_of(ciphers, session, true);
	uint64_t counter = session->sent;

	if (!aead)
		return -ENOMEM;
	if (counter >= REJECT_COUNT)
		return -EKEYEXPIRED;
	session->sent++;
	nonce_of(session, counter, nonce);
	ripc__datagram_begin(out, SEALED_DATA, session->their_index);
	put64(out + 8, counter);
	n = gather(&in, n, out + SEALED_HEADER, &whole);
	return ciphers->box->ops->seal(aead, &beside, in, n, out + SEALED_HEADER);
}

int ripc__session_unseal(struct ciphers *ciphers, struct session *session, uint8_t *bytes,
		uint32_t len)
{
	uint8_t nonce[RIPC_NONCE_LEN];
	const struct ripc__beside beside = {nonce, bytes, SEALED_HEADER};
	const struct iovec in = {bytes + SEALED_HEADER, len - SEALED_HEADER};
	uint64_t counter = get64(bytes + 8);
	void *aead;
	int error;

	if (!ripc__replay_allows(session, counter))
		return -EALREADY;
	aead = cipher_of(ciphers, session, false);
	if (!aead)
		return -ENOMEM;
	nonce_of(session, counter, nonce);
	error = ciphers->box->ops->unseal(aead, &beside, &in, bytes + SEALED_HEADER);
	if (!error)
		ripc__replay_note(session, counter);
	return error;
}
