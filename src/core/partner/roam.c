/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the route of a peer changes: when a partner there speaks from a new address, when a device
 * fails, and when a better one may work again.
 *
 * Design notes. A device has failed for a peer when it says so, or after silence. The peer then
 * goes on over the next best device that it has in common with us; what is under way moves along,
 * as everything is told by tokens and numbers, not by routes. A new address, and a better device,
 * are only relied on once an echo has come back from there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "claim.h"
#include "core/base/base.h"
#include "core/keys/sealed.h"
#include "core/net/backend.h"
#include "core/peer/path.h"
#include "core/peer/peer.h"
#include "core/peer/route.h"
#include "core/resolve/resolver.h"
#include "core/upcalls.h"
#include "core/wire/wire.h"
#include "follow.h"
#include "packet.h"
#include "partner.h"
#include "roam.h"
#include "util/list.h"
#include "util/map.h"

#define ECHO_LEN  (WIRE_HEADER + 16u)
#define STAY_US   1000000u /* after a change: packets by a worse device are stragglers */

/* A route that is being proven. */
struct candidate {
	uint64_t nonce;    /* 0: not asked yet */
	uint64_t asked_us;
	uint32_t received; /* bytes from there since we asked last */
	struct device *device;
	struct ripc__addr addr;
};

void ripc__candidate_free(struct peer *peer)
{
	free(peer->candidate);
	peer->candidate = NULL;
}

static uint32_t failed_for(const struct ripc_context *ctx, const struct peer *peer)
{
	return (uint32_t)ctx->now_us - peer->failed_us;
}

bool ripc__route_is_lost(const struct partner *partner)
{
	const struct ripc_context *ctx = partner->service->ctx;
	const struct peer *peer = partner->peer;

	return peer && peer->broken && ctx->devices[peer->device].attr.caps & RIPC_CAP_RELIABLE;
}

/* What had to wait for the route. */
static void go_on(struct partner *partner)
{
	if (partner->peer->opening)
		return;
	partner->service->ctx->up->route_ready(partner);
}

/* With keys the record may be forged: no route is led to another member than it led to before. */
static int change_to(struct ripc_context *ctx, struct peer *peer, struct device *device,
		const struct ripc__addr *addr)
{
	if (ctx->seal && !ripc__sealed_same(peer->route, addr))
		return -EACCES;
	return ripc__route_change(ctx, peer, device, addr);
}

void ripc__route_answered(struct partner *partner, const struct ripc__answer *answer)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	struct ripc__addr addr;
	struct device *device, *old;
	uint8_t refusing = 0;
	int error = 0;

	if (!peer || !peer->broken)
		return;
	old = ripc__peer_device(ctx, peer);
	do {
		refusing |= error ? ripc__device_bit(ctx, device) : 0;
		device = ripc__route_choose(ctx, peer->failed | refusing, ctx->n_devices, answer,
			&addr);
		if (!device) {
			ripc__route_stays(peer);
			return;
		}
		error = change_to(ctx, peer, device, &addr);
	} while (error);
	peer->failed |= refusing;
	if (device != old)
		ripc__log(ctx, RIPC_LOG_INFO, "service 0x%llx: %s failed, continues over %s: %s",
			(unsigned long long)partner->id, old->ops->name, device->ops->name,
			ripc_strerror(-peer->why));
	go_on(partner);
}

void ripc__route_taken(struct ripc_context *ctx, const struct peer *peer)
{
	ctx->walking = true;
	list_for_each_safe(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (partner->peer == peer && !partner->dead)
			go_on(partner);
	}
	ctx->walking = false;
}

static bool leads_there(struct ripc_context *ctx, struct peer *peer, const struct device *device,
		const struct ripc__event *event)
{
	return ripc__peer_device(ctx, peer) == device &&
		device->ops->route.matches(device->port, peer->route, event->from);
}

/* What could not be sent is sent now. */
static void routes_go_on(struct ripc_context *ctx, const struct device *device,
		const struct ripc__event *event)
{
	ctx->walking = true;
	list_for_each_safe(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (partner->peer && !partner->dead &&
				leads_there(ctx, partner->peer, device, event))
			go_on(partner);
	}
	ctx->walking = false;
}

/* With keys the word may be of a handshake: only if nobody answered, another network may help. */
static bool is_of_network(const struct ripc_context *ctx, int status)
{
	return !ctx->seal || (ctx->n_devices > 1 && status == -EHOSTUNREACH);
}

void ripc__route_opened(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event)
{
	struct peer *peer;
	uint32_t at = 0;

	while (event->from && (peer = ripc__map_next(&ctx->peers, &at))) {
		bool was_opening = peer->opening;

		if (!leads_there(ctx, peer, device, event))
			continue;
		peer->opening = false;
		if (was_opening && event->status && is_of_network(ctx, event->status))
			ripc__route_failed(ctx, peer, event->status);
	}
	if (ctx->seal && event->from)
		ctx->up->handshake_ended(ctx, device, event);
	if (event->from && event->status == 0)
		routes_go_on(ctx, device, event);
}

/* Where else can it be reached? Asks whoever knows, if that is not known already. */
static void mend(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	const struct ripc__answer *answer;
	int status = ripc__resolver_lookup(ctx->resolver, partner->id, ctx->now_us, &answer);

	if (status == -EINPROGRESS)
		partner->suspect |= partner->current; /* ripc__route_answered() follows */
	else if (status == 0 && answer->record.incarnation == partner->incarnation)
		ripc__route_answered(partner, answer);
	if (status == -EINPROGRESS || !ripc__route_is_lost(partner) || !partner->current)
		return;
	/* Is it still there at all? */
	ripc__partner_suspect(partner);
	(void)ripc__claim_settled(partner);
}

void ripc__routes_mend(struct ripc_context *ctx)
{
	ctx->any_broken = false;
	ctx->walking = true;
	list_for_each_safe(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (!partner->peer || partner->dead)
			continue;
		if (partner->peer->broken)
			mend(partner);
		else if (partner->peer->unreached)
			ripc__follow(partner);
		partner->peer->unreached = false;
	}
	ctx->walking = false;
}

/* ---- candidates -------------------------------------------------------------------------- */

static bool same_route(const struct candidate *candidate, const struct device *device,
		const struct ripc__addr *addr)
{
	return candidate->device == device && candidate->addr.len == addr->len &&
		memcmp(candidate->addr.blob, addr->blob, addr->len) == 0;
}

static void echo_ask(struct partner *partner, struct candidate *candidate)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct wire_packet packet = {.value = ripc__nonce(ctx), .stamp = ctx->now_us};

	candidate->nonce = packet.value;
	candidate->asked_us = ctx->now_us;
	ripc__partner_header_bare(partner, &packet, WIRE_ECHO);
	ripc__stranger_send(ctx, candidate->device, &candidate->addr, &packet,
		candidate->received);
	candidate->received = 0;
}

/* By a worse device, just after we have changed: sent before the partner had followed us. */
static bool is_straggler(struct ripc_context *ctx, const struct peer *peer,
		const struct device *device)
{
	return ripc__device_index(ctx, device) > peer->device && !peer->broken &&
		peer->failed_us && failed_for(ctx, peer) < STAY_US;
}

/*
 * One echo to one new address at a time, at most one per tick, and only once as many bytes have
 * come from there. Also by another device: the partner has left ours because it failed, or has
 * come back to a better one.
 */
void ripc__peer_moved(struct partner *partner, struct device *device,
		const struct ripc__addr *from, uint32_t len)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct candidate *candidate = partner->peer->candidate;
	bool is_early = candidate && candidate->nonce &&
		ctx->now_us - candidate->asked_us < TICK_US;

	if (is_straggler(ctx, partner->peer, device))
		return;
	if (!candidate)
		candidate = partner->peer->candidate = calloc(1, sizeof(*candidate));
	if (!candidate)
		return;
	if (!same_route(candidate, device, from)) {
		if (is_early)
			return;
		*candidate = (struct candidate){.device = device, .addr = *from};
	}
	if (candidate->received < ECHO_LEN)
		candidate->received += len;
	if (candidate->received >= ECHO_LEN && !is_early)
		echo_ask(partner, candidate);
}

bool ripc__route_proven(struct partner *partner, uint64_t nonce, struct device *device,
		const struct ripc__addr *from)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	struct candidate *candidate = peer->candidate;

	if (ripc__follow_echoed(partner, nonce, device, from)) {
		ripc__candidate_free(peer);
		ripc__route_taken(ctx, peer);
		return true;
	}
	if (!candidate || candidate->nonce == 0 || candidate->nonce != nonce ||
			candidate->device != device ||
			!ripc__route_same(device, &candidate->addr, from))
		return false;
	if (ripc__route_change(ctx, peer, device, from))
		return false;
	peer->failed &= (uint8_t)~(1u << peer->device);
	ripc__candidate_free(peer);
	ripc__follow_end(ctx, peer);
	ripc__route_taken(ctx, peer);
	return true;
}

/* ---- trying better ones again ------------------------------------------------------------ */

/* Sends an echo by the best device of those that are better than what is in use. */
static void retry(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	const struct ripc__answer *answer;
	struct ripc__addr addr;
	struct device *device;

	ripc__route_failed_now(ctx, peer);
	if (ripc__resolver_lookup(ctx->resolver, partner->id, ctx->now_us, &answer) ||
			answer->record.incarnation != partner->incarnation)
		return;
	if (peer->broken) {
		/* Nobody knew where else to go. If that is still so, any will do next time. */
		ripc__route_answered(partner, answer);
		peer->failed = peer->broken ? 0 : peer->failed;
		return;
	}
	peer->failed = 0;
	device = ripc__route_choose(ctx, 0, peer->device, answer, &addr);
	if (device)
		ripc__peer_moved(partner, device, &addr, ECHO_LEN);
	else
		peer->failed_us = 0;
}

void ripc__routes_retry(struct ripc_context *ctx)
{
	ctx->retry_us = UINT64_MAX;
	ctx->walking = true;
	list_for_each_safe(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);
		struct peer *peer = partner->peer;
		uint64_t next_us;

		if (!peer || !peer->failed_us || partner->dead)
			continue;
		/* Kept till then: is_straggler() needs the time of the last change. */
		if (failed_for(ctx, peer) >= RETRY_US) {
			if (peer->device == 0 && peer->failed == 0)
				peer->failed_us = 0;
			else
				retry(partner);
		}
		next_us = ctx->now_us + RETRY_US - failed_for(ctx, peer);
		if (peer->failed_us && ctx->retry_us > next_us)
			ctx->retry_us = next_us;
	}
	ctx->walking = false;
}
