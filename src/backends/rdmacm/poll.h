/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving, the ends of reads, and sleeping. */
#ifndef RIPC_RDMACM_POLL_H
#define RIPC_RDMACM_POLL_H

#include "rdmacm.h"

/* Takes completions, so that credit is known. False: not all, for want of room for datagrams. */
bool ripc__rdmacm_fill(struct rdmacm_port *port);
int ripc__rdmacm_poll(void *port, struct ripc__event *events, uint32_t n, bool all);
int ripc__rdmacm_wait_open(struct rdmacm_port *port);
void ripc__rdmacm_wait_close(struct rdmacm_port *port);
int ripc__rdmacm_wait_arm(void *port);

#endif
