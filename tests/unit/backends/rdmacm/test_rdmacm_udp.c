/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends of the rdmacm backend whose datagrams go over UDP, on libraries of our own
 * (tests/support/fake): which numbers they take, whom they do not speak to, and when they have a
 * connection.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../../support/fake/iwarp_world.h"
#include "rdmacm_memory.h"
#include "suite.h"
#include "util/system/clock.h"

#define TRAIN 64 /* datagrams that arrive as one */

static const char *const over_udp[] = {"rdmacm.udp", "on", NULL};

static void begin_udp(uint32_t n)
{
	options = over_udp;
	begin(n);
}

/* A UDP socket of somebody else, at a number, or at any (0). -1: others have that one. */
static int take_number(uint16_t number)
{
	struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons(number)};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	if (bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0)
		return fd;
	ck_assert_int_eq(errno, EADDRINUSE);
	close(fd);
	return -1;
}

static uint16_t number_of(int fd)
{
	struct sockaddr_in6 name;
	socklen_t len = sizeof(name);

	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&name, &len), 0);
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

	begin_udp(0);
	do { /* other tests may have some of these numbers */
		ck_assert_uint_lt(n_ends, ENDS - 1);
		ck_assert_int_eq(end_open(&ends[n_ends++]), 0);
		next = ends[n_ends - 1].port.self.port + 1;
		fd = take_number(next);
	} while (fd < 0);
	ck_assert_int_eq(end_open(&ends[n_ends++]), 0);
	ck_assert_uint_gt(ends[n_ends - 1].port.self.port, next);
	ck_assert_uint_eq(ends[n_ends - 1].port.udp.number, ends[n_ends - 1].port.self.port);
	close(fd);
	finish();
}
END_TEST

START_TEST(port_open__number_that_was_asked_for_is_taken)
{
	char text[8];
	const char *const asked[] = {"rdmacm.udp", "on", "rdmacm.port", text, NULL};
	int fd = take_number(0);
	uint16_t number = number_of(fd);

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

/* Ends with datagrams by connections and ends without do not see each other. */
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
		len = BACKEND->net.address(&ends[i].port, blob);
		ck_assert_int_eq(BACKEND->route.choose(&ends[i].port, blob, (size_t)len, host_ip,
			&addr), 0);
		ck_assert_int_eq(BACKEND->route.choose(&ends[!i].port, blob, (size_t)len, host_ip,
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
	ck_assert_int_eq(BACKEND->route.open(&ends[0].port, &ends[0].peers[1], &addr),
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
		n = BACKEND->datagrams.poll(&ends[1].port, events, RIPC_EVENTS_MAX, false);
		poll(NULL, 0, 1);
	}
	ck_assert_int_eq(n, 1);
	ck_assert_int_eq(events[0].kind, RIPC_EV_DATAGRAM);
	ck_assert_uint_eq(events[0].len, 100);
	ck_assert(BACKEND->route.matches(&ends[1].port, &ends[1].peers[0], events[0].from));
	ck_assert_int_eq(BACKEND->route.open(&ends[1].port, &ends[1].peers[2], events[0].from), 0);
	BACKEND->datagrams.release(&ends[1].port, events[0].handle);
	ck_assert_int_eq(send_one(1, 2), 1);
	AWAIT(ends[0].n_datagrams == 2);
	ck_assert_ptr_null(link_of(0, 1));
	ck_assert_ptr_null(link_of(1, 0));
	ck_assert_uint_eq(fake_iwarp.n_requests, 0);
	finish();
}
END_TEST

/* The device's address is taken away: nobody is told of it. */
START_TEST(port_addr__is_gone)
{
	static const uint8_t not_ours[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1}; /* RFC 5737 */
	uint8_t blob[RIPC_ADDR_MAX], ours_ip[16];

	begin_udp(1);
	memcpy(ours_ip, ends[0].port.self.ip, 16);
	memcpy(ends[0].port.self.ip, not_ours, 16);
	ck_assert_int_eq(BACKEND->net.address(&ends[0].port, blob), -EADDRNOTAVAIL);
	memcpy(ends[0].port.self.ip, ours_ip, 16);
	ck_assert_int_eq(BACKEND->net.address(&ends[0].port, blob), RDMACM_ADDR_LEN);
	finish();
}
END_TEST

/* ---- connections ------------------------------------------------------------------------- */

/* Two ends; what the first one reads into is registered. */
static void begin_reading(void)
{
	begin_udp(2);
	ck_assert_int_eq(connect_to(0, 1), 0);
	ck_assert_int_eq(connect_to(1, 0), 0);
	memset(theirs, 7, sizeof(theirs));
	ck_assert_int_eq(BACKEND->mem.reg(&ends[0].port, &ends[0].peers[1], ours, 100, false,
		&region), 0);
	key = open_theirs(false);
}

static void read_begin(void)
{
	ck_assert_int_eq(BACKEND->remote.move(&ends[0].port, &ends[0].peers[1],
		&(struct ripc__move){.key = key, .mem = ours, .len = 100, .region = region,
		.cookie = 5}),
		0);
}

static int read_end(uint32_t before)
{
	AWAIT(ends[0].n_events > before);
	ck_assert_int_eq(ends[0].events[before % RIPC_EVENTS_MAX].kind, RIPC_EV_READ);
	return ends[0].events[before % RIPC_EVENTS_MAX].status;
}

static int read_now(void)
{
	uint32_t before = ends[0].n_events;

	read_begin();
	return read_end(before);
}

static void close_theirs(void)
{
	ck_assert_int_eq(BACKEND->mem.close(&ends[1].port, &key, RIPC_CLOSE_DONE, 1), 0);
}

/* Now and then something is read, for a minute: by one connection. An idle one ends. */
START_TEST(connection__stays_while_it_is_read_by)
{
	begin_reading();
	for (uint32_t i = 0; i < 600; i++) {
		ck_assert_int_eq(read_now(), 0);
		close_theirs();
		clock_pass(100000);
		for (uint32_t k = 0; k < 20; k++)
			move();
		key = open_theirs(false);
	}
	ck_assert_uint_eq(fake_iwarp.n_accepts, 1);
	close_theirs();
	turn_us = 100000;
	AWAIT(!link_of(0, 1)->conn && !link_of(1, 0)->conn);
	finish_closed();
}
END_TEST

/* Memory that cannot be read in any case needs no connection. */
START_TEST(connection__is_not_made_for_a_wrong_key)
{
	begin_reading();
	key.key ^= 1;
	ck_assert_int_eq(read_now(), -EINVAL);
	for (uint32_t i = 0; i < 50; i++) {
		move();
		poll(NULL, 0, 1);
	}
	ck_assert_uint_eq(fake_iwarp_requests(), 0);
	key.key ^= 1;
	finish_open();
}
END_TEST

/* ---- the libraries of tests/support/fake ------------------------------------------------- */

/* As a helper thread does whose port closes: only a call that may block heeds that. */
static void *signal_under_the_lock(void *fd)
{
	pthread_mutex_lock(&fake_world.lock);
	fake_signal_fd(*(int *)fd);
	pthread_mutex_unlock(&fake_world.lock);
	return NULL;
}

START_TEST(fake__lock_is_not_kept_by_who_is_cancelled)
{
	pthread_t thread;
	int fds[2];

	begin_udp(0);
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	pthread_mutex_lock(&fake_world.lock);
	ck_assert_int_eq(pthread_create(&thread, NULL, signal_under_the_lock, &fds[1]), 0);
	pthread_cancel(thread);
	pthread_mutex_unlock(&fake_world.lock);
	pthread_join(thread, NULL);
	ck_assert_int_eq(pthread_mutex_trylock(&fake_world.lock), 0);
	pthread_mutex_unlock(&fake_world.lock);
	close(fds[0]);
	close(fds[1]);
	finish();
}
END_TEST

/* The other end ends the connection, and tells of more to read before that is heard of. */
START_TEST(connection__ends_after_what_is_being_read)
{
	uint32_t before;

	begin_reading();
	ck_assert_int_eq(read_now(), 0);
	ripc__rdmacm_conn_close(link_of(1, 0)->conn);
	fake_iwarp.late_reads = true;
	before = ends[0].n_events;
	read_begin();
	ck_assert_uint_eq(link_of(0, 1)->flow.n_posted, 1);
	for (uint32_t i = 0; i < 50; i++) {
		move();
		poll(NULL, 0, 1);
	}
	fake_iwarp.late_reads = false;
	fake_iwarp_end_reads();
	ck_assert_int_eq(read_end(before), 0);
	ck_assert_int_eq(read_now(), 0); /* by the next one */
	ck_assert_uint_eq(fake_iwarp.n_accepts, 2);
	finish_open();
}
END_TEST

/* No connection can be made: that is known soon, and is not found out again for each read. */
START_TEST(connection__cannot_be_had)
{
	uint64_t from_us;
	uint32_t n;

	begin_reading();
	fake_iwarp.mute = true;
	for (uint32_t hold = 2; hold <= 8; hold *= 2) {
		from_us = ripc__clock_us();
		ck_assert_int_lt(read_now(), 0);
		ck_assert_uint_le(ripc__clock_us() - from_us, 1500000);
		n = fake_iwarp.n_requests;
		clock_pass((hold - 1) * 1000000);
		from_us = ripc__clock_us();
		ck_assert_int_lt(read_now(), 0);
		ck_assert_uint_le(ripc__clock_us() - from_us, 100000);
		ck_assert_uint_eq(fake_iwarp.n_requests, n);
		clock_pass(1000000);
	}
	fake_iwarp_give_up();
	AWAIT(ends[0].port.n_conns == 0);
	clock_pass(60000000);
	ck_assert_int_eq(read_now(), 0);
	finish_open();
}
END_TEST

static void read_of(uint32_t k, const struct ripc__key *its_key, void *into, void *its_region)
{
	const struct ripc__move one = {.key = *its_key, .mem = into, .len = 100,
		.region = its_region, .cookie = k};

	ck_assert_int_eq(BACKEND->remote.move(&ends[0].port, &ends[0].peers[k], &one), 0);
}

static bool is_connected(uint32_t k)
{
	return link_of(0, k)->conn && link_of(0, k)->conn->state == RDMACM_READY;
}

/* A third partner wants a connection where two may be: those that are in use stay. */
START_TEST(connection__in_use_does_not_make_room)
{
	static const char *const two[] = {"rdmacm.udp", "on", "rdmacm.connections", "2", NULL};
	static uint8_t into[4][100];
	struct ripc__key keys[4];
	void *regions[4];

	options = two;
	begin(4);
	for (uint32_t k = 1; k < 4; k++) {
		ends[k].port.self.ip[15] += (uint8_t)k; /* a host of its own */
		ck_assert_int_eq(connect_to(k, 0), 0);
		ck_assert_int_eq(BACKEND->mem.open(&ends[k].port, &ends[k].peers[0], theirs, 100,
			false, &keys[k]), 0);
		ck_assert_int_eq(connect_to(0, k), 0);
		ck_assert_int_eq(BACKEND->mem.reg(&ends[0].port, &ends[0].peers[k], into[k], 100,
			false, &regions[k]), 0);
	}
	for (uint32_t k = 1; k < 3; k++)
		read_of(k, &keys[k], into[k], regions[k]);
	AWAIT(is_connected(1) && is_connected(2));
	for (uint32_t ms = 0; ms < 300; ms++) {
		for (uint32_t k = 1; k < 4; k++) {
			if (k < 3 || ms == 50)
				read_of(k, &keys[k], into[k], regions[k]);
		}
		move();
		clock_pass(1000);
		poll(NULL, 0, 1);
		ck_assert(is_connected(1) && is_connected(2));
	}
	for (uint32_t k = 1; k < 4; k++) {
		ck_assert_int_eq(BACKEND->mem.close(&ends[k].port, &keys[k], RIPC_CLOSE_DONE, 1),
			0);
		BACKEND->mem.dereg(&ends[0].port, regions[k]);
	}
	finish();
}
END_TEST

/* Somebody sends more than is taken at a time, and goes on: that a read has ended is told. */
START_TEST(flood__holds_up_no_read)
{
	static const uint8_t bytes[TRAIN * 20];
	struct ripc__event events[RIPC_EVENTS_MAX];
	struct sockaddr_storage to;
	int segment = 20, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), n;
	uint32_t n_reads = 0, n_datagrams = 0;

	begin_reading();
	ck_assert_int_eq(read_now(), 0);
	ck_assert_int_eq(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)), 0);
	ripc__rdmacm_to_socket(&ends[0].port.self, &to);
	read_begin();
	for (uint32_t i = 0; i < 20 && n_reads == 0; i++) {
		for (uint32_t k = 0; k < 4; k++)
			ck_assert_int_gt(sendto(fd, bytes, sizeof(bytes), 0,
				(struct sockaddr *)&to, sizeof(struct sockaddr_in)), 0);
		n = BACKEND->datagrams.poll(&ends[0].port, events, RIPC_EVENTS_MAX, false);
		for (int k = 0; k < n; k++) {
			n_reads += events[k].kind == RIPC_EV_READ;
			n_datagrams += events[k].kind == RIPC_EV_DATAGRAM;
			if (events[k].kind == RIPC_EV_DATAGRAM)
				BACKEND->datagrams.release(&ends[0].port, events[k].handle);
		}
	}
	ck_assert_uint_eq(n_reads, 1);
	ck_assert_uint_gt(n_datagrams, 0);
	close(fd);
	finish_open();
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
		{port_addr__is_gone, 1},
		{connection__stays_while_it_is_read_by, 1},
		{connection__is_not_made_for_a_wrong_key, 1},
		{fake__lock_is_not_kept_by_who_is_cancelled, 1},
		{connection__ends_after_what_is_being_read, 1},
		{connection__cannot_be_had, 1},
		{connection__in_use_does_not_make_room, 1},
		{flood__holds_up_no_read, 1},
		{NULL, 0},
	};

	return suite_run_loops("rdmacm_udp", tests);
}
