/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages that a context receives. */
#ifndef RIPC_RECEIVES_H
#define RIPC_RECEIVES_H

#include <stdint.h>

#include "core/message/move.h"
#include "util/list.h"

struct incoming;

struct receives {
	struct list granted, ungranted;
	struct incoming *arriving; /* the last with bytes in this look; or NULL */
	struct moves reads;
	struct list lingering;     /* readings given up */
	uint32_t picks;
	uint64_t no_room_us;       /* when room last was missing (incoming.c) */
	struct list acks;
	uint64_t acks_due_us;      /* while acks wait for a packet: until when */
};

#endif
