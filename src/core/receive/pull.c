/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking the sender of a long message for what may come, and for what is missing. */
#include "core/objects.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "core/peer/window.h"
#include "core/wire/wire.h"
#include "grant.h"
#include "holes.h"
#include "incoming.h"
#include "pull.h"

static void pull_send(struct incoming *incoming, struct wire_packet *packet)
{
	struct ripc_context *ctx = incoming->partner->service->ctx;

	packet->h.number = incoming->number;
	packet->pull.have = incoming->have;
	packet->pull.limit = incoming->limit;
	packet->pull.busy = !incoming->is_granted && incoming->limit < incoming->total;
	ctx->stats.pull_requests++;
	ripc__partner_header(incoming->partner, packet, WIRE_PULL);
	ripc__partner_send(incoming->partner, packet);
	if (incoming->first_grant)
		ripc__point(ctx, "first_grant");
	incoming->first_grant = false;
}

void ripc__incoming_pull(struct incoming *incoming, uint64_t holes_end)
{
	struct wire_packet packet = {0};

	if (holes_end > incoming->have)
		ripc__holes_all(incoming, holes_end, &packet.pull);
	pull_send(incoming, &packet);
}

void ripc__pull_due(struct incoming *incoming)
{
	struct wire_packet packet = {0};
	uint64_t lost = ripc__holes_due(incoming, &packet.pull);

	if (lost)
		ripc__peer_cut(incoming->partner->service->ctx, incoming->partner->peer, lost);
	if (ripc__grant(incoming) || lost)
		pull_send(incoming, &packet);
}
