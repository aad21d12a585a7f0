/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending datagrams. Each is copied into a registered buffer: the caller's bytes are then free,
 * and any number of pieces is one. Short ones are sent inline, and the device need not fetch
 * them. A list of work requests is posted at once. One in VERBS_SIGNALLED reports its end, and
 * thereby that of all before. No more than VERBS_SENDS are ever posted and not known to have
 * ended, hence neither the queue nor its completion queue, which is only polled here, can
 * overflow.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"
#include "ripc/ripc.h"
#include "util/rare.h"
#include "util/system/cancel.h"

#define PARKED    64u /* datagrams that wait for a path */
#define FINISH_MS 50 /* time for the last datagrams to leave */

/* Fills in the fields that all work requests share. */
static void prepare(struct verbs_sends *sends)
{
	for (uint32_t i = 0; i < VERBS_BATCH; i++) {
		sends->pieces[i] = (struct ibv_sge){.lkey = sends->mr->lkey};
		sends->wr[i] = (struct ibv_send_wr){.sg_list = &sends->pieces[i], .num_sge = 1,
			.opcode = IBV_WR_SEND};
	}
}

int ripc__verbs_sends_open(struct verbs_port *port)
{
	struct verbs_sends *sends = &port->sends;
	int error = ripc__buffers_open(VERBS_SENDS, port->mtu_bytes, &sends->buffers);

	if (!error)
		error = ripc__rdma_register_buffers(port->rdma, port->rdma->pd, sends->buffers, 0,
			&sends->mr);
	if (error)
		return error;
	sends->cq = ibv_create_cq(port->rdma->context, VERBS_SENDS, NULL, NULL, 0);
	if (!sends->cq) {
		ibv_dereg_mr(sends->mr);
		ripc__buffers_close(sends->buffers);
		return -ENOMEM;
	}
	prepare(sends);
	return 0;
}

void ripc__verbs_sends_close(struct verbs_port *port)
{
	if (port->sends.self)
		ibv_destroy_ah(port->sends.self);
	ibv_destroy_cq(port->sends.cq);
	ibv_dereg_mr(port->sends.mr);
	ripc__buffers_close(port->sends.buffers);
}

void ripc__verbs_sends_look(struct verbs_port *port)
{
	struct verbs_sends *sends = &port->sends;
	struct ibv_wc wcs[VERBS_SENDS / VERBS_SIGNALLED + 1];
	int n = ibv_poll_cq(sends->cq, sizeof(wcs) / sizeof(wcs[0]), wcs);

	for (int i = 0; i < n; i++) {
		sends->tail = (uint32_t)wcs[i].wr_id + 1;
		if (wcs[i].status != IBV_WC_SUCCESS)
			ripc__verbs_qp_failed(port);
	}
	port->rdma->is_lost |= n < 0;
}

/* How many more sends may be posted. */
static uint32_t room(struct verbs_port *port, uint32_t wanted)
{
	uint32_t left = VERBS_SENDS - (port->sends.head - port->sends.tail);

	if (left >= wanted)
		return left;
	ripc__verbs_sends_look(port);
	return port->failed ? 0 : VERBS_SENDS - (port->sends.head - port->sends.tail);
}

/* The first n of sends->wr. */
struct list_of_sends {
	uint32_t n;
	uint32_t unsignalled; /* before it */
};

static void list_begin(const struct verbs_port *port, struct list_of_sends *list)
{
	list->n = 0;
	list->unsignalled = port->sends.unsignalled;
}

/* The buffer for the next datagram's bytes. */
static uint8_t *next_bytes(struct verbs_port *port, const struct list_of_sends *list)
{
	uint32_t index = (port->sends.head + list->n) % VERBS_SENDS;

	return ripc__buffers_at(port->sends.buffers, index)->data;
}

static void add(struct verbs_port *port, struct list_of_sends *list, uint8_t *bytes, uint32_t len)
{
	struct verbs_sends *sends = &port->sends;
	struct ibv_send_wr *wr = &sends->wr[list->n];
	struct ibv_sge *piece = &sends->pieces[list->n];

	piece->addr = (uintptr_t)bytes;
	piece->length = len;
	wr->wr_id = sends->head + list->n;
	wr->next = NULL;
	wr->send_flags = len <= sends->inline_max ? IBV_SEND_INLINE : 0;
	if (++sends->unsignalled == VERBS_SIGNALLED) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		sends->unsignalled = 0;
	}
	if (list->n)
		wr[-1].next = wr;
	list->n++;
}

/*
 * Returns how many were posted, or a negative errno. If the doorbell failed (in a forked child,
 * after setuid, when the device is gone), no request of the list is bad, and no more can be
 * posted.
 */
static RIPC__RARE int post_failed(struct verbs_port *port, const struct list_of_sends *list,
		const struct ibv_send_wr *bad, int error)
{
	struct verbs_sends *sends = &port->sends;
	uint32_t posted = (uint32_t)(bad - sends->wr);

	if (bad < sends->wr || bad >= sends->wr + list->n) {
		port->rdma->is_lost = true;
		return -ECONNRESET;
	}
	sends->unsignalled = list->unsignalled;
	for (uint32_t i = 0; i < posted; i++)
		sends->unsignalled = sends->wr[i].send_flags & IBV_SEND_SIGNALED ? 0 :
			sends->unsignalled + 1;
	sends->head += posted;
	if (posted)
		return (int)posted;
	return error == ENOMEM || error == EAGAIN ? 0 : -ECONNRESET;
}

static int post(struct verbs_port *port, const struct list_of_sends *list)
{
	struct ibv_send_wr *bad = port->sends.wr;
	int error = ibv_post_send(port->qp, port->sends.wr, &bad);

	if (error)
		return post_failed(port, list, bad, error);
	port->sends.head += list->n;
	return (int)list->n;
}

/* The device may look at the address handle until the send has completed. */
static int post_to(struct verbs_path *path, const struct list_of_sends *list)
{
	int posted = post(path->port, list);

	path->sent = path->port->sends.head;
	return posted;
}

static void address(struct ibv_send_wr *wr, const struct verbs_path *path, uint32_t qpn,
		uint32_t qkey)
{
	wr->wr.ud.ah = path->ah;
	wr->wr.ud.remote_qpn = qpn;
	wr->wr.ud.remote_qkey = qkey;
}

static bool is_dead(const struct verbs_port *port, const struct verbs_path *path)
{
	return port->rdma->is_down || port->rdma->is_lost || !path->ah;
}

/* ---- until the path is resolved ---------------------------------------------------------- */

static RIPC__RARE int park(struct verbs_port *port, const struct verbs_route *route,
		const struct ripc__tx *tx)
{
	struct verbs_parked *parked;

	if (port->n_parked == PARKED)
		return 0;
	parked = malloc(sizeof(*parked) + tx->len);
	if (!parked)
		return 0;
	parked->qpn = route->qpn;
	parked->qkey = route->qkey;
	parked->len = tx->len;
	ripc__tx_copy(parked->bytes, tx);
	list_append(&route->path->parked, &parked->node);
	port->n_parked++;
	return 1;
}

void ripc__verbs_parked_send(struct verbs_path *path)
{
	while (!list_empty(&path->parked)) {
		struct verbs_parked *parked = list_entry(list_pop(&path->parked),
			struct verbs_parked, node);
		struct iovec iov = {.iov_base = parked->bytes, .iov_len = parked->len};
		struct ripc__tx tx = {.iov = &iov, .n_iov = 1, .len = parked->len};
		struct verbs_route route = {.path = path, .qpn = parked->qpn, .qkey = parked->qkey,
			.mtu = path->port->self.mtu};

		path->port->n_parked--;
		(void)ripc__verbs_send(path->port, &route, &tx, 1);
		free(parked);
	}
}

/* ---- core's datagrams, and messages about connections ------------------------------------ */

uint32_t ripc__verbs_route_mtu(void *port, void *state)
{
	const struct verbs_route *route = state;

	(void)port;
	return (128u << route->mtu) - VERBS_PREAMBLE;
}

int ripc__verbs_send(void *state, void *route_state, const struct ripc__tx *tx, uint32_t n)
{
	RIPC__HOLD_CANCEL;
	struct verbs_port *port = state;
	const struct verbs_route *route = route_state;
	uint32_t mtu = ripc__verbs_route_mtu(port, route_state);
	struct list_of_sends list;

	list_begin(port, &list);
	n = n < VERBS_BATCH ? n : VERBS_BATCH;
	if (tx[0].len > mtu)
		return -EMSGSIZE;
	if (route->path->busy)
		return park(port, route, tx);
	if (is_dead(port, route->path))
		return -ECONNRESET;
	if (port->failed)
		return 0;
	for (uint32_t left = room(port, n); list.n < n && list.n < left; ) {
		uint8_t *bytes = next_bytes(port, &list);

		if (tx[list.n].len > mtu)
			break;
		ripc__verbs_preamble_encode(false, port->self.mtu, port->self.qkey, bytes);
		ripc__tx_copy(bytes + VERBS_PREAMBLE, &tx[list.n]);
		add(port, &list, bytes, VERBS_PREAMBLE + tx[list.n].len);
		address(&port->sends.wr[list.n - 1], route->path, route->qpn, route->qkey);
	}
	return list.n ? post_to(route->path, &list) : 0;
}

void ripc__verbs_setup_send(struct verbs_link *link, const struct verbs_setup *setup)
{
	struct verbs_port *port = link->port;
	struct list_of_sends list;
	uint8_t *bytes;

	list_begin(port, &list);
	if (is_dead(port, link->path) || port->failed || room(port, 1) == 0)
		return;
	bytes = next_bytes(port, &list);
	ripc__verbs_preamble_encode(true, port->self.mtu, port->self.qkey, bytes);
	ripc__verbs_setup_encode(setup, bytes + VERBS_PREAMBLE);
	add(port, &list, bytes, VERBS_PREAMBLE + VERBS_SETUP_LEN);
	address(&port->sends.wr[0], link->path, link->remote.qpn, link->remote.qkey);
	(void)post_to(link->path, &list);
}

/* ---- the end ----------------------------------------------------------------------------- */

/* Posts a datagram to ourselves: its arrival shows that all before it have left. */
static void post_last(struct verbs_port *port)
{
	struct verbs_path path = {.port = port};
	struct list_of_sends list;
	struct ibv_ah_attr attr;
	uint8_t *bytes;

	ripc__verbs_addr_attr(port->rdma, &port->self, &attr);
	port->sends.self = ibv_create_ah(port->rdma->pd, &attr);
	if (!port->sends.self)
		return;
	path.ah = port->sends.self;
	list_begin(port, &list);
	bytes = next_bytes(port, &list);
	ripc__verbs_preamble_encode(true, port->self.mtu, port->self.qkey, bytes);
	port->sends.unsignalled = VERBS_SIGNALLED - 1;
	add(port, &list, bytes, VERBS_PREAMBLE);
	address(&port->sends.wr[0], &path, port->self.qpn, port->self.qkey);
	(void)post_to(&path, &list);
}

static bool is_sending(const struct verbs_port *port)
{
	return port->sends.head != port->sends.tail && !port->failed && !port->rdma->is_down &&
		!port->rdma->is_lost;
}

void ripc__verbs_sends_finish(struct verbs_port *port)
{
	if (is_sending(port) && port->sends.unsignalled && room(port, 1))
		post_last(port);
	for (int ms = 0; ms < FINISH_MS && is_sending(port) && !port->sends.unsignalled; ms++) {
		ripc__verbs_sends_look(port);
		if (is_sending(port))
			poll(NULL, 0, 1);
	}
}

/* ---- many -------------------------------------------------------------------------------- */

/*
 * Multicast: RoCE v2 over IPv4, to an IPv4 group that follows from the number. A datagram is
 * sent as all others are, from the same queue pair, and its sender is known thereby. A device
 * accepts a datagram only for queue pairs with its Q_Key, and that of the port's own is a secret
 * of its partners: a second queue pair therefore receives multicast, whose Q_Key all know. It is
 * made when the first group is joined, with as many buffers as the first one has.
 *
 * Attaching a queue pair to a group is not enough: the kernel drops datagrams for a group that
 * no socket has joined (software RoCE, Linux 6.1), and switches learn of members by IGMP. A
 * socket therefore joins each group, and never receives anything.
 *
 * Datagrams of this host, by whatever port or device with this GID, are dropped: devices differ
 * in whether they deliver them.
 */

#define MULTICAST_QPN     0xffffffu   /* every attached queue pair (IBA 10.5.2) */
#define MULTICAST_QKEY    0x72697063u
#define FAILURES_MAX 10u

/* ---- reachable partners ------------------------------------------------------------------ */

static uint32_t ip_of(const uint8_t gid[16])
{
	uint32_t ip;

	memcpy(&ip, gid + 12, sizeof(ip));
	return ip;
}

/* Finds the mask of our network, in network byte order, like the addresses; 0: not found. */
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

/* 0: our multicast reaches this partner, and the partner's reaches us. */
static int check_partner(struct verbs_port *port, const struct verbs_route *partner)
{
	const uint8_t *gid = partner->path->attr.grh.dgid.raw;
	uint32_t own = ip_of(port->self.gid);

	if (port->self.kind != RIPC__RDMA_ROCE_V2 || !ripc__rdma_is_v4(port->self.gid) ||
			!ripc__rdma_is_v4(gid))
		return -EOPNOTSUPP;
	if (!port->multicast.mask)
		port->multicast.mask = find_mask(own);
	if (!port->multicast.mask)
		return -EADDRNOTAVAIL;
	return ip_of(gid) == own || (ip_of(gid) ^ own) & port->multicast.mask ? -EHOSTUNREACH : 0;
}

int ripc__verbs_multicast_open(void *state, void *route_state, const void *partner_state,
		uint64_t number)
{
	struct verbs_port *port = state;
	const struct verbs_route *partner = partner_state;
	struct verbs_addr group = {0};
	struct verbs_path *path;
	int error = check_partner(port, partner);

	if (error)
		return error;
	ripc__verbs_multicast_gid(number, group.gid);
	error = ripc__verbs_path_get(port, &group, &path);
	if (!error)
		*(struct verbs_route *)route_state = (struct verbs_route){.path = path,
			.qpn = MULTICAST_QPN, .qkey = MULTICAST_QKEY, .mtu = partner->mtu};
	return error;
}

/* ---- the queue pair that hears ----------------------------------------------------------- */

static int attach(struct verbs_multicast *many, uint64_t number)
{
	union ibv_gid gid;

	ripc__verbs_multicast_gid(number, gid.raw);
	return -ibv_attach_mcast(many->qp, &gid, 0);
}

static void detach(struct verbs_multicast *many, uint64_t number)
{
	union ibv_gid gid;

	ripc__verbs_multicast_gid(number, gid.raw);
	(void)ibv_detach_mcast(many->qp, &gid, 0);
}

static bool is_same_group(uint64_t number, uint64_t other)
{
	uint8_t gid[16], other_gid[16];

	ripc__verbs_multicast_gid(number, gid);
	ripc__verbs_multicast_gid(other, other_gid);
	return memcmp(gid, other_gid, sizeof(gid)) == 0;
}

/* Is a number of the same group among the first n? */
static bool has_group(const struct verbs_multicast *many, uint32_t n, uint64_t number)
{
	for (uint32_t i = 0; i < n; i++) {
		if (is_same_group(many->numbers[i], number))
			return true;
	}
	return false;
}

/* Some devices do not destroy a queue pair that is attached. */
static void close_qp(struct verbs_multicast *many)
{
	for (uint32_t i = 0; i < many->n_numbers; i++) {
		if (!has_group(many, i, many->numbers[i]))
			detach(many, many->numbers[i]);
	}
	ibv_destroy_qp(many->qp);
	many->qp = NULL;
}

static int attach_all(struct verbs_multicast *many)
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
	struct verbs_multicast *many = &port->multicast;
	struct ibv_qp_init_attr attr = {
		.send_cq = port->sends.cq, /* nothing is ever sent */
		.recv_cq = port->queue.cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = many->ring.count, .max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
	};
	int error;

	errno = 0;
	many->qp = ibv_create_qp(port->rdma->pd, &attr);
	if (!many->qp)
		return errno ? -errno : -ENOMEM;
	error = ripc__verbs_qp_activate(port, many->qp, MULTICAST_QKEY);
	if (!error)
		error = ripc__rdma_ring_start(&many->ring, many->qp, NULL);
	return error;
}

static void stop(struct verbs_multicast *many)
{
	if (many->qp)
		close_qp(many);
	if (many->fd >= 0)
		close(many->fd);
	ripc__rdma_ring_close(&many->ring);
}

static int start(struct verbs_port *port)
{
	struct verbs_multicast *many = &port->multicast;
	int error = ripc__rdma_ring_open(&many->ring, port->rdma, port->dev.receives,
		port->ring.len);

	if (error)
		return error;
	many->ring.mark |= VERBS_WR_MULTICAST;
	many->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	error = many->fd < 0 ? -errno : open_qp(port);
	many->is_open = !error;
	if (error)
		stop(many);
	return error;
}

void ripc__verbs_multicast_close(struct verbs_port *port)
{
	if (port->multicast.is_open)
		stop(&port->multicast);
}

/* ---- its failures ------------------------------------------------------------------------ */

void ripc__verbs_multicast_failed(struct verbs_port *port)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (port->multicast.failed)
		return;
	port->multicast.failed = true;
	port->multicast.failures++;
	(void)ibv_modify_qp(port->multicast.qp, &attr, IBV_QP_STATE); /* all receives come back */
}

static void give_up(struct verbs_port *port)
{
	const struct ripc__host *host = &port->rdma->host;

	if (port->multicast.qp)
		close_qp(&port->multicast);
	host->log(host->arg, RIPC_LOG_WARN, "verbs: multicast datagrams are no longer received");
}

/*
 * Makes a new queue pair: it is documented nowhere whether the groups of an old one outlive its
 * reset.
 */
void ripc__verbs_multicast_revive(struct verbs_port *port)
{
	struct verbs_multicast *many = &port->multicast;
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

	ripc__verbs_multicast_gid(number, gid);
	group.imr_multiaddr.s_addr = ip_of(gid);
	return setsockopt(port->multicast.fd, IPPROTO_IP,
		joins ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &group, sizeof(group)) ? -errno : 0;
}

static int join(struct verbs_port *port, uint64_t number)
{
	struct verbs_multicast *many = &port->multicast;
	int error = change_group(port, number, true);

	if (error)
		return error;
	error = attach(many, number);
	if (error)
		(void)change_group(port, number, false);
	return error;
}

static bool is_heard(const struct verbs_multicast *many, uint64_t number)
{
	for (uint32_t i = 0; i < many->n_numbers; i++) {
		if (many->numbers[i] == number)
			return true;
	}
	return false;
}

int ripc__verbs_multicast_hear(void *state, const void *partner, uint64_t number)
{
	struct verbs_port *port = state;
	struct verbs_multicast *many = &port->multicast;
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

void ripc__verbs_multicast_ignore(void *state, uint64_t number)
{
	struct verbs_port *port = state;
	struct verbs_multicast *many = &port->multicast;
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
