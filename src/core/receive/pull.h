/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking for bytes. */
#ifndef RIPC_PULL_H
#define RIPC_PULL_H

#include <stdint.h>

struct incoming;

/* Sends a PULL: what may come, and, up to holes_end, what is missing. */
void ripc__incoming_pull(struct incoming *incoming, uint64_t holes_end);
/* Asks for what has become due, and says what may come. */
void ripc__pull_due(struct incoming *incoming);

#endif
