/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory from the operating system, as the pool needs it. Keeps no state. */
#ifndef RIPC_MEMORY_H
#define RIPC_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* len rounded up to whole pages. */
size_t ripc__memory_round(size_t len);
/*
 * Maps len bytes (whole pages) of a new memfd at a multiple of align (a power of two, at least
 * a page). A child of fork() does not get the mapping. -ENOMEM, -EMFILE and what memfd_create(2)
 * may say.
 */
int ripc__memory_map(size_t len, size_t align, void **memory);
/*
 * The same, to be shared: *fd is open, and sealed: nobody else can write, and nobody can cut it.
 * -1: the kernel has no such seal.
 */
int ripc__memory_map_shared(size_t len, size_t align, void **memory, int *fd);
void ripc__memory_unmap(void *memory, size_t len);
/* Gives pages to what has none yet and leaves the contents alone. -ENOMEM. */
int ripc__memory_fault(void *memory, size_t len);
/*
 * Some emulators accept any advice about memory, also one that does not exist, and follow none.
 * False: what madvise(2) says of this page is not to be believed.
 */
bool ripc__memory_heeds_advice(void *page);
/* Half of the machine's memory, or of what the control group allows if that is less, bytes. */
uint64_t ripc__memory_half(void);

#endif
