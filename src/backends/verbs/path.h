/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways to other hosts, and what core keeps for a partner there. */
#ifndef RIPC_VERBS_PATH_H
#define RIPC_VERBS_PATH_H

#include "verbs.h"

/* The way to a port of another host, for all partners there. */
struct verbs_path {
	struct ripc__rdma_job job;
	struct list node;       /* port->paths, least recently used first; or ->paths_used */
	struct list waiting;    /* struct ripc__rdma_opening */
	struct list parked;     /* struct verbs_parked */
	struct verbs_port *port;
	uint64_t key;           /* in port->paths_by_gid */
	uint64_t since_us;      /* when it was resolved, or was not; 0: must be resolved */
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;      /* NULL: not resolved */
	uint32_t sent;          /* sends.head after the last one by it */
	struct ibv_ah *old_ah;  /* that it takes the place of, or NULL; and the same of that */
	uint32_t old_sent;
	uint32_t users;
	int error;              /* of the last attempt */
	bool busy;              /* a helper thread looks for it, and there is none yet */
	bool renewing;          /* a helper thread looks for it again; with these: */
	struct ibv_ah_attr job_attr;
	struct ibv_ah *job_ah;
	int job_error;
};

/* What core keeps for a partner. */
struct verbs_peer {
	struct verbs_path *path;
	uint32_t opening; /* the number of its struct ripc__rdma_opening, or of one that was */
	uint32_t qpn, qkey;
	uint8_t mtu;
};

/* One more user. -EINPROGRESS: it is there, and will be resolved. Other errors: it is not. */
int ripc__verbs_path_get(struct verbs_port *port, const struct verbs_addr *addr,
		struct verbs_path **path);
void ripc__verbs_path_put(struct verbs_path *path);
void ripc__verbs_paths_close(struct verbs_port *port);
/* Somebody there does not answer. */
void ripc__verbs_path_doubt(struct verbs_path *path);
/* Our own address has changed: all ways are looked for again, from the new one. */
void ripc__verbs_paths_move(struct verbs_port *port);
/* Looks for a way again that is old. */
void ripc__verbs_paths_run(struct verbs_port *port);

#endif
