/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: opening, closing, and the detection of a fork. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/call/call.h"
#include "core/call/watch.h"
#include "core/engine/wait.h"
#include "core/group/fanout.h"
#include "core/group/group.h"
#include "core/group/mcast_out.h"
#include "core/keys/sealed.h"
#include "core/memory/memory.h"
#include "core/memory/pool.h"
#include "core/message/message.h"
#include "core/message/queue.h"
#include "core/message/returns.h"
#include "core/net/backend.h"
#include "core/net/env.h"
#include "core/objects.h"
#include "core/partner/death.h"
#include "core/partner/find.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/partner/roam.h"
#include "core/peer/devices.h"
#include "core/receive/incoming.h"
#include "core/resolve/resolver.h"
#include "core/send/exposed.h"
#include "core/send/outgoing.h"
#include "core/show/show.h"
#include "core/wire/record.h"
#include "internal.h"
#include "ripc/group.h"
#include "util/hash/siphash.h"
#include "util/list.h"
#include "util/map.h"
#include "util/options.h"
#include "util/system/cancel.h"
#include "util/timers.h"

/* ---- config ------------------------------------------------------------------------------ */

/*
 * A context's configuration: the caller's struct, and the variables of the environment that
 * override it (RIPC_BACKENDS and so on, RIPC_LOG). Unknown words are refused, because a setting
 * must not be ignored silently.
 */

/* The log callback for RIPC_LOG=LEVEL when the application has none. */
static void log_to_stderr(void *arg, int level, const char *text)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};
	intptr_t most = (intptr_t)arg;

	if (level <= most)
		dprintf(STDERR_FILENO, "ripc: %s: %s\n", names[level & 3], text);
}

/* The level that RIPC_LOG names. -1: RIPC_LOG is not set; -EINVAL: no such level. */
static int level_wanted(void)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};
	const char *wanted = secure_getenv("RIPC_LOG");

	if (!wanted || !*wanted)
		return -1;
	for (int level = 0; level < 4; level++) {
		if (strcmp(wanted, names[level]) == 0)
			return level;
	}
	return -EINVAL;
}

/*
 * Sends the log to stderr as RIPC_LOG demands. If RIPC_LOG names no level, errors are logged: one
 * of them reports the wrong name.
 */
static void log_from_environment(struct ripc_config *cfg)
{
	int level = level_wanted();

	if (cfg->log || level == -1)
		return;
	cfg->log = log_to_stderr;
	cfg->log_arg = (void *)(intptr_t)(level < 0 ? RIPC_LOG_ERROR : level);
}

static int string_take(struct ripc_context *ctx, int at, const char **field, const char *variable)
{
	const char *environment = secure_getenv(variable);
	const char *value = environment ? environment : *field;

	*field = NULL;
	if (!value || !*value)
		return 0;
	ctx->self.strings[at] = strdup(value);
	if (!ctx->self.strings[at])
		return -ENOMEM;
	*field = ctx->self.strings[at];
	return 0;
}

/* A variable that has lost its value must not open a context without keys. */
static int keys_check(struct ripc_context *ctx)
{
	const char *environment = secure_getenv("RIPC_KEYS");
	const char *value = environment ? environment : ctx->cfg.keys;

	if (!value || *value)
		return 0;
	ripc__log(ctx, RIPC_LOG_ERROR, "%s is empty: unset the variable, or name a directory of "
		"keys",
		environment ? "RIPC_KEYS" : "ripc_config.keys");
	return -EINVAL;
}

/* The directory of keys is read again later, when the program may be in another directory. */
static int keys_fix(struct ripc_context *ctx)
{
	char *here, *path;
	int len;

	if (!ctx->cfg.keys || ctx->cfg.keys[0] == '/')
		return 0;
	here = getcwd(NULL, 0);
	if (!here)
		return -errno;
	len = asprintf(&path, "%s/%s", here, ctx->cfg.keys);
	free(here);
	if (len < 0)
		return -ENOMEM;
	free(ctx->self.strings[4]);
	ctx->cfg.keys = ctx->self.strings[4] = path;
	return 0;
}

/* "a=b,c=d" becomes "a\0b\0c\0d\0\0" in ctx->self.options. */
static int options_split(struct ripc_context *ctx)
{
	const char *text = ctx->cfg.options ? ctx->cfg.options : "";
	size_t len = strlen(text);
	char *copy = calloc(1, len + 2);
	bool has_value = false;

	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++) {
		bool splits = text[i] == ',' || (text[i] == '=' && !has_value);

		if (text[i] == ',' && !has_value)
			goto err_free_copy;
		has_value = text[i] == ',' ? false : has_value || text[i] == '=';
		copy[i] = splits ? 0 : text[i];
	}
	if (len > 0 && !has_value)
		goto err_free_copy;
	ctx->self.options = copy;
	return 0;
err_free_copy:
	free(copy);
	ripc__log(ctx, RIPC_LOG_ERROR, "options \"%s\": write them as name=value,name=value", text);
	return -EINVAL;
}

/* For struct ripc__host.option. arg: the context. */
static const char *config_option(void *arg, const char *name)
{
	struct ripc_context *ctx = arg;
	const char *at = ctx->self.options;

	while (at && *at) {
		const char *value = at + strlen(at) + 1;

		if (strcmp(at, name) == 0)
			return value;
		at = value + strlen(value) + 1;
	}
	return NULL;
}

/*
 * Copies cfg (NULL: defaults) into ctx->cfg, with values of the environment in its place. -EINVAL:
 * cfg is no configuration (logged, unless its size is wrong); -E2BIG: cfg has more than the library
 * knows; -ENOMEM. Values that were taken before a failure belong to the context all the same.
 */
static int config_take(struct ripc_context *ctx, const struct ripc_config *cfg)
{
	struct ripc_config *own = &ctx->cfg;
	int error = cfg ? ripc__struct_take(own, sizeof(*own), cfg,
		offsetof(struct ripc_config, flags) + sizeof(cfg->flags)) : 0;

	if (error)
		return error;
	log_from_environment(own);
	if (own->flags & ~(RIPC_NO_THREAD | RIPC_SINGLE_THREAD | RIPC_INTERRUPTIBLE |
			RIPC_COPY_GIVEN)) {
		ripc__log(ctx, RIPC_LOG_ERROR, "config: unknown flags %#x", own->flags);
		return -EINVAL;
	}
	if (own->flags & RIPC_SINGLE_THREAD)
		own->flags |= RIPC_NO_THREAD;
	if (!own->timeout_ms)
		own->timeout_ms = 5000;
	if (!own->peer_timeout_ms)
		own->peer_timeout_ms = 10000;
	error = error ? error : string_take(ctx, 0, &own->backends, "RIPC_BACKENDS");
	error = error ? error : string_take(ctx, 1, &own->peers, "RIPC_PEERS");
	error = error ? error : string_take(ctx, 2, &own->interfaces, "RIPC_INTERFACES");
	error = error ? error : string_take(ctx, 3, &own->options, "RIPC_OPTIONS");
	error = error ? error : keys_check(ctx);
	error = error ? error : string_take(ctx, 4, &own->keys, "RIPC_KEYS");
	error = error ? error : keys_fix(ctx);
	return error ? error : options_split(ctx);
}

/* ---- checking ---------------------------------------------------------------------------- */

static int options_check(struct ripc_context *ctx)
{
	char why[OPTION_WHY];
	int error = 0;

	for (const char *at = ctx->self.options; at && *at;) {
		const char *value = at + strlen(at) + 1;

		if (ripc__option_check(ripc__options, at, value, why)) {
			ripc__log(ctx, RIPC_LOG_ERROR, "%s", why);
			error = -EINVAL;
		}
		at = value + strlen(value) + 1;
	}
	return error;
}

static bool backend_exists(const struct ripc_context *ctx, const char *name, size_t len)
{
	for (uint32_t i = 0; ctx->env.backends[i]; i++) {
		const char *known = ctx->env.backends[i]->name;

		if (strlen(known) == len && memcmp(known, name, len) == 0)
			return true;
	}
	return false;
}

static void say_no_backend(struct ripc_context *ctx, const char *name, size_t len)
{
	char known[128] = "";
	size_t known_len = 0;

	for (uint32_t i = 0; ctx->env.backends[i] && known_len < sizeof(known); i++)
		known_len += (size_t)snprintf(known + known_len, sizeof(known) - known_len, "%s%s",
			i ? ", " : "", ctx->env.backends[i]->name);
	ripc__log(ctx, RIPC_LOG_ERROR, "backends: unknown \"%.*s\" in \"%.80s\"; known backends: "
		"%s",
		(int)(len < 40 ? len : 40), name, ctx->cfg.backends, known);
}

static int backends_check(struct ripc_context *ctx)
{
	const char *at = ctx->cfg.backends;
	int error = 0;

	while (at && *at) {
		size_t len = strcspn(at, ",");

		if (!backend_exists(ctx, at, len)) {
			say_no_backend(ctx, at, len);
			error = -EINVAL;
		}
		at += len + (at[len] == ',');
	}
	return error;
}

/* The environment of a setuid program comes from its caller, who has fewer rights. */
static void say_ignored(struct ripc_context *ctx)
{
	static const char *const variables[] = {"RIPC_BACKENDS", "RIPC_PEERS", "RIPC_INTERFACES",
		"RIPC_OPTIONS", "RIPC_KEYS", "RIPC_LOG"};

	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
		if (getenv(variables[i]) && !secure_getenv(variables[i]))
			ripc__log(ctx, RIPC_LOG_WARN, "%s is ignored: this program runs with "
				"raised rights (setuid, setgid or capabilities). Set the field of "
				"ripc_config in the program", variables[i]);
	}
}

/* Checks each word of the configuration. -EINVAL: some are unknown; each of them was logged. */
static int config_check(struct ripc_context *ctx)
{
	int error = 0;

	say_ignored(ctx);
	if (level_wanted() == -EINVAL) {
		ripc__log(ctx, RIPC_LOG_ERROR,
			"RIPC_LOG: \"%.40s\" is not error, warn, info or debug",
			secure_getenv("RIPC_LOG"));
		error = -EINVAL;
	}
	if (options_check(ctx))
		error = -EINVAL;
	if (backends_check(ctx))
		error = -EINVAL;
	return error;
}

/* ---- context ----------------------------------------------------------------------------- */

#define STRANGERS_PER_SECOND 5000u /* answers to packets of unknown senders */
#define STRANGERS_AT_ONCE    1000u
#define WORDS_PER_SECOND     1u
#define WORDS_AT_ONCE        3u
#define RECHECKS_PER_SECOND  5u    /* further queries of the resolver about identity claims */

/* ---- services for backends --------------------------------------------------------------- */

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

/* ---- services for the resolver ----------------------------------------------------------- */

static uint64_t owner_random(void *arg)
{
	return ripc__nonce(arg);
}

static uint64_t owner_proof(void *arg, uint64_t asker, const uint8_t host[16])
{
	return ripc__proof(arg, asker, host, 0);
}

/* Fills in the devices with an address. If none has one, the last device gets its former one. */
static void fill_addresses(struct ripc_context *ctx, struct wire_record *record)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ctx->peers.n_devices; i++) {
		struct device *device = &ctx->peers.devices[i];
		int len = device->ops->net.address(device->port, device->blob);

		if (len > 0)
			device->blob_len = len;
		else if (n > 0 || i + 1 < ctx->peers.n_devices)
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
	struct ripc_service *service = ripc__map_get(&ctx->services.by_id, id);

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

	list_for_each_entry(service, &ctx->services.all, const struct ripc_service, node) {
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

	ctx->loop.changed = true;
	ripc__group_gathered(ctx, group);
	ripc__fanouts_gathered(ctx, group);
}

static void owner_published(void *arg, uint64_t id, int status)
{
	struct ripc_context *ctx = arg;
	struct ripc_service *service = ripc__map_get(&ctx->services.by_id, id);

	if (!service)
		return;
	service->publishing = false;
	service->publish_status = status;
	ctx->loop.changed = true;
}

static void owner_conflict(void *arg, uint64_t id, uint64_t incarnation)
{
	struct ripc_context *ctx = arg;
	struct ripc_service *service = ripc__map_get(&ctx->services.by_id, id);

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
		/* A notice of the same incarnation came from an address that is not known yet. */
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

	return ripc__resolver_open(&owner, &ctx->peers.host, ctx->env.sources, &ctx->resolver);
}

/* ---- open and close ---------------------------------------------------------------------- */

/*
 * Maps a page that the kernel clears in a forked child: this shows the child that it is one. On
 * kernels that cannot do this, each call compares process IDs.
 */
static int process_open(struct ripc_context *ctx)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -ENOMEM;
	ctx->self.process = page;
	if (madvise(page, 4096, MADV_WIPEONFORK) == 0 && ripc__memory_heeds_advice(page))
		*ctx->self.process = PROCESS_THIS;
	else
		*ctx->self.process = (uint32_t)getpid();
	return 0;
}

static void lists_init(struct ripc_context *ctx)
{
	uint64_t seed = ripc__nonce(ctx);

	list_init(&ctx->services.all);
	list_init(&ctx->services.ended);
	list_init(&ctx->partners.all);
	list_init(&ctx->receives.acks);
	list_init(&ctx->partners.on_trial);
	list_init(&ctx->messages.spares);
	ctx->peers.retry_us = UINT64_MAX;
	list_init(&ctx->receives.granted);
	list_init(&ctx->receives.ungranted);
	list_init(&ctx->sends.ended);
	list_init(&ctx->receives.reads.movers);
	list_init(&ctx->receives.lingering);
	list_init(&ctx->messages.mapped);
	list_init(&ctx->messages.permits);
	list_init(&ctx->messages.offers);
	list_init(&ctx->sends.writes.movers);
	list_init(&ctx->groups.fanouts);
	list_init(&ctx->groups.kept);
	list_init(&ctx->groups.mcast_in);
	ctx->groups.multicast_least = MULTICAST_LEAST;
	ripc__map_init(&ctx->groups.mcast_in_by_sender, seed);
	list_init(&ctx->loop.waiters);
	list_init(&ctx->services.listers);
	ripc__map_init(&ctx->services.by_incarnation, seed);
	ripc__map_init(&ctx->services.by_id, seed);
	ripc__map_init(&ctx->partners.by_pair, seed);
	ripc__map_init(&ctx->partners.by_id, seed);
	list_init(&ctx->calls.told);
	list_init(&ctx->calls.spare);
	list_init(&ctx->calls.watching.services);
	list_init(&ctx->calls.watching.left);
	ripc__map_init(&ctx->peers.all, seed);
	ripc__map_init(&ctx->peers.hosts, seed);
	ripc__timers_init(&ctx->loop.timers);
	ripc__bucket_init(&ctx->partners.strangers, STRANGERS_PER_SECOND, STRANGERS_AT_ONCE);
	ripc__bucket_init(&ctx->partners.words, WORDS_PER_SECOND, WORDS_AT_ONCE);
	ripc__bucket_init(&ctx->partners.rechecks, RECHECKS_PER_SECOND, RECHECKS_PER_SECOND);
	ctx->now_us = ctx->services.closed_floor_us = ctx->env.now_us(ctx->env.arg);
	ctx->loop.has_ticks = ctx->env.now_us == ripc__real_now_us;
}

/* Frees the memory of a context of which nothing else is left. */
static void context_free(void *arg)
{
	struct ripc_context *ctx = arg;

	ripc__permits_free(ctx);
	while (!list_empty(&ctx->sends.ended)) {
		struct list *node = list_pop(&ctx->sends.ended);
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);

		ripc__exposed_forget(outgoing);
		free(outgoing);
	}
	ripc__fanouts_free(ctx);
	ripc__services_free(ctx);
	if (ctx->self.process)
		munmap((void *)ctx->self.process, 4096);
	ripc__seal_close(ctx);
	ripc__timers_free(&ctx->loop.timers);
	ripc__map_free(&ctx->services.by_incarnation);
	ripc__map_free(&ctx->services.by_id);
	ripc__map_free(&ctx->partners.by_pair);
	ripc__map_free(&ctx->partners.by_id);
	ripc__map_free(&ctx->groups.mcast_in_by_sender);
	ripc__calls_free(ctx);
	ripc__watches_free(ctx);
	ripc__map_free(&ctx->peers.all);
	ripc__map_free(&ctx->peers.hosts);
	ripc__slots_free(&ctx->partners.slots);
	ripc__slots_free(&ctx->calls.slots);
	for (int i = 0; i < 5; i++)
		free(ctx->self.strings[i]);
	free(ctx->self.options);
	ripc__log_free(ctx);
	ripc__page_close(ctx);
	free(ctx->self.block);
}

static int identity_draw(struct ripc_context *ctx)
{
	int error = ctx->env.random(ctx->env.arg, ctx->self.secret, sizeof(ctx->self.secret));

	while (!error && ctx->incarnation == 0)
		error = ctx->env.random(ctx->env.arg, &ctx->incarnation, sizeof(ctx->incarnation));
	ctx->incarnation = le64toh(ctx->incarnation);
	return error;
}

static int context_start(struct ripc_context *ctx)
{
	int error;

	ctx->peers.host = (struct ripc__host){.arg = ctx, .log = host_log, .option = config_option,
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
	error = ripc__options_read(&ctx->peers.host, ripc__group_options,
			&ctx->groups.multicast_least);
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
	error = error ? error : config_take(ctx, cfg);
	error = error ? error : config_check(ctx);
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

	for_each_partner(partner, ctx) {
		if (ripc__has_outgoing(partner))
			return false;
	}
	return true;
}

/* Is this the only call that waits, or works without the lock, in the context? */
static bool is_alone(void *arg)
{
	const struct ripc_context *ctx = arg;

	if (ctx->loop.n_away)
		return false;
	list_for_each(node, &ctx->loop.waiters) {
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

/* Objects of the application that are no blocks of the pool: messages, and memory of partners. */
static uint32_t n_held_beside(const struct ripc_context *ctx)
{
	uint32_t n = ripc__notices_held(ctx) + list_len(&ctx->calls.told) +
		list_len(&ctx->calls.watching.left) + list_len(&ctx->messages.mapped);

	list_for_each(node, &ctx->sends.ended)
		n += list_entry(node, const struct outgoing, node)->reported;
	list_for_each(node, &ctx->groups.fanouts)
		n += list_entry(node, const struct fanout, node)->reported;
	return n;
}

/* From now on all calls fail with -ESHUTDOWN, except those that free messages and buffers. */
static void shut(struct ripc_context *ctx)
{
	uint32_t before = atomic_load_explicit(ctx->self.process, memory_order_relaxed);

	ctx->loop.is_shut = true;
	ripc__pool_hold(ctx->pool, n_held_beside(ctx));
	atomic_store_explicit(ctx->self.process + 1, before, memory_order_relaxed);
	atomic_store_explicit(ctx->self.process, PROCESS_CLOSED, memory_order_release);
}

static void services_end(struct ripc_context *ctx)
{
	ctx->loop.closing = true;
	while (!list_empty(&ctx->services.all))
		ripc__service_end(list_entry(ctx->services.all.next, struct ripc_service, node));
	ripc__wake_ready(ctx);
	ripc__wait(ctx, is_alone, ctx, UINT64_MAX);
}

/*
 * Ends everything that can be seen from outside. Messages and buffers that the application still
 * has stay valid, and so do the parts of the context that are needed to free them. The last one
 * frees these parts, too (context_free()). Another thread may free such a message meanwhile:
 * therefore the lists of messages need the lock.
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
	ripc__pool_leave(ctx->pool, context_free, ctx);
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
	int error;

	finding->kind = kind;
	finding->name = name;
	error = probe ? probe(host, (char *)finding->detail, (char *)finding->remedy) : -ENODEV;
	finding->usable = error == 0;
	return error;
}

static int probe_backend(struct ripc_context *ctx, const struct ripc__backend *named,
		struct ripc_finding *finding)
{
	char *why = (char *)finding->detail, *remedy = (char *)finding->remedy;
	const struct ripc__backend *ops = ripc__backend_get(ctx, named, why, remedy);
	int error = probe_one(&ctx->peers.host, "backend", named->name,
		ops ? ops->net.probe : NULL, finding);

	if (!ops)
		return error;
	if (finding->usable && !ripc__backend_is_wanted(ctx, named->name)) {
		finding->usable = 0;
		snprintf(why, 256, "left out by configuration: \"%s\"", ctx->cfg.backends);
		snprintf(remedy, 256, "add it to RIPC_BACKENDS, or unset RIPC_BACKENDS");
	} else if (finding->usable && ctx->cfg.keys && !ops->is_sealable) {
		finding->usable = 0;
		snprintf(why, 256, "left out: this backend does not encrypt, and this context has "
			"keys: %.160s", ctx->cfg.keys);
		snprintf(remedy, 256, "unset RIPC_KEYS if all users of the network are trusted");
	} else if (finding->usable && ctx->cfg.keys && ops->mem.open &&
			!ripc__sealed_trusts(&ctx->peers.host, ops)) {
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
	bool is_wanted = ripc__source_is_wanted(&ctx->peers.host, named);
	const struct ripc__source *ops = named;
	int error;

	if (named->load)
		ops = named->load(&ctx->peers.host, why, remedy);
	error = probe_one(&ctx->peers.host, "resolver", named->name,
		ops && (is_wanted || !named->exact) ? ops->probe : NULL, finding);
	if (ops && !is_wanted) {
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

/* -EINVAL: a part that ripc_open() would open does not understand its configuration. */
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
				ripc__source_is_wanted(&ctx->peers.host, ops))
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

/* Calls report after the probing has closed everything: only memory remains to be freed. */
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
	error = config_take(ctx, cfg);
	error = error ? error : config_check(ctx);
	ctx->peers.host = (struct ripc__host){.arg = ctx, .log = host_log, .option = config_option,
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

/* ---- api --------------------------------------------------------------------------------- */

/*
 * Public calls: groups, draining and closing a service, polling, descriptors for event loops. Each
 * checks its arguments, takes the lock and delegates; the contracts are in ripc.h and group.h.
 *
 * Design notes. A service's descriptor is an eventfd, and nothing else: any number of them fits
 * into one epoll, and none becomes readable for another's messages. The thread that queues the
 * first message writes to the eventfd, which is readable until the last message is taken. A call
 * that waits for the message itself, or finds it by polling, costs no write.
 */

uint64_t ripc_id_from_name(const char *name)
{
	static const uint8_t key[16];
	uint64_t id = name ? ripc__siphash(key, name, strlen(name)) : 0;

	if (wire_is_group(id))
		id &= INT64_MAX;
	return id ? id : 1;
}

uint64_t ripc_group_from_name(const char *name)
{
	static const uint8_t key[16];
	uint64_t id = name ? ripc__siphash(key, name, strlen(name)) : 0;

	return id | 0xffull << 56;
}

/* ---- groups ------------------------------------------------------------------------------ */

int ripc_join(struct ripc_service *svc, uint64_t group)
{
	RIPC__HOLD_CANCEL;
	int error = svc && wire_is_group(group) ? ripc__enter_in(svc) : -EINVAL;

	return error ? error : ripc__leave_with(svc->ctx, ripc__group_join(svc, group));
}

int ripc_leave(struct ripc_service *svc, uint64_t group)
{
	RIPC__HOLD_CANCEL;
	int error = svc && wire_is_group(group) ? ripc__enter_in(svc) : -EINVAL;

	return error ? error : ripc__leave_with(svc->ctx, ripc__group_leave(svc, group));
}

int ripc_deliveries(const struct ripc_msg *completion, struct ripc_delivery *list, uint32_t max,
		size_t entry_size)
{
	const struct fanout *fanout = completion ? ripc__fanout_of(completion) : NULL;
	int error = ripc__struct_check(entry_size);

	if (!fanout || (max && !list) ||
			entry_size < offsetof(struct ripc_delivery, status) + sizeof(list->status))
		return -EINVAL;
	if (error)
		return error;
	for (uint32_t i = 0; i < fanout->n && i < max; i++)
		ripc__struct_fill((uint8_t *)list + i * entry_size, entry_size,
			&fanout->deliveries[i].public, sizeof(*list));
	return (int)fanout->n;
}

/* ---- services ---------------------------------------------------------------------------- */

int ripc_service_drain(struct ripc_service *svc, int timeout_ms)
{
	RIPC__HOLD_CANCEL;
	struct ripc_context *ctx = svc ? svc->ctx : NULL;
	int error = ctx && timeout_ms >= 0 ? ripc__enter_in(svc) : -EINVAL;

	return error ? error : ripc__leave_with(ctx, ripc__service_drain(svc, timeout_ms));
}

int ripc_service_close(struct ripc_service *svc)
{
	RIPC__HOLD_CANCEL;
	struct ripc_context *ctx = svc ? svc->ctx : NULL;
	int error = ctx ? ripc__enter_in(svc) : -EINVAL;

	if (error)
		return error;
	ripc__point(ctx, "in_close");
	ripc__service_end(svc);
	ripc__orphans_wait(ctx);
	return ripc__leave_with(ctx, 0);
}

uint64_t ripc_service_id(const struct ripc_service *svc)
{
	return svc ? svc->id : 0;
}

uint64_t ripc_service_incarnation(const struct ripc_service *svc)
{
	return svc ? svc->incarnation : 0;
}

/* ---- polling ----------------------------------------------------------------------------- */

int ripc_poll(struct ripc_context *ctx)
{
	int work = ctx ? ripc__enter(ctx) : -EINVAL;

	return work ? work : ripc__leave_with(ctx, ripc__poll(ctx));
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

/* ---- descriptors ------------------------------------------------------------------------- */

static int service_fd(struct ripc_service *service)
{
	int error;

	if (service->event_fd >= 0)
		return service->event_fd;
	error = ripc__service_fd_open(service);
	if (error)
		return error;
	ripc__ports_leave(service->ctx);
	return service->event_fd;
}

int ripc_service_fd(struct ripc_service *svc)
{
	RIPC__HOLD_CANCEL;
	int fd = svc ? ripc__enter_in(svc) : -EINVAL;

	return fd ? fd : ripc__leave_with(svc->ctx, service_fd(svc));
}

int ripc_context_fd(struct ripc_context *ctx)
{
	RIPC__HOLD_CANCEL;
	int fd = ctx ? ripc__enter(ctx) : -EINVAL;

	return fd ? fd : ripc__leave_with(ctx, ripc__context_fd(ctx));
}
