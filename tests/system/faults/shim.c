/* SPDX-License-Identifier: BSD-3-Clause */
/* See shim.h. Blocks are remembered by address, because some come from inside the C library. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define BLOCKS_MAX 65536

enum call {
	CALL_MALLOC, CALL_CALLOC, CALL_REALLOC, CALL_REALLOCARRAY, CALL_STRDUP, CALL_MMAP,
	CALL_MEMFD_CREATE, CALL_FTRUNCATE, CALL_MADVISE, CALL_SOCKET, CALL_SETSOCKOPT,
	CALL_GETSOCKOPT, CALL_GETSOCKNAME, CALL_BIND, CALL_CONNECT, CALL_EPOLL_CREATE,
	CALL_EPOLL_CTL, CALL_EVENTFD, CALL_OPEN, CALL_FOPEN, CALL_GETIFADDRS, CALL_GETADDRINFO,
	CALL_SENDTO, CALL_SENDMSG, CALL_RECVMSG, CALL_RECVMMSG, CALL_READ, CALL_WRITE,
	CALL_GETRANDOM, CALL_EPOLL_WAIT, CALL_PTHREAD_CREATE, CALLS
};

static const char *const names[CALLS] = {
	"malloc", "calloc", "realloc", "reallocarray", "strdup", "mmap", "memfd_create",
	"ftruncate", "madvise", "socket", "setsockopt", "getsockopt", "getsockname", "bind",
	"connect", "epoll_create1", "epoll_ctl", "eventfd", "open", "fopen", "getifaddrs",
	"getaddrinfo", "sendto", "sendmsg", "recvmsg", "recvmmsg", "read", "write", "getrandom",
	"epoll_wait", "pthread_create",
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool armed;
static uint64_t counted, fail_first, fail_end;
static uint64_t made[CALLS], failed[CALLS];
static const void *blocks[BLOCKS_MAX];
static int64_t n_blocks;

void shim_arm(uint64_t first, uint64_t n)
{
	pthread_mutex_lock(&mutex);
	armed = true;
	counted = 0;
	fail_first = first;
	fail_end = first + n;
	pthread_mutex_unlock(&mutex);
}

uint64_t shim_disarm(void)
{
	uint64_t n;

	pthread_mutex_lock(&mutex);
	armed = false;
	n = counted;
	pthread_mutex_unlock(&mutex);
	return n;
}

int64_t shim_blocks(void)
{
	int64_t n;

	pthread_mutex_lock(&mutex);
	n = n_blocks;
	pthread_mutex_unlock(&mutex);
	return n;
}

const char *shim_never_failed(bool all)
{
	for (int i = 0; i < CALLS; i++) {
		if (failed[i] == 0 && (made[i] > 0 || all))
			return names[i];
	}
	return NULL;
}

static bool fails(enum call call)
{
	bool now = false;

	pthread_mutex_lock(&mutex);
	if (armed) {
		counted++;
		now = counted >= fail_first && counted < fail_end;
		made[call]++;
		failed[call] += now;
	}
	pthread_mutex_unlock(&mutex);
	return now;
}

/* ---- memory ------------------------------------------------------------------------------ */

static uint32_t slot_of(const void *block)
{
	return (uint32_t)((uintptr_t)block * 0x9e3779b97f4a7c15u >> 48) % BLOCKS_MAX;
}

static void *remember(void *block)
{
	uint32_t at = slot_of(block);

	if (!block)
		return NULL;
	pthread_mutex_lock(&mutex);
	/* A test that takes as many as there are slots would hang here, visibly. */
	while (blocks[at] && blocks[at] != (const void *)1)
		at = (at + 1) % BLOCKS_MAX;
	blocks[at] = block;
	n_blocks++;
	pthread_mutex_unlock(&mutex);
	return block;
}

/* A freed slot keeps a mark, so that what comes behind it is still found. */
static void forget(const void *block)
{
	uint32_t at = slot_of(block);

	if (!block)
		return;
	pthread_mutex_lock(&mutex);
	while (blocks[at] && blocks[at] != block)
		at = (at + 1) % BLOCKS_MAX;
	if (blocks[at] == block) {
		blocks[at] = (const void *)1;
		n_blocks--;
	}
	pthread_mutex_unlock(&mutex);
}

void *__real_malloc(size_t len);
void *__wrap_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__wrap_calloc(size_t n, size_t len);
void *__real_realloc(void *block, size_t len);
void *__wrap_realloc(void *block, size_t len);
void *__real_reallocarray(void *block, size_t n, size_t len);
void *__wrap_reallocarray(void *block, size_t n, size_t len);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
void __real_free(void *block);
void __wrap_free(void *block);

static void *refuse(int error)
{
	errno = error;
	return NULL;
}

void *__wrap_malloc(size_t len)
{
	return fails(CALL_MALLOC) ? refuse(ENOMEM) : remember(__real_malloc(len));
}

void *__wrap_calloc(size_t n, size_t len)
{
	return fails(CALL_CALLOC) ? refuse(ENOMEM) : remember(__real_calloc(n, len));
}

void *__wrap_realloc(void *block, size_t len)
{
	void *moved;

	if (fails(CALL_REALLOC))
		return refuse(ENOMEM);
	forget(block);
	moved = __real_realloc(block, len);
	remember(moved ? moved : block);
	return moved;
}

void *__wrap_reallocarray(void *block, size_t n, size_t len)
{
	void *moved;

	if (fails(CALL_REALLOCARRAY))
		return refuse(ENOMEM);
	forget(block);
	moved = __real_reallocarray(block, n, len);
	remember(moved ? moved : block);
	return moved;
}

char *__wrap_strdup(const char *text)
{
	return fails(CALL_STRDUP) ? refuse(ENOMEM) : remember(__real_strdup(text));
}

void __wrap_free(void *block)
{
	forget(block);
	__real_free(block);
}

/* ---- the kernel -------------------------------------------------------------------------- */

/* Defines the wrapper of a call that returns type, and fails with result and error. */
#define WRAP(type, name, call, result, error, parameters, arguments) \
	type __real_##name parameters; \
	type __wrap_##name parameters; \
	type __wrap_##name parameters \
	{ \
		if (fails(call)) { \
			errno = error; \
			return result; \
		} \
		return __real_##name arguments; \
	}

WRAP(void *, mmap64, CALL_MMAP, MAP_FAILED, ENOMEM,
	(void *at, size_t len, int access, int flags, int fd, off_t offset),
	(at, len, access, flags, fd, offset))
WRAP(int, memfd_create, CALL_MEMFD_CREATE, -1, EMFILE, (const char *name, unsigned int flags),
	(name, flags))
WRAP(int, ftruncate64, CALL_FTRUNCATE, -1, ENOMEM, (int fd, off_t len), (fd, len))
WRAP(int, madvise, CALL_MADVISE, -1, ENOMEM, (void *at, size_t len, int advice), (at, len, advice))
WRAP(int, socket, CALL_SOCKET, -1, EMFILE, (int family, int type, int protocol),
	(family, type, protocol))
WRAP(int, setsockopt, CALL_SETSOCKOPT, -1, ENOBUFS,
	(int fd, int level, int name, const void *value, socklen_t len),
	(fd, level, name, value, len))
WRAP(int, getsockopt, CALL_GETSOCKOPT, -1, ENOBUFS,
	(int fd, int level, int name, void *value, socklen_t *len), (fd, level, name, value, len))
WRAP(int, getsockname, CALL_GETSOCKNAME, -1, ENOBUFS,
	(int fd, struct sockaddr *name, socklen_t *len), (fd, name, len))
WRAP(int, bind, CALL_BIND, -1, ENOMEM, (int fd, const struct sockaddr *name, socklen_t len),
	(fd, name, len))
WRAP(int, connect, CALL_CONNECT, -1, ENETUNREACH,
	(int fd, const struct sockaddr *name, socklen_t len), (fd, name, len))
WRAP(int, epoll_create1, CALL_EPOLL_CREATE, -1, EMFILE, (int flags), (flags))
WRAP(int, epoll_ctl, CALL_EPOLL_CTL, -1, ENOMEM,
	(int epoll_fd, int what, int fd, struct epoll_event *event), (epoll_fd, what, fd, event))
WRAP(int, epoll_wait, CALL_EPOLL_WAIT, -1, EINTR,
	(int epoll_fd, struct epoll_event *events, int n, int timeout_ms),
	(epoll_fd, events, n, timeout_ms))
WRAP(int, eventfd, CALL_EVENTFD, -1, EMFILE, (unsigned int count, int flags), (count, flags))
WRAP(FILE *, fopen64, CALL_FOPEN, NULL, EMFILE, (const char *path, const char *mode), (path, mode))
WRAP(int, getifaddrs, CALL_GETIFADDRS, -1, ENOMEM, (struct ifaddrs **all), (all))
WRAP(int, getaddrinfo, CALL_GETADDRINFO, EAI_MEMORY, ENOMEM,
	(const char *node, const char *service, const struct addrinfo *hints,
	struct addrinfo **found), (node, service, hints, found))
WRAP(ssize_t, sendto, CALL_SENDTO, -1, ENOBUFS,
	(int fd, const void *bytes, size_t len, int flags, const struct sockaddr *to,
	socklen_t to_len), (fd, bytes, len, flags, to, to_len))
WRAP(ssize_t, sendmsg, CALL_SENDMSG, -1, ENOBUFS,
	(int fd, const struct msghdr *message, int flags), (fd, message, flags))
WRAP(ssize_t, recvmsg, CALL_RECVMSG, -1, ENOMEM, (int fd, struct msghdr *message, int flags),
	(fd, message, flags))
WRAP(int, recvmmsg, CALL_RECVMMSG, -1, ENOMEM,
	(int fd, struct mmsghdr *messages, unsigned int n, int flags, struct timespec *timeout),
	(fd, messages, n, flags, timeout))
WRAP(ssize_t, read, CALL_READ, -1, EINTR, (int fd, void *bytes, size_t len), (fd, bytes, len))
WRAP(ssize_t, write, CALL_WRITE, -1, EINTR, (int fd, const void *bytes, size_t len),
	(fd, bytes, len))
WRAP(ssize_t, getrandom, CALL_GETRANDOM, -1, ENOSYS,
	(void *bytes, size_t len, unsigned int flags), (bytes, len, flags))

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
		void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
		void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
		void *arg)
{
	return fails(CALL_PTHREAD_CREATE) ? EAGAIN :
		__real_pthread_create(thread, attr, body, arg);
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);

/* The library opens files for reading only: there is no third argument to pass on. */
int __wrap_open64(const char *path, int flags, ...)
{
	if (fails(CALL_OPEN)) {
		errno = EMFILE;
		return -1;
	}
	return __real_open64(path, flags);
}
