/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows for partners when a handshake with their context has ended. */
#include "keyed.h"

#include <errno.h>

#include "core/keys/sealed.h"
#include "core/objects.h"
#include "core/partner/life.h"
#include "core/partner/partner.h"
#include "core/peer/path.h"
#include "core/peer/peer.h"
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

/*
 * A partner that has only written to us must still have the right to; our right to write to it is
 * no help.
 */
static int judge(struct ripc_context *ctx, const struct partner *partner)
{
	const struct device *device = ripc__peer_device(ctx, partner->peer);
	uint64_t own = partner->service->id;
	struct ripc__where where;

	if (partner->resolved)
		return ripc__sealed_fits(ctx->seal, partner->peer->route, own, partner->id);
	device->ops->route.where(device->port, partner->peer->route, &where);
	return ripc__sealed_lets_in(ctx->seal, &where.addr, partner->peer->context, partner->id,
		own) ? 0 : -EACCES;
}

/*
 * A handshake has ended. If it has failed, or the partner may not be any more what it was taken
 * for, it gets nothing: what was not sent yet goes to the next holder of the ID, or fails.
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
		if (!status)
			status = judge(ctx, partner);
		if (status)
			ripc__partner_lost(partner, status, UINT64_MAX);
	}
	ctx->walking = false;
}
