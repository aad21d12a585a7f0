/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the network may still use. */
#ifndef RIPC_FENCE_H
#define RIPC_FENCE_H

#include <stdint.h>

#include "util/list.h"

struct outgoing;

/*
 * Memory of a message that the network may still use: until the network is done, the message's
 * outcome is not told. A fence is the first member of the object it is about, and freed with it.
 */
struct fence {
	struct list node; /* outgoing->fencing */
	struct outgoing *outgoing;
};

#endif
