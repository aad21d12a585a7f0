/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of the path to a peer: round trips, the window of bytes that may be in flight
 * from it, and the datagram size for bulk. route.c has where it leads.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

#define WINDOW_MIN  (8 * DATAGRAM_BASE)
#define QUEUEING_US 1000u /* a full window that waits only for its receiver takes so long */
#define LOSS_MOST   550u  /* of 1024: more is congestion, even without a queue */
#define LOSSY       51u   /* of 1024: beyond that the path loses, and with it requests */
#define SILENCES_MOST 4u  /* in a row on such a path: that all were lost by chance is unlikely */
#define PROOFS_MOST 4u    /* that such a path reorders: bytes asked for in vain are common there */
#define REORDER_MOST   3u /* patience ends at two round trips */
#define CUTS_TO_FORGET 16u
#define SHRUNK_US  30000000u /* after so long the route's datagram size is tried again */

/* Does the path lose so much that lost requests, too, are everyday? */
static bool is_lossy(const struct peer *peer)
{
	return peer->loss > LOSSY;
}

/*
 * Jacobson and Karels, 1988; RFC 6298. A doubtful sample, of bytes that may have been sent twice,
 * is at worst too long: better than none, until there is a good one. Where requests get lost, a
 * sample may contain the wait for the next one: it counts as half as long again, so that waits do
 * not make the next waits longer, while a path that did become longer is soon known to be.
 */
void ripc__peer_rtt(struct peer *peer, uint64_t sample_us, bool doubtful)
{
	int64_t sample = sample_us < RTO_MAX_US ? (int64_t)sample_us : RTO_MAX_US;
	int64_t most = peer->srtt_us + peer->srtt_us / 2 + 1;
	int64_t off, far;

	if (doubtful && peer->srtt_us)
		return;
	if (peer->srtt_us && is_lossy(peer) && sample > most)
		sample = most;
	if (sample == 0)
		sample = 1;
	off = sample - peer->srtt_us;
	far = off < 0 ? -off : off;
	if (peer->srtt_us == 0 || peer->rtt_doubtful) {
		peer->rtt_doubtful = doubtful;
		peer->srtt_us = (uint32_t)sample;
		peer->rttvar_us = doubtful ? 0 : (uint32_t)sample / 2;
		peer->rtt_min_us = (uint32_t)sample;
		return;
	}
	peer->srtt_us = (uint32_t)(peer->srtt_us + off / 8);
	peer->rttvar_us = (uint32_t)(peer->rttvar_us + (far - peer->rttvar_us) / 4);
	if (peer->srtt_us == 0)
		peer->srtt_us = 1;
	if (sample < peer->rtt_min_us)
		peer->rtt_min_us = (uint32_t)sample;
}

void ripc__peer_has_read(struct peer *peer, uint64_t took_us)
{
	if (took_us > READING_MAX_US)
		took_us = READING_MAX_US;
	peer->reading_us = ((uint32_t)took_us + peer->reading_us) / 2;
}

/*
 * Several repetitions must fit into what a silent partner is given. Where silence mostly means
 * that a request was lost, waiting costs more than asking once too often.
 */
uint32_t ripc__peer_rto(const struct ripc_context *ctx, const struct peer *peer)
{
	uint64_t most = 1000ull * ctx->cfg.peer_timeout_ms / 16;
	uint64_t least = is_lossy(peer) ? RTO_MIN_US / 2 : RTO_MIN_US;
	uint64_t rto = peer->srtt_us ? 2ull * peer->srtt_us + 4ull * peer->rttvar_us : RTO_FIRST_US;

	most = most < RTO_CAP_US ? most : RTO_CAP_US;
	rto = rto < most ? rto : most;
	return (uint32_t)(rto > least ? rto : least);
}

uint32_t ripc__wait_bound(const struct ripc_context *ctx, uint32_t wait_us)
{
	uint64_t most = 1000ull * ctx->cfg.peer_timeout_ms / 8;

	most = most > RTO_MIN_US ? most : RTO_MIN_US;
	return wait_us < most ? wait_us : (uint32_t)most;
}

/* The next wait after one that ended in silence. */
uint32_t ripc__back_off(const struct ripc_context *ctx, uint32_t wait_us)
{
	uint32_t most = ripc__wait_bound(ctx, RTO_MAX_US);

	if (wait_us >= most)
		return wait_us;
	return 2 * wait_us < most ? 2 * wait_us : most;
}

/* Do our bytes, or somebody's, wait in a queue on the way? */
static bool is_queueing(const struct peer *peer)
{
	return peer->srtt_us > 2 * peer->rtt_min_us + QUEUEING_US;
}

/*
 * Doubling until a queue builds up; then by one datagram a round trip beside others in the queue
 * (as TCP does: Jacobson, 1988), by a sixteenth where there is none.
 */
void ripc__peer_grow(struct peer *peer, uint32_t bytes)
{
	uint32_t step = DATAGRAM_BASE;

	peer->epoch_got += bytes;
	peer->silences = 0;
	if (peer->slow_start && is_queueing(peer))
		peer->slow_start = false;
	if (!is_queueing(peer) && peer->window / 16 > step)
		step = peer->window / 16;
	if (peer->slow_start)
		peer->window += bytes;
	else
		peer->window += (uint32_t)((uint64_t)bytes * step / peer->window);
	if (peer->window > WINDOW_MAX)
		peer->window = WINDOW_MAX;
}

uint32_t ripc__peer_window(struct ripc_context *ctx, struct peer *peer)
{
	uint32_t most = ripc__peer_device(ctx, peer)->attr.peer_buffer;

	return most && most < peer->window ? most : peer->window;
}

/* The share of bytes that get lost, smoothed over some round trips, in 1/1024. */
static void loss_measure(struct peer *peer)
{
	uint64_t all = (uint64_t)peer->epoch_got + peer->epoch_lost;
	int64_t share = all ? (int64_t)(1024ull * peer->epoch_lost / all) : 0;

	peer->loss = (uint16_t)(peer->loss + (share - peer->loss) / 4);
	peer->epoch_got = peer->epoch_lost = 0;
}

/*
 * Lost bytes are held against the window until they were asked for. One request must be able to
 * name all that a window loses, or what is lost fills the window and nothing new comes.
 */
static void window_bound(struct ripc_context *ctx, struct peer *peer)
{
	uint64_t named = (uint64_t)WIRE_HOLES_MAX * ripc__peer_payload(ctx, peer);

	if (is_lossy(peer) && peer->window > named * 1024 / peer->loss)
		peer->window = (uint32_t)(named * 1024 / peer->loss);
}

/*
 * A loss means congestion if there is a queue, or if very much is lost; without either it is the
 * path that loses, and sending less would not help (docs/rationale.md). Nor does silence mean
 * congestion on a path that loses, unless it lasts: the request or its answer was lost.
 */
static bool is_congestion(struct peer *peer, bool silence)
{
	if (is_queueing(peer))
		return true;
	if (!silence)
		return peer->loss >= LOSS_MOST;
	return !is_lossy(peer) || ++peer->silences >= SILENCES_MOST;
}

void ripc__peer_cut(struct ripc_context *ctx, struct peer *peer, uint64_t lost_bytes)
{
	bool silence = lost_bytes == 0;

	peer->epoch_lost += (uint32_t)lost_bytes;
	/* Before the first round trip is known, silence may just be a long path. */
	if (peer->srtt_us == 0 || ctx->now_us - peer->cut_us < peer->srtt_us)
		return;
	peer->cut_us = ctx->now_us;
	/* Silence says nothing about the share. */
	if (!silence) {
		loss_measure(peer);
		window_bound(ctx, peer);
	}
	if (++peer->cuts == CUTS_TO_FORGET) {
		peer->cuts = peer->proofs = 0;
		peer->reorder -= peer->reorder > 0;
	}
	if (!is_congestion(peer, silence))
		return;
	peer->slow_start = false;
	peer->window_before = peer->window;
	peer->window /= 2;
	if (peer->window < WINDOW_MIN)
		peer->window = WINDOW_MIN;
}

/*
 * On a path that loses, some requests are repeated too early whatever the path does: only several
 * proofs among CUTS_TO_FORGET losses count there. A path that reorders gives one for nearly each.
 */
void ripc__peer_reorders(struct peer *peer)
{
	if (is_lossy(peer) && ++peer->proofs < PROOFS_MOST)
		return;
	peer->proofs = 0;
	if (peer->reorder < REORDER_MOST)
		peer->reorder++;
	peer->cuts = 0;
	if (peer->window < peer->window_before)
		peer->window = peer->window_before;
}

uint32_t ripc__peer_payload(struct ripc_context *ctx, struct peer *peer)
{
	struct device *device = ripc__peer_device(ctx, peer);
	uint32_t route;

	if (peer->shrunk_us && ctx->now_us - peer->shrunk_us > SHRUNK_US) {
		peer->shrunk_us = 0; /* perhaps it was only loss */
		peer->datagram = 0;
	}
	if (peer->datagram == 0) {
		route = device->ops->peer_mtu(device->port, peer->route);
		peer->datagram = route < DATAGRAM_BULK ? route : DATAGRAM_BULK;
	}
	return peer->datagram - WIRE_HEADER - WIRE_DATA_BODY;
}

void ripc__peer_echo_reply(struct partner *partner, const struct wire_packet *packet,
		struct device *device, const struct ripc__addr *from)
{
	struct ripc_context *ctx = partner->service->ctx;

	for (struct ping *ping = ctx->pings; ping; ping = ping->next) {
		if (ping->nonce == packet->value && !ping->done) {
			ping->rtt_us = ctx->now_us - ping->sent_us;
			ping->done = true;
			ctx->changed = true;
		}
	}
	ripc__route_proven(partner, packet->value, device, from);
}

int ripc__path_fill(struct partner *partner, struct ripc_path *path)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	struct ripc_path own = {.size = path->size};
	struct device *device;
	struct ripc__addr addr = {0};

	if (!peer)
		return -ENOENT;
	device = ripc__peer_device(ctx, peer);
	strncpy(own.backend, device->ops->name, sizeof(own.backend) - 1);
	strncpy(own.bulk, device->attr.caps & RIPC_CAP_READ ? device->ops->name : "pull",
		sizeof(own.bulk) - 1);
	if (device->ops->peer_addr) {
		device->ops->peer_addr(device->port, peer->route, &addr);
		device->ops->addr_text(&addr, own.address);
	}
	own.short_max_bytes = ripc__short_max(partner);
	own.datagram_bytes = ripc__peer_payload(ctx, peer) + WIRE_HEADER + WIRE_DATA_BODY;
	own.rtt_us = peer->srtt_us;
	own.incarnation = partner->incarnation;
	ripc__path_others(partner, own.others, sizeof(own.others));
	memcpy(path, &own, path->size < sizeof(own) ? path->size : sizeof(own));
	return 0;
}
