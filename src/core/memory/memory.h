/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory from the operating system, for the pool. This file keeps no state. */
#ifndef RIPC_MEMORY_H
#define RIPC_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* len rounded up to whole pages. */
size_t ripc__memory_round(size_t len);
/*
 * Maps len bytes (whole pages) of new memory at a multiple of align (a power of two, at least
 * a page). A child of fork() does not get the mapping. -ENOMEM.
 */
int ripc__memory_map(size_t len, size_t align, void **memory);
/*
 * As ripc__memory_map(), for memory of this process alone: there is no memfd, and no large pages. A
 * child of fork() finds zeros there.
 */
int ripc__memory_map_private(size_t len, size_t align, void **memory);
/* As ripc__memory_map_private(). A core dump of the process does not have this memory. */
int ripc__memory_map_secret(size_t len, size_t align, void **memory);
void ripc__memory_unmap_secret(void *memory, size_t len);
/*
 * As ripc__memory_map(), for memory to be shared. *fd is open and sealed: no other process can
 * write to the memfd, and none can shorten it. *fd -1: the kernel has no such seal, or there is
 * no memfd of this length (memfd_create(2) is refused, no descriptor is left, RLIMIT_FSIZE is
 * lower); the memory cannot be shared then, and is otherwise the same.
 */
int ripc__memory_map_shared(size_t len, size_t align, void **memory, int *fd);
void ripc__memory_unmap(void *memory, size_t len);
/* Gives pages to parts of the memory that have none yet; keeps the contents. -ENOMEM. */
int ripc__memory_fault(void *memory, size_t len);
/*
 * Some emulators accept any advice about memory, even advice that does not exist, and follow none.
 * False: the result of madvise(2) for this page must not be trusted.
 */
bool ripc__memory_heeds_advice(void *page);
/* Reads one word of each page of the memory. -EFAULT: a page cannot be read. */
int ripc__memory_probe(void *memory, size_t len);
/* Bytes: half of the machine's memory, or half of the control group's limit if that is less. */
uint64_t ripc__memory_half(void);

#endif
