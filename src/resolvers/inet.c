/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the IPv4 resolver sources share: sockets, receiving with the address that was asked,
 * answering from it, and the common options.
 *
 * A reply address is: the sender's address (4 bytes) and port (2), and the local address to
 * answer from (4), all in network order.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/wire/record.h"
#include "resolvers/inet.h"
#include "ripc/ripc.h"
#include "util/options.h"

#define REPLY_LEN 10

const struct ripc__option ripc__resolver_options[] = {
	{"resolver.group", RIPC_WORD, 0, 0, 0},
	{"resolver.names_s", RIPC_NUMBER, 0, 86400, 0},
	{"resolver.port", RIPC_NUMBER, 1, 65535, 0},
	{"resolver.sources", RIPC_WORD, 0, 0, 0},
	{"resolver.ttl", RIPC_NUMBER, 0, 255, 0},
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

int ripc__inet_socket(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1, error;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) == 0)
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

static bool sender_possible(const struct sockaddr_in *from, socklen_t len)
{
	uint32_t address = ntohl(from->sin_addr.s_addr);

	return len >= sizeof(*from) && from->sin_family == AF_INET && from->sin_port &&
		address != INADDR_ANY && address != INADDR_BROADCAST && !IN_MULTICAST(address);
}

/* Fills who sent it and, from the kernel's packet info, where it had been sent to. */
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

/* 1; 0: nothing there; -EBADMSG: something that does not count. */
static int receive_one(int fd, uint8_t *buffer, struct ripc__source_event *event)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control;
	struct sockaddr_in from = {0};
	struct iovec iov = {buffer, WIRE_RESOLVE_MAX + 1};
	struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov,
		.msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &message, 0);

	if (n < 0)
		return errno == EAGAIN ? 0 : -EBADMSG;
	if (n > WIRE_RESOLVE_MAX || !sender_possible(&from, message.msg_namelen))
		return -EBADMSG;
	*event = (struct ripc__source_event){.data = buffer, .len = (uint32_t)n};
	event_fill(event, &message, &from);
	return 1;
}

int ripc__inet_receive(int fd, uint8_t *buffer, struct ripc__source_event *event)
{
	int got = -EBADMSG;

	/* Bounded, so that a flood of junk does not keep the caller here. */
	for (int tries = 0; tries < 16 && got < 0; tries++)
		got = receive_one(fd, buffer, event);
	return got > 0;
}

int ripc__inet_reply(int fd, const struct ripc__addr *to, const void *data, size_t len)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control = {0};
	struct sockaddr_in name = {.sin_family = AF_INET};
	struct iovec iov = {(void *)(uintptr_t)data, len};
	struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof(name), .msg_iov = &iov,
		.msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
	struct in_pktinfo info = {0};

	if (to->len != REPLY_LEN)
		return -EINVAL;
	memcpy(&name.sin_addr, to->blob, 4);
	memcpy(&name.sin_port, to->blob + 4, 2);
	memcpy(&info.ipi_spec_dst, to->blob + 6, 4);
	cmsg->cmsg_level = IPPROTO_IP;
	cmsg->cmsg_type = IP_PKTINFO;
	cmsg->cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(cmsg), &info, sizeof(info));
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
