/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the tests of the resolver sources. They use real sockets, each test in a network
 * namespace of its own where that is allowed; elsewhere ports and IDs are this process's own, and
 * the group is joined on lo alone.
 */
#ifndef RIPC_TEST_SOURCES_H
#define RIPC_TEST_SOURCES_H

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/util/process.h"
#include "core/net/backend.h"
#include "core/wire/wire.h"
#include "suite.h"

#define ID          0x5ca1ab1e00000000u
#define PATIENCE_MS 10000 /* for what must come: only a failing test waits so long */

/* One opened source, and what it was told by its host. */
struct side {
	const struct ripc__source *ops;
	void *state;
	struct ripc__host host;
	struct ripc__source_event event;
	const char *options[3][2];
	char port[8];
	char logged[512];
	char why[256], remedy[256]; /* as side_probe() got them */
};

static inline int test_port(int k)
{
	return 20000 + (getpid() * 4 + k) % 12000;
}

static inline uint64_t test_id(int k)
{
	return ID + ((uint64_t)getpid() << 8) + (uint64_t)k;
}

static inline void side_log(void *arg, int level, const char *format, ...)
{
	struct side *side = arg;
	va_list args;

	(void)level;
	va_start(args, format);
	vsnprintf(side->logged, sizeof(side->logged), format, args);
	va_end(args);
}

static inline const char *side_option(void *arg, const char *name)
{
	const struct side *side = arg;

	for (int i = 0; i < 3; i++) {
		if (side->options[i][0] && strcmp(side->options[i][0], name) == 0)
			return side->options[i][1];
	}
	return NULL;
}

static inline void side_init(struct side *side, const struct ripc__source *ops)
{
	*side = (struct side){.ops = ops};
	snprintf(side->port, sizeof(side->port), "%d", test_port(0));
	side->options[0][0] = "resolver.port";
	side->options[0][1] = side->port;
	side->host = (struct ripc__host){.arg = side, .log = side_log, .option = side_option,
		.interfaces = "lo", .context = 1};
}

static inline int side_try(struct side *side)
{
	int error;

	side->state = calloc(1, side->ops->size);
	ck_assert_ptr_nonnull(side->state);
	error = side->ops->open(side->state, &side->host);
	if (error) {
		free(side->state);
		side->state = NULL;
	}
	return error;
}

static inline int side_probe(struct side *side)
{
	return side->ops->probe(&side->host, side->why, side->remedy);
}

static inline void side_open(struct side *side, const struct ripc__source *ops)
{
	side_init(side, ops);
	ck_assert_int_eq(side_try(side), 0);
}

static inline void side_close(struct side *side)
{
	side->ops->close(side->state);
	free(side->state);
}

static inline int side_poll(struct side *side)
{
	return side->ops->poll(side->state, &side->event);
}

/* Waits until something comes, and that it is these bytes. */
static inline void side_expect(struct side *side, const char *text)
{
	struct pollfd fd = {.fd = side->ops->wait_fd(side->state), .events = POLLIN};

	ck_assert_int_eq(poll(&fd, 1, PATIENCE_MS), 1);
	ck_assert_int_eq(side_poll(side), 1);
	ck_assert_uint_eq(side->event.len, strlen(text));
	ck_assert_mem_eq(side->event.data, text, strlen(text));
}

static inline int side_ask(struct side *side, uint64_t id, const char *text)
{
	return side->ops->ask(side->state, id, text, strlen(text));
}

static inline int side_ask_again(struct side *side, uint64_t id, const char *text)
{
	return side->ops->ask_again(side->state, id, text, strlen(text));
}

static inline int side_reply(struct side *side, const char *text)
{
	return side->ops->reply(side->state, &side->event.reply, text, strlen(text));
}

static inline void expect_loopback(const uint8_t host[16])
{
	static const uint8_t prefix[13] = {[10] = 0xff, 0xff, 127};

	ck_assert_mem_eq(host, prefix, sizeof(prefix));
}

/* How many descriptors are open; with kept_on_exec, of those that exec would not close. */
static inline int descriptors(bool kept_on_exec)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	int n = 0;

	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || fd == dirfd(dir))
			continue;
		n += !kept_on_exec || !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	closedir(dir);
	return n;
}

/* Lets a source meet every point at which descriptors can run out. */
static inline void open_without_descriptors(const struct ripc__source *ops, const char *peers)
{
	struct side side;
	int before = descriptors(false), kept = descriptors(true);

	for (int spare = 0; spare < 12; spare++) {
		int top = dup(1), error;
		rlim_t limit;

		close(top);
		limit = descriptors_limit((rlim_t)(top + spare));
		side_init(&side, ops);
		side.host.peers = peers;
		error = side_try(&side);
		if (!error) {
			if (ops->publish)
				error = ops->publish(side.state, test_id(0), 1, RIPC_NAME_FIRST);
			side_close(&side);
		}
		ck_assert(error == 0 || error == -EMFILE);
		descriptors_limit(limit);
		ck_assert_int_eq(descriptors(false), before);
		if (!spare && !peers)
			ck_assert_int_eq(error, -EMFILE);
	}
	ck_assert_int_eq(side_try(&side), 0);
	ck_assert_int_eq(descriptors(true), kept);
	side_close(&side);
}

/* ---- networks --------------------------------------------------------------------------- */

static inline void lo_set(bool up)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = (short)(up ? IFF_UP : 0)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(ioctl(fd, SIOCSIFFLAGS, &request), 0);
	close(fd);
}

/* A fixture: a network with nothing but lo, if we may have one. */
static inline void own_network(void)
{
	if (unshare(CLONE_NEWNET) == 0)
		lo_set(true);
}

static inline bool own_network_possible(void)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(unshare(CLONE_NEWNET) != 0);
	waitpid(child, &status, 0);
	return status == 0;
}

/* ---- other people's sockets ------------------------------------------------------------- */

/* A UDP socket of somebody else, bound to a loopback address. */
static inline int udp_open(const char *address, int port)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(inet_pton(AF_INET, address, &name.sin_addr), 1);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	return fd;
}

static inline void udp_send(int fd, const char *address, int port, size_t len)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	static char bytes[65000];

	memset(bytes, 'u', sizeof(bytes));
	ck_assert_int_eq(inet_pton(AF_INET, address, &name.sin_addr), 1);
	ck_assert_int_eq(sendto(fd, bytes, len, 0, (struct sockaddr *)&name, sizeof(name)), len);
}

/* Waits for one datagram; returns the address it came from, as a number. */
static inline uint32_t udp_expect(int fd, const char *text)
{
	struct pollfd waited = {.fd = fd, .events = POLLIN};
	struct sockaddr_in from;
	socklen_t from_len = sizeof(from);
	char bytes[2000];
	ssize_t n;

	ck_assert_int_eq(poll(&waited, 1, PATIENCE_MS), 1);
	n = recvfrom(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&from, &from_len);
	ck_assert_int_eq(n, strlen(text));
	ck_assert_mem_eq(bytes, text, (size_t)n);
	return ntohl(from.sin_addr.s_addr);
}

#endif
