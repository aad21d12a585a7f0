/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls: check the arguments, take the lock, delegate. Their contracts are in
 * ripc.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "order.h"
#include "returns.h"
#include "mapped.h"
#include "receiving.h"
#include "util/siphash.h"

uint64_t ripc_id_from_name(const char *name)
{
	static const uint8_t key[16];
	uint64_t id = name ? ripc__siphash(key, name, strlen(name)) : 0;

	return id ? id : 1;
}

/* ---- services ---------------------------------------------------------------------------- */

int ripc_service_drain(struct ripc_service *svc, int timeout_ms)
{
	struct ripc_context *ctx = svc ? svc->ctx : NULL;
	int error = ctx && timeout_ms >= 0 ? ripc__enter(ctx) : -EINVAL;

	if (error)
		return error;
	error = ripc__service_drain(svc, timeout_ms);
	ripc__leave(ctx);
	return error;
}

int ripc_service_close(struct ripc_service *svc)
{
	struct ripc_context *ctx = svc ? svc->ctx : NULL;
	int error = ctx ? ripc__enter(ctx) : -EINVAL;

	if (error)
		return error;
	ripc__point(ctx, "in_close");
	ripc__service_end(svc);
	ripc__orphans_wait(ctx);
	ripc__leave(ctx);
	return 0;
}

uint64_t ripc_service_id(const struct ripc_service *svc)
{
	return svc ? svc->id : 0;
}

uint64_t ripc_service_incarnation(const struct ripc_service *svc)
{
	return svc ? svc->incarnation : 0;
}

/* ---- the resolver ------------------------------------------------------------------------ */

struct lookup {
	struct ripc_context *ctx;
	uint64_t id, deadline_us;
	int status;
};

static bool looked_up(void *arg)
{
	struct lookup *lookup = arg;
	const struct ripc__answer *answer;

	lookup->status = ripc__resolver_lookup(lookup->ctx->resolver, lookup->id,
		lookup->ctx->now_us, &answer);
	ripc__resolver_wanted(lookup->ctx->resolver, lookup->id, lookup->deadline_us);
	return lookup->status != -EINPROGRESS;
}

int ripc_resolve(struct ripc_context *ctx, uint64_t id, int timeout_ms)
{
	struct lookup lookup = {.ctx = ctx, .id = id};
	int error;

	if (!ctx || id == 0 || timeout_ms < 0)
		return -EINVAL;
	error = ripc__enter(ctx);
	if (error)
		return error;
	if (!(ctx->cfg.flags & RIPC_NO_THREAD))
		error = ripc__thread_start(ctx);
	/* What has come before this call counts, also when what is remembered is enough. */
	ripc__resolver_step(ctx->resolver, ctx->now_us);
	ripc__resolver_claimed(ctx->resolver, id);
	lookup.deadline_us = ripc__deadline(ctx, timeout_ms);
	if (!error)
		error = ripc__wait_or_end(ctx, NULL, looked_up, &lookup, lookup.deadline_us);
	error = error > 0 ? 0 : error < 0 ? error : -ETIMEDOUT;
	ripc__leave(ctx);
	return error ? error : lookup.status;
}

struct listing {
	struct ripc_context *ctx;
	void (*found)(void *arg, const struct ripc_listing *listing);
	void *arg;
	int n;
};

static void listed(void *arg, const struct ripc__answer *answer)
{
	struct listing *listing = arg;
	struct ripc_context *ctx = listing->ctx;
	struct ripc_listing public = {.id = answer->record.id, .local = answer->local,
		.incarnation = answer->record.incarnation, .source = answer->source};
	char text[64] = "";
	struct ripc__addr addr;

	for (uint32_t i = 0; i < answer->record.n_addrs && !text[0]; i++) {
		const struct wire_record_addr *from = &answer->record.addrs[i];

		for (uint32_t d = 0; d < ctx->n_devices && !text[0]; d++) {
			const struct device *device = &ctx->devices[d];

			if (device->ops->id == from->backend &&
					device->ops->addr_choose(device->port, from->blob,
						from->len, answer->host, &addr) == 0)
				device->ops->addr_text(&addr, text);
		}
	}
	public.address = text;
	listing->n++;
	listing->found(listing->arg, &public);
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

int ripc_list(struct ripc_context *ctx, int timeout_ms,
		void (*found)(void *arg, const struct ripc_listing *listing), void *arg)
{
	struct listing listing = {.ctx = ctx, .found = found, .arg = arg};
	int error;

	if (!ctx || !found || timeout_ms < 0)
		return -EINVAL;
	error = ripc__enter(ctx);
	if (error)
		return error;
	if (!(ctx->cfg.flags & RIPC_NO_THREAD))
		error = ripc__thread_start(ctx);
	error = error ? error : ripc__resolver_list(ctx->resolver, ctx->now_us, listed, &listing);
	if (!error) {
		ripc__wait_or_end(ctx, NULL, never, NULL, ripc__deadline(ctx, timeout_ms));
		ripc__resolver_list(ctx->resolver, ctx->now_us, NULL, NULL);
	}
	ripc__leave(ctx);
	return error ? error : listing.n;
}

/* ---- buffers ----------------------------------------------------------------------------- */

static int pool_of(struct ripc_context *ctx, struct ripc__pool **pool)
{
	if (!ctx)
		return -EINVAL;
	if (!*ctx->alive)
		return -EOWNERDEAD;
	*pool = ctx->pool;
	return 0;
}

/* What others held of ours may be free by now. True: some of it is. */
static bool take_home(struct ripc_context *ctx)
{
	uint64_t held;

	if (ripc__enter(ctx))
		return false;
	held = ctx->stats.given_held_bytes;
	if (held)
		ripc__progress(ctx);
	held -= ctx->stats.given_held_bytes;
	ripc__leave(ctx);
	return held > 0;
}

/* Once: who asks until there is some asks often. */
static void say_no_memory(struct ripc_context *ctx, struct ripc__pool *pool, size_t len)
{
	struct ripc__pool_stats stats;

	if (atomic_exchange_explicit(&ctx->said_no_memory, true, memory_order_relaxed))
		return;
	ripc__pool_stats(pool, &stats);
	ripc__log(ctx, RIPC_LOG_WARN, "no memory for a buffer of %zu bytes: the pool may take at "
		"most %llu bytes, has taken %llu, and %llu of these are in use. Where this limit "
		"is too low, free buffers or raise pool_bytes; where the pool is far below it, "
		"the system has given no more: close other programs, or raise \"ulimit -v\"",
		len, (unsigned long long)stats.limit, (unsigned long long)stats.taken,
		(unsigned long long)stats.used);
}

/* Also what is behind the first MiBs has its pages: to write there must not end the program. */
static int alloc_whole(struct ripc__pool *pool, size_t len, void **buf)
{
	void *made;
	int error = ripc__pool_alloc(pool, len, &made);

	if (error)
		return error;
	error = ripc__pool_fault(pool, made, len);
	if (error)
		ripc__pool_free(pool, made);
	else
		*buf = made;
	return error;
}

int ripc_buf_alloc(struct ripc_context *ctx, size_t len, void **buf)
{
	struct ripc__pool *pool;
	int error = buf ? pool_of(ctx, &pool) : -EINVAL;

	if (!error)
		error = alloc_whole(pool, len, buf);
	if (error == -ENOMEM && take_home(ctx))
		error = alloc_whole(pool, len, buf);
	if (error == -ENOMEM)
		say_no_memory(ctx, pool, len);
	return error;
}

int ripc_buf_ref(struct ripc_context *ctx, void *buf)
{
	struct ripc__pool *pool;
	int error = pool_of(ctx, &pool);

	if (error)
		return error;
	atomic_store_explicit(&ctx->has_refs, true, memory_order_relaxed);
	error = ripc__pool_ref(pool, buf);
	if (error != -EINVAL)
		return error;
	error = ripc__enter(ctx);
	if (error)
		return error;
	error = ripc__buffer_ref(ctx, buf);
	ripc__leave(ctx);
	return error;
}

int ripc_buf_refs(struct ripc_context *ctx, const void *buf)
{
	struct ripc__pool *pool;
	int error = pool_of(ctx, &pool);
	uint32_t refs = error ? 0 : ripc__pool_refs(pool, buf);

	if (error)
		return error;
	return refs ? (int)refs : -EINVAL;
}

int ripc_buf_free(struct ripc_context *ctx, void *buf)
{
	struct ripc__pool *pool;
	int error = pool_of(ctx, &pool);

	if (error || !buf || !ripc__pool_free(pool, buf))
		return error;
	error = ripc__enter(ctx);
	if (error)
		return error;
	error = ripc__buffer_free(ctx, buf);
	ripc__leave(ctx);
	return error;
}

int ripc_buf_register(struct ripc_context *ctx, void *buf, size_t len)
{
	struct ripc__pool *pool;
	int error = pool_of(ctx, &pool);

	return error ? error : ripc__pool_register(pool, buf, len);
}

int ripc_buf_unregister(struct ripc_context *ctx, void *buf)
{
	struct ripc__pool *pool;
	int error = pool_of(ctx, &pool);

	return error ? error : ripc__pool_unregister(pool, buf);
}

/* ---- sending ----------------------------------------------------------------------------- */

int ripc_send_short(struct ripc_service *svc, uint64_t to, const struct iovec *items,
		uint32_t n_items)
{
	int error;

	if (!svc || to == 0)
		return -EINVAL;
	error = ripc__enter_hastily(svc->ctx);
	if (error)
		return error;
	error = ripc__short_send_items(svc, to, items, n_items);
	ripc__leave(svc->ctx);
	return error;
}

int ripc_send_long(struct ripc_service *svc, uint64_t to, const struct iovec *items,
		uint32_t n_items, int timeout_ms)
{
	struct ripc_send request = {.size = sizeof(request), .to = to, .items = items,
		.n_items = n_items, .flags = RIPC_SEND_LONG, .timeout_ms = timeout_ms};

	return timeout_ms > 0 ? ripc_sendmsg(svc, &request, NULL) : -EINVAL;
}

static bool outgoing_ended(void *arg)
{
	const struct outgoing *outgoing = arg;

	return outgoing->state == OUT_ENDED;
}

static int outgoing_wait(struct ripc_context *ctx, struct outgoing *outgoing,
		enum ripc_outcome *outcome)
{
	int status;

	/* The deadline is a timer, which ends it: so this wait needs none, but has one tick more
	 * so that a stopped clock of another thread cannot hold it. */
	ripc__wait(ctx, outgoing_ended, outgoing, outgoing->deadline_us + TICK_US);
	if (outgoing->state != OUT_ENDED)
		ripc__outgoing_expire(outgoing);
	status = outgoing->status;
	*outcome = outgoing->outcome;
	outgoing->waiter = false;
	ripc__order_told(outgoing);
	ripc__outgoing_put(outgoing);
	return status;
}

/* Sets the outcome if it has waited for it. */
static int long_send(struct ripc_service *svc, const struct ripc_send *request,
		enum ripc_outcome *outcome)
{
	struct outgoing *outgoing;
	struct list *lent;
	uint64_t lends;
	int error = ripc__lend(svc, request, &lends);

	if (error)
		return error;
	lent = lends ? svc->lent.prev : NULL;
	error = ripc__outgoing_start(svc, request, lends, &outgoing);
	if (error && lent)
		ripc__lent_free(list_entry(lent, struct lent, node));
	if (error)
		return error;
	ripc__opened_sum_follows(outgoing);
	return request->flags & RIPC_NOWAIT ? 0 : outgoing_wait(svc->ctx, outgoing, outcome);
}

/* Fills *request with what can be read of *send, also when it fails. */
static int check_send(struct ripc_service *svc, const struct ripc_send *send,
		struct ripc_send *request)
{
	const uint32_t known = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_GIVE | RIPC_ORDERED;

	memset(request, 0, sizeof(*request));
	if (!send || send->size < offsetof(struct ripc_send, reply_to) || send->size > 4096)
		return -EINVAL;
	memcpy(request, send, send->size < sizeof(*request) ? send->size : sizeof(*request));
	if (!svc || request->to == 0 || request->flags & ~known || request->timeout_ms < 0)
		return -EINVAL;
	if (request->flags & (RIPC_NOWAIT | RIPC_ORDERED) && !(request->flags & RIPC_SEND_LONG))
		return -EINVAL;
	return 0;
}

static int send_checked(struct ripc_service *svc, const struct ripc_send *request,
		enum ripc_outcome *outcome)
{
	struct ripc_context *ctx = svc->ctx;
	int error = ripc__enter(ctx);

	if (error)
		return error;
	error = request->flags & RIPC_SEND_LONG ? long_send(svc, request, outcome) :
		ripc__short_send(svc, request);
	ripc__leave(ctx);
	return error;
}

int ripc_sendmsg(struct ripc_service *svc, const struct ripc_send *send,
		enum ripc_outcome *outcome)
{
	enum ripc_outcome result = RIPC_NOT_DELIVERED;
	struct ripc_send request;
	int error = check_send(svc, send, &request);

	if (!error)
		error = send_checked(svc, &request, &result);
	if (outcome && (request.flags & (RIPC_SEND_LONG | RIPC_NOWAIT)) == RIPC_SEND_LONG)
		*outcome = result;
	return error;
}

static void stop_receiving_into(struct ripc_service *svc, struct lent *lent)
{
	list_for_each(node, &svc->ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		list_for_each_safe(in, &partner->incoming) {
			struct incoming *incoming = list_entry(in, struct incoming, node);

			if (incoming->lent == lent) {
				ripc__incoming_refuse(incoming, -ECANCELED, true);
				return;
			}
		}
	}
}

struct cancelled {
	struct ripc_service *svc;
	uint64_t cookie;
};

static bool was_taken_back(const struct lent *lent, const struct cancelled *of)
{
	return lent->cancelled && lent->cookie == of->cookie;
}

/* Nothing that was taken back is still being written to. */
static bool cancelled_are_idle(void *arg)
{
	const struct cancelled *of = arg;

	list_for_each(node, &of->svc->lent) {
		const struct lent *lent = list_entry(node, struct lent, node);

		if (was_taken_back(lent, of) && (lent->in_use || lent->permit))
			return false;
	}
	return true;
}

static bool cancel_lent(struct ripc_service *svc, uint64_t cookie)
{
	struct cancelled of = {svc, cookie};
	bool any = false;

	list_for_each_safe(node, &svc->lent) {
		struct lent *lent = list_entry(node, struct lent, node);

		if (lent->cookie != cookie)
			continue;
		lent->cancelled = any = true;
		if (lent->in_use)
			stop_receiving_into(svc, lent);
		ripc__returns_withdraw(lent, false);
	}
	if (!any)
		return false;
	ripc__wait(svc->ctx, cancelled_are_idle, &of, UINT64_MAX);
	list_for_each_safe(node, &svc->lent) {
		struct lent *lent = list_entry(node, struct lent, node);

		if (was_taken_back(lent, &of))
			ripc__lent_free(lent);
	}
	return true;
}

static struct outgoing *outgoing_with(struct ripc_service *svc, uint64_t cookie, bool cancelling)
{
	list_for_each(node, &svc->ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (partner->service != svc)
			continue;
		list_for_each(out, &partner->outgoing) {
			struct outgoing *outgoing = list_entry(out, struct outgoing, node);

			if (outgoing->cookie == cookie &&
					(outgoing->state == OUT_CANCELLING) == cancelling)
				return outgoing;
		}
	}
	return NULL;
}

int ripc_cancel(struct ripc_service *svc, uint64_t cookie)
{
	struct ripc_context *ctx = svc ? svc->ctx : NULL;
	struct outgoing *outgoing;
	bool any;
	int error = ctx ? ripc__enter(ctx) : -EINVAL;

	if (error)
		return error;
	ripc__service_get(svc);
	any = cancel_lent(svc, cookie) || outgoing_with(svc, cookie, true);
	/* Cancelling one can end it at once, and so free its partner's others: look anew. */
	while ((outgoing = outgoing_with(svc, cookie, false))) {
		ripc__outgoing_cancel(outgoing, -ECANCELED);
		any = true;
	}
	ripc__service_put(svc);
	ripc__leave(ctx);
	return any ? 0 : -ENOENT;
}

/* ---- receiving --------------------------------------------------------------------------- */

int ripc_receive(struct ripc_service *svc, int timeout_ms, struct ripc_msg **msg)
{
	struct message *message;
	struct ripc_context *ctx;
	int error;

	if (!svc || !msg || timeout_ms < -1)
		return -EINVAL;
	ctx = svc->ctx;
	error = ripc__enter_hastily(ctx);
	if (error)
		return error;
	error = ripc__service_take(svc, timeout_ms, &message);
	if (!error)
		*msg = &message->public;
	ripc__leave(ctx);
	return error;
}

int ripc_poll(struct ripc_context *ctx)
{
	int work;

	if (!ctx)
		return -EINVAL;
	work = ripc__enter(ctx);
	if (work)
		return work;
	work = ripc__poll(ctx);
	ripc__leave(ctx);
	return work;
}

int64_t ripc_poll_timeout(struct ripc_context *ctx)
{
	uint64_t next;
	int64_t left = -1;

	if (!ctx || ripc__enter(ctx))
		return -1;
	next = ripc__next_deadline(ctx);
	if (next != UINT64_MAX)
		left = next > ctx->now_us ? (int64_t)(next - ctx->now_us) : 0;
	ripc__leave(ctx);
	return left;
}

/* ---- asking about things ----------------------------------------------------------------- */

int ripc_path_info(struct ripc_service *svc, uint64_t to, struct ripc_path *path)
{
	struct partner *partner;
	int error;

	if (!svc || to == 0 || !path || path->size < sizeof(path->size) || path->size > 4096)
		return -EINVAL;
	error = ripc__enter(svc->ctx);
	if (error)
		return error;
	error = ripc__partner_for_call(svc, to, &partner);
	if (!error)
		error = ripc__path_fill(partner, path);
	else if (error == -EHOSTUNREACH)
		ripc__path_none(svc->ctx, to, path);
	ripc__leave(svc->ctx);
	return error;
}

static bool pinged(void *arg)
{
	const struct ping *ping = arg;

	return ping->done;
}

static int ping_once(struct ripc_service *svc, uint64_t to, struct ping *ping)
{
	struct ripc_context *ctx = svc->ctx;
	struct wire_packet packet = {.value = ping->nonce};
	struct partner *partner;
	int error = ripc__partner_for_call(svc, to, &partner);

	if (error || !partner->peer || !partner->resolved)
		return error;
	packet.stamp = ctx->env.now_us(ctx->env.arg);
	ripc__partner_header(partner, &packet, WIRE_ECHO);
	ripc__partner_send(partner, &packet);
	return 0;
}

/* Asks every 100 ms, and first every 10 ms, until there is an answer. */
static int ping_loop(struct ripc_service *svc, uint64_t to, uint64_t deadline_us, struct ping *ping)
{
	struct ripc_context *ctx = svc->ctx;
	uint64_t patience_us = TICK_US;
	int error = 0;

	while (!error && !ping->done && ctx->now_us < deadline_us) {
		uint64_t until_us = ctx->now_us + patience_us;

		error = ping_once(svc, to, ping);
		until_us = until_us < deadline_us ? until_us : deadline_us;
		if (!error && ripc__wait_or_end(ctx, svc, pinged, ping, until_us) < 0)
			error = -EINTR;
		patience_us = patience_us < 10 * TICK_US ? 2 * patience_us : patience_us;
	}
	if (!error && !ping->done)
		error = -ETIMEDOUT;
	return error;
}

int ripc_ping(struct ripc_service *svc, uint64_t to, int timeout_ms, uint64_t *rtt_ns)
{
	struct ping ping = {0}, **at;
	struct ripc_context *ctx;
	int error;

	if (!svc || to == 0 || timeout_ms < 0 || !rtt_ns)
		return -EINVAL;
	ctx = svc->ctx;
	error = ripc__enter(ctx);
	if (error)
		return error;
	ping.nonce = ripc__nonce(ctx);
	ping.began_us = ctx->now_us;
	ping.next = ctx->pings;
	ctx->pings = &ping;
	ripc__service_get(svc);
	error = ping_loop(svc, to, ripc__deadline(ctx, timeout_ms), &ping);
	ripc__service_put(svc);
	for (at = &ctx->pings; *at != &ping; at = &(*at)->next)
		;
	*at = ping.next;
	if (!error)
		*rtt_ns = (ping.rtt_us ? ping.rtt_us : 1) * 1000; /* the clock's grain */
	ripc__leave(ctx);
	return error;
}

static void stats_gather(struct ripc_context *ctx, struct ripc_stats *stats)
{
	struct ripc__resolver_stats resolver;
	struct ripc__pool_stats pool;

	for (uint32_t i = 0; i < ctx->n_devices; i++) {
		struct device *device = &ctx->devices[i];

		if (device->ops->overflows)
			ctx->stats.drop_receive_buffer += device->ops->overflows(device->port);
		if (device->ops->fallbacks)
			ctx->stats.offload_fallbacks += device->ops->fallbacks(device->port);
	}
	*stats = ctx->stats;
	ripc__pool_stats(ctx->pool, &pool);
	stats->pool_bytes = pool.taken;
	stats->pool_limit_bytes = pool.limit;
	stats->pool_used_bytes = pool.used -
		((uint64_t)ctx->n_spares + (ctx->freed != NULL)) * SPARE_BYTES;
	stats->partner_bytes = ripc__partners_bytes(ctx);
	stats->granted_bytes = ctx->held[SHARE_CREDIT];
	ripc__resolver_stats(ctx->resolver, &resolver);
	stats->questions_sent = resolver.questions_sent;
	stats->questions_answered = resolver.questions_answered;
	stats->answers_received = resolver.answers_received;
	stats->resolver_dropped = resolver.dropped;
}

int ripc_stats(struct ripc_context *ctx, struct ripc_stats *stats)
{
	struct ripc_stats own;
	size_t size;
	int error;

	if (!ctx || !stats || stats->size < sizeof(stats->size) || stats->size > 4096)
		return -EINVAL;
	error = ripc__enter(ctx);
	if (error)
		return error;
	stats_gather(ctx, &own);
	ripc__leave(ctx);
	size = stats->size;
	own.size = size;
	memcpy(stats, &own, size < sizeof(own) ? size : sizeof(own));
	return 0;
}
