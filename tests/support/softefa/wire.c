/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of queue pairs: their names, and datagrams in and out. See wire.h.
 */
#include "wire.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC	   0x53454631 /* "SEF1" */
#define PARTS_MAX  8
#define BUFFER_LEN (4 << 20)

/* "\0softefa/FABRIC/GID/QPN", all digits lower case hexadecimal, so that a name has one form. */
#define PREFIX	     "softefa/"
#define PREFIX_LEN   (sizeof(PREFIX) - 1)
#define TAIL_LEN     (1 + 2 * SOFTEFA_GID_LEN + 1 + 8)
#define NAME_OFFSET  (offsetof(struct sockaddr_un, sun_path) + 1)

static const char digits[] = "0123456789abcdef";

bool softefa_peer_same(const struct softefa_peer *a, const struct softefa_peer *b)
{
	return a->qpn == b->qpn && memcmp(a->gid, b->gid, SOFTEFA_GID_LEN) == 0;
}

static socklen_t name_of(const char *fabric, const struct softefa_peer *peer,
	struct sockaddr_un *name)
{
	size_t fabric_len = strlen(fabric);
	char *at = name->sun_path + 1;

	name->sun_family = AF_UNIX;
	name->sun_path[0] = '\0';
	memcpy(at, PREFIX, PREFIX_LEN);
	at += PREFIX_LEN;
	memcpy(at, fabric, fabric_len);
	at += fabric_len;
	*at++ = '/';
	for (int i = 0; i < SOFTEFA_GID_LEN; i++) {
		*at++ = digits[peer->gid[i] >> 4];
		*at++ = digits[peer->gid[i] & 15];
	}
	*at++ = '/';
	for (int shift = 28; shift >= 0; shift -= 4)
		*at++ = digits[peer->qpn >> shift & 15];
	return (socklen_t)(at - (char *)name);
}

static int digit_value(char c)
{
	const char *found = c ? strchr(digits, c) : NULL;

	return found ? (int)(found - digits) : -1;
}

static bool hex_read(const char *text, size_t n_digits, uint8_t *bytes)
{
	for (size_t i = 0; i < n_digits; i++) {
		int value = digit_value(text[i]);

		if (value < 0)
			return false;
		bytes[i / 2] = (uint8_t)(i % 2 ? bytes[i / 2] | value : value << 4);
	}
	return true;
}

/* A sender has a name of our kind, or its datagrams are ignored. */
static bool peer_of(const char *fabric, const struct sockaddr_un *name, socklen_t len,
	struct softefa_peer *peer)
{
	size_t fabric_len = strlen(fabric);
	const char *at = name->sun_path + 1;
	uint8_t qpn[4];

	if (len != NAME_OFFSET + PREFIX_LEN + fabric_len + TAIL_LEN || name->sun_path[0])
		return false;
	if (memcmp(at, PREFIX, PREFIX_LEN) || memcmp(at + PREFIX_LEN, fabric, fabric_len))
		return false;
	at += PREFIX_LEN + fabric_len;
	if (at[0] != '/' || at[1 + 2 * SOFTEFA_GID_LEN] != '/')
		return false;
	if (!hex_read(at + 1, 2 * SOFTEFA_GID_LEN, peer->gid))
		return false;
	if (!hex_read(at + 2 + 2 * SOFTEFA_GID_LEN, 8, qpn))
		return false;
	memcpy(&peer->qpn, qpn, sizeof(qpn));
	peer->qpn = be32toh(peer->qpn);
	return true;
}

int softefa_wire_open(const char *fabric, const struct softefa_peer *self)
{
	struct sockaddr_un name;
	socklen_t len = name_of(fabric, self, &name);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int buffer_len = BUFFER_LEN, error;

	if (fd < 0)
		return -errno;
	/* The system's own limit holds if it is lower: then there is more waiting, no loss. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_len, sizeof(buffer_len));
	if (bind(fd, (struct sockaddr *)&name, len) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

union control {
	struct cmsghdr header;
	uint8_t bytes[CMSG_SPACE(sizeof(int))];
};

static int send_message(int fd, const struct msghdr *message)
{
	if (sendmsg(fd, message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return errno == EWOULDBLOCK || errno == ENOBUFS || errno == EINTR ? -EAGAIN : -errno;
}

int softefa_wire_send(const char *fabric, int fd, const struct softefa_peer *to,
	struct softefa_header *header, const struct iovec *parts, int n_parts)
{
	struct sockaddr_un name;
	struct iovec all[PARTS_MAX] = {{header, sizeof(*header)}};
	struct msghdr message = {.msg_name = &name, .msg_iov = all};

	if (n_parts > PARTS_MAX - 1)
		return -EINVAL;
	header->magic = MAGIC;
	for (int i = 0; i < n_parts; i++)
		all[1 + i] = parts[i];
	message.msg_namelen = name_of(fabric, to, &name);
	message.msg_iovlen = 1 + (size_t)n_parts;
	return send_message(fd, &message);
}

int softefa_wire_pass(const char *fabric, int fd, const struct softefa_peer *to,
	struct softefa_header *header, int passed_fd)
{
	union control control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
		.cmsg_len = CMSG_LEN(sizeof(int))}};
	struct sockaddr_un name;
	struct iovec part = {header, sizeof(*header)};
	struct msghdr message = {.msg_name = &name, .msg_iov = &part, .msg_iovlen = 1};

	header->magic = MAGIC;
	message.msg_namelen = name_of(fabric, to, &name);
	if (passed_fd >= 0) {
		memcpy(CMSG_DATA(&control.header), &passed_fd, sizeof(passed_fd));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	return send_message(fd, &message);
}

/* There is room for one descriptor: of more, the kernel closes the rest. */
static int passed(struct msghdr *message)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(message);
	int fd = -1;

	if (control && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS &&
		control->cmsg_len >= CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(control), sizeof(fd));
	return fd;
}

int softefa_wire_receive(const char *fabric, int fd, struct softefa_peer *from,
	struct softefa_header *header, struct iovec *payload, int *passed_fd)
{
	union control control;
	struct sockaddr_un name;
	struct iovec parts[2] = {{header, sizeof(*header)}, *payload};
	struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof(name),
		.msg_iov = parts, .msg_iovlen = 2, .msg_control = &control,
		.msg_controllen = sizeof(control)};
	ssize_t len = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*passed_fd = -1;
	if (len < 0)
		return -EAGAIN;
	*passed_fd = passed(&message);
	if ((size_t)len < sizeof(*header) || message.msg_flags & MSG_TRUNC)
		return -EBADMSG;
	if (header->magic != MAGIC || header->has_imm > 1 || header->zero[0] || header->zero[1])
		return -EBADMSG;
	if (!peer_of(fabric, &name, message.msg_namelen, from))
		return -EBADMSG;
	return (int)((size_t)len - sizeof(*header));
}
