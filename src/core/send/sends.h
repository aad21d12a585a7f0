/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages that a context sends. */
#ifndef RIPC_SENDS_H
#define RIPC_SENDS_H

#include <stdint.h>

#include "core/message/move.h"
#include "util/list.h"

struct partner;

#define BATCHING_MAX 16u /* partners whose announcements wait for others */

struct sends {
	struct list ended;         /* ended, but waited for, fencing, or with the application */
	struct moves writes;
	struct partner *batching[BATCHING_MAX]; /* partners whose announcements wait; or NULL */
	uint32_t n_batching;
	uint64_t batching_due_us;    /* until when they wait */
	uint64_t nowait_us;        /* when the last RIPC_NOWAIT long was sent */
	uint64_t places;           /* of ordered messages */
	uint32_t n_orphans, n_gaps; /* of closed services: fencing messages; order.h */
};

#endif
