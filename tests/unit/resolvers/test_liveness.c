/* SPDX-License-Identifier: BSD-3-Clause */
/* Liveness on this host: the reported and unreported ends of processes. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "resolvers/internal.h"
#include "suite.h"

#define PATIENCE_MS 20000

/* A context of this process, and what it was told. */
struct side {
	struct liveness liveness;
	int epoll_fd;
	uint64_t told; /* the last one that has ended; 0: none */
	uint32_t n_told, n_soon;
};

/* Another process, with a side of its own. */
struct other {
	int pid, pipe;
	uint64_t context;
};

static uint64_t context_of(uint32_t number)
{
	return (uint64_t)getpid() << 32 | number;
}

static void gone(void *arg, uint64_t context)
{
	struct side *side = arg;

	side->n_soon += context == 0;
	side->n_told += context != 0;
	side->told = context ? context : side->told;
}

/* The descriptor that stands for the page, or -1: there is none. */
static int page_fd = -1;

static int page(void *arg)
{
	(void)arg;
	return page_fd;
}

static void side_open(struct side *side, uint64_t context)
{
	const struct ripc__host host = {.arg = side, .gone = gone, .context = context,
		.page = page};

	*side = (struct side){.epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
	ck_assert_int_ge(side->epoll_fd, 0);
	ripc__liveness_open(&side->liveness, &host, geteuid(), side->epoll_fd);
	ck_assert_int_ge(side->liveness.lock_fd, 0);
}

static void side_close(struct side *side)
{
	ripc__liveness_close(&side->liveness);
	close(side->epoll_fd);
}

static void side_step(struct side *side, int timeout_ms)
{
	struct epoll_event event;

	ripc__liveness_tend(&side->liveness);
	if (epoll_wait(side->epoll_fd, &event, 1, timeout_ms) != 1)
		return;
	ck_assert(ripc__liveness_owns(event.data.ptr));
	ripc__liveness_ready(&side->liveness, event.data.ptr);
}

/* Until there is nothing more to do. */
static void side_settle(struct side *side)
{
	struct pollfd ready = {.fd = side->epoll_fd, .events = POLLIN};

	while (poll(&ready, 1, 50) == 1)
		side_step(side, 0);
}

static void side_await_told(struct side *side)
{
	for (int i = 0; i < 1000 && !side->n_told; i++)
		side_step(side, PATIENCE_MS / 1000);
	ck_assert_uint_eq(side->n_told, 1);
}

/* The commands to the other process until it is killed: 'w' watches, 'u' no more, 'f' forks a child
 * that keeps all it has. Each is answered. */
static _Noreturn void other_main(int fd, uint64_t own, uint64_t whom)
{
	static struct side side;
	struct pollfd ready[2];
	char word;

	side_open(&side, own);
	ready[0] = (struct pollfd){.fd = fd, .events = POLLIN};
	ready[1] = (struct pollfd){.fd = side.epoll_fd, .events = POLLIN};
	while (poll(ready, 2, -1) > 0) {
		if (ready[1].revents)
			side_step(&side, 0);
		if (!ready[0].revents)
			continue;
		if (read(fd, &word, 1) != 1)
			_exit(0);
		if (word == 'w')
			ripc__liveness_watch(&side.liveness, whom);
		if (word == 'u')
			ripc__liveness_unwatch(&side.liveness, whom);
		if (word == 'f' && fork() == 0) {
			while (read(fd, &word, 1) == 1)
				;
			_exit(0);
		}
		if (write(fd, &word, 1) != 1)
			_exit(1);
	}
	_exit(1);
}

static void other_say(struct other *other, char word)
{
	ck_assert_int_eq(write(other->pipe, &word, 1), 1);
	ck_assert_int_eq(read(other->pipe, &word, 1), 1);
}

static void other_start(struct other *other, uint32_t number, uint64_t whom)
{
	int ends[2];

	other->context = context_of(number);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	other->pid = fork();
	if (other->pid == 0) {
		close(ends[1]);
		other_main(ends[0], other->context, whom);
	}
	close(ends[0]);
	other->pipe = ends[1];
	other_say(other, '?');
}

static void other_kill(struct other *other)
{
	kill(other->pid, SIGKILL);
	ck_assert_int_eq(waitpid(other->pid, NULL, 0), other->pid);
}

/* Until the other one has shown its lock: it accepts whom it finds before it answers. */
static void side_await_lock(struct side *side, struct other *other)
{
	other_say(other, '?');
	side_settle(side);
	ck_assert(ripc__liveness_look(&side->liveness));
}

static struct other *dies; /* NULL, or one that dies before we say anything */

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct other *other = dies;

	dies = NULL;
	if (other)
		other_kill(other);
	return __real_sendmsg(fd, message, flags);
}

START_TEST(life__end_is_told)
{
	static struct side side;
	struct other other;

	side_open(&side, context_of(5));
	/* with a process that connects to us, and one that does not */
	other_start(&other, _i ? 4 : 6, context_of(5));
	ripc__liveness_watch(&side.liveness, other.context);
	side_await_lock(&side, &other);
	ck_assert_uint_eq(side.liveness.n_links, 1);
	ck_assert(ripc__liveness_look(&side.liveness));
	ck_assert_uint_eq(side.n_told, 0);
	other_kill(&other);
	side_await_told(&side);
	ck_assert_uint_eq(side.told, other.context);
	ck_assert_uint_eq(side.liveness.n_links, 0);
	ripc__liveness_unwatch(&side.liveness, other.context);
	side_close(&side);
	close(other.pipe);
}
END_TEST

/*
 * The partner dies before it has shown its lock: its name without a listener is the proof. With a
 * child that keeps the socket there is no proof.
 */
START_TEST(life__end_before_the_lock_was_shown)
{
	static struct side side;
	struct other other;

	side_open(&side, context_of(5));
	other_start(&other, 6, context_of(5));
	if (_i)
		other_say(&other, 'f');
	kill(other.pid, SIGSTOP);
	ripc__liveness_watch(&side.liveness, other.context);
	side_settle(&side);
	ck_assert_uint_eq(side.n_told, 0);
	other_kill(&other);
	side_settle(&side);
	ck_assert_uint_eq(side.n_told, _i ? 0 : 1);
	ripc__liveness_unwatch(&side.liveness, other.context);
	ck_assert_uint_eq(side.liveness.links.count, 0);
	side_close(&side);
	close(other.pipe);
}
END_TEST

/* The partner dies when we have connected to it, and have said nothing yet. */
START_TEST(life__end_before_the_first_word)
{
	static struct side side;
	struct other other;

	side_open(&side, context_of(5));
	other_start(&other, 6, context_of(5));
	dies = &other;
	ripc__liveness_watch(&side.liveness, other.context);
	ck_assert_ptr_null(dies);
	ck_assert_uint_eq(side.n_told, 1);
	ck_assert_uint_eq(side.told, other.context);
	ripc__liveness_unwatch(&side.liveness, other.context);
	ck_assert_uint_eq(side.liveness.links.count, 0);
	side_close(&side);
	close(other.pipe);
}
END_TEST

/* Both processes have connected: one connection stays, and reports the end. */
START_TEST(life__both_connect)
{
	static struct side side;
	struct other other;

	side_open(&side, context_of(5));
	other_start(&other, _i ? 4 : 6, context_of(5));
	other_say(&other, 'w');
	ripc__liveness_watch(&side.liveness, other.context);
	other_say(&other, '?');
	side_await_lock(&side, &other);
	ck_assert_uint_eq(side.liveness.n_links, 1);
	ck_assert_uint_eq(side.n_told, 0);
	other_kill(&other);
	side_await_told(&side);
	ripc__liveness_unwatch(&side.liveness, other.context);
	ck_assert_uint_eq(side.liveness.links.count, 0);
	side_close(&side);
	close(other.pipe);
}
END_TEST

/* The connection stays open, but the lock tells. */
START_TEST(life__forked_child_keeps_the_connection)
{
	static struct side side;
	struct other other;

	side_open(&side, context_of(5));
	other_start(&other, 6, context_of(5));
	ripc__liveness_watch(&side.liveness, other.context);
	side_await_lock(&side, &other);
	other_say(&other, 'f');
	other_kill(&other);
	side_settle(&side);
	ck_assert_uint_eq(side.n_told, 0);
	ripc__liveness_look(&side.liveness);
	ck_assert_uint_eq(side.n_told, 1);
	ck_assert_uint_eq(side.told, other.context);
	side_close(&side);
	close(other.pipe);
}
END_TEST

/*
 * The process had not shown its lock, either: the one that listened is over, dead and not reaped
 * yet, too.
 */
START_TEST(life__forked_child_keeps_who_showed_no_lock)
{
	static struct side side;
	struct other other;

	side_open(&side, context_of(5));
	other_start(&other, 6, context_of(5));
	other_say(&other, 'f');
	ck_assert_int_eq(kill(other.pid, SIGSTOP), 0);
	ck_assert_int_eq(waitpid(other.pid, NULL, WUNTRACED), other.pid);
	ripc__liveness_watch(&side.liveness, other.context);
	side_settle(&side);
	ck_assert(ripc__liveness_look(&side.liveness));
	ck_assert_uint_eq(side.n_told, 0);
	if (_i) {
		siginfo_t end;

		ck_assert_int_eq(kill(other.pid, SIGKILL), 0);
		ck_assert_int_eq(waitid(P_PID, (id_t)other.pid, &end, WEXITED | WNOWAIT), 0);
	} else {
		other_kill(&other);
	}
	side_settle(&side);
	ck_assert_uint_eq(side.n_told, 0);
	ripc__liveness_look(&side.liveness);
	ck_assert_uint_eq(side.n_told, 1);
	ck_assert_uint_eq(side.told, other.context);
	side_close(&side);
	close(other.pipe);
}
END_TEST

/* A connection that cannot be accepted for want of descriptors keeps nobody awake. */
START_TEST(life__without_descriptors_sleeps)
{
	static struct side side;
	struct rlimit limit, few;
	struct epoll_event event;
	struct other other;

	side_open(&side, context_of(5));
	other_start(&other, 6, context_of(5));
	getrlimit(RLIMIT_NOFILE, &limit);
	few = limit;
	few.rlim_cur = (rlim_t)dup(0); /* the lowest that is free */
	close((int)few.rlim_cur);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	other_say(&other, 'w');
	side_step(&side, PATIENCE_MS);
	ck_assert_uint_eq(side.liveness.n_links, 0);
	ck_assert_int_eq(epoll_wait(side.epoll_fd, &event, 1, 0), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ripc__liveness_watch(&side.liveness, other.context);
	ck_assert_uint_eq(side.liveness.n_links, 1);
	other_kill(&other);
	side_close(&side);
	close(other.pipe);
}
END_TEST

/* Stopped, or without need of us any more, it lives. */
START_TEST(life__the_living_are_not_told_of)
{
	static struct side side;
	struct other other;

	side_open(&side, context_of(5));
	other_start(&other, 4, context_of(5));
	other_say(&other, 'w');
	ripc__liveness_watch(&side.liveness, other.context);
	side_await_lock(&side, &other);
	kill(other.pid, SIGSTOP);
	ripc__liveness_look(&side.liveness);
	side_settle(&side);
	kill(other.pid, SIGCONT);
	other_say(&other, 'u');
	side_settle(&side);
	ck_assert_uint_eq(side.n_soon, 1);
	ck_assert(ripc__liveness_look(&side.liveness));
	ck_assert_uint_eq(side.n_told, 0);
	/* Its lock was kept. */
	other_kill(&other);
	ripc__liveness_look(&side.liveness);
	ck_assert_uint_eq(side.n_told, 1);
	side_close(&side);
	close(other.pipe);
}
END_TEST

static int raw_connect(uint64_t context)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int len = sprintf(name.sun_path + 1, "ripc-life/%x/%016" PRIx64,
		(unsigned int)geteuid(), context);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(connect(fd, (struct sockaddr *)&name,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)), 0);
	return fd;
}

static void raw_send(int fd, const void *bytes, size_t len, int descriptor)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)bytes, len};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = sizeof(control)};

	control.align = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.align), &descriptor, sizeof(int));
	(void)sendmsg(fd, &message, MSG_NOSIGNAL);
}

/*
 * A process that sends nonsense, or gives us our own lock, is not connected, and the lock is still
 * held.
 */
START_TEST(life__nonsense_is_refused)
{
	static struct side side;
	struct other other;
	static const char junk[16] = "what is this, ?";
	int pid, status;

	side_open(&side, context_of(5));
	pid = fork();
	if (pid == 0) {
		int fd = raw_connect(side.liveness.host.context);

		if (_i == 0)
			raw_send(fd, junk, sizeof(junk), fd);
		else if (_i == 1)
			raw_send(fd, "LIFE\1\0\0\0\7\7\7\7\7\7\7\7", 16, side.liveness.lock_fd);
		else
			raw_send(fd, "LIFE\1\0\0\0\7\7\7\7\7\7\7\7", 16, fd);
		while (read(fd, &status, 1) > 0)
			;
		_exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0)
		side_step(&side, 10);
	ck_assert_int_eq(status, 0);
	side_settle(&side);
	ck_assert_uint_eq(side.liveness.n_links, 0);
	/* Somebody else still finds us alive. */
	other_start(&other, 6, context_of(5));
	other_say(&other, 'w');
	side_settle(&side);
	ck_assert_uint_eq(side.liveness.n_links, 1);
	other_kill(&other);
	side_settle(&side);
	side_close(&side);
	close(other.pipe);
}
END_TEST

/* Asks for the page; returns the descriptor that comes with the answer, -1: none does. */
static int ask_page(struct side *side, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	uint64_t answer[2];
	struct iovec iov = {answer, sizeof(answer)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = sizeof(control)};
	int shown = -1;

	ck_assert_int_eq(send(fd, "PAGE\1\0\0\0\0\0\0\0\0\0\0\0", 16, MSG_NOSIGNAL), 16);
	side_settle(side);
	ck_assert_int_eq(recvmsg(fd, &message, MSG_DONTWAIT), 16);
	ck_assert_uint_eq(le64toh(answer[1]), side->liveness.host.context);
	if (message.msg_controllen)
		memcpy(&shown, CMSG_DATA(&control.align), sizeof(shown));
	return shown;
}

/* Our user is shown the page, as often as it asks, and may say nothing else meanwhile. */
START_TEST(life__page_is_shown)
{
	static struct side side;
	struct stat wanted, shown;
	int fd, got;

	side_open(&side, context_of(5));
	fd = raw_connect(side.liveness.host.context);
	ck_assert_int_eq(ask_page(&side, fd), -1);
	page_fd = side.liveness.lock_fd; /* any file */
	ck_assert_int_eq(fstat(page_fd, &wanted), 0);
	for (int i = 0; i < 3; i++) {
		got = ask_page(&side, fd);
		ck_assert_int_eq(fstat(got, &shown), 0);
		ck_assert_uint_eq(shown.st_ino, wanted.st_ino);
		close(got);
	}
	ck_assert_uint_eq(side.liveness.n_links, 1);
	ck_assert_int_eq(send(fd, "PAGE\2\0\0\0\0\0\0\0\0\0\0\0", 16, MSG_NOSIGNAL), 16);
	side_settle(&side);
	ck_assert_uint_eq(side.liveness.n_links, 0);
	ck_assert_int_eq(recv(fd, &shown, 1, MSG_DONTWAIT), 0);
	close(fd);
	side_close(&side);
}
END_TEST

/* The end of a context that is not on this host, or is in this process, is not proven. */
START_TEST(life__nothing_is_proven_of_others)
{
	static struct side side, second;

	side_open(&side, context_of(5));
	side_open(&second, context_of(6));
	ripc__liveness_watch(&side.liveness, context_of(7));
	ripc__liveness_watch(&side.liveness, context_of(6));
	side_settle(&second);
	side_settle(&side);
	ck_assert_uint_eq(side.liveness.n_links, 0);
	ck_assert(!ripc__liveness_look(&side.liveness));
	ripc__liveness_unwatch(&side.liveness, context_of(7));
	side_close(&second);
	side_settle(&side);
	ck_assert_uint_eq(side.n_told + side.n_soon, 0);
	side_close(&side);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{life__end_is_told, 2},
		{life__end_before_the_lock_was_shown, 2},
		{life__end_before_the_first_word, 1},
		{life__both_connect, 2},
		{life__forked_child_keeps_the_connection, 1},
		{life__forked_child_keeps_who_showed_no_lock, 2},
		{life__without_descriptors_sleeps, 1},
		{life__the_living_are_not_told_of, 1},
		{life__nonsense_is_refused, 3},
		{life__page_is_shown, 1},
		{life__nothing_is_proven_of_others, 1},
		{NULL, 0},
	};

	return suite_run_loops("liveness", loops);
}
