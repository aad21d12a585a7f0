/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection to a partner, asked for or accepted. */
#ifndef RIPC_RDMACM_CONN_H
#define RIPC_RDMACM_CONN_H

#include "link.h"

enum rdmacm_state {
	RDMACM_RESOLVING,  /* client: the way is looked for */
	RDMACM_BUILDING,   /* the queue pair is made */
	RDMACM_CONNECTING, /* client: until the other end has accepted */
	RDMACM_ACCEPTING,  /* server: until the first message has come */
	RDMACM_READY,
	RDMACM_CLOSING,    /* BYE is sent; until it has gone out and the other's has come */
	RDMACM_BREAKING,   /* being disconnected */
	RDMACM_FLUSHING,   /* until what was posted has come back */
	RDMACM_DESTROYING,
};

/* Once it has a job running nobody else touches its queue pair. */
struct rdmacm_conn {
	struct ripc__rdma_job job;
	struct list node;            /* port->conns */
	struct rdmacm_port *port;
	struct rdmacm_link *link;    /* NULL: it is of no use any more */
	struct rdmacm_addr remote;
	struct ripc__rdma_space *space;
	struct rdma_cm_id *id;
	enum rdmacm_state state;
	bool is_server;
	bool busy;                   /* a job runs, or waits to */
	bool unwanted;               /* break it as soon as it is not busy */
	bool waits;                  /* client: with its request, for a helper thread */
	bool asked;                  /* client: and has had no answer */
	bool was_ready, bye_came, bye_gone;
	bool failed;                 /* nothing can be posted: the caller breaks it */
	bool was_heard;              /* something has come: a message, or what was read */
	bool echoing;                /* an echo is under way */
	int error;                   /* why it is unwanted */
	int job_error;
	uint64_t nonce;
	uint64_t due_us;             /* when its state must have changed */
	uint64_t nudge_us;           /* client: when to say something once more; 0: never */
	uint32_t used;               /* port->uses when it was last used */
	uint32_t marked;             /* the same when room was last looked for */
	uint8_t reads;               /* in flight at once */
	/* To the other end; messages are counted from the first one, modulo 2^32. */
	struct ripc__buffers *buffers;
	struct ibv_mr *mr;
	uint32_t inline_max;
	uint32_t head, completed, acked; /* posted; known to have left; to have come */
	uint32_t limit;              /* may be posted */
	uint32_t unsignalled;
	uint32_t bye;                /* the number behind our BYE */
	/* From the other end. */
	uint32_t received, given;    /* messages; may come */
	uint32_t window;             /* of the port's buffers, set aside for it */
	uint32_t told;               /* received, as last told */
	uint32_t taken;              /* port->taken when it was broken off */
	uint32_t data;               /* datagrams since then */
	uint64_t stalled_us;         /* since when no read has ended; 0: it is not known */
	/* Fences by number: up to which it holds up none, and will not when the echo is back. */
	uint64_t passed, echoed;
	uint64_t echo_us;            /* when the echo must be back */
	uint8_t hello[RDMACM_HELLO_LEN];
};

/* Asks the partner of a link for a connection; it becomes the link's. */
int ripc__rdmacm_conn_ask(struct rdmacm_link *link);
/* SIGPIPE must be kept from the caller: siw raises it, and it would end the program. */
bool ripc__rdmacm_is_guarded(const struct rdmacm_port *port);
/* The connection carries messages: the first one has come, or may go. */
void ripc__rdmacm_conn_ready(struct rdmacm_conn *conn);
/* The connection is of no use any more; error: why, 0: both ends agreed. */
void ripc__rdmacm_conn_break(struct rdmacm_conn *conn, int error);
/* The connection leaves its link. */
void ripc__rdmacm_conn_leave(struct rdmacm_conn *conn);
/* Ends it in agreement with the other end, after what is under way. */
void ripc__rdmacm_conn_close(struct rdmacm_conn *conn);
/* Looks whether it can go a step further towards its end. */
void ripc__rdmacm_conn_check(struct rdmacm_conn *conn);
/* Makes a connection of a request, which becomes the link's; then id is the connection's. */
int ripc__rdmacm_conn_accept(struct rdmacm_link *link, struct rdma_cm_id *id,
		const struct rdmacm_hello *hello);
/* Is it at the device, and the port of it, that we have opened? */
bool ripc__rdmacm_is_our_device(const struct ripc__rdma_device *rdma, const struct rdma_cm_id *id);
/* Client: the first part of the way is found, or all of it. */
void ripc__rdmacm_conn_resolved(struct rdmacm_conn *conn, enum rdma_cm_event_type what);
/* Finds out whether it is dead, unless a datagram would lack the credit that this takes. */
void ripc__rdmacm_conn_try(struct rdmacm_conn *conn);
/* Steps of the end: what was posted comes back; it has. */
void ripc__rdmacm_conn_disconnect(struct rdmacm_conn *conn);
void ripc__rdmacm_conn_destroy(struct rdmacm_conn *conn);
void ripc__rdmacm_conns_close(struct rdmacm_port *port);

#endif
