/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links of the verbs backend: how connections are made, limited, closed and lost, and that every
 * read ends, whatever becomes of them.
 */
#include "backends/verbs/internal.h"
#include "suite.h"
#include "verbs_ends.h"
#include "util/system/clock.h"

#define LEN 4096

static struct end left, right;
static struct end *const both[] = {&left, &right};
static uint8_t theirs[LEN], ours[LEN];
static struct ripc__key key;
static void *region;

/* Left has something open, which right may read. */
static void begin(void)
{
	ends_open(&left, &right);
	memset(theirs, 0x33, LEN);
	memset(ours, 0, LEN);
	ck_assert_int_eq(BACKEND->mem.open(&left.port, &left.peer, theirs, LEN, false, &key), 0);
	ck_assert_int_eq(BACKEND->mem.reg(&right.port, &right.peer, ours, LEN, false, &region), 0);
	right.n_events = left.n_events = 0;
}

static void finish(void)
{
	BACKEND->mem.dereg(&right.port, region);
	BACKEND->mem.close(&left.port, &key, RIPC_CLOSE_DONE, 0);
	end_close(&left);
	end_close(&right);
	ends_finish();
}

static int start_read(uint64_t cookie)
{
	return BACKEND->remote.move(&right.port, &right.peer, &(struct ripc__move){.key = key,
		.mem = ours, .len = LEN, .region = region, .cookie = cookie});
}

/* One read, and how it ends. */
static int read_now(void)
{
	right.n_events = 0;
	ck_assert_int_eq(start_read(7), 0);
	ends_await(both, 2, &right, 1);
	ck_assert_int_eq(right.events[0].kind, RIPC_EV_READ);
	ck_assert_uint_eq(right.events[0].cookie, 7);
	return right.events[0].status;
}

static struct verbs_link *link_of(struct end *end)
{
	return list_entry(end->port.links.next, struct verbs_link, node);
}

START_TEST(read__connects_once)
{
	begin();
	ck_assert_int_eq(read_now(), 0);
	ck_assert_uint_eq(ours[LEN - 1], 0x33);
	ck_assert_uint_eq(fake_verbs_connections(), 2);
	ck_assert_int_eq(read_now(), 0);
	ck_assert_uint_eq(fake_verbs_connections(), 2);
	/* The other direction has one of its own. */
	finish();
}
END_TEST

/* A queue pair cannot be made at the reader's, or at the holder's, or not got ready. */
START_TEST(read__no_queue_pair)
{
	static const struct {
		enum fake_call call;
		uint32_t skip;
		int status;
	} cases[] = {
		{FAKE_CREATE_QP, 0, -ENOMEM}, {FAKE_CREATE_QP, 1, -EBUSY},
		{FAKE_MODIFY_QP, 0, -ENOMEM}, {FAKE_MODIFY_QP, 1, -EBUSY},
		{FAKE_MODIFY_QP, 2, -EBUSY}, {FAKE_MODIFY_QP, 3, -ENOMEM},
		{FAKE_MODIFY_QP, 4, -ENOMEM},
	};

	begin();
	fake_verbs.fail[cases[_i].call].skip = cases[_i].skip;
	fake_verbs_fail(cases[_i].call, 1, ENOMEM);
	ck_assert_int_eq(read_now(), cases[_i].status);
	ck_assert_uint_eq(fake_verbs.fail[cases[_i].call].n, 0);
	/* For a while nothing is tried; then it works. */
	ck_assert_int_eq(read_now(), -EHOSTUNREACH);
	ends_settle(both, 2);
	link_of(&right)->hold_us = 0;
	ck_assert_int_eq(read_now(), 0);
	finish();
}
END_TEST

/* Nobody answers. */
START_TEST(read__silence)
{
	begin();
	fake_verbs.drop_datagrams = true;
	turn_us = 10000;
	ck_assert_int_eq(read_now(), -ETIMEDOUT);
	fake_verbs.drop_datagrams = false;
	ends_settle(both, 2);
	ck_assert_uint_eq(fake_verbs_connections(), 0);
	/* Perhaps the way is to blame: it was looked for again. */
	ck_assert_uint_eq(fake_verbs.n_ahs, 3);
	link_of(&right)->hold_us = 0;
	ck_assert_int_eq(read_now(), 0);
	finish();
}
END_TEST

/* Nobody is asked when nothing can be sent. */
START_TEST(read__device_is_lost)
{
	begin();
	right.port.rdma->is_lost = true;
	ck_assert_int_eq(read_now(), -EHOSTUNREACH);
	ck_assert_uint_eq(right.port.n_pairs, 0);
	finish();
}
END_TEST

/* A message that is lost is repeated. */
START_TEST(read__messages_are_lost)
{
	begin();
	fake_verbs.drop_thirds = true;
	fake_verbs.third = (uint32_t)_i;
	ck_assert_int_eq(read_now(), 0);
	ck_assert_uint_gt(fake_verbs.n_dropped, 0);
	finish();
}
END_TEST

/* A key that is not open any more costs the connection; the next read has another one. */
START_TEST(read__closed_key)
{
	struct ripc__key other;

	begin();
	ck_assert_int_eq(BACKEND->mem.open(&left.port, &left.peer, theirs, 10, false, &other), 0);
	ck_assert_int_eq(read_now(), 0);
	ck_assert_int_eq(BACKEND->mem.close(&left.port, &other, RIPC_CLOSE_DONE, 0), 0);
	right.n_events = 0;
	for (uint64_t i = 0; i < 10; i++)
		ck_assert_int_eq(BACKEND->remote.move(&right.port, &right.peer,
			&(struct ripc__move){.key = *(i ? &key : &other), .mem = ours, .len = 10,
			.region = region, .cookie = i}), 0);
	ends_await(both, 2, &right, 10);
	ck_assert_int_eq(right.events[0].status, -EACCES);
	for (uint32_t i = 1; i < 10; i++)
		ck_assert(right.events[i].status == 0 || right.events[i].status == -ECONNRESET);
	ck_assert_int_eq(read_now(), 0);
	finish();
}
END_TEST

/* Keys that are garbled cost nothing. */
START_TEST(read__garbled_key)
{
	struct ripc__key good;

	begin();
	good = key;
	ck_assert_int_eq(read_now(), 0);
	for (int bit = 0; bit < 64; bit++) {
		key.key ^= 1ull << bit;
		ck_assert_int_eq(read_now(), -EINVAL);
		key = good;
		key.address ^= 1ull << bit;
		ck_assert_int_eq(read_now(), -EINVAL);
		key = good;
	}
	ck_assert_uint_eq(fake_verbs.n_reads, 1);
	finish();
}
END_TEST

/* Reads that are in progress when the holder goes come to an end. */
START_TEST(read__holder_closes)
{
	begin();
	ck_assert_int_eq(read_now(), 0);
	fake_verbs.hold_reads = true;
	right.n_events = 0;
	for (uint64_t i = 0; i < 20; i++)
		ck_assert_int_eq(start_read(i), 0);
	BACKEND->mem.close(&left.port, &key, RIPC_CLOSE_DONE, 0);
	end_close(&left);
	ends_await(both + 1, 1, &right, 20);
	for (uint32_t i = 0; i < 20; i++)
		ck_assert_int_lt(right.events[i].status, 0);
	BACKEND->mem.dereg(&right.port, region);
	end_close(&right);
	ends_finish();
}
END_TEST

/* The reader closes while reads are in progress: nothing is written afterwards. */
START_TEST(read__reader_closes)
{
	begin();
	ck_assert_int_eq(read_now(), 0);
	memset(ours, 0, LEN);
	fake_verbs.hold_reads = true;
	for (uint64_t i = 0; i < 20; i++)
		ck_assert_int_eq(start_read(i), 0);
	BACKEND->route.close(&right.port, &right.peer);
	BACKEND->net.close(&right.port);
	fake_verbs_end_reads();
	ck_assert_uint_eq(ours[0], 0);
	BACKEND->mem.close(&left.port, &key, RIPC_CLOSE_DONE, 0);
	end_close(&left);
	ends_finish();
}
END_TEST

/* The device is short of something: what cannot be posted waits for what was, or ends. */
START_TEST(read__cannot_be_posted)
{
	begin();
	ck_assert_int_eq(read_now(), 0);
	fake_verbs_fail(FAKE_POST_SEND, 1, ENOMEM);
	ck_assert_int_eq(read_now(), -ENOMEM);
	ck_assert_int_eq(read_now(), 0);
	fake_verbs.hold_reads = true;
	right.n_events = 0;
	ck_assert_int_eq(start_read(0), 0);
	fake_verbs.fail[FAKE_POST_SEND].n = 1;
	ck_assert_int_eq(start_read(1), 0);
	fake_verbs.hold_reads = false;
	fake_verbs_end_reads();
	ends_await(both, 2, &right, 2);
	ck_assert_int_eq(right.events[0].status, 0);
	ck_assert_int_eq(right.events[1].status, 0);
	finish();
}
END_TEST

START_TEST(read__as_many_as_there_are_slots)
{
	uint32_t taken = 0;

	begin();
	fake_verbs.hold_reads = true;
	while (start_read(taken) == 0)
		ck_assert_uint_le(++taken, RIPC__RDMA_READS);
	ck_assert_int_eq(start_read(taken), -EAGAIN);
	ck_assert_uint_eq(taken, RIPC__RDMA_READS);
	ends_settle(both, 2);
	/* All end, though only some were posted, and the events come in two polls. */
	fake_verbs.hold_reads = false;
	right.n_events = 0;
	fake_verbs_end_reads();
	ends_await(both, 2, &right, taken);
	for (uint32_t i = 0; i < taken; i++)
		ck_assert_int_eq(right.events[i].status, 0);
	finish();
}
END_TEST

START_TEST(read__needs_a_region)
{
	begin();
	ck_assert_int_eq(BACKEND->remote.move(&right.port, &right.peer,
		&(struct ripc__move){.key = key, .mem = ours, .len = LEN, .cookie = 1}), -EINVAL);
	finish();
}
END_TEST

/* A message of another host in our partner's name changes nothing. */
START_TEST(setup_came__forged)
{
	struct verbs_setup setup = {.mtu = IBV_MTU_1024, .reads = 1, .nonce = 5, .qpn = 0x1234};
	struct verbs_addr from;

	begin();
	ck_assert_int_eq(read_now(), 0);
	for (int type = VERBS_REQUEST; type <= VERBS_CLIENT_GONE; type++) {
		setup.type = (uint8_t)type;
		ripc__verbs_route_where(&left.port, &left.peer, &from);
		ripc__verbs_setup_came(&left.port, &from, &setup);
		ripc__verbs_route_where(&right.port, &right.peer, &from);
		ripc__verbs_setup_came(&right.port, &from, &setup);
		from.qpn++; /* nobody */
		ripc__verbs_setup_came(&right.port, &from, &setup);
		ends_settle(both, 2);
	}
	ck_assert_uint_eq(fake_verbs_connections(), 2);
	fake_verbs.n_reads = 0;
	ck_assert_int_eq(read_now(), 0);
	ck_assert_uint_eq(fake_verbs.n_reads, 1);
	finish();
}
END_TEST

/* Repeated and late messages of the partner itself. */
START_TEST(setup_came__again)
{
	struct verbs_setup setup = {.type = VERBS_REQUEST, .mtu = IBV_MTU_4096, .reads = 1};
	const struct verbs_pair *client;
	struct verbs_addr from;

	begin();
	ck_assert_int_eq(read_now(), 0);
	client = &link_of(&right)->client;
	setup.nonce = client->nonce;
	setup.qpn = client->qp->qp_num;
	ripc__verbs_route_where(&left.port, &left.peer, &from);
	for (int i = 0; i < 5; i++)
		ripc__verbs_setup_came(&left.port, &from, &setup);
	ends_settle(both, 2);
	ck_assert_int_eq(read_now(), 0);
	ck_assert_uint_eq(fake_verbs_connections(), 2);
	/* The client has lost its end: with the proof the server gives up its own. */
	setup.nonce++;
	setup.proof = client->proof;
	ripc__verbs_setup_came(&left.port, &from, &setup);
	ends_settle(both, 2);
	ck_assert_int_eq(link_of(&left)->server.state, VERBS_NONE);
	finish();
}
END_TEST

/* At the limit the one that is idle goes; if all are in use the newcomer is refused. */
START_TEST(connections__limit)
{
	static const char *const two[] = {"verbs.connections", "2", NULL};
	static struct end holders[3];
	struct end *all[] = {&right, &holders[0], &holders[1], &holders[2]};
	struct ripc__key keys[3];
	struct verbs_route ways[3];
	void *regions[3];

	ends_begin();
	end_options = two;
	ck_assert_int_eq(end_open(&right), 0);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(end_open(&holders[i]), 0);
		ck_assert_int_eq(end_route(&holders[i], &right), 0);
		ck_assert_int_eq(end_route(&right, &holders[i]), 0);
		ways[i] = right.peer;
		ck_assert_int_eq(BACKEND->mem.open(&holders[i].port, &holders[i].peer, theirs, LEN,
			false, &keys[i]), 0);
		ck_assert_int_eq(BACKEND->mem.reg(&right.port, &ways[i], ours, LEN, false,
			&regions[i]),
			0);
	}
	for (int i = 0; i < 9; i++) {
		right.n_events = 0;
		ck_assert_int_eq(BACKEND->remote.move(&right.port, &ways[i % 3],
			&(struct ripc__move){.key = keys[i % 3], .mem = ours, .len = LEN,
			.region = regions[i % 3], .cookie = 1}), 0);
		ends_await(all, 4, &right, 1);
		ck_assert_int_eq(right.events[0].status, 0);
		ck_assert_uint_le(right.port.n_pairs, 2);
	}
	/* Two are busy. */
	ends_settle(all, 4);
	fake_verbs.hold_reads = true;
	right.n_events = 0;
	for (int i = 1; i < 4; i++)
		ck_assert_int_eq(BACKEND->remote.move(&right.port, &ways[i % 3],
			&(struct ripc__move){.key = keys[i % 3], .mem = ours, .len = LEN,
			.region = regions[i % 3], .cookie = 1}), 0);
	ends_await(all, 4, &right, 1);
	ck_assert_int_eq(right.events[0].status, -EBUSY);
	right.peer.path = NULL;
	for (int i = 0; i < 3; i++) {
		BACKEND->route.close(&right.port, &ways[i]);
		BACKEND->mem.dereg(&right.port, regions[i]);
		BACKEND->mem.close(&holders[i].port, &keys[i], RIPC_CLOSE_DONE, 0);
	}
	for (int i = 3; i >= 0; i--)
		end_close(all[i]);
	ends_finish();
}
END_TEST

/* Reads during the destruction of a queue pair go by the next one. */
START_TEST(read__while_the_connection_is_closed)
{
	begin();
	for (uint32_t turn = 0; turn < 20; turn++) {
		ck_assert_int_eq(read_now(), 0);
		ripc__verbs_links_run(&right.port, ripc__clock_us() + 11000000);
		ck_assert_int_eq(link_of(&right)->client.state, VERBS_DESTROYING);
		ck_assert_int_eq(read_now(), 0);
	}
	finish();
}
END_TEST

/*
 * A device that never ends a read; _i: on a connection that follows one whose reads did not end
 * either, so that nobody has said since when there is progress.
 */
START_TEST(links_run__read_is_forgotten)
{
	begin();
	ck_assert_int_eq(read_now(), 0);
	fake_verbs.hold_reads = true;
	if (_i) {
		ripc__verbs_links_run(&right.port, ripc__clock_us() + 11000000);
		link_of(&right)->stalled_us = 1;
	}
	right.n_events = 0;
	ck_assert_int_eq(start_read(8), 0);
	for (uint32_t turn = 0; link_of(&right)->flow.n_posted == 0; turn++) {
		ck_assert_uint_lt(turn, 20000);
		ends_settle(both, 2);
		turn_pass(both, 2); /* a client that asked too early asks again after a time */
	}
	for (uint32_t s = 0; s < 3; s++) {
		clock_pass(1000000);
		ends_settle(both, 2);
	}
	ck_assert_uint_eq(right.n_events, 0);
	for (uint32_t s = 0; s < 3; s++) {
		clock_pass(1000000);
		ends_settle(both, 2);
	}
	ck_assert_uint_eq(right.n_events, 1);
	ck_assert_int_lt(right.events[0].status, 0);
	fake_verbs.hold_reads = false;
	ck_assert_int_eq(read_now(), 0);
	finish();
}
END_TEST

/* An end with no reads, or nothing open, for long: both ends close, and forget each other. */
START_TEST(links_run__closes_what_is_idle)
{
	uint64_t later_us = ripc__clock_us() + 11000000;
	struct end *who = _i ? &left : &right;

	begin();
	ck_assert_int_eq(read_now(), 0);
	if (_i) {
		ck_assert_int_eq(BACKEND->mem.close(&left.port, &key, RIPC_CLOSE_DONE, 0), 0);
		later_us += 10000000;
	}
	ripc__verbs_links_run(&who->port, later_us);
	ends_settle(both, 2);
	ck_assert_uint_eq(fake_verbs_connections(), 0);
	if (_i) {
		ripc__verbs_links_run(&left.port, later_us);
		ck_assert(list_empty(&left.port.links));
	}
	finish();
}
END_TEST

/* Nobody is read from who has opened nothing. */
START_TEST(setup_came__nothing_open)
{
	begin();
	ck_assert_int_eq(BACKEND->mem.close(&left.port, &key, RIPC_CLOSE_DONE, 0), 0);
	ck_assert_int_eq(read_now(), -EBUSY);
	finish();
}
END_TEST

START_TEST(mem_open__fails)
{
	struct ripc__key other = {0};

	begin();
	fake_verbs_fail(FAKE_REG_MR, 3, EFAULT);
	ck_assert_int_eq(BACKEND->mem.open(&left.port, &left.peer, theirs, LEN, false, &other),
		-EFAULT);
	ck_assert_int_eq(BACKEND->mem.open(&left.port, &left.peer, theirs, LEN, true, &other),
		-EFAULT);
	ck_assert_int_eq(BACKEND->mem.reg(&left.port, &left.peer, theirs, LEN, false, &region),
		-EFAULT);
	ck_assert_uint_eq(other.key, 0);
	ck_assert_int_eq(BACKEND->mem.close(&left.port, &other, RIPC_CLOSE_DONE, 0), -EINVAL);
	finish();
}
END_TEST

/* The device does not take memory back: nobody can read it all the same. */
START_TEST(mem_close__device_fails)
{
	struct ripc__key other; /* which is still open */

	begin();
	ck_assert_int_eq(BACKEND->mem.open(&left.port, &left.peer, theirs, 10, false, &other), 0);
	ck_assert_int_eq(read_now(), 0);
	fake_verbs_fail(FAKE_DEREG_MR, 1, EIO);
	ck_assert_int_eq(BACKEND->mem.close(&left.port, &key, RIPC_CLOSE_DONE, 0), 0);
	ck_assert_ptr_nonnull(strstr(end_log, "deregistering memory failed"));
	memset(theirs, 0x44, LEN);
	turn_us = 10000;
	for (int i = 0; i < 2; i++) {
		ck_assert_int_lt(read_now(), 0);
		clock_pass(2000000); /* then it tries to connect again */
		ends_settle(both, 2);
		ck_assert_uint_eq(left.port.n_pairs, 0);
	}
	ck_assert_uint_eq(ours[0], 0x33);
	ck_assert_int_eq(end_send(&left, 1, 10), -ECONNRESET);
	ck_assert_int_eq(BACKEND->mem.close(&left.port, &other, RIPC_CLOSE_DONE, 0), 0);
	finish();
}
END_TEST

START_TEST(mem_reg__no_protection_domain)
{
	ends_open(&left, &right);
	fake_verbs.fail[FAKE_ALLOC_PD].n = 1;
	ck_assert_int_eq(BACKEND->mem.reg(&right.port, &right.peer, ours, LEN, false, &region),
		-ENOMEM);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

static int write_now(void)
{
	right.n_events = 0;
	ck_assert_int_eq(BACKEND->remote.move(&right.port, &right.peer,
		&(struct ripc__move){.key = key, .mem = ours, .len = LEN, .region = region,
		.cookie = 8, .writes = true}), 0);
	ends_await(both, 2, &right, 1);
	ck_assert_int_eq(right.events[0].kind, RIPC_EV_WRITE);
	ck_assert_uint_eq(right.events[0].cookie, 8);
	return right.events[0].status;
}

/* Memory opened for reading is not written to, nor the other way round. */
START_TEST(write__needs_permission)
{
	begin();
	memset(ours, 0x44, LEN);
	ck_assert_int_eq(write_now(), -EACCES);
	ck_assert_uint_eq(theirs[0], 0x33);
	ck_assert_int_eq(BACKEND->mem.close(&left.port, &key, RIPC_CLOSE_DONE, 0), 0);
	ck_assert_int_eq(BACKEND->mem.open(&left.port, &left.peer, theirs, LEN, true, &key), 0);
	ck_assert_int_eq(write_now(), 0);
	ck_assert_uint_eq(theirs[0], 0x44);
	ck_assert_uint_eq(theirs[LEN - 1], 0x44);
	memset(ours, 0x55, LEN);
	ck_assert_int_eq(read_now(), -EACCES);
	ck_assert_uint_eq(ours[0], 0x55);
	ck_assert_int_eq(write_now(), 0);
	ck_assert_uint_eq(theirs[LEN - 1], 0x55);
	finish();
}
END_TEST

/* Closed while writes are under way: they end, and what was not written yet is not. */
START_TEST(write__closed_key)
{
	begin();
	ck_assert_int_eq(BACKEND->mem.close(&left.port, &key, RIPC_CLOSE_DONE, 0), 0);
	ck_assert_int_eq(BACKEND->mem.open(&left.port, &left.peer, theirs, LEN, true, &key), 0);
	memset(ours, 0x44, LEN);
	ck_assert_int_eq(write_now(), 0);
	memset(ours, 0x55, LEN);
	fake_verbs.hold_reads = true;
	right.n_events = 0;
	for (uint64_t i = 0; i < 3; i++)
		ck_assert_int_eq(BACKEND->remote.move(&right.port, &right.peer,
			&(struct ripc__move){.key = key, .mem = ours, .len = LEN, .region = region,
			.cookie = i, .writes = true}),
			0);
	ck_assert_int_eq(BACKEND->mem.close(&left.port, &key, RIPC_CLOSE_DONE, 0), 0);
	fake_verbs.hold_reads = false;
	fake_verbs_end_reads();
	ends_await(both, 2, &right, 3);
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert_int_eq(right.events[i].kind, RIPC_EV_WRITE);
		ck_assert_int_lt(right.events[i].status, 0);
	}
	ck_assert_uint_eq(theirs[0], 0x44);
	ck_assert_int_eq(BACKEND->mem.open(&left.port, &left.peer, theirs, LEN, true, &key), 0);
	ck_assert_int_eq(write_now(), 0);
	ck_assert_uint_eq(theirs[0], 0x55);
	finish();
}
END_TEST

int main(void)
{
	const struct suite_loop tests[] = {
		{read__connects_once, 1},
		{read__no_queue_pair, 7},
		{read__silence, 1},
		{read__device_is_lost, 1},
		{read__messages_are_lost, 3},
		{read__closed_key, 1},
		{read__garbled_key, 1},
		{read__holder_closes, 1},
		{read__reader_closes, 1},
		{read__cannot_be_posted, 1},
		{read__as_many_as_there_are_slots, 1},
		{read__needs_a_region, 1},
		{setup_came__forged, 1},
		{setup_came__again, 1},
		{connections__limit, 1},
		{read__while_the_connection_is_closed, 1},
		{links_run__read_is_forgotten, 2}, {links_run__closes_what_is_idle, 2},
		{setup_came__nothing_open, 1},
		{mem_open__fails, 1},
		{mem_close__device_fails, 1},
		{mem_reg__no_protection_domain, 1},
		{write__needs_permission, 1},
		{write__closed_key, 1},
		{NULL, 0},
	};

	return suite_run_loops("verbs_link", tests);
}
