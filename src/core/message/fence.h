/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the network may still use. */
#ifndef RIPC_FENCE_H
#define RIPC_FENCE_H

#include <stdint.h>

#include "core/net/backend.h"
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

typedef int ripc__key_closer(void *dev, const struct ripc__key *key, uint64_t cookie);

/* What closes the key of a partner that may be using it now. */
static inline ripc__key_closer *ripc__revoker(const struct ripc__backend *ops)
{
	return ops->mem_revoke ? ops->mem_revoke : ops->mem_close;
}

#endif
