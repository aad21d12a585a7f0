/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of memory, and reserved addresses for them. Keeps no state. */
#ifndef RIPC_UTIL_MAPPING_H
#define RIPC_UTIL_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The bytes that one entry of a page table can map where pages have 4 KiB (x86-64, most arm64).
 * On other machines large pages have another size, and this one neither helps nor harms.
 */
#define LARGE_PAGE ((size_t)2 << 20)

/* An empty memfd that can be sealed and is closed on exec. A negative errno (memfd_create(2)). */
int ripc__memfd(void);
/* Does RLIMIT_FSIZE forbid a file of this length? The kernel ends a process that makes one. */
bool ripc__is_over_file_limit(size_t len);
/*
 * Sets the length of an empty memfd and, if takes_memory, allocates all of it. -EFBIG:
 * RLIMIT_FSIZE is below len; no SIGXFSZ is raised. -ENOMEM.
 */
int ripc__memfd_size(int fd, size_t len, bool takes_memory);
/*
 * Reserves len bytes of addresses (whole pages) at a multiple of align (a power of two, at least
 * a page), without memory behind them: to be mapped over, and unmapped. -ENOMEM.
 */
int ripc__reserve(size_t len, size_t align, uint8_t **at);

#endif
