/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the rdmacm backend share: a device and its port (docs/protocol.md has the
 * bytes).
 *
 * iWARP has reliable connections only, so a partner's datagrams are messages of the queue pair
 * that its memory is read by, too. All queue pairs share the receive buffers and the completion
 * queue of the port. A shared receive queue that is empty would cost a connection, so nobody may
 * send more than it has been given credit for (send.c).
 *
 * Or datagrams go over UDP (rdmacm.udp, send.c), and a connection is made for reads alone.
 */
#ifndef RIPC_RDMACM_H
#define RIPC_RDMACM_H

#include <rdma/rdma_cma.h>

#include "addr.h"
#include "backends/rdma/rdma.h"
#include "backends/udp/udp.h"
#include "util/system/sleeper.h"

#define RDMACM_SENDS       40u   /* messages under way to one partner, at most */
#define RDMACM_SIGNALLED   8u    /* one in so many */
#define RDMACM_WINDOW_MIN  4u    /* messages that every partner may have under way */
#define RDMACM_QUEUE       (RDMACM_SENDS + RIPC__RDMA_READS_OF_QP + 1) /* and an echo */
#define RDMACM_BATCH       32u   /* completions taken, messages posted at once */
#define RDMACM_RECEIVES    1024u /* receive buffers, unless rdmacm.receives says otherwise */
#define RDMACM_CONNECTIONS 64u   /* unless rdmacm.connections says otherwise */

struct rdmacm_device {
	struct ripc__rdma_device rdma;
	struct ripc__rdma_keys keys;
	struct rdmacm_addr self;    /* its port: to listen on; 0: any */
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;      /* bound to the device, which it keeps open */
	uint32_t connections, receives;
	bool is_late;               /* goes on with what it is moving when memory is closed */
};

/* A datagram that has come and was not handed over. */
struct rdmacm_arrival {
	uint64_t wr_id;
	uint32_t len;
	struct rdmacm_addr from;
};

/* What is posted next; what never changes is in it. */
struct rdmacm_list {
	struct ibv_send_wr wr[RDMACM_BATCH];
	struct ibv_sge pieces[RDMACM_BATCH];
	uint32_t n;
	uint32_t unsignalled, told, data; /* of the connection, before it */
};

struct rdmacm_port {
	struct rdmacm_device dev;
	struct ripc__rdma_device *rdma;  /* of dev */
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct rdmacm_addr self;
	struct udp_port udp;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ripc__rdma_ring ring;
	struct ripc__rdma_reads reads;
	struct ripc__rdma_worker *worker;
	uint8_t secret[16];
	uint64_t counter;
	struct ripc__sleeper sleeper;
	uint64_t due_us;           /* when links must be looked at; UINT64_MAX: never */
	bool armed;                /* the next completion is told by the channel */
	bool closing;
	bool look;                 /* at the connections, as soon as possible */
	uint8_t greedy[16];        /* the host that has enough */
	uint32_t unacked;          /* events of the completion channel */
	uint32_t polls, uses;
	uint32_t n_conns;          /* that have a queue pair, or will */
	uint32_t n_unready;        /* of them */
	uint32_t n_refused;        /* requests, for want of room, since room was last made; */
	uint32_t n_refused_host;   /* and because their host has enough */
	uint32_t n_asking;         /* whose request holds a helper thread */
	uint32_t taken;            /* completions so far, modulo 2^32 */
	uint32_t shared, shared_free; /* messages of windows beyond their minimum */
	struct list links, conns, wanting;
	uint64_t marked_us;        /* when connections were marked; 0: they are not */
	struct ripc__map links_by_addr, conns_by_qpn;
	struct rdmacm_conn *recent; /* whose message came last */
	struct rdmacm_list list;
	struct list opened;        /* struct ripc__rdma_opening that have ended */
	struct list spare, fences, fenced; /* struct rdmacm_fence: unused, one for each key that
	                              is open; waiting; to be polled */
	uint64_t n_fences;         /* so far */
	uint32_t opening;          /* the last number given to one */
	uint32_t at, n_arrivals;
	struct rdmacm_arrival arrivals[RDMACM_BATCH];
	struct ripc__addr from[RIPC_EVENTS_MAX]; /* of the last poll's events */
};

/* Links and connections must be looked at then, at the latest. */
static inline void ripc__rdmacm_due_at(struct rdmacm_port *port, uint64_t at_us)
{
	port->due_us = at_us < port->due_us ? at_us : port->due_us;
}

#endif
