/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of the rdmacm backend: address blobs, the private data of connection requests and
 * their answers, and the preamble of every message (docs/protocol.md). All of it comes from
 * outside and is checked here. Each has a checksum of its own, because iWARP's may be switched
 * off and these bytes decide how much may be sent. A preamble's checksum also covers the bytes
 * behind it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "util/bytes.h"
#include "util/hash/blocksum.h"
#include "util/hash/crc32c.h"

#define MAGIC      0x43504952u /* "RIPC" */
#define WINDOW_MAX 0xffffu     /* messages; a larger number is garbled */

/* ---- addresses --------------------------------------------------------------------------- */

/* Can it be the address of one host, without naming an interface? */
static bool is_host(const uint8_t ip[16])
{
	static const uint8_t zeros[16];

	if (ripc__rdma_is_v4(ip))
		return ip[12] != 0 && ip[12] < 224;
	return memcmp(ip, zeros, sizeof(zeros)) != 0 && ip[0] != 0xff &&
		!(ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80);
}

void ripc__rdmacm_addr_encode(const struct rdmacm_addr *addr, uint8_t blob[RDMACM_ADDR_LEN])
{
	blob[0] = RDMACM_VERSION;
	blob[1] = addr->by_udp;
	put16(blob + 2, addr->port);
	memcpy(blob + 4, addr->ip, sizeof(addr->ip));
}

int ripc__rdmacm_addr_decode(const uint8_t *blob, size_t len, struct rdmacm_addr *addr)
{
	if (len != RDMACM_ADDR_LEN || blob[0] != RDMACM_VERSION || blob[1] > 1 ||
			!get16(blob + 2) || !is_host(blob + 4))
		return -EBADMSG;
	addr->by_udp = blob[1];
	addr->port = get16(blob + 2);
	memcpy(addr->ip, blob + 4, sizeof(addr->ip));
	return 0;
}

void ripc__rdmacm_addr_fill(const struct rdmacm_addr *own, struct ripc__addr *addr)
{
	memcpy(addr->host, own->ip, sizeof(addr->host));
	addr->len = RDMACM_ADDR_LEN;
	ripc__rdmacm_addr_encode(own, addr->blob);
}

bool ripc__rdmacm_addr_is(const struct rdmacm_addr *one, const struct rdmacm_addr *other)
{
	return one->port == other->port && one->by_udp == other->by_udp &&
		memcmp(one->ip, other->ip, sizeof(one->ip)) == 0;
}

bool ripc__rdmacm_addr_before(const struct rdmacm_addr *one, const struct rdmacm_addr *other)
{
	int order = memcmp(one->ip, other->ip, sizeof(one->ip));

	return order ? order < 0 : one->port < other->port;
}

void ripc__rdmacm_addr_text(const struct ripc__addr *addr, char text[64])
{
	char ip[INET6_ADDRSTRLEN];
	struct rdmacm_addr own;
	bool v4;

	if (ripc__rdmacm_addr_decode(addr->blob, addr->len, &own)) {
		snprintf(text, 64, "?");
		return;
	}
	v4 = ripc__rdma_is_v4(own.ip);
	inet_ntop(v4 ? AF_INET : AF_INET6, own.ip + (v4 ? 12 : 0), ip, sizeof(ip));
	snprintf(text, 64, v4 ? "%s:%u" : "[%s]:%u", ip, own.port);
}

void ripc__rdmacm_to_socket(const struct rdmacm_addr *addr, struct sockaddr_storage *name)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(addr->port)};

	memcpy(&at.sin6_addr, addr->ip, sizeof(addr->ip));
	memset(name, 0, sizeof(*name));
	ripc__udp_sockaddr(&at, ripc__rdma_is_v4(addr->ip) ? AF_INET : AF_INET6,
		(struct sockaddr_in6 *)name);
}

int ripc__rdmacm_from_socket(const struct sockaddr *name, struct rdmacm_addr *addr)
{
	struct rdmacm_addr read = {0};
	struct sockaddr_in6 at;

	if (name->sa_family != AF_INET && name->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	ripc__udp_read_name((const struct sockaddr_in6 *)name, &at);
	memcpy(read.ip, &at.sin6_addr, sizeof(read.ip));
	read.port = ntohs(at.sin6_port);
	if (!is_host(read.ip))
		return -EADDRNOTAVAIL;
	*addr = read;
	return 0;
}

/* ---- private data ------------------------------------------------------------------------ */

void ripc__rdmacm_hello_encode(const struct rdmacm_hello *hello, uint8_t bytes[RDMACM_HELLO_LEN])
{
	memset(bytes, 0, RDMACM_HELLO_LEN);
	put32(bytes, MAGIC);
	bytes[4] = RDMACM_VERSION;
	bytes[5] = hello->type;
	bytes[6] = hello->reason;
	put64(bytes + 8, hello->nonce);
	put64(bytes + 16, hello->last);
	put32(bytes + 24, hello->window);
	put32(bytes + 28, hello->buffer);
	ripc__rdmacm_addr_encode(&hello->addr, bytes + 32);
	put32(bytes + 52, ripc__crc32c(0, bytes, 52));
}

int ripc__rdmacm_hello_decode(const uint8_t *bytes, size_t len, struct rdmacm_hello *hello)
{
	struct rdmacm_hello read;

	/* Some networks pad private data with zeros. */
	if (len < RDMACM_HELLO_LEN || get32(bytes) != MAGIC || bytes[4] != RDMACM_VERSION ||
			bytes[7] || get32(bytes + 52) != ripc__crc32c(0, bytes, 52))
		return -EBADMSG;
	read = (struct rdmacm_hello){.type = bytes[5], .reason = bytes[6],
		.nonce = get64(bytes + 8), .last = get64(bytes + 16),
		.window = get32(bytes + 24), .buffer = get32(bytes + 28)};
	if (read.type < RDMACM_REQUEST || read.type > RDMACM_REFUSE ||
			ripc__rdmacm_addr_decode(bytes + 32, RDMACM_ADDR_LEN, &read.addr))
		return -EBADMSG;
	if (read.type == RDMACM_REFUSE ?
			read.reason < RDMACM_GLARE || read.reason > RDMACM_UNKNOWN :
			read.reason || !read.nonce || read.window <= RDMACM_RESERVE ||
			read.window > WINDOW_MAX || read.buffer < RDMACM_BUFFER)
		return -EBADMSG;
	*hello = read;
	return 0;
}

/* ---- preambles --------------------------------------------------------------------------- */

/* The checksum of all bytes behind itself; it comes first. */
static uint32_t message_sum(const uint8_t *bytes, size_t len)
{
	return ripc__blocksum_told(ripc__blocksum(bytes + 4, len - 4, len));
}

void ripc__rdmacm_preamble_encode(const struct rdmacm_preamble *preamble, uint8_t *bytes,
		size_t len)
{
	put32(bytes + 4, preamble->type);
	put32(bytes + 8, preamble->received);
	put32(bytes + 12, preamble->limit);
	put32(bytes, message_sum(bytes, len));
}

int ripc__rdmacm_preamble_decode(const uint8_t *bytes, size_t len,
		struct rdmacm_preamble *preamble)
{
	struct rdmacm_preamble read;

	if (len < RDMACM_PREAMBLE || get32(bytes) != message_sum(bytes, len))
		return -EBADMSG;
	read = (struct rdmacm_preamble){.type = get32(bytes + 4), .received = get32(bytes + 8),
		.limit = get32(bytes + 12)};
	if (read.type < RDMACM_DATAGRAM || read.type > RDMACM_BYE ||
			(read.type != RDMACM_DATAGRAM && len != RDMACM_PREAMBLE) ||
			read.limit - read.received > WINDOW_MAX)
		return -EBADMSG;
	*preamble = read;
	return 0;
}
