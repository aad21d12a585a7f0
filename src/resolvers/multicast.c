/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver source for a network: queries to a multicast group, as in ARP, and the sockets on
 * which every context listens for queries, multicast or unicast.
 *
 * Sockets behind one epoll descriptor. "listener" is bound to the resolver's port, which all
 * contexts of a host share: multicast reaches each of them, unicast one. "asker" has a port of
 * its own: answers reach the context that sent the query. The group is joined on every interface
 * that is up, or on those that the configuration names, and on lo (which never claims to do
 * multicast, but does it). If no interface can join, the listener still serves unicast queries.
 * Linux lets a socket join on few interfaces (net.ipv4.igmp_max_memberships, 20): further
 * listeners join on the others. They are bound to the group, hence unicast does not reach them.
 * IPv6 has no such limit.
 *
 * A second pair is for IPv6. The pair is opened when an interface has an IPv6 address that is
 * not link-local and not tentative, and the IPv6 group is joined on such interfaces. If an
 * interface has both families, a query is sent over IPv4 first, and over both when it is
 * repeated: hosts of IPv4 and of both families answer the first one. Notices are sent over both,
 * because they have no answers. Nothing is sent over IPv6 by lo, where IPv4 reaches all.
 *
 * The kernel reports changes of interfaces and addresses by a third socket (netlink). The group
 * is then joined on new interfaces, and core is notified. Without such a socket, changes are
 * noticed when a query is sent.
 *
 * Each datagram that returns to this host is delivered to each of its processes, which is most
 * of its cost. It therefore returns once: a datagram sent by lo reaches all here, and need not
 * return from the other interfaces. And a repetition within SOON_NS is not sent by lo again,
 * which only loses datagrams that find a full queue.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/net/backend.h"
#include "core/wire/record.h"
#include "internal.h"
#include "ripc/ripc.h"
#include "util/hash/siphash.h"
#include "util/system/clock.h"
#include "util/system/remedy.h"

#ifndef IPV6_MULTICAST_ALL /* not in every C library */
#define IPV6_MULTICAST_ALL 29
#endif

#define INTERFACES_MAX 128u
#define LISTENERS_MAX  8u   /* of IPv4: enough for all interfaces, if each joins on 20 */
#define RESCAN_NS      1000000000ull
#define HEAD           64u  /* of a datagram: checksum, nonce, ID */
#define SOON_NS        50000000ull
#define REMEMBERED     256u /* datagrams that may be repeated; a power of two */
#define TRIES          16u  /* datagrams for others that are read in one turn */

struct interface {
	char name[IF_NAMESIZE];
	int index;
	bool loopback;
	bool four, six;         /* has an address of IPv4, of IPv6; joined: is in that group */
	struct in_addr address; /* its first of IPv4: the source of queries */
};

struct interfaces {
	struct interface at[INTERFACES_MAX];
	uint32_t n;
	char left_out[IF_NAMESIZE]; /* the first for which there was no room; empty: none */
};

struct multicast {
	struct ripc__host host;
	struct sockaddr_in group;
	struct sockaddr_in6 group6;
	int ttl;
	struct interfaces joined;
	struct filter filter;
	bool filtered;
	int listeners[LISTENERS_MAX]; /* the first one receives unicast, and sends the answers */
	uint32_t n_listeners;
	int asker, epoll_fd;
	int listener6, asker6; /* -1: there is no IPv6 address yet, or no IPv6 */
	int changes; /* netlink; -1: none */
	uint64_t addresses; /* a hash of the addresses at the last report */
	bool hears_loopback; /* over IPv4; for good */
	bool join_failed_logged, six_failed_logged, left_out_logged;
	uint8_t turn; /* which socket is polled first: none can starve another */
	uint64_t scanned_ns;
	struct sent {
		uint64_t hash, at_ns;
	} sent[REMEMBERED]; /* by lo */
	uint8_t buffer[WIRE_RESOLVE_MAX + 1];
};

static struct interface *interface_get(struct interfaces *interfaces, int index)
{
	for (uint32_t i = 0; i < interfaces->n; i++) {
		if (interfaces->at[i].index == index)
			return &interfaces->at[i];
	}
	return NULL;
}

static bool is_link_local(const struct sockaddr *at)
{
	struct sockaddr_in6 address;

	memcpy(&address, at, sizeof(address));
	return IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr);
}

/*
 * Is this a lack, which says nothing about the address? A sandbox without IPv6 gives another
 * error.
 */
static bool could_not_ask(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* Can the address be bound to? Not while the kernel checks it for a duplicate (tentative). */
static bool is_bindable(const struct sockaddr *at)
{
	struct sockaddr_in6 address;
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool can;

	if (fd < 0)
		return could_not_ask(errno);
	memcpy(&address, at, sizeof(address));
	address.sin6_port = 0;
	can = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	close(fd);
	return can;
}

/*
 * Is the address of use? Link-local ones come and go with each container, and lead nowhere by
 * themselves.
 */
static bool is_address(const struct sockaddr *at)
{
	if (at->sa_family == AF_INET)
		return true;
	return at->sa_family == AF_INET6 && !is_link_local(at) && is_bindable(at);
}

/* Adds the interface of an address, or the address to it. */
static void interface_add(struct interfaces *found, const struct ifaddrs *at)
{
	int index = (int)if_nametoindex(at->ifa_name);
	struct interface *interface = interface_get(found, index);
	bool four = at->ifa_addr->sa_family == AF_INET, loopback = at->ifa_flags & IFF_LOOPBACK;
	bool is_known = interface && (four ? interface->four : interface->six);
	struct sockaddr_in address;

	if (!index || is_known || (!four && loopback))
		return;
	if (!interface && found->n == INTERFACES_MAX) {
		if (!*found->left_out)
			snprintf(found->left_out, sizeof(found->left_out), "%s", at->ifa_name);
		return;
	}
	if (!interface) {
		interface = &found->at[found->n++];
		*interface = (struct interface){.index = index, .loopback = loopback};
		snprintf(interface->name, sizeof(interface->name), "%s", at->ifa_name);
	}
	if (!four) {
		interface->six = true;
	} else {
		memcpy(&address, at->ifa_addr, sizeof(address));
		interface->four = true;
		interface->address = address.sin_addr;
	}
}

/* The wanted interfaces that are up and have an address. */
static int interfaces_find(const char *wanted, struct interfaces *found)
{
	struct ifaddrs *all;

	found->n = 0;
	found->left_out[0] = '\0';
	if (getifaddrs(&all))
		return -errno;
	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		if (at->ifa_addr && (at->ifa_flags & IFF_UP) && is_address(at->ifa_addr) &&
				ripc__inet_interface_wanted(wanted, at->ifa_name))
			interface_add(found, at);
	}
	freeifaddrs(all);
	return 0;
}

/* Their names, in words, as far as there is room. */
static void interfaces_name(const struct interfaces *found, char names[128])
{
	const size_t room = 128 - sizeof(", name of an if (IPv4, IPv6), and 123 more");
	size_t len = 0;
	uint32_t i;

	for (i = 0; i < found->n && len < room; i++) {
		const struct interface *at = &found->at[i];

		len += (size_t)snprintf(names + len, 128 - len, "%s%s%s", len ? ", " : "",
			at->name, !at->six ? "" : at->four ? " (IPv4, IPv6)" : " (IPv6)");
	}
	if (i < found->n)
		snprintf(names + len, 128 - len, ", and %u more", found->n - i);
}

/* A hash of all addresses of wanted interfaces, and of which work. 0: they cannot be read. */
static uint64_t addresses_hash(const char *wanted)
{
	static const uint8_t key[16];
	struct ifaddrs *all;
	uint64_t hash = 1;

	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		unsigned int flags = at->ifa_flags & (IFF_UP | IFF_RUNNING);

		if (!at->ifa_addr || !is_address(at->ifa_addr) ||
				!ripc__inet_interface_wanted(wanted, at->ifa_name))
			continue;
		hash = hash * WIRE_HASH + ripc__siphash(key, at->ifa_name, strlen(at->ifa_name));
		hash = hash * WIRE_HASH + ripc__siphash(key, at->ifa_addr,
			at->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
			sizeof(struct sockaddr_in6));
		hash = hash * WIRE_HASH + flags;
	}
	freeifaddrs(all);
	return hash;
}

/*
 * The wanted names that no interface has, in words. There may be such an interface later, hence
 * this is no reason to refuse them.
 */
static void interfaces_missing(const char *wanted, char names[128])
{
	size_t len = 0;

	names[0] = '\0';
	while (wanted && *wanted && len < 128) {
		size_t n = strcspn(wanted, ", ");
		char name[IF_NAMESIZE + 1];

		/* A name that is too long is cut, and still names no interface. */
		snprintf(name, sizeof(name), "%.*s", (int)(n < IF_NAMESIZE ? n : IF_NAMESIZE),
			wanted);
		if (n && !if_nametoindex(name))
			len += (size_t)snprintf(names + len, 128 - len, "%s%s", len ? ", " : "",
				name);
		wanted += n;
		wanted += strspn(wanted, ", ");
	}
}

static const char *option(const struct ripc__host *host, const char *name)
{
	return host->option ? host->option(host->arg, name) : NULL;
}

/* A scope of the link would make the kernel send from link-local addresses. */
static bool is_group6(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_MULTICAST(ip) && (ip->s6_addr[1] & 0xf) > 2;
}

static int group_parse(const struct ripc__host *host, struct sockaddr_in *group,
		struct sockaddr_in6 *group6)
{
	const char *text = option(host, "resolver.group"), *text6 = option(host, "resolver.group6");
	int port = ripc__inet_port(host);

	if (port < 0)
		return port;
	*group = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	*group6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = group->sin_port};
	if (inet_pton(AF_INET, text ? text : INET_GROUP, &group->sin_addr) != 1 ||
			!IN_MULTICAST(ntohl(group->sin_addr.s_addr))) {
		host->log(host->arg, RIPC_LOG_ERROR, "option resolver.group: \"%s\" is not an "
			"IPv4 multicast address", text);
		return -EINVAL;
	}
	if (inet_pton(AF_INET6, text6 ? text6 : INET_GROUP6, &group6->sin6_addr) != 1 ||
			!is_group6(&group6->sin6_addr)) {
		host->log(host->arg, RIPC_LOG_ERROR, "option resolver.group6: \"%s\" is not an "
			"IPv6 multicast address of a scope wider than the link", text6);
		return -EINVAL;
	}
	return 0;
}

/*
 * Receives only groups that were joined here, not those of other sockets of the host. A sandbox
 * or an emulator may lack that; then more datagrams arrive, which does no harm.
 */
static void hear_own_groups(int fd, bool six)
{
	int off = 0;

	setsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_MULTICAST_ALL : IP_MULTICAST_ALL,
		&off, sizeof(off));
}

/* Opens a socket of IPv4 or IPv6, bound to a name that others may have, too. */
static int shared_open(const void *name, socklen_t len)
{
	bool six = len == sizeof(struct sockaddr_in6);
	int fd = six ? ripc__inet6_socket() : ripc__inet_socket();
	int on = 1, error;

	if (fd < 0)
		return fd;
	hear_own_groups(fd, six);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
			setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0 &&
			bind(fd, name, len) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/*
 * Checks whether the port can be shared, at an address that is used by no sender: no datagram
 * for a running context gets lost here.
 */
static int port_try(in_port_t port)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = port,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 0xfffefd)};
	int fd = shared_open(&name, sizeof(name));

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* Reports on the interfaces, if all else is well. */
static void say_interfaces(const struct ripc__host *host, int port, char why[256], char remedy[256])
{
	bool are_named = host->interfaces && *host->interfaces;
	char names[128] = "", missing[128];
	struct interfaces found;
	int error = interfaces_find(host->interfaces, &found);

	interfaces_missing(host->interfaces, missing);
	if (!error)
		interfaces_name(&found, names);
	if (!error && found.n)
		snprintf(why, 256, "UDP port %d, multicast on %s", port, names);
	else
		snprintf(why, 256, "no multicast: no interface%s is up with an IP address; answers "
			"unicast queries on UDP port %d only",
			are_named ? " in RIPC_INTERFACES" : "", port);
	if (*missing)
		snprintf(why + strlen(why), 256 - strlen(why), "; there is no %s", missing);
	if (*missing)
		snprintf(remedy, 256, "correct RIPC_INTERFACES (\"ip link\" lists the interfaces)");
	else if (!error && *found.left_out)
		snprintf(remedy, 256, "%s and later interfaces are not used (at most %u are): name "
			"those to use in RIPC_INTERFACES", found.left_out, INTERFACES_MAX);
	else if (error || !found.n)
		snprintf(remedy, 256, "ip link set %s up, or name hosts in RIPC_PEERS",
			are_named ? "INTERFACE" : "lo");
}

static int multicast_probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	struct sockaddr_in group;
	struct sockaddr_in6 group6;
	int error = group_parse(host, &group, &group6);

	if (!error && ripc__inet_number(host, "resolver.ttl", 1) < 0)
		error = -EINVAL;
	remedy[0] = '\0';
	if (error) {
		snprintf(why, 256, "an option is invalid");
		snprintf(remedy, 256, "correct resolver.port, resolver.group, "
			"resolver.group6 or resolver.ttl in RIPC_OPTIONS");
		return error;
	}
	error = port_try(group.sin_port);
	if (error) {
		snprintf(why, 256, "UDP port %d cannot be used: %s", ntohs(group.sin_port),
			strerror(-error));
		ripc__remedy(error, error == -EADDRINUSE || error == -EACCES ?
			"end the program that uses it, or set RIPC_OPTIONS=resolver.port=N (from "
			"1024 on) to the same number on all "
			"hosts" : "allow AF_INET sockets (seccomp or sandbox rules)", remedy);
		return error;
	}
	say_interfaces(host, ntohs(group.sin_port), why, remedy);
	return 0;
}

static int membership_six(const struct multicast *multicast, int how, int index)
{
	const struct ipv6_mreq request = {.ipv6mr_multiaddr = multicast->group6.sin6_addr,
		.ipv6mr_interface = (unsigned int)index};

	return setsockopt(multicast->listener6, IPPROTO_IPV6, how, &request, sizeof(request));
}

static void filter_attach_four(const struct multicast *multicast, int listener)
{
	struct in6_addr group = {.s6_addr = {[10] = 0xff, 0xff}};

	memcpy(group.s6_addr + 12, &multicast->group.sin_addr, 4);
	ripc__filter_attach(&multicast->filter, listener, &group);
}

/* Leaves by the listener that has joined there. lo stays: by it others on this host reach us. */
static void leave(const struct multicast *multicast, const struct interface *interface)
{
	const struct ip_mreqn request = {.imr_multiaddr = multicast->group.sin_addr,
		.imr_ifindex = interface->index};

	for (uint32_t i = 0; !interface->loopback && i < multicast->n_listeners; i++)
		(void)setsockopt(multicast->listeners[i], IPPROTO_IP, IP_DROP_MEMBERSHIP, &request,
			sizeof(request));
}

/* Leaves on interfaces that are gone. */
static void leave_lost(const struct multicast *multicast, struct interfaces *found)
{
	const struct interfaces *joined = &multicast->joined;

	for (uint32_t i = 0; i < joined->n; i++) {
		const struct interface *at = &joined->at[i];
		const struct interface *still = interface_get(found, at->index);

		if (at->four && !(still && still->four))
			leave(multicast, at);
		if (at->six && !(still && still->six))
			membership_six(multicast, IPV6_LEAVE_GROUP, at->index);
	}
}

/* Emulators may lose the interface's number: then its address identifies it. */
static int join_by(const struct multicast *multicast, int listener,
		const struct interface *interface)
{
	struct ip_mreqn by_number = {.imr_multiaddr = multicast->group.sin_addr,
		.imr_ifindex = interface->index};
	struct ip_mreq by_address = {.imr_multiaddr = multicast->group.sin_addr,
		.imr_interface = interface->address};
	int rc = setsockopt(listener, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_number,
		sizeof(by_number));

	if (rc && errno == ENODEV)
		rc = setsockopt(listener, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_address,
			sizeof(by_address));
	return rc && errno != EADDRINUSE ? -errno : 0;
}

/* Adds a listener, for the group alone, which joins there. */
static int listener_add(struct multicast *multicast, const struct interface *interface)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd, error;

	if (multicast->n_listeners == LISTENERS_MAX)
		return -ENOBUFS;
	fd = shared_open(&multicast->group, sizeof(multicast->group));
	if (fd < 0)
		return fd;
	error = join_by(multicast, fd, interface);
	if (!error && epoll_ctl(multicast->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		error = -errno;
	if (error) {
		close(fd);
		return error;
	}
	if (multicast->filtered)
		filter_attach_four(multicast, fd);
	multicast->listeners[multicast->n_listeners++] = fd;
	return 0;
}

/* Joins by the first listener that may join on one more interface, or by a new one. */
static int join(struct multicast *multicast, const struct interface *interface)
{
	int error = -ENOBUFS;

	if (interface->loopback && multicast->hears_loopback)
		return 0;
	/* Two listeners that join there would receive all twice. */
	leave(multicast, interface);
	for (uint32_t i = 0; error == -ENOBUFS && i < multicast->n_listeners; i++)
		error = join_by(multicast, multicast->listeners[i], interface);
	if (error == -ENOBUFS)
		error = listener_add(multicast, interface);
	multicast->hears_loopback |= interface->loopback && !error;
	return error;
}

static bool join_six(const struct multicast *multicast, const struct interface *interface)
{
	return multicast->listener6 >= 0 && (membership_six(multicast, IPV6_JOIN_GROUP,
		interface->index) == 0 || errno == EADDRINUSE);
}

static void log_join_failed(struct multicast *multicast, const struct interface *interface,
		int error)
{
	const struct ripc__host *host = &multicast->host;

	if (!multicast->join_failed_logged)
		host->log(host->arg, RIPC_LOG_WARN, "multicast: cannot join on interface %s: %s%s",
			interface->name, strerror(-error), error != -ENOBUFS ? "" :
			" (sysctl net.ipv4.igmp_max_memberships)");
	multicast->join_failed_logged = true;
}

/* Joins on interfaces where the group is not joined yet, and learns of new addresses. */
static void join_new(struct multicast *multicast, const struct interfaces *found)
{
	struct interfaces joined = {.n = 0};

	for (uint32_t i = 0; i < found->n; i++) {
		const struct interface *was = interface_get(&multicast->joined, found->at[i].index);
		struct interface now = found->at[i];
		int error = now.four && !(was && was->four) ? join(multicast, &now) : 0;

		if (error) {
			log_join_failed(multicast, &now, error);
			now.four = false;
		}
		if (now.six && !(was && was->six) && !join_six(multicast, &now)) {
			if (multicast->listener6 >= 0)
				log_join_failed(multicast, &now, -errno);
			now.six = false;
		}
		if (now.four || now.six)
			joined.at[joined.n++] = now;
	}
	multicast->joined = joined;
}

static bool has_loopback(const struct interfaces *interfaces)
{
	bool has = false;

	for (uint32_t i = 0; i < interfaces->n; i++)
		has |= interfaces->at[i].loopback && interfaces->at[i].four;
	return has;
}

/* Joins on lo, even if the configuration does not name it: by it others on this host reach us. */
static void hear_loopback(struct multicast *multicast)
{
	struct interface lo = {.index = (int)if_nametoindex("lo"), .loopback = true,
		.address.s_addr = htonl(INADDR_LOOPBACK)};

	if (lo.index)
		(void)join(multicast, &lo);
}

/*
 * Sets whether datagrams that are sent by an interface other than lo return to this host: over
 * IPv6 not if the same return over IPv4.
 */
static void come_back(const struct multicast *multicast)
{
	const struct interfaces *joined = &multicast->joined;
	int comes_back = !has_loopback(joined), comes_back_six = 0;

	(void)setsockopt(multicast->asker, IPPROTO_IP, IP_MULTICAST_LOOP, &comes_back,
		sizeof(comes_back));
	if (multicast->asker6 < 0)
		return;
	for (uint32_t i = 0; i < joined->n; i++)
		comes_back_six |= comes_back && !joined->at[i].four;
	(void)setsockopt(multicast->asker6, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &comes_back_six,
		sizeof(comes_back_six));
}

/* A socket for queries, with a port of its own. */
static int asker_open(int family, int ttl)
{
	bool six = family == AF_INET6;
	int fd = six ? ripc__inet6_socket() : ripc__inet_socket();
	struct sockaddr_in6 any = {.sin6_family = (sa_family_t)family};
	int on = 1, error;

	if (fd < 0)
		return fd;
	hear_own_groups(fd, six);
	if ((six || setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof(on)) == 0) &&
			setsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_MULTICAST_HOPS :
				IP_MULTICAST_TTL, &ttl, sizeof(ttl)) == 0 &&
			bind(fd, (struct sockaddr *)&any, six ? sizeof(struct sockaddr_in6) :
				sizeof(struct sockaddr_in)) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

static void six_close(struct multicast *multicast)
{
	if (multicast->asker6 >= 0)
		close(multicast->asker6);
	if (multicast->listener6 >= 0)
		close(multicast->listener6);
	multicast->listener6 = multicast->asker6 = -1;
}

static int six_try(struct multicast *multicast)
{
	const struct sockaddr_in6 name = {.sin6_family = AF_INET6,
		.sin6_port = multicast->group6.sin6_port};
	struct epoll_event event = {.events = EPOLLIN};

	multicast->listener6 = shared_open(&name, sizeof(name));
	if (multicast->listener6 < 0)
		return multicast->listener6;
	multicast->asker6 = asker_open(AF_INET6, multicast->ttl);
	if (multicast->asker6 < 0)
		return multicast->asker6;
	if (multicast->filtered)
		ripc__filter_attach(&multicast->filter, multicast->listener6,
			&multicast->group6.sin6_addr);
	if (epoll_ctl(multicast->epoll_fd, EPOLL_CTL_ADD, multicast->listener6, &event) ||
			epoll_ctl(multicast->epoll_fd, EPOLL_CTL_ADD, multicast->asker6, &event))
		return -errno;
	return 0;
}

/* Opens the sockets of IPv6 when an interface has an address for them. IPv4 works without. */
static void six_open(struct multicast *multicast, const struct interfaces *found)
{
	const struct ripc__host *host = &multicast->host;
	bool wanted = false;
	int error;

	for (uint32_t i = 0; i < found->n; i++)
		wanted |= found->at[i].six;
	if (!wanted || multicast->listener6 >= 0)
		return;
	error = six_try(multicast);
	if (!error)
		return;
	six_close(multicast);
	if (!multicast->six_failed_logged)
		host->log(host->arg, RIPC_LOG_WARN, "multicast: no IPv6 on UDP port %d: %s",
			ntohs(multicast->group6.sin6_port), strerror(-error));
	multicast->six_failed_logged = true;
}

static void left_out_log(struct multicast *multicast, const struct interfaces *found)
{
	const struct ripc__host *host = &multicast->host;

	if (*found->left_out && !multicast->left_out_logged)
		host->log(host->arg, RIPC_LOG_WARN, "multicast: more than %u network interfaces: "
			"%s and later ones are not used: name those to use in RIPC_INTERFACES",
			INTERFACES_MAX, found->left_out);
	multicast->left_out_logged = *found->left_out != '\0';
}

static void rescan(struct multicast *multicast, uint64_t now_ns)
{
	struct interfaces found;

	multicast->scanned_ns = now_ns;
	/* Without a list (no memory, no descriptor) memberships stay. */
	if (interfaces_find(multicast->host.interfaces, &found))
		return;
	left_out_log(multicast, &found);
	six_open(multicast, &found);
	leave_lost(multicast, &found);
	join_new(multicast, &found);
	if (!has_loopback(&found))
		hear_loopback(multicast);
	come_back(multicast);
}

static int listener_open(struct multicast *multicast)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = multicast->group.sin_port};
	const struct ripc__host *host = &multicast->host;
	int fd = shared_open(&name, sizeof(name));

	if (fd >= 0) {
		multicast->listeners[multicast->n_listeners++] = fd;
		return 0;
	}
	if (fd == -EADDRINUSE)
		host->log(host->arg, RIPC_LOG_WARN,
			"multicast: UDP port %d is held by a program that does not share it",
			ntohs(name.sin_port));
	/* The port was understood, hence this is no fault of the configuration. */
	return fd == -EINVAL ? -EADDRNOTAVAIL : fd;
}

static int watch_all(struct multicast *multicast)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = epoll_create1(EPOLL_CLOEXEC);
	int error;

	if (fd < 0)
		return -errno;
	if (epoll_ctl(fd, EPOLL_CTL_ADD, multicast->listeners[0], &event) == 0 &&
			epoll_ctl(fd, EPOLL_CTL_ADD, multicast->asker, &event) == 0) {
		multicast->epoll_fd = fd;
		multicast->changes = ripc__changes_open();
		if (multicast->changes >= 0)
			(void)epoll_ctl(fd, EPOLL_CTL_ADD, multicast->changes, &event);
		return 0;
	}
	error = -errno;
	close(fd);
	return error;
}

static int multicast_open(void *source, const struct ripc__host *host)
{
	struct multicast *multicast = source;
	char missing[128];
	int ttl = ripc__inet_number(host, "resolver.ttl", 1);
	int error;

	if (ttl < 0)
		return ttl;
	*multicast = (struct multicast){.host = *host, .ttl = ttl, .listener6 = -1, .asker6 = -1,
		.filter.kin = (uint8_t)(host->context % WIRE_DIGEST_KIN)};
	error = group_parse(host, &multicast->group, &multicast->group6);
	error = error ? error : listener_open(multicast);
	if (error)
		return error;
	error = multicast->asker = asker_open(AF_INET, ttl);
	if (error < 0)
		goto err_close_listener;
	error = watch_all(multicast);
	if (error)
		goto err_close_asker;
	multicast->addresses = addresses_hash(host->interfaces);
	rescan(multicast, ripc__clock_ns(CLOCK_MONOTONIC));
	interfaces_missing(host->interfaces, missing);
	if (*missing)
		host->log(host->arg, RIPC_LOG_WARN, "multicast: there is no interface %s now (of "
			"\"%.80s\")", missing, host->interfaces);
	if (!multicast->joined.n)
		host->log(host->arg, RIPC_LOG_WARN, "multicast: no interface to join the group on; "
			"only unicast queries are answered");
	return 0;
err_close_asker:
	close(multicast->asker);
err_close_listener:
	close(multicast->listeners[0]);
	return error;
}

static void multicast_close(void *source)
{
	struct multicast *multicast = source;

	six_close(multicast);
	if (multicast->changes >= 0)
		close(multicast->changes);
	close(multicast->epoll_fd);
	close(multicast->asker);
	for (uint32_t i = 0; i < multicast->n_listeners; i++)
		close(multicast->listeners[i]);
}

/*
 * The source address is given: otherwise the kernel takes for lo the address of another
 * interface, or none, because 127.0.0.1 is valid on this host only.
 */
static int send_on(const struct multicast *multicast, const struct interface *interface,
		const struct iovec *data)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control = {0};
	struct sockaddr_in name = multicast->group;
	struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof(name),
		.msg_iov = (struct iovec *)(uintptr_t)data, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
	struct in_pktinfo info = {.ipi_ifindex = interface->index,
		.ipi_spec_dst = interface->address};
	int rc;

	cmsg->cmsg_level = IPPROTO_IP;
	cmsg->cmsg_type = IP_PKTINFO;
	cmsg->cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(cmsg), &info, sizeof(info));
	rc = (int)sendmsg(multicast->asker, &message, MSG_NOSIGNAL);
	if (rc < 0 && errno == ENODEV) { /* as in join() */
		info.ipi_ifindex = 0;
		memcpy(CMSG_DATA(cmsg), &info, sizeof(info));
		rc = (int)sendmsg(multicast->asker, &message, MSG_NOSIGNAL);
	}
	return rc >= 0 || errno == EAGAIN || errno == ENOBUFS;
}

/* Sends from the address that the kernel chooses: it knows which are deprecated, or private. */
static bool send_on_six(const struct multicast *multicast, const struct interface *interface,
		const struct iovec *data)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} control = {0};
	struct sockaddr_in6 name = multicast->group6;
	struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof(name),
		.msg_iov = (struct iovec *)(uintptr_t)data, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
	const struct in6_pktinfo info = {.ipi6_ifindex = (unsigned int)interface->index};

	cmsg->cmsg_level = IPPROTO_IPV6;
	cmsg->cmsg_type = IPV6_PKTINFO;
	cmsg->cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(cmsg), &info, sizeof(info));
	return sendmsg(multicast->asker6, &message, MSG_NOSIGNAL) >= 0 || errno == EAGAIN ||
		errno == ENOBUFS;
}

/* Have all on this host received the same a moment ago? */
static bool is_repeated(struct multicast *multicast, const struct iovec *data, uint64_t now_ns)
{
	static const uint8_t key[16];
	size_t len = data->iov_len < HEAD ? data->iov_len : HEAD;
	uint64_t hash = ripc__siphash(key, data->iov_base, len);
	struct sent *sent = &multicast->sent[hash % REMEMBERED];
	bool is_soon = sent->hash == hash && now_ns - sent->at_ns < SOON_NS;

	if (!is_soon)
		*sent = (struct sent){hash, now_ns};
	return is_soon;
}

/* both: also over IPv6 if there is IPv4. Returns how many datagrams were sent. */
static int send_to_group(struct multicast *multicast, const void *data, size_t len, bool both)
{
	const struct iovec iov = {(void *)(uintptr_t)data, len};
	const struct interfaces *joined = &multicast->joined;
	uint64_t now_ns = ripc__clock_ns(CLOCK_MONOTONIC);
	bool repeated = joined->n > 1 && is_repeated(multicast, &iov, now_ns);
	int sent = 0;

	if (now_ns - multicast->scanned_ns >= RESCAN_NS)
		rescan(multicast, now_ns);
	for (uint32_t i = 0; i < joined->n; i++) {
		const struct interface *at = &joined->at[i];

		if (at->four)
			sent += (repeated && at->loopback) || send_on(multicast, at, &iov);
		if (at->six && (both || !at->four))
			sent += send_on_six(multicast, at, &iov);
	}
	return sent;
}

static int multicast_notify(void *source, const void *data, size_t len)
{
	return send_to_group(source, data, len, true);
}

static int multicast_ask(void *source, uint64_t id, const void *data, size_t len)
{
	(void)id;
	return send_to_group(source, data, len, false);
}

static int multicast_ask_again(void *source, uint64_t id, const void *data, size_t len)
{
	(void)id;
	return send_to_group(source, data, len, true);
}

static bool send_to_host(int fd, const void *name, socklen_t name_len, const struct iovec *data)
{
	return sendto(fd, data->iov_base, data->iov_len, MSG_NOSIGNAL, name, name_len) >= 0 ||
		errno == EAGAIN || errno == ENOBUFS;
}

static int multicast_ask_host(void *source, const uint8_t host[16], const void *data, size_t len)
{
	const struct multicast *multicast = source;
	const struct iovec iov = {(void *)(uintptr_t)data, len};
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = multicast->group.sin_port};
	struct sockaddr_in6 name6 = {.sin6_family = AF_INET6, .sin6_port = name.sin_port};

	memcpy(&name6.sin6_addr, host, sizeof(name6.sin6_addr));
	memcpy(&name.sin_addr, host + 12, sizeof(name.sin_addr));
	if (IN6_IS_ADDR_V4MAPPED(&name6.sin6_addr))
		return send_to_host(multicast->asker, &name, sizeof(name), &iov);
	return multicast->asker6 >= 0 &&
		send_to_host(multicast->asker6, &name6, sizeof(name6), &iov);
}

/* Without a filter all datagrams arrive, as with a kernel that has none. */
static void filter_attach(struct multicast *multicast)
{
	multicast->filtered = true;
	for (uint32_t i = 0; i < multicast->n_listeners; i++)
		filter_attach_four(multicast, multicast->listeners[i]);
	if (multicast->listener6 >= 0)
		ripc__filter_attach(&multicast->filter, multicast->listener6,
			&multicast->group6.sin6_addr);
}

static void multicast_heed(void *source, uint64_t id, bool private_id)
{
	struct multicast *multicast = source;

	if (ripc__filter_add(&multicast->filter, id, private_id))
		filter_attach(multicast);
}

static void multicast_know(void *source)
{
	struct multicast *multicast = source;

	if (ripc__filter_know(&multicast->filter))
		filter_attach(multicast);
}

static int multicast_reply(void *source, const struct ripc__addr *to, const void *data, size_t len)
{
	const struct multicast *multicast = source;

	return ripc__inet_reply(ripc__inet_is_six(to) ? multicast->listener6 :
		multicast->listeners[0], to, data, len);
}

/* Do the reports concern our addresses? Most do not. */
static bool has_moved(struct multicast *multicast)
{
	uint64_t last = multicast->addresses;

	if (!ripc__changes_read(multicast->changes))
		return false;
	multicast->addresses = addresses_hash(multicast->host.interfaces);
	if (multicast->addresses == last)
		return false;
	rescan(multicast, ripc__clock_ns(CLOCK_MONOTONIC));
	return true;
}

/*
 * An IPv6 socket receives a group also by interfaces on which only other sockets of the host
 * have joined it.
 */
static bool is_for_others(struct multicast *multicast, const struct ripc__source_event *event)
{
	const struct interface *joined;

	if (!event->group || !ripc__inet_is_six(&event->reply))
		return false;
	joined = interface_get(&multicast->joined, (int)ripc__inet_interface(&event->reply));
	return !joined || !joined->six;
}

static bool receive(struct multicast *multicast, int fd, struct ripc__source_event *event)
{
	for (uint32_t tries = 0; fd >= 0 && tries < TRIES; tries++) {
		if (!ripc__inet_receive(fd, multicast->buffer, event))
			return false;
		if (!is_for_others(multicast, event))
			return true;
	}
	return false;
}

/* Collects all open sockets. Returns how many. */
static uint32_t sockets_of(const struct multicast *multicast, int fds[LISTENERS_MAX + 3])
{
	uint32_t n = 0;

	fds[n++] = multicast->asker;
	for (uint32_t i = 0; i < multicast->n_listeners; i++)
		fds[n++] = multicast->listeners[i];
	if (multicast->listener6 < 0)
		return n;
	fds[n++] = multicast->asker6;
	fds[n++] = multicast->listener6;
	return n;
}

static int multicast_poll(void *source, struct ripc__source_event *event)
{
	struct multicast *multicast = source;
	int fds[LISTENERS_MAX + 3];
	uint32_t n = sockets_of(multicast, fds), first = ++multicast->turn;

	if (has_moved(multicast)) {
		*event = (struct ripc__source_event){.kind = RIPC_SOURCE_REHOMED};
		return 1;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (receive(multicast, fds[(first + i) % n], event))
			return 1;
	}
	return 0;
}

static int multicast_wait_fd(void *source)
{
	const struct multicast *multicast = source;

	return multicast->epoll_fd;
}

const struct ripc__source ripc__multicast_source = {
	.name = "multicast",
	.size = sizeof(struct multicast),
	.probe = multicast_probe,
	.open = multicast_open,
	.close = multicast_close,
	.ask = multicast_ask,
	.ask_again = multicast_ask_again,
	.ask_host = multicast_ask_host,
	.heed = multicast_heed,
	.know = multicast_know,
	.reply = multicast_reply,
	.notify = multicast_notify,
	.poll = multicast_poll,
	.wait_fd = multicast_wait_fd,
};
