/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of the path to a peer: round trips, repetition times, and the datagram size for
 * bulk. window.c has the bytes that may be in flight, route.c where the path leads.
 */
#include "core/wire/wire.h"
#include "path.h"
#include "timing.h"
#include "window.h"

#define SHRUNK_US  30000000u /* after so long the route's datagram size is tried again */
#define ECHO_US    50000u    /* an older stamp is not given back */
#define SAMPLE_MAX_US 10000000u /* a round trip that took longer is none */

/* ---- round trips ------------------------------------------------------------------------- */

static uint32_t clock_now(const struct ripc_context *ctx)
{
	return (uint32_t)ctx->env.now_us(ctx->env.arg);
}

uint32_t ripc__stamp(const struct ripc_context *ctx)
{
	uint32_t stamp = clock_now(ctx);

	return stamp ? stamp : 1;
}

/* Two clocks may differ by some hundred microseconds in a second: what waited for long tells
 * nothing of a short path. */
uint32_t ripc__echo(const struct ripc_context *ctx, const struct peer *peer)
{
	uint32_t waited_us = clock_now(ctx) - peer->stamp_us, echo = peer->stamp + waited_us;

	if (peer->stamp == 0 || waited_us > ECHO_US)
		return 0;
	return echo ? echo : 1;
}

void ripc__stamps_put(const struct ripc_context *ctx, const struct peer *peer,
		struct wire_packet *packet)
{
	if (packet->h.type == WIRE_ANNOUNCE) {
		packet->announce.stamp = ripc__stamp(ctx);
		packet->announce.echo = ripc__echo(ctx, peer);
	} else if (packet->h.type == WIRE_PULL) {
		packet->pull.stamp = ripc__stamp(ctx);
		packet->pull.echo = ripc__echo(ctx, peer);
	} else if (packet->h.type == WIRE_DATA) {
		packet->echo = ripc__echo(ctx, peer);
	}
	if (packet->h.type == WIRE_ANSWER || packet->h.flags & WIRE_F_ACK)
		packet->ack.echo = ripc__echo(ctx, peer);
}

static void stamp_take(const struct ripc_context *ctx, struct peer *peer, uint32_t stamp)
{
	peer->stamp = stamp;
	peer->stamp_us = clock_now(ctx);
}

void ripc__echo_take(const struct ripc_context *ctx, struct peer *peer, uint32_t echo)
{
	uint32_t sample_us = clock_now(ctx) - echo;

	if (echo && sample_us <= SAMPLE_MAX_US)
		ripc__peer_rtt(peer, sample_us);
}

void ripc__data_echo_take(const struct ripc_context *ctx, struct peer *peer, uint32_t echo)
{
	if (echo && peer->arrived_us != (uint32_t)ctx->now_us)
		ripc__echo_take(ctx, peer, echo);
}

void ripc__stamps_take(const struct ripc_context *ctx, struct peer *peer,
		const struct wire_packet *packet)
{
	if (packet->h.flags & WIRE_F_ACK || packet->h.type == WIRE_ANSWER)
		ripc__echo_take(ctx, peer, packet->ack.echo);
	if (packet->h.type == WIRE_ANNOUNCE) {
		ripc__echo_take(ctx, peer, packet->announce.echo);
		stamp_take(ctx, peer, packet->announce.stamp);
	} else if (packet->h.type == WIRE_PULL) {
		ripc__echo_take(ctx, peer, packet->pull.echo);
		stamp_take(ctx, peer, packet->pull.stamp);
	}
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
 * Several repetitions must fit into what a silent partner is given. Where silence mostly means
 * that a request was lost, waiting costs more than asking once too often.
 */
uint32_t ripc__peer_rto(const struct ripc_context *ctx, const struct peer *peer)
{
	uint64_t most = ripc__rto_most_us(ctx);
	uint64_t least = ripc__peer_is_lossy(peer) ? RTO_MIN_US / 2 : RTO_MIN_US;
	uint64_t rto = peer->srtt_us ? 2ull * peer->srtt_us + 4ull * peer->rttvar_us : RTO_FIRST_US;

	most = most < RTO_CAP_US ? most : RTO_CAP_US;
	/* But never before an answer can have come. */
	if (most < peer->srtt_us + peer->srtt_us / 4)
		most = ripc__wait_bound(ctx, peer->srtt_us + peer->srtt_us / 4);
	rto = rto < most ? rto : most;
	return (uint32_t)(rto > least ? rto : least);
}

uint32_t ripc__peer_patience(const struct ripc_context *ctx, const struct peer *peer)
{
	return peer->srtt_us ? ripc__peer_rto(ctx, peer) : ripc__wait_bound(ctx, RTO_CAP_US);
}

uint32_t ripc__wait_bound(const struct ripc_context *ctx, uint32_t wait_us)
{
	uint64_t most = ripc__wait_most_us(ctx);

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
