/* SPDX-License-Identifier: BSD-3-Clause */
/* The udp backend's options and sockets, also on a host without IPv6. */
#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

#include "../../../support/util/kernel.h"
#include "udp_pair.h"

/* These calls are wrapped (see meson.build): a kernel without IPv6, or one that opens nothing. */
static bool without_v6;
static int socket_error;
/* An option that cannot be set or asked for; and no socket can tell its name, or wake itself. */
static struct {
	int level, name;
} refused;
static bool nameless, mute;

int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);

int __wrap_socket(int family, int type, int protocol)
{
	if (socket_error || (without_v6 && family == AF_INET6)) {
		errno = socket_error ? socket_error : EAFNOSUPPORT;
		return -1;
	}
	return __real_socket(family, type, protocol);
}

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	if (level != refused.level || name != refused.name)
		return __real_setsockopt(fd, level, name, value, len);
	errno = ENOPROTOOPT;
	return -1;
}

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	if (level != refused.level || name != refused.name)
		return __real_getsockopt(fd, level, name, value, len);
	errno = ENOPROTOOPT;
	return -1;
}

int __real_getsockname(int fd, struct sockaddr *name, socklen_t *len);
int __wrap_getsockname(int fd, struct sockaddr *name, socklen_t *len);

int __wrap_getsockname(int fd, struct sockaddr *name, socklen_t *len)
{
	if (!nameless)
		return __real_getsockname(fd, name, len);
	errno = ENOBUFS;
	return -1;
}

ssize_t __real_sendto(int fd, const void *data, size_t len, int flags,
		const struct sockaddr *to, socklen_t to_len);
ssize_t __wrap_sendto(int fd, const void *data, size_t len, int flags,
		const struct sockaddr *to, socklen_t to_len);

ssize_t __wrap_sendto(int fd, const void *data, size_t len, int flags,
		const struct sockaddr *to, socklen_t to_len)
{
	if (!mute)
		return __real_sendto(fd, data, len, flags, to, to_len);
	errno = EPERM;
	return -1;
}

static void set_up(void)
{
	without_v6 = nameless = mute = false;
	socket_error = 0;
	refused.level = refused.name = -1;
}

START_TEST(open__refuses_wrong_options)
{
	static const char *const wrong[][3] = {
		{"udp.port", "65536"}, {"udp.port", "x"}, {"udp.rcvbuf", "9999999999"},
		{"udp.rcvbuf", "-1"}, {"udp.gso", "maybe"}, {"udp.gro", "2"},
	};
	struct ripc__attr attr = {.caps = 99};
	char why[256] = "", remedy[256] = "";
	static struct udp_port port;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct ripc__host host = pair_host(wrong[i]);

		ck_assert_int_eq(UDP->net.open(&port, &host, &attr), -EINVAL);
		ck_assert_uint_eq(attr.caps, 99);
		ck_assert_int_eq(UDP->net.probe(&host, why, remedy), -EINVAL);
		ck_assert_uint_gt(strlen(why), 0);
		ck_assert_uint_gt(strlen(remedy), 0);
	}
}
END_TEST

START_TEST(probe__says_why_not)
{
	static const struct {
		int error;
		const char *remedy;
	} cases[] = {{EMFILE, "ulimit -n"}, {ENFILE, "fs.file-max"}, {ENOMEM, "memory.max"},
		{EACCES, "seccomp"}};
	struct ripc__host host = pair_host(NULL);
	char why[256] = "", remedy[256] = "";

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		socket_error = cases[i].error;
		ck_assert_int_eq(UDP->net.probe(&host, why, remedy), -cases[i].error);
		ck_assert_ptr_nonnull(strstr(why, strerror(cases[i].error)));
		ck_assert_ptr_nonnull(strstr(remedy, cases[i].remedy));
	}
}
END_TEST

/* The granted size, as the kernel counts it: twice the requested size. */
START_TEST(open__tells_the_receive_buffer)
{
	static const char *const options[] = {"udp.rcvbuf", "50000", NULL};
	struct udp_side side;
	int granted;
	socklen_t size = sizeof(granted);

	udp_side_open(&side, options);
	ck_assert_int_eq(getsockopt(side.port.fd, SOL_SOCKET, SO_RCVBUF, &granted, &size), 0);
	ck_assert_int_eq(granted, 100000);
	ck_assert_uint_eq(side.attr.receive_buffer, 100000);
	UDP->net.close(&side.port);
}
END_TEST

START_TEST(open__takes_the_port_of_the_option)
{
	struct udp_side first, second;
	uint8_t blob[RIPC_ADDR_MAX];
	char number[8];
	const char *options[] = {"udp.port", number, NULL};
	struct ripc__host host = pair_host(options);

	udp_side_open(&first, NULL);
	snprintf(number, sizeof(number), "%u", first.port.number);
	memset(&second, 0, sizeof(second));
	ck_assert_int_eq(UDP->net.open(&second.port, &host, &second.attr), -EADDRINUSE);
	UDP->net.close(&first.port);
	ck_assert_int_eq(UDP->net.open(&second.port, &host, &second.attr), 0);
	ck_assert_int_eq(UDP->net.address(&second.port, blob), 4);
	ck_assert_uint_eq(blob[2] | blob[3] << 8, first.port.number);
	UDP->net.close(&second.port);
}
END_TEST

START_TEST(open__without_v6)
{
	static const uint8_t v6[16] = {[15] = 1}, other[16] = {[10] = 0xff, 0xff, 127, 0, 0, 2};
	static const uint8_t blob[4] = {1, 0, 1, 0};
	struct udp_side left, right;
	struct ripc__event event;
	struct ripc__addr addr;

	without_v6 = true;
	udp_pair_open(&left, &right, NULL);
	ck_assert_int_eq(left.port.family, AF_INET);
	ck_assert_int_eq(UDP->route.choose(&left.port, blob, 4, v6, &addr), -EAFNOSUPPORT);
	ck_assert_int_eq(udp_post(&left, 1400, 60), 60);
	udp_expect(&right, 1400, 60);
	/* Asked at another address: the answer comes from there. */
	udp_side_addr(&right, other, &addr);
	ck_assert_int_eq(UDP->route.open(&left.port, &left.peer, &addr), 0);
	ck_assert_int_eq(udp_post(&left, 70, 1), 1);
	ck_assert_int_eq(UDP->datagrams.poll(&right.port, &event, 1, false), 1);
	ck_assert_int_eq(UDP->route.open(&right.port, &right.peer, event.from), 0);
	ck_assert(right.peer.pinned);
	UDP->datagrams.release(&right.port, event.handle);
	ck_assert_int_eq(udp_post(&right, 1000, 1), 1);
	ck_assert_int_eq(UDP->datagrams.poll(&left.port, &event, 1, false), 1);
	ck_assert(UDP->route.matches(&left.port, &left.peer, event.from));
	UDP->datagrams.release(&left.port, event.handle);
	UDP->net.wake(&left.port);
	UDP->net.wait(&left.port);
	ck_assert_int_eq(UDP->datagrams.poll(&left.port, &event, 1, false), 0);
	udp_pair_close(&left, &right);
}
END_TEST

/* Without a descriptor to ask the kernel with, a route is taken to be the least there is. */
START_TEST(peer_open__out_of_descriptors)
{
	struct udp_side left, right;
	struct ripc__addr addr;

	udp_pair_open(&left, &right, NULL);
	udp_side_addr(&right, localhost, &addr);
	socket_error = EMFILE;
	ck_assert_int_eq(UDP->route.open(&left.port, &left.peer, &addr), 0);
	ck_assert_uint_eq(UDP->route.mtu(&left.port, &left.peer), 1232);
	ck_assert_int_eq(udp_post(&left, 1232, 1), 1);
	udp_expect(&right, 1232, 1);
	udp_pair_close(&left, &right);
}
END_TEST

/* A sandbox, or an emulator: nobody tells what the route takes. */
START_TEST(peer_open__without_an_mtu)
{
	struct udp_side left, right;
	struct ripc__addr addr;

	refused.level = IPPROTO_IP;
	refused.name = IP_MTU;
	udp_pair_open(&left, &right, NULL);
	ck_assert_uint_eq(UDP->route.mtu(&left.port, &left.peer), 1232);
	ck_assert(!left.peer.pinned);
	ck_assert_int_eq(udp_post(&left, 1232, 3), 3);
	udp_expect(&right, 1232, 3);
	/* The address to send from is still found: it is named only where it is another one. */
	udp_side_addr(&right, localhost, &addr);
	memcpy(addr.blob + offsetof(struct udp_addr, local), localhost, sizeof(localhost));
	ck_assert_int_eq(UDP->route.open(&left.port, &left.peer, &addr), 0);
	ck_assert(!left.peer.pinned);
	udp_pair_close(&left, &right);
}
END_TEST

/* ---- options of sockets that a kernel may not have ---------------------------------------- */

/* Opens and closes a port; returns what opening said. */
static int open_and_close(void)
{
	struct ripc__host host = pair_host(NULL);
	struct ripc__attr attr;
	struct udp_port port;
	int error;

	memset(&port, 0, sizeof(port));
	error = UDP->net.open(&port, &host, &attr);
	if (!error)
		UDP->net.close(&port);
	return error;
}

/* The next descriptor that will be opened: the same if none was left open. */
static int next_descriptor(void)
{
	int fd = dup(0);

	ck_assert_int_ge(fd, 0);
	close(fd);
	return fd;
}

START_TEST(open__without_an_option_that_it_needs)
{
	static const struct {
		int level, name;
		bool without_v6;
	} cases[] = {{IPPROTO_IP, IP_MTU_DISCOVER, false}, {IPPROTO_IP, IP_MTU_DISCOVER, true},
		{IPPROTO_IPV6, IPV6_MTU_DISCOVER, false}, {IPPROTO_IPV6, IPV6_RECVPKTINFO, false},
		{IPPROTO_IP, IP_PKTINFO, true}, {IPPROTO_IPV6, IPV6_V6ONLY, false}};
	int before = next_descriptor();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		without_v6 = cases[i].without_v6;
		refused.level = cases[i].level;
		refused.name = cases[i].name;
		ck_assert_int_eq(open_and_close(), -ENOPROTOOPT);
		ck_assert_int_eq(next_descriptor(), before);
	}
	set_up();
	nameless = true;
	ck_assert_int_eq(open_and_close(), -ENOBUFS);
	ck_assert_int_eq(next_descriptor(), before);
}
END_TEST

START_TEST(open__without_an_option_that_only_helps)
{
	static const struct {
		int level, name;
	} cases[] = {{SOL_SOCKET, SO_RXQ_OVFL}, {SOL_UDP, UDP_GRO}, {SOL_UDP, UDP_SEGMENT},
		{SOL_SOCKET, SO_RCVBUFFORCE}, {SOL_SOCKET, SO_RCVBUF}, {SOL_SOCKET, SO_RCVTIMEO}};
	bool is_whole = !kernel_lacks_overflows();
	struct udp_side left, right;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		refused.level = cases[i].level;
		refused.name = cases[i].name;
		udp_pair_open(&left, &right, NULL);
		/* A kernel without SO_RXQ_OVFL is an emulator's: its offload is not believed. */
		ck_assert_int_eq(left.port.gso, is_whole && cases[i].name != UDP_SEGMENT &&
			cases[i].name != SO_RXQ_OVFL);
		ck_assert_int_eq(left.attr.receive_buffer == 0, cases[i].name == SO_RCVBUF);
		ck_assert_int_eq(udp_post(&left, 1000, 10), 10);
		udp_expect(&right, 1000, 10);
		udp_pair_close(&left, &right);
	}
}
END_TEST

/* Without a buffer that can be asked for the remedy is named; without IPv6 that is said. */
START_TEST(probe__says_what_is_less_than_it_could_be)
{
	struct ripc__host host = pair_host(NULL);
	char why[256], remedy[256];

	refused.level = SOL_SOCKET;
	refused.name = SO_RCVBUF;
	without_v6 = true;
	ck_assert_int_eq(UDP->net.probe(&host, why, remedy), 0);
	ck_assert_ptr_nonnull(strstr(why, "IPv6 is off"));
	ck_assert_ptr_nonnull(strstr(remedy, "net.core.rmem_max"));
}
END_TEST

/* A port that cannot wake itself sleeps less at a time. */
START_TEST(wake__that_cannot_be_sent)
{
	struct udp_side side;
	struct timeval before, after;
	socklen_t len = sizeof(before);

	udp_side_open(&side, NULL);
	ck_assert_int_eq(getsockopt(side.port.fd, SOL_SOCKET, SO_RCVTIMEO, &before, &len), 0);
	mute = true;
	UDP->net.wake(&side.port);
	ck_assert_int_eq(getsockopt(side.port.fd, SOL_SOCKET, SO_RCVTIMEO, &after, &len), 0);
	ck_assert(timercmp(&after, &before, <));
	ck_assert(timerisset(&after));
	UDP->net.close(&side.port);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("udp");

	tcase_add_checked_fixture(tcase, set_up, NULL);
	tcase_add_test(tcase, open__refuses_wrong_options);
	tcase_add_test(tcase, probe__says_why_not);
	tcase_add_test(tcase, open__tells_the_receive_buffer);
	tcase_add_test(tcase, open__takes_the_port_of_the_option);
	tcase_add_test(tcase, open__without_v6);
	tcase_add_test(tcase, peer_open__out_of_descriptors);
	tcase_add_test(tcase, peer_open__without_an_mtu);
	tcase_add_test(tcase, open__without_an_option_that_it_needs);
	tcase_add_test(tcase, open__without_an_option_that_only_helps);
	tcase_add_test(tcase, probe__says_what_is_less_than_it_could_be);
	tcase_add_test(tcase, wake__that_cannot_be_sent);
	return suite_finish("udp", tcase);
}
