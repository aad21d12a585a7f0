/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who does the work, and how threads sleep.
 *
 * Design notes. The ports are looked after by one thread at a time, the reader: a waiting call
 * becomes it if nobody is, polls, and sleeps in the kernel on the ports' descriptors without
 * the lock. Other waiting calls sleep beside it; whoever leaves hands the reading on. While no
 * call waits, the progress thread takes the ports over once nobody has looked for a tick of 1 ms;
 * while one does, it only looks after the resolver's descriptors. It never competes for a packet
 * with a call that is there: a call that comes kicks it out.
 *
 * Sleeping in the port's own wait saves what poll() costs (12 % of a round trip over UDP,
 * docs/rationale.md). It is used while messages flow and no long message is in progress; what
 * timers there are (acks that may get lost) the ticking thread runs. A silence of 100 ms leads to
 * poll(), which can sleep for ever.
 *
 * With several devices that is the hot one, by which the last messages came; meanwhile the thread
 * watches the others. A spinning reader looks at them now and then: a look can cost a system call.
 *
 * expect_sleep: the last looks, of a system call each, found nothing (a ping-pong): the reader lets
 * others run and looks after that while it pays (yield_and_look); else it sleeps at once.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core.h"
#include "util/rare.h"
#include "util/ticks.h"

#define THREAD_TICK_US 1000u
#define GLANCE_US      20u /* until what has no descriptor is looked at again, at first */
#define THREAD_TICK_MAX_US 4000u /* while calls keep looking at the ports */
#define PARK_TICKS     10u /* after so many ticks with a sleeping reader the thread parks */
#define LOOK_EVERY     32u /* of the waits, one looks before it sleeps, to notice load */
#define YIELD_US       50u /* for which it yields before it sleeps */
#define YIELD_CREDIT   4u  /* fruitless times until it is only tried now and then */
#define POLLS_MAX      17 /* the kick, 8 of the resolver, 8 devices */
#define HOT_MOST       16u /* messages in a row after which a device is surely the hot one */
#define HOT_ENOUGH     8u
#define OTHERS_EVERY   256u /* of the looks at the hot device, one is at all */
#define DUE_EVERY      8u  /* of the looks that find shorts, one runs the timers */
#define GLANCES        8u  /* of a spinning reader at the hot device, between two at all */
#define MOMENT         4096u /* ticks: some microseconds at most; so long a clock is right */
#define PORT_WAIT_US   200000u /* twice what a backend's wait may take */

/* For how long a waiting call polls without giving way; 0: not at all. */
static uint32_t spin_us(const struct ripc_context *ctx)
{
	return ctx->cfg.spin_us == RIPC_SPIN_NEVER ? 0 : ctx->cfg.spin_us;
}

static bool is_single(const struct ripc_context *ctx)
{
	return ctx->cfg.flags & RIPC_SINGLE_THREAD;
}

void ripc__lock(struct ripc_context *ctx)
{
	if (!is_single(ctx))
		ripc__mutex_lock(&ctx->lock);
}

void ripc__unlock(struct ripc_context *ctx)
{
	if (!is_single(ctx))
		ripc__mutex_unlock(&ctx->lock);
}

static void clock_read(struct ripc_context *ctx)
{
	ctx->now_us = ctx->env.now_us(ctx->env.arg);
	ctx->read_at = ripc__ticks();
}

static void lock(struct ripc_context *ctx)
{
	ripc__lock(ctx);
	clock_read(ctx);
}

static uint64_t activity_read(struct ripc_context *ctx)
{
	return atomic_load_explicit(&ctx->activity, memory_order_relaxed);
}

/* Only with the lock; it is just read without. */
static void activity_count(struct ripc_context *ctx)
{
	atomic_store_explicit(&ctx->activity, activity_read(ctx) + 1, memory_order_relaxed);
}

static void kick(int fd)
{
	uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* Ends the reader's sleep. */
static RIPC__RARE void kick_reader(struct ripc_context *ctx)
{
	if (ctx->reader_kicked)
		return;
	ctx->reader_kicked = true;
	if (ctx->waits_on)
		ctx->waits_on->ops->wake(ctx->waits_on->port);
	else
		kick(ctx->kick_fd);
}

static RIPC__RARE void kick_thread(struct ripc_context *ctx)
{
	if (ctx->thread_kicked)
		return;
	ctx->thread_kicked = true;
	kick(ctx->thread_kick_fd);
}

static void kick_drain(int fd)
{
	uint64_t count;

	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

int ripc__enter(struct ripc_context *ctx)
{
	if (!*ctx->alive)
		return -EOWNERDEAD;
	lock(ctx);
	return 0;
}

int ripc__enter_hastily(struct ripc_context *ctx)
{
	if (!*ctx->alive)
		return -EOWNERDEAD;
	ripc__lock(ctx);
	if (!ctx->has_ticks || !ripc__ticks_within(ctx->read_at, MOMENT))
		clock_read(ctx);
	return 0;
}

/*
 * Who sleeps must learn of a timer that is due earlier than it thinks. The progress thread only
 * if it sleeps for long: while it ticks, a timer may be late by a tick.
 */
static void wake_for_timers(struct ripc_context *ctx)
{
	bool reads = ctx->reader && ctx->reader->asleep_on_port;
	bool holds = !ctx->reader && ctx->thread_asleep && ctx->thread_holds;

	if (reads && ripc__next_deadline(ctx) < ctx->reader_until_us)
		kick_reader(ctx);
	else if (holds && ripc__next_deadline(ctx) < atomic_load(&ctx->thread_until_us))
		kick_thread(ctx);
}

void ripc__leave(struct ripc_context *ctx)
{
	if (ctx->any_broken)
		ripc__routes_mend(ctx);
	if (ctx->changed && !list_empty(&ctx->waiters))
		ripc__wake_ready(ctx);
	if (is_single(ctx))
		return;
	wake_for_timers(ctx);
	ripc__mutex_unlock(&ctx->lock);
}

uint64_t ripc__next_deadline(struct ripc_context *ctx)
{
	uint64_t next = ripc__timers_next(&ctx->timers);
	uint64_t resolver = ripc__resolver_deadline(ctx->resolver);

	next = resolver < next ? resolver : next;
	if (!list_empty(&ctx->acks) && ctx->acks_due_us < next)
		next = ctx->acks_due_us;
	if (ctx->n_corked && ctx->corked_due_us < next)
		next = ctx->corked_due_us;
	return next;
}

/* ---- the work ---------------------------------------------------------------------------- */

/* NULL: messages come by several. */
static struct device *hot_device(struct ripc_context *ctx)
{
	if (ctx->n_devices == 1)
		return &ctx->devices[0];
	return ctx->hot_run >= HOT_ENOUGH ? ctx->hot : NULL;
}

static void hot_update(struct ripc_context *ctx, struct device *device)
{
	if (ctx->hot != device && !ctx->hot_run)
		ctx->hot = device;
	else if (ctx->hot != device)
		ctx->hot_run = ctx->hot_run > 4 ? ctx->hot_run - 4 : 0;
	else if (ctx->hot_run < HOT_MOST)
		ctx->hot_run++;
}

static int device_progress(struct ripc_context *ctx, struct device *device)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	int n = ctx->waits_on == device ? 0 :
		device->ops->poll(device->port, events, RIPC_EVENTS_MAX);

	if (n > 0)
		hot_update(ctx, device);
	for (int i = 0; i < n; i++) {
		if (events[i].kind == RIPC_EV_DATAGRAM) {
			ripc__input(ctx, device, &events[i]);
			device->ops->release(device->port, events[i].handle);
		} else {
			ripc__input_event(ctx, device, &events[i]);
		}
	}
	return n > 0 ? n : 0;
}

static int timers_progress(struct ripc_context *ctx)
{
	int work = 0;

	if (ripc__timers_next(&ctx->timers) <= ctx->now_us)
		work += ripc__timers_run(&ctx->timers, ctx->now_us, ctx);
	if (ctx->now_us >= ctx->next_sweep_us)
		ripc__partners_sweep(ctx);
	if (ctx->any_broken)
		ripc__routes_mend(ctx);
	if (ctx->retry_us <= ctx->now_us)
		ripc__routes_retry(ctx);
	if (ctx->n_corked && ctx->corked_due_us <= ctx->now_us)
		ripc__corked_flush(ctx);
	if (ctx->acks_due_us <= ctx->now_us)
		ripc__acks_flush(ctx);
	return work;
}

static int resolver_progress(struct ripc_context *ctx)
{
	ctx->resolver_us = ctx->now_us;
	return ripc__resolver_step(ctx->resolver, ctx->now_us);
}

/* only: just at this device; NULL: at all. */
static int devices_progress(struct ripc_context *ctx, struct device *only)
{
	int work = 0;

	if (only)
		return device_progress(ctx, only);
	for (uint32_t i = 0; i < ctx->n_devices; i++)
		work += device_progress(ctx, &ctx->devices[i]);
	return work;
}

/* After the devices, which have done so much work: what is due. */
static int due_progress(struct ripc_context *ctx, int work)
{
	work += timers_progress(ctx);
	if (work == 0)
		ripc__acks_flush(ctx);
	if ((!ctx->thread_runs && ctx->now_us - ctx->resolver_us >= THREAD_TICK_US) ||
			ripc__resolver_deadline(ctx->resolver) <= ctx->now_us)
		work += resolver_progress(ctx);
	return work;
}

int ripc__progress(struct ripc_context *ctx)
{
	return due_progress(ctx, devices_progress(ctx, NULL));
}

/* The same for who looks again and again, so often at the hot device if nothing is there. Reads
 * and writes go on by being looked at. While shorts follow one another, what is due waits. */
static int look(struct ripc_context *ctx, uint32_t times)
{
	bool at_all = ++ctx->hot_looks % OTHERS_EVERY == 0 || ctx->reads.n || ctx->writes.n;
	struct device *hot = at_all ? NULL : hot_device(ctx);
	int work = devices_progress(ctx, hot);

	for (uint32_t i = 1; hot && work == 0 && i < times; i++)
		work = device_progress(ctx, hot);
	if (work && ctx->n_busy == 0 && ctx->hot_looks % DUE_EVERY)
		return work;
	return due_progress(ctx, work);
}

void ripc__wake_ready(struct ripc_context *ctx)
{
	ctx->changed = false;
	list_for_each(node, &ctx->waiters) {
		struct waiter *waiter = list_entry(node, struct waiter, node);

		if (!waiter->ready(waiter->arg))
			continue;
		if (waiter->asleep_on_port)
			kick_reader(ctx);
		else if (waiter->asleep_beside)
			ripc__sleep_end(&waiter->sleep);
	}
}

/* ---- sleeping ---------------------------------------------------------------------------- */

static void sleep_until(struct pollfd *fds, nfds_t n, uint64_t now_us, uint64_t until_us)
{
	struct timespec left;
	uint64_t us = until_us > now_us ? until_us - now_us : 0;

	left.tv_sec = (time_t)(us / 1000000);
	left.tv_nsec = (long)(us % 1000000) * 1000;
	if (ppoll(fds, n, until_us == UINT64_MAX ? NULL : &left, NULL) <= 0) {
		for (nfds_t i = 0; i < n; i++)
			fds[i].revents = 0;
	}
}

static bool any_revents(const struct pollfd *fds, nfds_t n)
{
	bool any = false;

	for (nfds_t i = 0; i < n; i++)
		any |= fds[i].revents != 0;
	return any;
}

/* All but one, or NULL. */
static nfds_t add_ports(struct ripc_context *ctx, struct pollfd *fds, nfds_t n, bool *ticks,
		const struct device *but)
{
	for (uint32_t i = 0; i < ctx->n_devices; i++) {
		struct device *device = &ctx->devices[i];
		int fd = device->ops->wait_fd ? device->ops->wait_fd(device->port) : -ENOTSUP;

		if (device == but)
			continue;
		if (fd >= 0)
			fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
		else
			*ticks = true;
	}
	return n;
}

/* All but one, or NULL. False: something came in while arming. */
static bool arm_ports(struct ripc_context *ctx, const struct device *but)
{
	for (uint32_t i = 0; i < ctx->n_devices; i++) {
		struct device *device = &ctx->devices[i];

		if (device != but && device->ops->wait_arm &&
				device->ops->wait_arm(device->port) == -EAGAIN)
			return false;
	}
	return true;
}

static nfds_t add_resolver(struct ripc_context *ctx, struct pollfd *fds, nfds_t n)
{
	int resolver[8];
	int n_resolver = ripc__resolver_fds(ctx->resolver, resolver, 8);

	for (int i = 0; i < n_resolver && n < POLLS_MAX; i++)
		fds[n++] = (struct pollfd){.fd = resolver[i], .events = POLLIN};
	return n;
}

/* The reader sleeps until something comes in, a timer is due, or it is kicked. */
static void reader_sleep(struct ripc_context *ctx, struct waiter *self, uint64_t until_us)
{
	uint64_t now_us = ctx->now_us;
	struct pollfd fds[POLLS_MAX];
	bool ticks = false;
	nfds_t n = 1, n_ports;

	fds[0] = (struct pollfd){.fd = ctx->kick_fd, .events = POLLIN};
	n_ports = add_ports(ctx, fds, n, &ticks, NULL);
	n = ctx->thread_runs ? n_ports : add_resolver(ctx, fds, n_ports);
	ctx->glance_us = ctx->glance_us < THREAD_TICK_US ? 2 * ctx->glance_us + GLANCE_US :
		THREAD_TICK_US;
	if (ticks && until_us > now_us + ctx->glance_us)
		until_us = now_us + ctx->glance_us;
	if (!arm_ports(ctx, NULL)) {
		ripc__progress(ctx); /* perhaps by a device that is not the hot one */
		return;
	}
	self->asleep_on_port = true;
	ctx->reader_until_us = until_us;
	activity_count(ctx);
	atomic_store(&ctx->watch_beside, NULL);
	ripc__unlock(ctx);
	sleep_until(fds, n, now_us, until_us);
	lock(ctx);
	self->asleep_on_port = false;
	/* A kick that came after the sleep must not stand in the way of the next one. */
	if (ctx->reader_kicked) {
		kick_drain(ctx->kick_fd);
		ctx->reader_kicked = false;
	}
	if (any_revents(fds + n_ports, n - n_ports))
		resolver_progress(ctx);
	for (nfds_t i = 1; i < n_ports; i++) {
		ctx->expect_sleep |= fds[i].revents != 0;
		ctx->quiet &= fds[i].revents == 0;
	}
	ctx->glance_us = ripc__progress(ctx) ? 0 : ctx->glance_us;
}

/* May the reader sleep on the hot port alone, and for long? */
static bool can_wait_on_port(struct ripc_context *ctx, uint64_t until_us)
{
	const struct device *hot = hot_device(ctx);

	if (!hot || !hot->ops->wait || !ctx->thread_runs)
		return false;
	return !ctx->quiet && ctx->n_busy == 0 && !ctx->thread_parked &&
		until_us > ctx->now_us + PORT_WAIT_US;
}

static void port_wait(struct ripc_context *ctx, struct waiter *self, uint64_t until_us)
{
	struct device *device = hot_device(ctx);

	if (!arm_ports(ctx, NULL)) {
		ripc__progress(ctx); /* perhaps by a device that is not the hot one */
		return;
	}
	if (ctx->n_devices > 1 && atomic_exchange(&ctx->watch_beside, device) != device)
		kick_thread(ctx);
	self->asleep_on_port = true;
	ctx->waits_on = device;
	ctx->reader_until_us = until_us;
	activity_count(ctx);
	ripc__unlock(ctx);
	device->ops->wait(device->port);
	lock(ctx);
	self->asleep_on_port = false;
	ctx->waits_on = NULL;
	ctx->reader_kicked = false;
	ctx->expect_sleep = true;
	ctx->quiet = device->ops->wait_arm(device->port) == 0;
	due_progress(ctx, device_progress(ctx, device));
}

/* Who wants the lock has its turn, and the clock is read. */
static void give_way(struct ripc_context *ctx)
{
	ripc__unlock(ctx);
	ripc__mutex_give_way(&ctx->lock);
	lock(ctx);
}

/* Polls for as long as the configuration says before sleeping. True: something came. */
static bool spin(struct ripc_context *ctx, bool (*ready)(void *arg), void *arg)
{
	uint64_t until_us = ctx->now_us + spin_us(ctx);

	while (ctx->now_us < until_us) {
		if (look(ctx, GLANCES) || ready(arg))
			return true;
		give_way(ctx);
	}
	return false;
}

/* One time that others run, and a look. */
static bool yield_once(struct ripc_context *ctx, struct waiter *self)
{
	ripc__unlock(ctx);
	sched_yield();
	lock(ctx);
	return look(ctx, 1) || self->ready(self->arg);
}

/*
 * Lets others run and looks again, for a short time: where the partner shares our processor, or is
 * about to answer, that saves falling asleep and being woken, which takes longer than most answers
 * do. Done while it pays, tried now and then. Who is kept from its processor for long had better
 * sleep: the kernel wakes a sleeper before it lets a busy one go on.
 */
static bool yield_and_look(struct ripc_context *ctx, struct waiter *self)
{
	uint64_t began_us = ctx->now_us;

	if (ctx->cfg.spin_us || (ctx->yield_credit == 0 && ++ctx->sleeps % LOOK_EVERY))
		return false;
	while (ctx->now_us - began_us < YIELD_US) {
		if (!yield_once(ctx, self))
			continue;
		ctx->yield_credit = YIELD_CREDIT;
		ctx->expect_sleep = true; /* next time it need not look before it yields */
		return true;
	}
	ctx->yield_credit -= ctx->yield_credit > 0;
	return false;
}

static bool looks_first(struct ripc_context *ctx)
{
	return !ctx->expect_sleep || ++ctx->looks % LOOK_EVERY == 0;
}

static void reader_step(struct ripc_context *ctx, struct waiter *self, uint64_t deadline_us)
{
	uint64_t until_us;

	ctx->reader = self;
	activity_count(ctx);
	if (ctx->thread_holds) {
		ctx->thread_holds = false;
		kick_thread(ctx);
	}
	if (spin_us(ctx)) {
		if (spin(ctx, self->ready, self->arg))
			return;
	} else if (looks_first(ctx)) {
		ctx->expect_sleep = false;
		if (look(ctx, 1))
			return;
	}
	ripc__acks_flush(ctx);
	/* Whatever was without the lock must look whether it still has to sleep. */
	if (yield_and_look(ctx, self) || self->ready(self->arg))
		return;
	until_us = ripc__next_deadline(ctx);
	until_us = until_us < deadline_us ? until_us : deadline_us;
	if (can_wait_on_port(ctx, deadline_us))
		port_wait(ctx, self, until_us);
	else
		reader_sleep(ctx, self, until_us);
}

/* While another call reads, which has to learn of our timers: by the thread, within a tick. */
static void sleep_beside(struct ripc_context *ctx, struct waiter *self, uint64_t deadline_us)
{
	if (ctx->thread_parked)
		kick_thread(ctx);
	else if (!ctx->thread_runs)
		wake_for_timers(ctx);
	self->asleep_beside = true;
	ripc__sleep(&self->sleep, &ctx->lock, deadline_us);
	self->asleep_beside = false;
	clock_read(ctx);
}

/* Not inline, lest gcc 12 take the list for one that outlives its members (-Wdangling-pointer). */
static __attribute__((noinline)) void waiter_join(struct ripc_context *ctx, struct waiter *self)
{
	list_append(&ctx->waiters, &self->node);
}

/* Hands the reading on, to another waiting call or to the progress thread. */
static void waiter_leave(struct ripc_context *ctx, struct waiter *self)
{
	list_remove(&self->node);
	if (ctx->reader == self)
		ctx->reader = NULL;
	if (ctx->reader)
		return;
	/* Also if the reading was handed to us just when we gave up waiting. */
	list_for_each(node, &ctx->waiters) {
		struct waiter *waiter = list_entry(node, struct waiter, node);

		if (waiter->asleep_beside) {
			ripc__sleep_end(&waiter->sleep);
			return;
		}
	}
	if (ctx->thread_parked)
		kick_thread(ctx);
}

/* In a simulated world: others move on, until something is here or time has passed. */
static void idle_step(struct ripc_context *ctx, uint64_t deadline_us)
{
	uint64_t until_us;

	if (ripc__progress(ctx))
		return;
	until_us = ripc__next_deadline(ctx);
	until_us = until_us < deadline_us ? until_us : deadline_us;
	ripc__unlock(ctx);
	ctx->env.idle(ctx->env.arg, until_us);
	lock(ctx);
}

static __attribute__((noinline)) bool wait_long(struct ripc_context *ctx,
		bool (*ready)(void *arg), void *arg, uint64_t deadline_us)
{
	struct waiter self = {.ready = ready, .arg = arg};
	bool is_ready = false;

	ctx->glance_us = 0;
	waiter_join(ctx, &self);
	while (!is_ready && ctx->now_us < deadline_us) {
		if (ctx->env.idle != NULL)
			idle_step(ctx, deadline_us);
		else if (!ctx->reader || ctx->reader == &self)
			reader_step(ctx, &self, deadline_us);
		else
			sleep_beside(ctx, &self, deadline_us);
		is_ready = ready(arg);
		if (ctx->changed && ctx->waiters.next->next != &ctx->waiters)
			ripc__wake_ready(ctx);
		if (!is_ready && ctx->env.idle == NULL) {
			give_way(ctx); /* what we do not wait for may come without end */
			is_ready = ready(arg);
		}
	}
	waiter_leave(ctx, &self);
	return is_ready;
}

bool ripc__wait(struct ripc_context *ctx, bool (*ready)(void *arg), void *arg,
		uint64_t deadline_us)
{
	if (ready(arg))
		return true;
	if (ctx->n_corked)
		ripc__corked_flush(ctx);
	if (deadline_us <= ctx->now_us) {
		activity_count(ctx);
		ripc__progress(ctx);
		return ready(arg);
	}
	/* Often it is there already: then nobody need know that we came. */
	if (spin_us(ctx) && !ctx->reader && ctx->env.idle == NULL) {
		activity_count(ctx);
		if (look(ctx, 1) && ready(arg))
			return true;
	}
	return wait_long(ctx, ready, arg, deadline_us);
}

/* ---- the progress thread ----------------------------------------------------------------- */

struct shift {
	uint64_t activity; /* ctx->activity at the last tick */
	uint32_t tick_us;
	uint32_t idle_ticks;
};

/* True if calls have looked at the ports since the last tick; then the next one comes later. */
static bool shift_is_active(struct ripc_context *ctx, struct shift *shift)
{
	uint64_t activity = activity_read(ctx);
	bool active = shift->activity != activity;

	shift->activity = activity;
	shift->idle_ticks = active ? 0 : shift->idle_ticks + 1;
	shift->tick_us = active && shift->tick_us < THREAD_TICK_MAX_US ? 2 * shift->tick_us :
		active ? THREAD_TICK_MAX_US : THREAD_TICK_US;
	return active;
}

/* Decides what this round watches and until when; returns whether it holds the ports. */
static bool thread_plan(struct ripc_context *ctx, struct shift *shift, uint64_t *until_us)
{
	bool active = shift_is_active(ctx, shift);

	*until_us = ctx->now_us + shift->tick_us;
	if (ctx->reader) {
		ctx->thread_parked = shift->idle_ticks >= PARK_TICKS && !ctx->waits_on;
		if (ctx->thread_parked)
			*until_us = UINT64_MAX;
		return false;
	}
	if (active)
		return false;
	*until_us = ripc__next_deadline(ctx);
	return true;
}

/* Sleeps; while it only ticks, and calls keep looking at the ports, without taking the lock. */
static void thread_sleep(struct ripc_context *ctx, struct shift *shift, struct pollfd *fds,
		nfds_t n, uint64_t until_us)
{
	bool ticking = !ctx->thread_holds && !ctx->thread_parked;
	uint64_t now_us = ctx->now_us;

	atomic_store(&ctx->thread_until_us, until_us);
	ctx->thread_asleep = true;
	ripc__unlock(ctx);
	sleep_until(fds, n, now_us, until_us);
	while (ticking && !any_revents(fds, n) && shift_is_active(ctx, shift)) {
		now_us = ctx->env.now_us(ctx->env.arg);
		atomic_store(&ctx->thread_until_us, now_us + shift->tick_us);
		sleep_until(fds, n, now_us, now_us + shift->tick_us);
	}
	lock(ctx);
	ctx->thread_asleep = ctx->thread_parked = false;
}

static void thread_round(struct ripc_context *ctx, struct shift *shift)
{
	uint64_t now_us = ctx->now_us, until_us;
	struct pollfd fds[POLLS_MAX];
	bool ticks = false;
	const struct device *but;
	nfds_t n_resolver, n;

	ctx->thread_holds = thread_plan(ctx, shift, &until_us);
	/* Also between two calls: the next one takes it that the others are watched. */
	but = ctx->thread_holds ? NULL : atomic_load(&ctx->watch_beside);
	fds[0] = (struct pollfd){.fd = ctx->thread_kick_fd, .events = POLLIN};
	n = n_resolver = add_resolver(ctx, fds, 1);
	if ((ctx->thread_holds || but) && arm_ports(ctx, but))
		n = add_ports(ctx, fds, n_resolver, &ticks, but);
	else if (ctx->thread_holds || but)
		until_us = now_us; /* something is there already */
	if (ticks && until_us > now_us + THREAD_TICK_US)
		until_us = now_us + THREAD_TICK_US;
	thread_sleep(ctx, shift, fds, n, until_us);
	if (fds[0].revents) {
		kick_drain(ctx->thread_kick_fd);
		ctx->thread_kicked = false;
		shift->tick_us = THREAD_TICK_US;
	}
	if (any_revents(fds + 1, n_resolver - 1) ||
			ripc__resolver_deadline(ctx->resolver) <= ctx->now_us)
		resolver_progress(ctx);
	if (ctx->thread_holds || until_us == now_us ||
			any_revents(fds + n_resolver, n - n_resolver))
		ripc__progress(ctx);
	else if (!ctx->reader || ctx->waits_on)
		timers_progress(ctx);
	ctx->thread_holds = false;
	if (ctx->changed)
		ripc__wake_ready(ctx);
	wake_for_timers(ctx);
}

static void *thread_main(void *arg)
{
	struct ripc_context *ctx = arg;
	struct shift shift = {.tick_us = THREAD_TICK_US};

	lock(ctx);
	while (!ctx->thread_stop)
		thread_round(ctx, &shift);
	ripc__unlock(ctx);
	return NULL;
}

int ripc__thread_start(struct ripc_context *ctx)
{
	sigset_t all, before;
	int error;

	if (ctx->thread_runs)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&ctx->thread, NULL, thread_main, ctx);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	ctx->thread_runs = error == 0;
	return -error;
}

int ripc__wait_open(struct ripc_context *ctx)
{
	int error;

	ctx->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ctx->kick_fd < 0)
		return -errno;
	ctx->thread_kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ctx->thread_kick_fd < 0) {
		error = -errno;
		close(ctx->kick_fd);
		return error;
	}
	return 0;
}

void ripc__wait_close(struct ripc_context *ctx)
{
	if (ctx->thread_runs) {
		lock(ctx);
		ctx->thread_stop = true;
		ripc__unlock(ctx);
		kick(ctx->thread_kick_fd);
		pthread_join(ctx->thread, NULL);
	}
	close(ctx->kick_fd);
	close(ctx->thread_kick_fd);
}
