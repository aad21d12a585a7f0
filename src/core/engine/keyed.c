/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows for partners when a handshake has ended, or rights have changed. */
#include "keyed.h"

#include <errno.h>

#include "core/keys/sealed.h"
#include "core/objects.h"
#include "core/partner/life.h"
#include "core/partner/partner.h"
#include "core/partner/rights.h"
#include "core/peer/path.h"
#include "core/peer/peer.h"
#include "core/send/announce.h"
#include "core/upcalls.h"
#include "util/list.h"

/* A member has the same rights on all networks; a failure is of the network where it came. */
static bool is_about(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event, struct peer *peer)
{
	if (!event->status && ripc__sealed_same(peer->route, event->from))
		return true;
	return ripc__peer_device(ctx, peer) == device &&
		device->ops->route.matches(device->port, peer->route, event->from);
}

/* Are questions or long messages on their way, which the partner may have accepted? */
static bool may_answer(struct partner *partner)
{
	for_each_row(longs, partner) {
		if (ripc__oldest_sent(longs) != longs->next)
			return true;
	}
	return partner->n_asked;
}

/*
 * May the partner's key still be its ID? A partner that has not said hello yet stays only if our
 * service may send to it, if another handshake is under way, which may bring that right, or if it
 * may answer what was sent before the right ended.
 */
static bool may_stay(struct partner *partner)
{
	return ripc__rights_judge(partner) && (partner->state == PARTNER_READY ||
		!partner->barred || may_answer(partner) || ripc__refused_waits(partner));
}

/*
 * A handshake has ended. If it has failed, or the partner's key may not be its ID any more, the
 * partner is lost: what was not sent yet goes to the next holder of the ID, or fails. A partner
 * that only lacks a right stays: messages under way go on, and replies may come (rights.h).
 */
void ripc__handshake_ended(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event)
{
	ctx->walking = ctx->changed = true;
	list_for_each_safe(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);
		int status = event->status;

		/*
		 * Where the first of them has begun another handshake, all wait for that; where the
		 * route has failed, for another one.
		 */
		if (!partner->peer || partner->dead || partner->peer->opening ||
				partner->peer->broken ||
				!is_about(ctx, device, event, partner->peer))
			continue;
		partner->refuses = false;
		if (!status && !may_stay(partner))
			status = -EACCES;
		if (status)
			ripc__partner_lost(partner, status, UINT64_MAX);
	}
	ctx->walking = false;
}

void ripc__rights_changed(struct ripc_context *ctx)
{
	ctx->walking = ctx->changed = true;
	list_for_each_safe(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (!partner->peer || partner->dead)
			continue;
		(void)ripc__rights_judge(partner);
		if (partner->barred)
			ctx->up->longs_go(partner); /* those that wait end */
	}
	ctx->walking = false;
}
