/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving over UDP: joined datagrams are taken apart whatever the kernel says about them, what
 * is cut off is dropped, and a ping-pong costs one call per datagram.
 */
#include <errno.h>
#include <netinet/udp.h>

#include "udp_pair.h"

/* recvmsg and recvmmsg are wrapped (see meson.build). */
static struct {
	int n_single, n_many; /* calls */
	int flags;            /* to add to what recvmsg says */
	bool forge;           /* recvmsg brings len bytes, joined from segments of this length */
	int len, segment;
	int level, type;      /* of the control message that says so */
} kernel;

ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
int __real_recvmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags,
		struct timespec *timeout);
int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags,
		struct timespec *timeout);

static ssize_t forge(struct msghdr *message)
{
	struct sockaddr_in6 from = {.sin6_family = AF_INET6, .sin6_addr.s6_addr = {[15] = 1}};
	struct cmsghdr *c = CMSG_FIRSTHDR(message);
	uint8_t *bytes = message->msg_iov->iov_base;

	kernel.forge = false;
	memcpy(message->msg_name, &from, sizeof(from));
	for (int i = 0; i < kernel.len; i++)
		bytes[i] = (uint8_t)(i % 251);
	c->cmsg_level = kernel.level;
	c->cmsg_type = kernel.type;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &kernel.segment, sizeof(int));
	message->msg_controllen = CMSG_SPACE(sizeof(int));
	message->msg_flags = 0;
	return kernel.len;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t len;

	kernel.n_single++;
	if (kernel.forge)
		return forge(message);
	len = __real_recvmsg(fd, message, flags);
	if (len >= 0)
		message->msg_flags |= kernel.flags;
	return len;
}

int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags,
		struct timespec *timeout)
{
	kernel.n_many++;
	return __real_recvmmsg(fd, messages, n, flags, timeout);
}

static void set_up(void)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.level = SOL_UDP;
	kernel.type = UDP_GRO;
}

/* Takes a forged arrival; checks that its parts are all of it, each of the right length. */
static void take_forged(struct udp_side *side, uint32_t n_expected, uint32_t at_once)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	uint32_t at = 0, n = 0;
	int filled;

	kernel.forge = true;
	while ((filled = UDP->datagrams.poll(&side->port, events, at_once, false)) > 0) {
		for (int i = 0; i < filled; i++, n++) {
			uint32_t left = (uint32_t)kernel.len - at;

			if (n + 1 < n_expected)
				ck_assert_uint_eq(events[i].len, (uint32_t)kernel.segment);
			else
				ck_assert_uint_eq(events[i].len, left);
			for (uint32_t k = 0; k < events[i].len; k++)
				ck_assert_uint_eq(events[i].data[k], (at + k) % 251);
			at += events[i].len;
			UDP->datagrams.release(&side->port, events[i].handle);
		}
		ck_assert_int_eq(UDP->net.arm(&side->port), n < n_expected ? -EAGAIN : 0);
	}
	ck_assert_uint_eq(n, n_expected);
	ck_assert_uint_eq(at, (uint32_t)kernel.len);
}

START_TEST(poll__takes_joined_apart)
{
	static const struct {
		int len, segment;
		uint32_t n;
	} cases[] = {
		{1000, 1000, 1}, {1000, 0, 1}, {1000, -5, 1}, {1000, 1001, 1},
		{1000, 2000000000, 1},
		{1000, 999, 2}, {1000, 500, 2}, {1001, 500, 3}, {65507, 1420, 47}, {64, 1, 64},
		{65535, 1, 65535}, {65535, 40, 1639}, {65536, 1024, 64}, {1, 1, 1},
	};
	struct udp_side side;

	udp_side_open(&side, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kernel.len = cases[i].len;
		kernel.segment = cases[i].segment;
		take_forged(&side, cases[i].n, RIPC_EVENTS_MAX);
		take_forged(&side, cases[i].n, 7);
	}
	UDP->net.close(&side.port);
}
END_TEST

/* Other words of the kernel, of this level or with this number, do not take it apart. */
START_TEST(poll__other_words_of_the_kernel)
{
	static const struct {
		int level, type;
	} cases[] = {{SOL_UDP, UDP_SEGMENT}, {SOL_SOCKET, UDP_GRO}, {IPPROTO_IPV6, UDP_GRO},
		{IPPROTO_IP, UDP_GRO}, {SOL_SOCKET, SO_TIMESTAMP}, {SOL_SOCKET, SO_RXQ_OVFL},
		{IPPROTO_IPV6, IPV6_HOPLIMIT}, {IPPROTO_IP, IP_TTL}, {99, 99}};
	struct udp_side side;

	udp_side_open(&side, NULL);
	kernel.len = 1000;
	kernel.segment = 500;
	take_forged(&side, 2, RIPC_EVENTS_MAX);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kernel.level = cases[i].level;
		kernel.type = cases[i].type;
		take_forged(&side, 1, RIPC_EVENTS_MAX);
	}
	UDP->net.close(&side.port);
}
END_TEST

/* Datagrams that were not yet delivered when the port closes are given up with it. */
START_TEST(port_close__in_the_middle_of_joined)
{
	struct ripc__event events[3];
	struct udp_side side;

	udp_side_open(&side, NULL);
	kernel.len = 5000;
	kernel.segment = 100;
	kernel.forge = true;
	ck_assert_int_eq(UDP->datagrams.poll(&side.port, events, 3, false), 3);
	UDP->net.close(&side.port);
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert_uint_eq(events[i].data[99], (i * 100 + 99) % 251);
		UDP->datagrams.release(&side.port, events[i].handle);
	}
}
END_TEST

START_TEST(poll__drops_and_counts_what_is_cut_off)
{
	static const int flags[] = {MSG_TRUNC, MSG_CTRUNC};
	struct ripc__event event;
	struct udp_side left, right;

	udp_pair_open(&left, &right, NULL);
	kernel.flags = flags[_i];
	ck_assert_int_eq(udp_post(&left, 100, 1), 1);
	ck_assert_int_eq(UDP->datagrams.poll(&right.port, &event, 1, false), 0);
	kernel.flags = 0;
	ck_assert_uint_eq(udp_stats(&right).overflows, 1);
	ck_assert_uint_eq(udp_stats(&right).overflows, 0);
	ck_assert_int_eq(udp_post(&left, 100, 1), 1);
	udp_expect(&right, 100, 1);
	udp_pair_close(&left, &right);
}
END_TEST

START_TEST(poll__ping_pong_costs_one_call)
{
	struct ripc__event event;
	struct udp_side left, right;

	udp_pair_open(&left, &right, NULL);
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(udp_post(&left, 100, 1), 1);
		ck_assert_int_eq(UDP->datagrams.poll(&right.port, &event, 1, false), 1);
		UDP->datagrams.release(&right.port, event.handle);
		ck_assert_int_eq(udp_post(&right, 100, 1), 1);
		UDP->net.wait(&left.port);
		ck_assert_int_eq(UDP->datagrams.poll(&left.port, &event, 1, false), 1);
		UDP->datagrams.release(&left.port, event.handle);
	}
	ck_assert_int_eq(kernel.n_single + kernel.n_many, 200);
	ck_assert_int_le(kernel.n_many, 200 / 8);
	udp_pair_close(&left, &right);
}
END_TEST

START_TEST(poll__load_costs_fewer_calls)
{
	static const char *const options[] = {"udp.gso", "off", "udp.gro", "off", NULL};
	struct ripc__event events[RIPC_EVENTS_MAX];
	struct udp_side left, right;
	int n = 0;

	udp_pair_open(&left, &right, options);
	ck_assert_int_eq(udp_post(&left, 100, 64), 64);
	for (int filled = 0; n < 64; n += filled) {
		filled = UDP->datagrams.poll(&right.port, events, RIPC_EVENTS_MAX, false);
		ck_assert_int_gt(filled, 0);
		for (int i = 0; i < filled; i++) {
			ck_assert_uint_eq(events[i].data[0], (uint32_t)(n + i));
			UDP->datagrams.release(&right.port, events[i].handle);
		}
	}
	ck_assert_int_le(kernel.n_single + kernel.n_many, 8 + 4);
	udp_pair_close(&left, &right);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("udp_receive");

	tcase_add_checked_fixture(tcase, set_up, NULL);
	tcase_add_test(tcase, poll__takes_joined_apart);
	tcase_add_test(tcase, poll__other_words_of_the_kernel);
	tcase_add_test(tcase, port_close__in_the_middle_of_joined);
	tcase_add_loop_test(tcase, poll__drops_and_counts_what_is_cut_off, 0, 2);
	tcase_add_test(tcase, poll__ping_pong_costs_one_call);
	tcase_add_test(tcase, poll__load_costs_fewer_calls);
	return suite_finish("udp_receive", tcase);
}
