/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs and librdmacm without hardware, as an iWARP device inside one process, for tests:
 * programs that link it have it in place of the real ones. Posted requests are executed at once.
 * The fake is stricter than devices are: it checks keys, protection domains, permissions of targets
 * of reads, credit (a shared receive queue that is empty), which end sends first, and events that
 * are not acknowledged; fake_iwarp_faults() reports broken rules.
 */
#ifndef FAKE_IWARP_H
#define FAKE_IWARP_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#define FAKE_SIW 0x626d74 /* the vendor_id of siw, whose memory is fenced */

/* Calls that can be made to fail. */
enum fake_call {
	FAKE_OPEN_DEVICE,
	FAKE_ALLOC_PD,
	FAKE_REG_MR,
	FAKE_DEREG_MR, /* the memory stays registered until its context is closed */
	FAKE_CREATE_COMPLETIONS,
	FAKE_CREATE_CQ,
	FAKE_CREATE_SRQ,
	FAKE_CREATE_QP,
	FAKE_POST_SEND,
	FAKE_CREATE_CHANNEL,
	FAKE_CREATE_ID,
	FAKE_BIND,
	FAKE_LISTEN,
	FAKE_RESOLVE_ADDR,
	FAKE_RESOLVE_ROUTE,
	FAKE_CONNECT,
	FAKE_ACCEPT,
	FAKE_CALLS
};

struct fake_iwarp {
	bool no_device, no_address;
	/* skip more calls succeed, then n fail with error */
	struct {
		uint32_t skip, n;
		int error;
	} fail[FAKE_CALLS];
	bool addr_error;   /* addresses are not resolved, by an event */
	bool block;        /* the network does not answer connection requests, and they wait */
	bool mute;         /* requests arrive nowhere; whoever disconnects or destroys what has
	                      asked waits until fake_iwarp_give_up() */
	bool hold_reads;   /* reads that are posted do not end */
	bool late_reads;   /* reads do not end, either, and their data is sent later, as siw does */
	bool late_writes;  /* writes are placed later; the network has the data, so they end */
	uint32_t n_flood;  /* requests that come again as soon as one is looked at */
	uint32_t n_lies;   /* writes that end well and place nothing */
	bool raises;       /* posting, refusing and disconnecting raise SIGPIPE, as a TCP socket of
	                      the kernel does */
	uint32_t vendor_id;
	bool taken_away;   /* descriptors are readable, and reading fails */
	/* May change what arrives; called with the bytes and their length. NULL: nothing. */
	void (*private_data)(uint8_t *bytes, uint8_t *len);
	void (*message)(uint8_t *bytes, uint32_t *len);
	uint32_t n_requests, n_accepts, n_rejects; /* calls */
};

/* May be changed at any time by the test. Set up by fake_iwarp_reset(). */
extern struct fake_iwarp fake_iwarp;

void fake_iwarp_reset(void);

/* The next n of these calls fail, after those that succeed by "skip". */
static inline void fake_iwarp_fail(enum fake_call call, uint32_t n, int error)
{
	fake_iwarp.fail[call].n = n;
	fake_iwarp.fail[call].error = error;
}

/* Objects that exist. */
uint32_t fake_iwarp_live(void);
uint32_t fake_iwarp_qps(void);
/* Calls so far; what they have looked at may be changed then. */
uint32_t fake_iwarp_requests(void);
/* Rules that were broken so far; *what: the last one. */
uint32_t fake_iwarp_faults(const char **what);
/* All late reads that are held end, and what is written late is placed. */
void fake_iwarp_end_reads(void);
/* Connection requests during the silence fail with no answer, as with siw after 10 s. */
void fake_iwarp_give_up(void);
/* All connections break, as when the network does. */
void fake_iwarp_break(void);
/* The device is gone, as when its driver is unloaded; a descriptor of this context says so. */
void fake_iwarp_take_away(struct ibv_context *context);

#endif
