/* SPDX-License-Identifier: BSD-3-Clause */
/* Room for connections of the rdmacm backend where many ask at once: who leaves, who asks again. */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "backends/rdmacm/internal.h"
#include "rdmacm_ends.h"
#include "suite.h"

static const char *const three[] = {"rdmacm.connections", "3", NULL};

/* All on hosts of their own; the first end takes three connections. */
static void begin_hosts(uint32_t n)
{
	begin(0);
	options = three;
	for (; n_ends < n; n_ends++) {
		ck_assert_int_eq(end_open(&ends[n_ends]), 0);
		ends[n_ends].port.self.ip[15] += (uint8_t)n_ends;
	}
	options = NULL;
	for (uint32_t k = 1; k < 4; k++)
		ck_assert_int_eq(connect_to(k, 0), 0);
}

/* Connections that stand, or are about to, of the first end. */
static uint32_t n_not_ending(void)
{
	uint32_t n = 0;

	list_for_each(node, &ends[0].port.conns)
		n += list_entry(node, struct rdmacm_conn, node)->state < RDMACM_CLOSING;
	return n;
}

/* Does the first end have a connection to this one? By address: another may have its memory. */
static bool is_there(uint32_t k)
{
	list_for_each(node, &ends[0].port.conns) {
		const struct rdmacm_conn *conn = list_entry(node, struct rdmacm_conn, node);

		if (conn->state < RDMACM_CLOSING &&
				ripc__rdmacm_addr_is(&conn->remote, &ends[k].port.self))
			return true;
	}
	return false;
}

/* Where several are refused, as many make room at once, not one after the other. */
START_TEST(connections__many_make_room)
{
	uint32_t least = 3;

	begin_hosts(7);
	for (uint32_t k = 4; k < 7; k++)
		ck_assert_int_eq(route(k, 0), -EINPROGRESS);
	AWAIT((least = n_not_ending() < least ? n_not_ending() : least, ends[4].n_events &&
		ends[5].n_events && ends[6].n_events));
	for (uint32_t k = 4; k < 7; k++)
		ck_assert_int_eq(ends[k].events[0].status, 0);
	ck_assert_uint_eq(least, 0);
	for (uint32_t k = 4; k < 7; k++)
		pass(k, 0);
	finish();
}
END_TEST

/*
 * A partner that acknowledges nothing, so that not even the end of its connection reaches it,
 * excludes no other, nor its connection when no route leads there.
 */
START_TEST(connections__one_cannot_be_told)
{
	struct rdmacm_conn *conn;
	uint32_t sent = 0;

	begin_hosts(5);
	ck_assert_int_eq(connect_to(0, 1), 0);
	conn = link_of(0, 1)->conn;
	conn->limit += 1000;
	ends[1].is_stopped = true;
	while (send_one(0, 1) == 1)
		ck_assert_uint_lt(++sent, 1000);
	ck_assert(!ripc__rdmacm_say(conn, RDMACM_CREDIT));
	ck_assert(is_there(1));
	if (_i) {
		turn_us = 100000;
		BACKEND->route.close(&ends[0].port, &ends[0].peers[1]);
		ends[0].peers[1].link = NULL;
		AWAIT(!is_there(1));
	} else {
		pass(2, 0);
		pass(3, 0);
		ck_assert_int_eq(connect_to(4, 0), 0);
		ck_assert(!is_there(1));
	}
	finish();
}
END_TEST

/* A refused end asks less and less often, and is notified in the end. */
START_TEST(connections__all_are_in_use)
{
	static uint8_t bytes[100];
	const struct rdmacm_conn *last = NULL;
	struct ripc__key key;
	uint32_t asked = 0;

	begin_hosts(5);
	for (uint32_t k = 1; k < 4; k++) {
		ck_assert_int_eq(connect_to(0, k), 0);
		ck_assert_int_eq(BACKEND->mem.open(&ends[0].port, &ends[0].peers[k], bytes, 100,
			false, &key), 0);
	}
	turn_us = 5000;
	ck_assert_int_eq(route(4, 0), -EINPROGRESS);
	while (ends[4].n_events == 0) {
		asked += link_of(4, 0)->conn && link_of(4, 0)->conn != last;
		last = link_of(4, 0)->conn;
		move();
		poll(NULL, 0, 1);
		clock_pass(turn_us);
	}
	ck_assert_int_lt(ends[4].events[0].status, 0);
	ck_assert_uint_ge(asked, 5);
	ck_assert_uint_le(asked, 80);
	finish();
}
END_TEST

/* A route whose datagram was refused without a connection is notified when there is one. */
START_TEST(send__taken_when_there_is_a_connection)
{
	begin_hosts(4);
	ripc__rdmacm_conn_close(link_of(1, 0)->conn);
	AWAIT(!link_of(1, 0)->conn);
	ends[1].n_events = 0;
	ck_assert_int_eq(send_one(1, 0), 0);
	AWAIT(ends[1].n_events);
	ck_assert_int_eq(ends[1].events[0].kind, RIPC_EV_PEER);
	ck_assert_int_eq(ends[1].events[0].status, 0);
	ck_assert(BACKEND->route.matches(&ends[1].port, &ends[1].peers[0], ends[1].events[0].from));
	ck_assert_int_eq(send_one(1, 0), 1);
	AWAIT(ends[0].n_datagrams == 1);
	finish();
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{connections__many_make_room, 1},
		{connections__all_are_in_use, 1},
		{connections__one_cannot_be_told, 2},
		{send__taken_when_there_is_a_connection, 1},
		{NULL, 0},
	};

	return suite_run_loops("rdmacm room", loops);
}
