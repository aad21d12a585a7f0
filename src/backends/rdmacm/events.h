/* SPDX-License-Identifier: BSD-3-Clause */
/* What happens to connections. */
#ifndef RIPC_RDMACM_EVENTS_H
#define RIPC_RDMACM_EVENTS_H

#include "rdmacm.h"

/* What connections are made of comes and goes: events of the channel, late ones. False: not all. */
bool ripc__rdmacm_events(struct rdmacm_port *port);
void ripc__rdmacm_conns_run(struct rdmacm_port *port, uint64_t now_us);

#endif
