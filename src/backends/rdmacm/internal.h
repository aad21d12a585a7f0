/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of backends/rdmacm: no other room includes this. */
#ifndef RIPC_RDMACM_INTERNAL_H
#define RIPC_RDMACM_INTERNAL_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include "backends/rdma/rdma.h"
#include "backends/udp/udp.h"
#include "core/net/backend.h"
#include "util/system/sleeper.h"

/* ---- addr.c: bytes from outside ---------------------------------------------------------- */

#define RDMACM_VERSION     1
#define RDMACM_ADDR_LEN    20
#define RDMACM_HELLO_LEN   56u   /* the most that a request may carry on any network */
#define RDMACM_PREAMBLE    16u
#define RDMACM_BUFFER      4096u /* bytes of a message with its preamble */
#define RDMACM_RESERVE     2u    /* of a window, only for messages without a datagram */

/* The address where a partner listens; and over UDP, at the same number. */
struct rdmacm_addr {
	uint8_t ip[16];
	uint16_t port;
	bool by_udp; /* datagrams are sent over UDP */
};

enum rdmacm_hello_type { RDMACM_REQUEST = 1, RDMACM_ACCEPT, RDMACM_REFUSE };
/* Why a request is refused. */
enum rdmacm_reason {
	RDMACM_GLARE = 1, /* mine is under way, or I am connected to you already */
	RDMACM_BUSY,      /* request again in a while */
	RDMACM_UNKNOWN,   /* your last connection is not the last that I know of; I request one */
};

/* The private data of a request and its answer. */
struct rdmacm_hello {
	uint8_t type, reason;
	uint64_t nonce;  /* of this connection, drawn by the requester */
	uint64_t last;   /* of the last one that the requester knows */
	uint32_t window; /* messages that the other end may send at first */
	uint32_t buffer; /* bytes of the longest of them */
	struct rdmacm_addr addr;
};

enum rdmacm_message {
	RDMACM_DATAGRAM = 1, /* a datagram follows */
	RDMACM_CREDIT,       /* no datagram follows */
	RDMACM_BYE,          /* the last message on this connection */
};

/* Before every message. */
struct rdmacm_preamble {
	uint32_t type;
	uint32_t received; /* messages that have arrived from the other end so far, modulo 2^32 */
	uint32_t limit;    /* messages that it may send, counted from the first one */
};

void ripc__rdmacm_addr_encode(const struct rdmacm_addr *addr, uint8_t blob[RDMACM_ADDR_LEN]);
/* -EBADMSG: no valid address. */
int ripc__rdmacm_addr_decode(const uint8_t *blob, size_t len, struct rdmacm_addr *addr);
void ripc__rdmacm_addr_fill(const struct rdmacm_addr *own, struct ripc__addr *addr);
void ripc__rdmacm_addr_text(const struct ripc__addr *addr, char text[64]);
bool ripc__rdmacm_addr_is(const struct rdmacm_addr *one, const struct rdmacm_addr *other);
/* An order of addresses that both ends know. */
bool ripc__rdmacm_addr_before(const struct rdmacm_addr *one, const struct rdmacm_addr *other);
void ripc__rdmacm_to_socket(const struct rdmacm_addr *addr, struct sockaddr_storage *name);
/* An address that others can reach, or a negative errno. */
int ripc__rdmacm_from_socket(const struct sockaddr *name, struct rdmacm_addr *addr);
void ripc__rdmacm_hello_encode(const struct rdmacm_hello *hello, uint8_t bytes[RDMACM_HELLO_LEN]);
int ripc__rdmacm_hello_decode(const uint8_t *bytes, size_t len, struct rdmacm_hello *hello);
/* For a message of len bytes with its preamble, which is encoded last. */
void ripc__rdmacm_preamble_encode(const struct rdmacm_preamble *preamble, uint8_t *bytes,
		size_t len);
/* -EBADMSG: no preamble, or the message was altered. */
int ripc__rdmacm_preamble_decode(const uint8_t *bytes, size_t len,
		struct rdmacm_preamble *preamble);

/* ---- rdmacm ------------------------------------------------------------------------------ */

/*
 * Shared by the files of the rdmacm backend: a device and its port (docs/protocol.md has the
 * bytes).
 *
 * iWARP has reliable connections only: a partner's datagrams are messages of the same queue pair
 * that its memory is read by. All queue pairs share the receive buffers and the completion queue
 * of the port. A shared receive queue that is empty would cost a connection, hence no end may
 * send more than it has been given credit for (send.c).
 *
 * With rdmacm.udp, datagrams are sent over UDP (send.c), and a connection is made for reads
 * alone.
 */

#define RDMACM_SENDS       40u   /* messages under way to one partner, at most */
#define RDMACM_SIGNALLED   8u    /* one in so many */
#define RDMACM_WINDOW_MIN  4u    /* messages that every partner may have under way */
#define RDMACM_QUEUE       (RDMACM_SENDS + RIPC__RDMA_READS_OF_QP + 1) /* and an echo */
#define RDMACM_BATCH       32u   /* completions taken, messages posted at once */
#define RDMACM_RECEIVES    1024u /* receive buffers, unless rdmacm.receives says otherwise */
#define RDMACM_CONNECTIONS 64u   /* unless rdmacm.connections says otherwise */

struct rdmacm_device {
	struct ripc__rdma_device rdma;
	struct rdmacm_addr self;    /* its port is listened on; 0: any */
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;      /* bound to the device, which it keeps open */
	uint32_t connections, receives;
	bool is_late;               /* goes on moving bytes when memory is closed */
};

/* A datagram that has arrived and was not returned yet. */
struct rdmacm_arrival {
	uint64_t wr_id;
	uint32_t len;
	struct rdmacm_addr from;
};

/* The requests that are posted next; fields that never change are filled in. */
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
	struct ripc__rdma_queue queue;
	struct ibv_srq *srq;
	struct ripc__rdma_ring ring;
	struct ripc__rdma_reads reads;
	struct ripc__rdma_worker *worker;
	uint8_t secret[16];
	uint64_t counter;
	struct ripc__sleeper sleeper;
	uint64_t due_us;           /* when links must be looked at; UINT64_MAX: never */
	bool closing;
	bool look;                 /* look at the connections, as soon as possible */
	uint8_t greedy[16];        /* the host that has enough */
	uint32_t polls, uses;
	uint32_t n_conns;          /* with a queue pair, now or soon */
	uint32_t n_unready;        /* of them */
	uint32_t n_refused;        /* requests, for want of room, since room was last made; */
	uint32_t n_refused_host;   /* and because their host has enough */
	uint32_t n_asking;         /* requests that hold a helper thread */
	uint32_t taken;            /* completions so far, modulo 2^32 */
	uint32_t shared, shared_free; /* messages of windows beyond their minimum */
	struct list links, conns, wanting;
	uint64_t marked_us;        /* when connections were marked; 0: they are not */
	struct ripc__map links_by_addr, conns_by_qpn;
	struct rdmacm_conn *recent; /* the sender of the last message */
	struct rdmacm_list list;
	struct list opened;        /* struct ripc__rdma_opening that have ended */
	struct list spare, fences, fenced; /* struct rdmacm_fence: unused, one for each key that
	                              is open; waiting; to be polled */
	uint64_t n_fences;         /* fences so far */
	uint32_t opening;          /* the last number of an opening */
	uint32_t at, n_arrivals;
	struct rdmacm_arrival arrivals[RDMACM_BATCH];
	struct ripc__addr from[RIPC_EVENTS_MAX]; /* of the last poll's events */
};

/* Links and connections must be looked at then, at the latest. */
static inline void ripc__rdmacm_due_at(struct rdmacm_port *port, uint64_t at_us)
{
	port->due_us = at_us < port->due_us ? at_us : port->due_us;
}

/* ---- link.c: partners -------------------------------------------------------------------- */

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
	uint64_t begun_us;         /* when the attempt began, which */
	uint64_t until_us;         /* must have succeeded by then; 0: no attempt */
	uint32_t again_us;         /* its last pause; 0: none, or a useful connection since */
	uint64_t idle_us;          /* since when it is unused */
	uint32_t idle_uses;        /* its connection's uses, then */
	int error;                 /* why it is on hold */
	bool missed;               /* a datagram was not taken for want of a connection */
	uint32_t n_failed;         /* attempts over UDP, since there was a connection */
	uint32_t n_routes;         /* over UDP only routes with memory, or reads */
	uint32_t resets;           /* how often it has failed */
};

/* The link to a partner, made if need be. is_mirror: our own end of a connection to ourselves. */
int ripc__rdmacm_link_get(struct rdmacm_port *port, const struct rdmacm_addr *remote,
		bool is_mirror, struct rdmacm_link **link);
/* A connection is needed. */
void ripc__rdmacm_link_want(struct rdmacm_link *link);
/* Its connection can carry messages. */
void ripc__rdmacm_link_ready(struct rdmacm_link *link);
/* The state that a lost connection had: it never stood, nothing arrived by it, or something did. */
enum rdmacm_was { RDMACM_WAS_NOTHING, RDMACM_WAS_SILENT, RDMACM_WAS_OF_USE };
/* The link's connection is gone; status: why, 0: both ends agreed on it. */
void ripc__rdmacm_link_lost(struct rdmacm_link *link, enum rdmacm_was was, int status);
/* Did the link fail a moment ago, so that nothing is tried? */
bool ripc__rdmacm_link_is_held(const struct rdmacm_link *link);
/* Makes its protection domain if there is none. */
int ripc__rdmacm_link_space(struct rdmacm_link *link);
/* Counts a use of the link's connection, if there is one. */
void ripc__rdmacm_link_used(struct rdmacm_link *link);
/* A read or a write was taken: unless it has ended, it needs a connection, and is watched. */
void ripc__rdmacm_link_taken(struct rdmacm_link *link);
/* May a partner at this host have one more connection? */
bool ripc__rdmacm_room_is(struct rdmacm_port *port, const struct rdmacm_addr *remote);
/* Makes room for one more connection: an unused one ends. */
void ripc__rdmacm_room_make(struct rdmacm_port *port, uint64_t now_us);
/* Looks at waiting and late links; sets port->due_us. */
void ripc__rdmacm_links_run(struct rdmacm_port *port, uint64_t now_us);
void ripc__rdmacm_links_close(struct rdmacm_port *port);

/* ---- conn.c: connections, requested or accepted ------------------------------------------ */

enum rdmacm_state {
	RDMACM_RESOLVING,  /* client: the route is resolved */
	RDMACM_BUILDING,   /* the queue pair is made */
	RDMACM_CONNECTING, /* client: until the other end has accepted */
	RDMACM_ACCEPTING,  /* server: until the first message has arrived */
	RDMACM_READY,
	RDMACM_CLOSING,    /* BYE is sent; until it has left and the other's has arrived */
	RDMACM_BREAKING,   /* being disconnected */
	RDMACM_FLUSHING,   /* until posted requests have come back */
	RDMACM_DESTROYING,
};

/* While a job runs, only the job touches the queue pair. */
struct rdmacm_conn {
	struct ripc__rdma_job job;
	struct list node;            /* port->conns */
	struct rdmacm_port *port;
	struct rdmacm_link *link;    /* NULL: the connection is useless now */
	struct rdmacm_addr remote;
	struct ripc__rdma_space *space;
	struct rdma_cm_id *id;
	enum rdmacm_state state;
	bool is_server;
	bool busy;                   /* a job runs, or waits to */
	bool unwanted;               /* break it as soon as it is not busy */
	bool waits;                  /* client: with its request, for a helper thread */
	bool asked;                  /* client: requested, without an answer yet */
	bool was_ready, bye_came, bye_gone;
	bool failed;                 /* nothing can be posted: the caller breaks it */
	bool was_heard;              /* a message, or bytes of a read, have arrived */
	bool echoing;                /* an echo is under way */
	int error;                   /* why it is unwanted */
	int job_error;
	uint64_t nonce;
	uint64_t due_us;             /* when its state must have changed */
	uint64_t nudge_us;           /* client: when to send a message once more; 0: never */
	uint32_t used;               /* port->uses when it was last used */
	uint32_t marked;             /* the same when room was last looked for */
	uint8_t reads;               /* in flight at once */
	/* Messages to the other end, counted from the first one, modulo 2^32. */
	struct ripc__buffers *buffers;
	struct ibv_mr *mr;
	uint32_t inline_max;
	uint32_t head, completed, acked; /* posted; known to have left; to have arrived */
	uint32_t limit;              /* messages that may be posted */
	uint32_t unsignalled;
	uint32_t bye;                /* the number behind our BYE */
	/* From the other end. */
	uint32_t received, given;    /* messages; may arrive */
	uint32_t window;             /* of the port's buffers, reserved for it */
	uint32_t told;               /* received, as last reported */
	uint32_t taken;              /* port->taken when it was broken */
	uint32_t data;               /* datagrams since then */
	uint64_t stalled_us;         /* since when no read has ended; 0: not known */
	/*
	 * Fences by number: those up to passed need not wait for it; nor those up to echoed,
	 * when the echo is back.
	 */
	uint64_t passed, echoed;
	uint64_t echo_us;            /* when the echo must be back */
	uint8_t hello[RDMACM_HELLO_LEN];
};

/* Requests a connection from the partner of a link; it becomes the link's. */
int ripc__rdmacm_conn_ask(struct rdmacm_link *link);
/* Must SIGPIPE be kept from the caller? siw raises it, and it would end the program. */
bool ripc__rdmacm_is_guarded(const struct rdmacm_port *port);
/* The connection carries messages: the first one has arrived, or may be sent. */
void ripc__rdmacm_conn_ready(struct rdmacm_conn *conn);
/* Breaks the connection; error: why, 0: both ends agreed. */
void ripc__rdmacm_conn_break(struct rdmacm_conn *conn, int error);
/* The connection leaves its link. */
void ripc__rdmacm_conn_leave(struct rdmacm_conn *conn);
/* Ends the connection in agreement with the other end, after the messages under way. */
void ripc__rdmacm_conn_close(struct rdmacm_conn *conn);
/* Takes the connection a step further towards its end, if possible. */
void ripc__rdmacm_conn_check(struct rdmacm_conn *conn);
/*
 * Finds out whether the connection is dead, unless a datagram would lack the credit that this
 * takes.
 */
void ripc__rdmacm_conn_try(struct rdmacm_conn *conn);
/* Ends all connections, in the caller, after the helper threads have ended. */
void ripc__rdmacm_conns_close(struct rdmacm_port *port);
/* Handles events of the channel, late ones too. False: some remain. */
bool ripc__rdmacm_events(struct rdmacm_port *port);
void ripc__rdmacm_conns_run(struct rdmacm_port *port, uint64_t now_us);

/* ---- fence.c: memory that a connection may still reach ----------------------------------- */

/* wr_id of an echo. */
#define RDMACM_WR_ECHO (1ull << 61)

struct rdmacm_fence {
	struct list node;                     /* port->spare, ->fences or ->fenced */
	const struct ripc__rdma_space *space; /* only compared: it may be gone */
	uint64_t cookie;
	uint64_t number;                      /* of port->n_fences */
};

void ripc__rdmacm_fences_close(struct rdmacm_port *port);
/* A connection is gone. */
void ripc__rdmacm_fences_check(struct rdmacm_port *port);
/* An echo has completed. */
void ripc__rdmacm_echo_came(struct rdmacm_conn *conn, const struct ibv_wc *wc);
/* Is an echo late? Otherwise the connection is looked at again when it would be. */
bool ripc__rdmacm_echo_is_late(const struct rdmacm_conn *conn, uint64_t now_us);
/* Fills events[at..n); returns where it ended. */
uint32_t ripc__rdmacm_fences_take(struct rdmacm_port *port, struct ripc__event *events,
		uint32_t at, uint32_t n);
/* As ripc__rdma_key_open(), for keys that are closed by these: */
int ripc__rdmacm_key_open(struct rdmacm_port *port, struct ripc__rdma_space *space,
		const struct iovec *mem, bool writable, struct ripc__key *key);
int ripc__rdmacm_mem_close(void *port, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie);

/* ---- rdmacm.c: partners as core knows them ----------------------------------------------- */

/* The state that core keeps for a partner. */
struct rdmacm_route {
	struct rdmacm_link *link; /* over UDP NULL, until a connection is needed */
	union {
		struct {
			uint32_t opening; /* of its (former) struct ripc__rdma_opening */
			uint32_t resets;  /* of the link, as far as core knows */
		};
		struct udp_route udp; /* if datagrams are sent over UDP */
	};
};

/* Polls the datagrams over UDP: fills events[at..n); returns where it ended. */
uint32_t ripc__rdmacm_udp_poll(struct rdmacm_port *port, struct ripc__event *events, uint32_t at,
		uint32_t n);

/* ---- send -------------------------------------------------------------------------------- */

/*
 * Messages to and from a partner. A call that posts may find that the connection has failed:
 * then conn->failed is set, and the caller breaks the connection.
 */

void ripc__rdmacm_list_init(struct rdmacm_list *list);
int ripc__rdmacm_sends_open(struct rdmacm_conn *conn);
/* How many messages may be sent, if reserve are kept back. */
uint32_t ripc__rdmacm_credit(const struct rdmacm_conn *conn, uint32_t reserve);
/* Sends as many datagrams as there is room and credit for; returns how many. */
int ripc__rdmacm_send_by(struct rdmacm_conn *conn, const struct ripc__tx *tx, uint32_t n);
/* Sends a message without a datagram. False: there is no room or credit for it. */
bool ripc__rdmacm_say(struct rdmacm_conn *conn, enum rdmacm_message type);
/* A send has completed. */
void ripc__rdmacm_sent(struct rdmacm_conn *conn, uint64_t wr_id);
/*
 * Handles a message's preamble. 1: a datagram follows; 0: no datagram; a negative errno: the
 * other end violates the protocol.
 */
int ripc__rdmacm_came(struct rdmacm_conn *conn, const uint8_t *bytes, uint32_t len);
/* Reserves receive buffers for a connection. */
void ripc__rdmacm_window_take(struct rdmacm_conn *conn);
void ripc__rdmacm_window_give(struct rdmacm_conn *conn);

/* ---- poll.c: receiving, the ends of reads, and sleeping ---------------------------------- */

/* Takes completions, which update credit. False: not all, for want of room for datagrams. */
bool ripc__rdmacm_fill(struct rdmacm_port *port);
int ripc__rdmacm_poll(void *port, struct ripc__event *events, uint32_t n, bool all);
int ripc__rdmacm_wait_open(struct rdmacm_port *port);
int ripc__rdmacm_wait_arm(void *port);

#endif
