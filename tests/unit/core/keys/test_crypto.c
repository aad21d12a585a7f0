/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cryptography, by the vectors of its specifications: RFC 7748 5.2 (X25519), RFC 8032 7.1
 * (Ed25519), RFC 8439 2.8.2 (ChaCha20-Poly1305), McGrew and Viega's test case 4 (AES-128-GCM), RFC
 * 4231 4.2 (HMAC), FIPS 180-2 (SHA-256); and what is altered or of order zero is refused.
 */
#include <errno.h>
#include <openssl/err.h>
#include <string.h>

#include "core/net/crypto.h"
#include "suite.h"
#include "util/text.h"

#define LONGEST 256

static const struct ripc__crypto *crypto;
static void *lib;

static void set_up(void)
{
	char why[256], remedy[256];

	crypto = ripc__crypto_load(why, remedy);
	ck_assert_ptr_nonnull(crypto);
	ck_assert_int_eq(crypto->open(&lib), 0);
}

static void tear_down(void)
{
	crypto->close(lib);
}

static size_t bytes_of(const char *text, uint8_t bytes[LONGEST])
{
	size_t len = strlen(text) / 2;

	ck_assert_uint_le(len, LONGEST);
	ck_assert(ripc__hex_read(text, bytes, len));
	return len;
}

static void assert_bytes(const uint8_t *bytes, const char *text)
{
	uint8_t expected[LONGEST];
	size_t len = bytes_of(text, expected);

	ck_assert_mem_eq(bytes, expected, len);
}

START_TEST(dh__as_in_rfc_7748)
{
	uint8_t secret[LONGEST], key[LONGEST], shared[32];

	bytes_of("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4", secret);
	bytes_of("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c", key);
	ck_assert_int_eq(crypto->dh(lib, secret, key, shared), 0);
	assert_bytes(shared, "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
}
END_TEST

START_TEST(dh__refuses_what_yields_zero)
{
	static const char *const low[] = {
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"};
	uint8_t secret[32] = {1, 2, 3}, key[LONGEST], shared[32];

	for (size_t i = 0; i < sizeof(low) / sizeof(low[0]); i++) {
		bytes_of(low[i], key);
		ck_assert_int_eq(crypto->dh(lib, secret, key, shared), -EKEYREJECTED);
		/* The program that looks at OpenSSL's errors finds none of ours. */
		ck_assert_uint_eq(ERR_peek_error(), 0);
	}
}
END_TEST

START_TEST(sign__as_in_rfc_8032)
{
	uint8_t secret[LONGEST], key[32], signature[64], byte = 0x72;
	const struct iovec data = {&byte, 1};

	bytes_of("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", secret);
	ck_assert_int_eq(crypto->sign_public(lib, secret, key), 0);
	assert_bytes(key, "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
	ck_assert_int_eq(crypto->sign(lib, secret, &data, signature), 0);
	assert_bytes(signature, "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
		"085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
	ck_assert_int_eq(crypto->verify(lib, key, &data, signature), 0);
	for (int bit = 0; bit < 512; bit += 37) {
		signature[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(crypto->verify(lib, key, &data, signature), -EKEYREJECTED);
		signature[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	byte ^= 1;
	ck_assert_int_eq(crypto->verify(lib, key, &data, signature), -EKEYREJECTED);
}
END_TEST

START_TEST(hash__and_mac)
{
	uint8_t key[32], digest[32];
	const struct iovec abc[2] = {{"ab", 2}, {"c", 1}}, hi[2] = {{"Hi ", 3}, {"There", 5}};

	ck_assert_int_eq(crypto->hash(lib, abc, 2, digest), 0);
	assert_bytes(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	/* A key of 20 bytes is one of 32 that ends in zeros: HMAC fills it up to 64. */
	memset(key, 0, sizeof(key));
	memset(key, 0x0b, 20);
	ck_assert_int_eq(crypto->mac(lib, key, hi, 2, digest), 0);
	assert_bytes(digest, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}
END_TEST

static const struct sealing {
	enum ripc__cipher cipher;
	const char *key, *nonce, *beside, *plain, *sealed;
} sealings[] = {
	{RIPC_CHACHA20_POLY1305,
	 "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
	 "070000004041424344454647", "50515253c0c1c2c3c4c5c6c7",
	 "4c616469657320616e642047656e746c656d656e206f662074686520636c6173"
	 "73206f66202739393a20496620"
	 "4920636f756c64206f6666657220796f75206f6e6c79206f6e65207469702066"
	 "6f7220746865206675747572652c"
	 "2073756e73637265656e20776f756c642062652069742e",
	 "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
	 "3dbea45e8ca9671282fafb69da92"
	 "728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee32809"
	 "1b58fab324e4fad675945585808b"
	 "4831d7bc3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691"},
	{RIPC_AES_128_GCM, "feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
	 "feedfacedeadbeeffeedfacedeadbeefabaddad2",
	 "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
	 "1c3c0c95956809532fcf0e2449a6"
	 "b525b16aedf5aa0de657ba637b39",
	 "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
	 "21d514b25466931c7d8f6a5aac84"
	 "aa051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47"},
};

START_TEST(seal__as_specified)
{
	const struct sealing *s = &sealings[_i];
	uint8_t key[LONGEST], nonce[LONGEST], data[LONGEST], plain[LONGEST], sealed[LONGEST];
	size_t plain_len = bytes_of(s->plain, plain), len = plain_len + RIPC_TAG_LEN;
	struct ripc__beside beside = {nonce, data, (uint32_t)bytes_of(s->beside, data)};
	const struct iovec pieces[3] = {{plain, 7}, {NULL, 0}, {plain + 7, plain_len - 7}};
	const struct iovec in = {sealed, len};
	void *seals = crypto->aead_alloc(lib, s->cipher, true);
	void *unseals = crypto->aead_alloc(lib, s->cipher, false);

	bytes_of(s->key, key);
	bytes_of(s->nonce, nonce);
	ck_assert_int_eq(crypto->aead_key(seals, key), 0);
	ck_assert_int_eq(crypto->aead_key(unseals, key), 0);
	ck_assert_int_eq(crypto->seal(seals, &beside, pieces, 3, sealed), 0);
	assert_bytes(sealed, s->sealed);
	ck_assert_int_eq(crypto->unseal(unseals, &beside, &in, sealed), 0);
	ck_assert_mem_eq(sealed, plain, plain_len);
	/* One bit anywhere: of what is sealed, of the tag, of what is beside it. */
	for (size_t bit = 0; bit < 8 * (len + beside.len); bit += 11) {
		uint8_t *at = bit / 8 < len ? sealed + bit / 8 : data + bit / 8 - len;

		bytes_of(s->sealed, sealed);
		*at ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(crypto->unseal(unseals, &beside, &in, sealed), -EKEYREJECTED);
		bytes_of(s->beside, data);
	}
	bytes_of(s->sealed, sealed);
	ck_assert_int_eq(crypto->unseal(unseals, &beside, &in, sealed), 0);
	crypto->aead_free(seals);
	crypto->aead_free(unseals);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {dh__as_in_rfc_7748, dh__refuses_what_yields_zero,
		sign__as_in_rfc_8032, hash__and_mac};
	TCase *tcase = tcase_create("crypto");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	tcase_add_loop_test(tcase, seal__as_specified, 0, 2);
	return suite_finish("crypto", tcase);
}
