/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the network may still use. */
#ifndef RIPC_FENCE_H
#define RIPC_FENCE_H

#include <stdint.h>

#include "util/list.h"

struct outgoing;

/*
 * Memory of a message that the network may still use. Until the network is done, the message's
 * outcome is not told. A fence is the first member of the object that has the memory, and is freed
 * with that object.
 */
struct fence {
	struct list node; /* outgoing->fencing */
	struct outgoing *outgoing;
};

#endif
