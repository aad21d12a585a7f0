/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Features of a kernel that emulators of other processors may lack. Each probe tries one out, and
 * returns NULL, or the missing feature in words.
 */
#ifndef TEST_KERNEL_H
#define TEST_KERNEL_H

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef IP_MULTICAST_ALL
#define IP_MULTICAST_ALL 49
#endif
#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif
#ifndef SO_RXQ_OVFL
#define SO_RXQ_OVFL 40
#endif

/* A UDP socket at 127.0.0.1, and its address. */
static inline int kernel_socket(struct sockaddr_in *name)
{
	socklen_t len = sizeof(*name);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*name = (struct sockaddr_in){.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	bind(fd, (struct sockaddr *)name, len);
	getsockname(fd, (struct sockaddr *)name, &len);
	return fd;
}

static inline const char *kernel_lacks_detaching(void)
{
	struct sockaddr_in name;
	int fd = kernel_socket(&name), unused = 0;
	bool refused = setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused)) &&
		errno == ENOPROTOOPT;

	close(fd);
	return refused ? "no filter can be detached (SO_DETACH_FILTER)" : NULL;
}

static inline const char *kernel_lacks_mtu(void)
{
	struct sockaddr_in name;
	int fd = kernel_socket(&name), mtu = 0;
	socklen_t len = sizeof(mtu);
	bool refused = connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0 &&
		getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &len) != 0;

	close(fd);
	return refused ? "nobody tells the MTU of a route (IP_MTU)" : NULL;
}

/* Offload goes by ancillary data, too: the udp backend asks the same. */
static inline const char *kernel_lacks_overflows(void)
{
	struct sockaddr_in name;
	int fd = kernel_socket(&name), on = 1;
	bool refused = setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on)) != 0;

	close(fd);
	return refused ? "no ancillary data tells of drops (SO_RXQ_OVFL), so offload is off" : NULL;
}

/* Whether a socket can hear less than all groups that others of the host have joined. */
static inline const char *kernel_lacks_multicast_all(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), off = 0;
	bool refused = setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off)) != 0;

	close(fd);
	return refused ? "a socket hears all groups of its host (IP_MULTICAST_ALL)" : NULL;
}

/* Receives a descriptor where there is only room for credentials. */
static inline const char *kernel_lacks_closing(void)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))] = {0};
	struct cmsghdr *c = (struct cmsghdr *)control;
	char byte = 'x';
	struct iovec iov = {&byte, 1};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = CMSG_SPACE(sizeof(int))};
	int ends[2], before, after, on = 1;

	socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends);
	setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	close(before = dup(ends[0]));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &ends[0], sizeof(int));
	sendmsg(ends[0], &message, 0);
	message.msg_controllen = sizeof(control);
	recvmsg(ends[1], &message, MSG_DONTWAIT);
	close(after = dup(ends[0]));
	close(ends[0]);
	close(ends[1]);
	if (after == before)
		return NULL;
	close(before);
	return "descriptors for which there is no room stay open";
}

static inline const char *kernel_lacks_dontfork(void)
{
	size_t len = (size_t)sysconf(_SC_PAGESIZE);
	char *page = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ends[2], status = 0;
	pid_t child;

	if (page == MAP_FAILED || pipe(ends) || madvise(page, len, MADV_DONTFORK))
		return NULL;
	child = fork();
	if (child == 0)
		_exit(write(ends[1], page, 1) == 1);
	waitpid(child, &status, 0);
	close(ends[0]);
	close(ends[1]);
	munmap(page, len);
	return status ? "a forked child has all of its parent's memory (MADV_DONTFORK)" : NULL;
}

static inline const char *kernel_lacks_wipeonfork(void)
{
	size_t len = (size_t)sysconf(_SC_PAGESIZE);
	char *page = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status = 0;
	pid_t child;

	if (page == MAP_FAILED)
		return NULL;
	page[0] = 1;
	madvise(page, len, MADV_WIPEONFORK);
	child = fork();
	if (child == 0)
		_exit(page[0]);
	waitpid(child, &status, 0);
	munmap(page, len);
	return status ? "a forked child has its parent's keys (MADV_WIPEONFORK)" : NULL;
}

/* A child in two further groups looks at them. If it cannot be, nothing is lacking. */
static inline const char *kernel_lacks_peer_groups(void)
{
	gid_t groups[2] = {64101, 64102}, seen[2] = {0};
	socklen_t len = sizeof(seen);
	int ends[2], status = 0;
	pid_t child = fork();

	if (child == 0) {
		if (setgroups(2, groups) ||
				socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
			_exit(0);
		_exit(getsockopt(ends[0], SOL_SOCKET, SO_PEERGROUPS, seen, &len) ||
			len != sizeof(seen) || memcmp(seen, groups, sizeof(seen)));
	}
	waitpid(child, &status, 0);
	return status ? "a socket names no groups of its peer (SO_PEERGROUPS)" : NULL;
}

static inline const char *kernel_lacks_joining(void)
{
	struct ip_mreqn group = {.imr_multiaddr.s_addr = htonl(0xefff5101),
		.imr_address.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool refused = setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)) ||
		setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &group, sizeof(group));

	close(fd);
	return refused ? "no socket can join a multicast group here" : NULL;
}

/* How often a test of this name runs: n times, or never where the kernel lacks what it needs. */
static inline int kernel_runs(const char *lack, const char *name, int n)
{
	if (!lack)
		return n;
	printf("skipped: %s: %s\n", name, lack);
	fflush(stdout); /* not once more by each child */
	return 0;
}

#endif
