/* SPDX-License-Identifier: BSD-3-Clause */
/* See permit.h. docs/protocol.md, Rights. */
#include "permit.h"

#include "core/message/lent.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/partner/rights.h"
#include "core/upcalls.h"
#include "core/wire/wire.h"

/* All its items fit: so the loan ends with this message, and no second one comes for it. */
static bool fits(const struct lent *lent, const struct wire_packet *packet)
{
	uint32_t n = packet->h.type == WIRE_SHORT ? packet->n_items : packet->announce.n_items;

	for (uint32_t i = 0; i < n; i++) {
		if (i >= lent->n || wire_item_len(packet, i) > lent->buffers[i].mem.iov_len)
			return false;
	}
	return true;
}

static bool is_reply(struct partner *partner, const struct wire_packet *packet)
{
	const struct lent *lent;

	if (!packet->replies || packet->call.kind == WIRE_CALL_ASKS)
		return false;
	if (wire_is_answer(packet))
		return partner->service->ctx->up->call_is_open(partner, packet->replies);
	lent = ripc__lent_for(partner, packet);
	return lent && fits(lent, packet);
}

bool ripc__is_permitted(struct partner *partner, const struct wire_packet *packet)
{
	if (ripc__may_come(partner) || is_reply(partner, packet))
		return true;
	ripc__say_denied(partner);
	return false;
}
