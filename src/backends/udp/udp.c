/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The udp backend: its table, its options, its socket, addresses and routes. One socket per port
 * serves all partners, over IPv6 and IPv4 at once, or over IPv4 alone if IPv6 is off, at all
 * addresses of the host (at one for the rdmacm backend, whose datagrams may use this socket, too).
 * The socket blocks, for the sake of wait; every other call passes MSG_DONTWAIT.
 *
 * Fragments are forbidden (IP_MTU_DISCOVER is DO): reassembly mixes up fragments under load (RFC
 * 4963) and one lost fragment loses all. DO and not PROBE: with DO the kernel heeds the routers'
 * "too big" and reports -EMSGSIZE, while with PROBE a large datagram would vanish on each such
 * path until core's own fall-back noticed. The cost, that a forged "too big" can shrink a route,
 * is bounded: see send_fragmented() in send.c.
 */
#include "udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "ripc/ripc.h"
#include "util/bytes.h"
#include "util/options.h"
#include "util/system/remedy.h"

#define RCVBUF_DEFAULT (8u << 20)
#define SNDBUF (4 << 20)
/*
 * Kernel memory that a datagram takes beside its bytes. Measured on Linux: 718 for 50 bytes,
 * 1,408 for 896, 1,104 for 1,200, 884 for 1,420 (buffers are rounded up to powers of two).
 */
#define DATAGRAM_OVERHEAD 1152
#define WAIT_US           100000
/* How long a wait lasts if wake does not work, because no loopback interface is up. */
#define WAIT_DEAF_US      10000

const struct ripc__option ripc__udp_options[] = {
	{"udp.gro", RIPC_SWITCH, 0, 0, offsetof(struct udp_device, gro)},
	{"udp.gso", RIPC_SWITCH, 0, 0, offsetof(struct udp_device, gso)},
	{"udp.port", RIPC_NUMBER, 0, 65535, offsetof(struct udp_device, port)},
	{"udp.rcvbuf", RIPC_NUMBER, 0, 1073741824, offsetof(struct udp_device, rcvbuf)},
	{0},
};

static int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

static void set_wait(int fd, long us)
{
	struct timeval limit = {.tv_usec = us};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

static int read_options(const struct ripc__host *host, struct udp_device *dev)
{
	*dev = (struct udp_device){.rcvbuf = RCVBUF_DEFAULT, .gso = true, .gro = true};
	return ripc__options_read(host, ripc__udp_options, dev);
}

/* A socket of one family; the descriptor or a negative errno. */
static int open_family(int family, const struct in6_addr *ip, uint32_t port)
{
	struct sockaddr_in6 self = {.sin6_family = AF_INET6, .sin6_addr = *ip,
		.sin6_port = htons((uint16_t)port)};
	struct sockaddr_in6 name;
	socklen_t len = ripc__udp_sockaddr(&self, family, &name);
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (family == AF_INET6)
		rc = set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (!rc && bind(fd, (struct sockaddr *)&name, len))
		rc = -errno;
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

static int open_socket(const struct in6_addr *ip, uint32_t port, int *family)
{
	int fd = open_family(AF_INET6, ip, port);

	*family = AF_INET6;
	if (fd == -EAFNOSUPPORT || fd == -EPROTONOSUPPORT || fd == -EADDRNOTAVAIL) {
		fd = open_family(AF_INET, ip, port);
		*family = AF_INET;
	}
	return fd;
}

uint32_t ripc__udp_grow_receive_buffer(int fd, uint32_t len)
{
	int granted = 0;
	socklen_t size = sizeof(granted);

	/* FORCE needs CAP_NET_ADMIN; without it net.core.rmem_max is the limit. */
	if (set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, (int)len))
		set_int(fd, SOL_SOCKET, SO_RCVBUF, (int)len);
	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &granted, &size))
		return 0;
	return (uint32_t)granted;
}

/* The queue of a slow link can hold all that was granted at once, to several partners. */
static void grow_send_buffer(int fd)
{
	if (set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, SNDBUF))
		set_int(fd, SOL_SOCKET, SO_SNDBUF, SNDBUF);
}

static int probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	struct udp_device dev;
	int family, fd, rc;
	uint32_t granted;

	remedy[0] = '\0';
	rc = read_options(host, &dev);
	if (rc) {
		snprintf(why, 256, "an option of the udp backend is wrong");
		snprintf(remedy, 256, "correct udp.port, udp.rcvbuf, udp.gso or udp.gro");
		return rc;
	}
	fd = open_socket(&in6addr_any, 0, &family);
	if (fd < 0) {
		snprintf(why, 256, "no UDP socket can be opened: %s", strerror(-fd));
		ripc__remedy(fd, "allow AF_INET or AF_INET6 sockets (seccomp or sandbox rules)",
			remedy);
		return fd;
	}
	/* The kernel counts twice the requested bytes, to allow for its own overhead. */
	granted = ripc__udp_grow_receive_buffer(fd, dev.rcvbuf) / 2;
	close(fd);
	snprintf(why, 256, "UDP over %s, receive buffer of %u KiB",
		family == AF_INET6 ? "IPv6 and IPv4" : "IPv4 (IPv6 is off)", granted / 1024);
	if (granted < dev.rcvbuf)
		snprintf(remedy, 256, "for fewer drops: sysctl -w net.core.rmem_max=%u",
			dev.rcvbuf);
	return 0;
}

static int set_options(struct udp_port *port)
{
	bool six = port->family == AF_INET6, tells_drops;
	int rc, off;
	socklen_t size = sizeof(off);

	rc = set_int(port->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	if (!rc && six)
		rc = set_int(port->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	if (!rc && six)
		rc = set_int(port->fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	if (!rc && !six)
		rc = set_int(port->fd, IPPROTO_IP, IP_PKTINFO, 1);
	if (rc)
		return rc;
	/* These options are missing from some kernels, and not needed. */
	tells_drops = !set_int(port->fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
	set_int(port->fd, IPPROTO_IP, IP_RECVERR, 1);
	if (six)
		set_int(port->fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
	/*
	 * Offload uses ancillary data. Emulators of other processors may deliver those in the
	 * wrong order of bytes. SO_RXQ_OVFL is older than offload; emulators lack it.
	 */
	if (port->dev.gro && tells_drops)
		set_int(port->fd, SOL_UDP, UDP_GRO, 1);
	port->gso = port->dev.gso && tells_drops &&
		getsockopt(port->fd, SOL_UDP, UDP_SEGMENT, &off, &size) == 0;
	port->granted = ripc__udp_grow_receive_buffer(port->fd, port->dev.rcvbuf);
	grow_send_buffer(port->fd);
	set_wait(port->fd, WAIT_US);
	return 0;
}

static int read_number(struct udp_port *port)
{
	struct sockaddr_in6 name;
	socklen_t len = sizeof(name);

	if (getsockname(port->fd, (struct sockaddr *)&name, &len))
		return -errno;
	/* The port is at the same place in both families' addresses. */
	port->number = ntohs(name.sin6_port);
	return 0;
}

/* Opens the port with the options of dev. */
static int open_port(struct udp_port *port, struct ripc__attr *attr)
{
	int rc = ripc__buffers_open(UDP_BATCH, UDP_BUFFER, &port->buffers);

	port->multicast_fd = -1;
	if (rc)
		return rc;
	port->fd = rc = open_socket(&port->dev.ip, port->dev.port, &port->family);
	if (rc < 0)
		goto close_buffers;
	rc = set_options(port);
	if (!rc)
		rc = read_number(port);
	if (rc)
		goto close_socket;
	*attr = (struct ripc__attr){.fd = port->fd, .receive_buffer = port->granted,
		.datagram_overhead = DATAGRAM_OVERHEAD};
	return 0;

close_socket:
	close(port->fd);
close_buffers:
	ripc__buffers_close(port->buffers);
	return rc;
}

static int open_anywhere(void *state, const struct ripc__host *host, struct ripc__attr *attr)
{
	struct udp_port *port = state;
	int rc = read_options(host, &port->dev);

	return rc ? rc : open_port(port, attr);
}

int ripc__udp_open_at(struct udp_port *port, const struct ripc__host *host, const uint8_t ip[16],
		uint32_t number, struct ripc__attr *attr)
{
	int rc = read_options(host, &port->dev);

	memcpy(&port->dev.ip, ip, sizeof(port->dev.ip));
	port->dev.port = number;
	return rc ? rc : open_port(port, attr);
}

static void close_port(void *state)
{
	struct udp_port *port = state;

	for (uint32_t i = port->next; i < port->n_arrivals; i++)
		ripc__buffer_put(port->arrivals[i].buffer, port->arrivals[i].left);
	close(port->fd);
	if (port->multicast_fd >= 0)
		close(port->multicast_fd);
	ripc__buffers_close(port->buffers);
}

/* A first error may be about an earlier datagram (receive.c); without the lock it is only noted. */
static int send_to_self(struct udp_port *port, const uint8_t ip[16])
{
	struct sockaddr_in6 self = {.sin6_family = AF_INET6, .sin6_port = htons(port->number)};
	struct sockaddr_in6 to;
	socklen_t len;

	memcpy(&self.sin6_addr, ip, sizeof(self.sin6_addr));
	len = ripc__udp_sockaddr(&self, port->family, &to);
	for (int tries = 0; tries < 2; tries++) {
		if (sendto(port->fd, NULL, 0, MSG_DONTWAIT, (struct sockaddr *)&to, len) >= 0)
			return 0;
		atomic_store_explicit(&port->failed, true, memory_order_relaxed);
	}
	return -1;
}

/*
 * Sends an empty datagram to the port itself, which poll drops; empty datagrams of others mean
 * nothing either. A host may have one loopback address or the other.
 */
static void wake(void *state)
{
	static const uint8_t v4[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1}, v6[16] = {[15] = 1};
	struct udp_port *port = state;

	if (send_to_self(port, v4) == 0)
		return;
	if (port->family == AF_INET6 && send_to_self(port, v6) == 0)
		return;
	set_wait(port->fd, WAIT_DEAF_US);
}

static void stats(void *state, struct ripc__net_stats *stats)
{
	struct udp_port *port = state;

	stats->overflows = port->kernel_dropped - port->kernel_told + port->dropped +
		port->multicast_dropped - port->multicast_told;
	stats->fallbacks = port->fallbacks;
	port->kernel_told = port->kernel_dropped;
	port->multicast_told = port->multicast_dropped;
	port->dropped = port->fallbacks = 0;
}

/* ---- addresses and routes ---------------------------------------------------------------- */

/*
 * The meaning of a record's blob, the text form of an address, and the properties of the kernel's
 * route to a partner (its MTU, the source address that it chooses), found by connecting a scratch
 * socket, which sends nothing.
 *
 * A blob is: kind (1), 0, UDP port (little-endian). The host is the sender of the answer.
 */

#define BLOB_KIND 1
#define BLOB_LEN  4

/* Can it be the address of one host, without naming an interface? */
static bool is_host(const struct in6_addr *ip)
{
	if (IN6_IS_ADDR_V4MAPPED(ip))
		return ip->s6_addr[12] != 0 && ip->s6_addr[12] < 224;
	return !IN6_IS_ADDR_UNSPECIFIED(ip) && !IN6_IS_ADDR_MULTICAST(ip) &&
		!IN6_IS_ADDR_LINKLOCAL(ip);
}

void ripc__udp_addr_fill(struct ripc__addr *addr, const struct udp_addr *own)
{
	memcpy(addr->host, &own->at.sin6_addr, sizeof(addr->host));
	addr->len = sizeof(*own);
	memcpy(addr->blob, own, sizeof(*own));
}

static int port_addr(void *port, uint8_t blob[RIPC_ADDR_MAX])
{
	blob[0] = BLOB_KIND;
	blob[1] = 0;
	put16(blob + 2, ((struct udp_port *)port)->number);
	return BLOB_LEN;
}

static int addr_choose(void *port, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	struct udp_addr own = {.at.sin6_family = AF_INET6};

	if (len != BLOB_LEN || blob[0] != BLOB_KIND || blob[1] != 0 || !get16(blob + 2))
		return -EBADMSG;
	memcpy(&own.at.sin6_addr, host, sizeof(own.at.sin6_addr));
	own.at.sin6_port = htons(get16(blob + 2));
	if (!is_host(&own.at.sin6_addr))
		return -EADDRNOTAVAIL;
	if (((struct udp_port *)port)->family == AF_INET &&
			!IN6_IS_ADDR_V4MAPPED(&own.at.sin6_addr))
		return -EAFNOSUPPORT;
	ripc__udp_addr_fill(addr, &own);
	return 0;
}

static void addr_text(const struct ripc__addr *addr, char text[64])
{
	char ip[INET6_ADDRSTRLEN] = "", interface[IF_NAMESIZE + 1] = "%";
	struct udp_addr own;
	uint16_t port;

	if (addr->len != sizeof(own)) {
		snprintf(text, 64, "?");
		return;
	}
	memcpy(&own, addr->blob, sizeof(own));
	port = ntohs(own.at.sin6_port);
	if (IN6_IS_ADDR_V4MAPPED(&own.at.sin6_addr)) {
		inet_ntop(AF_INET, &own.at.sin6_addr.s6_addr[12], ip, sizeof(ip));
		snprintf(text, 64, "%s:%u", ip, port);
		return;
	}
	inet_ntop(AF_INET6, &own.at.sin6_addr, ip, sizeof(ip));
	if (!own.at.sin6_scope_id)
		interface[0] = '\0';
	else if (!if_indextoname(own.at.sin6_scope_id, interface + 1))
		snprintf(interface + 1, IF_NAMESIZE, "%u", own.at.sin6_scope_id);
	/* A scoped address has no more than 39 characters: only v4-mapped ones are longer. */
	snprintf(text, 64, "[%.39s%s]:%u", ip, interface, port);
}

socklen_t ripc__udp_sockaddr(const struct sockaddr_in6 *at, int family, struct sockaddr_in6 *to)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = at->sin6_port};

	*to = *at;
	if (family == AF_INET6)
		return sizeof(*to);
	memcpy(&in.sin_addr, &at->sin6_addr.s6_addr[12], sizeof(in.sin_addr));
	memcpy(to, &in, sizeof(in));
	return sizeof(in);
}

/* Reads the source address that the kernel has chosen for a connected socket. */
static int read_source(int fd, struct in6_addr *source)
{
	struct sockaddr_in6 name, at;
	socklen_t len = sizeof(name);

	if (getsockname(fd, (struct sockaddr *)&name, &len))
		return -errno;
	ripc__udp_read_name(&name, &at);
	*source = at.sin6_addr;
	return 0;
}

static int mtu_to_len(int mtu, bool v4)
{
	int len = mtu - (v4 ? UDP_HEADERS_4 : UDP_HEADERS_6);

	if (len < UDP_FLOOR)
		return UDP_FLOOR;
	return len < UDP_MAX ? len : UDP_MAX;
}

int ripc__udp_ask_route(const struct sockaddr_in6 *at, uint16_t *len_max, struct in6_addr *source)
{
	bool v4 = IN6_IS_ADDR_V4MAPPED(&at->sin6_addr);
	int family = v4 ? AF_INET : AF_INET6;
	int level = v4 ? IPPROTO_IP : IPPROTO_IPV6, name = v4 ? IP_MTU : IPV6_MTU;
	struct sockaddr_in6 to;
	socklen_t to_len = ripc__udp_sockaddr(at, family, &to), size = sizeof(int);
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc, mtu = 0;

	if (fd < 0)
		return -errno;
	rc = connect(fd, (struct sockaddr *)&to, to_len) ? -errno : read_source(fd, source);
	if (!rc && getsockopt(fd, level, name, &mtu, &size))
		mtu = 0;
	close(fd);
	if (!rc)
		*len_max = (uint16_t)mtu_to_len(mtu, v4);
	return rc;
}

static bool could_not_ask(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -ENOBUFS;
}

static int peer_open(void *port, void *state, const struct ripc__addr *addr)
{
	struct udp_route *route = state;
	struct in6_addr source = {0};
	uint16_t mtu = UDP_FLOOR;
	struct udp_addr own;
	int rc;

	(void)port;
	if (addr->len != sizeof(own))
		return -EINVAL;
	memcpy(&own, addr->blob, sizeof(own));
	rc = ripc__udp_ask_route(&own.at, &mtu, &source);
	if (rc && !could_not_ask(rc))
		return rc;
	/*
	 * Naming the source address costs time at each send, hence it is only done if it
	 * matters.
	 */
	*route = (struct udp_route){
		.to = own.at,
		.local = own.local,
		.mtu = mtu,
		.pinned = !IN6_IS_ADDR_UNSPECIFIED(&own.local) &&
			memcmp(&own.local, &source, sizeof(source)) != 0,
	};
	return 0;
}

static void peer_close(void *port, void *route)
{
	(void)port;
	(void)route;
}

uint32_t ripc__udp_route_mtu(void *port, void *route)
{
	(void)port;
	return ((struct udp_route *)route)->mtu;
}

static void where(void *port, const void *state, struct ripc__where *where)
{
	const struct udp_route *route = state;
	const struct udp_addr own = {.at = route->to, .local = route->local};

	(void)port;
	ripc__udp_addr_fill(&where->addr, &own);
	where->reader = 0;
}

static bool peer_matches(void *port, const void *state, const struct ripc__addr *from)
{
	const struct udp_route *route = state;
	struct udp_addr own;

	(void)port;
	if (from->len != sizeof(own))
		return false;
	memcpy(&own, from->blob, sizeof(own));
	return own.at.sin6_port == route->to.sin6_port &&
		own.at.sin6_scope_id == route->to.sin6_scope_id &&
		memcmp(&own.at.sin6_addr, &route->to.sin6_addr, sizeof(own.at.sin6_addr)) == 0;
}

void ripc__udp_route_shrink(struct udp_route *route, uint32_t len)
{
	struct in6_addr source;
	uint16_t mtu = UDP_FLOOR;

	if (ripc__udp_ask_route(&route->to, &mtu, &source))
		mtu = UDP_FLOOR;
	/* The route and the refusal may disagree for a moment; the refusal counts. */
	if (mtu >= len)
		mtu = (uint16_t)(len - 1);
	route->mtu = mtu;
}

const struct ripc__backend ripc__udp_backend = {
	.name = "udp",
	.id = 1,
	.is_sealable = true,
	.port_size = sizeof(struct udp_port),
	.route_size = sizeof(struct udp_route),
	.net = {
		.probe = probe,
		.open = open_anywhere,
		.close = close_port,
		.address = port_addr,
		.arm = ripc__udp_wait_arm,
		.wait = ripc__udp_wait,
		.wake = wake,
		.stats = stats,
	},
	.route = {
		.choose = addr_choose,
		.text = addr_text,
		.open = peer_open,
		.close = peer_close,
		.where = where,
		.mtu = ripc__udp_route_mtu,
		.matches = peer_matches,
	},
	.datagrams = {
		.send = ripc__udp_send,
		.poll = ripc__udp_poll,
		.release = ripc__buffer_release,
	},
	.multicast = {
		.open = ripc__udp_multicast_open,
		.hear = ripc__udp_multicast_hear,
		.ignore = ripc__udp_multicast_ignore,
		.fd = ripc__udp_multicast_fd,
	},
};
