/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Return buffers that partners may write their replies into: the permit that a request carries, and
 * its end.
 *
 * Design notes. A return buffer is opened for one partner and one request, on one device, once. The
 * buffer is closed before anything else can land in it, and before the application gets it back:
 * when a reply comes in any way, when the application takes the buffer back, when the request was
 * not delivered, and when the partner or the service goes. If the device needs time to close the
 * buffer, the reply is parked as it came, and is input again when nobody can write any more. So a
 * late write of an attempt that was given up cannot damage the reply to another attempt. The
 * partner's statements are not checked further: with a false one the partner can only spoil the
 * reply that it owes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "core/receive/incoming.h"
#include "core/send/outgoing.h"
#include "core/wire/wire.h"
#include "message.h"
#include "places.h"
#include "returns.h"
#include "util/hash/blocksum.h"
#include "util/list.h"

/* ---- lent -------------------------------------------------------------------------------- */

/* Return buffers that are lent to partners for their replies. */

bool ripc__returns_are_sane(const struct ripc_buffer *returns, uint32_t n)
{
	if (n > RIPC_ITEMS_MAX || (n && !returns))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		if (!ripc__mem_is_sane(&returns[i].mem) || returns[i].flags)
			return false;
	}
	return true;
}

int ripc__lend(struct ripc_service *service, const struct ripc_send *request, uint64_t *id)
{
	*id = request->n_returns ? ripc__nonce(service->ctx) : 0;
	return *id ? ripc__lend_as(service, request, *id) : 0;
}

int ripc__lend_as(struct ripc_service *service, const struct ripc_send *request, uint64_t id)
{
	size_t size = request->n_returns * sizeof(struct ripc_buffer);
	struct lent *lent;

	if (!ripc__returns_are_sane(request->returns, request->n_returns))
		return -EINVAL;
	lent = malloc(sizeof(*lent) + size);
	if (!lent)
		return -ENOMEM;
	*lent = (struct lent){.id = id, .to = request->to, .cookie = request->cookie,
		.n = request->n_returns};
	memcpy(lent->buffers, request->returns, size);
	list_append(&service->lent, &lent->node);
	return 0;
}

struct lent *ripc__lent_by_id(struct ripc_service *service, uint64_t id)
{
	for (struct list *node = service->lent.prev; node != &service->lent; node = node->prev) {
		struct lent *lent = list_entry(node, struct lent, node);

		if (lent->id == id)
			return lent;
	}
	return NULL;
}

struct lent *ripc__lent_for(const struct partner *partner, const struct wire_packet *packet)
{
	struct lent *lent = packet->replies ?
		ripc__lent_by_id(partner->service, packet->replies) : NULL;

	return lent && lent->to == partner->id && !lent->in_use && !lent->cancelled &&
		lent->of_call == wire_is_answer(packet) ? lent : NULL;
}

static void returns_abandon(struct lent *lent);

void ripc__lent_free(struct lent *lent)
{
	returns_abandon(lent);
	list_remove(&lent->node);
	free(lent);
}

void ripc__lend_end(struct ripc_service *service, uint64_t id)
{
	struct lent *lent = id ? ripc__lent_by_id(service, id) : NULL;

	if (lent)
		ripc__lent_free(lent);
}

/* ---- returns ----------------------------------------------------------------------------- */

#define OPENED_LEAST UNASKED_BYTES /* smaller return buffers are not worth it */

/* ---- closing ----------------------------------------------------------------------------- */

static void permit_free(struct permit *permit)
{
	if (permit->lent)
		permit->lent->permit = NULL;
	permit->ctx->sends.n_orphans -= permit->orphan;
	permit->ctx->loop.changed = true;
	list_remove(&permit->node);
	list_remove(&permit->fence.node);
	free(permit->early);
	free(permit);
}

/* Withdraws a permit. True: nobody can write any more, and the permit is gone. */
static bool withdraw(struct permit *permit, bool is_done)
{
	struct device *device = permit->device;
	enum ripc__closing how = is_done ? RIPC_CLOSE_DONE : RIPC_CLOSE_REVOKE;

	if (permit->closing)
		return false;
	permit->closing = true;
	for (uint32_t i = 0; i < permit->n; i++) {
		const struct wire_return *buffer = &permit->buffers[i];
		struct ripc__key key = {buffer->address, buffer->key};

		if (buffer->len && device->ops->mem.close(device->port, &key, how,
				(uintptr_t)permit | 1) == -EINPROGRESS)
			permit->n_fencing++;
	}
	if (permit->n_fencing)
		return false;
	permit_free(permit);
	return true;
}

bool ripc__returns_withdraw(struct lent *lent, bool is_done)
{
	return !lent->permit || withdraw(lent->permit, is_done);
}

static void early_drop(struct permit *permit)
{
	free(permit->early);
	permit->early = NULL;
}

/* The lent memory is given back, even if buffers are still open. */
static void returns_abandon(struct lent *lent)
{
	struct permit *permit = lent->permit;

	if (!permit || withdraw(permit, false))
		return;
	permit->lent = NULL;
	early_drop(permit);
}

void ripc__returns_close(struct lent *lent, struct outgoing *request, struct list *fencing)
{
	struct permit *permit = lent->permit;

	if (!permit || withdraw(permit, false))
		return;
	early_drop(permit);
	permit->fence.outgoing = request;
	list_append(fencing, &permit->fence.node);
}

void ripc__permits_leave(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	list_for_each_entry_safe(permit, &ctx->messages.permits, struct permit, node) {
		if (permit->partner != partner || withdraw(permit, false))
			continue;
		permit->partner = NULL;
		early_drop(permit);
	}
}

void ripc__permits_orphan(struct ripc_service *service)
{
	list_for_each_entry(lent, &service->lent, struct lent, node) {
		struct permit *permit = lent->permit;

		returns_abandon(lent);
		if (!lent->permit)
			continue;
		/* A request that waits for the permit is counted itself. */
		permit->orphan = list_empty(&permit->fence.node);
		service->ctx->sends.n_orphans += permit->orphan;
		lent->permit = NULL;
	}
}

void ripc__permits_free(struct ripc_context *ctx)
{
	while (!list_empty(&ctx->messages.permits))
		permit_free(list_entry(ctx->messages.permits.next, struct permit, node));
}

/* ---- opening ----------------------------------------------------------------------------- */

/* The number of return buffers up to the last one that is large enough to be offered. */
static uint32_t n_offered(const struct lent *lent)
{
	uint32_t n = lent->n < WIRE_RETURNS_MAX ? lent->n : WIRE_RETURNS_MAX;

	while (n && lent->buffers[n - 1].mem.iov_len < OPENED_LEAST)
		n--;
	return n;
}

/* May this partner write into the return buffers, and is one of them large enough? */
static bool may_open(const struct partner *partner, const struct lent *lent)
{
	const struct device *device = ripc__peer_device(partner->service->ctx, partner->peer);

	return n_offered(lent) && device->attr.caps & RIPC_CAP_WRITE && partner->token_out &&
		partner->current && partner->resolved && !lent->in_use && !lent->cancelled &&
		lent->exposed_for != partner->incarnation;
}

/* Opens the return buffers that are large enough. False: none was opened. */
static bool open_buffers(struct permit *permit)
{
	struct lent *lent = permit->lent;
	struct device *device = permit->device;
	struct ripc__key key;

	lent->exposed = 0;
	for (uint32_t i = 0; i < n_offered(lent); i++) {
		const struct iovec *mem = &lent->buffers[i].mem;

		if (mem->iov_len < OPENED_LEAST || device->ops->mem.open(device->port,
				permit->partner->peer->route, mem->iov_base, mem->iov_len, true,
				&key))
			continue;
		permit->buffers[i] = (struct wire_return){mem->iov_len, key.address, key.key};
		permit->n = i + 1;
		lent->exposed |= (uint8_t)(1u << i);
	}
	return lent->exposed;
}

static void permit_open(struct partner *partner, struct lent *lent)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct permit *permit = calloc(1, sizeof(*permit));

	if (!permit)
		return;
	permit->ctx = ctx;
	permit->lent = lent;
	permit->partner = partner;
	permit->device = ripc__peer_device(ctx, partner->peer);
	list_init(&permit->fence.node);
	list_append(&ctx->messages.permits, &permit->node);
	lent->permit = permit;
	lent->exposed_for = partner->incarnation;
	lent->exposed_on = permit->device;
	if (!open_buffers(permit))
		permit_free(permit);
}

void ripc__returns_offer(struct partner *partner, uint64_t lends, uint32_t room,
		struct wire_packet *packet)
{
	struct device *device = ripc__peer_device(partner->service->ctx, partner->peer);
	struct lent *lent = lends ? ripc__lent_by_id(partner->service, lends) : NULL;

	if (!lent || WIRE_RETURNS_LEN(n_offered(lent)) > room)
		return;
	if (!lent->permit && may_open(partner, lent))
		permit_open(partner, lent);
	if (!lent->permit)
		return;
	if (lent->permit->partner != partner || lent->permit->device != device)
		ripc__returns_withdraw(lent, false);
	if (!lent->permit || lent->permit->closing)
		return;
	packet->n_returns = lent->permit->n;
	packet->offers = lent->permit->buffers;
}

/* ---- replies ----------------------------------------------------------------------------- */

/* Parks a reply. Only one is parked at a time: others are repeated, or lost. */
static void park(struct permit *permit, const struct partner *partner,
		const struct wire_packet *packet)
{
	uint32_t len = packet->prefix_len + packet->payload_len;

	if (permit->early || permit->partner != partner || !list_empty(&permit->fence.node))
		return;
	permit->early = malloc(sizeof(*permit->early) + len);
	if (!permit->early)
		return;
	*permit->early = (struct early_reply){.len = len, .intact = packet->intact,
		.device = ripc__peer_device(permit->ctx, partner->peer),
		.keys = packet->h.type == WIRE_ANNOUNCE ? packet->announce.keys : 0};
	memcpy(permit->early->bytes, packet->prefix, len);
}

bool ripc__answer_may_land(struct partner *partner, const struct wire_packet *packet)
{
	struct lent *lent = ripc__lent_for(partner, packet);
	bool is_done = packet->h.type == WIRE_ANNOUNCE &&
		packet->announce.keys == WIRE_KEYS_WRITTEN;

	if (!lent || ripc__returns_withdraw(lent, is_done))
		return true;
	park(lent->permit, partner, packet);
	return false;
}

/* A reply was parked until its return buffers were closed; now it is input again. */
static void come_again(struct partner *partner, const struct early_reply *early)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct wire_packet packet;

	if (wire_decode(early->bytes, early->len, &packet))
		return; /* cannot happen: the packet was decoded before */
	packet.intact = early->intact;
	packet.n_returns = 0;
	if (packet.h.type == WIRE_ANNOUNCE)
		packet.announce.keys = early->device == ripc__peer_device(ctx, partner->peer) ?
			early->keys : 0;
	if (packet.h.type == WIRE_SHORT)
		ripc__short_input(partner, &packet);
	else
		ripc__incoming_announce(partner, &packet);
}

void ripc__permit_fenced(uint64_t cookie)
{
	struct permit *permit = (struct permit *)(uintptr_t)(cookie & ~1ull);
	struct partner *partner = permit->partner;
	struct early_reply *early = permit->early;

	if (--permit->n_fencing > 0)
		return;
	permit->early = NULL;
	if (permit->lent)
		permit->lent->permit = NULL;
	permit->lent = NULL;
	if (!list_empty(&permit->fence.node))
		ripc__fence_lift(&permit->fence);
	permit_free(permit);
	if (early)
		come_again(partner, early);
	free(early);
}

/* ---- written replies --------------------------------------------------------------------- */

/*
 * Does the rest of the message, which did not come with this packet, fit into the buffers that the
 * partner could write by this device? If another device alters nothing, core checks nothing there.
 */
static bool fits(const struct partner *partner, const struct lent *lent,
		const struct wire_packet *packet)
{
	uint64_t end = 0;

	if (lent->exposed_for != partner->incarnation || lent->exposed_on !=
			ripc__peer_device(partner->service->ctx, partner->peer))
		return false;
	for (uint32_t i = 0; i < packet->n_items; i++) {
		uint64_t len = wire_item_len(packet, i);

		end += len;
		if (len == 0 || end <= packet->payload_len)
			continue;
		if (i >= WIRE_RETURNS_MAX || !(lent->exposed >> i & 1) ||
				len > lent->buffers[i].mem.iov_len)
			return false;
	}
	return true;
}

/* The payload of the announcement is the beginning of the message. */
static void put_payload(const struct message *message, const struct wire_packet *packet)
{
	const uint8_t *from = packet->payload;
	uint32_t left = packet->payload_len;

	for (uint32_t i = 0; left > 0; i++) {
		const struct iovec *item = &message->public.items[i];
		uint32_t n = item->iov_len < left ? (uint32_t)item->iov_len : left;

		if (n)
			memcpy(item->iov_base, from, n);
		from += n;
		left -= n;
	}
}

/* Is the message as it was sent? Networks that may alter bytes need the checksum. */
static bool is_right(const struct partner *partner, const struct message *message,
		const struct wire_packet *packet)
{
	struct ripc_context *ctx = message->ctx;

	if (ripc__moves_intact(&ripc__peer_device(ctx, partner->peer)->attr))
		return true;
	if (packet->h.flags & WIRE_F_LAST && packet->announce.sum == ripc__blocksum_items(
			message->public.items, message->public.n_items, packet->payload_len))
		return true;
	ctx->stats.drop_checksum++;
	return false;
}

struct message *ripc__written_message(struct partner *partner, const struct wire_packet *packet)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct lent *lent = ripc__lent_for(partner, packet);
	struct message *message;

	if (!lent || lent->permit || !fits(partner, lent, packet))
		return NULL;
	message = ripc__places_find(partner, packet, lent);
	if (!message)
		return NULL;
	put_payload(message, packet);
	if (!is_right(partner, message, packet)) {
		lent->exposed = 0; /* a repetition would be wrong, too */
		ripc__places_release(partner->service, message);
		return NULL;
	}
	ripc__places_settle(message);
	ctx->stats.landed_bytes += packet->announce.total - packet->payload_len;
	ripc__lent_free(lent);
	return message;
}

/* ---- offers ------------------------------------------------------------------------------ */

/* Offers of partners in their requests: return buffers that replies may be written into. */

#define OFFERS_MAX 1024u /* offers that are kept; then the oldest goes */
#define OFFERS_OF_ONE LONGS_MAX

static struct offer *unlink_offer(struct ripc_context *ctx, struct list *node)
{
	list_remove(node);
	ctx->messages.n_offers--;
	return list_entry(node, struct offer, node);
}

/* Drops the partner's oldest offer, or the oldest of all, if there are too many. */
static void make_room(struct ripc_context *ctx, const struct partner *partner)
{
	struct list *oldest = NULL;
	uint32_t n = 0;

	list_for_each(node, &ctx->messages.offers) {
		if (list_entry(node, struct offer, node)->partner != partner)
			continue;
		oldest = oldest ? oldest : node;
		n++;
	}
	if (n >= OFFERS_OF_ONE)
		free(unlink_offer(ctx, oldest));
	else if (ctx->messages.n_offers >= OFFERS_MAX)
		free(unlink_offer(ctx, ctx->messages.offers.next));
}

void ripc__offer_note(struct partner *partner, const struct wire_packet *packet)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct offer *offer;

	ripc__offer_drop(partner, packet->lends);
	make_room(ctx, partner);
	offer = calloc(1, sizeof(*offer) + packet->n_returns * sizeof(struct wire_return));
	if (!offer)
		return;
	offer->partner = partner;
	offer->device = ripc__peer_device(ctx, partner->peer);
	offer->id = packet->lends;
	offer->n = packet->n_returns;
	for (uint32_t i = 0; i < offer->n; i++)
		wire_return_at(packet, i, &offer->buffers[i]);
	list_append(&ctx->messages.offers, &offer->node);
	ctx->messages.n_offers++;
}

struct offer *ripc__offer_take(struct partner *partner, uint64_t id)
{
	struct ripc_context *ctx = partner->service->ctx;

	list_for_each_entry(offer, &ctx->messages.offers, struct offer, node) {
		if (offer->id == id && offer->partner == partner)
			return unlink_offer(ctx, &offer->node);
	}
	return NULL;
}

void ripc__offer_drop(struct partner *partner, uint64_t id)
{
	free(ripc__offer_take(partner, id));
}

void ripc__offers_forget(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	list_for_each_safe(node, &ctx->messages.offers) {
		if (list_entry(node, struct offer, node)->partner == partner)
			free(unlink_offer(ctx, node));
	}
}
