/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The beginning and the end of connections of the rdmacm backend, where partners are silent, or
 * say too much or the wrong thing.
 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "rdmacm_ends.h"
#include "suite.h"
#include "util/system/clock.h"

/* ---- silence ----------------------------------------------------------------------------- */

/* Requests that get no answer are given up, but the kernel does not yet give them back. */
static void ask_the_silent(uint32_t n)
{
	begin(n + 2);
	fake_iwarp.mute = true;
	for (uint32_t k = 1; k <= n; k++)
		ck_assert_int_eq(route(0, k), -EINPROGRESS);
	AWAIT(fake_iwarp_requests() == n);
	turn_us = 20000;
	AWAIT(ends[0].n_events == n);
	turn_us = 1000;
	fake_iwarp.mute = false;
}

/* Silent partners do not delay an answering one. */
START_TEST(peer_open__many_are_silent)
{
	ask_the_silent(2 * RIPC__RDMA_THREADS);
	ck_assert_int_eq(connect_to(0, 2 * RIPC__RDMA_THREADS + 1), 0);
	pass(0, 2 * RIPC__RDMA_THREADS + 1);
	fake_iwarp_give_up();
	AWAIT(ends[0].port.n_conns == 1);
	finish();
}
END_TEST

/* A silent partner is not asked again meanwhile, and can be reached when it has answered. */
START_TEST(peer_open__still_silent)
{
	ask_the_silent(1);
	ck_assert_int_eq(ends[0].events[0].status, -ETIMEDOUT);
	ck_assert_ptr_null(link_of(0, 1)->conn);
	clock_pass(1000000);
	BACKEND->route.close(&ends[0].port, &ends[0].peers[1]);
	ck_assert_int_eq(connect_to(0, 1), -EHOSTUNREACH);
	ck_assert_uint_eq(ends[0].port.n_conns, 1);
	fake_iwarp_give_up();
	AWAIT(ends[0].port.n_conns == 0);
	clock_pass(1000000);
	BACKEND->route.close(&ends[0].port, &ends[0].peers[1]);
	ck_assert_int_eq(connect_to(0, 1), 0);
	pass(0, 1);
	finish();
}
END_TEST

/* ---- too much ---------------------------------------------------------------------------- */

static void garble(uint8_t *bytes, uint8_t *len)
{
	(void)len;
	bytes[0] = 0;
}

/* However many requests come, who polls has its turn again. */
START_TEST(requests__without_end)
{
	struct ripc__event events[1];

	begin(2);
	fake_iwarp.private_data = garble;
	ck_assert_int_eq(route(1, 0), -EINPROGRESS);
	ends[0].is_stopped = true;
	AWAIT(fake_iwarp_requests() == 1);
	fake_iwarp.n_flood = 1000;
	ck_assert_int_eq(BACKEND->net.arm(&ends[0].port), -EAGAIN);
	ck_assert_uint_gt(fake_iwarp.n_flood, 900);
	ck_assert_int_eq(BACKEND->datagrams.poll(&ends[0].port, events, 1, false), 0);
	ck_assert_uint_gt(fake_iwarp.n_flood, 800);
	ends[0].is_stopped = false;
	AWAIT(fake_iwarp.n_flood == 0);
	finish();
}
END_TEST

static void garble_type(uint8_t *bytes, uint32_t *len)
{
	(void)len;
	bytes[4] ^= 0x41;
}

/* A partner that accepts and breaks off at once is asked again, less and less often. */
START_TEST(accept__is_followed_by_an_end)
{
	uint64_t end_us;

	begin(2);
	fake_iwarp.message = garble_type;
	ck_assert_int_eq(connect_to(0, 1), 0);
	end_us = ripc__clock_us() + 1000000;
	AWAIT(ripc__clock_us() >= end_us);
	ck_assert_uint_gt(fake_iwarp_requests(), 3);
	ck_assert_uint_lt(fake_iwarp_requests(), 12);
	fake_iwarp.message = NULL;
	pass(0, 1);
	ck_assert_uint_eq(link_of(0, 1)->resets, 0);
	finish();
}
END_TEST

/* A datagram refused while both ends said goodbye is notified when it may be sent. */
START_TEST(bye__is_answered_late)
{
	uint32_t before;

	begin(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_int_eq(connect_to(1, 0), 0);
	pass(0, 1);
	pass(1, 0);
	before = ends[0].n_events;
	ripc__rdmacm_conn_close(link_of(0, 1)->conn);
	ck_assert_int_eq(send_one(0, 1), 0);
	AWAIT(ends[0].n_events > before);
	ck_assert_int_eq(ends[0].events[before].kind, RIPC_EV_PEER);
	ck_assert_int_eq(ends[0].events[before].status, 0);
	ck_assert_int_eq(send_one(0, 1), 1);
	finish();
}
END_TEST

static void begin_siw(uint32_t n)
{
	begin(0);
	fake_iwarp.vendor_id = FAKE_SIW;
	for (; n_ends < n; n_ends++)
		ck_assert_int_eq(end_open(&ends[n_ends]), 0);
}

/* siw raises SIGPIPE in who refuses, and in who closes: that ends nobody. */
START_TEST(requests__raise_sigpipe)
{
	sigset_t pending;

	signal(SIGPIPE, SIG_DFL);
	begin_siw(2);
	fake_iwarp.raises = true;
	fake_iwarp.private_data = _i ? NULL : garble;
	ck_assert_int_eq(connect_to(1, 0), _i ? 0 : -ECONNREFUSED);
	ck_assert_uint_eq(fake_iwarp.n_rejects, !_i);
	finish();
	ck_assert_int_eq(sigpending(&pending), 0);
	ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{peer_open__many_are_silent, 1},
		{peer_open__still_silent, 1},
		{requests__without_end, 1},
		{requests__raise_sigpipe, 2},
		{accept__is_followed_by_an_end, 1},
		{bye__is_answered_late, 1},
		{NULL, 0},
	};

	return suite_run_loops("rdmacm_conn", loops);
}
