/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checksum of a message that other parts move (docs/protocol.md, Reads): quick on any
 * processor, without special instructions, and a sum over blocks: pieces count in any order.
 */
#ifndef RIPC_BLOCKSUM_H
#define RIPC_BLOCKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a block; an item's last one may be shorter. Pieces are cut between blocks. */
#define RIPC__BLOCK 4096u

/*
 * The contribution of len bytes to the sum of their message: they begin with a block, offset
 * bytes behind the beginning of the message, and end with one. Contributions are added, modulo
 * 2^64.
 */
uint64_t ripc__blocksum(const void *data, size_t len, uint64_t offset);

struct iovec;

/* The sum of a message's items without their first carried bytes, which the announcement has. */
uint32_t ripc__blocksum_items(const struct iovec *items, uint32_t n_items, uint64_t carried);

/* The sum of all, in the form of packets. */
static inline uint32_t ripc__blocksum_told(uint64_t sum)
{
	return (uint32_t)(sum ^ sum >> 32);
}

#endif
