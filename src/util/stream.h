/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of what is too long for the cache. */
#ifndef RIPC_STREAM_H
#define RIPC_STREAM_H

#include <stddef.h>
#include <stdint.h>

/* memcpy() of what will not be looked at soon, or is longer than the cache. */
void ripc__copy_past_cache(void *to, const void *from, size_t len);

#endif
