/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: opening, closing, and the detection of a fork. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "config.h"
#include "core/call/spare.h"
#include "core/call/watch.h"
#include "core/base/base.h"
#include "core/base/proof.h"
#include "core/engine/wait.h"
#include "core/group/fanout.h"
#include "core/group/group.h"
#include "core/group/stream.h"
#include "core/keys/sealed.h"
#include "core/memory/memory.h"
#include "core/memory/pool.h"
#include "core/message/mapped.h"
#include "core/message/message.h"
#include "core/message/queue.h"
#include "core/message/returns.h"
#include "core/net/backend.h"
#include "core/net/env.h"
#include "core/objects.h"
#include "core/partner/death.h"
#include "core/partner/find.h"
#include "core/partner/follow.h"
#include "core/partner/hint.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/partner/share.h"
#include "core/partner/token.h"
#include "core/peer/devices.h"
#include "core/peer/share.h"
#include "core/receive/read.h"
#include "core/resolve/resolver.h"
#include "core/resolve/sources.h"
#include "core/send/ended.h"
#include "core/send/opened.h"
#include "core/send/outgoing.h"
#include "core/send/write.h"
#include "core/show/show.h"
#include "core/upcalls.h"
#include "core/wire/record.h"
#include "list.h"
#include "service.h"
#include "util/list.h"
#include "util/map.h"
#include "util/options.h"
#include "util/system/cancel.h"
#include "util/timers.h"

#define STRANGERS_PER_SECOND 5000u /* answers to packets of nobody that we know */
#define STRANGERS_AT_ONCE    1000u
#define WORDS_PER_SECOND     1u
#define WORDS_AT_ONCE        3u
#define RECHECKS_PER_SECOND  5u    /* the resolver is asked again for claims */

/* ---- what backends ask of us ------------------------------------------------------------- */

static void host_log(void *arg, int level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	ripc__log_text(arg, level, format, args);
	va_end(args);
}

static int host_share(void *arg, const void *mem, size_t len, uint64_t reader,
		struct ripc__shared *shared)
{
	return ripc__pool_share(((struct ripc_context *)arg)->pool, mem, len, reader, shared);
}

static int host_fault(void *arg, const void *mem, size_t len)
{
	return ripc__pool_fault(((struct ripc_context *)arg)->pool, mem, len);
}

static bool host_is_shared(void *arg, const struct ripc__shared *shared)
{
	return ripc__pool_is_shared(((struct ripc_context *)arg)->pool, shared);
}

static void host_spread(void *arg, const struct ripc__shared *shared)
{
	ripc__pool_spread(((struct ripc_context *)arg)->pool, shared);
}

/* ---- what the resolver asks of us -------------------------------------------------------- */

static uint64_t owner_random(void *arg)
{
	return ripc__nonce(arg);
}

static uint64_t owner_proof(void *arg, uint64_t asker, const uint8_t host[16])
{
	return ripc__proof(arg, asker, host, 0);
}

/* Devices that have an address now; if none has, the last one's of before. */
static void fill_addresses(struct ripc_context *ctx, struct wire_record *record)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ctx->n_devices; i++) {
		struct device *device = &ctx->devices[i];
		int len = device->ops->net.address(device->port, device->blob);

		if (len > 0)
			device->blob_len = len;
		else if (n > 0 || i + 1 < ctx->n_devices)
			continue;
		record->addrs[n].backend = device->ops->id;
		record->addrs[n].len = (uint8_t)device->blob_len;
		memcpy(record->addrs[n++].blob, device->blob, RIPC_BLOB_MAX);
	}
	record->n_addrs = n;
}

static int owner_record(void *arg, uint64_t id, struct wire_record *record)
{
	struct ripc_context *ctx = arg;
	struct ripc_service *service = ripc__map_get(&ctx->services_by_id, id);

	if (!service || service->draining || service->closing)
		return -ENOENT;
	ripc__point(ctx, "in_resolve");
	*record = (struct wire_record){.id = id, .incarnation = service->incarnation,
		.stamp = service->stamp, .host = ctx->env.host_identity,
		.context = ctx->incarnation};
	fill_addresses(ctx, record);
	return 0;
}

static uint32_t owner_ids(void *arg, uint64_t *ids, uint32_t max)
{
	struct ripc_context *ctx = arg;
	uint32_t n = 0;

	list_for_each(node, &ctx->services) {
		const struct ripc_service *service = list_entry(node, struct ripc_service, node);

		if (service->draining || service->publishing)
			continue;
		if (n < max)
			ids[n] = service->id;
		n++;
	}
	return n;
}

static void owner_resolved(void *arg, uint64_t id, int status, const struct ripc__answer *answer)
{
	ripc__partner_resolved(arg, id, status, answer);
}

static void owner_gathered(void *arg, uint64_t group)
{
	struct ripc_context *ctx = arg;

	ctx->changed = true;
	ripc__group_gathered(ctx, group);
	ripc__fanouts_gathered(ctx, group);
}

static void owner_published(void *arg, uint64_t id, int status)
{
	struct ripc_context *ctx = arg;
	struct ripc_service *service = ripc__map_get(&ctx->services_by_id, id);

	if (!service)
		return;
	service->publishing = false;
	service->publish_status = status;
	ctx->changed = true;
}

static void owner_conflict(void *arg, uint64_t id, uint64_t incarnation)
{
	struct ripc_context *ctx = arg;
	struct ripc_service *service = ripc__map_get(&ctx->services_by_id, id);

	if (!service || service->incarnation == incarnation)
		return;
	ripc__service_yield(service);
}

static bool owner_moved(void *arg, uint64_t id, uint64_t incarnation)
{
	struct ripc_context *ctx = arg;
	bool concerned = ripc__watch_news(ctx, id);

	for (struct ripc_service *service = ripc__partners_of(ctx, id); service;
			service = service->concerned) {
		struct partner *partner = ripc__map_get(&service->partners, id);

		if (!partner || !partner->peer)
			continue;
		/* A notice of the same one comes from another address than is known. */
		if (partner->incarnation == incarnation) {
			concerned |= ripc__follow(partner);
			continue;
		}
		ripc__partner_suspect(partner);
		if (incarnation)
			ripc__hint_replaced(partner);
		concerned = true;
	}
	return concerned;
}

static void owner_rehomed(void *arg)
{
	ripc__follow_own(arg);
}

static void owner_mark(void *arg, uint8_t *bytes, size_t len)
{
	ripc__sealed_mark(((struct ripc_context *)arg)->seal, bytes, len);
}

static bool owner_is_marked(void *arg, const uint8_t *bytes, size_t len)
{
	return ripc__sealed_mark_is_right(((struct ripc_context *)arg)->seal, bytes, len);
}

static void owner_stranger(void *arg, uint64_t id, const uint8_t host[16], bool asks)
{
	ripc__sealed_stranger(arg, id, host, asks);
}

static int resolver_open(struct ripc_context *ctx)
{
	const struct ripc__resolver_owner owner = {
		.arg = ctx,
		.context = ctx->incarnation,
		.random = owner_random,
		.proof = owner_proof,
		.record = owner_record,
		.ids = owner_ids,
		.resolved = owner_resolved,
		.published = owner_published,
		.gathered = owner_gathered,
		.conflict = owner_conflict,
		.moved = owner_moved,
		.rehomed = owner_rehomed,
		.absent = ripc__hint_absent,
		.mark = ctx->seal ? owner_mark : NULL,
		.is_marked = ctx->seal ? owner_is_marked : NULL,
		.stranger = owner_stranger,
	};

	return ripc__resolver_open(&owner, &ctx->host, ctx->env.sources, &ctx->resolver);
}

/* ---- open and close ---------------------------------------------------------------------- */

/*
 * A page that the kernel clears in a forked child, so that the child knows itself. Where the
 * kernel does not, each call asks which process it is in.
 */
static int process_open(struct ripc_context *ctx)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -ENOMEM;
	ctx->process = page;
	if (madvise(page, 4096, MADV_WIPEONFORK) == 0 && ripc__memory_heeds_advice(page))
		*ctx->process = PROCESS_THIS;
	else
		*ctx->process = (uint32_t)getpid();
	return 0;
}

static void lists_init(struct ripc_context *ctx)
{
	uint64_t seed = ripc__nonce(ctx);

	ctx->up = &ripc__upcalls;
	list_init(&ctx->services);
	list_init(&ctx->ended_services);
	list_init(&ctx->partners);
	list_init(&ctx->acks);
	list_init(&ctx->on_trial);
	list_init(&ctx->spares);
	ctx->retry_us = UINT64_MAX;
	list_init(&ctx->granted);
	list_init(&ctx->ungranted);
	list_init(&ctx->ended);
	list_init(&ctx->readings);
	list_init(&ctx->lingering);
	list_init(&ctx->mapped);
	list_init(&ctx->permits);
	list_init(&ctx->offers);
	list_init(&ctx->writings);
	list_init(&ctx->fanouts);
	list_init(&ctx->kept);
	list_init(&ctx->heard);
	ctx->many_least = MANY_LEAST;
	ripc__map_init(&ctx->heard_by_sender, seed);
	list_init(&ctx->waiters);
	list_init(&ctx->listers);
	ripc__map_init(&ctx->services_by_incarnation, seed);
	ripc__map_init(&ctx->services_by_id, seed);
	ripc__map_init(&ctx->partners_by_pair, seed);
	ripc__map_init(&ctx->partners_by_id, seed);
	list_init(&ctx->told_calls);
	list_init(&ctx->spare_calls);
	list_init(&ctx->watching.services);
	list_init(&ctx->watching.left);
	ripc__map_init(&ctx->peers, seed);
	ripc__map_init(&ctx->hosts, seed);
	ripc__timers_init(&ctx->timers);
	ripc__bucket_init(&ctx->strangers, STRANGERS_PER_SECOND, STRANGERS_AT_ONCE);
	ripc__bucket_init(&ctx->words, WORDS_PER_SECOND, WORDS_AT_ONCE);
	ripc__bucket_init(&ctx->rechecks, RECHECKS_PER_SECOND, RECHECKS_PER_SECOND);
	ctx->now_us = ctx->closed_floor_us = ctx->env.now_us(ctx->env.arg);
	ctx->has_ticks = ctx->env.now_us == ripc__real_now_us;
}

/* Frees the memory of a context of which nothing else is left. */
static void context_free(struct ripc_context *ctx)
{
	ripc__permits_free(ctx);
	ripc__writings_free(ctx);
	while (!list_empty(&ctx->ended)) {
		struct list *node = list_pop(&ctx->ended);
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);

		ripc__opened_forget(outgoing);
		free(outgoing);
	}
	ripc__fanouts_free(ctx);
	ripc__services_free(ctx);
	if (ctx->process)
		munmap((void *)ctx->process, 4096);
	ripc__seal_close(ctx);
	ripc__timers_free(&ctx->timers);
	ripc__map_free(&ctx->services_by_incarnation);
	ripc__map_free(&ctx->services_by_id);
	ripc__map_free(&ctx->partners_by_pair);
	ripc__map_free(&ctx->partners_by_id);
	ripc__map_free(&ctx->heard_by_sender);
	ripc__calls_free(ctx);
	ripc__watches_free(ctx);
	ripc__map_free(&ctx->peers);
	ripc__map_free(&ctx->hosts);
	ripc__slots_free(&ctx->slots);
	ripc__slots_free(&ctx->call_slots);
	for (int i = 0; i < 5; i++)
		free(ctx->strings[i]);
	free(ctx->options);
	ripc__log_free(ctx);
	ripc__page_close(ctx);
	free(ctx->block);
}

static int identity_draw(struct ripc_context *ctx)
{
	int error = ctx->env.random(ctx->env.arg, ctx->secret, sizeof(ctx->secret));

	while (!error && ctx->incarnation == 0)
		error = ctx->env.random(ctx->env.arg, &ctx->incarnation, sizeof(ctx->incarnation));
	ctx->incarnation = le64toh(ctx->incarnation);
	return error;
}

static int context_start(struct ripc_context *ctx)
{
	int error;

	ctx->host = (struct ripc__host){.arg = ctx, .log = host_log, .option = ripc__config_option,
		.interfaces = ctx->cfg.interfaces, .peers = ctx->cfg.peers,
		.context = ctx->incarnation, .identity = ctx->env.host_identity,
		.memory = 2 * ripc__memory_half(), .env = ctx->env.arg,
		.share = host_share, .is_shared = host_is_shared, .spread = host_spread,
		.gone = ripc__death_told,
		.fault = host_fault, .page = ripc__page_show};
	error = ripc__death_open(ctx);
	error = error ? error : ripc__hints_open(ctx);
	error = error ? error : ripc__follow_open(ctx);
	error = error ? error : process_open(ctx);
	if (!error && ctx->cfg.keys)
		error = ripc__seal_open(ctx);
	if (error)
		return error;
	error = ripc__pool_open(ctx->cfg.pool_bytes, !(ctx->cfg.flags & RIPC_SINGLE_THREAD),
		&ctx->pool);
	if (error)
		return error;
	error = ripc__devices_open(ctx);
	if (error)
		goto err_close_pool;
	ripc__shares_set(ctx);
	error = ripc__options_read(&ctx->host, ripc__group_options, &ctx->many_least);
	error = error ? error : resolver_open(ctx);
	if (error)
		goto err_close_devices;
	error = ripc__wait_open(ctx);
	if (error)
		goto err_close_resolver;
	return 0;
err_close_resolver:
	ripc__resolver_close(ctx->resolver);
err_close_devices:
	ripc__devices_close(ctx);
err_close_pool:
	ripc__pool_close(ctx->pool);
	return error;
}

int ripc__open_in(const struct ripc_config *cfg, const struct ripc__env *env,
		struct ripc_context **ctx_out)
{
	struct ripc_context *ctx;
	int error;

	if (!ctx_out)
		return -EINVAL;
	ctx = ripc__page_alloc();
	if (!ctx)
		return -ENOMEM;
	ctx->env = *env;
	error = identity_draw(ctx);
	lists_init(ctx);
	error = error ? error : ripc__config_take(ctx, cfg);
	error = error ? error : ripc__config_check(ctx);
	error = error ? error : context_start(ctx);
	if (error) {
		/* The log has more about the other errors: for -ENOENT, which file is missing. */
		if (error != -EINVAL && error != -ENODEV && error != -ENOENT)
			ripc__log(ctx, RIPC_LOG_ERROR, "no context can be opened: %s",
				ripc_strerror(error));
		context_free(ctx);
		return error;
	}
	*ctx_out = ctx;
	return 0;
}

int ripc_open(const struct ripc_config *cfg, struct ripc_context **ctx)
{
	RIPC__HOLD_CANCEL;
	struct ripc__env env;

	ripc__env_init(&env);
	return ripc__open_in(cfg, &env, ctx);
}

static bool nothing_outgoing(void *arg)
{
	struct ripc_context *ctx = arg;

	list_for_each(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (ripc__has_outgoing(partner))
			return false;
	}
	return true;
}

/* Does no other call wait, or work without the lock, in the context? */
static bool is_alone(void *arg)
{
	const struct ripc_context *ctx = arg;

	if (ctx->n_away)
		return false;
	list_for_each(node, &ctx->waiters) {
		if (list_entry(node, struct waiter, node)->ready != is_alone)
			return false;
	}
	return true;
}

static uint32_t list_len(const struct list *head)
{
	uint32_t n = 0;

	list_for_each(node, head)
		n++;
	return n;
}

/* What the application has that is no block of the pool: messages, and memory of partners. */
static uint32_t n_held_beside(const struct ripc_context *ctx)
{
	uint32_t n = ripc__notices_held(ctx) + list_len(&ctx->told_calls) +
		list_len(&ctx->watching.left) + list_len(&ctx->mapped);

	list_for_each(node, &ctx->ended)
		n += list_entry(node, const struct outgoing, node)->reported;
	list_for_each(node, &ctx->fanouts)
		n += list_entry(node, const struct fanout, node)->reported;
	return n;
}

/* From now on all calls fail with -ESHUTDOWN, but for those that free messages and buffers. */
static void shut(struct ripc_context *ctx)
{
	uint32_t before = atomic_load_explicit(ctx->process, memory_order_relaxed);

	ctx->is_shut = true;
	ripc__pool_hold(ctx->pool, n_held_beside(ctx));
	atomic_store_explicit(ctx->process + 1, before, memory_order_relaxed);
	atomic_store_explicit(ctx->process, PROCESS_CLOSED, memory_order_release);
}

static void services_end(struct ripc_context *ctx)
{
	ctx->closing = true;
	while (!list_empty(&ctx->services))
		ripc__service_end(list_entry(ctx->services.next, struct ripc_service, node));
	ripc__wake_ready(ctx);
	ripc__wait(ctx, is_alone, ctx, UINT64_MAX);
}

static void context_ended(void *ctx)
{
	context_free(ctx);
}

/*
 * Ends all that can be seen from outside. The memory of messages and buffers that the application
 * has stays, with what is needed to free it (context_free()): the last one frees that, too. Such a
 * message may be freed by another thread meanwhile: so the lists of messages need the lock.
 */
static void context_end(struct ripc_context *ctx)
{
	ripc__wait_close(ctx);
	ripc__lock(ctx);
	ripc__listers_free(ctx);
	ripc__resolver_close(ctx->resolver);
	ripc__mapped_close(ctx);
	ripc__devices_close(ctx);
	ripc__ended_let_go(ctx);
	ripc__readings_free(ctx);
	ripc__seal_close(ctx);
	ripc__page_close(ctx);
	ripc__unlock(ctx);
	ripc__pool_leave(ctx->pool, context_ended, ctx);
}

int ripc_close(struct ripc_context *ctx, int timeout_ms)
{
	RIPC__HOLD_CANCEL;
	bool ended;
	int error;

	if (!ctx || timeout_ms < 0)
		return -EINVAL;
	error = ripc__enter(ctx);
	if (error)
		return error;
	ended = ripc__wait(ctx, nothing_outgoing, ctx, ripc__deadline(ctx, timeout_ms));
	ripc__point(ctx, "in_close");
	services_end(ctx);
	ripc__acks_flush(ctx);
	ripc__spares_free(ctx);
	shut(ctx);
	ripc__leave(ctx);
	context_end(ctx);
	return ended ? 0 : -ETIMEDOUT;
}

/* ---- probing without a context ----------------------------------------------------------- */

static int probe_one(const struct ripc__host *host, const char *kind, const char *name,
		int (*probe)(const struct ripc__host *, char[256], char[256]),
		struct ripc_finding *finding)
{
	char *why = (char *)finding->detail, *remedy = (char *)finding->remedy;
	int error;

	why[0] = remedy[0] = 0;
	finding->kind = kind;
	finding->name = name;
	error = probe ? probe(host, why, remedy) : -ENODEV;
	finding->usable = error == 0;
	return error;
}

static int probe_backend(struct ripc_context *ctx, const struct ripc__backend *named,
		struct ripc_finding *finding)
{
	char *why = (char *)finding->detail, *remedy = (char *)finding->remedy;
	char missing[256] = "", missing_remedy[256] = "";
	const struct ripc__backend *ops = ripc__backend_get(ctx, named, missing,
		missing_remedy);
	int error = probe_one(&ctx->host, "backend", named->name,
		ops ? ops->net.probe : NULL, finding);

	if (!ops) {
		memcpy(why, missing, sizeof(missing));
		memcpy(remedy, missing_remedy, sizeof(missing_remedy));
	} else if (finding->usable && !ripc__backend_is_wanted(ctx, named->name)) {
		finding->usable = 0;
		snprintf(why, 256, "left out by configuration: \"%s\"", ctx->cfg.backends);
		snprintf(remedy, 256, "add it to RIPC_BACKENDS, or unset RIPC_BACKENDS");
	} else if (finding->usable && ctx->cfg.keys && !ops->is_sealable) {
		finding->usable = 0;
		snprintf(why, 256, "left out: this backend does not encrypt, and this context has "
			"keys: %.160s", ctx->cfg.keys);
		snprintf(remedy, 256, "unset RIPC_KEYS if all users of the network are trusted");
	} else if (finding->usable && ctx->cfg.keys && ops->mem.open &&
			!ripc__sealed_trusts(&ctx->host, ops)) {
		snprintf(remedy, 256, "all messages travel in encrypted datagrams; if only trusted "
			"hosts reach this network, %.15s.trusted=yes permits RDMA reads and "
			"writes, unencrypted",
			ops->name);
	}
	return error;
}

static int probe_source(struct ripc_context *ctx, const struct ripc__source *named,
		struct ripc_finding *finding)
{
	char *why = (char *)finding->detail, *remedy = (char *)finding->remedy;
	bool is_wanted = ripc__source_is_wanted(&ctx->host, named);
	char missing[256] = "", missing_remedy[256] = "";
	const struct ripc__source *ops = named;
	int error;

	if (named->load)
		ops = named->load(&ctx->host, missing, missing_remedy);
	error = probe_one(&ctx->host, "resolver", named->name,
		ops && (is_wanted || !named->exact) ? ops->probe : NULL, finding);
	if (!ops) {
		memcpy(why, missing, sizeof(missing));
		memcpy(remedy, missing_remedy, sizeof(missing_remedy));
	} else if (!is_wanted) {
		finding->usable = 0;
		snprintf(why, 256, named->exact ? "no servers are configured" :
			"left out by configuration (resolver.sources, store.servers)");
		snprintf(remedy, 256, named->exact ? "if the hosts share a ZooKeeper, set "
			"RIPC_OPTIONS=store.servers=HOST:PORT;..." :
			"add it to RIPC_OPTIONS=resolver.sources=NAME;...");
	}
	return error;
}

/* The finding about one backend or resolver source. */
struct probed {
	struct ripc_finding finding;
	char why[256], remedy[256];
};

static struct ripc_finding *probed_begin(struct probed *probed)
{
	probed->finding = (struct ripc_finding){.detail = probed->why, .remedy = probed->remedy};
	return &probed->finding;
}

/* -EINVAL: one of those that ripc_open() would open does not understand its configuration. */
static int probe_all(struct ripc_context *ctx, struct probed *probed, size_t *n)
{
	int error = 0;

	for (uint32_t i = 0; ctx->env.backends[i]; i++) {
		const struct ripc__backend *ops = ctx->env.backends[i];

		if (probe_backend(ctx, ops, probed_begin(&probed[(*n)++])) == -EINVAL &&
				ripc__backend_is_wanted(ctx, ops->name))
			error = -EINVAL;
	}
	for (uint32_t i = 0; ctx->env.sources[i]; i++) {
		const struct ripc__source *ops = ctx->env.sources[i];

		if (probe_source(ctx, ops, probed_begin(&probed[(*n)++])) == -EINVAL &&
				ripc__source_is_wanted(&ctx->host, ops))
			error = -EINVAL;
	}
	return error;
}

static struct probed *probed_alloc(const struct ripc_context *ctx)
{
	size_t n = 0;

	for (uint32_t i = 0; ctx->env.backends[i]; i++)
		n++;
	for (uint32_t i = 0; ctx->env.sources[i]; i++)
		n++;
	return calloc(n, sizeof(struct probed));
}

/* Reports once nothing but memory is left of the probing. */
int ripc_probe(const struct ripc_config *cfg,
		int (*report)(void *arg, const struct ripc_finding *finding), void *arg)
{
	RIPC__HOLD_CANCEL;
	struct ripc_context *ctx = report ? ripc__page_alloc() : NULL;
	struct probed *probed;
	int error, ended = 0;
	size_t n = 0;

	if (!ctx)
		return report ? -ENOMEM : -EINVAL;
	ripc__env_init(&ctx->env);
	lists_init(ctx);
	probed = probed_alloc(ctx);
	error = ripc__config_take(ctx, cfg);
	error = error ? error : ripc__config_check(ctx);
	ctx->host = (struct ripc__host){.arg = ctx, .log = host_log, .option = ripc__config_option,
		.interfaces = ctx->cfg.interfaces, .peers = ctx->cfg.peers,
		.identity = ctx->env.host_identity};
	if (!error && ctx->cfg.keys && ripc__seal_open(ctx))
		error = -EINVAL; /* the log says what is wrong with the keys */
	error = error ? error : probed ? probe_all(ctx, probed, &n) : -ENOMEM;
	context_free(ctx);
	for (size_t i = 0; i < n && !ended; i++)
		ended = report(arg, &probed[i].finding);
	free(probed);
	return error;
}
