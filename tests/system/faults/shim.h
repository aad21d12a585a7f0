/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the n-th call that the library makes to the C library or the kernel fail, and keeps
 * count of the memory that it holds. Linked between them with -Wl,--wrap.
 */
#ifndef SHIM_H
#define SHIM_H

#include <stdbool.h>
#include <stdint.h>

/* From now on calls are counted, and those from first to first + n - 1 fail. */
void shim_arm(uint64_t first, uint64_t n);
/* No more failures; returns how many calls were counted. */
uint64_t shim_disarm(void);
/* Blocks of memory that were taken and not given back. */
int64_t shim_blocks(void);
/* The name of a call that was made in some run and failed in none, or NULL. all: or never made. */
const char *shim_never_failed(bool all);

#endif
