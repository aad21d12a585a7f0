/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets to partners and strangers. */
#ifndef RIPC_PACKET_H
#define RIPC_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"
#include "core/peer/peer.h"
#include "partner.h"

struct ripc__answer;

/*
 * A handler for packets of a partner, called after the packet was verified. A room's table names
 * the handlers of the types that the room takes, by enum wire_type; the others are NULL.
 */
typedef void packet_handler(struct partner *partner, const struct wire_packet *packet);

/* Fills in the header and the extensions that every packet to this partner has. */
void ripc__partner_header(struct partner *partner, struct wire_packet *packet, uint8_t type);
/* Only the header: an address that is not proven gets no more bytes than it sent. */
void ripc__partner_header_bare(struct partner *partner, struct wire_packet *packet, uint8_t type);
/* Fills in the header, then encodes, seals and sends a packet without payload to a partner. */
int ripc__partner_send(struct partner *partner, struct wire_packet *packet, uint8_t type);
/* The same with a header that is filled in already. */
int ripc__packet_send(struct partner *partner, struct wire_packet *packet);
/* Sends our hello alone. */
void ripc__partner_greet(struct partner *partner);
/* Sends an echo with this nonce by the partner's route. */
int ripc__partner_echo(struct partner *partner, uint64_t nonce);
/* Sends a query whether the partner is there. Any packet of the partner answers it. */
void ripc__partner_sound(struct partner *partner);
/*
 * Sends an echo with the partner's token to each address in the answer. is_claim: the echo tests
 * the partner's claim; otherwise, with keys, only addresses of the same member count.
 */
void ripc__partner_echo_to(struct partner *partner, const struct ripc__answer *answer,
		uint64_t nonce, bool is_claim);
/* Fills in address number at of the answer, for a device. With keys, only of the same member. */
bool ripc__partner_named(const struct partner *partner, const struct device *device,
		const struct ripc__answer *answer, uint32_t at, struct ripc__addr *addr);
/*
 * Sends to an address to which no proven route leads: an answer to a stranger, or an address
 * token that is requested or sent. received_len: bytes of the packet that this answers; no more
 * bytes are sent.
 */
void ripc__stranger_send(struct ripc_context *ctx, struct device *device,
		const struct ripc__addr *to, struct wire_packet *packet, uint32_t received_len);
/* An ack is due: the next packet carries it, or it is sent alone before a thread sleeps. */
void ripc__ack_queue(struct partner *partner, uint64_t number, int status);
void ripc__acks_flush(struct ripc_context *ctx);

/*
 * Sends datagrams by the peer's route, which is open; returns how many, or an error. A broken route
 * is soon replaced.
 */
static inline __attribute__((always_inline)) int ripc__route_transmit(struct ripc_context *ctx,
		struct peer *peer, struct device *device, const struct ripc__tx *tx, uint32_t n)
{
	int sent = device->ops->datagrams.send(device->port, peer->route, tx, n);

	if (sent <= 0)
		return ripc__transmit_failed(ctx, peer, sent);
	ctx->stats.datagrams_sent += (uint32_t)sent;
	return sent;
}

/* The same by the route to a partner; while that is being opened nothing is sent. */
static inline int ripc__partner_transmit(struct partner *partner, const struct ripc__tx *tx,
		uint32_t n)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;

	if (peer->opening)
		return ripc__transmit_failed(ctx, peer, 0);
	return ripc__route_transmit(ctx, peer, ripc__peer_device(ctx, peer), tx, n);
}

#endif
