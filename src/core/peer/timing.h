/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All times that follow from how long a partner may be silent (peer_timeout_ms). Only time in which
 * we could hear the partner counts as silence: a timer that fires late tells that this process, or
 * the machine, was stopped for so long.
 */
#ifndef RIPC_TIMING_H
#define RIPC_TIMING_H

#include <stdint.h>

#include "core/objects.h"
#include "peer.h"

struct ripc__timer;

#define HINTED_US 250000u
#define DOUBTED_US 60000u
#define LEAP_US 250000u /* if a timer is later than this, we were stopped, not only busy */

/* A partner is given up when it has said nothing about a message for so long. */
static inline uint64_t ripc__silence_us(const struct ripc_context *ctx)
{
	return 1000ull * ctx->cfg.peer_timeout_ms;
}

/* After so much silence another network is tried. */
static inline uint64_t ripc__silence_of_route_us(const struct ripc_context *ctx)
{
	return ripc__silence_us(ctx) / 4;
}

/* After so much silence a partner is asked whether it is still at its address. */
static inline uint64_t ripc__silence_of_address_us(const struct ripc_context *ctx)
{
	return ripc__silence_us(ctx) / 64;
}

/* After so much silence a write, or a read not begun, is given up: the bytes are sent. */
static inline uint64_t ripc__silence_of_move_us(const struct ripc_context *ctx)
{
	return ripc__silence_us(ctx) / 8;
}

/* A read that has begun, or that waits for its checksum, may make no progress for so long. */
static inline uint64_t ripc__silence_of_read_us(const struct ripc_context *ctx)
{
	return ripc__silence_us(ctx) / 2;
}

/* The longest wait between two repetitions: several must fit into the silence. */
static inline uint64_t ripc__wait_most_us(const struct ripc_context *ctx)
{
	return ripc__silence_us(ctx) / 8;
}

/* The longest repetition time; a partner that was silent for so long may have gone. */
static inline uint64_t ripc__rto_most_us(const struct ripc_context *ctx)
{
	return ripc__silence_us(ctx) / 16;
}

/* If a hint says that a peer is gone, the peer is asked three times, and may be silent so long. */
static inline uint64_t ripc__silence_of_hinted_us(const struct peer *peer)
{
	uint64_t trips = 3ull * (peer->srtt_us + 4ull * peer->rttvar_us);

	return trips > HINTED_US ? trips : HINTED_US;
}

/* A partner that was asked whether it is there, and is silent for so long: its host is asked. */
static inline uint64_t ripc__silence_of_doubted_us(const struct peer *peer)
{
	uint64_t trips = 2ull * (peer->srtt_us + 4ull * peer->rttvar_us);

	return trips > DOUBTED_US ? trips : DOUBTED_US;
}

/*
 * heard_us, from which silence counts: moved on by the delay of a timer that fired so late that
 * this process must have been stopped.
 */
static inline uint64_t ripc__heard_us(const struct ripc_context *ctx,
		const struct ripc__timer *fired, uint64_t heard_us)
{
	uint64_t late = ctx->now_us - fired->at_us;

	if (ctx->now_us < fired->at_us || late < LEAP_US)
		return heard_us;
	return heard_us + late < ctx->now_us ? heard_us + late : ctx->now_us;
}

#endif
