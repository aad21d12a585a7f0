/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the resolver sources for networks: sockets, receiving with the address that was
 * queried, answering from that address, and the options of the sources.
 *
 * A reply address is: the sender's address and port (2 bytes), and the local address to answer
 * from, all in network order; an address has 4 bytes over IPv4 and 16 over IPv6. Over IPv6 the
 * number of the interface follows (4). A link-local address is never a host's address: it means
 * nothing without an interface.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/wire/record.h"
#include "internal.h"
#include "ripc/ripc.h"
#include "util/options.h"

#define REPLY_LEN  10
#define REPLY6_LEN 38

union name {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

const struct ripc__option ripc__resolver_options[] = {
	{"resolver.group", RIPC_WORD, 0, 0, 0},
	{"resolver.group6", RIPC_WORD, 0, 0, 0},
	{"resolver.names_s", RIPC_NUMBER, 0, 86400, 0},
	{"resolver.port", RIPC_NUMBER, 1, 65535, 0},
	{"resolver.sources", RIPC_WORD, 0, 0, 0},
	{"resolver.ttl", RIPC_NUMBER, 0, 255, 0},
	{0},
};

const struct ripc__option ripc__store_options[] = {
	{"store.auth", RIPC_WORD, 0, 0, offsetof(struct store_wish, auth)},
	{"store.cluster", RIPC_WORD, 0, 0, offsetof(struct store_wish, cluster)},
	{"store.servers", RIPC_WORD, 0, 0, offsetof(struct store_wish, servers)},
	{"store.session_ms", RIPC_NUMBER, 500, 600000, offsetof(struct store_wish, session_ms)},
	{0},
};

int ripc__inet_number(const struct ripc__host *host, const char *option, uint32_t fallback)
{
	struct ripc__option wanted[2] = {{0}};
	uint32_t value = fallback;
	int error;

	for (const struct ripc__option *at = ripc__resolver_options; at->name; at++) {
		if (strcmp(at->name, option) == 0)
			wanted[0] = *at;
	}
	error = ripc__options_read(host, wanted, &value);
	return error ? error : (int)value;
}

int ripc__inet_port(const struct ripc__host *host)
{
	return ripc__inet_number(host, "resolver.port", INET_PORT);
}

static int socket_open(int family, int level, int tells_where)
{
	int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1, error;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, level, tells_where, &on, sizeof(on)) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

int ripc__inet_socket(void)
{
	return socket_open(AF_INET, IPPROTO_IP, IP_PKTINFO);
}

int ripc__inet6_socket(void)
{
	int fd = socket_open(AF_INET6, IPPROTO_IPV6, IPV6_RECVPKTINFO);
	int on = 1, error;

	if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

static void map_v4(uint8_t host[16], struct in_addr address)
{
	memset(host, 0, 10);
	host[10] = host[11] = 0xff;
	memcpy(host + 12, &address, 4);
}

static bool is_one_host(const struct in6_addr *ip)
{
	return !IN6_IS_ADDR_UNSPECIFIED(ip) && !IN6_IS_ADDR_MULTICAST(ip) &&
		!IN6_IS_ADDR_LINKLOCAL(ip) && !IN6_IS_ADDR_V4MAPPED(ip);
}

static bool sender_possible(const union name *from, socklen_t len)
{
	uint32_t address = ntohl(from->in.sin_addr.s_addr);

	if (len >= sizeof(from->in6) && from->any.sa_family == AF_INET6)
		return from->in6.sin6_port && is_one_host(&from->in6.sin6_addr);
	return len >= sizeof(from->in) && from->any.sa_family == AF_INET && from->in.sin_port &&
		address != INADDR_ANY && address != INADDR_BROADCAST && !IN_MULTICAST(address);
}

/* Fills in the sender over IPv4 and, from the kernel's packet info, the destination. */
static void event_fill(struct ripc__source_event *event, struct msghdr *message,
		const struct sockaddr_in *from)
{
	struct in_addr answer_from = {0};

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(message); cmsg;
			cmsg = CMSG_NXTHDR(message, cmsg)) {
		struct in_pktinfo info;

		if (cmsg->cmsg_level != IPPROTO_IP || cmsg->cmsg_type != IP_PKTINFO)
			continue;
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		answer_from = info.ipi_spec_dst;
		event->group = IN_MULTICAST(ntohl(info.ipi_addr.s_addr)) ||
			ntohl(info.ipi_addr.s_addr) == INADDR_BROADCAST;
	}
	map_v4(event->host, from->sin_addr);
	event->local = ntohl(from->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	memcpy(event->reply.host, event->host, sizeof(event->host));
	event->reply.len = REPLY_LEN;
	memcpy(event->reply.blob, &from->sin_addr, 4);
	memcpy(event->reply.blob + 4, &from->sin_port, 2);
	memcpy(event->reply.blob + 6, &answer_from, 4);
}

/* The same over IPv6. */
static void event_fill_six(struct ripc__source_event *event, struct msghdr *message,
		const struct sockaddr_in6 *from)
{
	struct in6_addr answer_from = IN6ADDR_ANY_INIT;
	uint32_t interface = 0;

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(message); cmsg;
			cmsg = CMSG_NXTHDR(message, cmsg)) {
		struct in6_pktinfo info;

		if (cmsg->cmsg_level != IPPROTO_IPV6 || cmsg->cmsg_type != IPV6_PKTINFO)
			continue;
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		interface = info.ipi6_ifindex;
		event->group = IN6_IS_ADDR_MULTICAST(&info.ipi6_addr);
		if (is_one_host(&info.ipi6_addr))
			answer_from = info.ipi6_addr;
	}
	memcpy(event->host, &from->sin6_addr, sizeof(event->host));
	event->local = IN6_IS_ADDR_LOOPBACK(&from->sin6_addr);
	memcpy(event->reply.host, event->host, sizeof(event->host));
	event->reply.len = REPLY6_LEN;
	memcpy(event->reply.blob, &from->sin6_addr, 16);
	memcpy(event->reply.blob + 16, &from->sin6_port, 2);
	memcpy(event->reply.blob + 18, &answer_from, 16);
	memcpy(event->reply.blob + 34, &interface, 4);
}

/* 1; 0: no datagram; -EBADMSG: one that does not count. */
static int receive_one(int fd, uint8_t *buffer, struct ripc__source_event *event)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} control;
	union name from = {.in6 = {0}};
	struct iovec iov = {buffer, WIRE_RESOLVE_MAX + 1};
	struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov,
		.msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &message, 0);

	if (n < 0)
		return errno == EAGAIN ? 0 : -EBADMSG;
	if (n > WIRE_RESOLVE_MAX || !sender_possible(&from, message.msg_namelen))
		return -EBADMSG;
	*event = (struct ripc__source_event){.data = buffer, .len = (uint32_t)n};
	if (from.any.sa_family == AF_INET6)
		event_fill_six(event, &message, &from.in6);
	else
		event_fill(event, &message, &from.in);
	return 1;
}

int ripc__inet_receive(int fd, uint8_t *buffer, struct ripc__source_event *event)
{
	int got = -EBADMSG;

	/* Bounded: a flood of junk does not keep the caller here. */
	for (int tries = 0; tries < 16 && got < 0; tries++)
		got = receive_one(fd, buffer, event);
	return got > 0;
}

bool ripc__inet_is_six(const struct ripc__addr *to)
{
	return to->len == REPLY6_LEN;
}

uint32_t ripc__inet_interface(const struct ripc__addr *from)
{
	uint32_t interface = 0;

	if (ripc__inet_is_six(from))
		memcpy(&interface, from->blob + 34, 4);
	return interface;
}

/* Fills in the destination of an answer and, in the control message, its source. */
static void reply_four(const struct ripc__addr *to, struct msghdr *message)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	struct cmsghdr *cmsg = message->msg_control;
	struct in_pktinfo info = {0};

	memcpy(&name.sin_addr, to->blob, 4);
	memcpy(&name.sin_port, to->blob + 4, 2);
	memcpy(&info.ipi_spec_dst, to->blob + 6, 4);
	memcpy(message->msg_name, &name, sizeof(name));
	message->msg_namelen = sizeof(name);
	message->msg_controllen = CMSG_SPACE(sizeof(info));
	*cmsg = (struct cmsghdr){.cmsg_level = IPPROTO_IP, .cmsg_type = IP_PKTINFO,
		.cmsg_len = CMSG_LEN(sizeof(info))};
	memcpy(CMSG_DATA(cmsg), &info, sizeof(info));
}

static void reply_six(const struct ripc__addr *to, struct msghdr *message)
{
	struct sockaddr_in6 name = {.sin6_family = AF_INET6};
	struct cmsghdr *cmsg = message->msg_control;
	struct in6_pktinfo info = {0};

	memcpy(&name.sin6_addr, to->blob, 16);
	memcpy(&name.sin6_port, to->blob + 16, 2);
	memcpy(&info.ipi6_addr, to->blob + 18, 16);
	memcpy(message->msg_name, &name, sizeof(name));
	message->msg_namelen = sizeof(name);
	message->msg_controllen = CMSG_SPACE(sizeof(info));
	*cmsg = (struct cmsghdr){.cmsg_level = IPPROTO_IPV6, .cmsg_type = IPV6_PKTINFO,
		.cmsg_len = CMSG_LEN(sizeof(info))};
	memcpy(CMSG_DATA(cmsg), &info, sizeof(info));
}

int ripc__inet_reply(int fd, const struct ripc__addr *to, const void *data, size_t len)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} control = {0};
	union name name;
	struct iovec iov = {(void *)(uintptr_t)data, len};
	struct msghdr message = {.msg_name = &name, .msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &control};

	if (to->len == REPLY_LEN)
		reply_four(to, &message);
	else if (to->len == REPLY6_LEN)
		reply_six(to, &message);
	else
		return -EINVAL;
	return sendmsg(fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

bool ripc__inet_interface_wanted(const char *wanted, const char *name)
{
	size_t len = strlen(name);

	if (!wanted || !*wanted)
		return true;
	while (*wanted) {
		size_t n = strcspn(wanted, ", ");

		if (n == len && memcmp(wanted, name, n) == 0)
			return true;
		wanted += n;
		wanted += strspn(wanted, ", ");
	}
	return false;
}

/* ---- filter ------------------------------------------------------------------------------ */

/*
 * A filter (classic BPF) for the socket that receives queries. The filter sees the datagram from
 * the UDP header on; docs/protocol.md has the places of the type, the ID, and the bits of a
 * digest. A hash of the ID chooses one of 512 bits, which are constants of the program.
 */

#define UDP_HEADER  8u
#define TYPE_AT     (UDP_HEADER + 1u)
#define ASKER_AT    (UDP_HEADER + 16u) /* its lowest byte */
#define ID_AT       (UDP_HEADER + 48u) /* a digest has its bits there */
#define TO_AT       ((uint32_t)SKF_NET_OFF + 24u) /* in the IPv6 header; 16 bytes */
#define TO_AT_FOUR  ((uint32_t)SKF_NET_OFF + 16u) /* in the IPv4 header */
#define PROGRAM_MAX 128u

struct program {
	struct sock_filter at[PROGRAM_MAX];
	uint16_t n;
};

static bool passes(const struct filter *filter, uint64_t id)
{
	return filter->bits[wire_hash(id) / 32] >> wire_hash(id) % 32 & 1;
}

/*
 * Attaching a filter takes the kernel milliseconds where many processes do so at once. A process
 * that only looks for others, under a private ID, therefore keeps its first filter.
 */
static bool drops_notices(const struct filter *filter)
{
	return filter->serves && !filter->knows;
}

bool ripc__filter_add(struct filter *filter, uint64_t id, bool private_id)
{
	bool dropped = drops_notices(filter), passed = passes(filter, id);

	filter->bits[wire_hash(id) / 32] |= 1u << wire_hash(id) % 32;
	filter->serves |= !private_id;
	return !passed || drops_notices(filter) != dropped;
}

bool ripc__filter_know(struct filter *filter)
{
	bool dropped = drops_notices(filter);

	filter->knows = true;
	return dropped;
}

static void add(struct program *program, uint16_t code, uint32_t k)
{
	program->at[program->n++] = (struct sock_filter)BPF_STMT(code, k);
}

static void branch(struct program *program, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
	program->at[program->n++] = (struct sock_filter)BPF_JUMP(code, k, yes, no);
}

/*
 * A digest has the same bits, of all IDs that it names; its first byte has the lowest ones.
 * Digests of our kin pass: their number is used to estimate the number of contexts
 * (core/resolve/publish.c).
 */
static void look_at_digest(struct program *program, const struct filter *filter)
{
	uint8_t after = 1; /* instructions up to the last one */

	for (uint32_t word = 0; word < FILTER_WORDS; word++)
		after += filter->bits[word] ? 2 : 0;
	branch(program, BPF_JMP | BPF_JEQ | BPF_K, WIRE_DIGEST, 0, after + 4);
	add(program, BPF_LD | BPF_B | BPF_ABS, ASKER_AT);
	add(program, BPF_ALU | BPF_AND | BPF_K, WIRE_DIGEST_KIN - 1);
	branch(program, BPF_JMP | BPF_JEQ | BPF_K, filter->kin, after, 0);
	for (uint32_t word = 0; word < FILTER_WORDS; word++) {
		if (!filter->bits[word])
			continue;
		after -= 2;
		add(program, BPF_LD | BPF_W | BPF_ABS, ID_AT + 4 * word);
		branch(program, BPF_JMP | BPF_JSET | BPF_K,
			__builtin_bswap32(filter->bits[word]), after, 0);
	}
	add(program, BPF_RET | BPF_K, 0);
	add(program, BPF_RET | BPF_K, UINT32_MAX);
}

/*
 * Passes packets to another address than the group's. One word of a v4-mapped address is
 * compared.
 */
static void pass_unicast(struct program *program, const struct in6_addr *group)
{
	bool four = IN6_IS_ADDR_V4MAPPED(group);

	for (uint32_t i = four ? 3 : 0; i < 4; i++) {
		add(program, BPF_LD | BPF_W | BPF_ABS, four ? TO_AT_FOUR : TO_AT + 4 * i);
		branch(program, BPF_JMP | BPF_JEQ | BPF_K, ntohl(group->s6_addr32[i]), 1, 0);
		add(program, BPF_RET | BPF_K, UINT32_MAX);
	}
}

/* Passes packets that are no multicast query or notice. */
static void pass_others(struct program *program, const struct filter *filter,
		const struct in6_addr *group)
{
	uint32_t last_filtered = drops_notices(filter) ? WIRE_WITHDRAWN : WIRE_QUERY;

	pass_unicast(program, group);
	add(program, BPF_LD | BPF_B | BPF_ABS, TYPE_AT);
	if (drops_notices(filter))
		look_at_digest(program, filter);
	branch(program, BPF_JMP | BPF_JGE | BPF_K, WIRE_QUERY, 0, 1);
	branch(program, BPF_JMP | BPF_JGT | BPF_K, last_filtered, 0, 1);
	add(program, BPF_RET | BPF_K, UINT32_MAX);
}

/*
 * Leaves the hash of the ID in M[0]; an ID of 0, which queries for all, passes, and what looks
 * like it.
 */
static void hash_id(struct program *program)
{
	add(program, BPF_LD | BPF_W | BPF_ABS, ID_AT);
	add(program, BPF_MISC | BPF_TAX, 0);
	add(program, BPF_LD | BPF_W | BPF_ABS, ID_AT + 4);
	add(program, BPF_ALU | BPF_XOR | BPF_X, 0);
	branch(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
	add(program, BPF_RET | BPF_K, UINT32_MAX);
	add(program, BPF_ALU | BPF_MUL | BPF_K, WIRE_HASH);
	add(program, BPF_ALU | BPF_RSH | BPF_K, WIRE_HASH_SHIFT);
	add(program, BPF_ST, 0);
}

/* Chooses the word, then looks at its bit. */
static void look_up(struct program *program, const struct filter *filter)
{
	add(program, BPF_ALU | BPF_AND | BPF_K, 31);
	add(program, BPF_MISC | BPF_TAX, 0);
	add(program, BPF_LD | BPF_MEM, 0);
	add(program, BPF_ALU | BPF_RSH | BPF_K, 5);
	for (uint32_t word = 0; word < FILTER_WORDS; word++) {
		branch(program, BPF_JMP | BPF_JEQ | BPF_K, word, 0, 2);
		add(program, BPF_LD | BPF_IMM, filter->bits[word]);
		add(program, BPF_JMP | BPF_JA, 3 * (FILTER_WORDS - 1 - word));
	}
	add(program, BPF_ALU | BPF_RSH | BPF_X, 0);
	branch(program, BPF_JMP | BPF_JSET | BPF_K, 1, 1, 0);
	add(program, BPF_RET | BPF_K, 0);
	add(program, BPF_RET | BPF_K, UINT32_MAX);
}

void ripc__filter_attach(const struct filter *filter, int fd, const struct in6_addr *group)
{
	struct program program = {.n = 0};
	struct sock_fprog call = {.filter = program.at};
	int unused = 0; /* required by the kernel all the same */

	pass_others(&program, filter, group);
	hash_id(&program);
	look_up(&program, filter);
	call.len = program.n;
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &call, sizeof(call)))
		setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
}

/* ---- changes ----------------------------------------------------------------------------- */

/*
 * Reports of the kernel about this host's interfaces and addresses: their contents do not
 * matter.
 */

#define CHANGES_MAX 64u /* reports of the kernel that are read at once */

int ripc__changes_open(void)
{
	struct sockaddr_nl name = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK |
		RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* ENOBUFS: there were more reports than the socket could keep. */
bool ripc__changes_read(int fd)
{
	uint8_t buffer[4096];
	bool any = false;

	for (uint32_t i = 0; fd >= 0 && i < CHANGES_MAX; i++) {
		struct sockaddr_nl from = {0};
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, buffer, sizeof(buffer), 0, (struct sockaddr *)&from,
			&len);

		if (n < 0 && errno != ENOBUFS)
			break;
		any |= n < 0 || from.nl_pid == 0;
	}
	return any;
}
