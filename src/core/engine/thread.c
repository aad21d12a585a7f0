/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread. While no call waits, the thread takes the ports over once no call has polled
 * them for a tick of 1 ms. While a call waits, the thread only serves the resolver's descriptors,
 * and after a while it parks. The thread never competes with a call for a packet: a call that
 * enters kicks it out. If event loops sleep on services' descriptors, the thread takes the ports
 * over as soon as no call waits, and sleeps on them in the kernel (wait.c).
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "core/base/base.h"
#include "core/partner/find.h"
#include "core/resolve/resolver.h"
#include "util/system/kick.h"
#include "util/system/thread.h"
#include "wait.h"

#define THREAD_TICK_MAX_US 4000u /* tick while calls keep polling the ports */
#define ROUNDS_MAX     8u  /* polls of the ports between two sleeps */
#define PARK_TICKS     10u /* after so many ticks with a sleeping reader the thread parks */

struct shift {
	uint64_t activity; /* ctx->loop.activity at the last tick */
	uint32_t tick_us;
	uint32_t idle_ticks;
};

/* True: calls have polled the ports since the last tick. Then the next tick is longer. */
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

/* Decides what this round watches, and until when. True: the thread serves ports and timers. */
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
	/* While there is traffic, timers that are due within a tick need not kick the thread. */
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

/* Sleeps. While the thread only ticks, and calls keep polling, it takes no lock afterwards. */
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
	/* Also between two calls: the next call relies on the thread to watch the other ports. */
	but = ctx->loop.thread_holds ? NULL : atomic_load(&ctx->loop.watch_beside);
	fds[0] = (struct pollfd){.fd = ctx->loop.thread_kick_fd, .events = POLLIN};
	n = n_resolver = ripc__resolver_add(ctx, fds, 1);
	if ((looks || but) && ripc__ports_arm(ctx, but))
		n = ripc__ports_add(ctx, fds, n_resolver, &ticks, but);
	else if (looks || but)
		until_us = now_us; /* an event is there already */
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
		ripc__news_read(ctx);
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
	/* This user or cgroup may have no more threads. Callers get -ENOMEM. */
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
