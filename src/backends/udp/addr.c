/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses and routes of the udp backend: what a record's blob means, how an address reads in
 * words, and what the kernel's route to a partner carries (its MTU, the source address that it
 * chooses), found by connecting a scratch socket, which sends nothing.
 */
#include "udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/bytes.h"

static const struct in6_addr any;

static bool is_v4(const uint8_t ip[16])
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)ip);
}

static bool is_link_local(const uint8_t ip[16])
{
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)ip);
}

/* Can it be the address of one host, without saying through which interface? */
static bool is_host(const uint8_t ip[16])
{
	if (is_v4(ip))
		return ip[12] != 0 && ip[12] < 224;
	return memcmp(ip, &any, 16) != 0 && ip[0] != 0xff && !is_link_local(ip);
}

void ripc__udp_addr_fill(struct ripc__addr *addr, const struct udp_addr *own)
{
	memcpy(addr->host, own->ip, sizeof(addr->host));
	addr->len = sizeof(*own);
	memcpy(addr->blob, own, sizeof(*own));
}

int ripc__udp_addr_choose(void *state, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	const struct udp_port *port = state;
	struct udp_addr own = {0};

	if (len != UDP_BLOB_LEN || blob[0] != UDP_BLOB_KIND || blob[1] != 0 || !get16(blob + 2))
		return -EBADMSG;
	if (!is_host(host))
		return -EADDRNOTAVAIL;
	if (port->family == AF_INET && !is_v4(host))
		return -EAFNOSUPPORT;
	memcpy(own.ip, host, sizeof(own.ip));
	own.port = get16(blob + 2);
	ripc__udp_addr_fill(addr, &own);
	return 0;
}

void ripc__udp_addr_text(const struct ripc__addr *addr, char text[64])
{
	char ip[INET6_ADDRSTRLEN] = "?", interface[IF_NAMESIZE];
	struct udp_addr own;

	if (addr->len != sizeof(own)) {
		snprintf(text, 64, "?");
		return;
	}
	memcpy(&own, addr->blob, sizeof(own));
	if (is_v4(own.ip)) {
		inet_ntop(AF_INET, own.ip + 12, ip, sizeof(ip));
		snprintf(text, 64, "%s:%u", ip, own.port);
		return;
	}
	inet_ntop(AF_INET6, own.ip, ip, sizeof(ip));
	if (!own.scope)
		snprintf(text, 64, "[%s]:%u", ip, own.port);
	else if (if_indextoname(own.scope, interface))
		snprintf(text, 64, "[%.39s%%%s]:%u", ip, interface, own.port);
	else
		snprintf(text, 64, "[%.39s%%%u]:%u", ip, own.scope, own.port);
}

/* Fills a socket address of a family that can hold it. Returns its length. */
static socklen_t fill_sockaddr(const struct udp_addr *own, int family, void *to)
{
	if (family == AF_INET6) {
		struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

		in6.sin6_port = htons(own->port);
		in6.sin6_scope_id = own->scope;
		memcpy(&in6.sin6_addr, own->ip, sizeof(in6.sin6_addr));
		memcpy(to, &in6, sizeof(in6));
		return sizeof(in6);
	}
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(own->port)};

	memcpy(&in.sin_addr, own->ip + 12, sizeof(in.sin_addr));
	memcpy(to, &in, sizeof(in));
	return sizeof(in);
}

/* Reads which source address the kernel has chosen for a connected socket. */
static int read_source(int fd, uint8_t source[16])
{
	union {
		struct sockaddr_in6 in6;
		struct sockaddr_in in;
	} name;
	socklen_t len = sizeof(name);

	if (getsockname(fd, (struct sockaddr *)&name, &len))
		return -errno;
	if (name.in.sin_family == AF_INET6) {
		memcpy(source, &name.in6.sin6_addr, 16);
		return 0;
	}
	memset(source, 0, 10);
	memset(source + 10, 0xff, 2);
	memcpy(source + 12, &name.in.sin_addr, 4);
	return 0;
}

/*
 * What the kernel's route to an address takes, and from which address it would send. -EMFILE,
 * -ENFILE, -ENOMEM, -ENOBUFS: could not ask; anything else: there is no route.
 */
static int ask_route(const struct udp_addr *own, uint16_t *mtu, uint8_t source[16])
{
	bool v4 = is_v4(own->ip);
	int level = v4 ? IPPROTO_IP : IPPROTO_IPV6, name = v4 ? IP_MTU : IPV6_MTU;
	int fd, rc = 0, value, most = v4 ? UDP_PAYLOAD_MAX_4 : UDP_PAYLOAD_MAX_6;
	socklen_t len = sizeof(value);
	struct sockaddr_in6 to;

	fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&to, fill_sockaddr(own, v4 ? AF_INET : AF_INET6, &to)) ||
		getsockopt(fd, level, name, &value, &len))
		rc = -errno;
	if (!rc)
		rc = read_source(fd, source);
	close(fd);
	if (rc)
		return rc;
	value -= v4 ? UDP_HEADERS_4 : UDP_HEADERS_6;
	if (value > most)
		value = most;
	*mtu = (uint16_t)(value < UDP_PAYLOAD_FLOOR ? UDP_PAYLOAD_FLOOR : value);
	return 0;
}

static bool cannot_ask(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -ENOBUFS;
}

int ripc__udp_peer_open(void *state, void *peer_state, const struct ripc__addr *addr)
{
	const struct udp_port *port = state;
	struct udp_peer *peer = peer_state;
	uint8_t source[16] = {0};
	struct udp_addr own;
	uint16_t mtu = UDP_PAYLOAD_FLOOR;
	int rc;

	if (addr->len != sizeof(own))
		return -EINVAL;
	memcpy(&own, addr->blob, sizeof(own));
	rc = ask_route(&own, &mtu, source);
	if (rc && !cannot_ask(rc))
		return rc;
	fill_sockaddr(&own, port->family, &peer->to);
	memcpy(peer->local, own.local, sizeof(peer->local));
	peer->mtu = mtu;
	/* The ancillary data that names a source costs at each send, so only where it matters. */
	peer->pinned = memcmp(own.local, &any, 16) != 0 && memcmp(own.local, source, 16) != 0;
	peer->no_gso = false;
	return 0;
}

void ripc__udp_peer_close(void *port, void *peer)
{
	(void)port;
	(void)peer;
}

uint32_t ripc__udp_peer_mtu(void *port, void *peer)
{
	(void)port;
	return ((struct udp_peer *)peer)->mtu;
}

/* The partner's address in one form, whatever the socket is. */
static void read_peer(const struct udp_port *port, const struct udp_peer *peer,
		struct udp_addr *own)
{
	memset(own, 0, sizeof(*own));
	if (port->family == AF_INET6) {
		memcpy(own->ip, &peer->to.in6.sin6_addr, 16);
		own->scope = peer->to.in6.sin6_scope_id;
		own->port = ntohs(peer->to.in6.sin6_port);
		return;
	}
	memset(own->ip + 10, 0xff, 2);
	memcpy(own->ip + 12, &peer->to.in.sin_addr, 4);
	own->port = ntohs(peer->to.in.sin_port);
}

bool ripc__udp_peer_matches(void *state, const void *peer, const struct ripc__addr *from)
{
	struct udp_addr theirs, ours;

	if (from->len != sizeof(theirs))
		return false;
	memcpy(&theirs, from->blob, sizeof(theirs));
	read_peer(state, peer, &ours);
	return ours.port == theirs.port && ours.scope == theirs.scope &&
		memcmp(ours.ip, theirs.ip, 16) == 0;
}

void ripc__udp_peer_shrink(struct udp_port *port, struct udp_peer *peer, uint32_t len)
{
	uint8_t source[16];
	struct udp_addr own;
	uint16_t mtu = UDP_PAYLOAD_FLOOR;

	read_peer(port, peer, &own);
	if (ask_route(&own, &mtu, source))
		mtu = UDP_PAYLOAD_FLOOR;
	/* The route and the refusal may disagree for a moment; the refusal is what counts. */
	if (mtu >= len)
		mtu = (uint16_t)(len - 1);
	if (mtu < UDP_PAYLOAD_FLOOR)
		mtu = UDP_PAYLOAD_FLOOR;
	peer->mtu = mtu;
}
