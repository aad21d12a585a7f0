/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that are too long for the cache. */
#ifndef RIPC_STREAM_H
#define RIPC_STREAM_H

#include <stddef.h>
#include <stdint.h>

/* memcpy() of bytes that will not be read soon, or are longer than the cache. */
void ripc__copy_past_cache(void *to, const void *from, size_t len);

#endif
