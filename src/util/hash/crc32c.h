/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C (Castagnoli, RFC 3720 appendix B.4), with the processor's instruction where it has
 * one; alone, fused with a copy, and combined from parts. */
#ifndef RIPC_CRC32C_H
#define RIPC_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of the bytes of crc, followed by len bytes of data; crc 0: nothing yet. */
uint32_t ripc__crc32c(uint32_t crc, const void *data, size_t len);
/* The same, copying data to dest (not overlapping) in the same pass. */
uint32_t ripc__crc32c_copy(uint32_t crc, void *dest, const void *data, size_t len);
/*
 * The contribution of crc when len more bytes follow: for a = CRC(A), b = CRC(B), CRC(A|B) =
 * ripc__crc32c_shift(a, len(B)) ^ b. Costs some ns per set bit of len.
 */
uint32_t ripc__crc32c_shift(uint32_t crc, uint64_t len);

#endif
