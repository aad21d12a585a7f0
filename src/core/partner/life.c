/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partners: how they come to be, move, and are forgotten.
 *
 * Design notes. State for a stranger is made only for a packet with a valid address proof, and
 * is kept longer (PARTNER_IDLE_US) than any proof holds (2 * PROOF_PERIOD_US): so a late first
 * packet either finds the state it once made, with its memory of numbers, or has no valid proof
 * any more. A token dies with the state: a late packet cannot bring it back. A partner that is
 * gone stays for as long, dead: what it sent before and arrives late has no effect. A proof says
 * who lives at an address, not that what is said there is true: what a hello claims is kept
 * apart from what others claim, and the resolver is asked before it is relied on for long.
 */
#include <errno.h>
#include <stdlib.h>

#include "claim.h"
#include "core/objects.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "core/upcalls.h"
#include "core/wire/wire.h"
#include "crowd.h"
#include "life.h"
#include "partner.h"
#include "rights.h"
#include "token.h"
#include "util/list.h"
#include "util/map.h"
#include "util/probe.h"

#define CLAIMED_US   1000000u /* a partner heard so lately is seldom doubted for a claim */

/* Its numbers are those after before. */
static void row_begin(const struct ripc_service *service, struct longs *longs, uint64_t before)
{
	longs->next = before + service->numbers + 1;
	longs->in_oldest = before + 1;
	list_init(&longs->outgoing);
}

struct longs *ripc__longs_open(struct partner *partner, uint64_t number)
{
	struct longs *longs = ripc__longs_of(partner, number);

	if (longs)
		return longs;
	longs = calloc(1, sizeof(*longs));
	if (!longs)
		return NULL;
	row_begin(partner->service, longs, WIRE_REPLIES);
	partner->replies = longs;
	ripc__pair_begin_replies(partner);
	return longs;
}

struct partner *ripc__partner_alloc(struct ripc_service *service, uint64_t id)
{
	struct ripc_context *ctx = service->ctx;
	struct partner *partner;

	if (ctx->stats.partners >= PARTNERS_MAX && !ripc__crowd_forget(ctx)) {
		ctx->stats.drop_partner_limit++;
		return NULL;
	}
	partner = calloc(1, sizeof(*partner));
	if (!partner)
		return NULL;
	partner->service = service;
	partner->id = id;
	partner->used_us = ctx->now_us;
	/* The partner may remember numbers from before we forgot it: none is used twice. */
	partner->short_next = service->numbers + 1;
	row_begin(service, &partner->longs, 0);
	partner->proven = ctx->proves;
	partner->unasked = UNASKED_BYTES;
	list_init(&partner->incoming);
	list_init(&partner->ack_node);
	if (ripc__token_give(partner)) {
		free(partner);
		return NULL;
	}
	ripc__handle_draw(partner);
	list_append(&ctx->partners, &partner->node);
	if (ctx->stats.partners++ == 0)
		ctx->up->first_partner(ctx);
	RIPC__PROBE(partner_born, service->id, id, ctx->incarnation, ctx->stats.partners);
	return partner;
}

static void partner_free_alone(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	if (partner->service->numbers < partner->short_next)
		partner->service->numbers = partner->short_next;
	for_each_row(longs, partner) {
		uint64_t next = longs->next & ~WIRE_REPLIES;

		if (partner->service->numbers < next)
			partner->service->numbers = next;
		free(longs->reasons);
	}
	free(partner->replies);
	list_remove(&partner->node);
	list_remove(&partner->ack_node);
	ctx->stats.partners--;
	ripc__token_take_back(partner);
	free(partner);
}

void ripc__partner_free(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	ripc__claim_forget(partner);
	ctx->up->partner_forgotten(partner);
	ripc__partner_unmake_current(partner);
	if (partner->peer) {
		ripc__pair_remove(partner);
		ripc__peer_put(ctx, partner->peer);
	}
	partner_free_alone(partner);
}


/* Takes over the caller's reference. */
void ripc__partner_to_peer(struct partner *partner, struct peer *peer)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *old = partner->peer;

	ctx->up->shares_release(partner);
	partner->peer = peer;
	ctx->up->shares_hold(partner);
	ripc__peer_put(ctx, old);
	partner->known = false;
	(void)ripc__rights_judge(partner);
}

/* Another one claims its ID: is it still there? Asked for now and then, or after a silence. */
static void doubt(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint32_t silence = (uint32_t)(ctx->now_us >> 10) - partner->heard;

	if (partner->resolved && (silence >= CLAIMED_US >> 10 || ripc__claim_may_ask(ctx)))
		ripc__partner_suspect(partner);
}

int ripc__partner_accept(struct ripc_service *service, struct device *device,
		const struct wire_packet *packet, const struct ripc__addr *from,
		struct partner **partner_out)
{
	struct ripc_context *ctx = service->ctx;
	enum place place = ripc__crowd_place(ctx, from);
	struct partner *partner, *other;
	struct peer *peer;
	int error;

	if (place == PLACE_NONE) {
		ctx->stats.drop_partner_limit++;
		return -ENOMEM;
	}
	partner = ripc__partner_alloc(service, packet->hello.service);
	if (!partner)
		return -ENOMEM;
	error = ripc__peer_get(ctx, (uint8_t)(device - ctx->devices), packet->hello.context, from,
		&peer);
	if (error)
		goto err_free;
	error = ripc__partner_attach(partner, packet->h.src, peer);
	if (error)
		goto err_put_peer;
	if (place == PLACE_ON_TRIAL)
		ripc__crowd_try(partner);
	other = ripc__map_get(&service->partners, partner->id);
	if (!other)
		ripc__partner_make_current(partner); /* without memory: found by its token */
	else if (other->peer)
		doubt(other);
	if (other)
		ripc__resolver_claimed(ctx->resolver, partner->id);
	*partner_out = partner;
	return 0;
err_put_peer:
	ripc__peer_put(ctx, peer);
err_free:
	partner_free_alone(partner);
	return error;
}

void ripc__partner_lost(struct partner *partner, int status, uint64_t gone_us)
{
	ripc__partner_retire(partner);
	ripc__partner_touch(partner);
	ripc__claim_forget(partner);
	ripc__handle_draw(partner); /* whoever it is when it returns */
	partner->dead = true;
	partner->challenged = false;
	RIPC__PROBE(partner_dead, partner->service->id, partner->id, partner->incarnation, status);
	partner->service->ctx->up->partner_lost(partner, status, gone_us);
}

/* The slot just taken back is free, so that this cannot fail. */
void ripc__partner_challenge(struct partner *partner)
{
	if (partner->challenged)
		return;
	ripc__token_take_back(partner);
	(void)ripc__token_give(partner);
	partner->known = false;
	partner->challenged = true;
}

int ripc__partner_reroute(struct partner *partner, struct device *device,
		const struct ripc__addr *to)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint8_t device_index = (uint8_t)(device - ctx->devices);
	struct peer *peer;
	int error = ripc__peer_get(ctx, device_index, partner->peer->context, to, &peer);

	if (error)
		return error;
	ripc__partner_to_peer(partner, peer);
	return 0;
}

/* Forgets partners that have been idle for so long that no packet of theirs can be under way. */
void ripc__partners_sweep(struct ripc_context *ctx)
{
	ctx->next_sweep_us = ctx->now_us + PARTNER_IDLE_US / 16;
	list_for_each_safe(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (ctx->now_us - partner->used_us < PARTNER_IDLE_US)
			return;
		if (!ripc__has_outgoing(partner) && list_empty(&partner->incoming) &&
				partner->queued == 0 && partner->n_asked == 0)
			ripc__partner_free(partner);
		else
			ripc__partner_touch(partner);
	}
}
