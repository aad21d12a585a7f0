/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel reports of this host's interfaces and addresses: only that it does so counts. */
#include "resolvers/inet.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* ENOBUFS: there was more than the socket could keep. */
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
