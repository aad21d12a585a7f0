/* SPDX-License-Identifier: BSD-3-Clause */
/* Cryptography by OpenSSL's libcrypto. */
#ifndef RIPC_LIBCRYPTO_H
#define RIPC_LIBCRYPTO_H

#include "core/net/crypto.h"

extern const struct ripc__crypto ripc__libcrypto;

#endif
