/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for the cryptography where the library was built without libcrypto. */
#include <stdio.h>

#include "core/net/crypto.h"

const struct ripc__crypto *ripc__crypto_load(char why[256], char remedy[256])
{
	snprintf(why, 256, "this library was built without keys");
	snprintf(remedy, 256, "build it with OpenSSL 3.0 or newer (libssl-dev)");
	return NULL;
}
