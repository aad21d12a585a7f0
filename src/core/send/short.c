/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short messages that are sent: one datagram each, unreliable, at most once (protocol.md, numbers).
 *
 * Until a partner has given us its token, copies of the first few are held: they are sent when
 * the partner is found, and again, under the same numbers, when it asks for another proof.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/message/message.h"
#include "core/message/returns.h"
#include "core/net/backend.h"
#include "core/partner/claim.h"
#include "core/partner/find.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/partner/rights.h"
#include "core/peer/peer.h"
#include "core/wire/wire.h"
#include "short.h"
#include "util/hash/crc32c.h"
#include "util/list.h"
#include "util/probe.h"

struct pending_short {
	uint64_t number; /* 0: not sent yet */
	uint64_t since_us; /* since when */
	uint64_t to_incarnation, lends, replies;
	struct wire_call call; /* WIRE_CALL_GROUP: lends is the group; or none */
	uint32_t len, n_items;
	bool direct;     /* for this very partner, even if another owns its ID */
	uint64_t lens[RIPC_ITEMS_MAX];
	uint8_t bytes[];
};

struct pending {
	uint32_t n;
	struct pending_short *shorts[PENDING_MAX];
};

/* Bytes before the payload of a short with so many items and extensions of 8 bytes, at least. */
static uint32_t header_least(uint32_t n_items, uint32_t n_replies)
{
	return WIRE_HEADER + n_replies * WIRE_REPLY + (n_items > 1 ? 2 * n_items : 0);
}

/* The same, with all else that packets to this partner carry now. */
static uint32_t header_len(const struct partner *partner, uint32_t n_items, uint32_t n_replies)
{
	uint32_t hello = partner->known ? 0 : WIRE_HELLO;
	uint32_t ack = partner->ack_number ? WIRE_ACK : 0;

	return header_least(n_items, n_replies) + hello + ack;
}

static uint32_t partner_mtu(struct partner *partner)
{
	struct device *device = ripc__peer_device(partner->service->ctx, partner->peer);

	return device->ops->route.mtu(device->port, partner->peer->route);
}

/* The longest short of one item, once the partner knows us. */
uint32_t ripc__short_max(struct partner *partner)
{
	uint32_t mtu = partner->peer ? partner_mtu(partner) : 0;

	if (mtu <= WIRE_HEADER + WIRE_ACK + RIPC_SHORT_MIN)
		return RIPC_SHORT_MIN;
	return mtu - WIRE_HEADER - WIRE_ACK;
}

static void count_sent(struct ripc_context *ctx, uint64_t bytes)
{
	ctx->stats.short_sent++;
	ctx->stats.short_sent_bytes += bytes;
}

/* The status of one datagram that was sent. */
static int sent(struct ripc_context *ctx, int n)
{
	if (n == 1)
		return 0;
	ctx->stats.drop_send_full++;
	/* A route that has failed is being mended, or its partner will be found to be gone. */
	return n == 0 || n == -ECONNRESET ? -EAGAIN : n;
}

/*
 * items[0] is left free for the header; returns the network's result. hello_apart: the hello was
 * sent separately; a partner that has given us its token need not wait for it.
 */
static int transmit(struct partner *partner, struct wire_packet *packet, struct iovec *iov,
		const uint64_t *lens, bool hello_apart)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct device *device = ripc__peer_device(ctx, partner->peer);
	uint8_t prefix[WIRE_HEADER_MAX + WIRE_RETURNS_LEN(WIRE_RETURNS_MAX) + 2 * RIPC_ITEMS_MAX];
	struct ripc__tx tx = {.iov = iov, .n_iov = packet->n_items + 1};
	uint32_t crc = 0;

	ripc__partner_header(partner, packet, WIRE_SHORT);
	if (hello_apart)
		packet->h.flags &= (uint16_t)~WIRE_F_HELLO;
	tx.len = (uint32_t)wire_encode(prefix, packet, lens, NULL);
	for (uint32_t i = 1; i <= packet->n_items && !ripc__is_intact(device); i++)
		crc = ripc__crc32c(crc, iov[i].iov_base, iov[i].iov_len);
	ripc__put_crc(device, prefix, tx.len, crc);
	RIPC__PROBE(send, RIPC__PROBE_SHORT, partner->service->id, partner->id,
		packet->payload_len);
	iov[0] = (struct iovec){prefix, tx.len};
	tx.len += packet->payload_len;
	return sent(ctx, ripc__partner_transmit(partner, &tx, 1));
}

/* The usual case: one item that fits every path, */
static bool is_plain(const struct iovec *items, uint32_t n_items)
{
	return n_items == 1 && items && items->iov_base && items->iov_len <= RIPC_SHORT_MIN;
}

/* and nothing else to be sent to the partner. */
static bool takes_plain(const struct partner *partner)
{
	return partner->resolved && partner->known && partner->state == PARTNER_READY &&
		!partner->barred && !partner->ack_number && !partner->peer->opening;
}

/* call: NULL if the message is no part of one. */
static inline __attribute__((always_inline)) int send_plain(struct partner *partner,
		const struct iovec *item, const struct short_call *call)
{
	struct ripc_service *service = partner->service;
	struct ripc_context *ctx = service->ctx;
	struct device *device = ripc__peer_device(ctx, partner->peer);
	uint8_t prefix[WIRE_CALL_PLAIN];
	uint32_t len = call ? WIRE_CALL_PLAIN : WIRE_HEADER;
	struct iovec iov[2] = {{prefix, len}, *item};
	struct ripc__tx tx = {iov, 2, len + (uint32_t)item->iov_len};
	const struct wire_header header = {.type = WIRE_SHORT, .src = service->incarnation,
		.dst = partner->incarnation, .token = partner->token_out,
		.number = partner->short_next++};
	int error;

	RIPC__PROBE(send, RIPC__PROBE_SHORT, service->id, partner->id, item->iov_len);
	if (call)
		wire_encode_call(prefix, &header, call->id, &call->is);
	else
		wire_encode_plain(prefix, &header);
	if (!ripc__is_intact(device))
		wire_checksum(prefix, len, ripc__crc32c(0, item->iov_base, item->iov_len));
	ripc__partner_touch(partner);
	error = sent(ctx, ripc__route_transmit(ctx, partner->peer, device, &tx, 1));
	if (!error)
		count_sent(ctx, item->iov_len);
	return error;
}

typedef bool pending_choice(const struct partner *partner, const struct pending_short *copy);

/* Drops the chosen messages. */
static void pending_drop_some(struct partner *partner, pending_choice *chosen, bool count)
{
	struct pending *pending = partner->pending;
	uint32_t kept = 0;

	for (uint32_t i = 0; pending && i < pending->n; i++) {
		struct pending_short *copy = pending->shorts[i];

		if (!chosen(partner, copy)) {
			pending->shorts[kept++] = copy;
			continue;
		}
		if (!copy->number)
			partner->service->ctx->stats.drop_send_unresolved += count;
		free(copy);
	}
	if (pending)
		pending->n = kept;
}

static bool holds_some(const struct partner *partner, pending_choice *chosen)
{
	for (uint32_t i = 0; partner->pending && i < partner->pending->n; i++) {
		if (chosen(partner, partner->pending->shorts[i]))
			return true;
	}
	return false;
}

static bool is_pending(const struct partner *partner, const struct pending_short *copy)
{
	(void)partner;
	return copy != NULL;
}

/*
 * Is the message too old to repeat? It could arrive twice if the partner has forgotten its
 * number.
 */
static bool is_old(const struct partner *partner, const struct pending_short *copy)
{
	return partner->service->ctx->now_us - copy->since_us >= PENDING_US;
}

/* A partner that has only claimed its ID gets only messages that are meant for it alone. */
static bool may_have(const struct partner *partner, const struct pending_short *copy)
{
	return partner->resolved || copy->direct;
}

static bool is_direct(const struct partner *partner, const struct pending_short *copy)
{
	(void)partner;
	return copy->direct;
}

static bool is_by_id(const struct partner *partner, const struct pending_short *copy)
{
	return !is_direct(partner, copy);
}

static int hold(struct partner *partner, const struct ripc_send *request, uint32_t len,
		uint64_t lends, const struct wire_call *call)
{
	struct pending_short *copy;
	uint8_t *at;

	pending_drop_some(partner, is_old, true);
	if (!partner->pending)
		partner->pending = calloc(1, sizeof(*partner->pending));
	if (!partner->pending)
		return -ENOMEM;
	if (partner->pending->n == PENDING_MAX)
		return -EAGAIN;
	copy = malloc(sizeof(*copy) + len);
	if (!copy)
		return -ENOMEM;
	copy->number = 0;
	copy->call = *call;
	copy->since_us = partner->service->ctx->now_us;
	copy->to_incarnation = request->to_incarnation;
	copy->lends = lends;
	copy->replies = request->reply_to;
	copy->direct = request->to_handle;
	copy->len = len;
	copy->n_items = request->n_items;
	at = copy->bytes;
	for (uint32_t i = 0; i < request->n_items; i++) {
		copy->lens[i] = request->items[i].iov_len;
		if (copy->lens[i])
			memcpy(at, request->items[i].iov_base, copy->lens[i]);
		at += copy->lens[i];
	}
	partner->pending->shorts[partner->pending->n++] = copy;
	return 0;
}

static int pending_transmit(struct partner *partner, struct pending_short *copy, bool hello_apart)
{
	struct wire_packet packet = {.n_items = copy->n_items, .payload_len = copy->len,
		.lends = copy->lends, .replies = copy->replies, .call = copy->call};
	struct iovec iov[RIPC_ITEMS_MAX + 1];
	uint8_t *at = copy->bytes;

	if (copy->to_incarnation && copy->to_incarnation != partner->incarnation)
		return -ENOENT;
	if (!copy->replies && partner->barred)
		return -EACCES; /* ripc__pending_send() has checked whether it may be sent */
	if (copy->call.kind && !ripc__may_reach(partner, copy->lends))
		return -EACCES;
	if (!copy->number)
		copy->number = partner->short_next++;
	packet.h.number = copy->number;
	for (uint32_t i = 0; i < copy->n_items; i++) {
		iov[i + 1] = (struct iovec){at, copy->lens[i]};
		at += copy->lens[i];
	}
	return transmit(partner, &packet, iov, copy->lens, hello_apart);
}

/* The extensions of a short message, of 8 bytes each. */
static uint32_t n_extensions(const struct pending_short *copy)
{
	return (copy->lends != 0) + (copy->replies != 0) + (copy->call.kind != 0);
}

static bool fits(struct partner *partner, const struct pending_short *copy)
{
	return header_len(partner, copy->n_items, n_extensions(copy)) + copy->len <=
		partner_mtu(partner);
}

/*
 * Does the message fit without the hello? A partner that has given its token need not wait for
 * that.
 */
static bool fits_apart(struct partner *partner, const struct pending_short *copy)
{
	return partner->state == PARTNER_READY && !partner->known &&
		header_least(copy->n_items, n_extensions(copy)) + copy->len <= partner_mtu(partner);
}

void ripc__pending_send(struct partner *partner)
{
	struct pending *pending = partner->pending;
	bool sent = false;

	if (!holds_some(partner, may_have) || !partner->peer || partner->peer->opening)
		return;
	(void)ripc__may_send_to(partner);
	if (partner->peer->opening)
		return;
	pending_drop_some(partner, is_old, true);
	if (!pending->n) {
		ripc__pending_drop(partner, false);
		return;
	}
	for (uint32_t i = 0; i < pending->n; i++) {
		struct pending_short *copy = pending->shorts[i];

		if (!may_have(partner, copy))
			continue;
		if (fits(partner, copy)) {
			sent |= pending_transmit(partner, copy, false) == 0;
		} else if (fits_apart(partner, copy)) {
			ripc__partner_greet(partner);
			sent |= pending_transmit(partner, copy, true) == 0;
		}
	}
	if (partner->state == PARTNER_READY) {
		/* A message that was not transmitted even now does not fit this path. */
		pending_drop_some(partner, may_have, true);
		if (!pending->n)
			ripc__pending_drop(partner, false);
	} else if (!sent) {
		ripc__partner_greet(partner);
	}
}

void ripc__pending_drop(struct partner *partner, bool count)
{
	pending_drop_some(partner, is_pending, count);
	free(partner->pending);
	partner->pending = NULL;
}

bool ripc__pending_by_id(struct partner *partner)
{
	if (!holds_some(partner, is_by_id))
		return false;
	pending_drop_some(partner, is_direct, true);
	return true;
}

size_t ripc__pending_bytes(const struct partner *partner)
{
	size_t bytes = partner->pending ? sizeof(*partner->pending) : 0;

	for (uint32_t i = 0; partner->pending && i < partner->pending->n; i++)
		bytes += sizeof(struct pending_short) + partner->pending->shorts[i]->len;
	return bytes;
}

/*
 * Keeps a copy for a partner that has not given us its token, or whose route is still being
 * made, and sends it if possible. A partner that has only claimed its ID gets the message when
 * the claim is confirmed, unless the message is meant for that partner alone.
 */
static int send_early(struct partner *partner, const struct ripc_send *request, uint32_t len,
		uint64_t lends, const struct wire_call *call)
{
	int error = hold(partner, request, len, lends, call);
	struct pending_short *copy;

	if (error || !partner->peer || partner->peer->opening)
		return error;
	copy = partner->pending->shorts[partner->pending->n - 1];
	if (!may_have(partner, copy))
		return 0;
	if (fits(partner, copy))
		pending_transmit(partner, copy, false);
	else
		ripc__partner_greet(partner);
	return 0;
}

/* call: NULL if the message is no part of one. */
static int send_ready(struct partner *partner, const struct ripc_send *request, uint32_t len,
		uint64_t lends, const struct wire_call *call)
{
	struct wire_packet packet;
	uint32_t n_replies = (lends != 0) + (request->reply_to != 0) + (call != NULL);
	struct iovec iov[RIPC_ITEMS_MAX + 1];
	uint64_t lens[RIPC_ITEMS_MAX];
	bool hello_apart = false;
	uint32_t used;

	if (request->to_incarnation && request->to_incarnation != partner->incarnation)
		return -ENOENT;
	if (header_len(partner, request->n_items, n_replies) + len > partner_mtu(partner)) {
		/*
		 * Without the hello or an ack the message may fit: these are then sent first,
		 * alone.
		 */
		if (header_least(request->n_items, n_replies) + len > partner_mtu(partner))
			return -EMSGSIZE;
		ripc__acks_flush(partner->service->ctx);
		hello_apart = !partner->known;
		if (hello_apart)
			ripc__partner_greet(partner);
	}
	for (uint32_t i = 0; i < request->n_items; i++) {
		iov[i + 1] = request->items[i];
		lens[i] = request->items[i].iov_len;
	}
	wire_clear(&packet);
	packet.n_items = request->n_items;
	packet.payload_len = len;
	packet.lends = lends;
	packet.replies = request->reply_to;
	if (call)
		packet.call = *call;
	packet.h.number = partner->short_next++;
	used = header_len(partner, request->n_items, n_replies) + len;
	if (lends && used <= partner_mtu(partner))
		ripc__returns_offer(partner, lends, partner_mtu(partner) - used, &packet);
	return transmit(partner, &packet, iov, lens, hello_apart);
}

/* The partner whose message is answered, or that was chosen by its handle; or NULL. */
static struct partner *asker_of(const struct ripc_service *service, const struct ripc_send *request)
{
	return request->to_handle ? ripc__find_sender(service, request->to_handle) :
		ripc__claim_asker(service, request->to, request->reply_to);
}

static int send_any(struct ripc_service *service, const struct ripc_send *request)
{
	struct ripc_context *ctx = service->ctx;
	struct partner *asker = asker_of(service, request), *partner = asker;
	uint64_t total, lends;
	int error = ripc__sum_items(request->items, request->n_items, &total);

	if (!error && request->flags & RIPC_GIVE)
		error = ripc__buffers_check(ctx, request->items, request->n_items);
	if (error)
		return error;
	if (!asker)
		error = request->to_handle ? -ENOENT :
			ripc__partner_for_call(service, request->to, &partner);
	if (!error && !request->reply_to)
		error = ripc__may_send_to(partner);
	if (error)
		return error;
	if (total > ripc__short_max(partner) && (partner->peer || total > RIPC_DATAGRAM_MAX / 8))
		return -EMSGSIZE;
	error = ripc__lend(service, request, &lends);
	if (error)
		return error;
	if (request->reply_to)
		ripc__offer_drop(partner, request->reply_to);
	ripc__partner_use(partner, request);
	if (partner->state == PARTNER_READY && !partner->peer->opening &&
		(partner->resolved || asker))
		error = send_ready(partner, request, (uint32_t)total, lends, NULL);
	else
		error = send_early(partner, request, (uint32_t)total, lends,
			&(struct wire_call){0});
	if (error) {
		ripc__lend_end(service, lends);
		return error;
	}
	count_sent(ctx, total);
	if (request->flags & RIPC_GIVE)
		ripc__buffers_free(ctx, request->items, request->n_items);
	return 0;
}

int ripc__short_send_items(struct ripc_service *service, uint64_t to, const struct iovec *items,
		uint32_t n_items)
{
	struct partner *partner;
	int error;

	if (is_plain(items, n_items)) {
		error = ripc__partner_for_call(service, to, &partner);
		if (error)
			return error;
		if (takes_plain(partner))
			return send_plain(partner, items, NULL);
	}
	return send_any(service, &(struct ripc_send){.to = to, .items = items, .n_items = n_items});
}

static int send_call(struct partner *partner, const struct short_call *call)
{
	bool answers = wire_answers(&call->is);
	const struct ripc_send request = {.items = call->items, .n_items = call->n_items,
		.reply_to = answers ? call->id : 0};
	uint64_t total;
	int error;

	if (partner->state != PARTNER_READY || partner->peer->opening || partner->dead)
		return -EAGAIN;
	error = ripc__sum_items(call->items, call->n_items, &total);
	if (!error && total > ripc__short_max(partner))
		error = -EMSGSIZE;
	if (error)
		return error;
	ripc__partner_touch(partner);
	error = send_ready(partner, &request, (uint32_t)total, answers ? 0 : call->id, &call->is);
	if (!error)
		count_sent(partner->service->ctx, total);
	return error;
}

int ripc__short_call(struct partner *partner, const struct short_call *call)
{
	int error = wire_answers(&call->is) ? 0 : ripc__may_send_to(partner);

	if (error)
		return error;
	if (wire_answers(&call->is) && partner->service->ctx->messages.n_offers)
		ripc__offer_drop(partner, call->id);
	if (is_plain(call->items, call->n_items) && takes_plain(partner) && !call->lends)
		return send_plain(partner, call->items, call);
	return send_call(partner, call);
}

int ripc__short_to_member(struct ripc_service *service, const struct ripc_send *request,
		uint64_t group, uint32_t number)
{
	const struct short_call call = {.items = request->items, .n_items = request->n_items,
		.id = group, .is = {WIRE_CALL_GROUP, number}};
	struct partner *partner;
	uint64_t total;
	int error = ripc__sum_items(request->items, request->n_items, &total);

	error = error ? error : ripc__find_member(service, group, &(struct ripc__member){
		request->to, request->to_incarnation}, &partner);
	if (error)
		return error;
	error = ripc__may_send_to(partner);
	if (error)
		return error;
	if (partner->peer && !partner->peer->opening && !ripc__may_reach(partner, group))
		return -EACCES;
	if (partner->state == PARTNER_READY && !partner->peer->opening && partner->resolved)
		return ripc__short_call(partner, &call);
	ripc__partner_touch(partner);
	error = send_early(partner, request, (uint32_t)total, group, &call.is);
	if (!error)
		count_sent(service->ctx, total);
	return error;
}

int ripc__short_send(struct ripc_service *service, const struct ripc_send *request)
{
	if (request->flags || request->n_returns || request->reply_to || request->to_incarnation ||
			request->to_handle)
		return send_any(service, request);
	return ripc__short_send_items(service, request->to, request->items, request->n_items);
}
