/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements bench_socket.h: plain sockets, as a program without libripc would use them.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "ripc/ripc.h"
#include "bench_socket.h"

static int look_up(const char *host, const char *port, int type, struct addrinfo **list)
{
	struct addrinfo hints = {
		.ai_socktype = type,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
	};

	return getaddrinfo(host, port, &hints, list) == 0 ? 0 : -EADDRNOTAVAIL;
}

/* Small messages must leave at once. */
static int set_no_delay(int fd, int type)
{
	int one = 1;

	if (type != SOCK_STREAM)
		return 0;
	return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 ? -errno : 0;
}

static int tell_port(int fd, int ready_fd)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	char port[NI_MAXSERV];

	if (getsockname(fd, (struct sockaddr *)&address, &len) < 0)
		return -errno;
	if (getnameinfo((struct sockaddr *)&address, len, NULL, 0, port, sizeof(port),
		    NI_NUMERICSERV) != 0)
		return -EADDRNOTAVAIL;
	return bench_ready(ready_fd, port);
}

int bench_socket_serve(const struct bench_job *job, int type, int ready_fd)
{
	struct sockaddr_storage any = {0};
	struct addrinfo *list;
	int fd, err = look_up(job->host, "0", type, &list);

	if (err < 0)
		return err;
	/* Every address of that family, any port: all zero but for the family. */
	any.ss_family = (sa_family_t)list->ai_family;
	fd = socket(list->ai_family, type, 0);
	if (fd < 0)
		err = -errno;
	else if (bind(fd, (struct sockaddr *)&any, list->ai_addrlen) < 0)
		err = -errno;
	else if (type == SOCK_STREAM && listen(fd, BENCH_THREADS_MAX) < 0)
		err = -errno;
	else
		err = set_no_delay(fd, type); /* sockets from accept() inherit the option */
	freeaddrinfo(list);
	if (err == 0)
		err = tell_port(fd, ready_fd);
	if (err < 0 && fd >= 0)
		close(fd);
	return err < 0 ? err : fd;
}

int bench_socket_connect(const struct bench_job *job, int type)
{
	struct addrinfo *list;
	int fd, err = look_up(job->host, job->where, type, &list);

	if (err < 0)
		return err;
	fd = socket(list->ai_family, type, 0);
	if (fd < 0 || connect(fd, list->ai_addr, list->ai_addrlen) < 0)
		err = -errno;
	else
		err = set_no_delay(fd, type);
	freeaddrinfo(list);
	if (err < 0 && fd >= 0)
		close(fd);
	return err < 0 ? err : fd;
}

ssize_t bench_socket_recv(int fd, void *buffer, size_t len, uint64_t spin_us)
{
	bool spins = spin_us && spin_us != RIPC_SPIN_NEVER;
	uint64_t end_ns = spins ? tool_now_ns() + spin_us * 1000 : 0;
	ssize_t got;

	while (spins && tool_now_ns() < end_ns) {
		got = recv(fd, buffer, len, MSG_DONTWAIT);
		if (got >= 0)
			return got;
		if (errno != EAGAIN)
			return -errno;
	}
	got = recv(fd, buffer, len, 0);
	return got < 0 ? -errno : got;
}

int bench_socket_recv_all(int fd, void *buffer, size_t len, uint64_t spin_us)
{
	char *at = buffer;
	ssize_t got;

	while (len > 0) {
		got = bench_socket_recv(fd, at, len, spin_us);
		if (got <= 0)
			return got < 0 ? (int)got : -ECONNRESET;
		at += got;
		len -= (size_t)got;
	}
	return 0;
}

int bench_socket_send_all(int fd, const void *buffer, size_t len)
{
	const char *at = buffer;
	ssize_t sent;

	while (len > 0) {
		sent = send(fd, at, len, MSG_NOSIGNAL);
		if (sent < 0)
			return -errno;
		at += sent;
		len -= (size_t)sent;
	}
	return 0;
}
