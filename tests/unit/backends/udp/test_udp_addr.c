/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses and routes of the udp backend. Those about a changing MTU run in a network
 * namespace of their own, so only as root.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../../../support/util/kernel.h"
#include "udp_pair.h"

static void parse_host(const char *text, uint8_t host[16])
{
	ck_assert_int_eq(inet_pton(AF_INET6, text, host), 1);
}

START_TEST(addr_choose__hosts)
{
	static const struct {
		const char *host;
		int rc;
	} cases[] = {
		{"::ffff:10.0.0.1", 0}, {"::ffff:223.255.255.255", 0}, {"2001:db8::1", 0},
		{"::1", 0},
		{"::", -EADDRNOTAVAIL}, {"::ffff:0.0.0.0", -EADDRNOTAVAIL},
		{"::ffff:0.1.2.3", -EADDRNOTAVAIL}, {"::ffff:224.0.0.1", -EADDRNOTAVAIL},
		{"::ffff:255.255.255.255", -EADDRNOTAVAIL}, {"ff02::1", -EADDRNOTAVAIL},
		{"fe80::1", -EADDRNOTAVAIL},
	};
	static const uint8_t blob[4] = {1, 0, 0x67, 0x12};
	struct ripc__addr addr;
	struct udp_side side;
	uint8_t host[16];

	udp_side_open(&side, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		parse_host(cases[i].host, host);
		memset(&addr, 0, sizeof(addr));
		ck_assert_int_eq(UDP->route.choose(&side.port, blob, 4, host, &addr), cases[i].rc);
		if (cases[i].rc == 0)
			ck_assert_mem_eq(addr.host, host, 16);
		else
			ck_assert_uint_eq(addr.len, 0);
	}
	UDP->net.close(&side.port);
}
END_TEST

START_TEST(addr_choose__blobs)
{
	static const uint8_t wrong[][5] = {{0, 0, 1, 1}, {2, 0, 1, 1}, {1, 1, 1, 1}, {1, 0, 0, 0}};
	static const uint8_t right[5] = {1, 0, 0, 1};
	struct ripc__addr addr = {0};
	struct udp_side side;

	udp_side_open(&side, NULL);
	for (size_t i = 0; i < 4; i++)
		ck_assert_int_eq(UDP->route.choose(&side.port, wrong[i], 4, localhost, &addr),
			-EBADMSG);
	ck_assert_int_eq(UDP->route.choose(&side.port, right, 3, localhost, &addr), -EBADMSG);
	ck_assert_int_eq(UDP->route.choose(&side.port, right, 5, localhost, &addr), -EBADMSG);
	ck_assert_int_eq(UDP->route.choose(&side.port, right, 0, localhost, &addr), -EBADMSG);
	ck_assert_uint_eq(addr.len, 0);
	ck_assert_int_eq(UDP->route.choose(&side.port, right, 4, localhost, &addr), 0);
	UDP->net.close(&side.port);
}
END_TEST

START_TEST(addr_text__forms)
{
	static const struct {
		const char *host, *text;
		uint32_t scope;
	} cases[] = {
		{"::ffff:10.0.0.1", "10.0.0.1:4711", 0},
		{"::ffff:255.255.255.255", "255.255.255.255:4711", 0},
		{"2001:db8::1", "[2001:db8::1]:4711", 0},
		{"fe80::1", "[fe80::1%lo]:4711", 1},
		{"fe80::1", "[fe80::1%4000000000]:4711", 4000000000},
		{"2001:db8:1111:2222:3333:4444:5555:6666",
			"[2001:db8:1111:2222:3333:4444:5555:6666]:4711", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct udp_addr own = {.at = {.sin6_family = AF_INET6, .sin6_port = htons(4711)}};
		struct ripc__addr addr;
		char text[64];

		parse_host(cases[i].host, own.at.sin6_addr.s6_addr);
		own.at.sin6_scope_id = cases[i].scope;
		ripc__udp_addr_fill(&addr, &own);
		ripc__udp_backend.route.text(&addr, text);
		ck_assert_str_eq(text, cases[i].text);
	}
}
END_TEST

START_TEST(peer_matches__compares_all)
{
	struct udp_addr own = {.at = {.sin6_family = AF_INET6, .sin6_port = htons(5)}};
	struct udp_route peer = {0};
	struct ripc__addr addr;

	memcpy(&own.at.sin6_addr, localhost, 16);
	peer.to = own.at;
	ripc__udp_addr_fill(&addr, &own);
	ck_assert(UDP->route.matches(NULL, &peer, &addr));
	own.local.s6_addr[3] = 7; /* which of our addresses was asked does not matter */
	ripc__udp_addr_fill(&addr, &own);
	ck_assert(UDP->route.matches(NULL, &peer, &addr));
	peer.to.sin6_port++;
	ck_assert(!UDP->route.matches(NULL, &peer, &addr));
	peer.to = own.at;
	peer.to.sin6_addr.s6_addr[15]++;
	ck_assert(!UDP->route.matches(NULL, &peer, &addr));
	peer.to = own.at;
	peer.to.sin6_scope_id++;
	ck_assert(!UDP->route.matches(NULL, &peer, &addr));
	peer.to = own.at;
	addr.len--;
	ck_assert(!UDP->route.matches(NULL, &peer, &addr));
}
END_TEST

START_TEST(peer_open__loopback_takes_the_longest)
{
	struct udp_side left, right;

	udp_pair_open(&left, &right, NULL);
	ck_assert_uint_eq(UDP->route.mtu(&left.port, &left.peer), 65507);
	udp_pair_close(&left, &right);
}
END_TEST

/* Sets the MTU of lo, with 0 only its flags, in the namespace we are in. */
static void set_lo(int mtu)
{
	struct ifreq request = {.ifr_name = "lo"};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	ck_assert_int_ge(fd, 0);
	if (mtu)
		request.ifr_mtu = mtu;
	else
		request.ifr_flags = IFF_UP;
	rc = ioctl(fd, mtu ? SIOCSIFMTU : SIOCSIFFLAGS, &request);
	close(fd);
	ck_assert_int_eq(rc, 0);
}

START_TEST(peer_open__no_route)
{
	struct udp_side side;
	struct ripc__addr addr;
	uint8_t host[16];

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	set_lo(0);
	udp_side_open(&side, NULL);
	parse_host("::ffff:192.0.2.1", host);
	udp_side_addr(&side, host, &addr);
	ck_assert_int_eq(UDP->route.open(&side.port, &side.peer, &addr), -ENETUNREACH);
	UDP->net.close(&side.port);
}
END_TEST

START_TEST(peer_mtu__shrinks_with_the_route)
{
	struct udp_side left, right;

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	set_lo(0);
	udp_pair_open(&left, &right, NULL);
	set_lo(9000);
	ck_assert_int_eq(udp_post(&left, 20000, 1), -EMSGSIZE);
	ck_assert_uint_eq(UDP->route.mtu(&left.port, &left.peer), 9000 - 28);
	ck_assert_int_eq(udp_post(&left, 8972, 7), 7);
	udp_expect(&right, 8972, 7);
	/* A batch: not offload's fault. */
	set_lo(1500);
	ck_assert_int_eq(udp_post(&left, 8972, 7), -EMSGSIZE);
	ck_assert_uint_eq(UDP->route.mtu(&left.port, &left.peer), 1472);
	ck_assert_uint_eq(udp_stats(&left).fallbacks, 0);
	ck_assert_int_eq(udp_post(&left, 1472, 40), 40);
	udp_expect(&right, 1472, 40);
	udp_pair_close(&left, &right);
}
END_TEST

/* A route that takes less than every route must: what must pass, passes in fragments. */
START_TEST(peer_mtu__has_a_floor)
{
	struct udp_side left, right;

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	set_lo(0);
	udp_pair_open(&left, &right, NULL);
	set_lo(700);
	ck_assert_int_eq(udp_post(&left, 1233, 1), -EMSGSIZE);
	ck_assert_uint_eq(UDP->route.mtu(&left.port, &left.peer), 1232);
	ck_assert_int_eq(udp_post(&left, 1232, 1), 1);
	udp_expect(&right, 1232, 1);
	ck_assert_int_eq(udp_post(&left, 1232, 20), 20);
	udp_expect(&right, 1232, 20);
	ck_assert_int_eq(udp_post(&left, 1233, 1), -EMSGSIZE);
	udp_pair_close(&left, &right);
}
END_TEST

/* lo is down: wake cannot reach the port, and a wait still ends. */
START_TEST(wake__without_loopback)
{
	struct udp_side side;

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	udp_side_open(&side, NULL);
	UDP->net.wake(&side.port);
	UDP->net.wait(&side.port);
	UDP->net.close(&side.port);
}
END_TEST

int main(void)
{
	const char *lack = kernel_lacks_mtu();
	TCase *tcase = tcase_create("udp_addr");

	tcase_add_test(tcase, addr_choose__hosts);
	tcase_add_test(tcase, addr_choose__blobs);
	tcase_add_test(tcase, addr_text__forms);
	tcase_add_test(tcase, peer_matches__compares_all);
	tcase_add_loop_test(tcase, peer_open__loopback_takes_the_longest, 0,
		kernel_runs(lack, "peer_open__loopback_takes_the_longest", 1));
	if (geteuid() == 0) {
		tcase_add_test(tcase, peer_open__no_route);
		tcase_add_loop_test(tcase, peer_mtu__shrinks_with_the_route, 0,
			kernel_runs(lack, "peer_mtu__shrinks_with_the_route", 1));
		tcase_add_test(tcase, peer_mtu__has_a_floor);
		tcase_add_test(tcase, wake__without_loopback);
	} else {
		printf("not run without root: routes that change\n");
	}
	return suite_finish("udp_addr", tcase);
}
