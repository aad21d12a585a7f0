/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams over UDP. */
#ifndef RIPC_RDMACM_DATAGRAMS_H
#define RIPC_RDMACM_DATAGRAMS_H

#include "route.h"

/* -EADDRINUSE: somebody has the number of the port. */
int ripc__rdmacm_udp_open(struct rdmacm_port *port, struct ripc__attr *attr);
void ripc__rdmacm_udp_close(struct rdmacm_port *port);
int ripc__rdmacm_udp_peer_open(struct rdmacm_port *port, struct rdmacm_peer *peer,
		const struct rdmacm_addr *remote);
int ripc__rdmacm_udp_send(struct rdmacm_port *port, struct rdmacm_peer *peer,
		const struct ripc__tx *tx, uint32_t n);
void ripc__rdmacm_udp_peer_addr(const struct rdmacm_peer *peer, struct rdmacm_addr *remote);
/* Fills events[at..n); returns where it ended. */
uint32_t ripc__rdmacm_udp_poll(struct rdmacm_port *port, struct ripc__event *events, uint32_t at,
		uint32_t n);
void ripc__rdmacm_stats(void *port, struct ripc__net_stats *stats);

#endif
