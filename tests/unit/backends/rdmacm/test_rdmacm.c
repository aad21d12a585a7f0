/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of the rdmacm backend on libraries of our own (tests/support/fake): what fails on the
 * way to one, what partners may say that is wrong, both asking at once, and more partners than
 * connections.
 */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "rdmacm_ends.h"
#include "suite.h"

/* ---- opening ----------------------------------------------------------------------------- */

START_TEST(probe__says_what_is_missing)
{
	char why[256], remedy[256];

	fake_iwarp_reset();
	ck_assert_int_eq(BACKEND->net.probe(&host, why, remedy), 0);
	ck_assert_str_eq(why, "fake0 port 1, iWARP, address 127.77.1.1");
	fake_iwarp.no_address = true;
	ck_assert_int_eq(BACKEND->net.probe(&host, why, remedy), -EADDRNOTAVAIL);
	ck_assert_ptr_nonnull(strstr(remedy, "IP address"));
	fake_iwarp_fail(FAKE_CREATE_CHANNEL, 1, ENOENT);
	ck_assert_int_eq(BACKEND->net.probe(&host, why, remedy), -ENOENT);
	ck_assert_ptr_nonnull(strstr(remedy, "rdma_ucm"));
	fake_iwarp.no_device = true;
	ck_assert_int_eq(BACKEND->net.probe(&host, why, remedy), -ENODEV);
	ck_assert_ptr_nonnull(strstr(remedy, "siw"));
	finish();
}
END_TEST

START_TEST(probe__refuses_options)
{
	static const char *const wrong[][3] = {
		{"rdmacm.connections", "1", NULL}, {"rdmacm.connections", "4097", NULL},
		{"rdmacm.receives", "255", NULL}, {"rdmacm.port", "65536", NULL},
		{"rdmacm.any", "perhaps", NULL}, {"rdmacm.receives", "x", NULL},
	};
	static const char *const other[] = {"rdmacm.device", "fake1", NULL};
	char why[256], remedy[256];

	fake_iwarp_reset();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		options = wrong[i];
		ck_assert_int_lt(BACKEND->net.probe(&host, why, remedy), 0);
		ck_assert_int_lt(end_open(&ends[0]), 0);
	}
	options = other;
	ck_assert_int_eq(BACKEND->net.probe(&host, why, remedy), -ENODEV);
	finish();
}
END_TEST

/* Every call that can fail, and every time that it is made. */
START_TEST(port_open__gives_all_back_when_it_fails)
{
	static const enum fake_call calls[] = {FAKE_OPEN_DEVICE, FAKE_ALLOC_PD, FAKE_REG_MR,
		FAKE_CREATE_COMPLETIONS, FAKE_CREATE_CQ, FAKE_CREATE_SRQ, FAKE_CREATE_CHANNEL,
		FAKE_CREATE_ID, FAKE_BIND, FAKE_LISTEN};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (uint32_t skip = 0; skip < 8; skip++) {
			fake_iwarp_reset();
			fake_iwarp.fail[calls[i]].skip = skip;
			fake_iwarp_fail(calls[i], 100, EIO);
			n_ends = end_open(&ends[0]) == 0;
			finish();
		}
	}
}
END_TEST

/* Registered memory is limited: with fewer buffers, but not with too few for two partners. */
START_TEST(port_open__little_memory)
{
	for (uint32_t n = 3; n <= 4; n++) {
		fake_iwarp_reset();
		fake_iwarp_fail(FAKE_REG_MR, n, ENOMEM);
		ck_assert_int_eq(end_open(&ends[0]), n == 3 ? 0 : -ENOMEM);
		n_ends = n == 3;
		if (n_ends) {
			ck_assert_uint_ge(ends[0].port.dev.connections, 2);
			ck_assert_uint_lt(ends[0].port.shared + ends[0].port.dev.connections *
				RDMACM_WINDOW_MIN, ends[0].port.ring.count / 2);
		}
		finish();
	}
}
END_TEST

/* ---- attempts that fail ------------------------------------------------------------------ */

/* Ends the route, and tries again when that is allowed. */
static void recover(void)
{
	BACKEND->route.close(&ends[0].port, &ends[0].peers[1]);
	turn_us = 1000;
	for (uint32_t turn = 0; connect_to(0, 1); turn++) {
		ck_assert_uint_lt(turn, 100);
		BACKEND->route.close(&ends[0].port, &ends[0].peers[1]);
		clock_pass(100000);
	}
	pass(0, 1);
}

START_TEST(peer_open__fails)
{
	static const enum fake_call calls[] = {FAKE_CREATE_ID, FAKE_RESOLVE_ADDR,
		FAKE_RESOLVE_ROUTE, FAKE_REG_MR, FAKE_ALLOC_PD, FAKE_CREATE_QP, FAKE_CONNECT,
		FAKE_POST_SEND};

	begin(2);
	fake_iwarp_fail(calls[_i], 2, EIO); /* a queue pair is tried twice */
	ck_assert_int_lt(connect_to(0, 1), 0);
	fake_iwarp.fail[calls[_i]].n = 0;
	ck_assert_int_eq(send_one(0, 1), -ECONNRESET);
	recover();
	finish();
}
END_TEST

START_TEST(peer_open__accept_fails)
{
	begin(2);
	fake_iwarp_fail(FAKE_ACCEPT, 1000, EIO);
	turn_us = 20000;
	ck_assert_int_lt(connect_to(0, 1), 0);
	fake_iwarp.fail[FAKE_ACCEPT].n = 0;
	recover();
	finish();
}
END_TEST

START_TEST(peer_open__nobody_is_found_or_answers)
{
	begin(2);
	fake_iwarp.addr_error = true;
	ck_assert_int_eq(connect_to(0, 1), -EHOSTUNREACH);
	fake_iwarp.addr_error = false;
	fake_iwarp.mute = true;
	BACKEND->route.close(&ends[0].port, &ends[0].peers[1]);
	/* A connection that failed a moment ago is not tried. */
	ck_assert_int_eq(connect_to(0, 1), -EHOSTUNREACH);
	BACKEND->route.close(&ends[0].port, &ends[0].peers[1]);
	AWAIT(!ripc__map_next(&ends[0].port.links_by_addr, &(uint32_t){0}));
	clock_pass(1000000);
	turn_us = 20000;
	ck_assert_int_eq(connect_to(0, 1), -ETIMEDOUT);
	fake_iwarp_give_up();
	recover();
	finish();
}
END_TEST

START_TEST(peer_open__port_is_dead)
{
	struct ripc__addr addr;
	struct rdmacm_addr dead;

	begin(1);
	dead = ends[0].port.self;
	dead.port = 9;
	ripc__rdmacm_addr_fill(&dead, &addr);
	ck_assert_int_eq(BACKEND->route.open(&ends[0].port, &ends[0].peers[0], &addr),
		-EINPROGRESS);
	AWAIT(ends[0].n_events == 1);
	ck_assert_int_eq(ends[0].events[0].status, -ECONNREFUSED);
	finish();
}
END_TEST

/* An attempt ends in time, and closing does not wait for the call. */
START_TEST(peer_open__connecting_blocks)
{
	begin(2);
	fake_iwarp.block = true;
	turn_us = 20000;
	ck_assert_int_eq(connect_to(0, 1), -ETIMEDOUT);
	finish();
}
END_TEST

/* Requests that wait for a helper thread. */
static uint32_t n_waiting(void)
{
	uint32_t n = 0;

	for (uint32_t k = 1; k < 7; k++)
		n += link_of(0, k)->conn && link_of(0, k)->conn->waits;
	return n;
}

/* Calls that hold their threads do not hold up what is needed for those that answer. */
START_TEST(peer_open__many_block)
{
	uint64_t nonce;

	begin(8);
	ck_assert_int_eq(connect_to(0, 7), 0);
	pass(0, 7);
	nonce = link_of(0, 7)->conn->nonce;
	fake_iwarp.block = true;
	for (uint32_t k = 1; k < 7; k++)
		ck_assert_int_eq(route(0, k), -EINPROGRESS);
	AWAIT(ends[0].port.n_asking == RIPC__RDMA_THREADS - 1);
	fake_iwarp_break();
	AWAIT(!link_of(0, 7)->conn || link_of(0, 7)->conn->nonce != nonce);
	AWAIT(n_waiting() == 3);
	ck_assert_uint_eq(ends[0].port.n_asking, RIPC__RDMA_THREADS - 1);
	finish();
}
END_TEST

/* A call that was given up holds no thread, and a partner that has come back is asked again. */
START_TEST(peer_open__has_blocked)
{
	begin(2);
	for (uint32_t i = 0; i < 2 * RIPC__RDMA_THREADS; i++) {
		fake_iwarp.block = true;
		turn_us = 20000;
		ck_assert_int_eq(connect_to(0, 1), -ETIMEDOUT);
		AWAIT(ends[0].port.n_conns == 0);
		BACKEND->route.close(&ends[0].port, &ends[0].peers[1]);
		clock_pass(1000000);
	}
	fake_iwarp.block = false;
	turn_us = 1000;
	ck_assert_int_eq(connect_to(0, 1), 0);
	pass(0, 1);
	finish();
}
END_TEST

/* A closed route receives no more events. */
START_TEST(peer_close__while_it_is_opened)
{
	begin(2);
	for (uint32_t turns = 0; turns < 30; turns++) {
		ck_assert_int_eq(route(0, 1), -EINPROGRESS);
		for (uint32_t i = 0; i < turns % 10; i++)
			move();
		BACKEND->route.close(&ends[0].port, &ends[0].peers[1]);
		ends[0].n_events = 0;
		AWAIT(fake_iwarp_qps() % 2 == 0 && ends[0].port.n_unready == 0);
		ck_assert_uint_eq(ends[0].n_events, 0);
		fake_iwarp_break();
		AWAIT(fake_iwarp_qps() == 0);
	}
	finish();
}
END_TEST

/* ---- what partners say ------------------------------------------------------------------- */

static uint32_t garble_at, n_garbled;

static void garble_private(uint8_t *bytes, uint8_t *len)
{
	if (garble_at < *len)
		bytes[garble_at] ^= 0x41;
	else
		*len = (uint8_t)(garble_at - *len);
	n_garbled++;
}

START_TEST(private_data__is_garbled_or_short)
{
	for (garble_at = 0; garble_at < 2 * RDMACM_HELLO_LEN; garble_at += 5) {
		begin(2);
		fake_iwarp.private_data = garble_private;
		ck_assert_int_lt(connect_to(0, 1), 0);
		ck_assert_uint_eq(ends[1].n_datagrams, 0);
		finish();
	}
}
END_TEST

static void garble_answer(uint8_t *bytes, uint8_t *len)
{
	if (bytes[5] == RDMACM_ACCEPT)
		garble_private(bytes, len);
}

START_TEST(private_data__of_the_answer)
{
	garble_at = 9;
	begin(2);
	fake_iwarp.private_data = garble_answer;
	ck_assert_int_eq(connect_to(0, 1), -EPROTO);
	fake_iwarp.private_data = NULL;
	recover();
	finish();
}
END_TEST

static void garble_message(uint8_t *bytes, uint32_t *len)
{
	if (garble_at < *len)
		bytes[garble_at] ^= 0x41;
	else
		*len = garble_at - *len;
	n_garbled++;
	fake_iwarp.message = NULL;
}

/* A message that is wrong costs the connection, nothing else: it is made again. */
START_TEST(message__is_garbled_or_short)
{
	for (garble_at = 0; garble_at < RDMACM_PREAMBLE; garble_at++) {
		begin(2);
		ck_assert_int_eq(connect_to(0, 1), 0);
		pass(0, 1);
		fake_iwarp.message = garble_message;
		AWAIT(send_one(0, 1) == 1);
		AWAIT(ends[0].port.n_unready > 0);
		pass(0, 1);
		ck_assert_uint_eq(ends[1].n_datagrams, 2);
		finish();
	}
}
END_TEST

static void claim_more(uint8_t *bytes, uint32_t *len)
{
	struct rdmacm_preamble preamble;

	if (ripc__rdmacm_preamble_decode(bytes, *len, &preamble))
		return;
	preamble.received += 1000;
	preamble.limit += 1000;
	ripc__rdmacm_preamble_encode(&preamble, bytes, *len);
	fake_iwarp.message = NULL;
}

START_TEST(message__claims_what_was_not_sent)
{
	begin(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	fake_iwarp.message = claim_more;
	AWAIT(send_one(0, 1) == 1);
	AWAIT(ends[0].port.n_unready > 0);
	pass(0, 1);
	ck_assert_uint_eq(ends[1].n_datagrams, 1);
	finish();
}
END_TEST

/* ---- life of connections ----------------------------------------------------------------- */

START_TEST(glare__leaves_one_connection)
{
	for (uint32_t turn = 0; turn < 40; turn++) {
		begin(2);
		ck_assert_int_eq(route(0, 1), -EINPROGRESS);
		for (uint32_t i = 0; i < turn % 8; i++)
			move();
		(void)route(1, 0);
		AWAIT(ends[0].n_events > 0 && (ends[1].n_events > 0 || !ends[1].peers[0].opening));
		ck_assert_int_eq(ends[0].events[0].status, 0);
		ck_assert_int_eq(ends[1].events[0].status, 0);
		AWAIT(fake_iwarp_qps() == 2);
		pass(0, 1);
		pass(1, 0);
		ck_assert_uint_eq(fake_iwarp_qps(), 2);
		finish();
	}
}
END_TEST

/* All connections break, and both ends have seen it: what is sent from now on is not lost. */
static void break_all(void)
{
	const struct rdmacm_conn *left = link_of(0, 1)->conn, *right = link_of(1, 0)->conn;

	fake_iwarp_break();
	AWAIT((link_of(0, 1)->conn != left || left->state != RDMACM_READY) &&
		(link_of(1, 0)->conn != right || right->state != RDMACM_READY));
}

/* The asking end repeats its message, unless it has received something by then. */
START_TEST(silence__is_broken_once)
{
	begin(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_int_eq(connect_to(1, 0), 0);
	if (_i)
		pass(1, 0);
	for (uint32_t i = 0; i < 300; i++) {
		move();
		clock_pass(1000);
	}
	ck_assert_uint_eq(link_of(1, 0)->conn->received, _i ? 1 : 2);
	pass(0, 1);
	finish();
}
END_TEST

START_TEST(break__is_mended)
{
	begin(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_int_eq(connect_to(1, 0), 0);
	for (uint32_t turn = 0; turn < 20; turn++) {
		pass(0, 1);
		pass(1, 0);
		break_all();
		pass(turn % 2, 1 - turn % 2);
	}
	finish();
}
END_TEST

/* A partner that is gone is noticed without being spoken to; the route says so once. */
START_TEST(partner__is_gone)
{
	begin(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	pass(0, 1);
	BACKEND->net.close(&ends[1].port);
	n_ends = 1;
	AWAIT(send_one(0, 1) == -ECONNRESET);
	AWAIT(ends[0].port.n_conns == 0);
	finish();
}
END_TEST

/* A partner's connection is not given to others at its host that claim its address. */
START_TEST(partner__is_imitated)
{
	const struct rdmacm_conn *conn;
	struct rdmacm_addr own;

	begin(3);
	own = ends[1].port.self;
	ck_assert_int_eq(connect_to(0, 2), 0);
	pass(0, 2);
	ends[1].port.self = ends[2].port.self;
	BACKEND->net.close(&ends[2].port);
	n_ends = 2;
	AWAIT(ends[0].port.n_conns == 0);
	turn_us = 20000;
	ck_assert_int_lt(connect_to(1, 0), 0);
	conn = link_of(0, 2)->conn; /* perhaps the partner itself is being asked */
	ck_assert(!conn || (!conn->is_server && !conn->was_ready));
	BACKEND->route.close(&ends[1].port, &ends[1].peers[0]);
	/* Our connection is not, either. */
	ends[1].port.self = ends[0].port.self;
	AWAIT(!ripc__map_next(&ends[1].port.links_by_addr, &(uint32_t){0}));
	ck_assert_int_lt(connect_to(1, 0), 0);
	BACKEND->route.close(&ends[1].port, &ends[1].peers[0]);
	ends[1].port.self = own;
	turn_us = 1000;
	ck_assert_int_eq(connect_to(0, 0), 0);
	pass(0, 0);
	ck_assert_int_eq(connect_to(1, 0), 0);
	pass(1, 0);
	finish();
}
END_TEST

/*
 * An end without a number admits the one that has it, though its own request is under way and
 * first.
 */
START_TEST(partner__knows_a_number)
{
	uint32_t before;

	begin(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	pass(0, 1);
	fake_iwarp.mute = true;
	before = fake_iwarp_requests();
	fake_iwarp_break();
	link_of(0, 1)->last = 0;
	AWAIT(fake_iwarp_requests() == before + 1 && ends[1].port.n_conns == 0);
	fake_iwarp.mute = false;
	before = ends[1].n_events;
	ck_assert_int_eq(route(1, 0), -EINPROGRESS);
	link_of(1, 0)->last = 5;
	AWAIT(ends[1].n_events > before);
	ck_assert_int_eq(ends[1].events[before].status, 0);
	ck_assert_uint_eq(fake_iwarp.n_rejects, 0);
	pass(0, 1);
	pass(1, 0);
	finish();
}
END_TEST

/*
 * Ends that know different numbers, or one of which knows none, find together; also where what
 * they say takes longer than they wait between two attempts.
 */
START_TEST(partner__knows_another_number)
{
	static const uint64_t known[][2] = {{0, 5}, {5, 0}, {5, 6}};

	begin(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_int_eq(connect_to(1, 0), 0);
	turn_us = _i ? 20000 : 1000;
	for (uint32_t turn = 0; turn < 12; turn++) {
		pass(0, 1);
		pass(1, 0);
		break_all();
		link_of(0, 1)->last = known[turn % 3][0];
		link_of(1, 0)->last = known[turn % 3][1];
		pass(turn % 2, 1 - turn % 2);
	}
	ck_assert_uint_eq(link_of(0, 1)->resets, 0);
	ck_assert_uint_eq(link_of(1, 0)->resets, 0);
	finish();
}
END_TEST

/* A goodbye is not delayed by an end that cannot answer. */
START_TEST(bye__finds_no_room)
{
	struct ripc__event events[1];
	struct rdmacm_conn *conn;

	begin(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_int_eq(connect_to(1, 0), 0);
	pass(1, 0);
	conn = link_of(1, 0)->conn;
	conn->completed = conn->head - RDMACM_SENDS;
	ripc__rdmacm_conn_close(link_of(0, 1)->conn);
	for (uint32_t turn = 0; !conn->bye_came; turn++) {
		ck_assert_uint_lt(turn, TURNS);
		ck_assert_int_eq(BACKEND->datagrams.poll(&ends[1].port, events, 1, false), 0);
	}
	ck_assert_uint_ne(conn->state, RDMACM_READY);
	pass(0, 1);
	pass(1, 0);
	finish();
}
END_TEST

/* Objects made for a refused request are destroyed. */
START_TEST(request__leaves_nothing_behind)
{
	begin(3);
	ends[0].port.dev.connections = 1;
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_int_eq(route(2, 0), -EINPROGRESS);
	AWAIT(fake_iwarp.n_rejects > 0);
	BACKEND->route.close(&ends[2].port, &ends[2].peers[0]);
	BACKEND->net.close(&ends[2].port);
	n_ends = 2;
	move();
	ck_assert(link_of(0, 1)->node.next == &ends[0].port.links);
	ck_assert(link_of(0, 1)->node.prev == &ends[0].port.links);
	finish();
}
END_TEST

/* Nobody is left with a connection to a device that is lost, or given another one. */
START_TEST(partner__has_lost_its_device)
{
	begin(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_int_eq(connect_to(1, 0), 0);
	pass(0, 1);
	turn_us = 20000;
	AWAIT(ends[1].port.due_us == UINT64_MAX); /* nothing else makes it look */
	ends[1].port.dev.rdma.is_lost = true;
	AWAIT(send_one(0, 1) == -ECONNRESET);
	AWAIT(ends[1].port.n_conns == 0);
	finish();
}
END_TEST

/* A sleeping end is not kept awake by a dead connection. */
START_TEST(wait_arm__device_was_taken_away)
{
	struct pollfd fd = {.events = POLLIN};

	begin(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_int_eq(connect_to(1, 0), 0);
	AWAIT(BACKEND->net.arm(&ends[1].port) == 0);
	ck_assert_int_eq(send_one(0, 1), 1); /* the channel is readable */
	fake_iwarp_take_away(ends[1].port.dev.rdma.context);
	AWAIT(ends[1].port.rdma->is_lost);
	ends[1].port.queue.armed = false; /* as if the last event had come before */
	fd.fd = ends[1].attr.fd;
	AWAIT(BACKEND->net.arm(&ends[1].port) == 0 && poll(&fd, 1, 0) == 0);
	ck_assert_int_eq(send_one(1, 0), -ECONNRESET);
	fake_iwarp.taken_away = false;
	finish();
}
END_TEST

/* The least window: what is said without a datagram does not use up what datagrams need. */
START_TEST(credit__of_the_least_window)
{
	begin(2);
	ends[0].port.shared = ends[0].port.shared_free = 0;
	ends[1].port.shared = ends[1].port.shared_free = 0;
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_uint_eq(link_of(0, 1)->conn->window, RDMACM_WINDOW_MIN);
	for (uint32_t turn = 0; turn < 20; turn++) {
		pass(0, 1);
		for (uint32_t i = 0; i < turn; i++)
			ripc__rdmacm_conn_try(link_of(0, 1)->conn);
	}
	ck_assert_int_eq(connect_to(1, 0), 0);
	for (uint32_t turn = 0; turn < 20; turn++)
		pass(turn % 3 == 0, turn % 3 != 0);
	finish();
}
END_TEST

/*
 * Both ends have used up all they may, and windows become the least: there is always a next
 * message.
 */
START_TEST(credit__of_windows_that_shrink)
{
	begin(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_int_eq(connect_to(1, 0), 0);
	pass(0, 1);
	ends[0].port.shared = ends[1].port.shared = 0;
	for (uint32_t i = 0; i < 2 * RDMACM_SENDS; i++) {
		(void)send_one(0, 1);
		(void)send_one(1, 0);
	}
	for (uint32_t turn = 0; turn < 100; turn++) {
		AWAIT(send_one(0, 1) == 1);
		AWAIT(send_one(1, 0) == 1);
	}
	ck_assert_uint_eq(link_of(0, 1)->conn->window, RDMACM_WINDOW_MIN);
	finish();
}
END_TEST

/* Both ways at once, with as much as is taken: nobody runs out of credit for ever. */
START_TEST(credit__never_locks_up)
{
	uint32_t sent[2] = {0, 0};

	begin(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_int_eq(connect_to(1, 0), 0);
	for (uint32_t turn = 0; sent[0] < 5000 || sent[1] < 5000; turn++) {
		ck_assert_uint_lt(turn, 100000);
		for (uint32_t i = 0; i < 1 + turn * 7 % 60; i++) {
			uint32_t from = turn * 5 / 3 % 2;

			sent[from] += send_one(from, 1 - from) == 1;
		}
		if (turn % 3)
			move();
	}
	AWAIT(ends[0].n_datagrams == sent[1] && ends[1].n_datagrams == sent[0]);
	finish();
}
END_TEST

/* One end may have three connections and has eleven partners: all are served in turn. */
START_TEST(connections__are_limited)
{
	static const char *const three[] = {"rdmacm.connections", "3", NULL};

	begin(1);
	for (; n_ends < ENDS; n_ends++)
		ck_assert_int_eq(end_open(&ends[n_ends]), 0);
	options = three;
	BACKEND->net.close(&ends[0].port);
	ck_assert_int_eq(end_open(&ends[0]), 0);
	turn_us = 10000; /* a connection that was used a moment ago does not leave */
	for (uint32_t turn = 0; turn < 2; turn++) {
		for (uint32_t k = 1; k < ENDS; k++) {
			if (turn == 0)
				ck_assert_int_eq(connect_to(0, k), 0);
			pass(0, k);
			ck_assert_uint_le(ends[0].port.n_conns, 3);
		}
	}
	/* And who is asked for a connection makes room for it. */
	for (uint32_t k = 1; k < ENDS; k++) {
		ck_assert_int_eq(connect_to(k, 0), 0);
		pass(k, 0);
		ck_assert_uint_le(ends[0].port.n_conns, 3);
	}
	ck_assert_uint_eq(ends[0].n_datagrams, ENDS - 1);
	finish();
}
END_TEST

/* Six partners use what they have all the time. */
static void turn_of_six(void)
{
	for (uint32_t k = 1; k < 7; k++)
		(void)send_one(k, 0);
	move();
	poll(NULL, 0, 1);
	turn_pass();
}

/* One host takes all that it gets, and uses it all the time: there is room for another one. */
START_TEST(connections__of_one_host)
{
	static const char *const four[] = {"rdmacm.connections", "4", NULL};
	uint32_t before;

	begin(0);
	options = four;
	for (; n_ends < 8; n_ends++)
		ck_assert_int_eq(end_open(&ends[n_ends]), 0);
	ends[7].port.self.ip[15]++;
	for (uint32_t k = 1; k < 7; k++)
		ck_assert_int_eq(route(k, 0), -EINPROGRESS);
	for (uint32_t turn = 0; ends[0].port.n_conns - ends[0].port.n_unready < 3; turn++) {
		ck_assert_uint_lt(turn, TURNS);
		turn_of_six();
	}
	for (uint32_t turn = 0; turn < 200; turn++) {
		turn_of_six();
		ck_assert_uint_le(ends[0].port.n_conns, 3);
	}
	before = ends[7].n_events;
	ck_assert_int_eq(route(7, 0), -EINPROGRESS);
	for (uint32_t turn = 0; ends[7].n_events == before; turn++) {
		ck_assert_uint_lt(turn, TURNS);
		turn_of_six();
	}
	ck_assert_int_eq(ends[7].events[before].status, 0);
	pass(7, 0);
	finish();
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{probe__says_what_is_missing, 1},
		{probe__refuses_options, 1},
		{port_open__gives_all_back_when_it_fails, 1},
		{peer_open__fails, 8},
		{peer_open__accept_fails, 1},
		{peer_open__nobody_is_found_or_answers, 1},
		{peer_open__port_is_dead, 1},
		{peer_open__connecting_blocks, 1},
		{peer_close__while_it_is_opened, 1},
		{private_data__is_garbled_or_short, 1},
		{private_data__of_the_answer, 1},
		{message__is_garbled_or_short, 1},
		{message__claims_what_was_not_sent, 1},
		{glare__leaves_one_connection, 1},
		{silence__is_broken_once, 2},
		{break__is_mended, 1},
		{partner__is_gone, 1},
		{credit__never_locks_up, 1},
		{connections__are_limited, 1},
		{connections__of_one_host, 1},
		{port_open__little_memory, 1},
		{peer_open__many_block, 1},
		{peer_open__has_blocked, 1},
		{partner__is_imitated, 1},
		{partner__knows_another_number, 2},
		{partner__knows_a_number, 1},
		{bye__finds_no_room, 1},
		{request__leaves_nothing_behind, 1},
		{partner__has_lost_its_device, 1},
		{wait_arm__device_was_taken_away, 1},
		{credit__of_the_least_window, 1},
		{credit__of_windows_that_shrink, 1},
		{NULL, 0},
	};

	return suite_run_loops("rdmacm", loops);
}
