/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One datagram to many: RoCE v2 over IPv4, to an IPv4 group that follows from the number. It is
 * sent as all datagrams are, from the same queue pair, so that its sender is known as ever. A
 * device takes a datagram only for queue pairs with its Q_Key, and that of the port's own is a
 * secret of its partners: so a second one hears, whose Q_Key all know. It is made when something is
 * to be heard first, with as many buffers as the first one has.
 *
 * Attaching a queue pair to a group is not enough: the kernel drops what comes for a group that no
 * socket has joined (software RoCE, Linux 6.1), and switches learn of members by IGMP. So a socket
 * joins each group, and never receives anything.
 *
 * Datagrams of this host, by whatever port or device with this GID, are not taken: whether a
 * device hands them back differs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "many.h"
#include "path.h"
#include "qp.h"
#include "ripc/ripc.h"

#define MANY_QPN     0xffffffu   /* all who are attached (IBA 10.5.2) */
#define MANY_QKEY    0x72697063u
#define FAILURES_MAX 10u

/* ---- where it reaches -------------------------------------------------------------------- */

static uint32_t ip_of(const uint8_t gid[16])
{
	uint32_t ip;

	memcpy(&ip, gid + 12, sizeof(ip));
	return ip;
}

/* In network byte order, as the addresses are; 0: not found. */
static uint32_t find_mask(uint32_t own)
{
	struct ifaddrs *all;
	uint32_t mask = 0;

	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *at = all; at && !mask; at = at->ifa_next) {
		const struct sockaddr_in *addr = (const struct sockaddr_in *)(void *)at->ifa_addr;

		if (addr && addr->sin_family == AF_INET && addr->sin_addr.s_addr == own &&
				at->ifa_netmask)
			mask = ((struct sockaddr_in *)(void *)at->ifa_netmask)->sin_addr.s_addr;
	}
	freeifaddrs(all);
	return mask;
}

/* 0: one datagram of ours to many reaches this partner, and one of the partner's us. */
static int check_partner(struct verbs_port *port, const struct verbs_peer *partner)
{
	const uint8_t *gid = partner->path->attr.grh.dgid.raw;
	uint32_t own = ip_of(port->self.gid);

	if (port->self.kind != RIPC__RDMA_ROCE_V2 || !ripc__verbs_is_v4(port->self.gid) ||
			!ripc__verbs_is_v4(gid))
		return -EOPNOTSUPP;
	if (!port->many.mask)
		port->many.mask = find_mask(own);
	if (!port->many.mask)
		return -EADDRNOTAVAIL;
	return ip_of(gid) == own || (ip_of(gid) ^ own) & port->many.mask ? -EHOSTUNREACH : 0;
}

int ripc__verbs_many_open(void *state, void *peer_state, const void *partner_state, uint64_t number)
{
	struct verbs_port *port = state;
	const struct verbs_peer *partner = partner_state;
	struct verbs_addr group = {0};
	struct verbs_path *path;
	int error = check_partner(port, partner);

	if (error)
		return error;
	ripc__verbs_many_gid(number, group.gid);
	error = ripc__verbs_path_get(port, &group, &path);
	if (!error)
		*(struct verbs_peer *)peer_state = (struct verbs_peer){.path = path,
			.qpn = MANY_QPN, .qkey = MANY_QKEY, .mtu = partner->mtu};
	return error;
}

/* ---- the queue pair that hears ----------------------------------------------------------- */

static int attach(struct verbs_many *many, uint64_t number)
{
	union ibv_gid gid;

	ripc__verbs_many_gid(number, gid.raw);
	return -ibv_attach_mcast(many->qp, &gid, 0);
}

static void detach(struct verbs_many *many, uint64_t number)
{
	union ibv_gid gid;

	ripc__verbs_many_gid(number, gid.raw);
	(void)ibv_detach_mcast(many->qp, &gid, 0);
}

static bool is_same_group(uint64_t number, uint64_t other)
{
	uint8_t gid[16], other_gid[16];

	ripc__verbs_many_gid(number, gid);
	ripc__verbs_many_gid(other, other_gid);
	return memcmp(gid, other_gid, sizeof(gid)) == 0;
}

/* Is a number of the same group among the first n? */
static bool has_group(const struct verbs_many *many, uint32_t n, uint64_t number)
{
	for (uint32_t i = 0; i < n; i++) {
		if (is_same_group(many->numbers[i], number))
			return true;
	}
	return false;
}

/* Some devices do not destroy a queue pair that is attached. */
static void close_qp(struct verbs_many *many)
{
	for (uint32_t i = 0; i < many->n_numbers; i++) {
		if (!has_group(many, i, many->numbers[i]))
			detach(many, many->numbers[i]);
	}
	ibv_destroy_qp(many->qp);
	many->qp = NULL;
}

static int attach_all(struct verbs_many *many)
{
	int error = 0;

	for (uint32_t i = 0; i < many->n_numbers && !error; i++) {
		if (!has_group(many, i, many->numbers[i]))
			error = attach(many, many->numbers[i]);
	}
	return error;
}

static int open_qp(struct verbs_port *port)
{
	struct verbs_many *many = &port->many;
	struct ibv_qp_init_attr attr = {
		.send_cq = port->sends.cq, /* nothing is ever sent */
		.recv_cq = port->cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = many->ring.count, .max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
	};
	int error;

	errno = 0;
	many->qp = ibv_create_qp(port->rdma->pd, &attr);
	if (!many->qp)
		return errno ? -errno : -ENOMEM;
	error = ripc__verbs_qp_activate(port, many->qp, MANY_QKEY);
	if (!error)
		error = ripc__rdma_ring_start(&many->ring, many->qp, NULL);
	return error;
}

static int start(struct verbs_port *port)
{
	struct verbs_many *many = &port->many;
	int error = ripc__rdma_ring_open(&many->ring, port->rdma, port->dev.receives,
		port->ring.len);

	if (error)
		return error;
	many->ring.mark |= VERBS_WR_MANY;
	many->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	error = many->fd < 0 ? -errno : open_qp(port);
	many->is_open = !error;
	if (!error)
		return 0;
	if (many->qp)
		close_qp(many);
	if (many->fd >= 0)
		close(many->fd);
	ripc__rdma_ring_close(&many->ring);
	return error;
}

void ripc__verbs_many_close(struct verbs_port *port)
{
	struct verbs_many *many = &port->many;

	if (!many->is_open)
		return;
	if (many->qp)
		close_qp(many);
	close(many->fd);
	ripc__rdma_ring_close(&many->ring);
}

/* ---- its failures ------------------------------------------------------------------------ */

void ripc__verbs_many_failed(struct verbs_port *port)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (port->many.failed)
		return;
	port->many.failed = true;
	port->many.failures++;
	(void)ibv_modify_qp(port->many.qp, &attr, IBV_QP_STATE); /* all receives come back */
}

static void give_up(struct verbs_port *port)
{
	const struct ripc__host *host = &port->rdma->host;

	if (port->many.qp)
		close_qp(&port->many);
	host->log(host->arg, RIPC_LOG_WARN, "verbs: multicast datagrams are no longer received");
}

/* By a new queue pair: whether the groups of an old one outlive its reset is nowhere written. */
void ripc__verbs_many_revive(struct verbs_port *port)
{
	struct verbs_many *many = &port->many;
	int error = -EIO;

	if (!many->qp || port->rdma->is_lost ||
			many->ring.n_idle + many->ring.n_handed < many->ring.count)
		return;
	close_qp(many);
	if (many->failures < FAILURES_MAX)
		error = open_qp(port);
	if (!error)
		error = attach_all(many);
	if (error)
		give_up(port);
	else
		many->failed = false;
}

/* ---- numbers ----------------------------------------------------------------------------- */

/* The socket joins or leaves. */
static int change_group(const struct verbs_port *port, uint64_t number, bool joins)
{
	struct ip_mreqn group = {.imr_address.s_addr = ip_of(port->self.gid)};
	uint8_t gid[16];

	ripc__verbs_many_gid(number, gid);
	group.imr_multiaddr.s_addr = ip_of(gid);
	return setsockopt(port->many.fd, IPPROTO_IP,
		joins ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &group, sizeof(group)) ? -errno : 0;
}

static int join(struct verbs_port *port, uint64_t number)
{
	struct verbs_many *many = &port->many;
	int error = change_group(port, number, true);

	if (error)
		return error;
	error = attach(many, number);
	if (error)
		(void)change_group(port, number, false);
	return error;
}

static bool is_heard(const struct verbs_many *many, uint64_t number)
{
	for (uint32_t i = 0; i < many->n_numbers; i++) {
		if (many->numbers[i] == number)
			return true;
	}
	return false;
}

int ripc__verbs_many_hear(void *state, const void *partner, uint64_t number)
{
	struct verbs_port *port = state;
	struct verbs_many *many = &port->many;
	int error = check_partner(port, partner);

	if (error || is_heard(many, number))
		return error;
	if (many->n_numbers == VERBS_NUMBERS)
		return -ENOSPC;
	if (many->failed)
		return -EIO;
	if (!many->is_open)
		error = start(port);
	if (!error && !has_group(many, many->n_numbers, number))
		error = join(port, number);
	if (!error)
		many->numbers[many->n_numbers++] = number;
	return error;
}

void ripc__verbs_many_ignore(void *state, uint64_t number)
{
	struct verbs_port *port = state;
	struct verbs_many *many = &port->many;
	uint32_t at = 0;

	while (at < many->n_numbers && many->numbers[at] != number)
		at++;
	if (at == many->n_numbers)
		return;
	many->numbers[at] = many->numbers[--many->n_numbers];
	if (has_group(many, many->n_numbers, number))
		return;
	if (many->qp)
		detach(many, number);
	(void)change_group(port, number, false);
}
