/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread. While no call waits, it takes the ports over once nobody has looked at them
 * for a tick of 1 ms; while one does, it only looks after the resolver's descriptors, and after a
 * while it parks. The thread never competes for a packet with a call that is there: a call that
 * comes kicks it out. Where event loops sleep on services' descriptors, it takes them over as soon
 * as no call waits, and sleeps on them in the kernel (wait.c).
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "core/base/base.h"
#include "core/resolve/resolver.h"
#include "util/system/thread.h"
#include "wait.h"

#define THREAD_TICK_MAX_US 4000u /* while calls keep looking at the ports */
#define ROUNDS_MAX     8u  /* looks at the ports between two sleeps */
#define PARK_TICKS     10u /* after so many ticks with a sleeping reader the thread parks */

struct shift {
	uint64_t activity; /* ctx->loop.activity at the last tick */
	uint32_t tick_us;
	uint32_t idle_ticks;
};

/* True if calls have looked at the ports since the last tick; then the next one comes later. */
static bool shift_is_active(struct ripc_context *ctx, struct shift *shift)
{
	uint64_t activity = ripc__activity(ctx);
	bool active = shift->activity != activity;

	shift->activity = activity;
	shift->idle_ticks = active ? 0 : shift->idle_ticks + 1;
	shift->tick_us = active && shift->tick_us < THREAD_TICK_MAX_US ? 2 * shift->tick_us :
		active ? THREAD_TICK_MAX_US : THREAD_TICK_US;
	return active;
}

/* Decides what this round watches and until when; returns whether it holds ports and timers. */
static bool thread_plan(struct ripc_context *ctx, struct shift *shift, uint64_t *until_us)
{
	bool active = shift_is_active(ctx, shift);
	uint64_t next_us;

	*until_us = ctx->now_us + shift->tick_us;
	if (ctx->loop.reader) {
		ctx->loop.thread_parked = shift->idle_ticks >= PARK_TICKS && !ctx->loop.waits_on;
		if (ctx->loop.thread_parked)
			*until_us = UINT64_MAX;
		return false;
	}
	if (active && !ripc__has_descriptors(ctx))
		return false;
	/* While there is traffic, timers that come up within a tick need not kick it. */
	next_us = ripc__next_deadline(ctx);
	if (!active || next_us < *until_us)
		*until_us = next_us;
	return true;
}

/* Serves the event that woke the thread, and later ones: then the thread can sleep at once. */
static void thread_progress(struct ripc_context *ctx)
{
	for (uint32_t i = 0; i < ROUNDS_MAX && ripc__progress(ctx); i++)
		;
}

/* Sleeps; while it only ticks, and calls keep looking at the ports, without taking the lock. */
static void thread_sleep(struct ripc_context *ctx, struct shift *shift, struct pollfd *fds,
		nfds_t n, uint64_t until_us)
{
	bool ticking = !ctx->loop.thread_holds && !ctx->loop.thread_parked;
	uint64_t now_us = ctx->now_us;

	atomic_store(&ctx->loop.thread_until_us, until_us);
	ctx->loop.thread_asleep = true;
	ripc__unlock(ctx);
	ripc__sleep_on(fds, n, now_us, until_us, NULL);
	while (ticking && !ripc__any_revents(fds, n) && shift_is_active(ctx, shift)) {
		now_us = ctx->env.now_us(ctx->env.arg);
		atomic_store(&ctx->loop.thread_until_us, now_us + shift->tick_us);
		ripc__sleep_on(fds, n, now_us, now_us + shift->tick_us, NULL);
	}
	ripc__lock_timely(ctx);
	ctx->loop.thread_asleep = ctx->loop.thread_parked = false;
}

static void thread_round(struct ripc_context *ctx, struct shift *shift)
{
	uint64_t now_us = ctx->now_us, until_us;
	struct pollfd fds[POLLS_MAX];
	bool ticks = false, looks;
	const struct device *but;
	nfds_t n_resolver, n;

	ctx->loop.thread_holds = thread_plan(ctx, shift, &until_us);
	looks = ctx->loop.thread_holds && ctx->loop.ports_fd < 0;
	/* Also between two calls: the next one takes it that the others are watched. */
	but = ctx->loop.thread_holds ? NULL : atomic_load(&ctx->loop.watch_beside);
	fds[0] = (struct pollfd){.fd = ctx->loop.thread_kick_fd, .events = POLLIN};
	n = n_resolver = ripc__resolver_add(ctx, fds, 1);
	if ((looks || but) && ripc__ports_arm(ctx, but))
		n = ripc__ports_add(ctx, fds, n_resolver, &ticks, but);
	else if (looks || but)
		until_us = now_us; /* something is there already */
	if (ticks && until_us > now_us + THREAD_TICK_US)
		until_us = now_us + THREAD_TICK_US;
	thread_sleep(ctx, shift, fds, n, until_us);
	if (fds[0].revents) {
		ripc__kick_drain(ctx->loop.thread_kick_fd);
		ctx->loop.thread_kicked = false;
		shift->tick_us = THREAD_TICK_US;
	}
	if (ripc__any_revents(fds + 1, n_resolver - 1) ||
			ripc__resolver_deadline(ctx->resolver) <= ctx->now_us)
		ripc__resolver_progress(ctx);
	if ((ctx->loop.thread_holds && looks) || until_us == now_us ||
			ripc__any_revents(fds + n_resolver, n - n_resolver))
		thread_progress(ctx);
	else if (!ctx->loop.reader || ctx->loop.waits_on)
		ripc__timers_progress(ctx);
	ctx->loop.thread_holds = false;
	if (ctx->loop.changed)
		ripc__wake_ready(ctx);
	ripc__wake_for_timers(ctx);
}

static void *thread_main(void *arg)
{
	struct ripc_context *ctx = arg;
	struct shift shift = {.tick_us = THREAD_TICK_US};

	ripc__lock_timely(ctx);
	while (!ctx->loop.thread_stop)
		thread_round(ctx, &shift);
	ripc__unlock(ctx);
	return NULL;
}

int ripc__thread_start(struct ripc_context *ctx)
{
	int error;

	if (ctx->loop.thread_runs || ctx->cfg.flags & RIPC_NO_THREAD)
		return 0;
	error = ripc__thread_make(&ctx->loop.thread, thread_main, ctx);
	ctx->loop.thread_runs = error == 0;
	/* There are no more threads for this user or cgroup: no memory, as far as callers go. */
	if (error)
		ripc__log(ctx, RIPC_LOG_ERROR, "no thread can be created: %s (ulimit -u, or "
			"pids.max of the cgroup)", strerror(error));
	return error == EAGAIN ? -ENOMEM : -error;
}

void ripc__thread_end(struct ripc_context *ctx)
{
	if (!ctx->loop.thread_runs)
		return;
	ripc__lock(ctx);
	ctx->loop.thread_stop = true;
	ripc__unlock(ctx);
	ripc__kick(ctx->loop.thread_kick_fd);
	pthread_join(ctx->loop.thread, NULL);
}
