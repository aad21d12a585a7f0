/* SPDX-License-Identifier: BSD-3-Clause */
/* Cryptography by OpenSSL's libcrypto. */
#ifndef RIPC_CRYPTO_INTERNAL_H
#define RIPC_CRYPTO_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/net/crypto.h"

extern const struct ripc__crypto ripc__libcrypto;

/* One user of libcrypto (cleanup.c): a context, or a tool. One thread at a time uses it. */
struct crypto_use {
	struct crypto_use *next;
	atomic_uintptr_t thread; /* the thread that is in a call; 0: none */
};

/* 0, or -ENOMEM; also once libcrypto has been cleaned up. */
int ripc__crypto_use_open(struct crypto_use *use);
void ripc__crypto_use_close(struct crypto_use *use);
/* A call into libcrypto begins. False: libcrypto has been cleaned up, and must not be touched. */
bool ripc__crypto_use_begin(struct crypto_use *use);
void ripc__crypto_use_end(struct crypto_use *use);

#endif
