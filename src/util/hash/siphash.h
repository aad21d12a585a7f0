/* SPDX-License-Identifier: BSD-3-Clause */
/* SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed hash that outsiders cannot predict. */
#ifndef RIPC_SIPHASH_H
#define RIPC_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t ripc__siphash(const uint8_t key[16], const void *data, size_t len);

#endif
