/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: the remote contexts that partners live in, each with one route and one flow (window.c);
 * and the hosts where they were met, each with the number of partners there.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/events.h"
#include "core/keys/sealed.h"
#include "core/net/backend.h"
#include "core/resolve/resolver.h"
#include "core/wire/record.h"
#include "core/wire/wire.h"
#include "peer.h"
#include "util/hash/siphash.h"
#include "util/map.h"
#include "util/probe.h"
#include "util/rare.h"
#include "util/system/cancel.h"
#include "window.h"

/* ---- hosts ------------------------------------------------------------------------------- */

/*
 * The owner of an IPv6 network has all 2^64 addresses in it, hence the network counts as one
 * host. Exceptions are the link-local network, where all neighbours are, and addresses that
 * begin with 64 zeros: IPv4.
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
	return ripc__siphash(ctx->self.secret, bound, sizeof(bound));
}

struct host *ripc__host_find(struct ripc_context *ctx, const struct ripc__addr *addr)
{
	return ripc__map_get(&ctx->peers.hosts, ripc__host_key(ctx, addr));
}

static struct host *host_get(struct ripc_context *ctx, const struct ripc__addr *addr)
{
	struct host *host = ripc__host_find(ctx, addr);

	if (!host) {
		host = calloc(1, sizeof(*host));
		if (!host)
			return NULL;
		host->key = ripc__host_key(ctx, addr);
		if (ripc__map_put(&ctx->peers.hosts, host->key, host)) {
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
	ripc__map_remove(&ctx->peers.hosts, host->key);
	free(host);
}

/* ---- peers ------------------------------------------------------------------------------- */

/*
 * A partner that claims a context from another host, or from an address where the route of the
 * context's peer does not lead (elsewhere), gets a peer of its own: it moves no other route, and
 * no other partner moves its route.
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
	return ripc__siphash(ctx->self.secret, &bound, sizeof(bound));
}

/* The error to report: a network has more codes than mean anything to a caller. */
static int unreachable(int error)
{
	return error == -ENOMEM || error == -ENETDOWN || error == -EACCES ? error : -EHOSTUNREACH;
}

/* A peer that was not met yet. */
static int peer_new(struct ripc_context *ctx, struct device *device, const struct ripc__addr *addr,
		struct peer **peer_out)
{
	RIPC__HOLD_CANCEL;
	struct peer *peer = calloc(1, sizeof(*peer) + ctx->peers.route_bytes);
	int error = -ENOMEM;

	if (!peer)
		return -ENOMEM;
	*peer = (struct peer){.partners = 1, .device = (uint8_t)ripc__device_index(ctx, device),
		.slow_start = true, .window = UNASKED_BYTES};
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
	struct device *device = ripc__peer_device(ctx, peer);

	device->ops->route.close(device->port, peer->route);
	free(peer->flow);
	free(peer);
}

int ripc__peer_get(struct ripc_context *ctx, struct device *device, uint64_t context,
		const struct ripc__addr *addr, struct peer **peer_out)
{
	uint64_t key = peer_key(ctx, context, addr, false);
	struct peer *peer = ripc__map_get(&ctx->peers.all, key);
	int error;

	if (peer && !ripc__peer_is_at(ctx, peer, device, addr)) {
		key = peer_key(ctx, context, addr, true);
		peer = ripc__map_get(&ctx->peers.all, key);
	}
	if (peer) {
		peer->partners++;
		peer->host->partners++;
		*peer_out = peer;
		return 0;
	}
	error = peer_new(ctx, device, addr, &peer);
	if (error)
		return error;
	peer->key = key;
	peer->context = context;
	if (ripc__map_put(&ctx->peers.all, key, peer)) {
		host_put(ctx, peer->host);
		peer_free(ctx, peer);
		return -ENOMEM;
	}
	ripc__peer_met(ctx, peer);
	*peer_out = peer;
	return 0;
}

void ripc__peer_put(struct ripc_context *ctx, struct peer *peer)
{
	host_put(ctx, peer->host);
	if (--peer->partners > 0)
		return;
	ripc__map_remove(&ctx->peers.all, peer->key);
	ripc__resolver_unwatch(ctx->resolver, peer->context);
	ripc__peer_left(ctx, peer);
	peer_free(ctx, peer);
}

void ripc__peer_sounded(const struct ripc_context *ctx, struct peer *peer)
{
	uint32_t now = ripc__now_1024us(ctx);

	if (!ripc__peer_is_sounded(peer))
		peer->unanswered = now;
	peer->sounded = now;
}

size_t ripc__peers_bytes(struct ripc_context *ctx)
{
	size_t bytes = ripc__map_bytes(&ctx->peers.all) + ripc__map_bytes(&ctx->peers.hosts) +
		ctx->peers.hosts.count * sizeof(struct host);
	const struct peer *peer;
	uint32_t at = 0;

	while ((peer = ripc__map_next(&ctx->peers.all, &at)))
		bytes += sizeof(*peer) + ctx->peers.route_bytes +
			(peer->flow ? sizeof(*peer->flow) : 0);
	return bytes;
}

/* ---- route ------------------------------------------------------------------------------- */

/*
 * The device and the address by which a peer is reached: the best of those that both ends have
 * and that have not failed. partner/roam.c decides when they change.
 */

#define ROUTE_MAX 256u     /* bytes of a backend's route */

/* ---- changing the route ------------------------------------------------------------------ */

void ripc__route_failed_now(const struct ripc_context *ctx, struct peer *peer)
{
	uint32_t now_us = (uint32_t)ctx->now_us;

	peer->failed_us = now_us ? now_us : 1; /* 0 means never */
}

/* A device that is better than the route in use is tried again later. */
static void retry_later(struct ripc_context *ctx, struct peer *peer)
{
	ripc__route_failed_now(ctx, peer);
	if (ctx->peers.retry_us > ctx->now_us + RETRY_US)
		ctx->peers.retry_us = ctx->now_us + RETRY_US;
}

/*
 * Round trip and datagram size belong to the old route, and over another network the window,
 * too.
 */
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
	/* Perhaps only the partner noticed a failure. */
	retry_later(ctx, peer);
	return 0;
}

/* The addresses may differ in the part that says which of our addresses the datagram came to. */
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

/* Marks devices as failed for this peer; why is the error of the best of them. */
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
	peer->broken = ctx->peers.any_broken = true;
	have_failed(ctx, peer, device, why);
}

/* Is the network of the address, or ours, missing now? */
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
		peer->unreached = ctx->peers.any_broken = true;
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

bool ripc__route_named(const struct device *device, const struct ripc__answer *answer, uint32_t at,
		struct ripc__addr *addr)
{
	const struct wire_record_addr *named = &answer->record.addrs[at];

	return named->backend == device->ops->id && device->ops->route.choose(device->port,
		named->blob, named->len, answer->host, addr) == 0;
}

struct device *ripc__route_choose(struct ripc_context *ctx, uint8_t failed, uint32_t end,
		const struct ripc__answer *answer, struct ripc__addr *addr)
{
	for (uint32_t d = 0; d < end; d++) {
		struct device *device = &ctx->peers.devices[d];

		for (uint32_t i = 0; i < answer->record.n_addrs && !(failed >> d & 1); i++) {
			if (!ripc__route_named(device, answer, i, addr))
				continue;
			if (ctx->seal)
				ripc__sealed_proof(ctx->seal, addr, answer->proof);
			return device;
		}
	}
	return NULL;
}

/* Does only one end have keys? Logged for people. */
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

	while ((device = ripc__route_choose(ctx, refusing, ctx->peers.n_devices, answer, &addr))) {
		error = ripc__peer_get(ctx, device, answer->record.context, &addr, peer);
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

/* ---- path -------------------------------------------------------------------------------- */

/*
 * The properties of the path to a peer: round trips, repetition times, and the datagram size for
 * bulk. window.c has the bytes that may be in flight, the section route the device and the
 * address.
 */

#define SHRUNK_US  30000000u /* then the route's datagram size is tried again */
#define ECHO_US    50000u    /* an older stamp is not returned */
#define SAMPLE_MAX_US 10000000u /* a longer round trip is ignored */

/* ---- round trips ------------------------------------------------------------------------- */

static uint32_t clock_now(const struct ripc_context *ctx)
{
	return (uint32_t)ctx->env.now_us(ctx->env.arg);
}

/* Never 0. */
static uint32_t stamp_at(uint32_t now_us)
{
	return now_us ? now_us : 1;
}

/*
 * Two clocks may differ by some hundred microseconds in a second: after a long wait an echo says
 * nothing about a short path. 0: there is no echo.
 */
static uint32_t echo_at(const struct peer *peer, uint32_t now_us)
{
	uint32_t waited_us = now_us - peer->stamp_us, echo = peer->stamp + waited_us;

	if (peer->stamp == 0 || waited_us > ECHO_US)
		return 0;
	return echo ? echo : 1;
}

static bool has_ack(const struct wire_packet *packet)
{
	return packet->h.type == WIRE_ANSWER || packet->h.flags & WIRE_F_ACK;
}

static bool has_stamps(const struct wire_packet *packet)
{
	return packet->h.type == WIRE_ANNOUNCE || packet->h.type == WIRE_PULL;
}

void ripc__stamps_put(const struct ripc_context *ctx, const struct peer *peer,
		struct wire_packet *packet)
{
	uint32_t now_us, echo;

	if (!has_stamps(packet) && !has_ack(packet) && packet->h.type != WIRE_DATA)
		return;
	now_us = clock_now(ctx);
	echo = echo_at(peer, now_us);
	if (packet->h.type == WIRE_ANNOUNCE) {
		packet->announce.stamp = stamp_at(now_us);
		packet->announce.echo = echo;
	} else if (packet->h.type == WIRE_PULL) {
		packet->pull.stamp = stamp_at(now_us);
		packet->pull.echo = echo;
	} else if (packet->h.type == WIRE_DATA) {
		packet->echo = echo;
	}
	if (has_ack(packet))
		packet->ack.echo = echo;
}

static void echo_take(struct peer *peer, uint32_t echo, uint32_t now_us)
{
	uint32_t sample_us = now_us - echo;

	if (echo && sample_us <= SAMPLE_MAX_US)
		ripc__peer_rtt(peer, sample_us);
}

void ripc__data_echo_take(const struct ripc_context *ctx, struct peer *peer, uint32_t echo)
{
	if (echo && peer->arrived_us != (uint32_t)ctx->now_us)
		echo_take(peer, echo, clock_now(ctx));
}

void ripc__stamps_take(const struct ripc_context *ctx, struct peer *peer,
		const struct wire_packet *packet)
{
	uint32_t now_us;

	if (!has_stamps(packet) && !has_ack(packet))
		return;
	now_us = clock_now(ctx);
	if (has_ack(packet))
		echo_take(peer, packet->ack.echo, now_us);
	if (packet->h.type == WIRE_ANNOUNCE) {
		echo_take(peer, packet->announce.echo, now_us);
		peer->stamp = packet->announce.stamp;
	} else if (packet->h.type == WIRE_PULL) {
		echo_take(peer, packet->pull.echo, now_us);
		peer->stamp = packet->pull.stamp;
	}
	if (has_stamps(packet))
		peer->stamp_us = now_us;
}

/* Jacobson and Karels, 1988; RFC 6298. */
void ripc__peer_rtt(struct peer *peer, uint64_t sample_us)
{
	int64_t sample = sample_us < SAMPLE_MAX_US ? (int64_t)sample_us : SAMPLE_MAX_US;
	int64_t off, far;

	if (sample == 0)
		sample = 1;
	off = sample - peer->srtt_us;
	far = off < 0 ? -off : off;
	if (peer->srtt_us == 0) {
		peer->srtt_us = (uint32_t)sample;
		peer->rttvar_us = (uint32_t)sample / 2;
		peer->rtt_min_us = (uint32_t)sample;
		return;
	}
	peer->srtt_us = (uint32_t)(peer->srtt_us + off / 8);
	peer->rttvar_us = (uint32_t)(peer->rttvar_us + (far - peer->rttvar_us) / 4);
	if (peer->srtt_us == 0)
		peer->srtt_us = 1;
	if (sample < peer->rtt_min_us)
		peer->rtt_min_us = (uint32_t)sample;
	if (peer->flow && (peer->flow->round_min_us == 0 || sample < peer->flow->round_min_us))
		peer->flow->round_min_us = (uint32_t)sample;
}

void ripc__peer_has_read(struct peer *peer, uint64_t took_us)
{
	if (took_us > READING_MAX_US)
		took_us = READING_MAX_US;
	peer->reading_us = (uint16_t)((took_us + peer->reading_us) / 2);
}

/*
 * Several repetitions must fit into the time before a partner is given up. If timeouts mostly
 * mean that a request was lost, waiting costs more than one request too many.
 */
uint32_t ripc__peer_rto(const struct ripc_context *ctx, const struct peer *peer)
{
	uint64_t most = ripc__rto_most_us(ctx);
	uint64_t least = ripc__peer_is_lossy(peer) ? RTO_MIN_US / 2 : RTO_MIN_US;
	uint64_t rto = peer->srtt_us ? 2ull * peer->srtt_us + 4ull * peer->rttvar_us : RTO_FIRST_US;

	most = most < RTO_MAX_US ? most : RTO_MAX_US;
	/* Never before an answer can have arrived. */
	if (most < peer->srtt_us + peer->srtt_us / 4)
		most = ripc__wait_bound(ctx, peer->srtt_us + peer->srtt_us / 4);
	rto = rto < most ? rto : most;
	return (uint32_t)(rto > least ? rto : least);
}

uint32_t ripc__peer_patience(const struct ripc_context *ctx, const struct peer *peer)
{
	return peer->srtt_us ? ripc__peer_rto(ctx, peer) : ripc__wait_bound(ctx, RTO_MAX_US);
}

uint32_t ripc__wait_bound(const struct ripc_context *ctx, uint32_t wait_us)
{
	uint64_t most = ripc__wait_most_us(ctx);

	most = most > RTO_MIN_US ? most : RTO_MIN_US;
	return wait_us < most ? wait_us : (uint32_t)most;
}

uint32_t ripc__back_off(const struct ripc_context *ctx, uint32_t wait_us)
{
	uint32_t most = ripc__wait_bound(ctx, BACK_OFF_MAX_US);

	if (wait_us >= most)
		return wait_us;
	return 2 * wait_us < most ? 2 * wait_us : most;
}

struct ripc__where ripc__peer_where(const struct ripc_context *ctx, const struct peer *peer)
{
	const struct device *device = &ctx->peers.devices[peer->device];
	struct ripc__where where = {0};

	if (device->ops->route.where)
		device->ops->route.where(device->port, peer->route, &where);
	return where;
}

uint32_t ripc__peer_payload(struct ripc_context *ctx, struct peer *peer)
{
	struct device *device = ripc__peer_device(ctx, peer);
	uint32_t route;

	if (peer->shrunk_us && (uint32_t)ctx->now_us - peer->shrunk_us > SHRUNK_US) {
		peer->shrunk_us = 0; /* perhaps it was only loss */
		peer->datagram = 0;
	}
	if (peer->datagram == 0) {
		route = device->ops->route.mtu(device->port, peer->route);
		peer->datagram = route < DATAGRAM_BULK ? route : DATAGRAM_BULK;
	}
	return peer->datagram - WIRE_HEADER - WIRE_DATA_BODY;
}
