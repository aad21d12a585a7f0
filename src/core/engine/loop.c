/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls enter a context and leave it: the lock, the clock, and waking a sleeper if a call has set
 * an earlier timer.
 */
#include <errno.h>
#include <string.h>

#include "core/base/base.h"
#include "core/events.h"
#include "core/group/mcast_in.h"
#include "core/keys/dir.h"
#include "core/keys/sealed.h"
#include "core/memory/pool.h"
#include "core/message/move.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/partner/find.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/partner/roam.h"
#include "core/receive/incoming.h"
#include "core/resolve/resolver.h"
#include "core/send/announce.h"
#include "core/send/exposed.h"
#include "core/send/outgoing.h"
#include "internal.h"
#include "loop.h"
#include "util/hash/blocksum.h"
#include "util/list.h"
#include "util/rare.h"
#include "util/system/cancel.h"
#include "util/system/clock.h"
#include "util/system/kick.h"
#include "util/system/thread.h"
#include "util/timers.h"
#include "wait.h"

#define MOMENT         4096u /* ticks, at most some microseconds: a reading is valid so long */

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

void ripc__clock_read(struct ripc_context *ctx)
{
	ctx->now_us = ctx->env.now_us(ctx->env.arg);
	ctx->loop.read_at = ripc__ticks();
}

void ripc__lock_timely(struct ripc_context *ctx)
{
	ripc__lock(ctx);
	ripc__clock_read(ctx);
}

RIPC__RARE void ripc__kick_reader(struct ripc_context *ctx)
{
	RIPC__HOLD_CANCEL;
	struct device *device = atomic_load_explicit(&ctx->loop.waits_on, memory_order_relaxed);

	if (ctx->loop.reader_kicked)
		return;
	ctx->loop.reader_kicked = true;
	if (device)
		device->ops->net.wake(device->port);
	else
		ripc__kick(ctx->loop.kick_fd);
}

int ripc__enter(struct ripc_context *ctx)
{
	if (!ripc__is_own(ctx))
		return ripc__refusal(ctx);
	ripc__lock_timely(ctx);
	return 0;
}

int ripc__enter_hastily(struct ripc_context *ctx)
{
	if (!ripc__is_own(ctx))
		return ripc__refusal(ctx);
	ripc__lock(ctx);
	if (!ctx->loop.has_ticks || !ripc__ticks_within(ctx->loop.read_at, MOMENT))
		ripc__clock_read(ctx);
	return 0;
}

static RIPC__RARE int leave_ended(struct ripc_context *ctx)
{
	ripc__leave(ctx);
	return -ESHUTDOWN;
}

int ripc__enter_in(const struct ripc_service *service)
{
	int error = ripc__enter(service->ctx);

	return error || !service->ended ? error : leave_ended(service->ctx);
}

int ripc__enter_in_hastily(const struct ripc_service *service)
{
	int error = ripc__enter_hastily(service->ctx);

	return error || !service->ended ? error : leave_ended(service->ctx);
}

/* When idle partners must give back links and descriptors, also if nothing else happens. */
static uint64_t sweep_due(const struct ripc_context *ctx)
{
	const struct partner *oldest = ripc__partner_at(ctx, ctx->partners.all.next);
	uint64_t due;

	if (!oldest)
		return UINT64_MAX;
	due = oldest->used_us + PARTNER_IDLE_US;
	return due < ctx->loop.next_sweep_us ? ctx->loop.next_sweep_us : due;
}

/* The time of the next work that calls may have made due sooner than a sleeper knows. */
static inline uint64_t soonest(const struct ripc_context *ctx)
{
	uint64_t next = ripc__least(ripc__timers_next(&ctx->loop.timers),
		ripc__resolver_deadline(ctx->resolver));

	if (!list_empty(&ctx->receives.acks) && ctx->receives.acks_due_us < next)
		next = ctx->receives.acks_due_us;
	if (ctx->sends.n_batching && ctx->sends.batching_due_us < next)
		next = ctx->sends.batching_due_us;
	if (ctx->loop.pool_due_us < next && ripc__pool_is_large(ctx->pool))
		next = ctx->loop.pool_due_us;
	return next;
}

/*
 * Does a thread sleep until a deadline that it has computed? The progress thread counts only if it
 * sleeps for long: while it ticks, a timer may be late by a tick.
 */
static inline bool is_slept(const struct ripc_context *ctx)
{
	return ctx->loop.reader ? ctx->loop.reader->asleep_on_port : ctx->loop.thread_holds &&
		ctx->loop.thread_asleep;
}

static inline void wake_before(struct ripc_context *ctx, uint64_t due_us)
{
	if (ctx->loop.reader && due_us < ctx->loop.reader_until_us)
		ripc__kick_reader(ctx);
	else if (!ctx->loop.reader && due_us < atomic_load(&ctx->loop.thread_until_us))
		ripc__thread_kick(ctx);
}

/* Wakes a sleeper if a timer is due earlier than the sleeper thinks. */
void ripc__wake_for_timers(struct ripc_context *ctx)
{
	if (is_slept(ctx))
		wake_before(ctx, soonest(ctx));
}

void ripc__wake_for_sweep(struct ripc_context *ctx)
{
	if (is_slept(ctx))
		wake_before(ctx, sweep_due(ctx));
}

extern inline void ripc__leave(struct ripc_context *ctx)
{
	if (ctx->peers.any_broken)
		ripc__routes_mend(ctx);
	if (ctx->loop.changed && !list_empty(&ctx->loop.waiters))
		ripc__wake_ready(ctx);
	if (is_single(ctx))
		return;
	if (is_slept(ctx))
		wake_before(ctx, soonest(ctx));
	ripc__mutex_unlock(&ctx->lock);
}

void ripc__enter_late(struct ripc_context *ctx)
{
	ripc__lock_timely(ctx);
	if (ctx->loop.is_shut)
		ripc__pool_hold(ctx->pool, 1);
}

void ripc__leave_late(struct ripc_context *ctx)
{
	struct ripc__pool *pool = ctx->pool;

	if (!ctx->loop.is_shut) {
		ripc__leave(ctx);
		return;
	}
	ripc__unlock(ctx);
	ripc__pool_drop(pool);
}

uint64_t ripc__next_deadline(struct ripc_context *ctx)
{
	return ripc__least(soonest(ctx), sweep_due(ctx));
}

bool ripc__waiter_is_done(const struct waiter *waiter)
{
	return waiter->ready(waiter->arg) || waiter->signalled ||
		(waiter->wakes && ripc__wake_pending(waiter->wakes));
}

void ripc__wake_ready(struct ripc_context *ctx)
{
	ctx->loop.changed = false;
	list_for_each(node, &ctx->loop.waiters) {
		struct waiter *waiter = list_entry(node, struct waiter, node);

		if (!ripc__waiter_is_done(waiter))
			continue;
		if (waiter->asleep_on_port)
			ripc__kick_reader(ctx);
		else if (waiter->asleep_beside)
			ripc__sleep_end(&waiter->sleep);
	}
}

/* ---- progress ---------------------------------------------------------------------------- */

/* The work: datagrams, timers that are due, and events of the resolver's sources. */

#define HOT_MOST       16u /* messages in a row after which a device is surely the hot one */
#define HOT_ENOUGH     8u
#define OTHERS_EVERY   256u /* polls of the hot device until all devices are polled once */
#define DUE_EVERY      8u  /* polls that find shorts until the timers run once */
#define DRAIN_LOOKS    64u /* polls while more keeps coming, at most */
#define POLL_LOOKS     8u  /* further polls in one ripc_poll(), at most */
#define POOL_TURN_US       1000000u /* idle memory is given back after one to two of these, */
#define POOL_SOON_US       100000u  /* in pieces with this distance */

struct device *ripc__hot_device(struct ripc_context *ctx)
{
	if (ctx->peers.n_devices == 1)
		return &ctx->peers.devices[0];
	return ctx->loop.hot_run >= HOT_ENOUGH ? ctx->loop.hot : NULL;
}

static void hot_update(struct ripc_context *ctx, struct device *device)
{
	if (ctx->loop.hot != device && !ctx->loop.hot_run)
		ctx->loop.hot = device;
	else if (ctx->loop.hot != device)
		ctx->loop.hot_run = ctx->loop.hot_run > 4 ? ctx->loop.hot_run - 4 : 0;
	else if (ctx->loop.hot_run < HOT_MOST)
		ctx->loop.hot_run++;
}

int ripc__device_progress(struct ripc_context *ctx, struct device *device)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	bool waited_on = atomic_load_explicit(&ctx->loop.waits_on, memory_order_relaxed) == device;
	int n = waited_on ? 0 : device->ops->datagrams.poll(device->port, events,
		RIPC_EVENTS_MAX, ctx->loop.polls_all);

	if (n > 0)
		hot_update(ctx, device);
	for (int i = 0; i < n; i++) {
		if (events[i].kind == RIPC_EV_DATAGRAM) {
			ripc__input(ctx, device, &events[i]);
			device->ops->datagrams.release(device->port, events[i].handle);
		} else if (events[i].kind == RIPC_EV_MULTICAST) {
			ripc__mcast_in_input(ctx, device, &events[i]);
			device->ops->datagrams.release(device->port, events[i].handle);
		} else {
			ripc__input_event(ctx, device, &events[i]);
		}
	}
	if (ctx->receives.arriving)
		ripc__arrivals_settle(ctx);
	return n > 0 ? n : 0;
}

int ripc__timers_progress(struct ripc_context *ctx)
{
	int work = 0;

	if (ripc__timers_next(&ctx->loop.timers) <= ctx->now_us)
		work += ripc__timers_run(&ctx->loop.timers, ctx->now_us, ctx);
	if (ctx->now_us >= ctx->loop.next_sweep_us)
		ripc__partners_sweep(ctx);
	if (ctx->now_us >= ctx->loop.pool_due_us)
		ctx->loop.pool_due_us = ctx->now_us +
			(ripc__pool_turn(ctx->pool) ? POOL_SOON_US : POOL_TURN_US);
	if (ctx->peers.any_broken)
		ripc__routes_mend(ctx);
	if (ctx->peers.retry_us <= ctx->now_us)
		ripc__routes_retry(ctx);
	if (ctx->sends.n_batching && ctx->sends.batching_due_us <= ctx->now_us)
		ripc__batching_flush(ctx);
	if (ctx->receives.acks_due_us <= ctx->now_us && !list_empty(&ctx->receives.acks))
		ripc__acks_flush(ctx);
	return work;
}

/* Polls the devices. only: this device alone; NULL: all. */
static int devices_progress(struct ripc_context *ctx, struct device *only)
{
	int work = 0;

	if (only)
		return ripc__device_progress(ctx, only);
	for (uint32_t i = 0; i < ctx->peers.n_devices; i++)
		work += ripc__device_progress(ctx, &ctx->peers.devices[i]);
	return work;
}

int ripc__due_progress(struct ripc_context *ctx, int work)
{
	work += ripc__timers_progress(ctx);
	if (work == 0 && !list_empty(&ctx->receives.acks))
		ripc__acks_flush(ctx);
	if ((!ctx->loop.thread_runs && ctx->now_us - ctx->loop.resolver_us >= THREAD_TICK_US) ||
			ripc__resolver_deadline(ctx->resolver) <= ctx->now_us)
		work += ripc__news_read(ctx);
	return work;
}

int ripc__progress(struct ripc_context *ctx)
{
	return ripc__due_progress(ctx, devices_progress(ctx, NULL));
}

bool ripc__ports_drain(struct ripc_context *ctx)
{
	if (atomic_load_explicit(&ctx->loop.waits_on, memory_order_relaxed)) {
		ripc__kick_reader(ctx);
		return false;
	}
	ctx->loop.polls_all = true;
	for (uint32_t i = 0; i < DRAIN_LOOKS && devices_progress(ctx, NULL); i++)
		;
	ctx->loop.polls_all = false;
	return true;
}

int ripc__look(struct ripc_context *ctx, uint32_t times)
{
	bool at_all = ++ctx->loop.hot_looks % OTHERS_EVERY == 0 || ctx->receives.reads.n ||
		ctx->sends.writes.n;
	struct device *hot = at_all ? NULL : ripc__hot_device(ctx);
	int work = devices_progress(ctx, hot);

	for (uint32_t i = 1; hot && work == 0 && i < times; i++)
		work = ripc__device_progress(ctx, hot);
	if (work && ctx->loop.n_busy == 0 && ctx->loop.hot_looks % DUE_EVERY)
		return work;
	return ripc__due_progress(ctx, work);
}

int ripc__poll(struct ripc_context *ctx)
{
	int work, more;

	ripc__activity_count(ctx);
	if (ctx->loop.ports_fd >= 0 && !ctx->loop.reader)
		ripc__kick_drain(ctx->loop.kick_fd);
	work = more = ripc__progress(ctx);
	/* Poll until nothing is found: else the descriptor is readable for work that is done. */
	for (uint32_t i = 0; ctx->loop.ports_fd >= 0 && more && i < POLL_LOOKS; i++)
		work += more = ripc__progress(ctx);
	ripc__ports_leave(ctx);
	return work;
}

/* ---- reread ------------------------------------------------------------------------------ */

/*
 * See loop.h. Two readings may go on at the same time, one by a call and one by the thread. The
 * reading that began later counts, whichever ends first.
 */

static int read_dir(struct ripc_context *ctx, struct key_dir *found, char why[KEY_WHY])
{
	ripc__point(ctx, "in_keys");
	return ripc__key_dir_read(ctx->cfg.keys, NULL, found, why);
}

static int use(struct ripc_context *ctx, int error, struct key_dir *found, char why[KEY_WHY])
{
	error = error ? error : ripc__seal_renew(ctx, found, why);
	if (error)
		ripc__log(ctx, RIPC_LOG_WARN, "keys: not reloaded: %s", why);
	return error;
}

int ripc__reread(struct ripc_context *ctx)
{
	uint64_t number = ++ctx->loop.reread.begun;
	struct key_dir found;
	char why[KEY_WHY];
	int error;

	ripc__leave(ctx);
	error = read_dir(ctx, &found, why);
	ripc__lock_timely(ctx); /* not ripc__enter(): ripc_close() may have begun */
	if (number > ctx->loop.reread.used) {
		ctx->loop.reread.used = number;
		error = use(ctx, error, &found, why);
	}
	ripc__key_dir_wipe(&found);
	return error;
}

static void *reread_main(void *arg)
{
	struct ripc_context *ctx = arg;

	ripc__lock_timely(ctx);
	(void)ripc__reread(ctx);
	ctx->loop.reread.ended = true;
	ripc__leave(ctx);
	return NULL;
}

/* Reads the directory in the calling thread, because the application wants no other threads. */
static void reread_here(struct ripc_context *ctx)
{
	struct key_dir found;
	char why[KEY_WHY];
	int error = read_dir(ctx, &found, why);

	(void)use(ctx, error, &found, why);
	ripc__key_dir_wipe(&found);
}

void ripc__reread_begin(struct ripc_context *ctx)
{
	RIPC__HOLD_CANCEL;
	int error;

	if (ctx->cfg.flags & RIPC_NO_THREAD) {
		reread_here(ctx);
		return;
	}
	if (ctx->loop.reread.runs && !ctx->loop.reread.ended) {
		ripc__log(ctx, RIPC_LOG_WARN, "keys: %s: the file system has not responded for a "
			"minute: the keys stay as they are until it does", ctx->cfg.keys);
		return;
	}
	ripc__reread_end(ctx);
	error = ripc__thread_make(&ctx->loop.reread.thread, reread_main, ctx);
	ctx->loop.reread.runs = error == 0;
	if (error)
		ripc__log(ctx, RIPC_LOG_WARN, "keys: %s is not read: no thread can be created: %s",
			ctx->cfg.keys, strerror(error));
}

void ripc__reread_end(struct ripc_context *ctx)
{
	if (ctx->loop.reread.runs)
		pthread_join(ctx->loop.reread.thread, NULL);
	ctx->loop.reread.runs = ctx->loop.reread.ended = false;
}

/* ---- summing ----------------------------------------------------------------------------- */

/* The checksum of a message, computed without the lock while the receiver reads the message. */

/* Adds a part to the checksum, without the lock. False: the message has ended meanwhile. */
static bool sum_part(struct outgoing *outgoing, const struct iovec *part, uint64_t start,
		uint64_t *sum)
{
	struct ripc_context *ctx = outgoing->message.ctx;

	ctx->loop.n_away++;
	ripc__leave(ctx);
	ripc__point(ctx, "in_summing");
	*sum += ripc__blocksum(part->iov_base, part->iov_len, start);
	ripc__lock_timely(ctx);
	ctx->loop.n_away--;
	ctx->loop.changed |= ctx->loop.closing; /* ripc_close() waits for this thread */
	ripc__progress(ctx);
	return outgoing->state == OUT_ACTIVE || outgoing->state == OUT_WAITING;
}

static bool sum_all(struct outgoing *outgoing, uint64_t *sum)
{
	uint64_t carried = ripc__exposed_carried(outgoing), start = 0;

	for (uint32_t i = 0; i < outgoing->n_items; start += outgoing->items[i++].iov_len) {
		const struct iovec *item = &outgoing->items[i];
		struct iovec part = {.iov_base = item->iov_base};

		for (size_t at = 0; start >= carried && at < item->iov_len; at += part.iov_len) {
			part.iov_base = (char *)item->iov_base + at;
			part.iov_len = item->iov_len - at < PART_BYTES ? item->iov_len - at :
				PART_BYTES;
			if (!sum_part(outgoing, &part, start + at, sum))
				return false;
		}
	}
	return true;
}

void ripc__sum_follows(struct outgoing *outgoing)
{
	struct fence fence = {.outgoing = outgoing};
	bool is_awaited = outgoing->exposed && outgoing->exposed->is_summing;
	uint64_t sum = 0;

	if (is_awaited) /* the message must not end before we are done with its items */
		list_append(&outgoing->fencing, &fence.node);
	if (is_awaited && sum_all(outgoing, &sum)) {
		outgoing->sum = ripc__blocksum_told(sum);
		outgoing->summed = true;
	}
	outgoing->sums = false;
	if (!is_awaited)
		return;
	if (outgoing->summed && outgoing->state == OUT_ACTIVE && outgoing->exposed)
		ripc__outgoing_tell(outgoing);
	ripc__fence_lift(&fence);
}
