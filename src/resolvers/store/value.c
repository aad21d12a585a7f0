/* SPDX-License-Identifier: BSD-3-Clause */
/* The contents of the store's nodes, and their paths (internal.h). No node is believed. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "internal.h"
#include "resolvers/internal.h"
#include "util/bytes.h"
#include "util/system/clock.h"

#define VERSION 1u
#define FIXED   28
#define RESCAN_US 1000000u

/*
 * Is the server a loopback address, without its port and the path that may follow the last
 * server?
 */
static bool is_loopback(const char *server, size_t len)
{
	size_t end = strcspn(server, "/,");
	struct in_addr address;
	char host[16];

	for (end = end < len ? end : len; end && server[end] != ':';)
		end--;
	if ((end == 5 && memcmp(server, "[::1]", 5) == 0) ||
			(end == 9 && memcmp(server, "localhost", 9) == 0))
		return true;
	if (end >= sizeof(host))
		return false;
	memcpy(host, server, end);
	host[end] = '\0';
	return inet_pton(AF_INET, host, &address) == 1 &&
		ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool ripc__servers_are_here(const char *servers)
{
	bool are_here = true;

	while (are_here) {
		size_t len = strcspn(servers, ",");

		are_here = is_loopback(servers, len);
		if (!servers[len])
			break;
		servers += len + 1;
	}
	return are_here;
}

size_t ripc__value_encode(const struct value *value, uint8_t bytes[STORE_VALUE])
{
	size_t n = value->n_addrs;

	bytes[0] = VERSION;
	bytes[1] = value->n_addrs;
	memcpy(bytes + 2, &value->port, 2);
	put64(bytes + 4, value->incarnation);
	put64(bytes + 12, value->context);
	put64(bytes + 20, value->life);
	memcpy(bytes + FIXED, value->addrs, 4 * n);
	return FIXED + 4 * n;
}

int ripc__value_decode(const void *data, int len, struct value *value)
{
	const uint8_t *bytes = data;

	if (len < FIXED || bytes[0] != VERSION || bytes[1] == 0 || bytes[1] > STORE_ADDRS ||
			len != FIXED + 4 * bytes[1])
		return -EBADMSG;
	*value = (struct value){.n_addrs = bytes[1], .incarnation = get64(bytes + 4),
		.context = get64(bytes + 12), .life = get64(bytes + 20)};
	memcpy(&value->port, bytes + 2, 2);
	memcpy(value->addrs, bytes + FIXED, 4 * (size_t)value->n_addrs);
	return value->port && value->incarnation ? 0 : -EBADMSG;
}

void ripc__path_make(const struct store *store, char path[STORE_PATH], enum shelf shelf,
		uint64_t id, uint64_t incarnation)
{
	int len = snprintf(path, STORE_PATH, "/ripc/%s/%c/%02x/%016" PRIx64, store->cluster,
		shelf, (unsigned int)(id % STORE_SHARDS), id);

	if (incarnation)
		snprintf(path + len, STORE_PATH - (size_t)len, "/%016" PRIx64, incarnation);
}

uint64_t ripc__path_id(const char *path)
{
	const char *name = path ? strrchr(path, '/') : NULL;
	uint64_t id = 0;

	name = name ? name + 1 : path;
	if (!name || strspn(name, "0123456789abcdef") != 16 || name[16] ||
			sscanf(name, "%16" SCNx64, &id) != 1)
		return 0;
	return id;
}

static void address_add(struct value *value, const struct ifaddrs *at)
{
	struct sockaddr_in address;

	memcpy(&address, at->ifa_addr, sizeof(address));
	if (value->n_addrs < STORE_ADDRS)
		value->addrs[value->n_addrs++] = address.sin_addr;
}

static void addresses_add(struct value *value, const struct ifaddrs *all, const char *interfaces,
		bool loopback)
{
	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		bool is_loopback = at->ifa_flags & IFF_LOOPBACK;

		if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET &&
				(at->ifa_flags & IFF_UP) && is_loopback == loopback &&
				ripc__inet_interface_wanted(interfaces, at->ifa_name))
			address_add(value, at);
	}
}

static void addresses_find(const char *interfaces, struct value *value)
{
	struct ifaddrs *all;

	value->n_addrs = 0;
	if (getifaddrs(&all) == 0) {
		addresses_add(value, all, interfaces, false);
		if (!value->n_addrs) /* a host without a network */
			addresses_add(value, all, interfaces, true);
		freeifaddrs(all);
	}
	if (!value->n_addrs) {
		value->n_addrs = 1;
		value->addrs[0].s_addr = htonl(INADDR_LOOPBACK);
	}
}

bool ripc__addresses_look(struct store *store)
{
	struct value last = store->addresses;
	bool is_first = !store->scanned_us;

	addresses_find(store->host.interfaces, &store->addresses);
	store->scanned_us = ripc__clock_us();
	return is_first || last.n_addrs != store->addresses.n_addrs ||
		memcmp(last.addrs, store->addresses.addrs, 4 * (size_t)last.n_addrs) != 0;
}

int ripc__value_make(struct store *store, uint64_t incarnation, uint8_t bytes[STORE_VALUE])
{
	struct value value;

	if (!store->scanned_us || (store->changes < 0 &&
			ripc__clock_us() - store->scanned_us >= RESCAN_US))
		(void)ripc__addresses_look(store);
	value = store->addresses;
	value.incarnation = incarnation;
	value.context = store->host.context;
	value.life = store->host.life;
	value.port = store->port;
	return (int)ripc__value_encode(&value, bytes);
}

void ripc__value_send(const struct store *store, const struct value *value, const void *data,
		size_t len)
{
	for (uint32_t i = 0; i < value->n_addrs; i++) {
		struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = value->port,
			.sin_addr = value->addrs[i]};

		/* Core repeats a lost datagram. */
		(void)sendto(store->udp, data, len, MSG_NOSIGNAL, (const struct sockaddr *)&name,
			sizeof(name));
	}
}
