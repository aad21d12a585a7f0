/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rdmacm backend, iWARP: its table, its options, its device, its port, and routes.
 *
 * The device is found by an IP address of this host that librdmacm knows to belong to one;
 * others connect to that address. The device is then opened anew: librdmacm's own context of it
 * serves all of a process, and is useless to its children after a fork.
 *
 * The network's own checksum may be switched off (as in iWARP in software), and bytes may be
 * sent again from memory that has changed since. Every message therefore has a checksum
 * (addr.c), and core checks read and written bytes.
 */
#include "internal.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "backends/options.h"
#include "ripc/ripc.h"
#include "util/bytes.h"
#include "util/options.h"
#include "util/system/cancel.h"
#include "util/system/remedy.h"

#define BACKLOG         128
#define SIW_VENDOR      0x626d74u /* of linux/drivers/infiniband/sw/siw/siw.h */
#define PEER_DATAGRAMS  12u /* datagrams: core's bound of bytes under way to a partner */
#define GOODBYE_MS      50  /* time for the last messages to leave */
#define UDP_TRIES       16  /* ports whose number may be taken */

/* ---- options ----------------------------------------------------------------------------- */

static int read_options(const struct ripc__host *host, struct rdmacm_options *options)
{
	*options = (struct rdmacm_options){.connections = RDMACM_CONNECTIONS,
		.receives = RDMACM_RECEIVES};
	return ripc__options_read(host, ripc__rdmacm_options, options);
}

/* ---- the device -------------------------------------------------------------------------- */

static bool is_wished(const struct rdmacm_options *options, struct ibv_device *device)
{
	if (device->transport_type != IBV_TRANSPORT_IWARP &&
			!(options->any && device->transport_type == IBV_TRANSPORT_IB))
		return false;
	return !options->device || strcmp(options->device, ibv_get_device_name(device)) == 0;
}

/* Is there any device? Without one librdmacm is not called: it would write to stderr. */
static bool any_device(const struct rdmacm_options *options)
{
	struct ibv_device **list;
	bool found = false;
	int n = 0;

	list = ibv_get_device_list(&n);
	for (int i = 0; list && i < n; i++)
		found |= is_wished(options, list[i]);
	if (list)
		ibv_free_device_list(list);
	return found;
}

/* Does this address belong to a wanted device? Then id is bound to it. */
static bool bind_to(const struct rdmacm_options *options, struct rdma_event_channel *channel,
		const struct rdmacm_addr *addr, struct rdma_cm_id **id)
{
	struct sockaddr_storage name;
	struct rdma_cm_id *made;

	ripc__rdmacm_to_socket(addr, &name);
	if (rdma_create_id(channel, &made, NULL, RDMA_PS_TCP))
		return false;
	if (rdma_bind_addr(made, (struct sockaddr *)&name) == 0 && made->verbs &&
			is_wished(options, made->verbs->device)) {
		*id = made;
		return true;
	}
	rdma_destroy_id(made);
	return false;
}

/* Finds the first address of this host that belongs to a device. */
static int find_address(const struct rdmacm_options *options, struct rdmacm_device *dev)
{
	struct ifaddrs *list;
	int error = -EADDRNOTAVAIL;

	if (getifaddrs(&list))
		return -errno;
	for (const struct ifaddrs *at = list; at && error; at = at->ifa_next) {
		struct rdmacm_addr addr;

		if (!at->ifa_addr || !(at->ifa_flags & IFF_UP) || at->ifa_flags & IFF_LOOPBACK ||
				ripc__rdmacm_from_socket(at->ifa_addr, &addr))
			continue;
		addr.port = 0;
		if (!bind_to(options, dev->channel, &addr, &dev->id))
			continue;
		dev->self = addr;
		dev->self.port = (uint16_t)options->port;
		dev->self.by_udp = options->udp;
		error = 0;
	}
	freeifaddrs(list);
	return error;
}

static int no_device(const struct rdmacm_options *options, char why[256], char remedy[256])
{
	snprintf(why, 256, options->device ? "there is no device \"%.64s\" of that kind" :
		"there is no iWARP device", options->device);
	snprintf(remedy, 256, "load its driver; in software: "
		"rdma link add siw0 type siw netdev INTERFACE");
	return -ENODEV;
}

/* Makes dev->channel and dev->id; device_close() ends them. */
static int device_find(const struct rdmacm_options *options, struct rdmacm_device *dev,
		char why[256], char remedy[256])
{
	int error;

	if (!any_device(options))
		return no_device(options, why, remedy);
	dev->channel = rdma_create_event_channel();
	if (!dev->channel) {
		error = errno ? -errno : -ENODEV;
		snprintf(why, 256, "the connection manager cannot be used: %s", strerror(-error));
		ripc__remedy(error, "modprobe rdma_ucm; check the permissions of "
			"/dev/infiniband/rdma_cm",
			remedy);
		return error;
	}
	error = find_address(options, dev);
	if (error) {
		rdma_destroy_event_channel(dev->channel);
		snprintf(why, 256, "no address of this host belongs to an iWARP device");
		snprintf(remedy, 256, "set the device's network interface up and give it an IP "
			"address");
	}
	return error;
}

static void device_close(struct rdmacm_device *dev)
{
	rdma_destroy_id(dev->id);
	rdma_destroy_event_channel(dev->channel);
}

static int probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	struct rdmacm_device dev = {0};
	struct ripc__addr addr;
	struct rdmacm_options options;
	char text[64];
	int error = read_options(host, &options);

	if (error) {
		snprintf(why, 256, "an option of the rdmacm backend is wrong");
		snprintf(remedy, 256, "correct rdmacm.connections, rdmacm.receives, rdmacm.port, "
			"rdmacm.any or rdmacm.udp");
		return error;
	}
	error = device_find(&options, &dev, why, remedy);
	if (error)
		return error;
	dev.self.port = 1; /* none yet, and a valid address has one */
	ripc__rdmacm_addr_fill(&dev.self, &addr);
	ripc__rdmacm_addr_text(&addr, text);
	*strrchr(text, ':') = '\0';
	snprintf(why, 256, "%.32s port %u, %s, address %s%s",
		ibv_get_device_name(dev.id->verbs->device), dev.id->port_num,
		dev.id->verbs->device->transport_type == IBV_TRANSPORT_IWARP ? "iWARP" :
		"InfiniBand or RoCE", text, options.udp ? ", short messages over UDP" : "");
	remedy[0] = '\0';
	device_close(&dev);
	return 0;
}

/* Opens a context of our own for the device that the address belongs to. */
static int device_use(struct rdmacm_device *dev, char why[256], char remedy[256])
{
	struct ibv_device *found = dev->id->verbs->device;
	char name[IBV_SYSFS_NAME_MAX + 8];
	struct ripc__rdma_wish wish = {.transport = found->transport_type, .device = name,
		.gid_index = -1};
	int error;

	snprintf(name, sizeof(name), "%s:%u", ibv_get_device_name(found), dev->id->port_num);
	error = ripc__rdma_device_open(&dev->rdma, &wish, why, remedy);
	if (error)
		return error;
	error = ripc__rdma_device_start(&dev->rdma);
	if (error)
		snprintf(why, 256, "no protection domain can be allocated");
	return error;
}

static int open_device(struct rdmacm_device *dev, const struct ripc__host *host)
{
	char why[256], remedy[256];
	struct rdmacm_options options;
	int error = read_options(host, &options);

	if (error)
		return error;
	*dev = (struct rdmacm_device){.rdma.host = *host, .connections = options.connections,
		.receives = options.receives};
	error = device_find(&options, dev, why, remedy);
	if (error)
		goto err_log;
	error = device_use(dev, why, remedy);
	if (error)
		goto err_close;
	dev->is_late = dev->rdma.attr.vendor_id == SIW_VENDOR;
	return 0;
err_close:
	device_close(dev);
err_log:
	host->log(host->arg, RIPC_LOG_WARN, "rdmacm: %s", why);
	return error;
}

static void close_device(struct rdmacm_device *dev)
{
	ripc__rdma_device_close(&dev->rdma);
	device_close(dev);
}

/* ---- datagrams over UDP ------------------------------------------------------------------ */

/*
 * Datagrams over UDP, by the udp backend, at the number of the port that is listened on: one
 * address thus serves both kinds. They cost no connection, and have UDP's checksum and losses;
 * memory is read by a connection, which is made for the first read.
 */

#define UDP (&ripc__udp_backend)

static int udp_open(struct rdmacm_port *port, struct ripc__attr *attr)
{
	int error = ripc__udp_open_at(&port->udp, &port->rdma->host, port->self.ip,
		port->self.port, attr);

	if (error)
		return error;
	/* A write has ended when the network has it, and a datagram over UDP would overtake it. */
	attr->caps |= RIPC_CAP_READ | RIPC_CAP_REGISTERED | RIPC_CAP_DUBIOUS;
	attr->read_max = port->rdma->message_max;
	return 0;
}

static int udp_peer_open(struct rdmacm_port *port, struct rdmacm_route *route,
		const struct rdmacm_addr *remote)
{
	struct udp_addr own = {.at = {.sin6_family = AF_INET6, .sin6_port = htons(remote->port)}};
	struct ripc__addr addr;

	memcpy(&own.at.sin6_addr, remote->ip, sizeof(remote->ip));
	ripc__udp_addr_fill(&addr, &own);
	*route = (struct rdmacm_route){0};
	return UDP->route.open(&port->udp, &route->udp, &addr);
}

static int udp_send(struct rdmacm_port *port, struct rdmacm_route *route,
		const struct ripc__tx *tx, uint32_t n)
{
	int sent = UDP->datagrams.send(&port->udp, &route->udp, tx, n);

	/* The address that the socket is bound to is not this host's any more. */
	if (sent == -EINVAL || sent == -EADDRNOTAVAIL || sent == -ENETUNREACH)
		return -ECONNRESET;
	return sent;
}

static void udp_addr(const struct sockaddr_in6 *at, struct rdmacm_addr *addr)
{
	*addr = (struct rdmacm_addr){.port = ntohs(at->sin6_port), .by_udp = true};
	memcpy(addr->ip, &at->sin6_addr, sizeof(addr->ip));
}

uint32_t ripc__rdmacm_udp_poll(struct rdmacm_port *port, struct ripc__event *events, uint32_t at,
		uint32_t n)
{
	uint32_t end = at + (uint32_t)UDP->datagrams.poll(&port->udp, events + at, n - at, false);

	for (; at < end; at++) {
		struct rdmacm_addr addr;
		struct udp_addr own;

		memcpy(&own, events[at].from->blob, sizeof(own));
		udp_addr(&own.at, &addr);
		ripc__rdmacm_addr_fill(&addr, &port->from[at]);
		events[at].from = &port->from[at];
	}
	return end;
}

static void stats(void *state, struct ripc__net_stats *stats)
{
	struct rdmacm_port *port = state;

	*stats = (struct ripc__net_stats){0};
	if (port->self.by_udp)
		UDP->net.stats(&port->udp, stats);
}

/* ---- the port ---------------------------------------------------------------------------- */

/*
 * Shares out the messages that can arrive among the connections. -ENOMEM: the ring is smaller
 * than wanted, and not enough for two.
 */
static int share_out(struct rdmacm_port *port)
{
	uint32_t held_back = port->ring.batch + RDMACM_BATCH;
	uint32_t sure = port->ring.count / 2 - held_back;
	struct rdmacm_device *dev = &port->dev;

	if (port->ring.count / 2 < held_back + 2 * RDMACM_WINDOW_MIN)
		return -ENOMEM;
	if (dev->connections * RDMACM_WINDOW_MIN > sure)
		dev->connections = sure / RDMACM_WINDOW_MIN;
	port->shared = port->shared_free = sure - dev->connections * RDMACM_WINDOW_MIN;
	return 0;
}

/* Opens the completion queue, with room for all requests that can be posted: it never overflows. */
static int open_cq(struct rdmacm_port *port)
{
	uint64_t entries = port->ring.count + (uint64_t)port->dev.connections * RDMACM_QUEUE;
	const struct ibv_device_attr *attr = &port->rdma->attr;

	if (attr->max_cqe > 0 && entries > (uint32_t)attr->max_cqe) {
		if ((uint32_t)attr->max_cqe < port->ring.count + 2 * RDMACM_QUEUE)
			return -ENOSPC;
		port->dev.connections = ((uint32_t)attr->max_cqe - port->ring.count) /
			RDMACM_QUEUE;
		entries = (uint32_t)attr->max_cqe;
	}
	return ripc__rdma_queue_open(&port->queue, port->rdma, entries);
}

static int open_srq(struct rdmacm_port *port)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = port->ring.count, .max_sge = 1}};
	int error;

	port->srq = ibv_create_srq(port->rdma->pd, &attr);
	if (!port->srq)
		return errno ? -errno : -ENOMEM;
	error = ripc__rdma_ring_start(&port->ring, NULL, port->srq);
	if (error)
		ibv_destroy_srq(port->srq);
	return error;
}

static int open_queues(struct rdmacm_port *port)
{
	int error = ripc__rdma_ring_open(&port->ring, port->rdma, port->dev.receives,
		RDMACM_BUFFER);

	if (error)
		return error;
	error = share_out(port);
	if (!error)
		error = open_cq(port);
	if (error)
		goto err_ring;
	error = open_srq(port);
	if (error)
		goto err_cq;
	return 0;
err_cq:
	ripc__rdma_queue_close(&port->queue);
err_ring:
	ripc__rdma_ring_close(&port->ring);
	return error;
}

static void close_queues(struct rdmacm_port *port)
{
	ibv_destroy_srq(port->srq);
	ripc__rdma_queue_close(&port->queue);
	ripc__rdma_ring_close(&port->ring);
}

static int listen_on(struct rdmacm_port *port)
{
	struct sockaddr_storage name;
	int error;

	port->channel = rdma_create_event_channel();
	if (!port->channel)
		return errno ? -errno : -ENODEV;
	ripc__rdmacm_to_socket(&port->dev.self, &name);
	if (rdma_create_id(port->channel, &port->listener, NULL, RDMA_PS_TCP)) {
		error = -errno;
		goto err_channel;
	}
	if (rdma_bind_addr(port->listener, (struct sockaddr *)&name) ||
			rdma_listen(port->listener, BACKLOG)) {
		error = -errno;
		goto err_listener;
	}
	port->self = port->dev.self;
	port->self.port = ntohs(rdma_get_src_port(port->listener));
	return 0;
err_listener:
	rdma_destroy_id(port->listener);
err_channel:
	rdma_destroy_event_channel(port->channel);
	return error;
}

static void listen_end(struct rdmacm_port *port)
{
	rdma_destroy_id(port->listener);
	rdma_destroy_event_channel(port->channel);
}

/* Opens the sockets; if datagrams are sent over UDP, at a number that is free there, too. */
static int open_sockets(struct rdmacm_port *port, struct ripc__attr *attr)
{
	uint32_t tries = UDP_TRIES;
	int error;

	do {
		error = listen_on(port);
		if (error || !port->self.by_udp)
			return error;
		error = udp_open(port, attr);
		if (error)
			listen_end(port);
	} while (error == -EADDRINUSE && !port->dev.self.port && --tries > 0);
	return error;
}

static void close_sockets(struct rdmacm_port *port)
{
	if (port->self.by_udp)
		UDP->net.close(&port->udp);
	listen_end(port);
}

static int port_init(struct rdmacm_port *port)
{
	port->rdma = &port->dev.rdma;
	list_init(&port->links);
	list_init(&port->conns);
	list_init(&port->wanting);
	list_init(&port->opened);
	list_init(&port->spare);
	list_init(&port->fences);
	list_init(&port->fenced);
	ripc__map_init(&port->links_by_addr, port->rdma->host.context);
	ripc__map_init(&port->conns_by_qpn, port->rdma->host.context);
	ripc__rdma_reads_init(&port->reads);
	ripc__rdmacm_list_init(&port->list);
	return getrandom(port->secret, sizeof(port->secret), 0) == sizeof(port->secret) ? 0 : -EIO;
}

static int open_port(struct rdmacm_port *port, struct ripc__attr *attr)
{
	int error = port_init(port);

	if (!error)
		error = ripc__rdma_worker_open(&port->worker);
	if (error)
		return error;
	error = open_queues(port);
	if (error)
		goto err_worker;
	error = open_sockets(port, attr);
	if (error)
		goto err_queues;
	error = ripc__rdmacm_wait_open(port);
	if (error)
		goto err_sockets;
	attr->fd = port->sleeper.epoll_fd;
	return 0;
err_sockets:
	close_sockets(port);
err_queues:
	close_queues(port);
err_worker:
	ripc__rdma_worker_close(port->worker);
	return error;
}

/* Sends BYE on all connections and lets it leave, and with it the earlier messages. */
static void say_goodbye(struct rdmacm_port *port)
{
	bool waits = true;

	list_for_each(node, &port->conns)
		ripc__rdmacm_conn_close(list_entry(node, struct rdmacm_conn, node));
	for (int ms = 0; waits && ms < GOODBYE_MS; ms++) {
		waits = false;
		(void)ripc__rdmacm_fill(port);
		list_for_each(node, &port->conns) {
			struct rdmacm_conn *conn = list_entry(node, struct rdmacm_conn, node);

			waits |= conn->bye && !conn->bye_gone && !conn->unwanted;
		}
		if (waits)
			poll(NULL, 0, 1);
	}
}

static void port_end(struct rdmacm_port *port)
{
	say_goodbye(port);
	ripc__rdma_worker_close(port->worker);
	ripc__rdmacm_conns_close(port);
	ripc__rdmacm_links_close(port);
	ripc__rdmacm_fences_close(port);
	ripc__sleeper_close(&port->sleeper);
	close_sockets(port);
	close_queues(port);
}

static int open_all(void *state, const struct ripc__host *host, struct ripc__attr *attr)
{
	struct rdmacm_port *port = state;
	struct ripc__attr found = {
		.caps = RIPC_CAP_READ | RIPC_CAP_WRITE | RIPC_CAP_REGISTERED | RIPC_CAP_INTACT |
			RIPC_CAP_DUBIOUS,
		/* Credit bounds the messages under way; more would only wait here. */
		.peer_buffer = PEER_DATAGRAMS * (RDMACM_BUFFER - RDMACM_PREAMBLE),
	};
	int error = open_device(&port->dev, host);

	if (error)
		return error;
	found.read_max = port->dev.rdma.message_max;
	error = open_port(port, &found);
	if (error)
		close_device(&port->dev);
	else
		*attr = found;
	return error;
}

static void close_all(void *state)
{
	struct rdmacm_port *port = state;
	bool is_guarded = ripc__rdmacm_is_guarded(port);
	sigset_t before;

	port->closing = true;
	if (is_guarded)
		ripc__rdma_guard_begin(&before);
	port_end(port);
	if (is_guarded)
		ripc__rdma_guard_end(&before);
	close_device(&port->dev);
}

/* ---- routes ------------------------------------------------------------------------------ */

/*
 * Partners as core knows them, and their operations: datagrams, memory for them to reach, reads
 * and writes. A route is a link (link.c) that several routes share; it is ready as soon as there
 * is a connection, and stays when the connection is closed as unused. With datagrams over UDP it
 * is ready at once, and has a link only when memory is opened or read.
 */

/* Is it an address of this host? The device may have lost it since. */
static bool is_of_this_host(const struct rdmacm_addr *addr)
{
	struct rdmacm_addr any_port = *addr;
	struct sockaddr_storage name;
	bool gone;
	int fd;

	any_port.port = 0;
	ripc__rdmacm_to_socket(&any_port, &name);
	fd = socket(name.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true; /* not known to be gone */
	gone = bind(fd, (struct sockaddr *)&name, sizeof(name)) && errno == EADDRNOTAVAIL;
	close(fd);
	return !gone;
}

static int port_addr(void *state, uint8_t blob[RIPC_ADDR_MAX])
{
	const struct rdmacm_port *port = state;

	if (port->rdma->is_lost)
		return -ENETDOWN;
	if (!is_of_this_host(&port->self))
		return -EADDRNOTAVAIL;
	ripc__rdmacm_addr_encode(&port->self, blob);
	return RDMACM_ADDR_LEN;
}

static int addr_choose(void *state, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	const struct rdmacm_port *port = state;
	struct rdmacm_addr own;
	int error = ripc__rdmacm_addr_decode(blob, len, &own);

	(void)host; /* the answer may have come by another network */
	if (error)
		return error;
	if (ripc__rdma_is_v4(own.ip) != ripc__rdma_is_v4(port->self.ip) ||
			own.by_udp != port->self.by_udp)
		return -EHOSTUNREACH;
	ripc__rdmacm_addr_fill(&own, addr);
	return 0;
}

static struct rdmacm_conn *ready_conn(const struct rdmacm_link *link)
{
	return link->conn && link->conn->state == RDMACM_READY ? link->conn : NULL;
}

/* Opens a route whose datagrams use a connection. */
static int open_by_link(struct rdmacm_port *port, struct rdmacm_route *route,
		const struct ripc__addr *addr, const struct rdmacm_addr *remote)
{
	struct ripc__rdma_opening *opening = NULL;
	struct rdmacm_link *link;
	int error = ripc__rdmacm_link_get(port, remote, false, &link);

	if (error)
		return error;
	if (!ready_conn(link)) {
		opening = ripc__rdma_opening_new(&port->opening, route, addr);
		port->look |= !opening; /* the link may be useless */
		if (!opening)
			return -ENOMEM;
	}
	link->n_routes++;
	*route = (struct rdmacm_route){.link = link, .opening = opening ? opening->number : 0};
	if (opening && ripc__rdmacm_link_is_held(link)) {
		ripc__rdma_opening_end(opening, link->error, &port->opened);
	} else if (opening) {
		list_append(&link->openings, &opening->node);
		ripc__rdmacm_link_want(link);
	}
	route->resets = link->resets;
	return opening ? -EINPROGRESS : 0;
}

static int peer_open(void *state, void *route, const struct ripc__addr *addr)
{
	struct rdmacm_port *port = state;
	struct rdmacm_addr remote;
	int error = ripc__rdmacm_addr_decode(addr->blob, addr->len, &remote);

	if (error)
		return error;
	return port->self.by_udp ? udp_peer_open(port, route, &remote) :
		open_by_link(port, route, addr, &remote);
}

static void remote_of(const struct rdmacm_port *port, const struct rdmacm_route *route,
		struct rdmacm_addr *remote)
{
	if (port->self.by_udp)
		udp_addr(&route->udp.to, remote);
	else
		*remote = route->link->remote;
}

static void peer_close(void *state, void *route_state)
{
	struct rdmacm_port *port = state;
	struct rdmacm_route *route = route_state;
	struct rdmacm_link *link = route->link;

	if (!link)
		return;
	if (!port->self.by_udp)
		ripc__rdma_opening_forget(&link->openings, &port->opened, route->opening);
	route->link = NULL;
	if (--link->n_routes == 0)
		port->look = true; /* the link may be useless now */
}

static void where(void *port, const void *route, struct ripc__where *where)
{
	struct rdmacm_addr remote;

	remote_of(port, route, &remote);
	ripc__rdmacm_addr_fill(&remote, &where->addr);
	where->reader = 0;
}

static uint32_t peer_mtu(void *state, void *route)
{
	struct rdmacm_port *port = state;

	if (port->self.by_udp)
		return ripc__udp_route_mtu(&port->udp, &((struct rdmacm_route *)route)->udp);
	return RDMACM_BUFFER - RDMACM_PREAMBLE;
}

static bool peer_matches(void *port, const void *route, const struct ripc__addr *from)
{
	const uint8_t *blob = from->blob;
	struct rdmacm_addr remote;

	remote_of(port, route, &remote);
	return from->len == RDMACM_ADDR_LEN && blob[0] == RDMACM_VERSION &&
		blob[1] == remote.by_udp && get16(blob + 2) == remote.port &&
		memcmp(blob + 4, remote.ip, sizeof(remote.ip)) == 0;
}

/* ---- datagrams --------------------------------------------------------------------------- */

static int send_datagrams(void *state, void *route_state, const struct ripc__tx *tx, uint32_t n)
{
	RIPC__HOLD_CANCEL;
	struct rdmacm_port *port = state;
	struct rdmacm_route *route = route_state;
	struct rdmacm_link *link = route->link;
	struct rdmacm_conn *conn;
	int sent;

	if (port->rdma->is_lost)
		return -ECONNRESET;
	if (port->self.by_udp)
		return udp_send(port, route, tx, n);
	conn = ready_conn(link);
	if (route->resets != link->resets || (!conn && ripc__rdmacm_link_is_held(link))) {
		route->resets = link->resets;
		return -ECONNRESET;
	}
	if (tx[0].len > RDMACM_BUFFER - RDMACM_PREAMBLE)
		return -EMSGSIZE;
	if (conn && ripc__rdmacm_credit(conn, RDMACM_RESERVE) < n) {
		/* There may be more credit by now. */
		ripc__rdmacm_fill(port);
		conn = ready_conn(link);
	}
	if (!conn) {
		link->missed = true;
		ripc__rdmacm_link_want(link);
		return 0;
	}
	sent = ripc__rdmacm_send_by(conn, tx, n);
	if (conn->failed)
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
	return sent;
}

/* ---- memory, reads and writes ------------------------------------------------------------ */

/* The route's link, for memory: the link and its protection domain are made if need be. */
static int peer_link(struct rdmacm_port *port, void *route_state, struct rdmacm_link **link)
{
	struct rdmacm_route *route = route_state;
	struct rdmacm_addr remote;
	int error;

	if (!route->link) {
		remote_of(port, route, &remote);
		error = ripc__rdmacm_link_get(port, &remote, false, &route->link);
		if (error)
			return error;
		route->link->n_routes++;
	}
	*link = route->link;
	return ripc__rdmacm_link_space(route->link);
}

static int mem_reg(void *port, void *route, void *mem, size_t len, bool source, void **region)
{
	RIPC__HOLD_CANCEL;
	struct iovec range = {.iov_base = mem, .iov_len = len};
	struct rdmacm_link *link;
	int error = peer_link(port, route, &link);

	/* On iWARP the answer to a read is a tagged message to our memory (RFC 5040, 5.2). */
	return error ? error : ripc__rdma_region_open(link->space, &range, source ? 0 :
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, region);
}

static int mem_open(void *port, void *route, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	RIPC__HOLD_CANCEL;
	struct iovec range = {.iov_base = mem, .iov_len = len};
	struct rdmacm_link *link;
	int error = peer_link(port, route, &link);

	if (!error)
		error = ripc__rdmacm_key_open(port, link->space, &range, writable, key);
	if (!error)
		ripc__rdmacm_link_used(link);
	return error;
}

static int move(void *port, void *route, const struct ripc__move *move)
{
	RIPC__HOLD_CANCEL;
	struct rdmacm_link *link;
	int error = peer_link(port, route, &link);

	if (!error)
		error = ripc__rdma_move(&link->flow, move);
	if (!error)
		ripc__rdmacm_link_taken(link);
	return error;
}

const struct ripc__backend ripc__rdmacm_backend = {
	.name = "rdmacm",
	.id = 5,
	.port_size = sizeof(struct rdmacm_port),
	.route_size = sizeof(struct rdmacm_route),
	.is_sealable = true,
	.net = {
		.probe = probe,
		.open = open_all,
		.close = close_all,
		.address = port_addr,
		.arm = ripc__rdmacm_wait_arm,
		.stats = stats,
	},
	.route = {
		.choose = addr_choose,
		.text = ripc__rdmacm_addr_text,
		.open = peer_open,
		.close = peer_close,
		.where = where,
		.mtu = peer_mtu,
		.matches = peer_matches,
	},
	.datagrams = {
		.send = send_datagrams,
		.poll = ripc__rdmacm_poll,
		.release = ripc__buffer_release, /* of either kind of buffer */
	},
	.mem = {
		.reg = mem_reg,
		.dereg = ripc__rdma_mem_dereg,
		.open = mem_open,
		.close = ripc__rdmacm_mem_close,
	},
	.remote = {.move = move},
};
