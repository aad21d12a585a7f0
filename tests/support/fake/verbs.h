/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A libibverbs without hardware, inside one process, for tests: programs that link it have it in
 * place of the real one. Datagrams arrive and reads happen while they are posted. It is stricter
 * than devices are: keys, protection domains, states and queue lengths are checked, and whoever
 * breaks a rule is told by fake_verbs_faults().
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* Calls that can be made to fail. */
enum fake_call {
	FAKE_OPEN_DEVICE,
	FAKE_ALLOC_PD,
	FAKE_REG_MR,
	FAKE_CREATE_CHANNEL,
	FAKE_CREATE_CQ,
	FAKE_CREATE_QP,
	FAKE_MODIFY_QP,
	FAKE_CREATE_AH,
	FAKE_POST_SEND,
	FAKE_DOORBELL, /* of what was posted to be sent: it is queued, and never looked at */
	FAKE_DEREG_MR, /* the memory stays registered until its context is closed */
	FAKE_POST_RECV,
	FAKE_ATTACH,
	FAKE_CALLS
};

struct fake_verbs {
	bool no_device, port_down;
	bool taken_away; /* descriptors are readable, and reading fails */
	enum ibv_transport_type transport;
	uint8_t link_layer;
	uint16_t lid;
	enum ibv_mtu mtu;
	uint32_t inline_max;
	/*
	 * gid_type and gid; all zero: none at this index. A queue pair keeps the last one of when
	 * it is made: ends with different ones are on different hosts. A datagram
	 * by an address handle whose index has none any more does not arrive.
	 */
	struct ibv_gid_entry gids[8];
	/* skip more calls succeed, then n fail with error */
	struct {
		uint32_t skip, n;
		int error;
	} fail[FAKE_CALLS];
	uint32_t vendor_id;
	bool hold_reads;     /* reads that are posted do not end */
	uint32_t n_lies;     /* reads and writes that end well and have moved nothing */
	bool drop_datagrams; /* nothing arrives */
	bool drop_thirds;    /* of each three datagrams one does not arrive */
	uint32_t third;      /* which: 0 to 2 */
	bool corrupt_datagrams; /* the first byte of each is changed */
	bool slow_sends;     /* a datagram goes when the queue of its end is looked at */
	bool keep_receives;  /* of a queue pair that fails: they do not come back */
	uint32_t fail_datagrams; /* datagrams that fail, and their queue pair with them */
	uint32_t n_reads, n_datagrams, n_dropped;
	uint32_t n_posts, n_recv_posts, n_ahs; /* calls */
	uint32_t n_attached; /* now: queue pairs to groups */
	uint32_t stale_ahs;  /* datagrams by the first ones do not arrive: the neighbour moved */
};

/* May be changed at any time by the test. Set up by fake_verbs_reset(): one RoCE device. */
extern struct fake_verbs fake_verbs;

void fake_verbs_reset(void);

/* The next n of these calls fail, after those that succeed by "skip". */
static inline void fake_verbs_fail(enum fake_call call, uint32_t n, int error)
{
	fake_verbs.fail[call].n = n;
	fake_verbs.fail[call].error = error;
}

/* Objects that exist: contexts, domains, regions, queues, address handles. */
uint32_t fake_verbs_live(void);
/* Rules that were broken so far; *what: the last one. */
uint32_t fake_verbs_faults(const char **what);
/* An asynchronous event of the first context that is open. */
void fake_verbs_event(enum ibv_event_type type);
/* All reads that are held end, in order. */
void fake_verbs_end_reads(void);
/* Reads that are held. */
uint32_t fake_verbs_held(void);
/* RC queue pairs that exist. */
uint32_t fake_verbs_connections(void);

#endif
