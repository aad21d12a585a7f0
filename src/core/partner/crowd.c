/* SPDX-License-Identifier: BSD-3-Clause */
/* See crowd.h. */
#include "core/objects.h"
#include "core/peer/peer.h"
#include "crowd.h"
#include "life.h"
#include "partner.h"
#include "util/list.h"


/*
 * For want of room an idle partner is forgotten sooner than after PARTNER_IDLE_US, but not sooner
 * than this: a sender repeats what is PARTNER_IDLE_US / 2 old.
 */
#define PARTNER_KEEP_US    40000000u
#define PARTNERS_ACCEPTED  (PARTNERS_MAX / 4 * 3) /* the rest is for those that we look for */
#define HOST_PARTNERS_MAX  (PARTNERS_MAX / 4) /* more from one host are not accepted */
#define FORGET_LOOKS 64u /* partners looked at to find one that may be forgotten */
#define HOST_FEW     8u  /* a host that holds fewer may have one of the last places */
#define PLACES_LAST  (PARTNERS_MAX / 16)

/* Does nothing wait for it, or on it? */
static bool is_idle(const struct partner *partner)
{
	return partner->peer && !ripc__has_outgoing(partner) && !partner->held &&
		list_empty(&partner->incoming) && !partner->ack_number && !partner->queued &&
		!partner->n_asked;
}

/* Are the states of long messages of this row known, of which the first has this number? */
static bool has_states(const struct longs *longs, uint64_t first)
{
	return longs->in_delivered || longs->in_refused || longs->in_oldest > first;
}

/* Would a message that it has sent be taken for a new one, were it forgotten? */
static bool has_memory(const struct partner *partner)
{
	return partner->dead || partner->shorts_in.top ||
		has_states(&partner->longs, 1) || (partner->replies &&
		has_states(partner->replies, WIRE_REPLIES + 1));
}

static bool may_be_forgotten(const struct partner *partner)
{
	return is_idle(partner) && (!has_memory(partner) ||
		partner->service->ctx->now_us - partner->used_us >= PARTNER_KEEP_US);
}

/* Forgets one of the least recently used partners, of this host or any (NULL). */
static bool forget_one(struct ripc_context *ctx, const struct host *host)
{
	uint32_t looks = 0;

	if (ctx->walking)
		return false; /* whom we forget may be the next on the way */
	list_for_each(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (++looks > FORGET_LOOKS)
			return false;
		if (!may_be_forgotten(partner) || (host && partner->peer->host != host))
			continue;
		ripc__partner_free(partner);
		return true;
	}
	return false;
}

/* Forgets the oldest on trial. */
static bool forget_on_trial(struct ripc_context *ctx)
{
	uint32_t looks = 0;

	if (ctx->walking)
		return false;
	list_for_each(node, &ctx->on_trial) {
		struct partner *partner = list_entry(node, struct partner, ack_node);

		if (++looks > FORGET_LOOKS)
			return false;
		if (!is_idle(partner))
			continue;
		ripc__partner_free(partner);
		return true;
	}
	return false;
}

bool ripc__crowd_forget(struct ripc_context *ctx)
{
	return forget_one(ctx, NULL);
}

enum place ripc__crowd_place(struct ripc_context *ctx, const struct ripc__addr *from)
{
	const struct host *host = ripc__host_find(ctx, from);
	uint64_t held = host ? host->partners : 0;

	if (held >= HOST_PARTNERS_MAX)
		return forget_one(ctx, host) ? PLACE_FREE : PLACE_NONE;
	if (ctx->stats.partners + held < PARTNERS_ACCEPTED || forget_one(ctx, NULL))
		return PLACE_FREE;
	if (held >= HOST_FEW)
		return PLACE_NONE;
	if (ctx->stats.partners < PARTNERS_ACCEPTED + PLACES_LAST || forget_on_trial(ctx))
		return PLACE_ON_TRIAL;
	return PLACE_NONE;
}

/* Nothing that it says is acknowledged before it is proven. */
void ripc__crowd_try(struct partner *partner)
{
	partner->on_trial = true;
	list_append(&partner->service->ctx->on_trial, &partner->ack_node);
}

void ripc__crowd_proven(struct partner *partner)
{
	if (partner->on_trial)
		list_remove(&partner->ack_node);
	partner->on_trial = false;
}
