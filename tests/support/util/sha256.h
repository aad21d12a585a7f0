/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256 (FIPS 180-4), for traces and for comparing files in tests. */
#ifndef TEST_SHA256_H
#define TEST_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
	uint32_t state[8];
	uint64_t len; /* bytes so far */
	uint8_t block[64];
};

void sha256_init(struct sha256 *hash);
void sha256_update(struct sha256 *hash, const void *data, size_t len);
/* Afterwards hash has to be initialised again. */
void sha256_final(struct sha256 *hash, uint8_t digest[32]);
void sha256_hex(const uint8_t digest[32], char text[65]);

#endif
