/* SPDX-License-Identifier: BSD-3-Clause */
/* From the socket to the ring: when a sender gets one, and what is believed of how it sends. */
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../../../support/util/process.h"
#include "shm_sides.h"

/* Without memory for rings datagrams go over the socket. */
START_TEST(send__without_a_ring)
{
	struct shm_route peer;

	right.port.dev.ring_bytes_max = SHM_RING_LEN - 1;
	route(&left, &right, &peer);
	for (uint8_t i = 0; i < 200; i++) {
		ck_assert_int_eq(send_byte(&left, &peer, i), 1);
		expect_byte(&right, i);
	}
	ck_assert_int_eq(peer.out->state, SHM_EARLY);
	ck_assert_uint_eq(right.port.n_rings, 0);
	SHM->route.close(&left.port, &peer);
}
END_TEST

static void expect_way(enum shm_way way)
{
	ck_assert_uint_eq(right.port.n_ring_links, way == SHM_BY_RING);
	ck_assert_uint_eq(right.port.n_socket_links, way != SHM_BY_RING);
	ck_assert_uint_eq(right.port.n_offered, way == SHM_OFFERED);
}

/* Sends until there is a ring, up to n times; all of it arrives. */
static void send_early(struct shm_route *peer, uint32_t n)
{
	for (uint32_t i = 0; i < n && peer->out->state != SHM_LINKED; i++) {
		ck_assert_int_eq(send_byte(&left, peer, (uint8_t)i), 1);
		expect_byte(&right, (uint8_t)i);
	}
}

/* There was no memory for a ring, or no descriptor; later there is. */
START_TEST(send__ring_at_the_next_try)
{
	const uint64_t ring_bytes_max = right.port.dev.ring_bytes_max;
	rlim_t before;
	struct shm_route peer;
	int next = dup(0);

	close(next);
	route(&left, &right, &peer);
	send_early(&peer, 1);
	before = descriptors_limit((rlim_t)next + 2); /* the two ends of the link */
	ck_assert_int_eq(dup(0), -1);
	send_early(&peer, 20);
	ck_assert_int_eq(peer.out->state, SHM_EARLY);
	descriptors_limit(before);
	right.port.dev.ring_bytes_max = SHM_RING_LEN - 1;
	send_early(&peer, 1000);
	ck_assert_int_eq(peer.out->state, SHM_EARLY);
	right.port.dev.ring_bytes_max = ring_bytes_max;
	send_early(&peer, 2000);
	ck_assert_int_eq(peer.out->state, SHM_LINKED);
	drain_all(&right);
	expect_way(SHM_BY_RING);
	SHM->route.close(&left.port, &peer);
}
END_TEST

/* A newcomer is answered first; a ring is made for it later, or if there is never time. */
START_TEST(poll__rings_come_later)
{
	struct shm_route peer;
	uint8_t i = 0;

	route(&left, &right, &peer);
	ck_assert_int_eq(send_byte(&left, &peer, i++), 1);
	ck_assert_int_eq(drain(&right), 1);
	ck_assert_int_eq(drain(&right), 0);
	ck_assert_uint_eq(right.port.n_rings, 0);
	ck_assert_int_eq(send_byte(&left, &peer, i++), 1);
	ck_assert_int_eq(drain(&right), 1);
	ck_assert_uint_eq(right.port.n_rings, 0);
	ck_assert_int_eq(drain(&right), 0);
	ck_assert_uint_eq(right.port.n_rings, 1);
	SHM->route.close(&left.port, &peer);
	drain_all(&right);
	ck_assert_uint_eq(right.port.n_ins, 0);

	route(&left, &right, &peer);
	for (; right.port.n_rings == 0; i++) {
		ck_assert_int_lt(i, 100);
		ck_assert_int_eq(send_byte(&left, &peer, i), 1);
		ck_assert_int_eq(drain(&right), 1);
	}
	SHM->route.close(&left.port, &peer);
	drain_all(&right);
	ck_assert_uint_eq(right.port.n_owed, 0);
}
END_TEST

/* An offered ring is believed to be used when its sender says so, or nothing; not if it sends. */
START_TEST(poll__ring_that_is_used_or_not)
{
	const uint8_t datagram[9] = {3, 1, [4] = 1}, wake[8] = {4, 1};
	struct stranger stranger = stranger_linked(&right);

	for (int i = 0; i < 3; i++) {
		expect_way(SHM_OFFERED);
		ck_assert(right.port.clock_runs);
		ripc__shm_ins_strike(&right.port);
		ripc__shm_clock_strike(&right.port);
	}
	expect_way(SHM_BY_RING);
	ck_assert(!right.port.clock_runs);
	ck_assert_int_eq(send(stranger.fd, datagram, sizeof(datagram), 0), sizeof(datagram));
	ck_assert_int_eq(drain_all(&right), 1);
	expect_way(SHM_BY_SOCKET);
	ck_assert_int_eq(send(stranger.fd, wake, sizeof(wake), 0), sizeof(wake));
	drain_all(&right);
	expect_way(SHM_BY_RING);
	ck_assert_uint_eq(atomic_load(&right.port.board->asleep), 0);
	stranger_go(&stranger, &right);
	drain_all(&right);
	stranger = stranger_linked(&right);
	expect_way(SHM_OFFERED);
	stranger_go(&stranger, &right);
	drain_all(&right);
	ck_assert_uint_eq(right.port.n_socket_links + right.port.n_offered, 0);
}
END_TEST

/* Another network needs no descriptor: the caller is told at once. The next send tries again. */
START_TEST(send__without_a_descriptor)
{
	struct shm_route peer;
	int next = dup(0);
	rlim_t before;

	close(next);
	route(&left, &right, &peer);
	before = descriptors_limit((rlim_t)next);
	ck_assert_int_eq(send_byte(&left, &peer, 1), -EMFILE);
	descriptors_limit(before);
	ck_assert_int_eq(send_byte(&left, &peer, 2), 1);
	expect_byte(&right, 2);
	SHM->route.close(&left.port, &peer);
}
END_TEST

/* The receiver closes each link at once. */
START_TEST(send__receiver_without_a_descriptor)
{
	struct shm_route peer;
	int next = dup(0), sent = 0;
	rlim_t before;

	close(next);
	route(&left, &right, &peer);
	before = descriptors_limit((rlim_t)next + 1); /* the sender's end of the link */
	for (int i = 0; i < 20 && sent >= 0; i++) {
		sent = send_byte(&left, &peer, 1);
		drain_all(&right);
	}
	descriptors_limit(before);
	ck_assert_int_eq(sent, -EMFILE);
	SHM->route.close(&left.port, &peer);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		send__without_a_ring,
		send__ring_at_the_next_try,
		poll__rings_come_later,
		poll__ring_that_is_used_or_not,
		send__without_a_descriptor,
		send__receiver_without_a_descriptor,
		NULL,
	};

	return suite_run_between("shm_link", tests, set_up, tear_down);
}
