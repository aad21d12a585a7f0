/* SPDX-License-Identifier: BSD-3-Clause */
/* How the pool shows its memory to others. */
#ifndef RIPC_SHARED_H
#define RIPC_SHARED_H

#include <stddef.h>
#include <stdint.h>

/* Memory of the pool that others may be shown: a memfd that only we can write. */
struct ripc__shared {
	uint64_t id;   /* never used again */
	uint8_t *base; /* our mapping */
	size_t len;
	int fd;        /* the pool's; valid while the memory is in use */
};

#endif
