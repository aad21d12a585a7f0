/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of the path to a peer, and what follows from it: round trips, repetition times,
 * the window, the size of datagrams. Included by core.h, whose objects it speaks of.
 */
#ifndef RIPC_PATH_H
#define RIPC_PATH_H

#include "core.h"

static inline struct device *ripc__peer_device(struct ripc_context *ctx, struct peer *peer)
{
	return &ctx->devices[peer->device];
}

static inline bool ripc__is_intact(const struct device *device)
{
	return device->attr.caps & RIPC_CAP_INTACT;
}

/* An encoded prefix gets its checksum, where the device needs one. */
static inline void ripc__seal(const struct device *device, void *prefix, size_t len, uint32_t crc)
{
	if (!ripc__is_intact(device))
		wire_seal(prefix, len, crc);
}

/* What the device said (0 or a negative errno), as its callers know it; the route may be broken. */
int ripc__transmit_failed(struct ripc_context *ctx, struct peer *peer, int why);

/* Sends datagrams to a partner; returns how many, or an error. A broken route is replaced soon. */
static inline int ripc__partner_transmit(struct partner *partner, const struct ripc__tx *tx,
		uint32_t n)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	struct device *device = ripc__peer_device(ctx, peer);
	int sent = peer->opening ? 0 : device->ops->send(device->port, peer->route, tx, n);

	if (sent <= 0)
		return ripc__transmit_failed(ctx, peer, sent);
	ctx->stats.datagrams_sent += (uint32_t)sent;
	return sent;
}

/*
 * Stamps tell round trips beyond doubt, whatever was repeated: a packet gives back its receiver's
 * last stamp, and how long ago that came (protocol.md, round trips). Either reads the clock anew.
 */
uint32_t ripc__stamp(const struct ripc_context *ctx); /* never 0 */
uint32_t ripc__echo(const struct ripc_context *ctx, const struct peer *peer); /* 0: none */
/* What a packet of this type says of time, before it is sent; and what one has said that came. */
void ripc__stamps_put(const struct ripc_context *ctx, const struct peer *peer,
		struct wire_packet *packet);
void ripc__stamps_take(const struct ripc_context *ctx, struct peer *peer,
		const struct wire_packet *packet);
/* Of a DATA packet: once per look at the port is enough. */
void ripc__data_echo_take(const struct ripc_context *ctx, struct peer *peer, uint32_t echo);
void ripc__echo_take(const struct ripc_context *ctx, struct peer *peer, uint32_t echo);
void ripc__peer_rtt(struct peer *peer, uint64_t sample_us);
/* It has read a message of ours, so long after it was told of it. */
void ripc__peer_has_read(struct peer *peer, uint64_t took_us);
uint32_t ripc__peer_rto(const struct ripc_context *ctx, const struct peer *peer);
/* For bytes that were asked for: where no round trip is known, patient with a long path. */
uint32_t ripc__peer_patience(const struct ripc_context *ctx, const struct peer *peer);
/* Or less, as several waits must fit into what a silent partner is given. */
uint32_t ripc__wait_bound(const struct ripc_context *ctx, uint32_t wait_us);
uint32_t ripc__back_off(const struct ripc_context *ctx, uint32_t wait_us);
/* ---- window.c ---------------------------------------------------------------------------- */
/* Does the path lose so much that lost requests, too, are everyday? */
bool ripc__peer_is_lossy(const struct peer *peer);
/* Of so many bytes in flight, how many may arrive at once; and the other way round. */
uint64_t ripc__peer_at_once(const struct peer *peer, uint64_t in_flight);
uint64_t ripc__peer_over_time(const struct peer *peer, uint64_t at_once);
/* New bytes arrived; bytes were found lost (0: silence). */
void ripc__peer_grow(struct ripc_context *ctx, struct peer *peer, uint32_t bytes);
/* How many bytes may be granted now, for the granted not to come all at once; they were. */
uint64_t ripc__peer_pace(struct ripc_context *ctx, struct peer *peer, uint64_t burst);
void ripc__peer_paced(struct peer *peer, uint64_t bytes);
uint32_t ripc__peer_window(struct ripc_context *ctx, struct peer *peer);
void ripc__peer_cut(struct ripc_context *ctx, struct peer *peer, uint64_t lost_bytes);
/* What was taken for a loss had only been late. */
void ripc__peer_reorders(struct peer *peer);
/* ---- path.c ------------------------------------------------------------------------------ */
uint32_t ripc__peer_payload(struct ripc_context *ctx, struct peer *peer);
/* A packet came from elsewhere than where the route leads: prove it, then go there. */
void ripc__peer_echo_reply(struct partner *partner, const struct wire_packet *packet,
		struct device *device, const struct ripc__addr *from);
void ripc__peer_candidate_free(struct peer *peer);
int ripc__path_fill(struct partner *partner, struct ripc_path *path);
/* others.c: what ripc_path.others says; none: of a service that no network leads to. */
void ripc__path_others(struct partner *partner, char *bytes, size_t size);
void ripc__path_none(struct ripc_context *ctx, uint64_t id, struct ripc_path *path);

#endif
