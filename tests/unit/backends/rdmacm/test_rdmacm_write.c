/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes of the rdmacm backend on libraries of our own (tests/support/fake), and memory that is
 * taken back while what was written is still being placed.
 */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "rdmacm_memory.h"
#include "suite.h"

#define LATE 150u /* turns after which an echo is late */

static int start_write(const struct ripc__key *to, uint64_t cookie)
{
	return BACKEND->remote.move(&ends[0].port, &ends[0].peers[1],
		&(struct ripc__move){.key = *to, .mem = ours, .len = 100, .region = region,
		.cookie = cookie, .writes = true});
}

/* How the write that was started last has ended. */
static int await_write(uint64_t cookie)
{
	uint32_t at = ends[0].n_events;

	AWAIT(ends[0].n_events > at);
	ck_assert_int_eq(ends[0].events[at].kind, RIPC_EV_WRITE);
	ck_assert_uint_eq(ends[0].events[at].cookie, cookie);
	return ends[0].events[at].status;
}

static void turns(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		move();
		clock_pass(turn_us);
	}
}

START_TEST(write__is_there_when_it_has_ended)
{
	begin_open(_i ? FAKE_SIW : 0, true);
	ck_assert_int_eq(start_write(&key, 5), 0);
	ck_assert_int_eq(await_write(5), 0);
	ck_assert_uint_eq(theirs[99], 7);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_DONE, 1), 0);
	ck_assert(is_same_connection());
	finish_closed();
}
END_TEST

/*
 * Writes to memory that may only be read, or was closed: the connection ends, and nothing is
 * written.
 */
START_TEST(write__is_not_permitted)
{
	struct ripc__key other;

	begin_open(0, true);
	other = open_theirs(_i != 0);
	if (_i)
		ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &other, RIPC_CLOSE_DONE, 1), 0);
	ck_assert_int_eq(start_write(&other, 5), 0);
	ck_assert_int_eq(await_write(5), -EACCES);
	ck_assert_uint_eq(theirs[0], 0);
	if (!_i)
		ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &other, RIPC_CLOSE_DONE, 1), 0);
	ck_assert_int_eq(start_write(&key, 6), 0);
	ck_assert_int_eq(await_write(6), 0);
	finish_open();
}
END_TEST

START_TEST(write__key_is_garbled)
{
	begin_open(0, true);
	key.key ^= 1;
	ck_assert_int_eq(start_write(&key, 5), 0);
	ck_assert_int_eq(await_write(5), -EINVAL);
	ck_assert(is_same_connection());
	key.key ^= 1;
	finish_open();
}
END_TEST

START_TEST(write__from_memory_that_is_not_registered)
{
	begin_open(0, true);
	ck_assert_int_eq(BACKEND->remote.move(&ends[0].port, &ends[0].peers[1],
		&(struct ripc__move){.key = key, .mem = ours, .len = 100, .cookie = 5,
			.writes = true}), -EINVAL);
	finish_open();
}
END_TEST

START_TEST(write__cannot_be_posted)
{
	begin_open(0, true);
	fake_iwarp_fail(FAKE_POST_SEND, 1, EINVAL);
	ck_assert_int_eq(start_write(&key, 5), 0);
	ck_assert_int_lt(await_write(5), 0);
	ck_assert_int_eq(start_write(&key, 6), 0);
	ck_assert_int_eq(await_write(6), 0);
	ck_assert_uint_eq(theirs[0], 7);
	finish_open();
}
END_TEST

/* A write without a connection waits for the next one. */
START_TEST(write__when_the_connection_has_broken)
{
	begin_open(0, true);
	fake_iwarp_break();
	ck_assert_int_eq(start_write(&key, 5), 0);
	if (await_write(5)) { /* the write was posted before that was known */
		ck_assert_int_eq(start_write(&key, 6), 0);
		ck_assert_int_eq(await_write(6), 0);
	}
	ck_assert_uint_eq(theirs[0], 7);
	finish_open();
}
END_TEST

/* ---- memory that is taken back ----------------------------------------------------------- */

/* A device that stops by itself needs no echo, another one no new connection. */
START_TEST(mem_revoke__keeps_the_connection)
{
	begin_open(_i ? FAKE_SIW : 0, true);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 77),
		_i ? -EINPROGRESS : 0);
	if (_i)
		await_fence(0, 77);
	ck_assert(is_same_connection());
	ck_assert_uint_eq(ends[1].n_events, _i);
	finish_closed();
}
END_TEST

/* The fence is behind what was being placed. */
START_TEST(mem_revoke__while_it_is_written)
{
	begin_open(FAKE_SIW, true);
	fake_iwarp.late_writes = true;
	ck_assert_int_eq(start_write(&key, 5), 0);
	ck_assert_int_eq(await_write(5), 0);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 77),
		-EINPROGRESS);
	turns(LATE / 2);
	ck_assert_uint_eq(ends[1].n_events, 0);
	fake_iwarp.late_writes = false;
	fake_iwarp_end_reads();
	ck_assert_uint_eq(theirs[0], 7);
	await_fence(0, 77);
	ck_assert(is_same_connection());
	finish_closed();
}
END_TEST

/* An echo that does not come back in time: then nothing is placed any more. */
START_TEST(mem_revoke__echo_is_late)
{
	begin_open(FAKE_SIW, true);
	fake_iwarp.late_writes = fake_iwarp.hold_reads = true;
	ck_assert_int_eq(start_write(&key, 5), 0);
	ck_assert_int_eq(await_write(5), 0);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 77),
		-EINPROGRESS);
	turns(LATE);
	await_fence(0, 77);
	fake_iwarp.late_writes = fake_iwarp.hold_reads = false;
	fake_iwarp_end_reads();
	ck_assert_uint_eq(theirs[0], 0);
	ck_assert(!is_same_connection());
	finish_closed();
}
END_TEST

/* Memory taken back while an echo is under way waits for the next one. */
START_TEST(mem_revoke__twice)
{
	struct ripc__key other;

	begin_open(FAKE_SIW, true);
	other = open_theirs(true);
	fake_iwarp.hold_reads = true;
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 1),
		-EINPROGRESS);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &other, RIPC_CLOSE_REVOKE, 2),
		-EINPROGRESS);
	fake_iwarp_end_reads();
	turns(LATE / 2);
	ck_assert_uint_eq(ends[1].n_events, 1);
	fake_iwarp_end_reads();
	await_fence(1, 2);
	ck_assert_uint_eq(ends[1].events[0].cookie, 1);
	fake_iwarp.hold_reads = false;
	ck_assert(is_same_connection());
	finish_closed();
}
END_TEST

START_TEST(mem_revoke__echo_cannot_be_posted)
{
	begin_open(FAKE_SIW, true);
	fake_iwarp_fail(FAKE_POST_SEND, 1, ENOMEM);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 3),
		-EINPROGRESS);
	await_fence(0, 3);
	ck_assert(!is_same_connection());
	finish_closed();
}
END_TEST

/* The connection breaks while the echo is under way. */
START_TEST(mem_revoke__echo_fails)
{
	begin_open(FAKE_SIW, true);
	fake_iwarp.hold_reads = true;
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 3),
		-EINPROGRESS);
	fake_iwarp_break();
	await_fence(0, 3);
	fake_iwarp.hold_reads = false;
	ck_assert(!is_same_connection());
	finish_closed();
}
END_TEST

/* A connection that is not answered cannot be completed any more: memory is taken back at once. */
START_TEST(mem_revoke__while_nobody_answers)
{
	begin_open(FAKE_SIW, true);
	fake_iwarp.mute = true;
	fake_iwarp_break();
	AWAIT(fake_iwarp_requests() > 1 && !link_of(1, 0)->conn->busy);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 3),
		-EINPROGRESS);
	await_fence(0, 3);
	ck_assert_uint_eq(ends[1].port.n_conns, 1);
	finish_closed();
}
END_TEST

/* The partner is not given up for it, either: it is asked once more. */
START_TEST(mem_revoke__while_a_connection_is_asked_for)
{
	uint32_t resets;

	begin_open(FAKE_SIW, true);
	resets = link_of(1, 0)->resets;
	fake_iwarp.mute = true;
	fake_iwarp_break();
	AWAIT(fake_iwarp_requests() > 1 && !link_of(1, 0)->conn->busy);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 3),
		-EINPROGRESS);
	await_fence(0, 3);
	fake_iwarp_give_up();
	pass(1, 0);
	ck_assert_uint_eq(link_of(1, 0)->resets, resets);
	finish_closed();
}
END_TEST

/* A request that waits for a helper thread has not been sent: nothing is in its way. */
START_TEST(mem_revoke__while_a_request_waits)
{
	begin_open(FAKE_SIW, true);
	for (; n_ends < 2 + RIPC__RDMA_THREADS; n_ends++)
		ck_assert_int_eq(end_open(&ends[n_ends]), 0);
	fake_iwarp.block = true;
	for (uint32_t k = 2; k < n_ends; k++)
		ck_assert_int_eq(route(1, k), -EINPROGRESS);
	AWAIT(ends[1].port.n_asking == RIPC__RDMA_THREADS - 1);
	fake_iwarp_break();
	AWAIT(link_of(1, 0)->conn && link_of(1, 0)->conn->waits);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 3), 0);
	ck_assert(!link_of(1, 0)->conn->unwanted);
	finish_closed();
}
END_TEST

/* A partner that was accepted and says nothing yet is not given up, either. */
START_TEST(mem_revoke__while_one_is_accepted)
{
	begin(0);
	fake_iwarp.vendor_id = FAKE_SIW;
	for (; n_ends < 2; n_ends++)
		ck_assert_int_eq(end_open(&ends[n_ends]), 0);
	ck_assert_int_eq(route(0, 1), -EINPROGRESS);
	AWAIT(fake_iwarp_requests() == 1);
	ends[0].is_stopped = true;
	AWAIT(ends[1].port.n_conns == 1 && !ripc__rdma_worker_pending(ends[1].port.worker));
	ck_assert_int_eq(route(1, 0), -EINPROGRESS);
	ck_assert_int_eq(link_of(1, 0)->conn->state, RDMACM_ACCEPTING);
	key = open_theirs(true);
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_REVOKE, 3),
		-EINPROGRESS);
	await_fence(0, 3);
	ends[0].is_stopped = false;
	AWAIT(ends[1].n_events == 2);
	ck_assert_int_eq(ends[1].events[1].kind, RIPC_EV_PEER);
	ck_assert_int_eq(ends[1].events[1].status, 0);
	pass(1, 0);
	pass(0, 1);
	finish();
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{write__is_there_when_it_has_ended, 2},
		{write__is_not_permitted, 2},
		{write__key_is_garbled, 1},
		{write__from_memory_that_is_not_registered, 1},
		{write__cannot_be_posted, 1},
		{write__when_the_connection_has_broken, 1},
		{mem_revoke__keeps_the_connection, 2},
		{mem_revoke__while_it_is_written, 1},
		{mem_revoke__echo_is_late, 1},
		{mem_revoke__twice, 1},
		{mem_revoke__echo_cannot_be_posted, 1},
		{mem_revoke__echo_fails, 1},
		{mem_revoke__while_nobody_answers, 1},
		{mem_revoke__while_a_connection_is_asked_for, 1},
		{mem_revoke__while_a_request_waits, 1},
		{mem_revoke__while_one_is_accepted, 1},
		{NULL, 0},
	};

	return suite_run_loops("rdmacm_write", loops);
}
