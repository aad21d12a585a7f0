/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending over UDP. Equal datagrams to one partner are passed to the kernel as one, which it or
 * the device cuts apart (UDP_SEGMENT). The cutting can fail at any time, also on a device that
 * promised it (quinn 1128, quic-go 3911): then the same datagrams are sent one by one, and so
 * are all later ones to this partner. No datagram is lost by it.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

#include "udp.h"
#include "util/system/cancel.h"

#define RUN_DATAGRAMS 64  /* UDP_MAX_SEGMENTS of older kernels */
#define RUN_IOVECS    256 /* header and few pieces for each; the kernel allows 1,024 */
#define COPY_MAX      2048
#define TRIES         4   /* while errors of earlier sends interfere (receive.c) */
/* Bytes of ancillary data of one sendmsg: source address and segment length. */
#define CONTROL_MAX   (CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(uint16_t)))

static void add_control(struct msghdr *message, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *c = (struct cmsghdr *)((char *)message->msg_control +
		message->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	message->msg_controllen += CMSG_SPACE(len);
}

static void add_source(struct msghdr *message, int family, const struct udp_route *route)
{
	struct in6_pktinfo info6 = {route->local, route->to.sin6_scope_id};
	struct in_pktinfo info = {0};

	if (family == AF_INET6) {
		add_control(message, IPPROTO_IPV6, IPV6_PKTINFO, &info6, sizeof(info6));
		return;
	}
	memcpy(&info.ipi_spec_dst, &route->local.s6_addr[12], sizeof(info.ipi_spec_dst));
	add_control(message, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
}

/* One sendmsg of iovecs that are cut into segments (0: one datagram). 0 or a negative errno. */
static int transmit(struct udp_port *port, const struct udp_route *route,
		const struct iovec *iov, uint32_t n_iov, uint16_t segment)
{
	_Alignas(struct cmsghdr) char control[CONTROL_MAX] = {0};
	struct sockaddr_in6 to;
	struct msghdr message = {
		.msg_name = &to,
		.msg_namelen = ripc__udp_sockaddr(&route->to, port->family, &to),
		.msg_iov = (struct iovec *)iov,
		.msg_iovlen = n_iov,
		.msg_control = control,
	};
	int rc, tries = 0;

	if (route->pinned)
		add_source(&message, port->family, route);
	if (segment)
		add_control(&message, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	do
		rc = sendmsg(port->fd, &message, MSG_DONTWAIT) < 0 ? -errno : 0;
	while (rc && tries++ < TRIES && ripc__udp_is_late(port, rc));
	return rc;
}

/*
 * Sends one small datagram to a partner whose route has no special properties: copying it
 * together is cheaper than having the kernel fetch a message header and iovecs (0.2 us of 3.4,
 * measured).
 */
static int transmit_small(struct udp_port *port, const struct udp_route *route,
		const struct ripc__tx *tx)
{
	uint8_t data[COPY_MAX];
	struct sockaddr_in6 to;
	socklen_t to_len = ripc__udp_sockaddr(&route->to, port->family, &to);
	int rc, tries = 0;

	ripc__tx_copy(data, tx);
	do
		rc = sendto(port->fd, data, tx->len, MSG_DONTWAIT, (struct sockaddr *)&to,
			to_len) < 0 ? -errno : 0;
	while (rc && tries++ < TRIES && ripc__udp_is_late(port, rc));
	return rc;
}

static int transmit_one(struct udp_port *port, const struct udp_route *route,
		const struct ripc__tx *tx)
{
	if (tx->len <= COPY_MAX && !route->pinned)
		return transmit_small(port, route, tx);
	return transmit(port, route, tx->iov, tx->n_iov, 0);
}

/*
 * For a route over IPv4 that claims to take less than every route must: lets the kernel cut this
 * datagram into fragments. Fragments make short messages work on odd links, and a forged "too
 * big" cannot cut a partner off. IPv6 has no such routes.
 */
static int send_fragmented(struct udp_port *port, const struct udp_route *route,
		const struct ripc__tx *tx)
{
	int want = IP_PMTUDISC_DONT, usual = IP_PMTUDISC_DO, rc;

	if (setsockopt(port->fd, IPPROTO_IP, IP_MTU_DISCOVER, &want, sizeof(want)))
		return -EMSGSIZE;
	rc = transmit_one(port, route, tx);
	setsockopt(port->fd, IPPROTO_IP, IP_MTU_DISCOVER, &usual, sizeof(usual));
	return rc;
}

static int send_one(struct udp_port *port, struct udp_route *route, const struct ripc__tx *tx)
{
	int rc = transmit_one(port, route, tx);

	/* The pinned source address may be ours no more: the kernel's choice will do. */
	if (route->pinned && (rc == -EINVAL || rc == -EADDRNOTAVAIL || rc == -ENETUNREACH)) {
		route->pinned = false;
		rc = transmit_one(port, route, tx);
	}
	if (rc == -EMSGSIZE && tx->len <= UDP_FLOOR)
		rc = send_fragmented(port, route, tx);
	else if (rc == -EMSGSIZE)
		ripc__udp_route_shrink(route, tx->len);
	if (udp_is_full(rc))
		return 0;
	return rc ? rc : 1;
}

/*
 * How many datagrams from the first on can be sent as one: equal in length, except a shorter
 * last.
 */
static uint32_t run_length(const struct udp_port *port, const struct udp_route *route,
		const struct ripc__tx *tx, uint32_t n)
{
	uint32_t len = 0, n_iov = 0, i;
	/* With headers, no more than the 64 KiB that devices take at once. */
	uint32_t len_max = 65535 - UDP_HEADERS_6;

	if (n < 2 || !port->gso || route->no_gso || !tx[0].len || tx[0].len > route->mtu)
		return 1;
	if (n > RUN_DATAGRAMS)
		n = RUN_DATAGRAMS;
	for (i = 0; i < n; i++) {
		if (tx[i].len > tx[0].len || !tx[i].len)
			break;
		if (len + tx[i].len > len_max || n_iov + tx[i].n_iov > RUN_IOVECS)
			break;
		len += tx[i].len;
		n_iov += tx[i].n_iov;
		if (tx[i].len < tx[0].len)
			return i + 1;
	}
	return i ? i : 1;
}

/* Sends n datagrams one by one. How many were taken, or the first one's error. */
static int send_each(struct udp_port *port, struct udp_route *route, const struct ripc__tx *tx,
		uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		int rc = send_one(port, route, &tx[i]);

		if (rc <= 0)
			return i ? (int)i : rc;
	}
	return (int)n;
}

/* Sends a run of n as one. How many were taken (all or none), or the first one's error. */
static int send_run(struct udp_port *port, struct udp_route *route, const struct ripc__tx *tx,
		uint32_t n)
{
	bool pinned = route->pinned;
	struct iovec iov[RUN_IOVECS];
	uint32_t n_iov = 0;
	int rc;

	for (uint32_t i = 0; i < n; i++) {
		memcpy(&iov[n_iov], tx[i].iov, tx[i].n_iov * sizeof(iov[0]));
		n_iov += tx[i].n_iov;
	}
	rc = transmit(port, route, iov, n_iov, (uint16_t)tx[0].len);
	if (!rc)
		return (int)n;
	if (udp_is_full(rc))
		return 0;
	rc = send_each(port, route, tx, n);
	/* Offload is the cause if they can be sent without it and nothing else has changed. */
	if (rc > 0 && route->pinned == pinned) {
		route->no_gso = true;
		port->fallbacks++;
	}
	return rc;
}

int ripc__udp_send(void *port_state, void *route_state, const struct ripc__tx *tx, uint32_t n)
{
	RIPC__HOLD_CANCEL;
	struct udp_port *port = port_state;
	struct udp_route *route = route_state;
	uint32_t taken = 0;

	while (taken < n) {
		uint32_t run = run_length(port, route, tx + taken, n - taken);
		int rc = run > 1 ? send_run(port, route, tx + taken, run) :
			send_one(port, route, tx + taken);

		if (rc <= 0)
			return taken ? (int)taken : rc;
		taken += (uint32_t)rc;
		if ((uint32_t)rc < run)
			break;
	}
	return (int)taken;
}

/* ---- many -------------------------------------------------------------------------------- */

/*
 * Multicast over IPv4: to an address that is made of the number, with TTL 1, by the interface
 * that leads to a partner. The datagrams are sent by the port's own socket: their source is that
 * of the port's other datagrams, and they do not return to this host. They are received by a
 * second socket, at a UDP port that all contexts of a host share; the first number that is
 * received opens it.
 */

/* The number of groups that one socket may join by default (net.ipv4.igmp_max_memberships). */
_Static_assert(UDP_HEARD <= 20, "the limit of groups per socket");

static struct in_addr v4_of(const struct in6_addr *ip)
{
	struct in_addr v4;

	memcpy(&v4, &ip->s6_addr[12], sizeof(v4));
	return v4;
}

static struct in_addr address_of(uint64_t number)
{
	return (struct in_addr){htonl(ripc__multicast_address(number))};
}

/* Our address on the way to the partner; the partner is another host, reached over IPv4. */
static int way_to(const struct udp_route *partner, struct in6_addr *local)
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
	/* The kernel sends to an address of this host from that address. */
	return memcmp(local, &partner->to.sin6_addr, sizeof(*local)) == 0 ? -EHOSTUNREACH : 0;
}

int ripc__udp_multicast_open(void *state, void *route_state, const void *partner, uint64_t number)
{
	struct udp_port *port = state;
	const struct udp_route *one = partner;
	struct udp_route *many = route_state;
	struct in_addr to = address_of(number);
	int off = 0, rc;

	*many = (struct udp_route){.to = {.sin6_family = AF_INET6, .sin6_port = htons(UDP_MANY)},
		.mtu = one->mtu, .pinned = true, .no_gso = true};
	rc = way_to(one, &many->local);
	if (rc)
		return rc;
	ripc__udp_map_v4(&many->to.sin6_addr, &to);
	/* An IPv6 socket has another switch, also for packets that it sends over IPv4. */
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
	/* Groups that other sockets of this host have joined do not count; emulators lack that. */
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
	port->multicast_fd = fd;
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

int ripc__udp_multicast_hear(void *state, const void *partner, uint64_t number)
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
	rc = port->multicast_fd < 0 ? open_socket(port) : 0;
	rc = rc ? rc : join(port->multicast_fd, IP_ADD_MEMBERSHIP, &heard);
	if (rc && rc != -EADDRINUSE) /* another number has the same address */
		return rc;
	port->heard[port->n_heard++] = heard;
	return 0;
}

void ripc__udp_multicast_ignore(void *state, uint64_t number)
{
	struct udp_port *port = state;
	uint32_t n_left = 0;

	for (uint32_t i = 0; i < port->n_heard; i++) {
		if (port->heard[i].number != number)
			port->heard[n_left++] = port->heard[i];
		else
			join(port->multicast_fd, IP_DROP_MEMBERSHIP, &port->heard[i]);
	}
	if (n_left == port->n_heard)
		return;
	port->n_heard = n_left;
	/* Memberships that shared an address with the removed one are joined again. */
	for (uint32_t i = 0; i < n_left; i++)
		join(port->multicast_fd, IP_ADD_MEMBERSHIP, &port->heard[i]);
}

int ripc__udp_multicast_fd(void *state)
{
	return ((struct udp_port *)state)->multicast_fd;
}
