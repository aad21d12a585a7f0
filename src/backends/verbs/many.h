/* SPDX-License-Identifier: BSD-3-Clause */
/* One datagram to many. */
#ifndef RIPC_VERBS_MANY_H
#define RIPC_VERBS_MANY_H

#include "verbs.h"

int ripc__verbs_many_open(void *port, void *peer, const void *partner, uint64_t number);
int ripc__verbs_many_hear(void *port, const void *partner, uint64_t number);
void ripc__verbs_many_ignore(void *port, uint64_t number);
void ripc__verbs_many_close(struct verbs_port *port);
/* A receive has failed, and with it its queue pair; brings that back, if that can be done now. */
void ripc__verbs_many_failed(struct verbs_port *port);
void ripc__verbs_many_revive(struct verbs_port *port);

#endif
