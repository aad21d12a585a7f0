/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends of the rdmacm backend whose datagrams go over UDP, on libraries of our own (tests/fake):
 * which numbers they take, and whom they do not speak to.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdmacm_ends.h"
#include "suite.h"

static const char *const over_udp[] = {"rdmacm.udp", "on", NULL};

static void begin_udp(uint32_t n)
{
	options = over_udp;
	begin(n);
}

/* A UDP socket of somebody else, at a number. */
static int take_number(uint16_t number)
{
	struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons(number)};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	return fd;
}

static uint16_t free_number(void)
{
	struct sockaddr_in6 name;
	socklen_t len = sizeof(name);
	int fd = take_number(0);

	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&name, &len), 0);
	close(fd);
	return ntohs(name.sin6_port);
}

START_TEST(port_open__takes_one_number_for_both)
{
	begin_udp(2);
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_uint_eq(ends[i].port.udp.number, ends[i].port.self.port);
	ck_assert_uint_ne(ends[0].port.self.port, ends[1].port.self.port);
	finish();
}
END_TEST

/* The number that would be next is taken: another one will do, unless it was asked for. */
START_TEST(port_open__number_is_taken)
{
	uint16_t next;
	int fd;

	begin_udp(1);
	next = ends[0].port.self.port + 1;
	fd = take_number(next);
	ck_assert_int_eq(end_open(&ends[n_ends]), 0);
	n_ends++;
	ck_assert_uint_gt(ends[1].port.self.port, next);
	ck_assert_uint_eq(ends[1].port.udp.number, ends[1].port.self.port);
	close(fd);
	finish();
}
END_TEST

START_TEST(port_open__number_that_was_asked_for_is_taken)
{
	uint16_t number = free_number();
	char text[8];
	const char *const asked[] = {"rdmacm.udp", "on", "rdmacm.port", text, NULL};
	int fd = take_number(number);

	snprintf(text, sizeof(text), "%u", number);
	options = asked;
	begin(0);
	ck_assert_int_eq(end_open(&ends[0]), -EADDRINUSE);
	close(fd);
	ck_assert_int_eq(end_open(&ends[0]), 0);
	n_ends = 1;
	ck_assert_uint_eq(ends[0].port.self.port, number);
	finish();
}
END_TEST

/* Who has datagrams go by connections and who does not do not see each other. */
START_TEST(addr_choose__other_kind)
{
	uint8_t blob[RIPC_ADDR_MAX], host_ip[16] = {0};
	struct ripc__addr addr;
	int len;

	begin_udp(1);
	options = NULL;
	ck_assert_int_eq(end_open(&ends[1]), 0);
	n_ends = 2;
	for (uint32_t i = 0; i < 2; i++) {
		len = BACKEND->port_addr(&ends[i].port, blob);
		ck_assert_int_eq(BACKEND->addr_choose(&ends[i].port, blob, (size_t)len, host_ip,
			&addr), 0);
		ck_assert_int_eq(BACKEND->addr_choose(&ends[!i].port, blob, (size_t)len, host_ip,
			&addr), -EHOSTUNREACH);
	}
	finish();
}
END_TEST

/* A request of the other kind is refused, though the address is right. */
START_TEST(request__other_kind)
{
	struct ripc__addr addr;

	begin(1);
	options = over_udp;
	ck_assert_int_eq(end_open(&ends[1]), 0);
	n_ends = 2;
	ends[1].port.self.by_udp = false;
	ripc__rdmacm_addr_fill(&ends[1].port.self, &addr);
	ends[1].port.self.by_udp = true;
	ck_assert_int_eq(BACKEND->peer_open(&ends[0].port, &ends[0].peers[1], &addr),
		-EINPROGRESS);
	AWAIT(ends[0].n_events > 0);
	ck_assert_int_eq(ends[0].events[0].kind, RIPC_EV_PEER);
	ck_assert_int_lt(ends[0].events[0].status, 0);
	ck_assert_uint_eq(fake_iwarp.n_accepts, 0);
	ck_assert_uint_ge(fake_iwarp.n_rejects, 1);
	finish();
}
END_TEST

/* Datagrams come from the address that the record tells, and need no connection to be answered. */
START_TEST(send__comes_from_the_address)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	int n = 0;

	begin_udp(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_int_eq(connect_to(1, 0), 0);
	pass(1, 0);
	ck_assert_int_eq(send_one(0, 1), 1);
	for (uint32_t i = 0; n == 0 && i < TURNS; i++) {
		n = BACKEND->poll(&ends[1].port, events, RIPC_EVENTS_MAX);
		poll(NULL, 0, 1);
	}
	ck_assert_int_eq(n, 1);
	ck_assert_int_eq(events[0].kind, RIPC_EV_DATAGRAM);
	ck_assert_uint_eq(events[0].len, 100);
	ck_assert(BACKEND->peer_matches(&ends[1].port, &ends[1].peers[0], events[0].from));
	ck_assert_int_eq(BACKEND->peer_open(&ends[1].port, &ends[1].peers[2], events[0].from), 0);
	BACKEND->release(&ends[1].port, events[0].handle);
	ck_assert_int_eq(send_one(1, 2), 1);
	AWAIT(ends[0].n_datagrams == 2);
	ck_assert_ptr_null(link_of(0, 1));
	ck_assert_ptr_null(link_of(1, 0));
	ck_assert_uint_eq(fake_iwarp.n_requests, 0);
	finish();
}
END_TEST

int main(void)
{
	const struct suite_loop tests[] = {
		{port_open__takes_one_number_for_both, 1},
		{port_open__number_is_taken, 1},
		{port_open__number_that_was_asked_for_is_taken, 1},
		{addr_choose__other_kind, 1},
		{request__other_kind, 1},
		{send__comes_from_the_address, 1},
		{NULL, 0},
	};

	return suite_run_loops("rdmacm_udp", tests);
}
