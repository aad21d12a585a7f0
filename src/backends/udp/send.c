/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending over UDP. Equal datagrams to one partner go to the kernel as one, which it or the
 * device cuts apart (UDP_SEGMENT). That can fail at any time, on a device that promised it too
 * (quinn 1128, quic-go 3911): then the same datagrams go one by one, and so do all later ones
 * to this partner. Nothing is lost by it.
 */
#include "udp.h"

#include <errno.h>
#include <limits.h>
#include <netinet/udp.h>
#include <string.h>

#define RUN_DATAGRAMS 64  /* UDP_MAX_SEGMENTS of older kernels */
#define RUN_IOVECS    256 /* header and few pieces for each; the kernel allows 1,024 */

/* Bytes of ancillary data of one sendmsg: source address and segment length. */
#define CONTROL_MAX (CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(uint16_t)))

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

static void add_source(struct msghdr *message, const struct udp_port *port,
		const struct udp_peer *peer)
{
	struct in6_pktinfo info6 = {0};
	struct in_pktinfo info = {0};

	if (port->family == AF_INET6) {
		memcpy(&info6.ipi6_addr, peer->local, sizeof(info6.ipi6_addr));
		info6.ipi6_ifindex = peer->to.in6.sin6_scope_id;
		add_control(message, IPPROTO_IPV6, IPV6_PKTINFO, &info6, sizeof(info6));
	} else {
		memcpy(&info.ipi_spec_dst, peer->local + 12, sizeof(info.ipi_spec_dst));
		add_control(message, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	}
}

/* One sendmsg of iovecs that are cut into segments (0: one datagram). 0 or a negative errno. */
static int transmit(const struct udp_port *port, struct udp_peer *peer, const struct iovec *iov,
		uint32_t n_iov, uint16_t segment)
{
	_Alignas(struct cmsghdr) char control[CONTROL_MAX];
	struct msghdr message = {
		.msg_name = &peer->to,
		.msg_namelen = port->family == AF_INET6 ? sizeof(peer->to.in6) : sizeof(peer->to.in),
		.msg_iov = (struct iovec *)iov,
		.msg_iovlen = n_iov,
	};

	if (peer->pinned || segment) {
		memset(control, 0, sizeof(control));
		message.msg_control = control;
		if (peer->pinned)
			add_source(&message, port, peer);
		if (segment)
			add_control(&message, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	}
	return sendmsg(port->fd, &message, MSG_DONTWAIT) < 0 ? -errno : 0;
}

static bool is_full(int rc)
{
	return rc == -EAGAIN || rc == -EWOULDBLOCK || rc == -ENOBUFS || rc == -ENOMEM;
}

/*
 * A route over IPv4 that claims to take less than every route must: lets the kernel cut this
 * one into fragments. It makes short messages work on odd links, and keeps a forged "too big"
 * from cutting a partner off. IPv6 has no such routes.
 */
static int send_fragmented(const struct udp_port *port, struct udp_peer *peer,
		const struct ripc__tx *tx)
{
	int want = IP_PMTUDISC_DONT, usual = IP_PMTUDISC_DO, rc;

	if (setsockopt(port->fd, IPPROTO_IP, IP_MTU_DISCOVER, &want, sizeof(want)))
		return -EMSGSIZE;
	rc = transmit(port, peer, tx->iov, tx->n_iov, 0);
	setsockopt(port->fd, IPPROTO_IP, IP_MTU_DISCOVER, &usual, sizeof(usual));
	return rc;
}

static int send_one(struct udp_port *port, struct udp_peer *peer, const struct ripc__tx *tx)
{
	int rc = transmit(port, peer, tx->iov, tx->n_iov, 0);

	/* Not about this datagram: an answer to an earlier one, which ends with being read. */
	if (rc == -ECONNREFUSED)
		rc = transmit(port, peer, tx->iov, tx->n_iov, 0);
	/* The address that was asked may be ours no more: the kernel's choice will do. */
	if (peer->pinned && (rc == -EINVAL || rc == -EADDRNOTAVAIL || rc == -ENETUNREACH)) {
		peer->pinned = false;
		rc = transmit(port, peer, tx->iov, tx->n_iov, 0);
	}
	if (rc == -EMSGSIZE && tx->len <= UDP_PAYLOAD_FLOOR)
		rc = send_fragmented(port, peer, tx);
	else if (rc == -EMSGSIZE)
		ripc__udp_peer_shrink(port, peer, tx->len);
	if (is_full(rc))
		return 0;
	return rc ? rc : 1;
}

/* How many datagrams from the first on can go as one: equal in length, but a shorter last. */
static uint32_t run_length(const struct udp_port *port, const struct udp_peer *peer,
		const struct ripc__tx *tx, uint32_t n)
{
	uint32_t len = 0, n_iov = 0, i;
	uint32_t len_max = port->family == AF_INET6 ? UDP_PAYLOAD_MAX_6 : UDP_PAYLOAD_MAX_4;

	if (n < 2 || !port->gso || peer->no_gso || !tx[0].len || tx[0].len > peer->mtu)
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
static int send_each(struct udp_port *port, struct udp_peer *peer, const struct ripc__tx *tx,
		uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		int rc = send_one(port, peer, &tx[i]);

		if (rc <= 0)
			return i ? (int)i : rc;
	}
	return (int)n;
}

/* Sends a run of n as one. How many were taken (all or none), or the first one's error. */
static int send_run(struct udp_port *port, struct udp_peer *peer, const struct ripc__tx *tx,
		uint32_t n)
{
	bool pinned = peer->pinned;
	struct iovec iov[RUN_IOVECS];
	uint32_t n_iov = 0;
	int rc;

	for (uint32_t i = 0; i < n; i++) {
		memcpy(&iov[n_iov], tx[i].iov, tx[i].n_iov * sizeof(iov[0]));
		n_iov += tx[i].n_iov;
	}
	rc = transmit(port, peer, iov, n_iov, (uint16_t)tx[0].len);
	if (!rc)
		return (int)n;
	if (is_full(rc))
		return 0;
	rc = send_each(port, peer, tx, n);
	/* Offload is to blame if they go without it and nothing else has changed. */
	if (rc > 0 && peer->pinned == pinned) {
		peer->no_gso = true;
		port->fallbacks++;
	}
	return rc;
}

int ripc__udp_send(void *port_state, void *peer_state, const struct ripc__tx *tx, uint32_t n)
{
	struct udp_port *port = port_state;
	struct udp_peer *peer = peer_state;
	uint32_t taken = 0;

	port->streak = 0;
	while (taken < n) {
		uint32_t run = run_length(port, peer, tx + taken, n - taken);
		int rc = run > 1 ? send_run(port, peer, tx + taken, run) :
			send_one(port, peer, tx + taken);

		if (rc <= 0)
			return taken ? (int)taken : rc;
		taken += (uint32_t)rc;
		if ((uint32_t)rc < run)
			break;
	}
	return (int)taken;
}
