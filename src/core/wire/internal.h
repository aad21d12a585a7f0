/* SPDX-License-Identifier: BSD-3-Clause */
/* Positions of fields, for the files that decode and encode them. */
#ifndef RIPC_WIRE_INTERNAL_H
#define RIPC_WIRE_INTERNAL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "util/hash/crc32c.h"
#include "wire.h"

#define CRC_AT        4u /* where the checksum lies, in packets and resolver packets */
#define CRC_END       8u
#define PULL_BODY     32u
#define STATUS_END    4096u /* all errno values are below, on every system (Linux: MAX_ERRNO) */
#define EXTENSIONS    (WIRE_F_HELLO | WIRE_F_ACK | WIRE_F_LENDS | WIRE_F_REPLIES | \
	WIRE_F_RETURNS | WIRE_F_CALL)
#define COUNT_SHIFT   8 /* SHORT: the number of items in flags */

/* A place in a datagram: everything before "at" has been taken. */
struct wire_cursor {
	const uint8_t *at, *end;
};

/* Takes the next len bytes; NULL: there are fewer. */
static inline const uint8_t *wire_take(struct wire_cursor *cursor, size_t len)
{
	const uint8_t *at = cursor->at;

	if ((size_t)(cursor->end - at) < len)
		return NULL;
	cursor->at += len;
	return at;
}

/* Continues a CRC32C with bytes whose checksum field counts as zero. */
static inline uint32_t ripc__crc_without_field(uint32_t crc, const uint8_t *bytes, size_t len)
{
	uint8_t head[CRC_END] = {0};

	memcpy(head, bytes, CRC_AT);
	crc = ripc__crc32c(crc, head, CRC_END);
	return ripc__crc32c(crc, bytes + CRC_END, len - CRC_END);
}

#endif
