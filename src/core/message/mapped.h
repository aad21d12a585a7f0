/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transferred buffers (RIPC_GIVE) on networks that can map them: buffers of partners, which the
 * application reads in place, and buffers of ours that partners hold.
 */
#ifndef RIPC_MAPPED_H
#define RIPC_MAPPED_H

#include <stdint.h>

struct iovec;
struct message;
struct partner;
struct ripc_context;
struct wire_packet;

/* Maps the transferred items, and makes their message; NULL: the items must be read. */
struct message *ripc__mapped_message(struct partner *partner, const struct wire_packet *announce);
/* Before the devices close: gives back the buffers that are still held. */
void ripc__mapped_close(struct ripc_context *ctx);
/*
 * Checks that the items can be transferred: each must lie in a buffer of the pool, or in a mapped
 * one, which has a reference for each item in it; else -EINVAL.
 */
int ripc__buffers_check(struct ripc_context *ctx, const struct iovec *items, uint32_t n);
/* Takes a reference for each item, or none at all: -EOVERFLOW, -EINVAL. Drops one for each. */
int ripc__buffers_ref(struct ripc_context *ctx, const struct iovec *items, uint32_t n);
void ripc__buffers_free(struct ripc_context *ctx, const struct iovec *items, uint32_t n);
/* Takes, or drops, a reference to a buffer of the pool or to a mapped buffer. */
int ripc__buffer_ref(struct ripc_context *ctx, const void *buf);
int ripc__buffer_free(struct ripc_context *ctx, const void *buf);

#endif
