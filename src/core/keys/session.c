/* SPDX-License-Identifier: BSD-3-Clause */
/* See session.h. The replay window is that of RFC 6479. */
#include "session.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "datagram.h"
#include "util/bytes.h"

#define GATHERED_MAX 2048u /* bytes */

bool ripc__replay_allows(const struct session *session, uint64_t counter)
{
	uint64_t word = session->seen[counter / 64 % REPLAY_WORDS];

	if (counter > session->top)
		return true;
	return session->top - counter < REPLAY_WINDOW && !(word >> counter % 64 & 1);
}

void ripc__replay_note(struct session *session, uint64_t counter)
{
	uint64_t at = session->top / 64, to = counter / 64;

	if (counter > session->top) {
		for (uint32_t i = 1; i <= REPLAY_WORDS && at + i <= to; i++)
			session->seen[(at + i) % REPLAY_WORDS] = 0;
		session->top = counter;
	}
	session->seen[to % REPLAY_WORDS] |= 1ull << counter % 64;
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

	if (slot->serial == session->serial)
		return slot->aead;
	session->slots[seals] = (uint8_t)(ciphers->next[seals]++ % SESSION_SLOTS);
	slot = &ciphers->slots[seals][session->slots[seals]];
	if (slot->cipher != session->cipher)
		slot_clear(ciphers, slot);
	if (!slot->aead)
		slot->aead = ops->aead_alloc(ciphers->box->lib, session->cipher, seals);
	slot->cipher = session->cipher;
	slot->serial = 0;
	if (!slot->aead || ops->aead_key(slot->aead, seals ? session->send_key :
			session->receive_key))
		return NULL;
	slot->serial = session->serial;
	return slot->aead;
}

void ripc__session_wipe(struct ciphers *ciphers, struct session *session)
{
	for (int seals = 0; seals < 2; seals++) {
		struct cipher_slot *slot = &ciphers->slots[seals][session->slots[seals]];

		if (slot->serial == session->serial)
			slot_clear(ciphers, slot);
	}
	explicit_bzero(session, sizeof(*session));
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
