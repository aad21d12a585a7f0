/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a record's address of the udp and the shm backend, from any host. An accepted blob
 * is the address of one host or process: it can be printed, and is known again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "backends/shm/internal.h"
#include "backends/udp/udp.h"
#include "input.h"

#define IDENTITY 0x1122334455667788u /* of this host, so that inputs can name it */

static void check_text(const char text[64])
{
	CLAIM(memchr(text, '\0', 64) && strcmp(text, "?") != 0);
}

static void check_udp(const struct ripc__addr *addr, const uint8_t host[16], int family)
{
	struct udp_route peer = {0};
	struct udp_addr own;
	char text[64];

	CLAIM(addr->len == sizeof(own) && memcmp(addr->host, host, 16) == 0);
	memcpy(&own, addr->blob, sizeof(own));
	CLAIM(own.at.sin6_family == AF_INET6 && own.at.sin6_port != 0);
	CLAIM(memcmp(&own.at.sin6_addr, host, 16) == 0 && own.at.sin6_scope_id == 0);
	CLAIM(family == AF_INET6 || IN6_IS_ADDR_V4MAPPED(&own.at.sin6_addr));
	CLAIM(!IN6_IS_ADDR_UNSPECIFIED(&own.at.sin6_addr));
	CLAIM(!IN6_IS_ADDR_MULTICAST(&own.at.sin6_addr));
	ripc__udp_backend.route.text(addr, text);
	check_text(text);
	peer.to = own.at;
	CLAIM(ripc__udp_backend.route.matches(NULL, &peer, addr));
}

static void choose_udp(const uint8_t *blob, size_t len, const uint8_t host[16], int family)
{
	struct udp_port port = {.family = family};
	struct ripc__addr addr = {.len = 0};
	int error = ripc__udp_backend.route.choose(&port, blob, len, host, &addr);

	CLAIM(error == 0 || error == -EBADMSG || error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT);
	if (error)
		CLAIM(addr.len == 0);
	else
		check_udp(&addr, host, family);
}

static void choose_shm(const uint8_t *blob, size_t len, const uint8_t host[16])
{
	static struct shm_port port = {.dev.host.identity = IDENTITY};
	struct ripc__addr addr = {.len = 0};
	int error = ripc__shm_backend.route.choose(&port, blob, len, host, &addr);
	char text[64];

	CLAIM(error == 0 || error == -EBADMSG || error == -EHOSTUNREACH);
	CLAIM((error == 0) == (addr.len != 0));
	if (error)
		return;
	CLAIM(addr.len == len && memcmp(addr.blob, blob, len) == 0);
	ripc__shm_backend.route.text(&addr, text);
	check_text(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t host[16] = {0};

	if (len < sizeof(host) || len > sizeof(host) + RIPC_ADDR_MAX)
		return 0;
	memcpy(host, data, sizeof(host));
	data += sizeof(host);
	len -= sizeof(host);
	choose_udp(data, len, host, AF_INET6);
	choose_udp(data, len, host, AF_INET);
	memcpy(host, (const uint8_t[12]){[10] = 0xff, 0xff}, 12);
	choose_udp(data, len, host, AF_INET);
	choose_shm(data, len, host);
	return 0;
}
