/* SPDX-License-Identifier: BSD-3-Clause */
/* Cryptography for fuzz targets: its library is opened once, as that takes longer than a run. */
#ifndef FUZZ_KEYS_H
#define FUZZ_KEYS_H

#include "core/net/crypto.h"
#include "fuzz.h"

static void *fuzz_lib;

static inline int fuzz_crypto_open(void **lib)
{
	*lib = fuzz_lib;
	return 0;
}

static inline void fuzz_crypto_close(void *lib)
{
	(void)lib;
}

static inline const struct ripc__crypto *fuzz_crypto(char why[256], char remedy[256])
{
	static struct ripc__crypto crypto;

	if (!fuzz_lib) {
		const struct ripc__crypto *real = ripc__crypto_load(why, remedy);

		CLAIM(real && real->open(&fuzz_lib) == 0);
		crypto = *real;
		crypto.open = fuzz_crypto_open;
		crypto.close = fuzz_crypto_close;
	}
	return &crypto;
}

#endif
