/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory, reads and writes of a sealed network: where they are used, and the slots for them. */
#ifndef RIPC_SEALED_MOVES_H
#define RIPC_SEALED_MOVES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"

/* Of what the inner network can do, what may be used. */
uint32_t ripc__sealed_caps(const struct ripc__host *host, const struct ripc__backend *inner,
		uint32_t caps);

int ripc__sealed_reg(void *port, void *route, void *mem, size_t len, bool source, void **region);
void ripc__sealed_dereg(void *port, void *region);
int ripc__sealed_mem_open(void *port, void *route, void *mem, size_t len, bool writable,
		struct ripc__key *key);
int ripc__sealed_mem_close(void *port, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie);
int ripc__sealed_move(void *port, void *route, const struct ripc__move *move);
int ripc__sealed_map(void *port, void *route, const struct ripc__key *key, size_t len,
		struct ripc__mapping *mapping);
void ripc__sealed_unmap(void *port, void *handle);

#endif
