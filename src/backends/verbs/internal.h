/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of backends/verbs: no other room includes this. */
#ifndef RIPC_VERBS_INTERNAL_H
#define RIPC_VERBS_INTERNAL_H

#include "backends/rdma/rdma.h"
#include "util/system/sleeper.h"

/* ---- addr.c: bytes from outside ---------------------------------------------------------- */

#define VERBS_VERSION     1
#define VERBS_ADDR_LEN    32
#define VERBS_PREAMBLE    8u
#define VERBS_SETUP_LEN   32u
#define VERBS_GRH         40u   /* before every received datagram (IBA 11.4.1.2) */

/* The address of a partner. */
struct verbs_addr {
	uint8_t gid[16];
	uint32_t qpn, qkey;
	uint16_t lid; /* InfiniBand; else 0 */
	uint8_t kind; /* enum ripc__rdma_kind */
	uint8_t mtu;  /* enum ibv_mtu */
};

/* The sender of a datagram for core: as the datagram names it, and as core gets it. */
struct verbs_sender {
	uint8_t gid[16];
	uint64_t preamble; /* 0: no sender has */
	uint32_t qpn;
	uint16_t slid;     /* InfiniBand; else 0 */
	struct ripc__addr addr;
};

/* The types of messages about a connection. */
enum verbs_setup_type {
	VERBS_REQUEST = 1, /* client: build a queue pair that answers mine */
	VERBS_CHALLENGE,   /* server: repeat the request with this proof */
	VERBS_REPLY,       /* server: the queue pair */
	VERBS_REFUSE,      /* server: not now */
	VERBS_SERVER_GONE, /* server: the queue pair is not there any more */
	VERBS_CLIENT_GONE, /* client: the same */
};

struct verbs_setup {
	uint8_t type, mtu, reads;
	uint32_t qpn, psn;
	uint64_t nonce, proof;
};

void ripc__verbs_addr_encode(const struct verbs_addr *addr, uint8_t blob[VERBS_ADDR_LEN]);
/* -EBADMSG: no valid address. */
int ripc__verbs_addr_decode(const uint8_t *blob, size_t len, struct verbs_addr *addr);
/* self: our own address. */
void ripc__verbs_addr_fill(const struct verbs_addr *own, const struct verbs_addr *self,
		struct ripc__addr *addr);
void ripc__verbs_addr_text(const struct ripc__addr *addr, char text[64]);
void ripc__verbs_preamble_encode(bool is_setup, uint8_t mtu, uint32_t qkey,
		uint8_t bytes[VERBS_PREAMBLE]);
/*
 * Finds out the sender of a received datagram: from its 40 bytes of routing header, its
 * preamble, and the device's completion. -EBADMSG: no sender of our (self's) kind.
 */
int ripc__verbs_sender(const struct verbs_addr *self, const struct ibv_wc *wc,
		const uint8_t *bytes, struct verbs_addr *sender, bool *is_setup);
/* Notes the sender for ripc__verbs_is_recent(); the caller sets addr. */
void ripc__verbs_sender_note(const struct verbs_addr *self, const struct ibv_wc *wc,
		const uint8_t *bytes, struct verbs_sender *sender);
/*
 * Is this another datagram for core from the same sender? The bytes that name the sender are
 * equal.
 */
bool ripc__verbs_is_recent(const struct verbs_addr *self, const struct verbs_sender *recent,
		const struct ibv_wc *wc, const uint8_t *bytes);
/*
 * Fills in the GID of the receivers of a number, on a network of IPv4; the second recognises
 * such a GID.
 */
void ripc__verbs_multicast_gid(uint64_t number, uint8_t gid[16]);
bool ripc__verbs_is_multicast_gid(const uint8_t gid[16]);
/* Was a received datagram sent to such a GID? Its routing header. */
bool ripc__verbs_is_to_multicast(const uint8_t *grh);
void ripc__verbs_setup_encode(const struct verbs_setup *setup, uint8_t bytes[VERBS_SETUP_LEN]);
int ripc__verbs_setup_decode(const uint8_t *bytes, size_t len, struct verbs_setup *setup);
/* Attributes of the path to addr from this device, for address handles and queue pairs. */
void ripc__verbs_addr_attr(const struct ripc__rdma_device *rdma, const struct verbs_addr *addr,
		struct ibv_ah_attr *attr);

/* ---- verbs ------------------------------------------------------------------------------- */

/*
 * Shared by the files of the verbs backend: a device and its port (docs/protocol.md has the
 * bytes).
 *
 * One UD queue pair carries the datagrams of all partners. An end that wants to read the other's
 * memory builds a reliable queue pair for that, and requests, by datagrams, that the other end
 * builds one that answers. A link has up to two such connections, one for either direction,
 * hence the two ends never need to agree which of them calls. Both exist only while they are
 * used.
 */

#define VERBS_RING        512u  /* receive buffers, unless verbs.receives says otherwise */
#define VERBS_SENDS       128u  /* datagrams posted and not yet completed */
#define VERBS_SIGNALLED   32u   /* one in so many */
#define VERBS_BATCH       32u   /* completions taken, datagrams posted at once */
#define VERBS_CONNECTIONS 64u   /* queue pairs, unless verbs.connections says otherwise */
#define VERBS_NUMBERS     64u   /* multicast groups; a socket mostly joins 20 */

#define VERBS_WR_MULTICAST (1ull << 61) /* in the wr_id of receives of multicast */

struct verbs_device {
	struct ripc__rdma_device rdma;
	uint32_t connections, receives;
};

/* Copies of datagrams that are being sent. */
struct verbs_sends {
	struct ripc__buffers *buffers;
	struct ibv_mr *mr;
	struct ibv_ah *self;       /* the path to ourselves, when the port closes */
	struct ibv_cq *cq;         /* has no event: no thread is woken by it */
	uint32_t head, tail;       /* posted and completed so far, modulo 2^32 */
	uint32_t unsignalled;
	uint32_t inline_max;       /* bytes that need no buffer */
	struct ibv_send_wr wr[VERBS_BATCH]; /* of the list that is posted next; fields that */
	struct ibv_sge pieces[VERBS_BATCH]; /* never change are filled in */
};

/* Receives multicast, by a queue pair whose Q_Key all know (send.c). */
struct verbs_multicast {
	struct ibv_qp *qp;         /* NULL: it does not exist, or cannot be revived */
	struct ripc__rdma_ring ring; /* ring and fd: if is_open */
	int fd;                    /* tells the kernel and switches of our groups */
	uint32_t n_numbers;
	uint64_t numbers[VERBS_NUMBERS];
	uint32_t mask;             /* of our IPv4 network; 0: not known */
	uint32_t failures;         /* of qp */
	bool is_open;
	bool failed;               /* qp has failed, and is not revived */
};

struct verbs_port {
	struct verbs_device dev;
	struct ripc__rdma_device *rdma;  /* of dev */
	struct ripc__rdma_queue queue; /* receives, and reads */
	struct ibv_qp *qp;
	struct ripc__rdma_ring ring;
	struct verbs_multicast multicast;
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
	bool waited;               /* wait has looked at the descriptors since the last poll */
	bool others_ready;         /* others was readable then */
	bool deaf;                 /* no more events: only polls and waits see anything */
	bool no_more;              /* closing: no new connections */
	bool failed;               /* the datagram queue pair: it is revived, */
	uint64_t revive_us;        /* not before */
	uint64_t failed_us;        /* when it last failed */
	uint32_t failures;         /* in quick succession, */
	uint32_t downs;            /* since n_downs was this */
	uint32_t moves;            /* of rdma, as followed by self.gid and the paths */
	uint32_t polls;
	struct list paths, paths_used, links;
	struct ripc__map paths_by_gid, links_by_addr;
	uint32_t n_paths_unused, n_parked;
	uint32_t n_pairs;          /* existing, or being made or destroyed */
	struct list opened;        /* struct ripc__rdma_opening that have ended */
	uint32_t opening;          /* the last number of an opening */
	uint32_t at, n_wcs;        /* completions taken, not yet handled */
	struct ibv_wc wcs[VERBS_BATCH];
	struct ripc__addr from[RIPC_EVENTS_MAX]; /* of the last poll's events */
	struct verbs_sender recent; /* the sender of the last datagram returned */
};

/* Links must be looked at then, at the latest. */
static inline void ripc__verbs_due_at(struct verbs_port *port, uint64_t at_us)
{
	port->due_us = at_us < port->due_us ? at_us : port->due_us;
}

/* ---- qp.c: the datagram queue pair of a port --------------------------------------------- */

int ripc__verbs_qp_open(struct verbs_port *port);
/* Takes a queue pair from its first state to sending and receiving. */
int ripc__verbs_qp_activate(const struct verbs_port *port, struct ibv_qp *qp, uint32_t qkey);
/* A completion says that the queue pair has failed. */
void ripc__verbs_qp_failed(struct verbs_port *port);
/* The queue pair has failed: revives it, if that can be done now. */
void ripc__verbs_qp_revive(struct verbs_port *port);

/* ---- qp.c: reliable queue pairs, each at one end of a connection ------------------------- */

enum verbs_pair_state {
	VERBS_NONE,
	VERBS_BUILDING,   /* a helper thread makes it */
	VERBS_ASKING,     /* client: waits for the reply */
	VERBS_CONNECTING, /* client: a helper thread gets it ready */
	VERBS_READY,
	VERBS_FLUSHING,   /* client: waits for posted requests to complete */
	VERBS_DESTROYING, /* a helper thread destroys it */
};

struct verbs_pair {
	struct ripc__rdma_job job;
	void (*done)(struct verbs_pair *pair); /* at the end of the job */
	struct verbs_link *link;
	enum verbs_pair_state state;
	bool is_server;
	bool unwanted;        /* destroy it as soon as the helper thread is done */
	struct ibv_qp *qp;
	uint64_t nonce;       /* of this connection, drawn by the client */
	uint64_t proof;       /* server: wanted next; client: to be returned */
	uint64_t due_us, until_us; /* repeat the request; give up */
	uint32_t wait_us;
	uint32_t psn;         /* of the client's first packet */
	uint32_t remote_qpn;
	uint8_t mtu, reads;   /* of the path; in flight at once */
	int error;            /* of the job */
};

/* These three start a job of a helper thread; done is called when the job is done. */
void ripc__verbs_pair_build(struct verbs_pair *pair, void (*done)(struct verbs_pair *pair));
/* Client: connects the pair. */
void ripc__verbs_pair_connect(struct verbs_pair *pair, void (*done)(struct verbs_pair *pair));
/* A queue pair that is being made is only marked as unwanted, and done is not called. */
void ripc__verbs_pair_destroy(struct verbs_pair *pair, void (*done)(struct verbs_pair *pair));
/* Destroys the pair at once, in the caller. */
void ripc__verbs_pair_drop(struct verbs_pair *pair);
void ripc__verbs_pair_break(struct verbs_pair *pair);

/* ---- path.c: other hosts ----------------------------------------------------------------- */

/* The path to a port of another host, for all partners there. */
struct verbs_path {
	struct ripc__rdma_job job;
	struct list node;       /* port->paths, least recently used first; or ->paths_used */
	struct list waiting;    /* struct ripc__rdma_opening */
	struct list parked;     /* struct verbs_parked */
	struct verbs_port *port;
	uint64_t key;           /* in port->paths_by_gid */
	uint64_t since_us;      /* when it was resolved, or failed; 0: must be resolved */
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;      /* NULL: not resolved */
	uint32_t sent;          /* sends.head after the last one by it */
	struct ibv_ah *old_ah;  /* replaced by ah, or NULL; with its last sends.head: */
	uint32_t old_sent;
	uint32_t users;
	int error;              /* of the last attempt */
	bool busy;              /* a helper thread resolves it, and there is none yet */
	bool renewing;          /* a helper thread resolves it again; with these: */
	struct ibv_ah_attr job_attr;
	struct ibv_ah *job_ah;
	int job_error;
};

/* The state that core keeps for a partner. */
struct verbs_route {
	struct verbs_path *path;
	uint32_t opening; /* the number of its struct ripc__rdma_opening, or of one that was */
	uint32_t qpn, qkey;
	uint8_t mtu;
};

/*
 * Adds a user. -EINPROGRESS: the path exists, and will be resolved. Other errors: there is no
 * path.
 */
int ripc__verbs_path_get(struct verbs_port *port, const struct verbs_addr *addr,
		struct verbs_path **path);
void ripc__verbs_path_put(struct verbs_path *path);
void ripc__verbs_paths_close(struct verbs_port *port);
/* A partner there does not answer. */
void ripc__verbs_path_doubt(struct verbs_path *path);
/* Our own address has changed: all paths are resolved again, from the new one. */
void ripc__verbs_paths_move(struct verbs_port *port);
/* Resolves an old path again. */
void ripc__verbs_paths_run(struct verbs_port *port);

/* ---- link.c: partners with which memory is shared ---------------------------------------- */

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
	uint64_t stalled_us;  /* since when no read has ended; 0: not known */
};

/* The link to a partner; made if need be. */
int ripc__verbs_link_get(struct verbs_port *port, const struct verbs_addr *remote,
		struct verbs_link **link);
void ripc__verbs_links_close(struct verbs_port *port);
/* A message about a connection has arrived. */
void ripc__verbs_setup_came(struct verbs_port *port, const struct verbs_addr *from,
		const struct verbs_setup *setup);
/* A read or a write was taken, or ended at once: the link may need a connection. */
void ripc__verbs_link_taken(struct verbs_link *link);
/* A read has ended by a completion. */
void ripc__verbs_link_completed(struct verbs_link *link);
/* Repeats requests, gives up, closes idle connections; sets port->due_us. */
void ripc__verbs_links_run(struct verbs_port *port, uint64_t now_us);
/* The memory of this space could not be deregistered: all links that can reach it are stopped. */
void ripc__verbs_links_stop(struct verbs_port *port, const struct ripc__rdma_space *space);

/* The address of the partner that core keeps. */
void ripc__verbs_route_where(const struct verbs_port *port, const struct verbs_route *route,
		struct verbs_addr *addr);

/* ---- send.c: datagrams ------------------------------------------------------------------- */

/* An answer to a stranger, until the path is resolved. */
struct verbs_parked {
	struct list node; /* path->parked */
	uint32_t qpn, qkey, len;
	uint8_t bytes[];
};

int ripc__verbs_sends_open(struct verbs_port *port);
void ripc__verbs_sends_close(struct verbs_port *port);
uint32_t ripc__verbs_route_mtu(void *port, void *route);
int ripc__verbs_send(void *port, void *route, const struct ripc__tx *tx, uint32_t n);
/* Takes note of sends that have ended. */
void ripc__verbs_sends_look(struct verbs_port *port);
/* Lets the last datagrams leave. May take some milliseconds. */
void ripc__verbs_sends_finish(struct verbs_port *port);
/* The path was resolved, or not: sends or drops the parked datagrams. */
void ripc__verbs_parked_send(struct verbs_path *path);
/* Best effort: the message is repeated, or its loss is noticed. */
void ripc__verbs_setup_send(struct verbs_link *link, const struct verbs_setup *setup);

/* ---- send.c: multicast ------------------------------------------------------------------- */

int ripc__verbs_multicast_open(void *port, void *route, const void *partner, uint64_t number);
int ripc__verbs_multicast_hear(void *port, const void *partner, uint64_t number);
void ripc__verbs_multicast_ignore(void *port, uint64_t number);
void ripc__verbs_multicast_close(struct verbs_port *port);
/* A receive has failed, and with it its queue pair; revives that, if that can be done now. */
void ripc__verbs_multicast_failed(struct verbs_port *port);
void ripc__verbs_multicast_revive(struct verbs_port *port);

/* ---- poll.c: receiving, the ends of reads, and sleeping ---------------------------------- */

int ripc__verbs_poll(void *port, struct ripc__event *events, uint32_t n, bool all);
int ripc__verbs_wait_open(struct verbs_port *port);
void ripc__verbs_wait_close(struct verbs_port *port);
int ripc__verbs_wait_arm(void *port);
void ripc__verbs_wait(void *port);
void ripc__verbs_wake(void *port);

#endif
