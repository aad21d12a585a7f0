/* SPDX-License-Identifier: BSD-3-Clause */
/* The partner that a send goes to. */
#ifndef RIPC_FIND_H
#define RIPC_FIND_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "claim.h"
#include "core/objects.h"
#include "core/resolve/resolver.h"
#include "partner.h"

#define NEWS_IDLE_US 20000u /* news are read for a partner idle so long; a restart takes longer */

/* The partner that a send to the ID goes to, made in state RESOLVING if need be. */
int ripc__partner_for_send(struct ripc_service *service, uint64_t id, struct partner **partner);
/* As ripc__partner_for_send, for a call of the application: the resolver's news are read first. */
int ripc__find_for_call(struct ripc_service *service, uint64_t id, struct partner **partner);
/* Reads what the resolver's sources have brought; returns how much that was. */
int ripc__news_read(struct ripc_context *ctx);
void ripc__partner_resolved(struct ripc_context *ctx, uint64_t id, int status,
		const struct ripc__answer *answer);

/*
 * Has the resolver query the ID again, even if no service had it a moment ago. Outside calls:
 * news are not read.
 */
int ripc__find_again(struct ripc_service *service, uint64_t id, struct partner **partner);

/*
 * As ripc__find_again(), for a message to a member of a group. The ID may belong to another
 * incarnation: the member has gone, or both live, and then each is a partner. -EINPROGRESS: the
 * member's address is not known yet; -EAGAIN: it could not be found for a while; -ENOENT: there
 * is no such member.
 */
int ripc__find_member(struct ripc_service *service, uint64_t group,
		const struct ripc__member *member, struct partner **partner);
/* The same, if the partner is known already; nothing is looked up. NULL: it is not known. */
struct partner *ripc__find_known_member(const struct ripc_service *service,
		const struct ripc__member *member);
/* Does the member's ID belong to another incarnation, as far as is known? */
bool ripc__find_is_rivalled(const struct ripc_service *service, const struct ripc__member *member);

/*
 * The partner whose messages have this handle (ripc_msg.from_handle), which may have only
 * claimed its ID. NULL: the service has no such partner any more. A handle is never used twice:
 * after a partner is lost, or has sent another token, its earlier handles are invalid.
 */
struct partner *ripc__find_sender(const struct ripc_service *service, uint64_t handle);

/*
 * A message waits until until_us for this partner without peer: the resolver sends queries until
 * then.
 */
void ripc__find_until(const struct partner *partner, uint64_t until_us);

/*
 * A message is sent to the partner. If the partner can only be found by its handle, and has not
 * responded for long, it is forgotten nevertheless: it may have come back as another partner,
 * and would take room beside that.
 */
static inline void ripc__partner_use(struct partner *partner, const struct ripc_send *request)
{
	if (partner->resolved || !request->to_handle)
		ripc__partner_touch(partner);
}

/* Is this partner the owner of its ID? False also while that is not known. */
static inline bool ripc__partner_settled(struct partner *partner)
{
	if (!partner->peer || (partner->resolved && !partner->suspect))
		return true;
	return ripc__claim_settled(partner);
}

/* As ripc__find_for_call, and faster if the service's most recent partner still owns the ID. */
static inline int ripc__partner_for_call(struct ripc_service *service, uint64_t id,
		struct partner **partner_out)
{
	struct partner *partner = service->recent;

	if (!partner || partner->id != id || partner->suspect || !partner->resolved ||
			service->closing ||
			service->ctx->now_us - partner->used_us >= NEWS_IDLE_US)
		return ripc__find_for_call(service, id, partner_out);
	*partner_out = partner;
	return 0;
}

/*
 * As ripc__partner_for_call, for a long message, which can wait: the resolver sends queries for
 * the ID again, even if no service had it a moment ago.
 */
static inline int ripc__find_for_long(struct ripc_service *service, uint64_t id,
		struct partner **partner)
{
	int error = ripc__partner_for_call(service, id, partner);

	if (error != -ENOENT)
		return error;
	ripc__resolver_claimed(service->ctx->resolver, id);
	return ripc__partner_for_call(service, id, partner);
}

#endif
