/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets to partners and strangers: header, extensions, acks. */
#include <errno.h>

#include "core/base/base.h"
#include "core/objects.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "core/wire/wire.h"
#include "packet.h"
#include "partner.h"
#include "util/list.h"
#include "util/system/cancel.h"

void ripc__partner_header_bare(struct partner *partner, struct wire_packet *packet, uint8_t type)
{
	struct wire_header *h = &packet->h;

	h->version = WIRE_VERSION;
	h->type = type;
	h->src = partner->service->incarnation;
	h->dst = partner->incarnation;
	h->token = partner->token_out;
}

/* The pending ack. The ack also speaks for all messages that were delivered shortly before. */
static struct wire_ack ack_take(struct partner *partner)
{
	struct wire_ack ack = {.number = partner->ack_number, .status = partner->ack_status};
	const struct longs *longs = ripc__longs_of(partner, ack.number);
	int64_t shift = (int64_t)(longs->in_oldest + 64 - ack.number);

	if (shift >= 0 && shift < 64)
		ack.also = longs->in_delivered << shift;
	else if (shift < 0 && shift > -64)
		ack.also = longs->in_delivered >> -shift;
	partner->ack_number = 0;
	list_remove(&partner->ack_node);
	return ack;
}

void ripc__partner_header(struct partner *partner, struct wire_packet *packet, uint8_t type)
{
	struct ripc_service *service = partner->service;
	struct ripc_context *ctx = service->ctx;
	struct wire_header *h = &packet->h;

	ripc__partner_header_bare(partner, packet, type);
	if (packet->lends)
		h->flags |= WIRE_F_LENDS;
	if (packet->replies)
		h->flags |= WIRE_F_REPLIES;
	if (packet->n_returns)
		h->flags |= WIRE_F_RETURNS;
	if (packet->call.kind)
		h->flags |= WIRE_F_CALL;
	if ((!partner->known || !partner->token_out) && type != WIRE_DATA) {
		h->flags |= WIRE_F_HELLO;
		packet->hello = (struct wire_hello){.token = partner->token_in,
			.service = service->id, .context = ctx->incarnation,
			.to_service = partner->id, .proof = partner->proof,
			.unasked = ctx->peers.quota_max[SHARE_CREDIT] / 8 < UNASKED_BYTES ?
				(uint32_t)(ctx->peers.quota_max[SHARE_CREDIT] / 8) : UNASKED_BYTES};
	}
	if (partner->ack_number && type != WIRE_DATA && type != WIRE_ANSWER) {
		h->flags |= WIRE_F_ACK;
		packet->ack = ack_take(partner);
		ripc__point(ctx, "after_done");
	}
	ripc__stamps_put(ctx, partner->peer, packet);
}

int ripc__packet_send(struct partner *partner, struct wire_packet *packet)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct device *device = ripc__peer_device(ctx, partner->peer);
	uint8_t bytes[WIRE_PREFIX_MAX + 16 * WIRE_HOLES_MAX];
	struct iovec iov = {.iov_base = bytes};
	struct ripc__tx tx = {.iov = &iov, .n_iov = 1};
	int n;

	iov.iov_len = wire_encode(bytes, packet, NULL, NULL);
	ripc__put_crc(device, bytes, iov.iov_len, 0);
	tx.len = (uint32_t)iov.iov_len;
	n = ripc__partner_transmit(partner, &tx, 1);
	return n == 1 ? 0 : n == 0 ? -EAGAIN : n;
}

int ripc__partner_send(struct partner *partner, struct wire_packet *packet, uint8_t type)
{
	ripc__partner_header(partner, packet, type);
	return ripc__packet_send(partner, packet);
}

void ripc__partner_greet(struct partner *partner)
{
	struct wire_packet hello = {0};

	ripc__partner_send(partner, &hello, WIRE_HELLO_ONLY);
}

int ripc__partner_echo(struct partner *partner, uint64_t nonce)
{
	struct wire_packet packet;

	wire_clear(&packet);
	packet.value = nonce;
	packet.stamp = partner->service->ctx->now_us;
	return ripc__partner_send(partner, &packet, WIRE_ECHO);
}

void ripc__partner_sound(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;

	if (peer->opening)
		return;
	ripc__peer_sounded(ctx, peer);
	ripc__partner_echo(partner, ripc__nonce(ctx));
}

void ripc__stranger_send(struct ripc_context *ctx, struct device *device,
		const struct ripc__addr *to, struct wire_packet *packet, uint32_t received_len)
{
	RIPC__HOLD_CANCEL;
	_Alignas(16) char route[256] = {0};
	uint8_t bytes[WIRE_HEADER_MAX + 64];
	struct iovec iov = {.iov_base = bytes};
	struct ripc__tx tx = {.iov = &iov, .n_iov = 1};
	int error;

	packet->h.version = WIRE_VERSION;
	iov.iov_len = wire_encode(bytes, packet, NULL, NULL);
	ripc__put_crc(device, bytes, iov.iov_len, 0);
	tx.len = (uint32_t)iov.iov_len;
	if (tx.len > received_len || device->ops->route_size > sizeof(route) ||
			!ripc__bucket_take(&ctx->partners.strangers, ctx->now_us))
		return;
	error = device->ops->route.open(device->port, route, to);
	if (error && error != -EINPROGRESS)
		return;
	/* While the path is resolved, the backend may keep this datagram. */
	if (device->ops->datagrams.send(device->port, route, &tx, 1) == 1)
		ctx->stats.datagrams_sent++;
	device->ops->route.close(device->port, route);
}

bool ripc__partner_named(const struct partner *partner, const struct device *device,
		const struct ripc__answer *answer, uint32_t at, struct ripc__addr *addr)
{
	return ripc__route_named(device, answer, at, addr) &&
		(!partner->service->ctx->seal || ripc__sealed_same(partner->peer->route, addr));
}

void ripc__partner_echo_to(struct partner *partner, const struct ripc__answer *answer,
		uint64_t nonce, bool is_claim)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct ripc__addr addr;

	for (uint32_t d = 0; d < ctx->peers.n_devices; d++) {
		struct device *device = &ctx->peers.devices[d];

		for (uint32_t i = 0; i < answer->record.n_addrs; i++) {
			struct wire_packet echo;

			if (!(is_claim ? ripc__route_named(device, answer, i, &addr) :
					ripc__partner_named(partner, device, answer, i, &addr)))
				continue;
			wire_clear(&echo);
			echo.value = nonce;
			echo.stamp = is_claim ? 0 : ctx->now_us;
			ripc__partner_header_bare(partner, &echo, WIRE_ECHO);
			ripc__stranger_send(ctx, device, &addr, &echo, WIRE_HEADER_MAX);
		}
	}
}

static void ack_send(struct partner *partner)
{
	struct wire_packet packet;

	wire_clear(&packet);
	packet.ack = ack_take(partner);
	packet.h.number = packet.ack.number;
	ripc__partner_send(partner, &packet, WIRE_ANSWER);
	ripc__point(partner->service->ctx, "after_done");
}

void ripc__ack_queue(struct partner *partner, uint64_t number, int status)
{
	struct ripc_context *ctx = partner->service->ctx;

	if (partner->ack_number && status == 0 &&
			(partner->ack_number < WIRE_REPLIES) == (number < WIRE_REPLIES)) {
		if (partner->ack_number < number)
			partner->ack_number = number;
		return;
	}
	if (partner->ack_number)
		ack_send(partner);
	partner->ack_number = number;
	partner->ack_status = (uint16_t)-status & 0xfff;
	if (list_empty(&ctx->receives.acks))
		ctx->receives.acks_due_us = ctx->now_us + ACK_DELAY_US;
	list_append(&ctx->receives.acks, &partner->ack_node);
	if (status)
		ack_send(partner);
}

void ripc__acks_flush(struct ripc_context *ctx)
{
	while (!list_empty(&ctx->receives.acks))
		ack_send(list_entry(ctx->receives.acks.next, struct partner, ack_node));
}
