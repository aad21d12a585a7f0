/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: the remote contexts that partners live in, each with one route and one flow (window.c);
 * and the hosts where they were met, each with the number of partners there.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/net/backend.h"
#include "core/resolve/resolver.h"
#include "core/upcalls.h"
#include "path.h"
#include "peer.h"
#include "util/hash/siphash.h"
#include "util/map.h"
#include "util/system/cancel.h"

/* ---- hosts ------------------------------------------------------------------------------- */

/*
 * The owner of an IPv6 network has all 2^64 addresses in it, so that it counts as one host. Not so
 * the link-local network, where all neighbours are, and not what begins with 64 zeros: IPv4.
 */
uint64_t ripc__host_key(const struct ripc_context *ctx, const struct ripc__addr *addr)
{
	static const uint8_t zeros[8];
	uint8_t bound[16] = {0};
	bool link_local = addr->host[0] == 0xfe && (addr->host[1] & 0xc0) == 0x80;

	if (link_local || memcmp(addr->host, zeros, 8) == 0)
		memcpy(bound, addr->host, 16);
	else
		memcpy(bound, addr->host, 8);
	return ripc__siphash(ctx->secret, bound, sizeof(bound));
}

struct host *ripc__host_find(struct ripc_context *ctx, const struct ripc__addr *addr)
{
	return ripc__map_get(&ctx->hosts, ripc__host_key(ctx, addr));
}

static struct host *host_get(struct ripc_context *ctx, const struct ripc__addr *addr)
{
	struct host *host = ripc__host_find(ctx, addr);

	if (!host) {
		host = calloc(1, sizeof(*host));
		if (!host)
			return NULL;
		host->key = ripc__host_key(ctx, addr);
		if (ripc__map_put(&ctx->hosts, host->key, host)) {
			free(host);
			return NULL;
		}
	}
	host->partners++;
	return host;
}

static void host_put(struct ripc_context *ctx, struct host *host)
{
	if (--host->partners > 0)
		return;
	ripc__map_remove(&ctx->hosts, host->key);
	free(host);
}

/* ---- peers ------------------------------------------------------------------------------- */

/*
 * A partner that claims a context from another host, or from where the route of the context's peer
 * does not lead (elsewhere), gets a peer of its own: it moves no other route, and no other partner
 * moves its route.
 */
static uint64_t peer_key(struct ripc_context *ctx, uint64_t context, const struct ripc__addr *addr,
		bool elsewhere)
{
	struct {
		uint64_t context;
		uint8_t host[16], len, blob[RIPC_ADDR_MAX];
		uint8_t filler[7]; /* no byte of it is left undefined */
	} bound = {.context = htole64(context)};

	memcpy(bound.host, addr->host, sizeof(bound.host));
	if (elsewhere) {
		bound.len = addr->len;
		memcpy(bound.blob, addr->blob, addr->len);
	}
	return ripc__siphash(ctx->secret, &bound, sizeof(bound));
}

static bool leads_to(struct ripc_context *ctx, struct peer *peer, uint8_t device_index,
		const struct ripc__addr *addr)
{
	struct device *device = ripc__peer_device(ctx, peer);

	return peer->device == device_index &&
		device->ops->route.matches(device->port, peer->route, addr);
}

/* What whoever wanted the route is told: a network says more than means anything to others. */
static int unreachable(int error)
{
	return error == -ENOMEM || error == -ENETDOWN || error == -EACCES ? error : -EHOSTUNREACH;
}

/* One that was not met yet. */
static int peer_new(struct ripc_context *ctx, uint8_t device_index, const struct ripc__addr *addr,
		struct peer **peer_out)
{
	RIPC__HOLD_CANCEL;
	struct device *device = &ctx->devices[device_index];
	struct peer *peer = calloc(1, sizeof(*peer) + ctx->route_bytes);
	int error = -ENOMEM;

	if (!peer)
		return -ENOMEM;
	*peer = (struct peer){.partners = 1, .device = device_index, .slow_start = true,
		.window = UNASKED_BYTES};
	peer->host = host_get(ctx, addr);
	if (!peer->host)
		goto err_free;
	error = device->ops->route.open(device->port, peer->route, addr);
	if (error && error != -EINPROGRESS)
		goto err_put_host;
	peer->opening = error == -EINPROGRESS;
	*peer_out = peer;
	return 0;
err_put_host:
	host_put(ctx, peer->host);
err_free:
	free(peer);
	return unreachable(error);
}

static void peer_free(struct ripc_context *ctx, struct peer *peer)
{
	RIPC__HOLD_CANCEL;
	struct device *device = &ctx->devices[peer->device];

	device->ops->route.close(device->port, peer->route);
	free(peer->flow);
	free(peer);
}

int ripc__peer_get(struct ripc_context *ctx, uint8_t device_index, uint64_t context,
		const struct ripc__addr *addr, struct peer **peer_out)
{
	uint64_t key = peer_key(ctx, context, addr, false);
	struct peer *peer = ripc__map_get(&ctx->peers, key);
	int error;

	if (peer && !leads_to(ctx, peer, device_index, addr)) {
		key = peer_key(ctx, context, addr, true);
		peer = ripc__map_get(&ctx->peers, key);
	}
	if (peer) {
		peer->partners++;
		peer->host->partners++;
		*peer_out = peer;
		return 0;
	}
	error = peer_new(ctx, device_index, addr, &peer);
	if (error)
		return error;
	peer->key = key;
	peer->context = context;
	if (ripc__map_put(&ctx->peers, key, peer)) {
		host_put(ctx, peer->host);
		peer_free(ctx, peer);
		return -ENOMEM;
	}
	ctx->up->peer_met(ctx, peer);
	*peer_out = peer;
	return 0;
}

void ripc__peer_put(struct ripc_context *ctx, struct peer *peer)
{
	host_put(ctx, peer->host);
	if (--peer->partners > 0)
		return;
	ripc__map_remove(&ctx->peers, peer->key);
	ripc__resolver_unwatch(ctx->resolver, peer->context);
	ctx->up->peer_left(ctx, peer);
	peer_free(ctx, peer);
}

void ripc__peer_sounded(const struct ripc_context *ctx, struct peer *peer)
{
	uint32_t now = (uint32_t)(ctx->now_us >> 10);

	if (!ripc__peer_is_sounded(peer))
		peer->unanswered = now;
	peer->sounded = now;
}

size_t ripc__peers_bytes(struct ripc_context *ctx)
{
	size_t bytes = ripc__map_bytes(&ctx->peers) + ripc__map_bytes(&ctx->hosts) +
		ctx->hosts.count * sizeof(struct host);
	const struct peer *peer;
	uint32_t at = 0;

	while ((peer = ripc__map_next(&ctx->peers, &at)))
		bytes += sizeof(*peer) + ctx->route_bytes + (peer->flow ? sizeof(*peer->flow) : 0);
	return bytes;
}
