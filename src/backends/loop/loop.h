/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hub through which the contexts of one process find each other with the loop backend. A
 * test opens one and passes it as struct ripc__env.arg, which becomes struct ripc__host.env.
 */
#ifndef RIPC_LOOP_H
#define RIPC_LOOP_H

struct ripc__loop_hub;

/* -ENOMEM. */
int ripc__loop_hub_open(struct ripc__loop_hub **hub);
/* All devices that used it must be closed. Received buffers may still be held. */
void ripc__loop_hub_close(struct ripc__loop_hub *hub);

#endif
