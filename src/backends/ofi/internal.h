/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of the ofi backend: the endpoint with all that libfabric keeps for it,
 * links to partners, datagrams being sent, receive buffers, memory that partners may read, and
 * reads (docs/protocol.md has the bytes).
 *
 * One reliable-datagram endpoint (FI_EP_RDM) serves all partners, and one completion queue all of
 * its operations. A datagram that libfabric does not take at once (FI_EAGAIN: a connection is being
 * made, a partner's queue is full) waits here, for its own partner only.
 *
 *   present.c  whether the backend is wanted
 *   net.c      the choice of a provider; opening and closing libfabric's objects
 *   addr.c     bytes of addresses
 *   link.c     partners, and their entries in libfabric's address vector
 *   memory.c   memory that a partner may read, or that is read into; reads in progress
 *   send.c, poll.c, ofi.c: as their names say
 */
#ifndef RIPC_OFI_INTERNAL_H
#define RIPC_OFI_INTERNAL_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <stdatomic.h>

#include "backends/options.h"
#include "core/net/backend.h"
#include "util/list.h"
#include "util/map.h"
#include "util/system/sleeper.h"

#define OFI_VERSION    1
#define OFI_API        FI_VERSION(1, 17) /* of libfabric's interface: 1.17, also spoken by 2.x */
#define OFI_ADDR_HEAD  8u   /* of an address blob, before the provider's own bytes */
#define OFI_NAME_MAX   (RIPC_ADDR_MAX - OFI_ADDR_HEAD)
#define OFI_HEAD_MAX   64u  /* before every datagram: its sender */
#define OFI_RECEIVES   512u /* receive buffers, unless ofi.receives says otherwise */
#define OFI_SENDS      256u /* datagrams that are being sent, or wait */
#define OFI_READS      64u  /* waiting, in progress, or ended and not polled */
#define OFI_BATCH      32u  /* completions taken, and datagrams sent, at once */
#define OFI_LINKS_KEPT 64u  /* partners without a route */
#define OFI_PLACES     16u  /* where a guard stays without a partner (link.c) */
/* Keys of no queue pair (link.c): those from 0x80000000 on are privileged. */
#define OFI_KEY_GUARD  0xffffffffu
#define OFI_KEY_LEVEL  0xfffffffeu
/*
 * A partner without progress has failed after libfabric could work for this long
 * (port->worked_us): longer than any connection takes to be made. While this process is stopped,
 * or does something else, no partner fails.
 */
#define OFI_STUCK_US   3000000u

/* A provider's name of an endpoint, in a form that can be compared. */
struct ofi_name {
	uint8_t format;   /* enum ofi_format */
	uint8_t len;      /* of bytes */
	bool unchecked;   /* checksums are left out: both ends must do so */
	uint32_t protocol; /* both ends must have the same */
	uint8_t bytes[OFI_NAME_MAX];
};

enum ofi_format {
	OFI_FORMAT_IP4 = 1, /* struct sockaddr_in */
	OFI_FORMAT_IP6,     /* struct sockaddr_in6 */
	OFI_FORMAT_EFA,     /* GID, queue pair, key */
	OFI_FORMAT_TEXT,    /* words, ended by a zero */
	OFI_FORMAT_OTHER,   /* only the provider knows */
};

/* The objects of libfabric for one device and its port, which may outlive both. */
struct ofi_net {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *receive_mr, *send_mr; /* NULL: the provider needs none */
	struct ripc__buffers *receive_buffers, *send_buffers;
	struct ofi_receive *receives;
	struct ofi_send *sends;
	struct ofi_read *reads;
	struct ofi_closing *closing;         /* NULL: it is not being closed */
	uint32_t n_ops;                      /* sends and reads that have not completed */
};

/* Memory that is read into. */
struct ofi_region {
	struct list node; /* dev->regions */
	struct fid_mr *mr;
};

struct ofi_device {
	struct ripc__host host;
	struct ofi_wish wish;
	struct ofi_net *net;
	uint32_t datagram_max; /* bytes, without our head */
	struct ripc__map keys; /* struct ofi_key, by the key as it travels */
	struct list regions;   /* struct ofi_region */
	bool told_memory;      /* the reason was logged why memory is not usable */
};

/* A partner at the other end of routes, or whose routes were closed a while ago. */
struct ofi_link {
	struct list node;      /* port->links, or ->links_unused: least recently used first */
	struct list waiting;   /* struct ofi_send */
	struct list stuck;     /* port->stuck, while any wait */
	struct list told;      /* port->told, while core must hear of it */
	struct list posting;   /* port->posting, while n_posted */
	struct list reads;     /* struct ofi_read that wait */
	struct list reading;   /* port->reading, while any wait */
	uint64_t reading_us;   /* port->worked_us when a read was taken or ended, while any wait */
	uint32_t n_reads;      /* reads that libfabric has */
	uint64_t key;          /* in port->links_by_name */
	fi_addr_t to;          /* its entry of the address vector, */
	bool has_entry;        /* if there is one */
	uint64_t stuck_us;     /* port->worked_us when one was taken, while any wait */
	uint32_t n_routes;
	uint32_t n_posted;     /* sends that libfabric has and that were not completed */
	uint32_t n_waiting;
	uint64_t posted_us;    /* port->worked_us when none was posted, or one completed */
	uint32_t resets;       /* how often it has failed */
	bool missed;           /* a datagram was not taken: core waits for a report */
	bool failed;           /* packets were lost, or may have been sent elsewhere */
	bool gone;             /* over EFA, a message failed: no route until the entry is removed */
	bool silent;           /* no operation completes: it gets no more */
	bool is_new;           /* no route has led to it */
	bool opening;          /* a connection is being made */
	bool greeted;          /* libfabric knows what the other end can do */
	bool greeting;         /* and is finding out */
	void *opener;          /* the route that was opened last */
	struct ripc__addr addr;
};

/* The state that core keeps for a partner. */
struct ofi_route {
	struct ofi_link *link;
	uint32_t resets; /* of the link, as far as core knows */
};

/* A datagram that libfabric has, or that waits for it. */
struct ofi_send {
	struct fi_context2 context; /* libfabric's; completions name it */
	struct list node;           /* port->free_sends or link->waiting */
	struct ofi_link *link;      /* NULL: it has ended */
	uint32_t len;
	bool greets;                /* sets link->greeted when it has arrived */
};

/* A read that libfabric has, or that waits for it, or has ended. */
struct ofi_read {
	struct fi_context2 context; /* likewise */
	struct list node;           /* port->free_reads, link->reads or port->ended */
	struct ofi_link *link;      /* NULL: libfabric is done with it */
	uint64_t cookie, address, key;
	uint8_t *mem;
	size_t len;
	void *desc;                 /* of the memory */
	int status;
};

struct ofi_receive {
	struct fi_context2 context; /* likewise */
	struct ofi_receive *next;   /* idle: neither posted nor with core */
};

/* A datagram that has arrived and was not returned. */
struct ofi_arrival {
	uint32_t index, len;
};

struct ofi_port {
	struct ofi_device dev;
	struct ofi_net *net;        /* of dev */
	struct ofi_name self;
	uint8_t head[OFI_HEAD_MAX]; /* before every datagram that we send */
	uint32_t head_len;
	uint32_t buffer_len;        /* of each buffer: a head and a datagram */
	uint32_t inject_max;        /* bytes that libfabric copies and never completes */
	uint8_t secret[16];         /* of hashes */
	bool is_lost;               /* the endpoint is of no use any more */
	/* receives */
	uint32_t n_receives, n_handed;
	struct ofi_receive *idle;
	uint32_t *handed;           /* indices */
	uint32_t at, n_arrivals;
	struct ofi_arrival arrivals[OFI_BATCH];
	uint32_t dropped;           /* for want of room, since last asked */
	/* sends */
	struct list free_sends;
	uint32_t n_free;
	struct list posting;        /* longest without a completion first */
	/* reads */
	struct list free_reads, ended, reading;
	/* partners */
	struct list links, links_unused, stuck, told;
	struct ripc__map links_by_name;
	uint32_t n_unused;
	bool told_full;             /* the lack of room in libfabric was logged */
	uint32_t n_guarded;
	struct ripc__addr guarded[OFI_PLACES]; /* places of EFA, by one of their addresses */
	uint32_t polls;
	/* time */
	uint64_t looked_us;         /* when worked_us was brought up to date */
	uint64_t worked_us;         /* how long libfabric could work while anything waited */
	/* waiting */
	struct ripc__sleeper sleeper;
	bool sleeps;                /* the provider has a descriptor for it */
	struct ripc__addr recent;   /* the last datagram's sender, and its encoded name */
	uint8_t recent_head[OFI_HEAD_MAX];
	uint32_t recent_len;
	struct ripc__addr from[RIPC_EVENTS_MAX]; /* of the last poll's events */
};

/* ---- net.c: the provider ----------------------------------------------------------------- */

int ripc__ofi_wish_read(const struct ripc__host *host, struct ofi_wish *wish);
/* Finds the first provider that fits. -ENODEV: why and remedy name the lack. */
int ripc__ofi_info_get(const struct ofi_wish *wish, struct fi_info **info, char why[256],
		char remedy[256]);
/* Bytes of the longest datagram that is sent as one, with our head. */
uint32_t ripc__ofi_message_max(const struct fi_info *info);
bool ripc__ofi_is_intact(const struct ofi_wish *wish, const struct fi_info *info);
/* Might the device read if the provider were told to let it? */
bool ripc__ofi_may_be_told(const struct fi_info *info);
/* May long messages be read? */
bool ripc__ofi_has_reads(const struct ofi_wish *wish, const struct fi_info *info);
/* Does the provider make a connection to each partner? */
bool ripc__ofi_connects(const struct fi_info *info);

/* ---- net.c: the endpoint ----------------------------------------------------------------- */

/* Owns the info from now on. */
int ripc__ofi_net_open(struct fi_info *info, struct ofi_net **net);
/* Opens the endpoint, with so many buffers of so many bytes. */
int ripc__ofi_net_start(struct ofi_net *net, uint32_t receives, uint32_t len);
/* The kind of operation that a completion belongs to. */
static inline bool ripc__ofi_is_send(const struct ofi_net *net, const void *context)
{
	const struct ofi_send *send = context;

	return send >= net->sends && send < net->sends + OFI_SENDS;
}

static inline bool ripc__ofi_is_read(const struct ofi_net *net, const void *context)
{
	const struct ofi_read *read = context;

	return read >= net->reads && read < net->reads + OFI_READS;
}

/* Lets libfabric finish operations that closing would wait for, for a moment. */
void ripc__ofi_net_await(struct ofi_net *net);
/*
 * Closes the endpoint, which may take long: after a moment a thread of its own closes the rest.
 */
void ripc__ofi_net_stop(struct ofi_net *net);
void ripc__ofi_net_close(struct ofi_net *net);

/* ---- addr.c: bytes that come from outside ------------------------------------------------ */

/* Our own name, from the provider's bytes. */
int ripc__ofi_name_from(const struct fi_info *info, const void *bytes, size_t len,
		struct ofi_name *name);
int ripc__ofi_name_encode(const struct ofi_name *name, uint8_t blob[RIPC_ADDR_MAX]);
/* -EBADMSG: no name, or of an end with another protocol than ours (self). */
int ripc__ofi_name_decode(const uint8_t *blob, size_t len, const struct ofi_name *self,
		struct ofi_name *name);
void ripc__ofi_addr_fill(const struct ofi_name *name, const struct ofi_name *self,
		struct ripc__addr *addr);
/* Do both name one queue pair of EFA, of one process and of an earlier owner? */
bool ripc__ofi_addr_same_place(const struct ripc__addr *a, const struct ripc__addr *b);
/* The same queue pair of EFA with another key. */
void ripc__ofi_addr_nobody(const struct ripc__addr *place, uint32_t key, struct ripc__addr *addr);
void ripc__ofi_addr_text(const struct ripc__addr *addr, char text[64]);
/* The most bytes of a head before a datagram; before the name is known. */
uint32_t ripc__ofi_head_room(const struct fi_info *info);
/* Encodes the head that precedes every datagram. Returns its length. */
uint32_t ripc__ofi_head_encode(const struct ofi_name *self, uint8_t head[OFI_HEAD_MAX]);
/* Finds out the sender of a datagram. Returns the length of its head, or -EBADMSG. */
int ripc__ofi_head_decode(const uint8_t *bytes, size_t len, const struct ofi_name *self,
		struct ofi_name *name);

/* ---- link.c: entries --------------------------------------------------------------------- */

/* A message of the link has failed. */
void ripc__ofi_entry_lost(const struct ofi_port *port, struct ofi_link *link);
/* An operation of the link has ended: if the link is gone, its entry is removed with the last. */
void ripc__ofi_entry_ended(struct ofi_port *port, struct ofi_link *link);

/* ---- link.c: links ----------------------------------------------------------------------- */

void ripc__ofi_links_open(struct ofi_port *port);
void ripc__ofi_links_close(struct ofi_port *port);
/* Frees unused links until n_kept remain. */
void ripc__ofi_links_trim(struct ofi_port *port, uint32_t n_kept);
/* The link leads nowhere: waiting datagrams are dropped, and core is notified. */
void ripc__ofi_link_fail(struct ofi_port *port, struct ofi_link *link);
/* Core must be notified that the link takes datagrams again. */
void ripc__ofi_link_tell(struct ofi_port *port, struct ofi_link *link);
/* Fills events[at..n); returns where it ended. */
uint32_t ripc__ofi_links_take(struct ofi_port *port, struct ripc__event *events, uint32_t at,
		uint32_t n);
int ripc__ofi_port_addr(void *port, uint8_t blob[RIPC_ADDR_MAX]);
int ripc__ofi_addr_choose(void *port, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr);
int ripc__ofi_route_open(void *port, void *route, const struct ripc__addr *addr);
void ripc__ofi_route_close(void *port, void *route);
void ripc__ofi_where(void *port, const void *route, struct ripc__where *where);
uint32_t ripc__ofi_route_mtu(void *port, void *route);
bool ripc__ofi_route_matches(void *port, const void *route, const struct ripc__addr *from);

/* ---- send.c ------------------------------------------------------------------------------ */

void ripc__ofi_sends_open(struct ofi_port *port);
/* May the partner have one more buffer? */
bool ripc__ofi_has_room(const struct ofi_port *port, const struct ofi_link *link);
/* Only while there is room. 0: taken. */
int ripc__ofi_send_one(struct ofi_port *port, struct ofi_link *link, const struct ripc__tx *tx);
/* The datagram has completed, or is given up. */
void ripc__ofi_send_end(struct ofi_port *port, struct ofi_send *send);
/* Tries again what waits. */
void ripc__ofi_sends_push(struct ofi_port *port);
/* All completions were seen: a link that has had none for long has failed. */
void ripc__ofi_sends_look(struct ofi_port *port);
/* Sends only our head, which makes a connection. 0: there is one; -EAGAIN: it is being made. */
int ripc__ofi_knock(struct ofi_port *port, struct ofi_link *link);
/* Drops all waiting datagrams of the link. */
void ripc__ofi_sends_drop(struct ofi_port *port, struct ofi_link *link);
/* Sends our head; its completion shows that it was received. -EAGAIN: not now. */
int ripc__ofi_greet(struct ofi_port *port, struct ofi_link *link);

/* ---- ofi.c ------------------------------------------------------------------------------- */

int ripc__ofi_send(void *port, void *route, const struct ripc__tx *tx, uint32_t n);

/* ---- memory.c: keys and regions ---------------------------------------------------------- */

/* Closes memory that is read into: nothing is written there any more. */
void ripc__ofi_regions_close(struct ofi_device *dev);
/* Closes all memory: no partner can reach it any more. */
void ripc__ofi_memory_close(struct ofi_device *dev);
int ripc__ofi_mem_reg(void *port, void *route, void *mem, size_t len, bool source, void **region);
void ripc__ofi_mem_dereg(void *port, void *region);
int ripc__ofi_mem_open(void *port, void *route, void *mem, size_t len, bool writable,
		struct ripc__key *key);
int ripc__ofi_mem_close(void *port, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie);
/*
 * Decodes a partner's key and an offset for libfabric. -EINVAL: the key is garbled, or not for
 * us.
 */
int ripc__ofi_key_parse(const struct ofi_port *port, const struct ripc__key *wire, uint64_t offset,
		uint64_t *address, uint64_t *key);

/* ---- memory.c: reads --------------------------------------------------------------------- */

void ripc__ofi_reads_open(struct ofi_port *port);
int ripc__ofi_read(void *port, void *route, const struct ripc__move *move);
/* libfabric is done with the read. */
void ripc__ofi_read_end(struct ofi_port *port, struct ofi_read *read, int status);
/* Tries again what waits. */
void ripc__ofi_reads_push(struct ofi_port *port);
/* Ends the reads that wait. */
void ripc__ofi_reads_drop(struct ofi_port *port, struct ofi_link *link, int status);
/* Fills events[at..n); returns where it ended. */
uint32_t ripc__ofi_reads_take(struct ofi_port *port, struct ripc__event *events, uint32_t at,
		uint32_t n);

/* ---- poll.c ------------------------------------------------------------------------------ */

/* Allocates port->handed, which the caller frees, also on failure. */
int ripc__ofi_receives_open(struct ofi_port *port);
/* Lets libfabric work, and handles completions, as far as there is room. */
void ripc__ofi_progress(struct ofi_port *port);
int ripc__ofi_poll(void *port, struct ripc__event *events, uint32_t n, bool all);
int ripc__ofi_wait_open(struct ofi_port *port);
void ripc__ofi_wait_close(struct ofi_port *port);
int ripc__ofi_wait_arm(void *port);
void ripc__ofi_stats(void *port, struct ripc__net_stats *stats);

#endif
