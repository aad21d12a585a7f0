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

/* Never 0. */
static uint32_t stamp_at(uint32_t now_us)
{
	return now_us ? now_us : 1;
}

/* Two clocks may differ by some hundred microseconds in a second: what waited for long tells
 * nothing of a short path. 0: there is no echo. */
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
 * Several repetitions must fit into what a silent partner is given. Where silence mostly means
 * that a request was lost, waiting costs more than asking once too often.
 */
uint32_t ripc__peer_rto(const struct ripc_context *ctx, const struct peer *peer)
{
	uint64_t most = ripc__rto_most_us(ctx);
	uint64_t least = ripc__peer_is_lossy(peer) ? RTO_MIN_US / 2 : RTO_MIN_US;
	uint64_t rto = peer->srtt_us ? 2ull * peer->srtt_us + 4ull * peer->rttvar_us : RTO_FIRST_US;

	most = most < RTO_MAX_US ? most : RTO_MAX_US;
	/* But never before an answer can have come. */
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
