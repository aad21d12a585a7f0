/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop backend, and the hub through which the contexts of one process find each other by it. A
 * test opens a hub and passes it as struct ripc__env.arg, which becomes struct ripc__host.env.
 */
#ifndef RIPC_LOOP_H
#define RIPC_LOOP_H

#include "core/net/backend.h"

extern const struct ripc__backend ripc__loop_backend;

struct ripc__loop_hub;

/* -ENOMEM. */
int ripc__loop_hub_open(struct ripc__loop_hub **hub);
/* All ports that used it must be closed. Received buffers may still be held. */
void ripc__loop_hub_close(struct ripc__loop_hub *hub);

#endif
