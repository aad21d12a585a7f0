/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver source for a network: questions to an IPv4 multicast group, as ARP does it, and
 * the socket on which every context listens for questions, multicast or unicast.
 *
 * Three sockets behind one epoll descriptor. "listener" is bound to the resolver's port, which all
 * contexts of a host share: multicast reaches each of them, unicast one. "asker" has a port of
 * its own, so that answers reach the one who asked. The group is joined on every interface that
 * is up, or on those that the configuration names, and on lo (which never claims to do multicast,
 * but does it). Where no interface can join, the listener still serves unicast questions.
 *
 * The kernel reports changes of interfaces and addresses by a third socket (netlink). Then the
 * group is joined where it was not, and core learns of it. Where there is no such socket, changes
 * are noticed while asking.
 *
 * Each datagram that comes back to this host goes to each of its processes, which is most of what
 * it costs. So it comes back once: what goes out by lo is heard by all here, and need not come back
 * from the other interfaces. And what is repeated within SOON_NS does not go out by lo again, which
 * loses but what finds a full queue.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/net/backend.h"
#include "core/wire/record.h"
#include "resolvers/changes.h"
#include "resolvers/filter.h"
#include "resolvers/inet.h"
#include "ripc/ripc.h"
#include "util/hash/siphash.h"

/* As many as one socket may join by default (net.ipv4.igmp_max_memberships). */
#define INTERFACES_MAX 20
#define RESCAN_NS      1000000000ull
#define HEAD           64u  /* of a datagram: checksum, nonce, ID */
#define SOON_NS        50000000ull
#define REMEMBERED     256u /* datagrams that may be repeated; a power of two */

struct interface {
	int index;
	bool loopback;
	struct in_addr address; /* its first: questions come from it */
};

struct interfaces {
	struct interface at[INTERFACES_MAX];
	uint32_t n;
};

struct multicast {
	struct ripc__host host;
	struct sockaddr_in group;
	struct interfaces joined;
	struct filter filter;
	int listener, asker, epoll_fd;
	int changes; /* netlink; -1: none */
	uint64_t addresses; /* a hash of what was there when that was last read */
	bool join_failed_logged;
	bool asker_next; /* whose turn it is to be polled first: neither can starve the other */
	uint64_t scanned_ns;
	struct sent {
		uint64_t hash, at_ns;
	} sent[REMEMBERED]; /* by lo */
	uint8_t buffer[WIRE_RESOLVE_MAX + 1];
};

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static const struct interface *interface_get(const struct interfaces *interfaces, int index)
{
	for (uint32_t i = 0; i < interfaces->n; i++) {
		if (interfaces->at[i].index == index)
			return &interfaces->at[i];
	}
	return NULL;
}

/* The wanted interfaces that are up and have an IPv4 address; names, if given, in words. */
static int interfaces_find(const char *wanted, struct interfaces *found, char names[128])
{
	struct ifaddrs *all;
	size_t len = 0;

	found->n = 0;
	if (getifaddrs(&all))
		return -errno;
	for (const struct ifaddrs *at = all; at && found->n < INTERFACES_MAX; at = at->ifa_next) {
		struct sockaddr_in address;
		int index;

		if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET)
			continue;
		if (!(at->ifa_flags & IFF_UP) || !ripc__inet_interface_wanted(wanted, at->ifa_name))
			continue;
		index = (int)if_nametoindex(at->ifa_name);
		if (!index || interface_get(found, index))
			continue;
		memcpy(&address, at->ifa_addr, sizeof(address));
		found->at[found->n++] = (struct interface){index,
			at->ifa_flags & IFF_LOOPBACK, address.sin_addr};
		if (names && len < 128)
			len += (size_t)snprintf(names + len, 128 - len, "%s%s", len ? ", " : "",
				at->ifa_name);
	}
	freeifaddrs(all);
	return 0;
}

/* Not a link-local one: those come and go with each container, and lead to nobody by themselves. */
static bool is_address(const struct sockaddr *at)
{
	struct sockaddr_in6 address;

	if (at->sa_family == AF_INET)
		return true;
	if (at->sa_family != AF_INET6)
		return false;
	memcpy(&address, at, sizeof(address));
	return !IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr);
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
 * The wanted names that no interface has, in words: there may be such an interface later, so this
 * is no reason to refuse them.
 */
static void interfaces_missing(const char *wanted, char names[128])
{
	size_t len = 0;

	names[0] = '\0';
	while (wanted && *wanted && len < 128) {
		size_t n = strcspn(wanted, ", ");
		char name[IF_NAMESIZE + 1];

		/* One that is too long is cut, and nobody's all the same. */
		snprintf(name, sizeof(name), "%.*s", (int)(n < IF_NAMESIZE ? n : IF_NAMESIZE),
			wanted);
		if (n && !if_nametoindex(name))
			len += (size_t)snprintf(names + len, 128 - len, "%s%s", len ? ", " : "",
				name);
		wanted += n;
		wanted += strspn(wanted, ", ");
	}
}

static int group_parse(const struct ripc__host *host, struct sockaddr_in *group)
{
	const char *text = host->option ? host->option(host->arg, "resolver.group") : NULL;
	int port = ripc__inet_port(host);

	if (port < 0)
		return port;
	*group = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	if (inet_pton(AF_INET, text ? text : INET_GROUP, &group->sin_addr) == 1 &&
			IN_MULTICAST(ntohl(group->sin_addr.s_addr)))
		return 0;
	host->log(host->arg, RIPC_LOG_ERROR,
		"option resolver.group: \"%s\" is not an IPv4 multicast address", text);
	return -EINVAL;
}

static int bind_shared(int fd, const struct sockaddr_in *name)
{
	int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
			setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) ||
			bind(fd, (const struct sockaddr *)name, sizeof(*name)))
		return -errno;
	return 0;
}

/*
 * Can the port be shared? Tried at an address that nobody sends to, so that no datagram meant
 * for a running context gets lost in here.
 */
static int port_try(in_port_t port)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = port,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 0xfffefd)};
	int fd = ripc__inet_socket();
	int error;

	if (fd < 0)
		return fd;
	error = bind_shared(fd, &name);
	close(fd);
	return error;
}

/* What is to be said of the interfaces, where the rest is well. */
static void say_interfaces(const struct ripc__host *host, int port, char why[256], char remedy[256])
{
	bool are_named = host->interfaces && *host->interfaces;
	char names[128] = "", missing[128];
	struct interfaces found;
	int error = interfaces_find(host->interfaces, &found, names);

	interfaces_missing(host->interfaces, missing);
	if (!error && found.n)
		snprintf(why, 256, "UDP port %d, multicast on %s", port, names);
	else
		snprintf(why, 256, "no multicast: no interface%s is up with an IPv4 address; "
			"answers unicast questions on UDP port %d only",
			are_named ? " of those named" : "", port);
	if (*missing)
		snprintf(why + strlen(why), 256 - strlen(why), "; there is no %s", missing);
	if (*missing)
		snprintf(remedy, 256, "correct RIPC_INTERFACES (\"ip link\" lists what there is)");
	else if (error || !found.n)
		snprintf(remedy, 256, "ip link set %s up, or name hosts in RIPC_PEERS",
			are_named ? "one of them" : "lo");
}

static int multicast_probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	struct sockaddr_in group;
	int error = group_parse(host, &group);

	if (!error && ripc__inet_number(host, "resolver.ttl", 1) < 0)
		error = -EINVAL;
	remedy[0] = '\0';
	if (error) {
		snprintf(why, 256, "an option cannot be understood");
		snprintf(remedy, 256, "correct resolver.port, resolver.group or resolver.ttl in "
			"RIPC_OPTIONS");
		return error;
	}
	error = port_try(group.sin_port);
	if (error) {
		snprintf(why, 256, "UDP port %d cannot be used: %s", ntohs(group.sin_port),
			strerror(-error));
		snprintf(remedy, 256, "%s", error == -EMFILE || error == -ENFILE ?
			"raise the limit of open files (ulimit -n)" :
			error == -EADDRINUSE || error == -EACCES ?
			"end the program that holds it, or set "
			"RIPC_OPTIONS=resolver.port=N (from 1024 on) to the same number on all "
			"hosts" : "allow AF_INET sockets (seccomp or sandbox rules)");
		return error;
	}
	say_interfaces(host, ntohs(group.sin_port), why, remedy);
	return 0;
}

/* Leaves what is not there any more, and learns of new addresses. */
static void leave_lost(struct multicast *multicast, const struct interfaces *found)
{
	struct interfaces *joined = &multicast->joined;

	for (uint32_t i = joined->n; i-- > 0;) {
		struct ip_mreqn request = {.imr_multiaddr = multicast->group.sin_addr,
			.imr_ifindex = joined->at[i].index};
		const struct interface *still = interface_get(found, joined->at[i].index);

		if (still) {
			joined->at[i] = *still;
			continue;
		}
		setsockopt(multicast->listener, IPPROTO_IP, IP_DROP_MEMBERSHIP, &request,
			sizeof(request));
		joined->at[i] = joined->at[--joined->n];
	}
}

/* Emulators may lose the interface's number: then its address says which one is meant. */
static bool join(const struct multicast *multicast, const struct interface *interface)
{
	struct ip_mreqn by_number = {.imr_multiaddr = multicast->group.sin_addr,
		.imr_ifindex = interface->index};
	struct ip_mreq by_address = {.imr_multiaddr = multicast->group.sin_addr,
		.imr_interface = interface->address};
	int rc = setsockopt(multicast->listener, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_number,
		sizeof(by_number));

	if (rc && errno == ENODEV)
		rc = setsockopt(multicast->listener, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_address,
			sizeof(by_address));
	return rc == 0 || errno == EADDRINUSE;
}

static void join_new(struct multicast *multicast, const struct interfaces *found)
{
	const struct ripc__host *host = &multicast->host;
	struct interfaces *joined = &multicast->joined;

	for (uint32_t i = 0; i < found->n && joined->n < INTERFACES_MAX; i++) {
		if (interface_get(joined, found->at[i].index))
			continue;
		if (join(multicast, &found->at[i])) {
			joined->at[joined->n++] = found->at[i];
		} else if (!multicast->join_failed_logged) {
			multicast->join_failed_logged = true;
			host->log(host->arg, RIPC_LOG_WARN,
				"multicast: cannot join on interface %d: %s", found->at[i].index,
				strerror(errno));
		}
	}
}

static bool has_loopback(const struct interfaces *interfaces)
{
	bool has = false;

	for (uint32_t i = 0; i < interfaces->n; i++)
		has |= interfaces->at[i].loopback;
	return has;
}

/* Also where the configuration does not name it: it is how others on this host reach us. */
static void hear_loopback(const struct multicast *multicast)
{
	struct interface lo = {.index = (int)if_nametoindex("lo"),
		.address.s_addr = htonl(INADDR_LOOPBACK)};

	if (lo.index)
		(void)join(multicast, &lo);
}

/* Does what goes out by an interface other than lo come back to this host? */
static void come_back(const struct multicast *multicast)
{
	int comes_back = !has_loopback(&multicast->joined);

	(void)setsockopt(multicast->asker, IPPROTO_IP, IP_MULTICAST_LOOP, &comes_back,
		sizeof(comes_back));
}

static void rescan(struct multicast *multicast, uint64_t now_ns)
{
	struct interfaces found;

	multicast->scanned_ns = now_ns;
	/* Without a list (no memory, no descriptor) what was joined stays joined. */
	if (interfaces_find(multicast->host.interfaces, &found, NULL))
		return;
	leave_lost(multicast, &found);
	join_new(multicast, &found);
	if (!has_loopback(&found))
		hear_loopback(multicast);
	come_back(multicast);
}

/*
 * Hear only what was joined here, not what other sockets of the host have joined. A sandbox or an
 * emulator may not have that; then there is more to hear, which harms nobody.
 */
static void hear_own_groups(int fd)
{
	int off = 0;

	setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off));
}

static int listener_open(struct multicast *multicast)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = multicast->group.sin_port};
	const struct ripc__host *host = &multicast->host;
	int fd = ripc__inet_socket();
	int error;

	if (fd < 0)
		return fd;
	hear_own_groups(fd);
	error = bind_shared(fd, &name);
	if (!error) {
		multicast->listener = fd;
		return 0;
	}
	close(fd);
	if (error == -EADDRINUSE)
		host->log(host->arg, RIPC_LOG_WARN,
			"multicast: UDP port %d is held by a program that does not share it",
			ntohs(name.sin_port));
	/* The port was understood, so this is no fault of the configuration. */
	return error == -EINVAL ? -EADDRNOTAVAIL : error;
}

static int asker_open(struct multicast *multicast, int ttl)
{
	int fd = ripc__inet_socket();
	struct sockaddr_in any = {.sin_family = AF_INET};
	int on = 1, error;

	if (fd < 0)
		return fd;
	hear_own_groups(fd);
	if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof(on)) ||
			setsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &ttl, sizeof(ttl)) ||
			bind(fd, (struct sockaddr *)&any, sizeof(any))) {
		error = -errno;
		close(fd);
		return error;
	}
	multicast->asker = fd;
	return 0;
}

static int watch_all(struct multicast *multicast)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = epoll_create1(EPOLL_CLOEXEC);
	int error;

	if (fd < 0)
		return -errno;
	if (epoll_ctl(fd, EPOLL_CTL_ADD, multicast->listener, &event) == 0 &&
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
	*multicast = (struct multicast){.host = *host,
		.filter.kin = (uint8_t)(host->context % WIRE_DIGEST_KIN)};
	error = group_parse(host, &multicast->group);
	error = error ? error : listener_open(multicast);
	if (error)
		return error;
	error = asker_open(multicast, ttl);
	if (error)
		goto err_close_listener;
	error = watch_all(multicast);
	if (error)
		goto err_close_asker;
	multicast->addresses = addresses_hash(host->interfaces);
	rescan(multicast, clock_ns());
	interfaces_missing(host->interfaces, missing);
	if (*missing)
		host->log(host->arg, RIPC_LOG_WARN, "multicast: there is no interface %s now (of "
			"\"%.80s\")", missing, host->interfaces);
	if (!multicast->joined.n)
		host->log(host->arg, RIPC_LOG_WARN, "multicast: no interface to join the group on; "
			"only unicast questions are answered");
	return 0;
err_close_asker:
	close(multicast->asker);
err_close_listener:
	close(multicast->listener);
	return error;
}

static void multicast_close(void *source)
{
	const struct multicast *multicast = source;

	if (multicast->changes >= 0)
		close(multicast->changes);
	close(multicast->epoll_fd);
	close(multicast->asker);
	close(multicast->listener);
}

/*
 * The source address is given: left to itself the kernel takes for lo the address of another
 * interface, or none, since 127.0.0.1 is valid on this host only.
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

/* Have all on this host had the same a moment ago? */
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

static int multicast_notify(void *source, const void *data, size_t len)
{
	struct multicast *multicast = source;
	const struct iovec iov = {(void *)(uintptr_t)data, len};
	uint64_t now_ns = clock_ns();
	bool repeated = multicast->joined.n > 1 && is_repeated(multicast, &iov, now_ns);
	int sent = 0;

	if (now_ns - multicast->scanned_ns >= RESCAN_NS)
		rescan(multicast, now_ns);
	for (uint32_t i = 0; i < multicast->joined.n; i++)
		sent += (repeated && multicast->joined.at[i].loopback) ||
			send_on(multicast, &multicast->joined.at[i], &iov);
	return sent;
}

static int multicast_ask(void *source, uint64_t id, const void *data, size_t len)
{
	(void)id;
	return multicast_notify(source, data, len);
}

static int multicast_ask_host(void *source, const uint8_t host[16], const void *data, size_t len)
{
	static const uint8_t v4_mapped[12] = {[10] = 0xff, 0xff};
	const struct multicast *multicast = source;
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = multicast->group.sin_port};

	if (memcmp(host, v4_mapped, sizeof(v4_mapped)))
		return 0;
	memcpy(&name.sin_addr, host + sizeof(v4_mapped), sizeof(name.sin_addr));
	return sendto(multicast->asker, data, len, MSG_NOSIGNAL, (const struct sockaddr *)&name,
		sizeof(name)) >= 0 || errno == EAGAIN || errno == ENOBUFS;
}

/* Without a filter all comes here, as where the kernel has none. */
static void filter_attach(const struct multicast *multicast)
{
	ripc__filter_attach(&multicast->filter, multicast->listener, multicast->group.sin_addr);
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

	return ripc__inet_reply(multicast->listener, to, data, len);
}

/* Most reports are of what concerns nobody here. */
static bool has_moved(struct multicast *multicast)
{
	uint64_t last = multicast->addresses;

	if (!ripc__changes_read(multicast->changes))
		return false;
	multicast->addresses = addresses_hash(multicast->host.interfaces);
	if (multicast->addresses == last)
		return false;
	rescan(multicast, clock_ns());
	return true;
}

static int multicast_poll(void *source, struct ripc__source_event *event)
{
	struct multicast *multicast = source;
	int first, second;

	if (has_moved(multicast)) {
		*event = (struct ripc__source_event){.kind = RIPC_SOURCE_REHOMED};
		return 1;
	}
	multicast->asker_next = !multicast->asker_next;
	first = multicast->asker_next ? multicast->listener : multicast->asker;
	second = multicast->asker_next ? multicast->asker : multicast->listener;
	return ripc__inet_receive(first, multicast->buffer, event) ||
		ripc__inet_receive(second, multicast->buffer, event);
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
	.ask_host = multicast_ask_host,
	.heed = multicast_heed,
	.know = multicast_know,
	.reply = multicast_reply,
	.notify = multicast_notify,
	.poll = multicast_poll,
	.wait_fd = multicast_wait_fd,
};
