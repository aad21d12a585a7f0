/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With keys and an authority: what a partner may send to our service, and our service to the
 * partner. Without keys everybody may everything.
 *
 * Design notes. The bits denied and barred of a partner are judged when the partner gets its peer,
 * says hello or ends a handshake, when the directory of keys changes, and when a right ends. A bit
 * that is set is no verdict: it makes the slow path look at the rights themselves, so a right that
 * was granted counts at once. A bit that is not set costs the fast paths nothing.
 */
#ifndef RIPC_PARTNER_RIGHTS_H
#define RIPC_PARTNER_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/keys/sealed.h"
#include "core/objects.h"
#include "core/peer/peer.h"
#include "partner.h"
#include "util/map.h"

/* Judges denied and barred anew. False: the key of the partner may not be its ID any more. */
bool ripc__rights_judge(struct partner *partner);
/* denied is set: may the partner send to our service all the same, because it has the right now? */
bool ripc__may_come(struct partner *partner);
/* Logs that a partner without the right has sent a message. */
void ripc__say_denied(const struct partner *partner);
/*
 * barred is set: checks whether our service may send to the partner now. 0; -EACCES. If a
 * handshake may bring the right, the peer is opening from now on, and packets wait until the
 * handshake ends.
 */
int ripc__barred_look(struct partner *partner);

/* The partner has refused a packet: may a handshake bring the right? Then packets wait for it. */
bool ripc__refused_waits(struct partner *partner);
/*
 * The partner has refused a message that was announced at told_us. May it accept the same
 * message now, or when a handshake has ended? In the latter case packets wait for that end.
 */
bool ripc__refusal_is_old(struct partner *partner, uint64_t told_us);
/*
 * Checks whether our service may send to the partner, apart from replies. As
 * ripc__barred_look().
 */
static inline int ripc__may_send_to(struct partner *partner)
{
	return partner->barred ? ripc__barred_look(partner) : 0;
}

/* May the partner be in the group, and may we send to the group? */
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
