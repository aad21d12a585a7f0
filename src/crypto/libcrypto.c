/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract of core/net/crypto.h by OpenSSL's libcrypto, 3.0 and newer.
 *
 * Design notes. A library context of our own (OSSL_LIB_CTX) separates us from the program's use
 * of OpenSSL: its configuration files are not read, its engines not used. Algorithms are fetched
 * once, because a fetch takes longer than a packet. Each function of the table reports its begin
 * and end to cleanup.c (IN_USE).
 */
#include "internal.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

struct lib {
	struct crypto_use use;
	OSSL_LIB_CTX *ossl;
	EVP_CIPHER *chacha, *aes;
	EVP_MD *sha256;
	EVP_MD_CTX *digest;
	EVP_MAC *hmac;
	EVP_MAC_CTX *mac;
};

struct aead {
	struct lib *lib;
	EVP_CIPHER_CTX *ctx;
	bool seals;
};

static int use_end(struct lib *lib, int rc)
{
	ripc__crypto_use_end(&lib->use);
	return rc;
}

/* state: of a struct lib. */
#define IN_USE(state, call) \
	(ripc__crypto_use_begin(&((struct lib *)(state))->use) ? use_end(state, call) : -ESHUTDOWN)

static void free_all(struct lib *lib)
{
	EVP_MAC_CTX_free(lib->mac);
	EVP_MAC_free(lib->hmac);
	EVP_MD_CTX_free(lib->digest);
	EVP_MD_free(lib->sha256);
	EVP_CIPHER_free(lib->aes);
	EVP_CIPHER_free(lib->chacha);
	OSSL_LIB_CTX_free(lib->ossl);
}

static void lib_close(void *state)
{
	struct lib *lib = state;

	if (ripc__crypto_use_begin(&lib->use)) {
		free_all(lib);
		ripc__crypto_use_end(&lib->use);
	}
	ripc__crypto_use_close(&lib->use);
	free(lib);
}

/* Fetches one after the other: each needs the ones before it. */
static int fetch_all(struct lib *lib)
{
	lib->ossl = OSSL_LIB_CTX_new();
	if (!lib->ossl)
		return -ENOMEM;
	lib->chacha = EVP_CIPHER_fetch(lib->ossl, "ChaCha20-Poly1305", NULL);
	lib->aes = EVP_CIPHER_fetch(lib->ossl, "AES-128-GCM", NULL);
	lib->sha256 = EVP_MD_fetch(lib->ossl, "SHA256", NULL);
	lib->digest = EVP_MD_CTX_new();
	lib->hmac = EVP_MAC_fetch(lib->ossl, "HMAC", NULL);
	lib->mac = lib->hmac ? EVP_MAC_CTX_new(lib->hmac) : NULL;
	return lib->chacha && lib->aes && lib->sha256 && lib->digest && lib->mac ? 0 : -ENOMEM;
}

static int lib_open(void **state)
{
	struct lib *lib = calloc(1, sizeof(*lib));

	if (!lib || ripc__crypto_use_open(&lib->use)) {
		free(lib);
		return -ENOMEM;
	}
	if (IN_USE(lib, fetch_all(lib))) {
		lib_close(lib);
		return -ENOMEM;
	}
	*state = lib;
	return 0;
}

static bool has_fast_aes(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
	return (getauxval(AT_HWCAP) & 0x18) == 0x18; /* HWCAP_AES, HWCAP_PMULL */
#else
	return false;
#endif
}

/* ---- X25519, Ed25519 --------------------------------------------------------------------- */

static int public_of(struct lib *lib, const char *kind, const uint8_t secret[32], uint8_t key[32])
{
	EVP_PKEY *own = EVP_PKEY_new_raw_private_key_ex(lib->ossl, kind, NULL, secret, 32);
	size_t len = 32;
	int rc = own && EVP_PKEY_get_raw_public_key(own, key, &len) == 1 && len == 32 ? 0 : -EINVAL;

	EVP_PKEY_free(own);
	return rc;
}

static int dh_public(void *state, const uint8_t secret[32], uint8_t key[32])
{
	return IN_USE(state, public_of(state, "X25519", secret, key));
}

static int shared_of(struct lib *lib, const uint8_t secret[32], const uint8_t key[32],
		uint8_t shared[32])
{
	EVP_PKEY *own = EVP_PKEY_new_raw_private_key_ex(lib->ossl, "X25519", NULL, secret, 32);
	EVP_PKEY *other = EVP_PKEY_new_raw_public_key_ex(lib->ossl, "X25519", NULL, key, 32);
	EVP_PKEY_CTX *ctx = own ? EVP_PKEY_CTX_new_from_pkey(lib->ossl, own, NULL) : NULL;
	size_t len = 32;
	int rc = -EKEYREJECTED;

	(void)ERR_set_mark(); /* the program may look at OpenSSL's errors of this thread */
	if (ctx && other && EVP_PKEY_derive_init(ctx) == 1 &&
			EVP_PKEY_derive_set_peer_ex(ctx, other, 0) == 1 &&
			EVP_PKEY_derive(ctx, shared, &len) == 1 && len == 32)
		rc = 0;
	(void)ERR_pop_to_mark();
	EVP_PKEY_CTX_free(ctx);
	EVP_PKEY_free(other);
	EVP_PKEY_free(own);
	return rc;
}

static int dh(void *state, const uint8_t secret[32], const uint8_t key[32], uint8_t shared[32])
{
	return IN_USE(state, shared_of(state, secret, key, shared));
}

static int sign_public(void *state, const uint8_t secret[32], uint8_t key[32])
{
	return IN_USE(state, public_of(state, "ED25519", secret, key));
}

static int signature_make(struct lib *lib, const uint8_t secret[32], const struct iovec *data,
		uint8_t signature[64])
{
	EVP_PKEY *own = EVP_PKEY_new_raw_private_key_ex(lib->ossl, "ED25519", NULL, secret, 32);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t len = 64;
	int rc = -EINVAL;

	if (own && ctx && EVP_DigestSignInit_ex(ctx, NULL, NULL, lib->ossl, NULL, own, NULL) == 1 &&
			EVP_DigestSign(ctx, signature, &len, data->iov_base, data->iov_len) == 1)
		rc = 0;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(own);
	return rc;
}

static int sign(void *state, const uint8_t secret[32], const struct iovec *data,
		uint8_t signature[64])
{
	return IN_USE(state, signature_make(state, secret, data, signature));
}

static int signature_check(struct lib *lib, const uint8_t key[32], const struct iovec *data,
		const uint8_t signature[64])
{
	EVP_PKEY *other = EVP_PKEY_new_raw_public_key_ex(lib->ossl, "ED25519", NULL, key, 32);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	int rc = -ENOMEM;

	if (other && ctx && EVP_DigestVerifyInit_ex(ctx, NULL, NULL, lib->ossl, NULL, other,
				NULL) == 1)
		rc = EVP_DigestVerify(ctx, signature, 64, data->iov_base, data->iov_len) == 1 ? 0 :
			-EKEYREJECTED;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(other);
	return rc;
}

static int verify(void *state, const uint8_t key[32], const struct iovec *data,
		const uint8_t signature[64])
{
	return IN_USE(state, signature_check(state, key, data, signature));
}

/* ---- SHA-256 ----------------------------------------------------------------------------- */

static int hash_make(struct lib *lib, const struct iovec *in, uint32_t n, uint8_t digest[32])
{
	bool ok = EVP_DigestInit_ex2(lib->digest, lib->sha256, NULL) == 1;

	for (uint32_t i = 0; ok && i < n; i++)
		ok = EVP_DigestUpdate(lib->digest, in[i].iov_base, in[i].iov_len) == 1;
	return ok && EVP_DigestFinal_ex(lib->digest, digest, NULL) == 1 ? 0 : -ENOMEM;
}

static int hash(void *state, const struct iovec *in, uint32_t n, uint8_t digest[32])
{
	return IN_USE(state, hash_make(state, in, n, digest));
}

static int mac_make(struct lib *lib, const uint8_t key[32], const struct iovec *in, uint32_t n,
		uint8_t digest[32])
{
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
		OSSL_PARAM_END};
	static const uint8_t none[32];
	size_t len = 32;
	bool ok = EVP_MAC_init(lib->mac, key, 32, params) == 1;

	for (uint32_t i = 0; ok && i < n; i++)
		ok = EVP_MAC_update(lib->mac, in[i].iov_base, in[i].iov_len) == 1;
	ok = ok && EVP_MAC_final(lib->mac, digest, &len, 32) == 1;
	/* The MAC would keep the key until it gets another one. */
	return EVP_MAC_init(lib->mac, none, 32, params) == 1 && ok ? 0 : -ENOMEM;
}

static int mac(void *state, const uint8_t key[32], const struct iovec *in, uint32_t n,
		uint8_t digest[32])
{
	return IN_USE(state, mac_make(state, key, in, n, digest));
}

/* ---- ciphers ----------------------------------------------------------------------------- */

static void aead_free(void *state)
{
	struct aead *aead = state;

	if (!aead)
		return;
	if (ripc__crypto_use_begin(&aead->lib->use)) {
		EVP_CIPHER_CTX_free(aead->ctx);
		ripc__crypto_use_end(&aead->lib->use);
	}
	free(aead);
}

static int cipher_choose(struct aead *aead, enum ripc__cipher cipher)
{
	const struct lib *lib = aead->lib;

	aead->ctx = EVP_CIPHER_CTX_new();
	return aead->ctx && EVP_CipherInit_ex2(aead->ctx, cipher == RIPC_AES_128_GCM ? lib->aes :
		lib->chacha, NULL, NULL, aead->seals, NULL) == 1 ? 0 : -ENOMEM;
}

static void *aead_alloc(void *state, enum ripc__cipher cipher, bool seals)
{
	struct aead *aead = calloc(1, sizeof(*aead));

	if (!aead)
		return NULL;
	aead->lib = state;
	aead->seals = seals;
	if (IN_USE(state, cipher_choose(aead, cipher)) == 0)
		return aead;
	aead_free(aead);
	return NULL;
}

static int key_use(struct aead *aead, const uint8_t *key)
{
	return EVP_CipherInit_ex2(aead->ctx, NULL, key, NULL, aead->seals, NULL) == 1 ? 0 :
		-ENOMEM;
}

static int aead_key(void *state, const uint8_t *key)
{
	struct aead *aead = state;

	return IN_USE(aead->lib, key_use(aead, key));
}

static bool begin(struct aead *aead, const struct ripc__beside *beside)
{
	int len;

	if (EVP_CipherInit_ex2(aead->ctx, NULL, NULL, beside->nonce, aead->seals, NULL) != 1)
		return false;
	return !beside->len || EVP_CipherUpdate(aead->ctx, NULL, &len, beside->data,
		(int)beside->len) == 1;
}

static int encrypt(struct aead *aead, const struct ripc__beside *beside, const struct iovec *in,
		uint32_t n, uint8_t *out)
{
	bool ok = begin(aead, beside);
	int len = 0;

	for (uint32_t i = 0; ok && i < n; i++, out += len) {
		len = 0;
		ok = !in[i].iov_len || EVP_EncryptUpdate(aead->ctx, out, &len, in[i].iov_base,
			(int)in[i].iov_len) == 1;
	}
	ok = ok && EVP_EncryptFinal_ex(aead->ctx, out, &len) == 1 && len == 0;
	return ok && EVP_CIPHER_CTX_ctrl(aead->ctx, EVP_CTRL_AEAD_GET_TAG, RIPC_TAG_LEN, out) == 1 ?
		0 : -ENOMEM;
}

static int seal(void *state, const struct ripc__beside *beside, const struct iovec *in, uint32_t n,
		uint8_t *out)
{
	struct aead *aead = state;

	return IN_USE(aead->lib, encrypt(aead, beside, in, n, out));
}

static int decrypt(struct aead *aead, const struct ripc__beside *beside, const struct iovec *in,
		uint8_t *out)
{
	uint8_t *bytes = in->iov_base;
	size_t n = in->iov_len - RIPC_TAG_LEN;
	int len = 0;

	if (in->iov_len < RIPC_TAG_LEN || !begin(aead, beside) ||
			EVP_CIPHER_CTX_ctrl(aead->ctx, EVP_CTRL_AEAD_SET_TAG, RIPC_TAG_LEN,
				bytes + n) != 1)
		return -EKEYREJECTED;
	if (n && EVP_DecryptUpdate(aead->ctx, out, &len, bytes, (int)n) != 1)
		return -EKEYREJECTED;
	return EVP_DecryptFinal_ex(aead->ctx, out + len, &len) == 1 ? 0 : -EKEYREJECTED;
}

static int unseal(void *state, const struct ripc__beside *beside, const struct iovec *in,
		uint8_t *out)
{
	struct aead *aead = state;

	return IN_USE(aead->lib, decrypt(aead, beside, in, out));
}

const struct ripc__crypto ripc__libcrypto = {
	.name = "libcrypto (OpenSSL)",
	.open = lib_open,
	.close = lib_close,
	.has_fast_aes = has_fast_aes,
	.dh_public = dh_public,
	.dh = dh,
	.hash = hash,
	.mac = mac,
	.sign_public = sign_public,
	.sign = sign,
	.verify = verify,
	.aead_alloc = aead_alloc,
	.aead_free = aead_free,
	.aead_key = aead_key,
	.seal = seal,
	.unseal = unseal,
};
