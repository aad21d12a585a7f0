/* SPDX-License-Identifier: BSD-3-Clause */
/* The datagram queue pair of a port. */
#ifndef RIPC_VERBS_QP_H
#define RIPC_VERBS_QP_H

#include "verbs.h"

int ripc__verbs_qp_open(struct verbs_port *port);
/* Takes a queue pair from the beginning to where it sends and receives. */
int ripc__verbs_qp_activate(const struct verbs_port *port, struct ibv_qp *qp, uint32_t qkey);
/* A completion says that the queue pair has failed. */
void ripc__verbs_qp_failed(struct verbs_port *port);
/* The queue pair has failed: brings it back, if that can be done now. */
void ripc__verbs_qp_revive(struct verbs_port *port);

#endif
