/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the network may still use. */
#ifndef RIPC_FENCE_H
#define RIPC_FENCE_H

#include <stdint.h>

#include "util/list.h"

struct outgoing;

/*
 * Memory of a message that the network may still use: until that is over, what became of the
 * message is not told. The first member of what it is about, with which it is freed.
 */
struct fence {
	struct list node; /* outgoing->fencing */
	struct outgoing *outgoing;
};

#endif
