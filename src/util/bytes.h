/* SPDX-License-Identifier: BSD-3-Clause */
/* Little-endian numbers at any address. */
#ifndef RIPC_BYTES_H
#define RIPC_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define RIPC__BYTES(bits)                                             \
	static inline uint##bits##_t get##bits(const void *from)      \
	{                                                             \
		uint##bits##_t value;                                 \
		memcpy(&value, from, sizeof(value));                  \
		return le##bits##toh(value);                          \
	}                                                             \
	static inline void put##bits(void *to, uint##bits##_t value)  \
	{                                                             \
		value = htole##bits(value);                           \
		memcpy(to, &value, sizeof(value));                    \
	}

RIPC__BYTES(16)
RIPC__BYTES(32)
RIPC__BYTES(64)

#endif
