/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams to many over IPv4 multicast: to an address that is made of the number, with TTL 1, by
 * the interface that leads to a partner. They go out by the port's own socket, so that they come
 * from where the port's other datagrams come from, and not back to this host. They come in by a
 * second socket, at a UDP port that all contexts of a host share; the first number that is heard
 * opens it.
 */
#include "udp.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* As many as one socket may join by default (net.ipv4.igmp_max_memberships). */
_Static_assert(UDP_HEARD <= 20, "the limit of groups per socket");

static struct in_addr v4_of(const struct in6_addr *ip)
{
	struct in_addr v4;

	memcpy(&v4, &ip->s6_addr[12], sizeof(v4));
	return v4;
}

static struct in_addr address_of(uint64_t number)
{
	return (struct in_addr){htonl(ripc__many_address(number))};
}

/* Our address on the way to the partner; the partner is another host, reached over IPv4. */
static int way_to(const struct udp_peer *partner, struct in6_addr *local)
{
	uint16_t mtu;
	int rc;

	if (!IN6_IS_ADDR_V4MAPPED(&partner->to.sin6_addr))
		return -EAFNOSUPPORT;
	rc = ripc__udp_ask_route(&partner->to, &mtu, local);
	if (rc)
		return rc;
	if (partner->pinned)
		*local = partner->local;
	/* To an address of this host the kernel goes from that address. */
	return memcmp(local, &partner->to.sin6_addr, sizeof(*local)) == 0 ? -EHOSTUNREACH : 0;
}

int ripc__udp_many_open(void *state, void *route, const void *partner, uint64_t number)
{
	struct udp_port *port = state;
	const struct udp_peer *one = partner;
	struct udp_peer *many = route;
	struct in_addr to = address_of(number);
	int off = 0, rc;

	*many = (struct udp_peer){.to = {.sin6_family = AF_INET6, .sin6_port = htons(UDP_MANY)},
		.mtu = one->mtu, .pinned = true, .no_gso = true};
	rc = way_to(one, &many->local);
	if (rc)
		return rc;
	ripc__udp_map_v4(&many->to.sin6_addr, &to);
	/* A socket of IPv6 has another switch, also for what it sends over IPv4. */
	if (port->family == AF_INET6)
		rc = setsockopt(port->fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &off, sizeof(off));
	else
		rc = setsockopt(port->fd, IPPROTO_IP, IP_MULTICAST_LOOP, &off, sizeof(off));
	return rc ? -errno : 0;
}

/* ---- hearing ----------------------------------------------------------------------------- */

static int join(int fd, int how, const struct udp_heard *heard)
{
	const struct ip_mreqn group = {.imr_multiaddr = address_of(heard->number),
		.imr_address = heard->local};

	return setsockopt(fd, IPPROTO_IP, how, &group, sizeof(group)) ? -errno : 0;
}

static int open_socket(struct udp_port *port)
{
	const struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(UDP_MANY)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, off = 0, rc = 0;

	if (fd < 0)
		return -errno;
	/* Of what others of this host have joined nothing comes here; emulators lack that. */
	setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off));
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
			bind(fd, (const struct sockaddr *)&at, sizeof(at)))
		rc = -errno;
	if (rc) {
		close(fd);
		return rc;
	}
	setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on));
	ripc__udp_grow_receive_buffer(fd, port->dev.rcvbuf);
	port->many_fd = fd;
	return 0;
}

static bool is_heard(const struct udp_port *port, const struct udp_heard *wanted)
{
	for (uint32_t i = 0; i < port->n_heard; i++) {
		const struct udp_heard *heard = &port->heard[i];

		if (heard->number == wanted->number &&
				heard->local.s_addr == wanted->local.s_addr)
			return true;
	}
	return false;
}

int ripc__udp_many_hear(void *state, const void *partner, uint64_t number)
{
	struct udp_port *port = state;
	struct udp_heard heard = {.number = number};
	struct in6_addr local;
	int rc = way_to(partner, &local);

	if (rc)
		return rc;
	heard.local = v4_of(&local);
	if (is_heard(port, &heard))
		return 0;
	if (port->n_heard == UDP_HEARD)
		return -ENOBUFS;
	rc = port->many_fd < 0 ? open_socket(port) : 0;
	rc = rc ? rc : join(port->many_fd, IP_ADD_MEMBERSHIP, &heard);
	if (rc && rc != -EADDRINUSE) /* another number has the same address */
		return rc;
	port->heard[port->n_heard++] = heard;
	return 0;
}

void ripc__udp_many_ignore(void *state, uint64_t number)
{
	struct udp_port *port = state;
	uint32_t n_left = 0;

	for (uint32_t i = 0; i < port->n_heard; i++) {
		if (port->heard[i].number != number)
			port->heard[n_left++] = port->heard[i];
		else
			join(port->many_fd, IP_DROP_MEMBERSHIP, &port->heard[i]);
	}
	if (n_left == port->n_heard)
		return;
	port->n_heard = n_left;
	/* What shares an address with the one that has gone is joined again. */
	for (uint32_t i = 0; i < n_left; i++)
		join(port->many_fd, IP_ADD_MEMBERSHIP, &port->heard[i]);
}

int ripc__udp_many_fd(void *state)
{
	return ((struct udp_port *)state)->many_fd;
}
