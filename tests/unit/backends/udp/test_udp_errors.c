/* SPDX-License-Identifier: BSD-3-Clause */
/* Late errors of the network about a datagram: core is notified, and no other partner suffers. */
#include <errno.h>
#include <poll.h>

#include "core/wire/wire.h"
#include "udp_pair.h"

/* As some emulators do, it receives nothing where there is no room for bytes. */
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	return message->msg_iovlen ? __real_recvmsg(fd, message, flags) : 0;
}

static struct udp_side left, right, third;

/* The left side's next datagram comes back as an error; third stays. */
#define PATTERN 0x5a

_Static_assert(UDP_QUOTE >= WIRE_HEADER + 8, "core finds the token of a hello in the quote");

static void post_pattern(void)
{
	uint8_t bytes[100];
	struct iovec iov = {bytes, sizeof(bytes)};

	memset(bytes, PATTERN, sizeof(bytes));
	ck_assert_int_eq(UDP->datagrams.send(&left.port, &left.peer,
		&(struct ripc__tx){&iov, 1, sizeof(bytes)}, 1), 1);
}

static void set_up(struct ripc__addr *gone)
{
	struct ripc__addr addr;

	udp_pair_open(&left, &right, NULL);
	udp_side_open(&third, NULL);
	udp_side_addr(&right, localhost, gone);
	udp_side_addr(&left, localhost, &addr);
	ck_assert_int_eq(UDP->route.open(&third.port, &third.peer, &addr), 0);
	UDP->net.close(&right.port);
	post_pattern();
}

static void tear_down(void)
{
	UDP->net.close(&left.port);
	UDP->net.close(&third.port);
}

static void lead_to_third(void)
{
	struct ripc__addr addr;

	udp_side_addr(&third, localhost, &addr);
	ck_assert_int_eq(UDP->route.open(&left.port, &left.peer, &addr), 0);
}

static void expect_hint(const struct ripc__addr *gone)
{
	struct pollfd fd = {.fd = left.attr.fd, .events = POLLIN};
	struct udp_route peer;
	struct ripc__event event;

	ck_assert_int_eq(UDP->route.open(&left.port, &peer, gone), 0);
	while (UDP->datagrams.poll(&left.port, &event, 1, false) == 0)
		ck_assert_int_eq(poll(&fd, 1, 20000), 1);
	ck_assert_int_eq(event.kind, RIPC_EV_HINT);
	ck_assert(UDP->route.matches(&left.port, &peer, event.from));
	ck_assert_uint_eq(event.len, UDP_QUOTE); /* of 100 that were sent */
	for (uint32_t i = 0; i < event.len; i++)
		ck_assert_uint_eq(event.data[i], PATTERN);
	UDP->route.close(&left.port, &peer);
}

START_TEST(hint__of_a_closed_port)
{
	struct pollfd fd;
	struct ripc__addr gone;
	struct ripc__event event;

	set_up(&gone);
	expect_hint(&gone);
	ck_assert_int_eq(UDP->datagrams.poll(&left.port, &event, 1, false), 0);
	ck_assert_int_eq(UDP->net.arm(&left.port), 0);
	/* Nothing is left that would wake a sleeper. */
	fd = (struct pollfd){.fd = left.attr.fd, .events = POLLIN};
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	tear_down();
}
END_TEST

/* One datagram, a long one, and several at once, which offload may send as one. */
START_TEST(send__to_another_is_not_refused)
{
	static const struct {
		uint32_t len, n;
	} sends[] = {{100, 1}, {9000, 1}, {1000, 8}};
	struct ripc__addr gone;

	set_up(&gone);
	lead_to_third();
	ck_assert_int_eq(udp_post(&left, sends[_i].len, sends[_i].n), (int)sends[_i].n);
	ck_assert_uint_eq(udp_stats(&left).fallbacks, 0);
	udp_expect(&third, sends[_i].len, sends[_i].n);
	ck_assert_int_eq(UDP->net.arm(&left.port), -EAGAIN);
	expect_hint(&gone);
	tear_down();
}
END_TEST

/* Datagrams beside the error are delivered with the same poll. */
START_TEST(poll__datagram_behind_an_error)
{
	struct ripc__addr gone;
	struct ripc__event events[2];
	struct pollfd fd = {.events = POLLIN};

	set_up(&gone);
	fd.fd = left.attr.fd;
	ck_assert_int_eq(udp_post(&third, 100, 1), 1);
	while (~fd.revents & (POLLIN | POLLERR))
		ck_assert_int_eq(poll(&fd, 1, 20000), 1);
	ck_assert_int_eq(UDP->datagrams.poll(&left.port, events, 2, false), 2);
	ck_assert_int_eq(events[0].kind, RIPC_EV_HINT);
	ck_assert_int_eq(events[1].kind, RIPC_EV_DATAGRAM);
	UDP->datagrams.release(&left.port, events[1].handle);
	tear_down();
}
END_TEST

/* A sleeper is still woken, and hears of the error then. */
START_TEST(wake__with_an_error_pending)
{
	struct ripc__addr gone;

	set_up(&gone);
	UDP->net.wake(&left.port);
	UDP->net.wait(&left.port);
	expect_hint(&gone);
	tear_down();
}
END_TEST

/* Too long for the route is still said of the datagram itself, and only of that. */
START_TEST(send__too_long_beside_an_error)
{
	struct ripc__addr gone;

	set_up(&gone);
	lead_to_third();
	ck_assert_int_eq(udp_post(&left, 65530, 1), -EMSGSIZE);
	ck_assert_int_eq(udp_post(&left, 100, 1), 1);
	expect_hint(&gone);
	tear_down();
}
END_TEST

/* More errors than there is room for are read all the same. */
START_TEST(hint__more_than_there_is_room_for)
{
	struct ripc__addr gone;
	struct ripc__event events[64];
	int n, n_hints = 0;

	set_up(&gone);
	for (int i = 0; i < 200; i++)
		udp_post(&left, 100, 1);
	while ((n = UDP->datagrams.poll(&left.port, events, 64, false)) > 0) {
		ck_assert_int_le(n, UDP_HINTS);
		n_hints += n;
	}
	ck_assert_int_ge(n_hints, UDP_HINTS);
	ck_assert_int_eq(UDP->net.arm(&left.port), 0);
	tear_down();
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{hint__of_a_closed_port, 1},
		{send__to_another_is_not_refused, 3},
		{poll__datagram_behind_an_error, 1},
		{wake__with_an_error_pending, 1},
		{send__too_long_beside_an_error, 1},
		{hint__more_than_there_is_room_for, 1},
		{NULL, 0},
	};

	return suite_run_loops("udp_errors", loops);
}
