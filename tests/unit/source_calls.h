/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls between the resolver sources and the kernel, for tests in which they fail: a test
 * says in plan which one, and what odd things the kernel is to say. Linked with --wrap (see
 * meson.build).
 */
#ifndef RIPC_TEST_SOURCE_CALLS_H
#define RIPC_TEST_SOURCE_CALLS_H

#include <ifaddrs.h>
#include <inttypes.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/un.h>

#include "sources.h"

#define FORGED_LEN 3

/* With glibc another symbol, as the files may be large ones. */
#ifdef __GLIBC__
#define REAL_FOPEN __real_fopen64
#define WRAP_FOPEN __wrap_fopen64
#else
#define REAL_FOPEN __real_fopen
#define WRAP_FOPEN __wrap_fopen
#endif

enum call {
	CALL_SOCKET, CALL_SETSOCKOPT, CALL_BIND, CALL_CONNECT, CALL_EPOLL_CREATE1, CALL_EPOLL_CTL,
	CALL_EPOLL_WAIT, CALL_GETIFADDRS, CALL_SENDTO, CALL_SENDMSG, CALL_RECVMSG, CALL_FOPEN,
	CALL_CALLOC, CALLS
};

/* The results of the calls. */
static struct {
	enum call call;  /* its nth from now on fails; 0: none */
	int nth, error;
	int option;      /* if not 0, of setsockopt only this one */
	bool again;      /* and all after it */
	int count;       /* how often that call was made */
	int gai_error;
	const struct ifaddrs *interfaces; /* instead of the kernel's */
	int index;       /* of if_nametoindex; -1: the kernel's */
	bool index_counts; /* with index: each is one more */
	const char *names; /* contents of /proc/net/unix */
	struct msghdr *message; /* result of recvmsg, once */
} plan;

static inline bool fails(enum call call)
{
	if (plan.nth == 0 || call != plan.call)
		return false;
	plan.count++;
	if (plan.count != plan.nth && !(plan.again && plan.count > plan.nth))
		return false;
	errno = plan.error;
	return true;
}

static inline void plan_failure(enum call call, int nth, int error)
{
	plan.call = call;
	plan.nth = nth;
	plan.error = error;
	plan.count = 0;
}

static inline void plan_nothing(void)
{
	memset(&plan, 0, sizeof(plan));
	plan.index = -1;
}

/* ---- the calls ---------------------------------------------------------------------------- */

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __real_bind(int fd, const struct sockaddr *name, socklen_t len);
int __wrap_bind(int fd, const struct sockaddr *name, socklen_t len);
int __real_connect(int fd, const struct sockaddr *name, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *name, socklen_t len);
int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __real_epoll_ctl(int epoll_fd, int how, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int how, int fd, struct epoll_event *event);
int __real_epoll_wait(int epoll_fd, struct epoll_event *events, int n, int timeout_ms);
int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int n, int timeout_ms);
int __real_getifaddrs(struct ifaddrs **all);
int __wrap_getifaddrs(struct ifaddrs **all);
void __real_freeifaddrs(struct ifaddrs *all);
void __wrap_freeifaddrs(struct ifaddrs *all);
unsigned int __real_if_nametoindex(const char *name);
unsigned int __wrap_if_nametoindex(const char *name);
int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **found);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **found);
ssize_t __real_sendto(int fd, const void *data, size_t len, int flags,
		const struct sockaddr *to, socklen_t to_len);
ssize_t __wrap_sendto(int fd, const void *data, size_t len, int flags,
		const struct sockaddr *to, socklen_t to_len);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
FILE *REAL_FOPEN(const char *path, const char *mode);
FILE *WRAP_FOPEN(const char *path, const char *mode);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

int __wrap_socket(int domain, int type, int protocol)
{
	return fails(CALL_SOCKET) ? -1 : __real_socket(domain, type, protocol);
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	if ((!plan.option || plan.option == name) && fails(CALL_SETSOCKOPT))
		return -1;
	return __real_setsockopt(fd, level, name, value, len);
}

int __wrap_bind(int fd, const struct sockaddr *name, socklen_t len)
{
	return fails(CALL_BIND) ? -1 : __real_bind(fd, name, len);
}

int __wrap_connect(int fd, const struct sockaddr *name, socklen_t len)
{
	return fails(CALL_CONNECT) ? -1 : __real_connect(fd, name, len);
}

int __wrap_epoll_create1(int flags)
{
	return fails(CALL_EPOLL_CREATE1) ? -1 : __real_epoll_create1(flags);
}

int __wrap_epoll_ctl(int epoll_fd, int how, int fd, struct epoll_event *event)
{
	return fails(CALL_EPOLL_CTL) ? -1 : __real_epoll_ctl(epoll_fd, how, fd, event);
}

int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int n, int timeout_ms)
{
	return fails(CALL_EPOLL_WAIT) ? -1 : __real_epoll_wait(epoll_fd, events, n, timeout_ms);
}

int __wrap_getifaddrs(struct ifaddrs **all)
{
	if (fails(CALL_GETIFADDRS))
		return -1;
	if (!plan.interfaces)
		return __real_getifaddrs(all);
	*all = (struct ifaddrs *)(uintptr_t)plan.interfaces;
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *all)
{
	if (all != plan.interfaces)
		__real_freeifaddrs(all);
}

unsigned int __wrap_if_nametoindex(const char *name)
{
	if (plan.index < 0)
		return __real_if_nametoindex(name);
	plan.index += plan.index_counts;
	return (unsigned int)plan.index;
}

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **found)
{
	/* Only names: numbers need no server. */
	if (plan.gai_error && strcmp(node, "localhost") == 0)
		return plan.gai_error;
	return __real_getaddrinfo(node, service, hints, found);
}

ssize_t __wrap_sendto(int fd, const void *data, size_t len, int flags,
		const struct sockaddr *to, socklen_t to_len)
{
	return fails(CALL_SENDTO) ? -1 : __real_sendto(fd, data, len, flags, to, to_len);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return fails(CALL_SENDMSG) ? -1 : __real_sendmsg(fd, message, flags);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	const struct msghdr *forged = plan.message;

	if (fails(CALL_RECVMSG))
		return -1;
	if (!forged)
		return __real_recvmsg(fd, message, flags);
	plan.message = NULL;
	memcpy(message->msg_name, forged->msg_name, forged->msg_namelen);
	message->msg_namelen = forged->msg_namelen;
	memcpy(message->msg_control, forged->msg_control, forged->msg_controllen);
	message->msg_controllen = forged->msg_controllen;
	return FORGED_LEN;
}

FILE *WRAP_FOPEN(const char *path, const char *mode)
{
	if (fails(CALL_FOPEN))
		return NULL;
	if (!plan.names || strcmp(path, "/proc/net/unix") != 0)
		return REAL_FOPEN(path, mode);
	return fmemopen((char *)(uintptr_t)plan.names, strlen(plan.names), "r");
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails(CALL_CALLOC) ? NULL : __real_calloc(n, size);
}

#endif
