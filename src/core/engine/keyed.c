/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows for partners when a handshake with their context has ended. */
#include "keyed.h"

#include "core/keys/sealed.h"
#include "core/objects.h"
#include "core/partner/life.h"
#include "core/partner/partner.h"
#include "core/peer/path.h"
#include "core/peer/peer.h"
#include "util/list.h"

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
				ripc__peer_device(ctx, partner->peer) != device ||
				!device->ops->route.matches(device->port, partner->peer->route,
					event->from))
			continue;
		if (!status)
			status = ripc__sealed_fits(ctx->seal, partner->peer->route,
				partner->service->id, partner->id);
		if (status)
			ripc__partner_lost(partner, status, UINT64_MAX);
	}
	ctx->walking = false;
}
