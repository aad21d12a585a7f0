/* SPDX-License-Identifier: BSD-3-Clause */
/* A reliable queue pair, at one end of a connection. */
#ifndef RIPC_VERBS_PAIR_H
#define RIPC_VERBS_PAIR_H

#include "backends/rdma/rdma.h"

enum verbs_pair_state {
	VERBS_NONE,
	VERBS_BUILDING,   /* a helper thread makes it */
	VERBS_ASKING,     /* client: waits for the reply */
	VERBS_CONNECTING, /* client: a helper thread gets it ready */
	VERBS_READY,
	VERBS_FLUSHING,   /* client: waits for what was posted to complete */
	VERBS_DESTROYING, /* a helper thread destroys it */
};

struct verbs_pair {
	struct ripc__rdma_job job;
	void (*done)(struct verbs_pair *pair); /* with the job */
	struct verbs_link *link;
	enum verbs_pair_state state;
	bool is_server;
	bool unwanted;        /* destroy it as soon as the helper thread is done */
	struct ibv_qp *qp;
	uint64_t nonce;       /* of this connection, drawn by the client */
	uint64_t proof;       /* of the server: that it wants next; that the client gives back */
	uint64_t due_us, until_us; /* ask again; give up */
	uint32_t wait_us;
	uint32_t psn;         /* of the client's first packet */
	uint32_t remote_qpn;
	uint8_t mtu, reads;   /* of the path; in flight at once */
	int error;            /* of the job */
};

/* Each begins, for a helper thread; done is called when that is done. */
void ripc__verbs_pair_build(struct verbs_pair *pair, void (*done)(struct verbs_pair *pair));
/* Client: gets it ready. */
void ripc__verbs_pair_connect(struct verbs_pair *pair, void (*done)(struct verbs_pair *pair));
/* One that is being made is only marked as unwanted, and done is not called. */
void ripc__verbs_pair_destroy(struct verbs_pair *pair, void (*done)(struct verbs_pair *pair));
/* At once, by the caller. */
void ripc__verbs_pair_drop(struct verbs_pair *pair);
void ripc__verbs_pair_break(struct verbs_pair *pair);

#endif
