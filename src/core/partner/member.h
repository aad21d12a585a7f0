/* SPDX-License-Identifier: BSD-3-Clause */
/* Partners as members of groups: may a message to the group go to the partner, or come from it? */
#ifndef RIPC_PARTNER_MEMBER_H
#define RIPC_PARTNER_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/keys/sealed.h"
#include "core/objects.h"
#include "core/peer/peer.h"
#include "partner.h"
#include "util/map.h"

/* With keys: may the partner be in the group, and may we send to the group? */
static inline bool ripc__may_reach(const struct partner *partner, uint64_t group)
{
	const struct ripc_service *service = partner->service;
	struct seal *seal = service->ctx->seal;

	return !seal || ripc__sealed_lets_out(seal, partner->peer->route, service->id,
		group) == 0;
}

/* Has our service joined the group, and may the partner send to it? */
static inline bool ripc__may_publish(const struct partner *partner, uint64_t group)
{
	const struct ripc_service *service = partner->service;
	const struct seal *seal = service->ctx->seal;

	return ripc__map_get(&service->groups, group) &&
		(!seal || ripc__sealed_lets_send(seal, partner->peer->route, partner->id, group));
}

#endif
