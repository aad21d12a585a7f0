/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fixed set of equal receive buffers with reference counts. The set outlives its owner:
 * buffers that are still held when the owner closes stay valid, and the last reference frees the
 * memory.
 */
#ifndef RIPC_BUFFERS_H
#define RIPC_BUFFERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct ripc__buffers;

struct ripc__buffer {
	_Atomic uint32_t refs; /* the owner's (until it closes the set) and the users' */
	struct ripc__buffers *set;
	uint8_t *data;
};

/* The first buffer's pages are touched at once, the others' when they are first used. */
int ripc__buffers_open(uint32_t count, size_t len, struct ripc__buffers **set);
/* The owner must not use the set afterwards. */
void ripc__buffers_close(struct ripc__buffers *set);
/*
 * Finds an unused buffer, the lowest from index *at on (the same warm one is thus used again),
 * and moves *at behind it; NULL: none. Only the owner may call this, from one thread at a time.
 */
struct ripc__buffer *ripc__buffers_find(struct ripc__buffers *set, uint32_t *at);
/* The buffer of an index below count, for an owner that keeps its own account of them. */
struct ripc__buffer *ripc__buffers_at(struct ripc__buffers *set, uint32_t index);
/* Is the buffer unused? Only for the owner. */
bool ripc__buffer_is_free(const struct ripc__buffer *buffer);
/* The range of all buffers, and the bytes between them: whole pages. */
void ripc__buffers_range(const struct ripc__buffers *set, struct iovec *range);
/* Adds n users to a buffer that _find returned. */
void ripc__buffer_hold(struct ripc__buffer *buffer, uint32_t n);
/* Removes n users. Any thread. */
void ripc__buffer_put(struct ripc__buffer *buffer, uint32_t n);
/* As ripc__backend.datagrams.release, with the buffer as handle: removes one user. */
void ripc__buffer_release(void *port, void *handle);

#endif
