/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs backend, InfiniBand and RoCE: its table, its options, its device, its port, and routes.
 *
 * The network checks bytes from end to end (the invariant CRC, IBA 7.8), hence core adds no
 * checksum of its own.
 */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "backends/options.h"
#include "ripc/ripc.h"
#include "util/bytes.h"
#include "util/options.h"
#include "util/system/cancel.h"

#define QKEY_MASK       0x7fffffffu
#define RXE_VENDOR      0xffffffu /* of linux/drivers/infiniband/sw/rxe/rxe_param.h */

static int read_options(const struct ripc__host *host, struct verbs_device *dev,
		struct ripc__rdma_wish *wish)
{
	struct verbs_options options = {.receives = VERBS_RING, .connections = VERBS_CONNECTIONS,
		.gid_index = UINT32_MAX};
	int error = ripc__options_read(host, ripc__verbs_options, &options);

	if (error)
		return error;
	dev->receives = options.receives;
	dev->connections = options.connections;
	*wish = (struct ripc__rdma_wish){
		.transport = IBV_TRANSPORT_IB,
		.device = options.device,
		.gid_index = options.gid_index == UINT32_MAX ? -1 : (int)options.gid_index,
	};
	return 0;
}

static int probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	struct ripc__rdma_wish wish;
	struct verbs_device dev = {.rdma.host = *host};
	int error = read_options(host, &dev, &wish);

	if (error) {
		snprintf(why, 256, "an option of the verbs backend is wrong");
		snprintf(remedy, 256,
			"correct verbs.receives, verbs.connections or verbs.gid_index");
		return error;
	}
	error = ripc__rdma_device_open(&dev.rdma, &wish, why, remedy);
	if (!error)
		ripc__rdma_device_close(&dev.rdma);
	return error;
}

/*
 * rxe (Linux 6.1, check_ack() in rxe_comp.c) reports the success of a read whose answers arrive
 * out of order, as after a link was down: no byte of it need have arrived.
 */
static bool is_dubious(const struct ripc__rdma_device *rdma)
{
	return rdma->attr.vendor_id == RXE_VENDOR;
}

static int open_device(struct verbs_device *dev, const struct ripc__host *host)
{
	char why[256], remedy[256];
	struct ripc__rdma_wish wish;
	int error = read_options(host, dev, &wish);

	if (error)
		return error;
	dev->rdma.host = *host;
	error = ripc__rdma_device_open(&dev->rdma, &wish, why, remedy);
	if (error) {
		host->log(host->arg, RIPC_LOG_WARN, "verbs: %s", why);
		return error;
	}
	return ripc__rdma_device_start(&dev->rdma);
}

static void attr_fill(const struct verbs_port *port, struct ripc__attr *attr)
{
	*attr = (struct ripc__attr){
		.caps = RIPC_CAP_READ | RIPC_CAP_WRITE | RIPC_CAP_REGISTERED | RIPC_CAP_INTACT |
			(is_dubious(port->rdma) ? RIPC_CAP_DUBIOUS : 0),
		.fd = port->epoll_fd,
		/*
		 * Pulled bytes of four senders at once (core grants to no more) and as much again
		 * for shorts fit the receive buffers. No bound for all together: core would apply
		 * the least of all devices to each, and long messages are read, not pulled.
		 */
		.peer_buffer = port->dev.receives / 8 * (port->mtu_bytes - VERBS_PREAMBLE),
		.read_max = port->rdma->message_max,
	};
}

/* ---- the port ---------------------------------------------------------------------------- */

/* Room for all requests that can be posted: the queue never overflows. */
static int open_queue(struct verbs_port *port)
{
	uint32_t many = port->dev.receives; /* of the multicast queue pair */

	return ripc__rdma_queue_open(&port->queue, port->rdma,
		port->ring.count + RIPC__RDMA_READS + many);
}

static int draw_numbers(struct verbs_port *port)
{
	const struct ripc__rdma_device *rdma = port->rdma;

	if (getrandom(port->secret, sizeof(port->secret), 0) != sizeof(port->secret))
		return -EIO;
	port->self = (struct verbs_addr){.lid = rdma->kind == RIPC__RDMA_INFINIBAND ? rdma->lid : 0,
		.kind = (uint8_t)rdma->kind, .mtu = rdma->mtu,
		.qkey = (uint32_t)ripc__rdma_nonce(port->secret, &port->counter) & QKEY_MASK};
	memcpy(port->self.gid, &rdma->gid, sizeof(port->self.gid));
	return 0;
}

static int port_init(struct verbs_port *port)
{
	port->rdma = &port->dev.rdma;
	port->mtu_bytes = 128u << port->rdma->mtu;
	list_init(&port->paths);
	list_init(&port->paths_used);
	list_init(&port->links);
	list_init(&port->opened);
	ripc__map_init(&port->paths_by_gid, port->rdma->host.context);
	ripc__map_init(&port->links_by_addr, port->rdma->host.context);
	ripc__rdma_reads_init(&port->reads);
	return draw_numbers(port);
}

static int open_port(struct verbs_port *port)
{
	int error = port_init(port);

	if (!error)
		error = ripc__rdma_worker_open(&port->worker);
	if (error)
		return error;
	error = ripc__rdma_ring_open(&port->ring, port->rdma, port->dev.receives,
		VERBS_GRH + port->mtu_bytes);
	if (error)
		goto err_worker;
	error = ripc__verbs_sends_open(port);
	if (error)
		goto err_ring;
	error = open_queue(port);
	if (error)
		goto err_sends;
	error = ripc__verbs_qp_open(port);
	if (error)
		goto err_queue;
	error = ripc__verbs_wait_open(port);
	if (error)
		goto err_qp;
	port->self.qpn = port->qp->qp_num;
	return 0;
err_qp:
	ibv_destroy_qp(port->qp);
err_queue:
	ripc__rdma_queue_close(&port->queue);
err_sends:
	ripc__verbs_sends_close(port);
err_ring:
	ripc__rdma_ring_close(&port->ring);
err_worker:
	ripc__rdma_worker_close(port->worker);
	return error;
}

static int open_all(void *state, const struct ripc__host *host, struct ripc__attr *attr)
{
	struct verbs_port *port = state;
	int error = open_device(&port->dev, host);

	if (error)
		return error;
	error = open_port(port);
	if (error)
		ripc__rdma_device_close(port->rdma);
	else
		attr_fill(port, attr);
	return error;
}

static void close_all(void *state)
{
	struct verbs_port *port = state;

	port->no_more = true;
	ripc__rdma_worker_close(port->worker);
	ripc__verbs_links_close(port);
	ripc__verbs_wait_close(port);
	ripc__verbs_sends_finish(port);
	ripc__verbs_multicast_close(port);
	ibv_destroy_qp(port->qp);
	ripc__rdma_queue_close(&port->queue);
	ripc__verbs_paths_close(port);
	ripc__verbs_sends_close(port);
	ripc__rdma_ring_close(&port->ring);
	ripc__rdma_device_close(port->rdma);
}

/* ---- routes ------------------------------------------------------------------------------ */

/*
 * Partners as core knows them. A route is a path that several routes share, and a number at its
 * end; memory is lent and read by a link (link.c).
 */

static int port_addr(void *state, uint8_t blob[RIPC_ADDR_MAX])
{
	const struct verbs_port *port = state;

	if (port->rdma->is_lost)
		return -ENETDOWN;
	if (port->rdma->lacks_address)
		return -EADDRNOTAVAIL;
	ripc__verbs_addr_encode(&port->self, blob);
	return VERBS_ADDR_LEN;
}

/* Different kinds of GIDs belong to networks that are not joined. */
static bool can_reach(const struct verbs_addr *self, const struct verbs_addr *other)
{
	return self->kind == other->kind && (self->kind != RIPC__RDMA_ROCE_V2 ||
		ripc__rdma_is_v4(self->gid) == ripc__rdma_is_v4(other->gid));
}

static int addr_choose(void *state, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	const struct verbs_port *port = state;
	struct verbs_addr own;
	int error = ripc__verbs_addr_decode(blob, len, &own);

	(void)host; /* GIDs are addresses */
	if (error)
		return error;
	if (!can_reach(&port->self, &own))
		return -EHOSTUNREACH;
	ripc__verbs_addr_fill(&own, &port->self, addr);
	return 0;
}

static int peer_open(void *state, void *route_state, const struct ripc__addr *addr)
{
	struct verbs_port *port = state;
	struct verbs_route *route = route_state;
	struct ripc__rdma_opening *opening = NULL;
	struct verbs_path *path;
	struct verbs_addr own;
	int error = ripc__verbs_addr_decode(addr->blob, addr->len, &own);

	if (!error)
		error = ripc__verbs_path_get(port, &own, &path);
	if (error && error != -EINPROGRESS)
		return error;
	if (error == -EINPROGRESS) {
		opening = ripc__rdma_opening_new(&port->opening, route_state, addr);
		if (!opening) {
			ripc__verbs_path_put(path);
			return -ENOMEM;
		}
		list_append(&path->waiting, &opening->node);
	}
	*route = (struct verbs_route){.path = path, .qpn = own.qpn, .qkey = own.qkey,
		.mtu = own.mtu < port->self.mtu ? own.mtu : port->self.mtu,
		.opening = opening ? opening->number : 0};
	return error;
}

static void peer_close(void *state, void *route_state)
{
	struct verbs_port *port = state;
	struct verbs_route *route = route_state;

	ripc__rdma_opening_forget(&route->path->waiting, &port->opened, route->opening);
	ripc__verbs_path_put(route->path);
	route->path = NULL;
}

void ripc__verbs_route_where(const struct verbs_port *port, const struct verbs_route *route,
		struct verbs_addr *addr)
{
	*addr = (struct verbs_addr){.qpn = route->qpn, .qkey = route->qkey,
		.lid = route->path->attr.dlid, .kind = port->self.kind, .mtu = route->mtu};
	memcpy(addr->gid, &route->path->attr.grh.dgid, sizeof(addr->gid));
}

static void where(void *port, const void *route, struct ripc__where *where)
{
	struct verbs_addr own;

	ripc__verbs_route_where(port, route, &own);
	ripc__verbs_addr_fill(&own, &((const struct verbs_port *)port)->self, &where->addr);
	where->reader = 0;
}

/* The MTU may differ: a route has the lesser of both. */
static bool peer_matches(void *state, const void *route_state, const struct ripc__addr *from)
{
	const struct verbs_route *route = route_state;
	const uint8_t *blob = from->blob;

	(void)state;
	return from->len == VERBS_ADDR_LEN && get32(blob + 8) == route->qpn &&
		get32(blob + 12) == route->qkey && get16(blob + 4) == route->path->attr.dlid &&
		memcmp(blob + 16, &route->path->attr.grh.dgid, 16) == 0;
}

/* ---- memory, reads and writes ------------------------------------------------------------ */

static int link_of_route(struct verbs_port *port, const struct verbs_route *route,
		struct verbs_link **link)
{
	struct verbs_addr remote;

	ripc__verbs_route_where(port, route, &remote);
	return ripc__verbs_link_get(port, &remote, link);
}

static int mem_reg(void *state, void *route, void *mem, size_t len, bool source, void **region)
{
	RIPC__HOLD_CANCEL;
	struct iovec range = {.iov_base = mem, .iov_len = len};
	struct verbs_link *link;
	int error = link_of_route(state, route, &link);

	return error ? error : ripc__rdma_region_open(link->space, &range,
		source ? 0 : IBV_ACCESS_LOCAL_WRITE, region);
}

static int mem_open(void *state, void *route, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	RIPC__HOLD_CANCEL;
	struct iovec range = {.iov_base = mem, .iov_len = len};
	struct verbs_link *link;
	int error = link_of_route(state, route, &link);

	return error ? error : ripc__rdma_key_open(link->space, &range, writable, key);
}

/* No event follows, however the key is closed: the device is done with the memory. */
static int mem_close(void *state, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie)
{
	RIPC__HOLD_CANCEL;
	struct verbs_port *port = state;
	const struct ripc__rdma_space *space = ripc__rdma_key_space(port->rdma, key);
	int error = ripc__rdma_key_close(port->rdma, key);

	(void)how;
	(void)cookie;
	if (error == -EIO)
		ripc__verbs_links_stop(port, space);
	return error == -EIO ? 0 : error;
}

static int move(void *state, void *route, const struct ripc__move *move)
{
	RIPC__HOLD_CANCEL;
	struct verbs_link *link;
	int error = link_of_route(state, route, &link);

	if (!error)
		error = ripc__rdma_move(&link->flow, move);
	if (!error)
		ripc__verbs_link_taken(link);
	return error;
}

const struct ripc__backend ripc__verbs_backend = {
	.name = "verbs",
	.id = 4,
	.port_size = sizeof(struct verbs_port),
	.route_size = sizeof(struct verbs_route),
	.is_sealable = true,
	.net = {
		.probe = probe,
		.open = open_all,
		.close = close_all,
		.address = port_addr,
		.arm = ripc__verbs_wait_arm,
		.wait = ripc__verbs_wait,
		.wake = ripc__verbs_wake,
	},
	.route = {
		.choose = addr_choose,
		.text = ripc__verbs_addr_text,
		.open = peer_open,
		.close = peer_close,
		.where = where,
		.mtu = ripc__verbs_route_mtu,
		.matches = peer_matches,
	},
	.datagrams = {
		.send = ripc__verbs_send,
		.poll = ripc__verbs_poll,
		.release = ripc__buffer_release,
	},
	.multicast = {
		.open = ripc__verbs_multicast_open,
		.hear = ripc__verbs_multicast_hear,
		.ignore = ripc__verbs_multicast_ignore,
	},
	.mem = {
		.reg = mem_reg,
		.dereg = ripc__rdma_mem_dereg,
		.open = mem_open,
		.close = mem_close,
	},
	.remote = {.move = move},
};
