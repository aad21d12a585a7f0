/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of an incoming long message: those that are there, and those that are missing. */
#ifndef RIPC_COLLECT_H
#define RIPC_COLLECT_H

#include <stdint.h>

#include "core/wire/wire.h"

struct incoming;

/*
 * Takes a packet's bytes, which begin at offset. Returns how many bytes were new; -EBADMSG: the
 * bytes were altered; -ENOMEM.
 */
int64_t ripc__collect(struct incoming *incoming, const struct wire_packet *packet,
		uint64_t offset);
/* Fills holes with the ranges that are missing before end; returns their number. */
uint32_t ripc__collect_holes(const struct incoming *incoming, uint64_t end,
		struct wire_range holes[WIRE_HOLES_MAX]);

#endif
