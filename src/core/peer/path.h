/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path to a peer as it was measured, and the times and sizes that follow: round trips,
 * repetition times, the size of datagrams.
 */
#ifndef RIPC_PATH_H
#define RIPC_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/keys/sealed.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/wire/encode.h"
#include "core/wire/wire.h"
#include "devices.h"
#include "peer.h"

#define TICK_US            10000u
#define PIECES_MAX         4096u  /* pieces of a message that came before bytes in front of them */
#define RTO_MIN_US         500u
#define BACK_OFF_MAX_US    1000000u /* a doubled wait is at most this, and ripc__wait_most_us() */
#define RTO_MAX_US         250000u  /* a repetition time is at most this, and ripc__rto_most_us() */
#define RTO_FIRST_US       3000u
#define READING_MAX_US     50000u  /* a longer reading counts as this long */
#define DATAGRAM_BASE      1232u  /* passes everywhere: IPv6's least MTU minus headers */
#define DATAGRAM_BULK      32500u /* larger ones gain nothing: two fill an offload batch */

/* The longest datagram that passes everywhere: a seal takes its part. */
static inline uint32_t ripc__datagram_base(const struct ripc_context *ctx)
{
	return ctx->seal ? DATAGRAM_BASE - SEALED_BYTES : DATAGRAM_BASE;
}

static inline struct device *ripc__peer_device(struct ripc_context *ctx, struct peer *peer)
{
	return &ctx->devices[peer->device];
}

static inline bool ripc__is_intact(const struct device *device)
{
	return device->attr.caps & RIPC_CAP_INTACT;
}

/* An encoded prefix gets its checksum, where the device needs one. */
static inline void ripc__put_crc(const struct device *device, void *prefix, size_t len,
		uint32_t crc)
{
	if (!ripc__is_intact(device))
		wire_seal(prefix, len, crc);
}

/*
 * Stamps measure round trips beyond doubt, even where packets were repeated: a packet returns its
 * receiver's last stamp, and how long ago that stamp came (protocol.md, round trips). The first
 * function puts stamps into a packet that leaves, the second takes them from a packet that came.
 * Both read the clock anew, once for a packet.
 */
void ripc__stamps_put(const struct ripc_context *ctx, const struct peer *peer,
		struct wire_packet *packet);
void ripc__stamps_take(const struct ripc_context *ctx, struct peer *peer,
		const struct wire_packet *packet);
/* Takes the echo of a DATA packet: once per look at the port is enough. */
void ripc__data_echo_take(const struct ripc_context *ctx, struct peer *peer, uint32_t echo);
void ripc__peer_rtt(struct peer *peer, uint64_t sample_us);
/* The peer has read a message of ours; took_us: the time since the announcement. */
void ripc__peer_has_read(struct peer *peer, uint64_t took_us);
uint32_t ripc__peer_rto(const struct ripc_context *ctx, const struct peer *peer);
/*
 * How long to wait for bytes that were asked for: long enough for a long path if no round trip is
 * known.
 */
uint32_t ripc__peer_patience(const struct ripc_context *ctx, const struct peer *peer);
/* Bounds wait_us: several waits must fit into the time that a partner may be silent. */
uint32_t ripc__wait_bound(const struct ripc_context *ctx, uint32_t wait_us);
/* The wait after one that ended in silence: twice as long, within its bounds. */
uint32_t ripc__back_off(const struct ripc_context *ctx, uint32_t wait_us);
uint32_t ripc__peer_payload(struct ripc_context *ctx, struct peer *peer);

#endif
