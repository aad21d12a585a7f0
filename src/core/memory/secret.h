/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for keys: a core dump of the process does not have it, and a child of fork() finds zeros
 * there. Freed memory is wiped.
 */
#ifndef RIPC_SECRET_H
#define RIPC_SECRET_H

#include <stddef.h>

#include "util/list.h"

/* All zero: nothing was allocated yet. For one thread at a time. */
struct secret_memory {
	struct list chunks; /* chunks with a free block */
};

/* Allocates len zero bytes, less than a page. NULL: no memory. */
void *ripc__secret_alloc(struct secret_memory *memory, size_t len);
/* Wipes and frees memory. len: as in its allocation. */
void ripc__secret_free(struct secret_memory *memory, void *at, size_t len);
/* Unmaps all chunks. All memory was freed before. */
void ripc__secret_close(struct secret_memory *memory);

/* As ripc__secret_alloc() and ripc__secret_free(), for any length, with pages of its own. */
void *ripc__secret_map(size_t len);
void ripc__secret_unmap(void *at, size_t len);

#endif
