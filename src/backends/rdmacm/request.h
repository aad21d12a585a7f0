/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests for a connection. */
#ifndef RIPC_RDMACM_REQUEST_H
#define RIPC_RDMACM_REQUEST_H

#include "rdmacm.h"

/* False: it was refused, and its identifier is the caller's. */
bool ripc__rdmacm_request_came(struct rdmacm_port *port, const struct rdma_cm_event *event);

#endif
