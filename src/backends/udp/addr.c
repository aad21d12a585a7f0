/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses and routes of the udp backend: the meaning of a record's blob, the text form of an
 * address, and the properties of the kernel's route to a partner (its MTU, the source address
 * that it chooses), found by connecting a scratch socket, which sends nothing.
 *
 * A blob is: kind (1), 0, UDP port (little-endian). The host is the sender of the answer.
 */
#include "udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/bytes.h"

#define BLOB_KIND 1
#define BLOB_LEN  4

static bool is_v4(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_V4MAPPED(ip);
}

static bool is_any(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_UNSPECIFIED(ip);
}

/* Can it be the address of one host, without naming an interface? */
static bool is_host(const struct in6_addr *ip)
{
	if (is_v4(ip))
		return ip->s6_addr[12] != 0 && ip->s6_addr[12] < 224;
	return !is_any(ip) && !IN6_IS_ADDR_MULTICAST(ip) && !IN6_IS_ADDR_LINKLOCAL(ip);
}

void ripc__udp_addr_fill(struct ripc__addr *addr, const struct udp_addr *own)
{
	memcpy(addr->host, &own->at.sin6_addr, sizeof(addr->host));
	addr->len = sizeof(*own);
	memcpy(addr->blob, own, sizeof(*own));
}

int ripc__udp_port_addr(void *port, uint8_t blob[RIPC_ADDR_MAX])
{
	blob[0] = BLOB_KIND;
	blob[1] = 0;
	put16(blob + 2, ((struct udp_port *)port)->number);
	return BLOB_LEN;
}

int ripc__udp_addr_choose(void *port, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	struct udp_addr own = {.at.sin6_family = AF_INET6};

	if (len != BLOB_LEN || blob[0] != BLOB_KIND || blob[1] != 0 || !get16(blob + 2))
		return -EBADMSG;
	memcpy(&own.at.sin6_addr, host, sizeof(own.at.sin6_addr));
	own.at.sin6_port = htons(get16(blob + 2));
	if (!is_host(&own.at.sin6_addr))
		return -EADDRNOTAVAIL;
	if (((struct udp_port *)port)->family == AF_INET && !is_v4(&own.at.sin6_addr))
		return -EAFNOSUPPORT;
	ripc__udp_addr_fill(addr, &own);
	return 0;
}

void ripc__udp_addr_text(const struct ripc__addr *addr, char text[64])
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
	if (is_v4(&own.at.sin6_addr)) {
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
	struct sockaddr_in6 name;
	const struct sockaddr_in *in = (const struct sockaddr_in *)&name;
	socklen_t len = sizeof(name);

	if (getsockname(fd, (struct sockaddr *)&name, &len))
		return -errno;
	*source = name.sin6_addr;
	if (name.sin6_family == AF_INET) {
		memset(source, 0, sizeof(*source));
		memset(&source->s6_addr[10], 0xff, 2);
		memcpy(&source->s6_addr[12], &in->sin_addr, sizeof(in->sin_addr));
	}
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
	bool v4 = is_v4(&at->sin6_addr);
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

int ripc__udp_peer_open(void *port, void *state, const struct ripc__addr *addr)
{
	struct udp_peer *peer = state;
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
	*peer = (struct udp_peer){
		.to = own.at,
		.local = own.local,
		.mtu = mtu,
		.pinned = !is_any(&own.local) && memcmp(&own.local, &source, sizeof(source)) != 0,
	};
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

void ripc__udp_where(void *port, const void *state, struct ripc__where *where)
{
	const struct udp_peer *peer = state;
	const struct udp_addr own = {.at = peer->to, .local = peer->local};

	(void)port;
	ripc__udp_addr_fill(&where->addr, &own);
	where->reader = 0;
}

bool ripc__udp_peer_matches(void *port, const void *state, const struct ripc__addr *from)
{
	const struct udp_peer *peer = state;
	struct udp_addr own;

	(void)port;
	if (from->len != sizeof(own))
		return false;
	memcpy(&own, from->blob, sizeof(own));
	return own.at.sin6_port == peer->to.sin6_port &&
		own.at.sin6_scope_id == peer->to.sin6_scope_id &&
		memcmp(&own.at.sin6_addr, &peer->to.sin6_addr, sizeof(own.at.sin6_addr)) == 0;
}

void ripc__udp_peer_shrink(struct udp_peer *peer, uint32_t len)
{
	struct in6_addr source;
	uint16_t mtu = UDP_FLOOR;

	if (ripc__udp_ask_route(&peer->to, &mtu, &source))
		mtu = UDP_FLOOR;
	/* The route and the refusal may disagree for a moment; the refusal counts. */
	if (mtu >= len)
		mtu = (uint16_t)(len - 1);
	peer->mtu = mtu;
}
