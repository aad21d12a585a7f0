/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast over UDP: the available routes, and the datagrams that a port receives. 127.0.0.2
 * stands for another host: the kernel goes there from 127.0.0.1.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "../../../support/util/kernel.h"
#include "udp_pair.h"

#define SAME(number) ((uint64_t)(number) << 16) /* has the address of that number */

static struct udp_route peer_at(const char *text)
{
	struct udp_route peer = {.to = {.sin6_family = AF_INET6, .sin6_port = htons(9)},
		.mtu = 1472};

	ck_assert_int_eq(inet_pton(AF_INET6, text, &peer.to.sin6_addr), 1);
	return peer;
}

START_TEST(many_open__where_it_can_be)
{
	struct udp_route here = peer_at("::ffff:127.0.0.1"), v6 = peer_at("::1");
	struct udp_route other = peer_at("::ffff:127.0.0.2"), many, first;
	struct udp_route address = peer_at("::ffff:239.255.18.52");
	struct udp_side side;

	udp_side_open(&side, NULL);
	ck_assert_int_eq(UDP->multicast.open(&side.port, &many, &here, 1), -EHOSTUNREACH);
	ck_assert_int_eq(UDP->multicast.open(&side.port, &many, &v6, 1), -EAFNOSUPPORT);
	ck_assert_int_eq(UDP->multicast.hear(&side.port, &here, 1), -EHOSTUNREACH);
	ck_assert_int_eq(UDP->multicast.hear(&side.port, &v6, 1), -EAFNOSUPPORT);
	ck_assert_int_eq(UDP->multicast.fd(&side.port), -1);
	ck_assert_int_eq(UDP->multicast.open(&side.port, &many, &other, 0x1234), 0);
	ck_assert_int_eq(ntohs(many.to.sin6_port), 15512);
	ck_assert_int_eq(memcmp(&many.to.sin6_addr, &address.to.sin6_addr, 16), 0);
	ck_assert_int_eq(UDP->multicast.open(&side.port, &first, &other, SAME(0x1234)), 0);
	ck_assert_int_eq(memcmp(&many, &first, sizeof(many)), 0);
	UDP->route.close(&side.port, &many);
	UDP->route.close(&side.port, &first);
	UDP->net.close(&side.port);
}
END_TEST

/* As many numbers as a socket may join; each once. */
START_TEST(many_hear__twenty_numbers)
{
	const struct udp_route other = peer_at("::ffff:127.0.0.2");
	struct udp_side side;
	int fd;

	udp_side_open(&side, NULL);
	UDP->multicast.ignore(&side.port, 1);
	for (uint64_t number = 1; number <= UDP_HEARD; number++) {
		ck_assert_int_eq(UDP->multicast.hear(&side.port, &other, number), 0);
		ck_assert_int_eq(UDP->multicast.hear(&side.port, &other, number), 0);
	}
	fd = UDP->multicast.fd(&side.port);
	ck_assert_int_ge(fd, 0);
	ck_assert_uint_eq(side.port.n_heard, UDP_HEARD);
	ck_assert_int_eq(UDP->multicast.hear(&side.port, &other, 21), -ENOBUFS);
	ck_assert_int_eq(UDP->multicast.hear(&side.port, &other, UDP_HEARD), 0);
	UDP->multicast.ignore(&side.port, 21);
	ck_assert_uint_eq(side.port.n_heard, UDP_HEARD);
	UDP->multicast.ignore(&side.port, 7);
	ck_assert_int_eq(UDP->multicast.hear(&side.port, &other, 21), 0);
	for (uint64_t number = 1; number <= 21; number++)
		UDP->multicast.ignore(&side.port, number);
	ck_assert_uint_eq(side.port.n_heard, 0);
	ck_assert_int_eq(UDP->multicast.fd(&side.port), fd);
	UDP->net.close(&side.port);
}
END_TEST

/* Sends to the address of a number, by lo. */
static void send_to(uint64_t number, const char *text)
{
	const struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(UDP_MANY),
		.sin_addr = {htonl(0xefff0000u | (uint32_t)number)}};
	const struct in_addr lo = {htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &lo, sizeof(lo)), 0);
	ck_assert_int_eq((int)sendto(fd, text, strlen(text), 0, (const struct sockaddr *)&to,
		sizeof(to)), (int)strlen(text));
	close(fd);
}

/* How many datagrams to many have come, all of them this text, and from lo. */
static uint32_t came(struct udp_side *side, const char *text, int timeout_ms)
{
	struct pollfd fd = {.fd = UDP->multicast.fd(&side->port), .events = POLLIN};
	struct ripc__event event;
	uint32_t n = 0;

	poll(&fd, 1, timeout_ms);
	while (UDP->datagrams.poll(&side->port, &event, 1, false)) {
		ck_assert_int_eq(event.kind, RIPC_EV_MULTICAST);
		ck_assert_uint_eq(event.len, strlen(text));
		ck_assert_int_eq(memcmp(event.data, text, event.len), 0);
		ck_assert_int_eq(memcmp(event.from->host, localhost, 16), 0);
		UDP->datagrams.release(&side->port, event.handle);
		n++;
	}
	return n;
}

/* If two numbers share an address, one is still heard when the other is ignored. */
START_TEST(many_ignore__one_of_an_address)
{
	const struct udp_route other = peer_at("::ffff:127.0.0.2");
	struct udp_side side;

	udp_side_open(&side, NULL);
	ck_assert_int_eq(UDP->multicast.hear(&side.port, &other, 0x5101), 0);
	ck_assert_int_eq(UDP->multicast.hear(&side.port, &other, SAME(0x5101)), 0);
	send_to(0x5101, "both");
	ck_assert_uint_ge(came(&side, "both", 5000), 1);
	UDP->multicast.ignore(&side.port, 0x5101);
	send_to(0x5101, "one");
	ck_assert_uint_ge(came(&side, "one", 5000), 1);
	UDP->multicast.ignore(&side.port, SAME(0x5101));
	send_to(0x5101, "none");
	ck_assert_uint_eq(came(&side, "none", 20), 0);
	ck_assert_int_eq(UDP->multicast.hear(&side.port, &other, 0x5101), 0);
	send_to(0x5102, "of another");
	send_to(0x5101, "again");
	ck_assert_uint_ge(came(&side, "again", 5000), 1);
	send_to(0x5101, "not fetched");
	UDP->net.close(&side.port);
}
END_TEST

/* However many come to many, what comes to the port alone is read beside them; and the reverse. */
START_TEST(many_poll__neither_socket_starves)
{
	const struct udp_route other = peer_at("::ffff:127.0.0.2");
	uint32_t n_many = 0, n_alone = 0, n_polls = 0;
	struct udp_side left, right;
	struct ripc__event event;

	udp_pair_open(&left, &right, NULL);
	ck_assert_int_eq(UDP->multicast.hear(&right.port, &other, 0x5103), 0);
	while (n_alone < 40 || n_many < 40) {
		for (uint32_t i = 0; n_polls % UDP_BATCH == 0 && i < UDP_BATCH; i++) {
			send_to(0x5103, "junk");
			ck_assert_int_eq(udp_post(&left, 100 + i, 1), 1);
		}
		ck_assert_uint_lt(n_polls++, 4000);
		if (!UDP->datagrams.poll(&right.port, &event, 1, false))
			continue;
		n_many += event.kind == RIPC_EV_MULTICAST;
		n_alone += event.kind == RIPC_EV_DATAGRAM;
		UDP->datagrams.release(&right.port, event.handle);
	}
	ck_assert_uint_lt(n_many, 20 * n_alone);
	ck_assert_uint_lt(n_alone, 20 * n_many);
	udp_pair_close(&left, &right);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		many_open__where_it_can_be,
		many_hear__twenty_numbers,
		many_ignore__one_of_an_address,
		many_poll__neither_socket_starves,
		NULL,
	};

	if (kernel_lacks_joining()) {
		printf("skipped: %s\n", kernel_lacks_joining());
		return 77;
	}
	return suite_run("udp_many", tests);
}
