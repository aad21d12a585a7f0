/* SPDX-License-Identifier: BSD-3-Clause */
/* Partners with which memory is shared. */
#ifndef RIPC_VERBS_LINK_H
#define RIPC_VERBS_LINK_H

#include "pair.h"
#include "verbs.h"

struct verbs_link {
	struct list node;     /* port->links: least recently used first */
	struct verbs_port *port;
	uint64_t key;         /* in port->links_by_addr */
	struct verbs_addr remote;
	struct verbs_path *path;
	struct ripc__rdma_space *space;
	struct ripc__rdma_flow flow;
	struct verbs_pair client, server;
	uint64_t used_us;     /* when it was last needed */
	uint64_t hold_us;     /* no new attempt before */
	uint64_t stalled_us;  /* since when no read has ended; 0: it is not known */
};

/* The link to a partner; made if need be. */
int ripc__verbs_link_get(struct verbs_port *port, const struct verbs_addr *remote,
		struct verbs_link **link);
void ripc__verbs_links_close(struct verbs_port *port);
/* A message about a connection came. */
void ripc__verbs_setup_came(struct verbs_port *port, const struct verbs_addr *from,
		const struct verbs_setup *setup);
/* A read or a write was taken, or ended where it was posted: it may need a connection. */
void ripc__verbs_link_taken(struct verbs_link *link);
/* A read has ended by a completion. */
void ripc__verbs_link_completed(struct verbs_link *link);
/* Asks again, gives up, closes what is idle; sets port->due_us. */
void ripc__verbs_links_run(struct verbs_port *port, uint64_t now_us);
/* The memory of this space could not be taken back: all links that can reach it are stopped. */
void ripc__verbs_links_stop(struct verbs_port *port, const struct ripc__rdma_space *space);

#endif
