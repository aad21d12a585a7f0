/* SPDX-License-Identifier: BSD-3-Clause */
/* What partners offer with their questions: return buffers that answers may be written into. */
#include <stdlib.h>

#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/peer/devices.h"
#include "core/peer/path.h"
#include "core/wire/wire.h"
#include "offers.h"
#include "util/list.h"

#define OFFERS_MAX 1024u /* that are kept; then the oldest goes */
#define OFFERS_OF_ONE LONGS_MAX

static struct offer *unlink_offer(struct ripc_context *ctx, struct list *node)
{
	list_remove(node);
	ctx->n_offers--;
	return list_entry(node, struct offer, node);
}

/* The partner's oldest, or everybody's, makes room. */
static void make_room(struct ripc_context *ctx, const struct partner *partner)
{
	struct list *oldest = NULL;
	uint32_t n = 0;

	list_for_each(node, &ctx->offers) {
		if (list_entry(node, struct offer, node)->partner != partner)
			continue;
		oldest = oldest ? oldest : node;
		n++;
	}
	if (n >= OFFERS_OF_ONE)
		free(unlink_offer(ctx, oldest));
	else if (ctx->n_offers >= OFFERS_MAX)
		free(unlink_offer(ctx, ctx->offers.next));
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
	list_append(&ctx->offers, &offer->node);
	ctx->n_offers++;
}

struct offer *ripc__offer_take(struct partner *partner, uint64_t id)
{
	struct ripc_context *ctx = partner->service->ctx;

	list_for_each(node, &ctx->offers) {
		const struct offer *offer = list_entry(node, struct offer, node);

		if (offer->id == id && offer->partner == partner)
			return unlink_offer(ctx, node);
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

	list_for_each_safe(node, &ctx->offers) {
		if (list_entry(node, struct offer, node)->partner == partner)
			free(unlink_offer(ctx, node));
	}
}
