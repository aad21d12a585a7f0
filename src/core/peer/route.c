/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * By which device and to which address a peer is reached: the best of those that both have and
 * that have not failed. partner/roam.c says when that changes.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "core/keys/sealed.h"
#include "core/net/backend.h"
#include "core/resolve/resolver.h"
#include "core/wire/record.h"
#include "path.h"
#include "peer.h"
#include "route.h"
#include "util/probe.h"
#include "util/rare.h"
#include "util/system/cancel.h"
#include "window.h"

#define ROUTE_MAX 256u     /* bytes of a backend's route */

/* ---- changing the route ------------------------------------------------------------------ */

void ripc__route_failed_now(const struct ripc_context *ctx, struct peer *peer)
{
	uint32_t now_us = (uint32_t)ctx->now_us;

	peer->failed_us = now_us ? now_us : 1; /* 0 means never */
}

/* What is better than the route in use is tried again later. */
static void retry_later(struct ripc_context *ctx, struct peer *peer)
{
	ripc__route_failed_now(ctx, peer);
	if (ctx->retry_us > ctx->now_us + RETRY_US)
		ctx->retry_us = ctx->now_us + RETRY_US;
}

/* Round trip and datagram size are of the old route; over another network, so is the window. */
int ripc__route_change(struct ripc_context *ctx, struct peer *peer, struct device *device,
		const struct ripc__addr *addr)
{
	RIPC__HOLD_CANCEL;
	struct device *old = ripc__peer_device(ctx, peer);
	_Alignas(16) char route[ROUTE_MAX] = {0};
	int error;

	if (device->ops->route_size > sizeof(route))
		return -ENOBUFS;
	error = device->ops->route.open(device->port, route, addr);
	if (error && error != -EINPROGRESS)
		return error;
	old->ops->route.close(old->port, peer->route);
	memcpy(peer->route, route, device->ops->route_size);
	peer->opening = error == -EINPROGRESS;
	peer->device = (uint8_t)ripc__device_index(ctx, device);
	if (peer->left == peer->device + 1)
		peer->left = 0;
	peer->broken = false;
	peer->datagram = 0;
	peer->srtt_us = 0;
	if (old == device)
		return 0;
	ripc__window_anew(peer);
	ctx->stats.path_changes++;
	RIPC__PROBE(path_change, ctx->incarnation, peer->context, old->ops->name,
		device->ops->name);
	/* Perhaps it was only the partner that noticed a failure. */
	retry_later(ctx, peer);
	return 0;
}

/* The addresses may differ in what says by which of our addresses the datagram came. */
bool ripc__route_same(struct device *device, const struct ripc__addr *to,
		const struct ripc__addr *from)
{
	RIPC__HOLD_CANCEL;
	_Alignas(16) char route[ROUTE_MAX] = {0};
	bool is_same;
	int error;

	if (to->len == from->len && memcmp(to->blob, from->blob, to->len) == 0)
		return true;
	if (device->ops->route_size > sizeof(route))
		return false;
	error = device->ops->route.open(device->port, route, to);
	if (error && error != -EINPROGRESS)
		return false;
	is_same = device->ops->route.matches(device->port, route, from);
	device->ops->route.close(device->port, route);
	return is_same;
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

RIPC__RARE void ripc__route_failed(struct ripc_context *ctx, struct peer *peer, int why)
{
	uint8_t device = (uint8_t)(1u << peer->device);

	if (peer->broken || peer->failed & device)
		return;
	peer->broken = ctx->any_broken = true;
	have_failed(ctx, peer, device, why);
}

/* The network of the address, or of ours, is not there now. */
static bool is_unreached(int why)
{
	return why == -ENETUNREACH || why == -EHOSTUNREACH || why == -ENETDOWN ||
		why == -EADDRNOTAVAIL;
}

RIPC__RARE int ripc__transmit_failed(struct ripc_context *ctx, struct peer *peer, int why)
{
	if (why == -ECONNRESET || why == -EACCES || why == -EMFILE)
		ripc__route_failed(ctx, peer, why);
	else if (is_unreached(why) && !peer->follow)
		peer->unreached = ctx->any_broken = true;
	if (why == -EMFILE) /* there may be descriptors again soon, if there is no other network */
		return 0;
	return why == -EACCES ? -ECONNRESET : why;
}

void ripc__route_stays(struct peer *peer)
{
	if (!peer->broken || peer->why != EMFILE)
		return;
	peer->broken = false;
	peer->failed &= (uint8_t)~(1u << peer->device);
}

struct device *ripc__route_choose(struct ripc_context *ctx, uint8_t failed, uint32_t end,
		const struct ripc__answer *answer, struct ripc__addr *addr)
{
	const struct wire_record *record = &answer->record;

	for (uint32_t d = 0; d < end; d++) {
		struct device *device = &ctx->devices[d];

		for (uint32_t a = 0; a < record->n_addrs && !(failed >> d & 1); a++) {
			if (record->addrs[a].backend == device->ops->id &&
					device->ops->route.choose(device->port,
						record->addrs[a].blob, record->addrs[a].len,
						answer->host, addr) == 0) {
				if (ctx->seal)
					ripc__sealed_proof(ctx->seal, addr, answer->proof);
				return device;
			}
		}
	}
	return NULL;
}

/* Has the one that answered keys, where we have none, or none, where we have? Said for people. */
static bool is_foreign(struct ripc_context *ctx, const struct ripc__answer *answer)
{
	for (uint32_t i = 0; i < answer->record.n_addrs; i++) {
		if ((answer->record.addrs[i].backend >= SEALED_ID) == (ctx->seal != NULL) ||
				answer->record.addrs[i].backend == UINT8_MAX)
			return false;
	}
	ripc__sealed_stranger(ctx, answer->record.id, answer->host, false);
	return true;
}

int ripc__route_find(struct ripc_context *ctx, const struct ripc__answer *answer,
		struct peer **peer)
{
	uint8_t refusing = 0;
	struct device *device;
	struct ripc__addr addr;
	int error, why = 0;

	while ((device = ripc__route_choose(ctx, refusing, ctx->n_devices, answer, &addr))) {
		error = ripc__peer_get(ctx, (uint8_t)ripc__device_index(ctx, device),
			answer->record.context, &addr, peer);
		if (!error && refusing)
			have_failed(ctx, *peer, refusing, why);
		if (!error || error == -ENOMEM)
			return error;
		refusing |= ripc__device_bit(ctx, device);
		why = why ? why : error;
	}
	if (!why && is_foreign(ctx, answer))
		return -ENOKEY;
	return why ? why : -EHOSTUNREACH;
}
