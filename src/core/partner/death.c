/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of others' contexts, of which a resolver source has proof: all partners that live there
 * are lost at once.
 *
 * Design notes. What a context has sent before its end may still be on its way through the kernel,
 * an answer to us among it: so its partners are lost a moment later (SETTLE_US), when the ports
 * have been read to their end. What comes later is not believed, and the outcome is UNKNOWN then.
 * A send that began after the proof was there was certainly not delivered.
 *
 * Most proofs come by themselves. Of a context whose connection a forked child has kept nothing
 * comes: while a partner is silent about a message, all locks are looked at again and again.
 *
 * A service that closes says goodbye to its partners. They believe it because of the tokens: only
 * the two of them know both. Where the kernel tells of the end, too, whatever comes first counts.
 */
#include <errno.h>

#include "core/base/base.h"
#include "core/net/backend.h"
#include "core/peer/path.h"
#include "core/resolve/resolver.h"
#include "core/upcalls.h"
#include "core/wire/wire.h"
#include "death.h"
#include "life.h"
#include "packet.h"
#include "partner.h"
#include "token.h"
#include "util/list.h"
#include "util/map.h"
#include "util/timers.h"

#define SETTLE_US 2000u
#define SOON_US   5000u
#define LOOK_US   50000u
#define GOODBYES_MAX 1024u
#define GOODBYES_AGAIN 2 /* where one packet in 100 is lost, all three are in 10^6 */
#define ASKS_AGAIN_US BACK_OFF_MAX_US /* a partner that lacks an answer asks again within this */
#define DOUBT_US  (BACK_OFF_MAX_US + 4 * LOOK_US) /* longer than between two repetitions */

/* NULL: not known, or so long ago that others have taken its place. */
static const struct ended *find_ended(const struct ripc_context *ctx, uint64_t context)
{
	for (uint32_t i = 0; i < ENDED_MAX && context; i++) {
		if (ctx->death.ended[i].context == context)
			return &ctx->death.ended[i];
	}
	return NULL;
}

static uint64_t settles_us(const struct ripc_context *ctx, const struct peer *peer)
{
	const struct ended *ended = find_ended(ctx, peer->context);

	return ended ? ended->told_us + SETTLE_US : 0;
}

static void settle_later(struct ripc_context *ctx, uint64_t at_us)
{
	struct death *death = &ctx->death;

	if (!death->settling.index || at_us < death->settling.at_us)
		ripc__timer_set(&ctx->timers, &death->settling, at_us);
}

static void lose_partners(struct ripc_context *ctx)
{
	ctx->changed = ctx->walking = true;
	list_for_each_safe(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);
		const struct ended *ended;

		if (!partner->peer || !partner->peer->gone || partner->dead)
			continue;
		ended = find_ended(ctx, partner->peer->context);
		if (ended && ended->told_us + SETTLE_US > ctx->now_us)
			continue;
		ripc__partner_lost(partner, -ENOENT, ended ? ended->told_us : UINT64_MAX);
	}
	ctx->walking = false;
}

static void settle(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;
	struct peer *peer;
	uint32_t at = 0;

	(void)timer;
	if (!ctx->up->ports_drain(ctx)) {
		settle_later(ctx, ctx->now_us + 1); /* due when the reader that was woken is here */
		return;
	}
	lose_partners(ctx);
	while ((peer = ripc__map_next(&ctx->peers, &at))) {
		uint64_t due_us = peer->gone ? settles_us(ctx, peer) : 0;

		peer->gone = due_us > ctx->now_us;
		if (peer->gone)
			settle_later(ctx, due_us);
	}
}

static void look(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;
	struct death *death = &ctx->death;

	(void)timer;
	death->is_looking = ripc__resolver_look(ctx->resolver) &&
		ctx->now_us < death->doubt_until_us;
	if (death->is_looking)
		ripc__timer_set(&ctx->timers, &death->looking, ctx->now_us + LOOK_US);
}

int ripc__death_open(struct ripc_context *ctx)
{
	int error = 0;

	ctx->death.settling.fire = settle;
	ctx->death.looking.fire = look;
	for (uint32_t i = 0; i < DEATH_TIMERS && !error; i++)
		error = ripc__timer_admit(ctx);
	return error;
}

/* Somebody may be about to close. */
static void look_soon(struct ripc_context *ctx)
{
	ctx->death.doubt_until_us = ctx->now_us + DOUBT_US;
	ctx->death.is_looking = true;
	ripc__timer_set(&ctx->timers, &ctx->death.looking, ctx->now_us + SOON_US);
}

static void mark_gone(struct ripc_context *ctx, const struct ended *ended)
{
	struct peer *peer;
	bool any = false;
	uint32_t at = 0;

	while ((peer = ripc__map_next(&ctx->peers, &at))) {
		if (peer->context == ended->context)
			any = peer->gone = true;
	}
	if (any)
		settle_later(ctx, ended->told_us + SETTLE_US);
}

/* Once it has ended it does so no more. */
static const struct ended *remember(struct ripc_context *ctx, uint64_t context)
{
	const struct ended *known = find_ended(ctx, context);
	struct ended *ended = &ctx->death.ended[ctx->death.n_ended % ENDED_MAX];

	if (known)
		return known;
	ctx->death.n_ended++;
	*ended = (struct ended){.context = context, .told_us = ctx->now_us};
	return ended;
}

void ripc__death_told(void *arg, uint64_t context)
{
	struct ripc_context *ctx = arg;

	if (!context) {
		look_soon(ctx);
		return;
	}
	mark_gone(ctx, remember(ctx, context));
}

void ripc__death_watch(struct ripc_context *ctx, uint64_t context)
{
	const struct ended *ended = find_ended(ctx, context);

	if (ended)
		mark_gone(ctx, ended);
	else
		ripc__resolver_watch(ctx->resolver, context);
}

int ripc__death_reask(const struct partner *partner, int status,
		const struct ripc__answer **answer)
{
	struct ripc_context *ctx = partner->service->ctx;

	if (status || !find_ended(ctx, (*answer)->record.context))
		return status;
	ripc__resolver_suspect(ctx->resolver, partner->id, (*answer)->record.incarnation);
	status = ripc__resolver_lookup(ctx->resolver, partner->id, ctx->now_us, answer);
	return status == 0 && find_ended(ctx, (*answer)->record.context) ? -ENOENT : status;
}

bool ripc__death_is_known(const struct ripc_service *service, uint64_t incarnation)
{
	const struct partner *partner;
	uint32_t place = 0;

	/* Another partner that claims the same incarnation may live. */
	while ((partner = ripc__pair_at(service->ctx, service->incarnation, incarnation, place))) {
		if (!partner->dead)
			return false;
		place++;
	}
	return place > 0;
}

/*
 * What became of all that the partner has sent, but replies, whose sender is told nothing: nothing
 * else of it will ever be delivered.
 */
static struct wire_ack last_words(const struct partner *partner)
{
	const struct longs *longs = &partner->longs;

	return (struct wire_ack){.number = longs->in_oldest + LONGS_MAX, .status = ESHUTDOWN,
		.also = longs->in_delivered};
}

/*
 * A partner that repeats a message because its answer got lost finds nobody here any more. So a
 * partner that may lack an answer is told twice more.
 */
static int times_of(const struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	bool lacks = partner->longs.in_delivered &&
		ctx->now_us - partner->used_us < ASKS_AGAIN_US &&
		!(ripc__peer_device(ctx, partner->peer)->attr.caps & RIPC_CAP_RELIABLE);

	return lacks ? 1 + GOODBYES_AGAIN : 1;
}

void ripc__goodbye(struct partner *partner)
{
	if (!partner->peer || partner->dead || !partner->known || !partner->token_out ||
			partner->service->partners.count > GOODBYES_MAX)
		return;
	for (int n = times_of(partner); n > 0; n--) {
		struct wire_packet packet = {.h.number = partner->token_in};

		ripc__partner_header_bare(partner, &packet, WIRE_GONE);
		packet.h.flags |= WIRE_F_ACK;
		packet.ack = last_words(partner);
		ripc__partner_send(partner, &packet);
	}
}

void ripc__death_doubt(struct ripc_context *ctx)
{
	ctx->death.doubt_until_us = ctx->now_us + DOUBT_US;
	if (!ctx->death.is_looking)
		look(ctx, &ctx->death.looking);
}
