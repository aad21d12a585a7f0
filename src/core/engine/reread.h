/* SPDX-License-Identifier: BSD-3-Clause */
/* The directory of keys is read again without the lock, as a file system may take its time. */
#ifndef RIPC_REREAD_H
#define RIPC_REREAD_H

struct ripc_context;

/* The calling thread reads, and leaves the lock meanwhile. Errors: as of ripc_keys_reload(). */
int ripc__reread(struct ripc_context *ctx);
/* A thread of its own reads. A context that must have no threads is read for here and now. */
void ripc__reread_begin(struct ripc_context *ctx);
/* Waits for that thread; without the lock. */
void ripc__reread_end(struct ripc_context *ctx);

#endif
