/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which thread does the work, and how threads sleep.
 *
 * Design notes. One thread at a time serves the ports: the reader. A waiting call becomes the
 * reader if there is none, polls, and sleeps in the kernel on the ports' descriptors without the
 * lock. Other waiting calls sleep beside the reader. A reader that leaves hands the reading on.
 * While no call waits, the progress thread takes the ports over once no call has polled them for a
 * tick of 1 ms. While a call waits, the thread only serves the resolver's descriptors. The thread
 * never competes with a call for a packet: a call that enters kicks it out.
 *
 * Sleeping in the port's own wait saves the cost of poll() (docs/decisions/sleeping.md). The port's
 * own wait is used while messages flow and no long message is in progress. Meanwhile the ticking
 * thread runs the timers (of acks that may get lost). After 100 ms without a datagram the reader
 * uses poll(), which can sleep for ever.
 *
 * With several devices, the reader waits in the hot one, by which the last messages came. Meanwhile
 * the thread watches the others. A polling reader polls them only now and then, because each poll
 * can cost a system call.
 *
 * A call that ends early (section "interrupt") is done, too, ready or not.
 *
 * expect_sleep: the last polls, of a system call each, found nothing (a ping-pong). Then the reader
 * yields to other threads and polls after that, while that pays (yield_and_look); else it sleeps at
 * once.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/events.h"
#include "core/objects.h"
#include "core/partner/find.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/peer/devices.h"
#include "core/resolve/resolver.h"
#include "core/send/announce.h"
#include "internal.h"
#include "loop.h"
#include "util/list.h"
#include "util/rare.h"
#include "util/system/cancel.h"
#include "util/system/clock.h"
#include "util/system/kick.h"
#include "util/system/thread.h"
#include "wait.h"

/* ---- readiness --------------------------------------------------------------------------- */

/*
 * Sleeping on the descriptors of ports and resolver, and ending the sleep. This file owns none of
 * the descriptors.
 *
 * Design notes. An application that sleeps on eventfds does not poll the ports. Without a
 * descriptor of the context, the progress thread serves the ports as soon as no call does: it
 * sleeps on them in the kernel, without waiting for a tick first. If the application has requested
 * the context's descriptor, an epoll of all ports, the application serves the ports, and the
 * progress thread only runs timers and the resolver. If arming the ports finds an event, the kick
 * makes that descriptor readable. Otherwise the kick is for the reader.
 */

RIPC__RARE void ripc__thread_kick(struct ripc_context *ctx)
{
	if (ctx->loop.thread_kicked)
		return;
	ctx->loop.thread_kicked = true;
	ripc__kick(ctx->loop.thread_kick_fd);
}

bool ripc__sleep_on(struct pollfd *fds, nfds_t n, uint64_t now_us, uint64_t until_us,
		const sigset_t *mask)
{
	struct timespec left;
	uint64_t us = until_us > now_us ? until_us - now_us : 0;
	int ready;

	left.tv_sec = (time_t)(us / 1000000);
	left.tv_nsec = (long)(us % 1000000) * 1000;
	ready = ppoll(fds, n, until_us == UINT64_MAX ? NULL : &left, mask);
	for (nfds_t i = 0; ready <= 0 && i < n; i++)
		fds[i].revents = 0;
	return ready >= 0 || errno != EINTR;
}

bool ripc__any_revents(const struct pollfd *fds, nfds_t n)
{
	bool any = false;

	for (nfds_t i = 0; i < n; i++)
		any |= fds[i].revents != 0;
	return any;
}

nfds_t ripc__ports_add(struct ripc_context *ctx, struct pollfd *fds, nfds_t n, bool *ticks,
		const struct device *but)
{
	for (uint32_t i = 0; i < ctx->peers.n_devices; i++) {
		const struct device *device = &ctx->peers.devices[i];

		if (device == but)
			continue;
		if (device->attr.fd >= 0)
			fds[n++] = (struct pollfd){.fd = device->attr.fd, .events = POLLIN};
		else
			*ticks = true;
		if (device->multicast_fd >= 0)
			fds[n++] = (struct pollfd){.fd = device->multicast_fd, .events = POLLIN};
	}
	return n;
}

bool ripc__ports_arm(struct ripc_context *ctx, const struct device *but)
{
	for (uint32_t i = 0; i < ctx->peers.n_devices; i++) {
		struct device *device = &ctx->peers.devices[i];

		if (device != but && device->ops->net.arm &&
				device->ops->net.arm(device->port) == -EAGAIN)
			return false;
	}
	return true;
}

nfds_t ripc__resolver_add(struct ripc_context *ctx, struct pollfd *fds, nfds_t n)
{
	int resolver[8];
	int n_resolver = ripc__resolver_fds(ctx->resolver, resolver, 8);

	for (int i = 0; i < n_resolver && n < POLLS_MAX; i++)
		fds[n++] = (struct pollfd){.fd = resolver[i], .events = POLLIN};
	return n;
}

/* ---- the application's ------------------------------------------------------------------- */

static int watch(int epoll_fd, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int watch_all(struct ripc_context *ctx, int epoll_fd)
{
	struct pollfd fds[POLLS_MAX] = {{.fd = ctx->loop.kick_fd}};
	bool ticks = false; /* ports without a descriptor are served by timeouts */
	nfds_t n = ripc__ports_add(ctx, fds, 1, &ticks, NULL);
	int error = 0;

	/* Without a progress thread only the application can serve the resolver. */
	if (ctx->cfg.flags & RIPC_NO_THREAD)
		n = ripc__resolver_add(ctx, fds, n);
	for (nfds_t i = 0; !error && i < n; i++)
		error = watch(epoll_fd, fds[i].fd);
	return error;
}

void ripc__port_widened(struct ripc_context *ctx, const struct device *device)
{
	if (ctx->loop.ports_fd >= 0) /* without memory: polled with the other ports */
		watch(ctx->loop.ports_fd, device->multicast_fd);
	ripc__thread_kick(ctx);
	if (ctx->loop.reader && ctx->loop.reader->asleep_on_port)
		ripc__kick_reader(ctx);
}

int ripc__context_fd(struct ripc_context *ctx)
{
	int epoll_fd, error;

	if (ctx->loop.ports_fd >= 0)
		return ctx->loop.ports_fd;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		return -errno;
	error = watch_all(ctx, epoll_fd);
	if (error) {
		close(epoll_fd);
		return error;
	}
	ctx->loop.ports_fd = epoll_fd;
	ripc__thread_kick(ctx);
	ripc__ports_leave(ctx);
	return epoll_fd;
}

static void context_fd_close(struct ripc_context *ctx)
{
	if (ctx->loop.ports_fd >= 0)
		close(ctx->loop.ports_fd);
}

void ripc__ports_leave(struct ripc_context *ctx)
{
	bool armed;

	if (ctx->loop.reader || !ripc__has_descriptors(ctx))
		return;
	armed = ripc__ports_arm(ctx, NULL);
	if (ctx->loop.ports_fd >= 0 && !armed)
		ripc__kick(ctx->loop.kick_fd);
	else if (ctx->loop.ports_fd < 0 && (!armed || !ctx->loop.thread_holds))
		ripc__thread_kick(ctx);
}

/* ---- interrupt --------------------------------------------------------------------------- */

/*
 * Ending calls that wait.
 *
 * Design notes. A signal handler may call ripc_wake(), also if it interrupts a thread which has
 * the lock. Therefore ripc_wake() takes no lock. It counts the wake in the service, sets
 * loop.woken, and ends the reader's sleep of any kind. The reader finds loop.woken set, and ends
 * the sleep of those waiters beside it that wait in the service (ripc__wake_ready()). A thread
 * that sleeps beside has a reader, or has just become the reader. A reader that enters a port's own
 * wait first sets loop.waits_on, then reads loop.woken. ripc_wake() first sets loop.woken, then
 * reads loop.waits_on. So at least one of them sees the other. In ppoll() the kick stays readable
 * until it is taken.
 *
 * A wake ends no sends and no closing calls, because these report an outcome. If only such calls
 * wait, the wake is kept for the next call that it can end.
 */

bool ripc__wake_take(_Atomic uint32_t *wakes)
{
	uint32_t n = atomic_load(wakes);

	while (n > 0 && !atomic_compare_exchange_weak(wakes, &n, n - 1))
		;
	return n > 0;
}

int ripc_wake(struct ripc_service *svc)
{
	RIPC__HOLD_CANCEL;
	struct ripc_context *ctx = svc ? svc->ctx : NULL;
	struct device *device;
	int before = errno;

	if (!ctx)
		return -EINVAL;
	if (!ripc__is_own(ctx))
		return ripc__refusal(ctx);
	atomic_fetch_add(&svc->wakes, 1);
	atomic_store(&ctx->loop.woken, true);
	device = atomic_load(&ctx->loop.waits_on);
	if (device)
		device->ops->net.wake(device->port);
	ripc__kick(ctx->loop.kick_fd);
	errno = before;
	return 0;
}

static void signals_hold(struct signals *signals)
{
	/* Signals that faults of the program itself raise are delivered at once. */
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
	sigset_t most;

	sigfillset(&most);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&most, own[i]);
	pthread_sigmask(SIG_BLOCK, &most, &signals->before);
}

static void signals_release(const struct signals *signals)
{
	pthread_sigmask(SIG_SETMASK, &signals->before, NULL);
}

/* Handles the signals that are pending; true: there was one. Without the lock. */
static bool signals_came(const struct signals *signals)
{
	return !ripc__sleep_on(NULL, 0, 0, 0, &signals->before);
}

/* ---- wait -------------------------------------------------------------------------------- */

#define GLANCE_US      20u /* until ports without a descriptor are polled again, at first */
#define LOOK_EVERY     32u /* waits until one polls before it sleeps, to notice load */
#define YIELD_US       50u /* time for which the reader yields before it sleeps */
#define SLICE_US       500u /* if a yield takes longer, another thread had a whole slice */
#define YIELD_SHARE    16u /* such yields may take 1/16 of the time */
#define YIELD_CREDIT   4u  /* vain yields until the reader yields only now and then */
#define GLANCES        8u  /* polls of the hot device until all devices are polled once */
#define PORT_WAIT_US   200000u /* twice the longest wait in a backend */
#define SIGNALS_EVERY  64u /* rounds of a polling reader until it checks for signals */
#define BESIDE_US      50000u /* until a waiter that sleeps beside checks for signals */

/* The time for which a waiting call polls without yielding; 0: the call does not poll. */
static uint32_t spin_us(const struct ripc_context *ctx)
{
	return ctx->cfg.spin_us == RIPC_SPIN_NEVER ? 0 : ctx->cfg.spin_us;
}

/* ---- sleeping ---------------------------------------------------------------------------- */

/* The reader sleeps until something comes in, a timer is due, or it is kicked. */
static void reader_sleep(struct ripc_context *ctx, struct waiter *self, uint64_t until_us)
{
	uint64_t now_us = ctx->now_us;
	struct pollfd fds[POLLS_MAX];
	nfds_t n = 1, n_ports;
	bool ticks = false, undisturbed;
	const sigset_t *mask;

	fds[0] = (struct pollfd){.fd = ctx->loop.kick_fd, .events = POLLIN};
	n_ports = ripc__ports_add(ctx, fds, n, &ticks, NULL);
	n = ctx->loop.thread_runs ? n_ports : ripc__resolver_add(ctx, fds, n_ports);
	ctx->loop.glance_us = ctx->loop.glance_us < THREAD_TICK_US ? 2 * ctx->loop.glance_us +
		GLANCE_US :
		THREAD_TICK_US;
	if (ticks && until_us > now_us + ctx->loop.glance_us)
		until_us = now_us + ctx->loop.glance_us;
	if (!ripc__ports_arm(ctx, NULL)) {
		ripc__progress(ctx); /* perhaps by a device that is not the hot one */
		return;
	}
	self->asleep_on_port = true;
	ctx->loop.reader_until_us = until_us;
	ripc__activity_count(ctx);
	atomic_store(&ctx->loop.watch_beside, NULL);
	ripc__unlock(ctx);
	mask = self->signals ? &self->signals->before : NULL;
	undisturbed = ripc__sleep_on(fds, n, now_us, until_us, mask);
	ripc__lock_timely(ctx);
	self->signalled |= mask && !undisturbed;
	self->asleep_on_port = false;
	/* A kick that came after the sleep must not end the next sleep. */
	if (ctx->loop.reader_kicked || fds[0].revents) {
		ripc__kick_drain(ctx->loop.kick_fd);
		ctx->loop.reader_kicked = false;
	}
	if (ripc__any_revents(fds + n_ports, n - n_ports))
		ripc__news_read(ctx);
	for (nfds_t i = 1; i < n_ports; i++) {
		ctx->loop.expect_sleep |= fds[i].revents != 0;
		ctx->loop.quiet &= fds[i].revents == 0;
	}
	ctx->loop.glance_us = ripc__progress(ctx) ? 0 : ctx->loop.glance_us;
}

/* May the reader sleep on the hot port alone, and for long? */
static bool can_wait_on_port(struct ripc_context *ctx, const struct waiter *self,
		uint64_t until_us)
{
	const struct device *hot = ripc__hot_device(ctx);

	if (!hot || !hot->ops->net.wait || hot->multicast_fd >= 0 || !ctx->loop.thread_runs ||
			self->signals)
		return false;
	return !ctx->loop.quiet && ctx->loop.n_busy == 0 && !ctx->loop.thread_parked &&
		until_us > ctx->now_us + PORT_WAIT_US;
}

static void port_wait(struct ripc_context *ctx, struct waiter *self, uint64_t until_us)
{
	struct device *device = ripc__hot_device(ctx);

	if (!ripc__ports_arm(ctx, NULL)) {
		ripc__progress(ctx); /* perhaps by a device that is not the hot one */
		return;
	}
	if (ctx->peers.n_devices > 1 && atomic_exchange(&ctx->loop.watch_beside, device) != device)
		ripc__thread_kick(ctx);
	self->asleep_on_port = true;
	atomic_store(&ctx->loop.waits_on, device);
	ctx->loop.reader_until_us = until_us;
	ripc__activity_count(ctx);
	ripc__unlock(ctx);
	if (!atomic_load(&ctx->loop.woken)) /* after waits_on was set: section "interrupt" */
		device->ops->net.wait(device->port);
	ripc__lock_timely(ctx);
	self->asleep_on_port = false;
	atomic_store_explicit(&ctx->loop.waits_on, NULL, memory_order_relaxed);
	ctx->loop.reader_kicked = false;
	ctx->loop.expect_sleep = true;
	ctx->loop.quiet = device->ops->net.arm(device->port) == 0;
	ripc__due_progress(ctx, ripc__device_progress(ctx, device));
}

/* Lets a thread that wants the lock have it, and reads the clock. */
static void give_way(struct ripc_context *ctx)
{
	ripc__unlock(ctx);
	ripc__mutex_give_way(&ctx->lock);
	ripc__lock_timely(ctx);
}

static RIPC__RARE void signals_look(struct ripc_context *ctx, struct waiter *self)
{
	bool came;

	ripc__unlock(ctx);
	came = signals_came(self->signals);
	ripc__lock_timely(ctx);
	self->signalled |= came;
}

/* Polls for the configured time before sleeping. True: something came. */
static bool spin(struct ripc_context *ctx, struct waiter *self)
{
	uint64_t until_us = ctx->now_us + spin_us(ctx);
	uint32_t turns = 0;

	while (ctx->now_us < until_us) {
		if (ripc__look(ctx, GLANCES) || ripc__waiter_is_done(self) ||
				atomic_load(&ctx->loop.woken))
			return true;
		give_way(ctx);
		if (self->signals && ++turns % SIGNALS_EVERY == 0)
			signals_look(ctx, self);
	}
	return false;
}

/* Yields once, and polls. */
static bool yield_once(struct ripc_context *ctx, struct waiter *self)
{
	uint64_t began_us = ctx->now_us, took_us;

	ripc__unlock(ctx);
	sched_yield();
	ripc__lock_timely(ctx);
	took_us = ctx->now_us - began_us;
	if (took_us > SLICE_US)
		ctx->loop.yield_again_us = ctx->now_us + YIELD_SHARE * took_us;
	return ripc__look(ctx, 1) || ripc__waiter_is_done(self);
}

/*
 * Yields and polls in turn, for a short time. If the partner shares our processor, or is about to
 * answer, this saves a sleep and a wake-up, which take longer than most answers. The reader does
 * this while it pays, and otherwise tries it now and then. Beside busy processes a yield gives a
 * whole slice away, whereas the kernel prefers a woken sleeper to a busy process. Therefore no
 * yield follows a long one for 16 times as long.
 */
static bool yield_and_look(struct ripc_context *ctx, struct waiter *self)
{
	uint64_t began_us = ctx->now_us;

	if (ctx->cfg.spin_us || (ctx->loop.yield_credit == 0 && ++ctx->loop.sleeps % LOOK_EVERY) ||
			ctx->now_us < ctx->loop.yield_again_us)
		return false;
	while (ctx->now_us - began_us < YIELD_US) {
		if (!yield_once(ctx, self))
			continue;
		ctx->loop.yield_credit = YIELD_CREDIT;
		ctx->loop.expect_sleep = true; /* next time yield without polling first */
		return true;
	}
	ctx->loop.yield_credit -= ctx->loop.yield_credit > 0;
	return false;
}

static bool looks_first(struct ripc_context *ctx)
{
	return !ctx->loop.expect_sleep || ++ctx->loop.looks % LOOK_EVERY == 0;
}

static void reader_step(struct ripc_context *ctx, struct waiter *self, uint64_t deadline_us)
{
	uint64_t until_us;

	ctx->loop.reader = self;
	ripc__activity_count(ctx);
	if (ctx->loop.thread_holds) {
		ctx->loop.thread_holds = false;
		ripc__thread_kick(ctx);
	}
	if (spin_us(ctx)) {
		if (spin(ctx, self))
			return;
	} else if (looks_first(ctx)) {
		ctx->loop.expect_sleep = false;
		if (ripc__look(ctx, 1))
			return;
	}
	ripc__acks_flush(ctx);
	/* After any time without the lock, check whether this call still has to sleep. */
	if (yield_and_look(ctx, self) || ripc__waiter_is_done(self))
		return;
	until_us = ripc__least(ripc__next_deadline(ctx), deadline_us);
	if (can_wait_on_port(ctx, self, deadline_us))
		port_wait(ctx, self, until_us);
	else
		reader_sleep(ctx, self, until_us);
}

/* Sleeps beside the reader. The thread runs our timers within a tick, or we wake the reader. */
static void sleep_beside(struct ripc_context *ctx, struct waiter *self, uint64_t deadline_us)
{
	if (ctx->loop.thread_parked)
		ripc__thread_kick(ctx);
	else if (!ctx->loop.thread_runs)
		ripc__wake_for_timers(ctx);
	/* A futex wait has no signal mask: check for signals now and then. */
	if (self->signals && ctx->now_us + BESIDE_US < deadline_us)
		deadline_us = ctx->now_us + BESIDE_US;
	self->asleep_beside = true;
	ripc__sleep(&self->sleep, &ctx->lock, deadline_us);
	self->asleep_beside = false;
	ripc__clock_read(ctx);
	if (self->signals)
		signals_look(ctx, self);
}

/* Not inline: else gcc 12 warns that the list outlives its member (-Wdangling-pointer). */
static __attribute__((noinline)) void waiter_join(struct ripc_context *ctx, struct waiter *self)
{
	list_append(&ctx->loop.waiters, &self->node);
}

/* Hands the reading on, to another waiting call or to the progress thread. */
static void waiter_leave(struct ripc_context *ctx, struct waiter *self)
{
	list_remove(&self->node);
	ctx->loop.changed |= ctx->loop.closing; /* ripc_close() waits until all have left */
	if (ctx->loop.reader == self)
		ctx->loop.reader = NULL;
	if (ctx->loop.reader)
		return;
	/* The reading may have been handed to us just when we gave up waiting. */
	list_for_each(node, &ctx->loop.waiters) {
		struct waiter *waiter = list_entry(node, struct waiter, node);

		if (waiter->asleep_beside) {
			ripc__sleep_end(&waiter->sleep);
			return;
		}
	}
	if (ctx->loop.thread_parked)
		ripc__thread_kick(ctx);
	ripc__ports_leave(ctx);
}

/* In a simulated world: lets the other contexts run until something arrives or time has passed. */
static void idle_step(struct ripc_context *ctx, uint64_t deadline_us)
{
	uint64_t until_us;

	if (ripc__progress(ctx))
		return;
	until_us = ripc__least(ripc__next_deadline(ctx), deadline_us);
	ripc__unlock(ctx);
	ctx->env.idle(ctx->env.arg, until_us);
	ripc__lock_timely(ctx);
}

/* After ripc_wake(): finds the threads that are meant. */
static void wakes_spread(struct ripc_context *ctx)
{
	if (!atomic_load_explicit(&ctx->loop.woken, memory_order_relaxed))
		return;
	atomic_store(&ctx->loop.woken, false);
	ctx->loop.changed = true;
}

static __attribute__((noinline)) void wait_long(struct ripc_context *ctx, struct waiter *self,
		uint64_t deadline_us)
{
	bool done = false;

	ctx->loop.glance_us = 0;
	waiter_join(ctx, self);
	while (!done && ctx->now_us < deadline_us) {
		wakes_spread(ctx);
		if (ctx->env.idle != NULL)
			idle_step(ctx, deadline_us);
		else if (!ctx->loop.reader || ctx->loop.reader == self)
			reader_step(ctx, self, deadline_us);
		else
			sleep_beside(ctx, self, deadline_us);
		done = ripc__waiter_is_done(self);
		wakes_spread(ctx);
		if (ctx->loop.changed && ctx->loop.waiters.next->next != &ctx->loop.waiters)
			ripc__wake_ready(ctx);
		if (!done && ctx->env.idle == NULL) {
			give_way(ctx); /* datagrams for other calls may come without end */
			done = ripc__waiter_is_done(self);
		}
	}
	waiter_leave(ctx, self);
}

/* Often the event is there already: then this call need not become a waiter. */
static inline __attribute__((always_inline)) bool wait_briefly(struct ripc_context *ctx,
		bool (*ready)(void *arg), void *arg, uint64_t deadline_us)
{
	if (ready(arg))
		return true;
	if (ctx->sends.n_batching)
		ripc__batching_flush(ctx);
	if (deadline_us <= ctx->now_us) {
		ripc__activity_count(ctx);
		ripc__progress(ctx);
		if (ready(arg))
			return true;
		if (ripc__has_descriptors(ctx))
			ripc__ports_leave(ctx);
		return false;
	}
	if (!spin_us(ctx) || ctx->loop.reader || ctx->env.idle != NULL)
		return false;
	ripc__activity_count(ctx);
	return ripc__look(ctx, 1) && ready(arg);
}

/* Not inlined: only calls that sleep need the waiter on the stack. */
static __attribute__((noinline)) bool wait_asleep(struct ripc_context *ctx,
		bool (*ready)(void *arg), void *arg, uint64_t deadline_us)
{
	RIPC__HOLD_CANCEL;
	struct waiter self = {.ready = ready, .arg = arg};

	wait_long(ctx, &self, deadline_us);
	return ready(arg);
}

bool ripc__wait(struct ripc_context *ctx, bool (*ready)(void *arg), void *arg,
		uint64_t deadline_us)
{
	if (wait_briefly(ctx, ready, arg, deadline_us))
		return true;
	return deadline_us > ctx->now_us && wait_asleep(ctx, ready, arg, deadline_us);
}

static __attribute__((noinline)) int wait_to_end(struct ripc_context *ctx,
		struct ripc_service *service, bool (*ready)(void *arg), void *arg,
		uint64_t deadline_us)
{
	RIPC__HOLD_CANCEL;
	struct waiter self = {.ready = ready, .arg = arg,
		.wakes = service ? &service->wakes : NULL};
	struct signals signals;

	if (ctx->cfg.flags & RIPC_INTERRUPTIBLE) {
		signals_hold(&signals);
		self.signals = &signals;
	}
	wait_long(ctx, &self, deadline_us);
	if (self.signals)
		signals_release(&signals);
	if ((service && ripc__wake_take(&service->wakes)) || self.signalled)
		return -EINTR;
	return ready(arg);
}

/* Inline with link-time optimisation: a receive mostly finds its message by the first poll. */
extern inline int ripc__wait_or_end(struct ripc_context *ctx, struct ripc_service *service,
		bool (*ready)(void *arg), void *arg, uint64_t deadline_us)
{
	if (wait_briefly(ctx, ready, arg, deadline_us))
		return 1;
	if (deadline_us <= ctx->now_us)
		return 0;
	return wait_to_end(ctx, service, ready, arg, deadline_us);
}

int ripc__wait_open(struct ripc_context *ctx)
{
	int error;

	ctx->loop.ports_fd = -1;
	ctx->loop.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ctx->loop.kick_fd < 0)
		return -errno;
	ctx->loop.thread_kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ctx->loop.thread_kick_fd < 0) {
		error = -errno;
		close(ctx->loop.kick_fd);
		return error;
	}
	return 0;
}

void ripc__wait_close(struct ripc_context *ctx)
{
	ripc__thread_end(ctx);
	ripc__reread_end(ctx);
	context_fd_close(ctx);
	close(ctx->loop.kick_fd);
	close(ctx->loop.thread_kick_fd);
}
