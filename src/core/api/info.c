/* SPDX-License-Identifier: BSD-3-Clause */
/* Public calls: information about services, paths and statistics. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"
#include "core/engine/loop.h"
#include "core/engine/wait.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/partner/find.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/partner/rights.h"
#include "core/partner/roam.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "core/send/short.h"
#include "core/show/show.h"
#include "core/wire/record.h"
#include "core/wire/wire.h"
#include "internal.h"
#include "ripc/keys.h"
#include "util/system/cancel.h"

/* ---- others ------------------------------------------------------------------------------ */

/*
 * Explains in words why a partner is reached by its network: what is wrong with each other network
 * that at least one of the two ends has. If no network works for both ends, the text is about all
 * of them. The functions only read state, and send nothing.
 */

/* A text that grows until it is full. */
struct text {
	char *bytes;
	size_t size, len;
};

static void add(struct text *text, const char *name, const char *why)
{
	int len = snprintf(text->bytes + text->len, text->size - text->len, "%s%s: %s",
		text->len ? "; " : "", name, why);

	text->len += (size_t)len;
	if (text->len >= text->size)
		text->len = text->size - 1;
}

/* The address that the partner has for a backend, or NULL. */
static const struct wire_record_addr *address_of(const struct ripc__answer *answer, uint8_t backend)
{
	for (uint32_t i = 0; answer && i < answer->record.n_addrs; i++) {
		if (answer->record.addrs[i].backend == backend)
			return &answer->record.addrs[i];
	}
	return NULL;
}

static const char *unreachable(int error)
{
	switch (error) {
	case -EHOSTUNREACH:
		return "another host, or another network namespace";
	case -EAFNOSUPPORT:
		return "no address family in common";
	case -EBADMSG:
		return "its address cannot be parsed; the partner may run another version of "
			"libripc";
	default:
		return ripc_strerror(error);
	}
}

/* Why an open way has failed. For a message the same code may mean more. */
static const char *broken(int error)
{
	switch (error) {
	case -EACCES:
		return "another user's process (as of ripc_open()): set shm.uids or shm.gids on "
			"both sides";
	case -ECONNRESET:
		return "the partner or the network ended the connection";
	case -ETIMEDOUT:
		return "no response";
	default:
		return ripc_strerror(error);
	}
}

/* The reason why a device of ours is not used. peer: NULL if none is. */
static const char *why_not(struct ripc_context *ctx, const struct peer *peer, uint32_t index,
		const struct ripc__answer *answer)
{
	struct device *device = &ctx->peers.devices[index];
	const struct wire_record_addr *address = address_of(answer, device->ops->id);
	struct ripc__addr addr;
	int error;

	if (!answer)
		return "unknown whether the partner has this backend";
	if (!address)
		return "the partner does not have this backend";
	error = device->ops->route.choose(device->port, address->blob, address->len, answer->host,
		&addr);
	if (error)
		return unreachable(error);
	return peer && index > peer->device ? "lower priority" : "not tried yet, tried soon";
}

static void add_device(struct text *text, struct ripc_context *ctx, const struct peer *peer,
		uint32_t index, const struct ripc__answer *answer)
{
	const char *name = ctx->peers.devices[index].ops->name;
	char why[128];

	if (peer && peer->left == index + 1) {
		snprintf(why, sizeof(why), peer->why == EACCES ? "%s" :
			"failed (%s), tried again later", broken(-peer->why));
		add(text, name, why);
	} else if (peer && peer->failed >> index & 1) {
		add(text, name, "failed, tried again later");
	} else {
		add(text, name, why_not(ctx, peer, index, answer));
	}
}

/* Adds a sentence about a backend that only the partner has. */
static void add_foreign(struct text *text, struct ripc_context *ctx, uint8_t id)
{
	char name[16];

	for (uint32_t i = 0; ctx->env.backends[i]; i++) {
		const char *known = ctx->env.backends[i]->name;

		if (ctx->env.backends[i]->id != id)
			continue;
		add(text, known, ripc__backend_is_wanted(ctx, known) ? "cannot run on this host" :
			"left out by configuration");
		return;
	}
	snprintf(name, sizeof(name), "backend %u", id);
	add(text, name, "not built in");
}

static bool is_ours(const struct ripc_context *ctx, uint8_t id)
{
	for (uint32_t i = 0; i < ctx->peers.n_devices; i++) {
		if (ctx->peers.devices[i].ops->id == id)
			return true;
	}
	return false;
}

/* Adds sentences about all backends except the one in use. */
static void add_all(struct text *text, struct ripc_context *ctx, const struct peer *peer,
		const struct ripc__answer *answer)
{
	text->bytes[0] = '\0';
	for (uint32_t i = 0; i < ctx->peers.n_devices; i++) {
		if (!peer || i != peer->device)
			add_device(text, ctx, peer, i, answer);
	}
	for (uint32_t i = 0; answer && i < answer->record.n_addrs; i++) {
		if (!is_ours(ctx, answer->record.addrs[i].backend))
			add_foreign(text, ctx, answer->record.addrs[i].backend);
	}
}

static void path_others(struct partner *partner, char *bytes, size_t size)
{
	struct ripc_context *ctx = partner->service->ctx;
	const struct ripc__answer *answer = ripc__resolver_recall(ctx->resolver, partner->id);
	struct text text = {bytes, size, 0};

	if (answer && answer->record.incarnation != partner->incarnation)
		answer = NULL;
	add_all(&text, ctx, partner->peer, answer);
}

/* Writes the text of ripc_path.others; none: for a service that no network leads to. */
static void path_none(struct ripc_context *ctx, uint64_t id, struct ripc_path *path)
{
	struct ripc_path own = {.size = path->size};
	struct text text = {own.others, sizeof(own.others), 0};

	add_all(&text, ctx, NULL, ripc__resolver_recall(ctx->resolver, id));
	ripc__struct_fill(path, path->size, &own, sizeof(own));
}

/* ---- info -------------------------------------------------------------------------------- */

#define AWAIT_US 20000u /* until the owner of an ID is queried once more */
#define LATE_US  100000u /* a lookup goes on after the deadline of the call that waits for it */

struct lookup {
	struct ripc_context *ctx;
	uint64_t id, deadline_us;
	int status;
};

/* 0: a member of the group is known that is not a service of this context. */
static int group_status(struct ripc_context *ctx, uint64_t group)
{
	struct gathering *gathering;
	int status = ripc__resolver_gather(ctx->resolver, group, ctx->now_us, &gathering);

	if (status == -ENOMEM)
		return status;
	for (uint32_t i = 0; i < ripc__gathering_places(gathering); i++) {
		const struct ripc__member *member = ripc__gathering_at(gathering, i);

		if (member && !ripc__map_get(&ctx->services.by_incarnation, member->incarnation))
			return 0;
	}
	return status ? status : -ENOENT;
}

static bool looked_up(void *arg)
{
	struct lookup *lookup = arg;
	const struct ripc__answer *answer;

	if (wire_is_group(lookup->id)) {
		lookup->status = group_status(lookup->ctx, lookup->id);
		return lookup->status != -EINPROGRESS;
	}
	lookup->status = ripc__resolver_lookup(lookup->ctx->resolver, lookup->id,
		lookup->ctx->now_us, &answer);
	/* The lookup outlives the call: at the deadline the call takes what is known then. */
	ripc__resolver_wanted(lookup->ctx->resolver, lookup->id, lookup->deadline_us + LATE_US);
	return lookup->status != -EINPROGRESS;
}

/* Queries the owner once. -EINTR, or the status. */
static int look_up(struct lookup *lookup)
{
	struct ripc_context *ctx = lookup->ctx;
	int ready;

	/* Answers that came before this call count, also when the cache has one already. */
	ripc__resolver_step(ctx->resolver, ctx->now_us);
	ripc__resolver_claimed(ctx->resolver, lookup->id);
	ready = ripc__wait_or_end(ctx, NULL, looked_up, lookup, lookup->deadline_us);
	return ready > 0 ? lookup->status :
		ready ? ready : ripc__resolver_late(ctx->resolver, lookup->id);
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

/* Queries the owner until there is one: after -ENOENT again, when the next query makes sense. */
static int await(struct lookup *lookup)
{
	struct ripc_context *ctx = lookup->ctx;
	int error = look_up(lookup);

	while (error == -ENOENT) {
		uint64_t next_us = ctx->now_us + AWAIT_US;
		int ready = ripc__wait_or_end(ctx, NULL, never, NULL,
			next_us < lookup->deadline_us ? next_us : lookup->deadline_us);

		if (ready < 0)
			return ready;
		if (ctx->now_us >= lookup->deadline_us)
			break;
		error = look_up(lookup);
		if (error == -ETIMEDOUT)
			return -ENOENT;
	}
	return error;
}

static int find_owner(struct ripc_context *ctx, uint64_t id, int timeout_ms,
		int (*find)(struct lookup *lookup))
{
	RIPC__HOLD_CANCEL;
	struct lookup lookup = {.ctx = ctx, .id = id};
	int error = ctx && id && timeout_ms >= 0 ? ripc__enter(ctx) : -EINVAL;

	if (error)
		return error;
	lookup.deadline_us = ripc__deadline(ctx, timeout_ms);
	error = ripc__thread_start(ctx);
	return ripc__leave_with(ctx, error ? error : find(&lookup));
}

int ripc_resolve(struct ripc_context *ctx, uint64_t id, int timeout_ms)
{
	return find_owner(ctx, id, timeout_ms, look_up);
}

int ripc_await(struct ripc_context *ctx, uint64_t id, int timeout_ms)
{
	return find_owner(ctx, id, timeout_ms, await);
}

static int path_fill(struct partner *partner, struct ripc_path *path)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	struct ripc_path own = {.size = path->size};
	struct device *device;
	struct ripc__where where = {0};

	if (!peer)
		return -ENOENT;
	device = ripc__peer_device(ctx, peer);
	strncpy(own.backend, device->ops->name, sizeof(own.backend) - 1);
	strncpy(own.bulk, device->attr.caps & RIPC_CAP_READ ? device->ops->name : "pull",
		sizeof(own.bulk) - 1);
	if (device->ops->route.where) {
		device->ops->route.where(device->port, peer->route, &where);
		ripc__addr_text(ctx, device, &where.addr, own.address);
	}
	own.short_max_bytes = ripc__short_max(partner);
	own.datagram_bytes = ripc__peer_payload(ctx, peer) + WIRE_HEADER + WIRE_DATA_BODY;
	own.rtt_us = peer->srtt_us;
	own.incarnation = partner->incarnation;
	path_others(partner, own.others, sizeof(own.others));
	ripc__struct_fill(path, path->size, &own, sizeof(own));
	return 0;
}

int ripc_path_info(struct ripc_service *svc, uint64_t to, struct ripc_path *path)
{
	RIPC__HOLD_CANCEL;
	struct partner *partner;
	int error = svc && to != 0 && path ? ripc__struct_check(path->size) : -EINVAL;

	if (!error)
		error = ripc__enter_in(svc);
	if (error)
		return error;
	error = ripc__partner_for_call(svc, to, &partner);
	if (!error)
		error = path_fill(partner, path);
	else if (error == -EHOSTUNREACH)
		path_none(svc->ctx, to, path);
	return ripc__leave_with(svc->ctx, error);
}

#define PINGS_LOST 3u /* in a row: perhaps the partner has another address */

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
	error = ripc__may_send_to(partner);
	if (error || partner->peer->opening)
		return error;
	if (ping->n_sent++ >= PINGS_LOST)
		ripc__follow(partner);
	packet.stamp = ctx->env.now_us(ctx->env.arg);
	ripc__partner_send(partner, &packet, WIRE_ECHO);
	return 0;
}

/* The error of a ping without a response in time: -ETIMEDOUT, or why the ping was refused. */
static int too_late(struct ripc_service *svc, uint64_t to)
{
	const struct partner *partner = ripc__map_get(&svc->partners, to);

	return !partner || !partner->peer ? ripc__resolver_late(svc->ctx->resolver, to) :
		partner->refuses ? -EACCES : -ETIMEDOUT;
}

/* Sends a ping every 100 ms, at first every 10 ms, until there is a response. */
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
		error = too_late(svc, to);
	return error;
}

int ripc_ping(struct ripc_service *svc, uint64_t to, int timeout_ms, uint64_t *rtt_ns)
{
	RIPC__HOLD_CANCEL;
	struct ping ping = {0}, **at;
	struct ripc_context *ctx;
	int error;

	if (!svc || to == 0 || timeout_ms < 0 || !rtt_ns)
		return -EINVAL;
	ctx = svc->ctx;
	error = ripc__enter_in(svc);
	if (error)
		return error;
	ping.nonce = ripc__nonce(ctx);
	ping.began_us = ctx->now_us;
	ping.next = ctx->peers.pings;
	ctx->peers.pings = &ping;
	ripc__service_get(svc);
	error = ping_loop(svc, to, ripc__deadline(ctx, timeout_ms), &ping);
	ripc__service_put(svc);
	for (at = &ctx->peers.pings; *at != &ping; at = &(*at)->next)
		;
	*at = ping.next;
	if (!error)
		*rtt_ns = (ping.rtt_us ? ping.rtt_us : 1) * 1000; /* the clock's grain */
	return ripc__leave_with(ctx, error);
}

int ripc_stats_get(struct ripc_context *ctx, struct ripc_stats *stats)
{
	struct ripc_stats own;
	int error = ctx && stats ? ripc__struct_check(stats->size) : -EINVAL;

	if (!error)
		error = ripc__enter(ctx);
	if (error)
		return error;
	ripc__stats_gather(ctx, &own);
	ripc__leave(ctx);
	own.size = stats->size;
	ripc__struct_fill(stats, own.size, &own, sizeof(own));
	return 0;
}

uint32_t ripc_version(void)
{
	return RIPC_VERSION_MAJOR << 16 | RIPC_VERSION_MINOR << 8 | RIPC_VERSION_PATCH;
}

/* ---- keys -------------------------------------------------------------------------------- */

int ripc_keys_reload(struct ripc_context *ctx)
{
	RIPC__HOLD_CANCEL;
	int error = ctx ? ripc__enter(ctx) : -EINVAL;

	return error ? error : ripc__leave_with(ctx, ctx->seal ? ripc__reread(ctx) : -ENOKEY);
}
