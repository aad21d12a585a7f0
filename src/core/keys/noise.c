/* SPDX-License-Identifier: BSD-3-Clause */
/* See dir.h; the names of the steps are those of the specification (section 5). */
#include "dir.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define NAME "Noise_IKpsk2_25519_ChaChaPoly_SHA256"

int ripc__box_open(struct cipher_box *box, const struct ripc__crypto *ops)
{
	int error = ops->open(&box->lib);

	if (error)
		return error;
	box->ops = ops;
	box->seals = ops->aead_alloc(box->lib, RIPC_CHACHA20_POLY1305, true);
	box->unseals = ops->aead_alloc(box->lib, RIPC_CHACHA20_POLY1305, false);
	if (box->seals && box->unseals)
		return 0;
	ripc__box_close(box);
	return -ENOMEM;
}

void ripc__box_close(struct cipher_box *box)
{
	if (!box->ops)
		return;
	box->ops->aead_free(box->seals);
	box->ops->aead_free(box->unseals);
	box->ops->close(box->lib);
	*box = (struct cipher_box){0};
}

static int mix_hash(struct noise *noise, const void *data, size_t len)
{
	const struct iovec in[2] = {{noise->hash, 32}, {(void *)data, len}};
	uint8_t digest[32];
	int error = noise->box->ops->hash(noise->box->lib, in, 2, digest);

	if (!error)
		memcpy(noise->hash, digest, 32);
	return error;
}

/* HKDF of RFC 5869 with two or three outputs, of which the first replaces the chaining key. */
static int derive(struct noise *noise, const uint8_t *material, size_t len, uint8_t (*out)[32],
		uint32_t n)
{
	const struct ripc__crypto *ops = noise->box->ops;
	const struct iovec first = {(void *)material, len};
	uint8_t temporary[32];
	int error = ops->mac(noise->box->lib, noise->chaining, &first, 1, temporary);

	for (uint8_t i = 0; !error && i < n; i++) {
		uint8_t count = (uint8_t)(i + 1);
		const struct iovec in[2] = {{i ? out[i - 1] : NULL, i ? 32 : 0}, {&count, 1}};

		error = ops->mac(noise->box->lib, temporary, in + (i == 0), i ? 2 : 1, out[i]);
	}
	explicit_bzero(temporary, sizeof(temporary));
	return error;
}

/* MixKey(); hashes: MixKeyAndHash(), whose second output is hashed. */
static int mix(struct noise *noise, const uint8_t *material, size_t len, bool hashes)
{
	uint8_t out[3][32];
	uint32_t n = hashes ? 3 : 2;
	int error = derive(noise, material, len, out, n);

	if (hashes)
		error = error ? error : mix_hash(noise, out[1], 32);
	if (!error) {
		memcpy(noise->chaining, out[0], 32);
		memcpy(noise->key, out[n - 1], 32);
		noise->counter = 0;
	}
	explicit_bzero(out, sizeof(out));
	return error;
}

/* Public keys are key material, too, because there is a pre-shared key (section 9.2). */
static int mix_public(struct noise *noise, const uint8_t key[32])
{
	int error = mix_hash(noise, key, 32);

	return error ? error : mix(noise, key, 32, false);
}

static int mix_dh(struct noise *noise, const uint8_t secret[32], const uint8_t key[32])
{
	uint8_t shared[32];
	int error = noise->box->ops->dh(noise->box->lib, secret, key, shared);

	error = error ? error : mix(noise, shared, 32, false);
	explicit_bzero(shared, sizeof(shared));
	return error;
}

static void nonce_of(uint64_t counter, uint8_t nonce[RIPC_NONCE_LEN])
{
	uint64_t little = htole64(counter);

	memset(nonce, 0, 4);
	memcpy(nonce + 4, &little, 8);
}

static int encrypt_and_hash(struct noise *noise, const struct iovec *in, uint8_t *out)
{
	uint8_t nonce[RIPC_NONCE_LEN];
	const struct ripc__beside beside = {nonce, noise->hash, 32};
	const struct ripc__crypto *ops = noise->box->ops;
	int error = ops->aead_key(noise->box->seals, noise->key);

	nonce_of(noise->counter++, nonce);
	error = error ? error : ops->seal(noise->box->seals, &beside, in, 1, out);
	return error ? error : mix_hash(noise, out, in->iov_len + RIPC_TAG_LEN);
}

static int decrypt_and_hash(struct noise *noise, const struct iovec *in, uint8_t *out)
{
	uint8_t nonce[RIPC_NONCE_LEN];
	const struct ripc__beside beside = {nonce, noise->hash, 32};
	const struct ripc__crypto *ops = noise->box->ops;
	int error = ops->aead_key(noise->box->unseals, noise->key);

	nonce_of(noise->counter++, nonce);
	error = error ? error : ops->unseal(noise->box->unseals, &beside, in, out);
	return error ? error : mix_hash(noise, in->iov_base, in->iov_len);
}

int ripc__noise_begin(struct noise *noise, struct cipher_box *box, const struct iovec *prologue,
		const uint8_t responder[32])
{
	const struct iovec name = {NAME, sizeof(NAME) - 1};
	int error;

	*noise = (struct noise){.box = box};
	error = box->ops->hash(box->lib, &name, 1, noise->hash);
	memcpy(noise->chaining, noise->hash, 32);
	error = error ? error : mix_hash(noise, prologue->iov_base, prologue->iov_len);
	memcpy(noise->remote_s, responder, 32); /* message 1 brings the initiator's key */
	return error ? error : mix_hash(noise, responder, 32);
}

static int own_ephemeral(struct noise *noise, const uint8_t ephemeral[32], uint8_t *out)
{
	int error = noise->box->ops->dh_public(noise->box->lib, ephemeral, out);

	memcpy(noise->ephemeral, ephemeral, 32);
	return error ? error : mix_public(noise, out);
}

int ripc__noise_write_first(struct noise *noise, const struct static_keys *own,
		const uint8_t ephemeral[32], const struct iovec *payload, uint8_t *out)
{
	const struct iovec key = {(void *)own->public, 32};
	int error = own_ephemeral(noise, ephemeral, out);

	error = error ? error : mix_dh(noise, noise->ephemeral, noise->remote_s); /* es */
	error = error ? error : encrypt_and_hash(noise, &key, out + NOISE_E);
	error = error ? error : mix_dh(noise, own->secret, noise->remote_s); /* ss */
	return error ? error : encrypt_and_hash(noise, payload, out + NOISE_E + NOISE_S);
}

static int read_payload(struct noise *noise, const struct iovec *in, size_t at,
		struct iovec *payload)
{
	const struct iovec sealed = {(uint8_t *)in->iov_base + at, in->iov_len - at};
	int error = decrypt_and_hash(noise, &sealed, payload->iov_base);

	if (!error)
		payload->iov_len = sealed.iov_len - RIPC_TAG_LEN;
	return error;
}

int ripc__noise_read_first(struct noise *noise, const struct static_keys *own,
		const struct iovec *in, struct iovec *payload)
{
	const struct iovec sealed = {(uint8_t *)in->iov_base + NOISE_E, NOISE_S};
	int error;

	if (in->iov_len < NOISE_FIRST)
		return -EBADMSG;
	memcpy(noise->remote_e, in->iov_base, 32);
	error = mix_public(noise, noise->remote_e);
	error = error ? error : mix_dh(noise, own->secret, noise->remote_e); /* es */
	error = error ? error : decrypt_and_hash(noise, &sealed, noise->remote_s);
	error = error ? error : mix_dh(noise, own->secret, noise->remote_s); /* ss */
	return error ? error : read_payload(noise, in, NOISE_E + NOISE_S, payload);
}

int ripc__noise_write_second(struct noise *noise, const uint8_t ephemeral[32],
		const uint8_t psk[32], const struct iovec *payload, uint8_t *out)
{
	int error = own_ephemeral(noise, ephemeral, out);

	error = error ? error : mix_dh(noise, noise->ephemeral, noise->remote_e); /* ee */
	error = error ? error : mix_dh(noise, noise->ephemeral, noise->remote_s); /* se */
	error = error ? error : mix(noise, psk, 32, true);
	return error ? error : encrypt_and_hash(noise, payload, out + NOISE_E);
}

int ripc__noise_read_second(struct noise *noise, const struct static_keys *own,
		const uint8_t psk[32], const struct iovec *in, struct iovec *payload)
{
	int error;

	if (in->iov_len < NOISE_SECOND)
		return -EBADMSG;
	memcpy(noise->remote_e, in->iov_base, 32);
	error = mix_public(noise, noise->remote_e);
	error = error ? error : mix_dh(noise, noise->ephemeral, noise->remote_e); /* ee */
	error = error ? error : mix_dh(noise, own->secret, noise->remote_e); /* se */
	error = error ? error : mix(noise, psk, 32, true);
	return error ? error : read_payload(noise, in, NOISE_E, payload);
}

int ripc__noise_split(struct noise *noise, struct noise_keys *keys)
{
	uint8_t out[2][32];
	int error = derive(noise, NULL, 0, out, 2);

	if (!error) {
		memcpy(keys->initiator, out[0], 32);
		memcpy(keys->responder, out[1], 32);
	}
	explicit_bzero(out, sizeof(out));
	return error;
}

/* Wipes the handshake. The ciphers of the box keep the last key until they get another one. */
void ripc__noise_wipe(struct noise *noise)
{
	static const uint8_t none[32];
	const struct cipher_box *box = noise->box;

	if (box) {
		(void)box->ops->aead_key(box->seals, none);
		(void)box->ops->aead_key(box->unseals, none);
	}
	explicit_bzero(noise, sizeof(*noise));
}
