/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All calls from a layer to a layer above it. Every other call leads down, or stays in its layer
 * (docs/design.md, Layers). Each is made at once, before the change goes on.
 */
#ifndef RIPC_EVENTS_H
#define RIPC_EVENTS_H

#include <stdbool.h>

struct device;
struct peer;
struct ripc__event;
struct ripc_context;

/* peer/peer.c to partner/roam.c: the peer is in ctx->peers.all, and has no partner yet. */
void ripc__peer_met(struct ripc_context *ctx, struct peer *peer);
/* peer/peer.c to partner/roam.c: the last partner of the peer has left it. */
void ripc__peer_left(struct ripc_context *ctx, struct peer *peer);
/*
 * keys/seal.c to engine/input.c: the directory of keys has changed, or a right has ended. A partner
 * whose key may not use its ID any more is lost when the next handshake has ended. Until then it
 * may send only replies.
 */
void ripc__rights_changed(struct ripc_context *ctx);
/*
 * keys/seal.c to engine/loop.c: a separate thread reads the directory of keys again. In a context
 * that must have no threads, the calling thread reads the directory at once.
 */
void ripc__reread_begin(struct ripc_context *ctx);
/* partner/roam.c to engine/input.c: a handshake has ended. event: RIPC_EV_PEER, with keys. */
void ripc__handshake_ended(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event);
/* partner/partner.c to engine/loop.c: there is a first partner. A sleeper must wake to sweep. */
void ripc__wake_for_sweep(struct ripc_context *ctx);
/*
 * partner/death.c to engine/loop.c: takes in all datagrams that have come by now. False: a reader
 * sleeps in a port, and must wake first.
 */
bool ripc__ports_drain(struct ripc_context *ctx);
/* group/mcast_in.c to engine/wait.c: the device has a second descriptor to sleep on. */
void ripc__port_widened(struct ripc_context *ctx, const struct device *device);

#endif
