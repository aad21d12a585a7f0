/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's work: its threads and times. A program that polls its completion queues does the
 * work there, which is fastest. For a program that does not, a thread of ours does: it steps in
 * when no thread has polled for a while, so that no partner waits for this program's processor, as
 * none would with hardware. The child of a fork has no device: its copies of the sockets are
 * closed, lest a queue pair seem alive after its process has ended, and its queue pairs refuse
 * work; it may open the device anew.
 */
#include "softefa.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS	   (500 * 1000ull) /* after this long without polls the thread takes over */
#define RETRY_NS   (50 * 1000ull)  /* while a partner's queue is full */
#define PROBE_NS   (5 * 1000000ull)
#define NEVER	   UINT64_MAX

pthread_mutex_t softefa_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	TAILQ_HEAD(, softefa_qp) qps;
	uint64_t n_polls;
	int epoll_fd, wake_fd; /* made with the first queue pair */
	bool has_thread, sleeps; /* sleeps: until something comes or wakes it */
} engine = {.qps = TAILQ_HEAD_INITIALIZER(engine.qps), .epoll_fd = -1, .wake_fd = -1};

uint64_t softefa_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void work(struct softefa_qp *qp)
{
	uint64_t now_ns;

	if (TAILQ_EMPTY(&qp->queued) && TAILQ_EMPTY(&qp->sent) && TAILQ_EMPTY(&qp->serves) &&
		!qp->n_acks)
		return;
	now_ns = softefa_now_ns();
	softefa_launch(qp, now_ns);
	softefa_answer(qp);
	softefa_probe(qp, now_ns);
}

static void progress(bool all)
{
	struct softefa_qp *qp;

	TAILQ_FOREACH (qp, &engine.qps, entry) {
		softefa_receive(qp, all);
		work(qp);
	}
}

void softefa_engine_poll(void)
{
	engine.n_polls++;
	progress(false);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* When the thread must look again, though nothing has come. */
static uint64_t next_due_ns(uint64_t now_ns)
{
	const struct softefa_request *request;
	const struct softefa_qp *qp;
	uint64_t due_ns = NEVER;

	TAILQ_FOREACH (qp, &engine.qps, entry) {
		if (qp->n_acks || !TAILQ_EMPTY(&qp->serves))
			due_ns = earlier(due_ns, now_ns + RETRY_NS);
		if (!TAILQ_EMPTY(&qp->sent))
			due_ns = earlier(due_ns, now_ns + PROBE_NS);
		TAILQ_FOREACH (request, &qp->queued, entry)
			due_ns = earlier(due_ns,
				request->due_ns <= now_ns ? now_ns + RETRY_NS : request->due_ns);
	}
	return due_ns;
}

static void wait_for(int fd, uint64_t wait_ns)
{
	struct pollfd waited = {.fd = fd, .events = POLLIN};
	struct timespec limit = {
		.tv_sec = (time_t)(wait_ns / 1000000000ull),
		.tv_nsec = (long)(wait_ns % 1000000000ull),
	};

	ppoll(&waited, fd < 0 ? 0 : 1, wait_ns == NEVER ? NULL : &limit, NULL);
}

/* Locked. Sleeps without the lock until there may be work, and does it if nobody polls. */
static void thread_turn(uint64_t *n_polls_seen)
{
	uint64_t now_ns, due_ns, wait_ns, value;
	int epoll_fd = engine.epoll_fd;
	struct softefa_qp *qp;
	bool is_quiet = true;

	if (engine.n_polls != *n_polls_seen) {
		*n_polls_seen = engine.n_polls;
		pthread_mutex_unlock(&softefa_lock);
		wait_for(-1, NAP_NS);
		pthread_mutex_lock(&softefa_lock);
		return;
	}
	TAILQ_FOREACH (qp, &engine.qps, entry)
		is_quiet = softefa_link_sleep(&qp->link) && is_quiet;
	now_ns = softefa_now_ns();
	due_ns = is_quiet ? next_due_ns(now_ns) : now_ns;
	wait_ns = due_ns == NEVER ? NEVER : due_ns > now_ns ? due_ns - now_ns : 1;
	engine.sleeps = due_ns == NEVER;
	pthread_mutex_unlock(&softefa_lock);
	wait_for(epoll_fd, wait_ns);
	pthread_mutex_lock(&softefa_lock);
	engine.sleeps = false;
	if (read(engine.wake_fd, &value, sizeof(value)) < 0 && errno != EAGAIN)
		softefa_counters.busy++;
	if (engine.n_polls == *n_polls_seen)
		progress(true);
}

static void *thread_main(void *unused)
{
	uint64_t n_polls_seen = 0;

	(void)unused;
	pthread_mutex_lock(&softefa_lock);
	for (;;)
		thread_turn(&n_polls_seen);
	return NULL;
}

/* The program's signals are none of this thread's business. */
static int start_thread(void)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attr, thread_main, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	engine.has_thread = !error;
	return error;
}

static int open_descriptors(void)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

	engine.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (engine.epoll_fd < 0)
		return errno;
	engine.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (engine.wake_fd < 0)
		goto close_epoll;
	if (!epoll_ctl(engine.epoll_fd, EPOLL_CTL_ADD, engine.wake_fd, &event))
		return 0;
	close(engine.wake_fd);
close_epoll:
	close(engine.epoll_fd);
	engine.epoll_fd = engine.wake_fd = -1;
	return errno;
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&softefa_lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&softefa_lock);
}

static void fork_child(void)
{
	struct softefa_qp *qp;

	TAILQ_FOREACH (qp, &engine.qps, entry) {
		softefa_link_forget(&qp->link);
	}
	TAILQ_INIT(&engine.qps);
	if (engine.epoll_fd >= 0) {
		close(engine.epoll_fd);
		close(engine.wake_fd);
	}
	engine.epoll_fd = engine.wake_fd = -1;
	engine.has_thread = engine.sleeps = false;
	memset(&softefa_counters, 0, sizeof(softefa_counters));
	pthread_mutex_unlock(&softefa_lock);
}

static __attribute__((constructor)) void watch_forks(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

int softefa_engine_add(struct softefa_qp *qp)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = qp};
	int error = 0;

	if (engine.epoll_fd < 0)
		error = open_descriptors();
	if (!error && !engine.has_thread)
		error = start_thread();
	if (!error && epoll_ctl(engine.epoll_fd, EPOLL_CTL_ADD, qp->link.fd, &event))
		error = errno;
	if (error)
		return error;
	TAILQ_INSERT_TAIL(&engine.qps, qp, entry);
	return 0;
}

void softefa_engine_remove(struct softefa_qp *qp)
{
	TAILQ_REMOVE(&engine.qps, qp, entry);
}

void softefa_engine_wake(void)
{
	uint64_t one = 1;

	if (!engine.sleeps)
		return;
	engine.sleeps = false;
	if (write(engine.wake_fd, &one, sizeof(one)) < 0)
		softefa_counters.busy++;
}
