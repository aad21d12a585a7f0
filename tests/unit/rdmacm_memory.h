/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends of the rdmacm backend, of which the second one has memory open to the first one. */
#ifndef TEST_RDMACM_MEMORY_H
#define TEST_RDMACM_MEMORY_H

#include "rdmacm_ends.h"

static uint8_t theirs[100], ours[100];
static struct ripc__key key;
static void *region; /* ours, registered */
static uint64_t nonce; /* of the connection that there was at first */

static struct ripc__key open_theirs(bool writable)
{
	struct ripc__key made;

	ck_assert_int_eq(BACKEND->mem.open(&ends[1].port, &ends[1].peers[0], theirs, 100, writable,
		&made), 0);
	return made;
}

/* The first end may write to it what it has, or read it: 7 everywhere. */
static inline void begin_open(uint32_t vendor_id, bool writable)
{
	begin(0);
	fake_iwarp.vendor_id = vendor_id;
	for (; n_ends < 2; n_ends++)
		ck_assert_int_eq(end_open(&ends[n_ends]), 0);
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_int_eq(connect_to(1, 0), 0);
	pass(0, 1);
	pass(1, 0);
	memset(theirs, writable ? 0 : 7, sizeof(theirs));
	memset(ours, writable ? 7 : 0, sizeof(ours));
	key = open_theirs(writable);
	ck_assert_int_eq(BACKEND->mem.reg(&ends[0].port, &ends[0].peers[1], ours, 100, writable,
		&region), 0);
	ends[0].n_events = ends[1].n_events = 0;
	nonce = link_of(1, 0)->conn->nonce;
}

/* When the memory was closed or taken back. */
static inline void finish_closed(void)
{
	BACKEND->mem.dereg(&ends[0].port, region);
	finish();
}

static inline void finish_open(void)
{
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_DONE, 1), 0);
	finish_closed();
}

static inline void await_fence(uint32_t number, uint64_t cookie)
{
	AWAIT(ends[1].n_events > number);
	ck_assert_int_eq(ends[1].events[number].kind, RIPC_EV_FENCED);
	ck_assert_uint_eq(ends[1].events[number].cookie, cookie);
}

static inline bool is_same_connection(void)
{
	pass(0, 1);
	pass(1, 0);
	return link_of(1, 0)->conn->nonce == nonce;
}

#endif
