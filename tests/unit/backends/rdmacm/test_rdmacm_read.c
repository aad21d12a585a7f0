/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory and reads of the rdmacm backend on libraries of our own (tests/support/fake): reads that
 * fail, and memory that is taken back while it may be read.
 */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "rdmacm_memory.h"
#include "suite.h"

static void start_read(void)
{
	ck_assert_int_eq(BACKEND->remote.move(&ends[0].port, &ends[0].peers[1],
		&(struct ripc__move){.key = key, .mem = ours, .len = 100, .region = region,
		.cookie = 5}),
		0);
}

START_TEST(read__ends_when_the_connection_breaks)
{
	uint32_t before;

	begin_open(0, false);
	fake_iwarp.hold_reads = true;
	before = ends[0].n_events;
	ck_assert_int_eq(BACKEND->remote.move(&ends[0].port, &ends[0].peers[1],
		&(struct ripc__move){.key = key, .mem = ours, .len = 100, .region = region,
		.cookie = 5}),
		0);
	fake_iwarp_break();
	AWAIT(ends[0].n_events > before);
	ck_assert_int_eq(ends[0].events[before].kind, RIPC_EV_READ);
	ck_assert_int_lt(ends[0].events[before].status, 0);
	fake_iwarp.hold_reads = false;
	ck_assert_int_eq(BACKEND->remote.move(&ends[0].port, &ends[0].peers[1],
		&(struct ripc__move){.key = key, .mem = ours, .len = 100, .region = region,
		.cookie = 6}),
		0);
	AWAIT(ends[0].n_events > before + 1);
	ck_assert_int_eq(ends[0].events[before + 1].status, 0);
	ck_assert_uint_eq(ours[0], 7);
	finish_open();
}
END_TEST

/* A read that cannot be posted ends, and does not keep the next ones from being posted. */
START_TEST(read__cannot_be_posted)
{
	uint32_t before;

	begin_open(0, false);
	fake_iwarp_fail(FAKE_POST_SEND, 1, EINVAL);
	before = ends[0].n_events;
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(BACKEND->remote.move(&ends[0].port, &ends[0].peers[1],
			&(struct ripc__move){.key = key, .mem = ours, .len = 100, .region = region,
			.cookie = i}), 0);
	AWAIT(ends[0].n_events == before + 2);
	ck_assert_int_lt(ends[0].events[before].status, 0);
	ck_assert_int_eq(ends[0].events[before + 1].status, 0);
	ck_assert_uint_eq(ours[0], 7);
	finish_open();
}
END_TEST

/* A read that comes when both ends are about to part waits for the next connection. */
START_TEST(read__while_the_connection_is_closed)
{
	begin_open(0, false);
	ripc__rdmacm_conn_close(link_of(0, 1)->conn);
	ck_assert_uint_eq(link_of(0, 1)->conn->state, RDMACM_CLOSING);
	fake_iwarp.hold_reads = true;
	start_read();
	AWAIT(!link_of(0, 1)->conn || link_of(0, 1)->conn->state != RDMACM_CLOSING);
	fake_iwarp.hold_reads = false;
	AWAIT(ends[0].n_events == 1);
	ck_assert_int_eq(ends[0].events[0].status, 0);
	ck_assert_uint_eq(ours[0], 7);
	finish_open();
}
END_TEST

/* ---- memory that is taken back ----------------------------------------------------------- */

/* The data that the device is still sending then differs from the later contents of the memory. */
START_TEST(mem_revoke__while_it_is_read)
{
	begin_open(FAKE_SIW, false);
	fake_iwarp.late_reads = true;
	start_read();
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 77),
		-EINPROGRESS);
	await_fence(0, 77);
	memset(theirs, 9, sizeof(theirs));
	fake_iwarp_end_reads();
	ck_assert_uint_eq(ours[0], 0);
	AWAIT(ends[0].n_events == 1);
	ck_assert_int_lt(ends[0].events[0].status, 0);
	fake_iwarp.late_reads = false;
	pass(0, 1);
	pass(1, 0);
	finish_closed();
}
END_TEST

/* An end that is done, or has a device that stops by itself, keeps its connection. */
START_TEST(mem_close__needs_no_fence)
{
	begin_open(_i ? FAKE_SIW : 0, false);
	start_read();
	AWAIT(ends[0].n_events == 1);
	if (_i)
		ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_DONE, 1), 0);
	else
		ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 1), 0);
	ck_assert(is_same_connection());
	ck_assert_uint_eq(ends[1].n_events, 0);
	finish_closed();
}
END_TEST

/* There is no connection, or it is about to go; and a key is closed once. */
START_TEST(mem_revoke__without_a_connection)
{
	begin_open(FAKE_SIW, false);
	fake_iwarp.mute = true; /* no other one comes */
	fake_iwarp_break();
	if (_i)
		AWAIT(ends[1].port.n_conns == 1 && link_of(1, 0)->conn &&
			link_of(1, 0)->conn->state == RDMACM_CONNECTING &&
			!link_of(1, 0)->conn->busy);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 3),
		-EINPROGRESS);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 3), -EINVAL);
	await_fence(0, 3);
	finish_closed();
}
END_TEST

/* Fences that wait when the port is closed. */
START_TEST(port_close__while_fenced)
{
	begin_open(FAKE_SIW, false);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 3),
		-EINPROGRESS);
	finish_closed();
}
END_TEST

/* The device does not take memory back: nobody can read it all the same. */
START_TEST(mem_close__device_fails)
{
	begin_open(0, false);
	fake_iwarp_fail(FAKE_DEREG_MR, 1, EIO);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_DONE, 4), -EINPROGRESS);
	await_fence(0, 4);
	memset(theirs, 9, sizeof(theirs));
	start_read();
	turn_us = 20000;
	AWAIT(ends[0].n_events == 1);
	ck_assert_int_lt(ends[0].events[0].status, 0);
	ck_assert_uint_eq(ours[0], 0);
	ck_assert_int_eq(send_one(1, 0), -ECONNRESET);
	finish_closed();
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{read__ends_when_the_connection_breaks, 1},
		{read__cannot_be_posted, 1},
		{read__while_the_connection_is_closed, 1},
		{mem_revoke__while_it_is_read, 1},
		{mem_close__needs_no_fence, 2},
		{mem_revoke__without_a_connection, 2},
		{port_close__while_fenced, 1},
		{mem_close__device_fails, 1},
		{NULL, 0},
	};

	return suite_run_loops("rdmacm_read", loops);
}
