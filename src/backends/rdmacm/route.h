/* SPDX-License-Identifier: BSD-3-Clause */
/* Partners as core knows them. */
#ifndef RIPC_RDMACM_ROUTE_H
#define RIPC_RDMACM_ROUTE_H

#include "link.h"

/* What core keeps for a partner. */
struct rdmacm_peer {
	struct rdmacm_link *link; /* over UDP NULL, until a connection is needed */
	union {
		struct {
			uint32_t opening; /* number of its struct ripc__rdma_opening, or of one
			                     that was */
			uint32_t resets;  /* of the link, as far as it was told */
		};
		struct udp_peer udp; /* where datagrams go over UDP */
	};
};

int ripc__rdmacm_port_addr(void *port, uint8_t blob[RIPC_ADDR_MAX]);
int ripc__rdmacm_addr_choose(void *port, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr);
int ripc__rdmacm_peer_open(void *port, void *peer, const struct ripc__addr *addr);
void ripc__rdmacm_peer_close(void *port, void *peer);
void ripc__rdmacm_where(void *port, const void *peer, struct ripc__where *where);
uint32_t ripc__rdmacm_peer_mtu(void *port, void *peer);
bool ripc__rdmacm_peer_matches(void *port, const void *peer, const struct ripc__addr *from);
int ripc__rdmacm_send(void *port, void *peer, const struct ripc__tx *tx, uint32_t n);
int ripc__rdmacm_mem_reg(void *port, void *peer, void *mem, size_t len, bool source, void **region);
void ripc__rdmacm_mem_dereg(void *port, void *region);
int ripc__rdmacm_mem_open(void *port, void *peer, void *mem, size_t len, bool writable,
		struct ripc__key *key);
int ripc__rdmacm_move(void *port, void *peer, const struct ripc__move *move);

#endif
