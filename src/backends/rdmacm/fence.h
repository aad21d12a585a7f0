/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that a connection may still reach. */
#ifndef RIPC_RDMACM_FENCE_H
#define RIPC_RDMACM_FENCE_H

#include "conn.h"

/* wr_id of an echo. */
#define RDMACM_WR_ECHO (1ull << 61)

struct rdmacm_fence {
	struct list node;                     /* port->spare, ->fences or ->fenced */
	const struct ripc__rdma_space *space; /* not to be looked into: it may be gone */
	uint64_t cookie;
	uint64_t number;                      /* of port->n_fences */
};

void ripc__rdmacm_fences_init(struct rdmacm_port *port);
void ripc__rdmacm_fences_close(struct rdmacm_port *port);
/* A connection is gone. */
void ripc__rdmacm_fences_check(struct rdmacm_port *port);
/* An echo has completed. */
void ripc__rdmacm_echo_came(struct rdmacm_conn *conn, const struct ibv_wc *wc);
/* Is one late? Else the connection is looked at again when it would be. */
bool ripc__rdmacm_echo_is_late(const struct rdmacm_conn *conn, uint64_t now_us);
/* Fills events[at..n); returns where it ended. */
uint32_t ripc__rdmacm_fences_take(struct rdmacm_port *port, struct ripc__event *events,
		uint32_t at, uint32_t n);
/* As ripc__rdma_key_open(), for keys that are taken back by these: */
int ripc__rdmacm_key_open(struct rdmacm_port *port, struct ripc__rdma_space *space,
		const struct iovec *mem, bool writable, struct ripc__key *key);
int ripc__rdmacm_mem_close(void *port, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie);

#endif
