/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about sleeping until something comes in. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "cases.h"
#include "side.h"

#define BACKEND (conformance_under_test->backend)

/* The ends of a case that have a descriptor to sleep on. */
static bool sleepers_open(struct side *left, struct side *right, int variant)
{
	pair_open(left, right, variant);
	if (side_sleeps(right))
		return true;
	pair_close(left, right);
	return false;
}

/* 0: armed, or needs no arming. */
static int arm(const struct side *side)
{
	return BACKEND->net.arm ? BACKEND->net.arm(side->port) : 0;
}

/*
 * 0: armed and quiet; where things come later, as soon as what is on its way has come. Where they
 * do not, a port may have left something to its next polls: shm looks at its sockets once per tick.
 */
static int arm_quietly(const struct side *side)
{
	int polls = conformance_under_test->later ? 20000 : 100;
	struct ripc__event event;

	for (int i = 0; i < polls; i++) {
		if (arm(side) == 0 && !side_readable(side))
			break;
		ck_assert_int_eq(BACKEND->datagrams.poll(side->port, &event, 1, false), 0);
		side_others_move(side);
		poll(NULL, 0, 1);
	}
	return arm(side) || side_readable(side) ? -EAGAIN : 0;
}

START_TEST(wait_fd__becomes_readable)
{
	struct side left, right;

	if (!sleepers_open(&left, &right, _i))
		return;
	for (uint32_t i = 0; i < 20; i++) {
		struct pollfd fd = {.fd = right.attr.fd, .events = POLLIN};
		struct ripc__event event;

		ck_assert_int_ge(fd.fd, 0);
		ck_assert_int_eq(arm_quietly(&right), 0);
		side_send(&left, left.peer, 100, i);
		ck_assert_int_eq(poll(&fd, 1, 20000), 1);
		side_expect(&right, 100, i);
		ck_assert_int_eq(BACKEND->datagrams.poll(right.port, &event, 1, false), 0);
	}
	pair_close(&left, &right);
}
END_TEST

/* Datagrams from before arming end the sleep. */
START_TEST(wait_arm__tells_what_came_before)
{
	struct side left, right;

	if (!sleepers_open(&left, &right, _i))
		return;
	for (uint32_t i = 0; i < 20; i++) {
		side_send(&left, left.peer, 100, i);
		ck_assert(arm(&right) == -EAGAIN || side_readable_soon(&right));
		ck_assert(arm(&right) == -EAGAIN || side_readable_soon(&right));
		side_expect(&right, 100, i);
	}
	pair_close(&left, &right);
}
END_TEST

/* Datagrams that arrived together with a polled one end the sleep, too. */
START_TEST(wait_arm__tells_what_is_left)
{
	uint8_t bytes[100];
	struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	struct ripc__tx tx[30];
	struct side left, right;

	if (!sleepers_open(&left, &right, _i))
		return;
	pattern_fill(bytes, sizeof(bytes), 6);
	for (uint32_t i = 0; i < 30; i++)
		tx[i] = (struct ripc__tx){.iov = &iov, .n_iov = 1, .len = sizeof(bytes)};
	ck_assert_int_eq(BACKEND->datagrams.send(left.port, left.peer, tx, 30), 30);
	for (uint32_t i = 0; i < 30; i++) {
		ck_assert(arm(&right) == -EAGAIN || side_readable_soon(&right));
		side_expect(&right, 100, 6);
	}
	ck_assert_int_eq(arm_quietly(&right), 0);
	pair_close(&left, &right);
}
END_TEST

/* One thread sleeps on the descriptor, another polls meanwhile: the first is still woken. */
START_TEST(wait_arm__outlasts_a_poll)
{
	struct side left, right;
	struct ripc__event event;

	if (!sleepers_open(&left, &right, _i))
		return;
	for (uint32_t i = 0; i < 20; i++) {
		ck_assert_int_eq(arm_quietly(&right), 0);
		ck_assert_int_eq(BACKEND->datagrams.poll(right.port, &event, 1, false), 0);
		side_send(&left, left.peer, 100, 2 * i);
		ck_assert(side_readable_soon(&right));
		/* The other thread may take the event, too. */
		side_expect(&right, 100, 2 * i);
		ck_assert_int_eq(BACKEND->datagrams.poll(right.port, &event, 1, false), 0);
		side_send(&left, left.peer, 100, 2 * i + 1);
		ck_assert(side_readable_soon(&right));
		side_expect(&right, 100, 2 * i + 1);
		while (arm(&right) == -EAGAIN || side_readable(&right))
			ck_assert_int_eq(BACKEND->datagrams.poll(right.port, &event, 1, false), 0);
	}
	pair_close(&left, &right);
}
END_TEST

static void *wait_on(void *arg)
{
	const struct side *side = arg;

	BACKEND->net.wait(side->port);
	return NULL;
}

START_TEST(wait__ends_with_a_datagram)
{
	struct side left, right;

	pair_open(&left, &right, _i);
	for (uint32_t i = 0; BACKEND->net.wait && i < 50; i++) {
		pthread_t thread;

		ck_assert_int_eq(pthread_create(&thread, NULL, wait_on, &right), 0);
		side_send(&left, left.peer, 100, i);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		side_expect(&right, 100, i);
	}
	pair_close(&left, &right);
}
END_TEST

/* Waking, waiting with something there, and sending meanwhile lose nothing. */
START_TEST(wait__ends_with_a_wake)
{
	struct side left, right;
	struct ripc__event event;

	pair_open(&left, &right, _i);
	for (uint32_t i = 0; BACKEND->net.wait && i < 50; i++) {
		pthread_t thread;

		ck_assert_int_eq(pthread_create(&thread, NULL, wait_on, &right), 0);
		BACKEND->net.wake(right.port);
		side_send(&right, right.peer, 100, i);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		side_expect(&left, 100, i);
		while (BACKEND->datagrams.poll(right.port, &event, 1,
			false) != 0 || arm(&right) == -EAGAIN)
			ck_abort_msg("a wake became an event");
	}
	side_send(&left, left.peer, 100, 1);
	if (BACKEND->net.wait) {
		BACKEND->net.wait(right.port);
		BACKEND->net.wait(right.port);
	}
	side_expect(&right, 100, 1);
	pair_close(&left, &right);
}
END_TEST

void conformance_waiting_cases(TCase *tcase)
{
	const TTest *const cases[] = {
		wait_fd__becomes_readable,
		wait_arm__tells_what_came_before,
		wait_arm__tells_what_is_left,
		wait_arm__outlasts_a_poll,
		wait__ends_with_a_datagram,
		wait__ends_with_a_wake,
		NULL,
	};

	cases_add(tcase, cases);
}
