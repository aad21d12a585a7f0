/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking for bytes. */
#ifndef RIPC_PULL_H
#define RIPC_PULL_H

#include <stdint.h>

struct incoming;

/* Sends a PULL: it names the bytes that may come, and the bytes missing before holes_end. */
void ripc__incoming_pull(struct incoming *incoming, uint64_t holes_end);
/* Sends a PULL for gaps and grants that have become due. */
void ripc__pull_due(struct incoming *incoming);

#endif
