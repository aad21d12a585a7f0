/* SPDX-License-Identifier: BSD-3-Clause */
/* Partners to which there are routes, or with which there is a connection. */
#ifndef RIPC_RDMACM_LINK_H
#define RIPC_RDMACM_LINK_H

#include "rdmacm.h"

struct rdmacm_link {
	struct list node;          /* port->links */
	struct list wanting;       /* port->wanting, while it waits for room for a connection */
	struct list openings;      /* struct ripc__rdma_opening that wait for a connection */
	struct rdmacm_port *port;
	uint64_t key;              /* in port->links_by_addr */
	struct rdmacm_addr remote;
	struct rdmacm_conn *conn;  /* NULL: none */
	struct ripc__rdma_space *space;
	struct ripc__rdma_flow flow;
	uint64_t last;             /* the nonce of the last connection */
	uint64_t hold_us;          /* no attempt before */
	uint64_t begun_us;         /* when the attempt began that, */
	uint64_t until_us;         /* by then, must have succeeded; 0: there is none */
	uint32_t again_us;         /* how long it waited last; 0: not, or the next one was of use */
	uint64_t idle_us;          /* since when nobody uses it */
	uint32_t idle_uses;        /* of its connection, then */
	int error;                 /* why it is on hold */
	bool missed;               /* a datagram was not taken for want of a connection */
	uint32_t n_failed;         /* attempts over UDP, since there was a connection */
	uint32_t n_routes;         /* over UDP only those that have lent memory, or read */
	uint32_t resets;           /* how often it has failed */
};

/* The link to a partner, made if need be. is_mirror: our own end of a connection to ourselves. */
int ripc__rdmacm_link_get(struct rdmacm_port *port, const struct rdmacm_addr *remote,
		bool is_mirror, struct rdmacm_link **link);
/* A connection is needed. */
void ripc__rdmacm_link_want(struct rdmacm_link *link);
/* Its connection can carry messages. */
void ripc__rdmacm_link_ready(struct rdmacm_link *link);
/* What has become of a connection: it never stood, nothing came by it, something did. */
enum rdmacm_was { RDMACM_WAS_NOTHING, RDMACM_WAS_SILENT, RDMACM_WAS_OF_USE };
/* The link's connection is gone; status: why, 0: both ends agreed on it. */
void ripc__rdmacm_link_lost(struct rdmacm_link *link, enum rdmacm_was was, int status);
/* Did the link fail a moment ago, so that nothing is tried? */
bool ripc__rdmacm_link_is_held(const struct rdmacm_link *link);
/* Makes its protection domain if there is none. */
int ripc__rdmacm_link_space(struct rdmacm_link *link);
/* Its connection, if there is one, is of use. */
void ripc__rdmacm_link_used(struct rdmacm_link *link);
/* A read or a write was taken: it needs a connection, unless it has ended, and an eye on it. */
void ripc__rdmacm_link_taken(struct rdmacm_link *link);
/* May somebody at this host have one more connection? */
bool ripc__rdmacm_room_is(struct rdmacm_port *port, const struct rdmacm_addr *remote);
/* Sees to room for one more connection: somebody who does nothing leaves. */
void ripc__rdmacm_room_make(struct rdmacm_port *port, uint64_t now_us);
/* Looks at what waits and what is late; sets port->due_us. */
void ripc__rdmacm_links_run(struct rdmacm_port *port, uint64_t now_us);
void ripc__rdmacm_links_close(struct rdmacm_port *port);

#endif
