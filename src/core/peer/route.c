/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * By which device and to which address a peer is reached, and how that changes: when it speaks
 * from a new address, when a device fails, and when a better one may work again.
 *
 * Design notes. A device has failed for a peer when it says so, or after silence. The peer then
 * goes on over the next best device that it has in common with us; what is under way moves along,
 * as everything is told by tokens and numbers, not by routes. A new address, and a better device,
 * are only relied on once an echo has come back from there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/base.h"
#include "core/net/backend.h"
#include "core/partner/find.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/resolve/resolver.h"
#include "core/send/outgoing.h"
#include "core/send/short.h"
#include "core/wire/wire.h"
#include "path.h"
#include "peer.h"
#include "route.h"
#include "util/list.h"
#include "util/map.h"
#include "util/rare.h"
#include "window.h"

#define ECHO_LEN  (WIRE_HEADER + 16u)
#define RETRY_US  5000000u /* a better device is tried again after so long */
#define STAY_US   1000000u /* after a change: packets by a worse device are stragglers */
#define ROUTE_MAX 256u     /* bytes of a backend's route */

/* A route that is being proven. */
struct candidate {
	uint64_t nonce;    /* 0: not asked yet */
	uint64_t asked_us;
	uint32_t received; /* bytes from there since we asked last */
	struct device *device;
	struct ripc__addr addr;
};

void ripc__peer_candidate_free(struct peer *peer)
{
	free(peer->candidate);
	peer->candidate = NULL;
}

static uint32_t index_of(const struct ripc_context *ctx, const struct device *device)
{
	return (uint32_t)(device - ctx->devices);
}

static uint8_t bit_of(const struct ripc_context *ctx, const struct device *device)
{
	return (uint8_t)(1u << index_of(ctx, device));
}

/* ---- changing the route ------------------------------------------------------------------ */

static void failed_now(const struct ripc_context *ctx, struct peer *peer)
{
	uint32_t now_us = (uint32_t)ctx->now_us;

	peer->failed_us = now_us ? now_us : 1; /* 0 means never */
}

static uint32_t failed_for(const struct ripc_context *ctx, const struct peer *peer)
{
	return (uint32_t)ctx->now_us - peer->failed_us;
}

/* What is better than the route in use is tried again later. */
static void retry_later(struct ripc_context *ctx, struct peer *peer)
{
	failed_now(ctx, peer);
	if (ctx->retry_us > ctx->now_us + RETRY_US)
		ctx->retry_us = ctx->now_us + RETRY_US;
}

/* Round trip and datagram size are of the old route; over another network, so is the window. */
static int route_change(struct ripc_context *ctx, struct peer *peer, struct device *device,
		const struct ripc__addr *addr)
{
	struct device *old = ripc__peer_device(ctx, peer);
	_Alignas(16) char route[ROUTE_MAX] = {0};
	int error;

	if (device->ops->peer_size > sizeof(route))
		return -ENOBUFS;
	error = device->ops->peer_open(device->port, route, addr);
	if (error && error != -EINPROGRESS)
		return error;
	old->ops->peer_close(old->port, peer->route);
	memcpy(peer->route, route, device->ops->peer_size);
	peer->opening = error == -EINPROGRESS;
	peer->device = (uint8_t)index_of(ctx, device);
	if (peer->left == peer->device + 1)
		peer->left = 0;
	peer->broken = false;
	peer->datagram = 0;
	peer->srtt_us = 0;
	if (old == device)
		return 0;
	ripc__window_anew(peer);
	ctx->stats.path_changes++;
	/* Perhaps it was only the partner that noticed a failure. */
	retry_later(ctx, peer);
	return 0;
}

/* ---- failing over ------------------------------------------------------------------------ */

/* For this peer; why is of the best of them. */
static void have_failed(struct ripc_context *ctx, struct peer *peer, uint8_t devices, int why)
{
	peer->failed |= devices;
	peer->left = (uint8_t)ffs(devices);
	peer->why = (uint8_t)-why;
	retry_later(ctx, peer);
}

bool ripc__route_is_lost(const struct partner *partner)
{
	const struct ripc_context *ctx = partner->service->ctx;
	const struct peer *peer = partner->peer;

	return peer && peer->broken && ctx->devices[peer->device].attr.caps & RIPC_CAP_RELIABLE;
}

RIPC__RARE void ripc__route_failed(struct ripc_context *ctx, struct peer *peer, int why)
{
	uint8_t device = (uint8_t)(1u << peer->device);

	if (peer->broken || peer->failed & device)
		return;
	peer->broken = ctx->any_broken = true;
	have_failed(ctx, peer, device, why);
}

RIPC__RARE int ripc__transmit_failed(struct ripc_context *ctx, struct peer *peer, int why)
{
	if (why == -ECONNRESET || why == -EACCES)
		ripc__route_failed(ctx, peer, why);
	return why == -EACCES ? -ECONNRESET : why;
}

/* The best way to who answered, over devices below end that have not failed. */
static struct device *choose(struct ripc_context *ctx, uint8_t failed, uint32_t end,
		const struct ripc__answer *answer, struct ripc__addr *addr)
{
	const struct wire_record *record = &answer->record;

	for (uint32_t d = 0; d < end; d++) {
		struct device *device = &ctx->devices[d];

		for (uint32_t a = 0; a < record->n_addrs && !(failed >> d & 1); a++) {
			if (record->addrs[a].backend == device->ops->id &&
					device->ops->addr_choose(device->port,
						record->addrs[a].blob, record->addrs[a].len,
						answer->host, addr) == 0)
				return device;
		}
	}
	return NULL;
}

int ripc__route_find(struct ripc_context *ctx, const struct ripc__answer *answer,
		struct peer **peer)
{
	uint8_t refusing = 0;
	struct device *device;
	struct ripc__addr addr;
	int error, why = 0;

	while ((device = choose(ctx, refusing, ctx->n_devices, answer, &addr))) {
		error = ripc__peer_get(ctx, (uint8_t)index_of(ctx, device), answer->record.context,
			&addr, peer);
		if (!error && refusing)
			have_failed(ctx, *peer, refusing, why);
		if (!error || error == -ENOMEM)
			return error;
		refusing |= bit_of(ctx, device);
		why = why ? why : error;
	}
	return why ? why : -EHOSTUNREACH;
}

/* What had to wait for the route. */
static void go_on(struct partner *partner)
{
	if (partner->peer->opening)
		return;
	ripc__held_send(partner);
	ripc__outgoing_hasten(partner);
	ripc__outgoing_advance(partner);
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
		refusing |= error ? bit_of(ctx, device) : 0;
		device = choose(ctx, peer->failed | refusing, ctx->n_devices, answer, &addr);
		if (!device)
			return;
		error = route_change(ctx, peer, device, &addr);
	} while (error);
	peer->failed |= refusing;
	if (device != old)
		ripc__log(ctx, RIPC_LOG_INFO, "service 0x%llx: %s failed, goes on by %s",
			(unsigned long long)partner->id, old->ops->name, device->ops->name);
	go_on(partner);
}

/* What could not be sent is sent now. */
static void peer_opened(struct ripc_context *ctx, struct peer *peer)
{
	peer->opening = false;
	ctx->walking = true;
	list_for_each_safe(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (partner->peer == peer && !partner->dead)
			go_on(partner);
	}
	ctx->walking = false;
}

void ripc__route_opened(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event)
{
	struct peer *peer;
	uint32_t at = 0;

	while (event->from && (peer = ripc__map_next(&ctx->peers, &at))) {
		if (ripc__peer_device(ctx, peer) != device || !device->ops->peer_matches(
				device->port, peer->route, event->from))
			continue;
		if (event->status == 0) {
			/* What goes on may meet new peers, and so move the entries. */
			at = peer->opening ? 0 : at;
			peer_opened(ctx, peer);
		} else if (peer->opening) {
			peer->opening = false;
			ripc__route_failed(ctx, peer, event->status);
		}
	}
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
	(void)ripc__partner_settled(partner);
}

void ripc__routes_mend(struct ripc_context *ctx)
{
	ctx->any_broken = false;
	ctx->walking = true;
	list_for_each_safe(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (partner->peer && partner->peer->broken && !partner->dead)
			mend(partner);
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
	return index_of(ctx, device) > peer->device && !peer->broken &&
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

	if (!candidate || candidate->nonce == 0 || candidate->nonce != nonce ||
			!same_route(candidate, device, from))
		return false;
	if (route_change(ctx, peer, device, from))
		return false;
	peer->failed &= (uint8_t)~(1u << peer->device);
	ripc__peer_candidate_free(peer);
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

	failed_now(ctx, peer);
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
	device = choose(ctx, 0, peer->device, answer, &addr);
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
		if (peer->device == 0 && peer->failed == 0)
			peer->failed_us = 0;
		else if (failed_for(ctx, peer) >= RETRY_US)
			retry(partner);
		next_us = ctx->now_us + RETRY_US - failed_for(ctx, peer);
		if (peer->failed_us && ctx->retry_us > next_us)
			ctx->retry_us = next_us;
	}
	ctx->walking = false;
}
