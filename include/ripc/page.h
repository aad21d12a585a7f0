/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page in which a context tells other processes of its user about itself, as "ripc top" and
 * "ripc metrics" read it; docs/looking.md says how a process gets it. A program that has a context
 * calls ripc_stats_get() and ripc_path_info() instead, and needs none of this.
 *
 * The memory that comes with the page has two parts. Its first memory page begins with the struct
 * ripc_stats in which the context counts: the counters there are always up to date, the gauges
 * ("now") are not. From the second memory page on there is struct ripc_page, which the context
 * writes when a reader asks for it. A reader checks magic and version, and believes nothing else:
 * the memory is another process's.
 */
#ifndef RIPC_PAGE_H
#define RIPC_PAGE_H

#include <stdint.h>

#include <ripc/stats.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RIPC_PAGE_MAGIC    0x45474150u /* "PAGE" */
#define RIPC_PAGE_VERSION  1u
#define RIPC_PAGE_SERVICES 256
#define RIPC_PAGE_PARTNERS 256
#define RIPC_PAGE_MEMBERS  64

enum {
	RIPC_PAGE_READY = 1,    /* partner: found, and heard */
	RIPC_PAGE_DEAD = 2,     /* partner: known to be gone */
	RIPC_PAGE_DRAINING = 4, /* service */
};

struct ripc_page_service {
	uint64_t id, incarnation;
	uint32_t queued;   /* messages that nobody has received yet */
	uint32_t incoming; /* long messages that are being received */
	uint32_t partners; /* remote services that it sends to by their IDs */
	uint32_t calls;    /* open ones */
	uint32_t waiting;  /* calls of the application that wait for a message */
	uint32_t flags;
};

/* A remote service, as one service of the context knows it. */
struct ripc_page_partner {
	uint64_t service;       /* ID of the context's own service */
	uint64_t id;
	uint64_t incarnation;   /* 0: is being looked for; then all below is 0 */
	uint64_t context;       /* the remote one; what has * is of all partners there */
	/*
	 * Numbers of messages to and from it, which grow by one with each (docs/protocol.md,
	 * Numbers) and begin anywhere: their growth tells how many there were.
	 */
	uint64_t shorts_out, longs_out, shorts_in, longs_in;
	uint64_t held_bytes;    /* * of our memory, by messages from there */
	uint32_t outgoing;      /* long messages that have not ended */
	uint32_t queued;        /* its messages in our queue */
	uint32_t idle_ms;       /* since it was last heard or sent to */
	uint32_t flags;
	uint32_t rtt_us, rtt_deviation_us, rtt_least_us; /* * 0: not measured */
	uint32_t window_bytes, in_flight_bytes; /* * from there to us */
	uint32_t loss_1024;     /* * share of bytes lost on their way to us, in 1/1024 */
	char network[16];       /* * "shm", "udp", ... */
	char address[64];       /* * where the network has one */
};

/* A service of the context is a member of a group. */
struct ripc_page_member {
	uint64_t service, group;
};

struct ripc_page {
	uint32_t magic, version;
	uint32_t sequence;      /* odd: is being written; changes with each writing */
	uint32_t word;          /* sizeof(size_t): the layout is that of such programs */
	uint64_t context;       /* incarnation */
	uint64_t written;       /* how often */
	uint32_t n_services, n_partners;     /* entries below, the most recently used first */
	uint32_t all_services, all_partners; /* there may be more than entries */
	uint32_t n_members, all_members;     /* of the services below */
	struct ripc_page_service services[RIPC_PAGE_SERVICES];
	struct ripc_page_partner partners[RIPC_PAGE_PARTNERS];
	struct ripc_page_member members[RIPC_PAGE_MEMBERS];
	/*
	 * The counters of ripc_stats_get(). The last field, as it may grow: stats.size is its
	 * length.
	 */
	struct ripc_stats stats;
};

#ifdef __cplusplus
}
#endif

#endif
