/* SPDX-License-Identifier: BSD-3-Clause */
/* Partners as core knows them. */
#ifndef RIPC_VERBS_ROUTE_H
#define RIPC_VERBS_ROUTE_H

#include "path.h"

int ripc__verbs_port_addr(void *port, uint8_t blob[RIPC_ADDR_MAX]);
int ripc__verbs_addr_choose(void *port, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr);
int ripc__verbs_peer_open(void *port, void *peer, const struct ripc__addr *addr);
void ripc__verbs_peer_close(void *port, void *peer);
void ripc__verbs_where(void *port, const void *peer, struct ripc__where *where);
bool ripc__verbs_peer_matches(void *port, const void *peer, const struct ripc__addr *from);
/* What core keeps, as an address. */
void ripc__verbs_peer_where(const struct verbs_port *port, const struct verbs_peer *peer,
		struct verbs_addr *addr);
int ripc__verbs_mem_reg(void *port, void *peer, void *mem, size_t len, bool source, void **region);
void ripc__verbs_mem_dereg(void *port, void *region);
int ripc__verbs_mem_open(void *port, void *peer, void *mem, size_t len, bool writable,
		struct ripc__key *key);
int ripc__verbs_mem_close(void *port, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie);
int ripc__verbs_move(void *port, void *peer, const struct ripc__move *move);

#endif
