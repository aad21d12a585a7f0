/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the verbs backend share: a device and its port (docs/protocol.md has the
 * bytes).
 *
 * Datagrams of all partners go by one UD queue pair. An end that wants to read the other's memory
 * builds a reliable queue pair for it, and asks the other end, by datagrams, to build one that
 * answers. So a link has up to two of them, for either direction, and there is never a question of
 * who calls whom. Both only stand while they are used.
 */
#ifndef RIPC_VERBS_H
#define RIPC_VERBS_H

#include "addr.h"
#include "backends/rdma/rdma.h"
#include "util/system/sleeper.h"

#define VERBS_RING        512u  /* receive buffers, unless verbs.receives says otherwise */
#define VERBS_SENDS       128u  /* datagrams posted and not yet completed */
#define VERBS_SIGNALLED   32u   /* one in so many */
#define VERBS_BATCH       32u   /* completions taken, datagrams posted at once */
#define VERBS_CONNECTIONS 64u   /* queue pairs, unless verbs.connections says otherwise */
#define VERBS_NUMBERS     64u   /* heard of datagrams to many; a socket mostly joins 20 groups */

#define VERBS_WR_MANY (1ull << 61) /* in the wr_id of receives of datagrams to many */

struct verbs_device {
	struct ripc__rdma_device rdma;
	struct ripc__rdma_keys keys;
	uint32_t connections, receives;
};

/* Copies of what is being sent. */
struct verbs_sends {
	struct ripc__buffers *buffers;
	struct ibv_mr *mr;
	struct ibv_ah *self;       /* the way to ourselves, when the port closes */
	struct ibv_cq *cq;         /* has no event: nobody is woken by it */
	uint32_t head, tail;       /* posted and completed so far, modulo 2^32 */
	uint32_t unsignalled;
	uint32_t inline_max;       /* bytes that need no buffer */
	struct ibv_send_wr wr[VERBS_BATCH]; /* of the list that is posted next; what never */
	struct ibv_sge pieces[VERBS_BATCH]; /* changes is in them */
};

/* What is heard of datagrams to many, by a queue pair whose Q_Key all know (send.c). */
struct verbs_many {
	struct ibv_qp *qp;         /* NULL: it is not there, or cannot be brought back */
	struct ripc__rdma_ring ring; /* ring and fd: if is_open */
	int fd;                    /* the socket by which the kernel and switches know of it */
	uint32_t n_numbers;
	uint64_t numbers[VERBS_NUMBERS];
	uint32_t mask;             /* of our IPv4 network; 0: not known */
	uint32_t failures;         /* of qp */
	bool is_open;
	bool failed;               /* qp has, and is not brought back */
};

struct verbs_port {
	struct verbs_device dev;
	struct ripc__rdma_device *rdma;  /* of dev */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;         /* receives, and reads */
	struct ibv_qp *qp;
	struct ripc__rdma_ring ring;
	struct verbs_many many;
	struct verbs_sends sends;
	struct ripc__rdma_reads reads;
	struct ripc__rdma_worker *worker;
	uint32_t mtu_bytes;        /* of a datagram with its preamble */
	struct verbs_addr self;
	uint8_t secret[16];        /* of hashes and nonces */
	uint64_t counter;
	int epoll_fd;              /* the channel, and */
	struct ripc__sleeper others; /* timer, helper threads, device, wake */
	int wake_fd;
	uint64_t due_us;           /* when links must be looked at; UINT64_MAX: never */
	bool armed;                /* the next completion is told by the channel */
	bool waited;               /* wait has looked at the descriptors since they were last */
	bool others_ready;         /* others was readable then */
	bool deaf;                 /* nothing is told any more; only of who polls or waits */
	bool no_more;              /* closing: no new connections */
	bool failed;               /* the datagram queue pair: it is brought back, */
	uint64_t revive_us;        /* not before */
	uint64_t failed_us;        /* when it failed last */
	uint32_t failures;         /* in quick succession, */
	uint32_t downs;            /* since the port lost its link for so many times */
	uint32_t moves;            /* of rdma, that self.gid and the paths follow */
	uint32_t unacked;          /* events of the channel */
	uint32_t polls;
	struct list paths, paths_used, links;
	struct ripc__map paths_by_gid, links_by_addr;
	uint32_t n_paths_unused, n_parked;
	uint32_t n_pairs;          /* that exist, or are being made or destroyed */
	struct list opened;        /* struct ripc__rdma_opening that have ended */
	uint32_t opening;          /* the last number given to one */
	uint32_t at, n_wcs;        /* completions taken and not yet looked at */
	struct ibv_wc wcs[VERBS_BATCH];
	struct ripc__addr from[RIPC_EVENTS_MAX]; /* of the last poll's events */
	struct verbs_sender recent; /* whose datagram was handed over last */
};

/* Links must be looked at then, at the latest. */
static inline void ripc__verbs_due_at(struct verbs_port *port, uint64_t at_us)
{
	port->due_us = at_us < port->due_us ? at_us : port->due_us;
}

#endif
