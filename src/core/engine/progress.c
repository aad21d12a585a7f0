/* SPDX-License-Identifier: BSD-3-Clause */
/* The work: what has come, what is due, and what the resolver's sources say. */
#include "core/group/heard.h"
#include "core/memory/pool.h"
#include "core/net/backend.h"
#include "core/partner/life.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/partner/roam.h"
#include "core/receive/arrive.h"
#include "core/resolve/resolver.h"
#include "core/send/cork.h"
#include "enter.h"
#include "input.h"
#include "progress.h"
#include "readiness.h"
#include "util/list.h"
#include "util/timers.h"

#define HOT_MOST       16u /* messages in a row after which a device is surely the hot one */
#define HOT_ENOUGH     8u
#define OTHERS_EVERY   256u /* of the looks at the hot device, one is at all */
#define DUE_EVERY      8u  /* of the looks that find shorts, one runs the timers */
#define DRAIN_LOOKS    64u /* while more keeps coming */
#define POLL_LOOKS     8u  /* of one ripc_poll(), that more follow */
#define POOL_TURN_US       1000000u /* idle memory goes back after one to two of these, */
#define POOL_SOON_US       100000u  /* and in pieces, so far apart */

struct device *ripc__hot_device(struct ripc_context *ctx)
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

int ripc__device_progress(struct ripc_context *ctx, struct device *device)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	bool waited_on = atomic_load_explicit(&ctx->waits_on, memory_order_relaxed) == device;
	int n = waited_on ? 0 : device->ops->datagrams.poll(device->port, events,
		RIPC_EVENTS_MAX, ctx->polls_all);

	if (n > 0)
		hot_update(ctx, device);
	for (int i = 0; i < n; i++) {
		if (events[i].kind == RIPC_EV_DATAGRAM) {
			ripc__input(ctx, device, &events[i]);
			device->ops->datagrams.release(device->port, events[i].handle);
		} else if (events[i].kind == RIPC_EV_MANY) {
			ripc__heard_input(ctx, device, &events[i]);
			device->ops->datagrams.release(device->port, events[i].handle);
		} else {
			ripc__input_event(ctx, device, &events[i]);
		}
	}
	if (ctx->arriving)
		ripc__arrivals_settle(ctx);
	return n > 0 ? n : 0;
}

int ripc__timers_progress(struct ripc_context *ctx)
{
	int work = 0;

	if (ripc__timers_next(&ctx->timers) <= ctx->now_us)
		work += ripc__timers_run(&ctx->timers, ctx->now_us, ctx);
	if (ctx->now_us >= ctx->next_sweep_us)
		ripc__partners_sweep(ctx);
	if (ctx->now_us >= ctx->pool_due_us)
		ctx->pool_due_us = ctx->now_us +
			(ripc__pool_turn(ctx->pool) ? POOL_SOON_US : POOL_TURN_US);
	if (ctx->any_broken)
		ripc__routes_mend(ctx);
	if (ctx->retry_us <= ctx->now_us)
		ripc__routes_retry(ctx);
	if (ctx->n_corked && ctx->corked_due_us <= ctx->now_us)
		ripc__corked_flush(ctx);
	if (ctx->acks_due_us <= ctx->now_us && !list_empty(&ctx->acks))
		ripc__acks_flush(ctx);
	return work;
}

int ripc__resolver_progress(struct ripc_context *ctx)
{
	ctx->resolver_us = ctx->now_us;
	return ripc__resolver_step(ctx->resolver, ctx->now_us);
}

/* only: just at this device; NULL: at all. */
static int devices_progress(struct ripc_context *ctx, struct device *only)
{
	int work = 0;

	if (only)
		return ripc__device_progress(ctx, only);
	for (uint32_t i = 0; i < ctx->n_devices; i++)
		work += ripc__device_progress(ctx, &ctx->devices[i]);
	return work;
}

int ripc__due_progress(struct ripc_context *ctx, int work)
{
	work += ripc__timers_progress(ctx);
	if (work == 0 && !list_empty(&ctx->acks))
		ripc__acks_flush(ctx);
	if ((!ctx->thread_runs && ctx->now_us - ctx->resolver_us >= THREAD_TICK_US) ||
			ripc__resolver_deadline(ctx->resolver) <= ctx->now_us)
		work += ripc__resolver_progress(ctx);
	return work;
}

int ripc__progress(struct ripc_context *ctx)
{
	return ripc__due_progress(ctx, devices_progress(ctx, NULL));
}

bool ripc__ports_drain(struct ripc_context *ctx)
{
	if (atomic_load_explicit(&ctx->waits_on, memory_order_relaxed)) {
		ripc__kick_reader(ctx);
		return false;
	}
	ctx->polls_all = true;
	for (uint32_t i = 0; i < DRAIN_LOOKS && devices_progress(ctx, NULL); i++)
		;
	ctx->polls_all = false;
	return true;
}

int ripc__look(struct ripc_context *ctx, uint32_t times)
{
	bool at_all = ++ctx->hot_looks % OTHERS_EVERY == 0 || ctx->reads.n || ctx->writes.n;
	struct device *hot = at_all ? NULL : ripc__hot_device(ctx);
	int work = devices_progress(ctx, hot);

	for (uint32_t i = 1; hot && work == 0 && i < times; i++)
		work = ripc__device_progress(ctx, hot);
	if (work && ctx->n_busy == 0 && ctx->hot_looks % DUE_EVERY)
		return work;
	return ripc__due_progress(ctx, work);
}

int ripc__poll(struct ripc_context *ctx)
{
	int work, more;

	ripc__activity_count(ctx);
	if (ctx->ports_fd >= 0 && !ctx->reader)
		ripc__kick_drain(ctx->kick_fd);
	work = more = ripc__progress(ctx);
	/* Once more after the last: so that its descriptor is not readable for what is done. */
	for (uint32_t i = 0; ctx->ports_fd >= 0 && more && i < POLL_LOOKS; i++)
		work += more = ripc__progress(ctx);
	ripc__ports_leave(ctx);
	return work;
}
