/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between core and a library of cryptography: the few functions that contexts with
 * keys need. The environment (env.h) provides the table. So a context without keys loads no such
 * library. Functions return 0 or a negative errno. On failure outputs are untouched, except those
 * of unseal, which may write before it finds a forged tag.
 */
#ifndef RIPC_CRYPTO_H
#define RIPC_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define RIPC_KEY_LEN       32u /* of each key; AES-128-GCM uses the first 16 bytes */
#define RIPC_TAG_LEN       16u
#define RIPC_NONCE_LEN     12u
#define RIPC_SIGNATURE_LEN 64u

enum ripc__cipher { RIPC_CHACHA20_POLY1305 = 1, RIPC_AES_128_GCM = 2 };

/* The nonce, and the data that is authenticated beside the plaintext. */
struct ripc__beside {
	const uint8_t *nonce; /* RIPC_NONCE_LEN bytes */
	const void *data;
	uint32_t len;
};

struct ripc__crypto {
	const char *name; /* of the library, for people */

	/* State that all other functions take as lib; one thread at a time uses it. */
	int (*open)(void **lib);
	void (*close)(void *lib);
	/* Is AES-128-GCM the faster cipher on this processor? */
	bool (*has_fast_aes)(void);

	/* X25519 (RFC 7748). dh refuses (-EKEYREJECTED) a key that yields zero. */
	int (*dh_public)(void *lib, const uint8_t secret[32], uint8_t key[32]);
	int (*dh)(void *lib, const uint8_t secret[32], const uint8_t key[32], uint8_t shared[32]);
	/* SHA-256, and HMAC with it under a key of 32 bytes. */
	int (*hash)(void *lib, const struct iovec *in, uint32_t n, uint8_t digest[32]);
	int (*mac)(void *lib, const uint8_t key[32], const struct iovec *in, uint32_t n,
			uint8_t mac[32]);
	/* Ed25519 (RFC 8032). verify: -EKEYREJECTED: the signature is wrong; or -ENOMEM. */
	int (*sign_public)(void *lib, const uint8_t secret[32], uint8_t key[32]);
	int (*sign)(void *lib, const uint8_t secret[32], const struct iovec *data,
			uint8_t signature[64]);
	int (*verify)(void *lib, const uint8_t key[32], const struct iovec *data,
			const uint8_t signature[64]);

	/* A cipher that seals or unseals; NULL: no memory. aead_key gives it a key. */
	void *(*aead_alloc)(void *lib, enum ripc__cipher cipher, bool seals);
	void (*aead_free)(void *aead);
	int (*aead_key)(void *aead, const uint8_t *key);
	/*
	 * Writes the ciphertext of in, and RIPC_TAG_LEN bytes, to out. out overlaps no piece of in,
	 * or equals the only piece.
	 */
	int (*seal)(void *aead, const struct ripc__beside *beside, const struct iovec *in,
			uint32_t n, uint8_t *out);
	/*
	 * Writes len - RIPC_TAG_LEN bytes to out, which may be in->iov_base. -EKEYREJECTED: the
	 * tag is wrong, and out must not be used.
	 */
	int (*unseal)(void *aead, const struct ripc__beside *beside, const struct iovec *in,
			uint8_t *out);
};

/*
 * The built-in library. NULL: it cannot be loaded, and why and remedy have sentences as those of a
 * probe.
 */
const struct ripc__crypto *ripc__crypto_load(char why[256], char remedy[256]);

/* Are a and b equal? The time of the comparison does not depend on where they differ. */
bool ripc__is_equal(const void *a, const void *b, size_t len);

#endif
