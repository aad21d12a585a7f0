/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving, the ends of reads, and sleeping. */
#ifndef RIPC_VERBS_POLL_H
#define RIPC_VERBS_POLL_H

#include "verbs.h"

int ripc__verbs_poll(void *port, struct ripc__event *events, uint32_t n, bool all);
int ripc__verbs_wait_open(struct verbs_port *port);
void ripc__verbs_wait_close(struct verbs_port *port);
int ripc__verbs_wait_arm(void *port);
void ripc__verbs_wait(void *port);
void ripc__verbs_wake(void *port);

#endif
