/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watches. The owner of a watched ID is kept as a partner. Therefore its goodbye, its death on this
 * host, and failure hints arrive by themselves. An owner is reported once it has answered. It is
 * probed now and then, once for all services of its context. While nobody has the ID, the resolver
 * is queried at growing intervals, and whenever a registration is noticed.
 *
 * Each watch has one message, which always has the newest state: a change updates the message while
 * it waits in the queue. The application gets a copy (message/message.c), and later changes are
 * queued at once. Without memory for a copy the application gets the message itself, and a later
 * change is queued when the application has freed it.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "core/message/queue.h"
#include "core/objects.h"
#include "core/partner/death.h"
#include "core/partner/find.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/partner/roam.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "util/list.h"
#include "util/map.h"
#include "watch.h"

#define STEP_US      500000u   /* between two rounds over all watches, at most; at least: */
#define STEP_LEAST_US 20000u
#define STEP_EACH_US 8u        /* more for each watch */
#define ASK_GAP_US   500u      /* 2,000 owners are probed per second, at most */
#define LOOK_US      1000000u  /* until an unknown owner is queried again, at first */
#define LOOK_MOST_US 64000000u
#define ASK_US       1000000u  /* an owner without response for so long is probed, */
#define ASK_EACH_US  1000u     /* or later if there are many peers: 1,000 probes per second */
#define NOT_TOLD     UINT64_MAX

struct watch {
	struct message message;
	struct list node;          /* service->watches; ctx->calls.watching.left */
	struct ripc_service *service; /* NULL: ended, and the application has the message */
	struct partner *partner;   /* the owner of the ID; NULL: none is known */
	uint64_t id;
	uint64_t told;             /* the incarnation last reported to the application; 0: none */
	uint64_t look_us, wait_us; /* when an unknown owner is queried again; interval after that */
	uint64_t patience_us;      /* until then an owner that never answered counts as there */
};

static struct watch *find(const struct ripc_service *service, uint64_t id)
{
	return service->n_watches ? ripc__map_get(&service->watched, id) : NULL;
}

/* ---- reporting --------------------------------------------------------------------------- */

static void tell(struct watch *watch, uint64_t incarnation)
{
	struct ripc_msg *public = &watch->message.public;

	if (watch->told == incarnation)
		return;
	watch->told = incarnation;
	if (watch->message.queued && list_empty(&watch->message.node))
		return; /* the application has the message, which is queued again later */
	public->from_incarnation = incarnation;
	if (watch->message.queued)
		return;
	watch->message.queued = true;
	ripc__service_enqueue(watch->service, &watch->message);
}

void ripc__watch_told(struct message *message)
{
	struct watch *watch = list_entry(message, struct watch, message);
	uint64_t incarnation = watch->told;

	message->queued = false;
	if (!watch->service) {
		list_remove(&watch->node);
		free(watch);
		return;
	}
	if (incarnation == message->public.from_incarnation)
		return;
	watch->told = message->public.from_incarnation;
	tell(watch, incarnation);
}

/* ---- the owner --------------------------------------------------------------------------- */

static void leave(struct watch *watch)
{
	if (watch->partner)
		watch->partner->n_asked--;
	watch->partner = NULL;
}

/* The partner is the owner of the ID. It is reported once it has answered. */
static void attach(struct watch *watch, struct partner *partner)
{
	if (watch->partner != partner) {
		leave(watch);
		watch->partner = partner;
		partner->n_asked++;
		partner->peer->heard = ripc__now_1024us(watch->service->ctx);
		if (partner->state != PARTNER_READY)
			ripc__follow_or_sound(partner);
	}
	watch->wait_us = LOOK_US;
	if (partner->state != PARTNER_READY || watch->told == partner->incarnation)
		return;
	ripc__partner_sound(partner); /* with our token back, the owner will say goodbye */
	tell(watch, partner->incarnation);
}

static bool may_attach(const struct partner *partner)
{
	return partner->peer && partner->resolved && !partner->dead;
}

static void look(struct watch *watch)
{
	struct ripc_context *ctx = watch->service->ctx;
	struct partner *partner;
	int error = ripc__find_again(watch->service, watch->id, &partner);

	watch->look_us = ctx->now_us + watch->wait_us;
	watch->wait_us = 2 * watch->wait_us < LOOK_MOST_US ? 2 * watch->wait_us : LOOK_MOST_US;
	if (!error && may_attach(partner))
		attach(watch, partner);
	else if (!error && watch->told == NOT_TOLD)
		ripc__find_until(partner, watch->patience_us);
	else if (error == -ENOENT || error == -EACCES)
		tell(watch, 0);
}

/* The time after a packet from a peer in which the peer is not probed, in 1,024 us. */
static uint32_t ask_after(const struct ripc_context *ctx)
{
	uint64_t each_us = (uint64_t)ctx->peers.all.count * ASK_EACH_US;
	uint64_t us = each_us > ASK_US ? each_us : ASK_US;
	uint64_t most = ripc__silence_us(ctx) / 2;

	return (uint32_t)((us < most ? us : most) >> 10);
}

/* One round over all watches. */
struct round {
	uint64_t gap_us; /* until the next one, at least */
	uint64_t due_us; /* the same, as the owners need it */
	uint32_t n_asks; /* owners that may still be probed in this round */
};

static bool is_to_ask(const struct partner *partner, uint32_t now, uint32_t after)
{
	const struct peer *peer = partner->peer;

	if (partner->state != PARTNER_READY)
		return now - peer->sounded >= STEP_US >> 11;
	return now - peer->heard >= after && now - peer->sounded >= after / 2;
}

/* The time until an owner, or the host of a silent one, is probed next, in 1,024 us. */
static uint32_t due_in(const struct partner *partner, uint32_t now, uint32_t after)
{
	const struct peer *peer = partner->peer;
	uint32_t doubted = (uint32_t)(ripc__silence_of_doubted_us(peer) >> 10) + 2;

	if (partner->state != PARTNER_READY || peer->opening)
		return STEP_US >> 10;
	if (!ripc__peer_is_sounded(peer))
		return now - peer->heard < after ? after - (now - peer->heard) : 0;
	return now - peer->unanswered < doubted ? doubted - (now - peer->unanswered) :
		STEP_US >> 10;
}

/*
 * Checks the owner's peer, which answers for all services of its context: probes the peer if it is
 * silent, and gives the owner up if it does not respond.
 */
static void look_after(struct watch *watch, struct round *round)
{
	struct ripc_context *ctx = watch->service->ctx;
	struct partner *partner = watch->partner;
	struct peer *peer = partner->peer;
	uint32_t most = (uint32_t)(ripc__silence_us(ctx) >> 10);
	uint32_t now = ripc__now_1024us(ctx), after = ask_after(ctx);
	uint64_t due_us;

	if (ripc__resolver_doubts(ctx->resolver, watch->id)) {
		ripc__partner_suspect(partner);
		return;
	}
	if (now - peer->heard >= most) {
		peer->heard = now;
		ripc__hint_replaced(partner);
	} else if (round->n_asks && is_to_ask(partner, now, after)) {
		round->n_asks--;
		ripc__partner_sound(partner);
	}
	ripc__hint_unanswered(partner);
	due_us = (uint64_t)due_in(partner, now, after) << 10;
	round->due_us = due_us < round->due_us ? due_us : round->due_us;
}

static void step(struct watch *watch, struct round *round)
{
	if (watch->partner && !watch->partner->suspect)
		look_after(watch, round);
	else if (watch->partner || watch->service->ctx->now_us >= watch->look_us)
		look(watch);
}

static void fire(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;
	uint64_t gap_us = STEP_LEAST_US + (uint64_t)ctx->calls.watching.n * STEP_EACH_US;
	struct round round = {.gap_us = gap_us < STEP_US ? gap_us : STEP_US, .due_us = STEP_US};

	round.n_asks = (uint32_t)round.gap_us / ASK_GAP_US;
	list_for_each_entry(service, &ctx->calls.watching.services, struct ripc_service, watcher) {
		list_for_each(node, &service->watches)
			step(list_entry(node, struct watch, node), &round);
	}
	ripc__timer_set(&ctx->loop.timers, timer, ctx->now_us +
		(round.due_us > round.gap_us ? round.due_us : round.gap_us));
}

/* ---- calls by other rooms ---------------------------------------------------------------- */

void ripc__watch_ready(struct partner *partner)
{
	struct watch *watch = find(partner->service, partner->id);

	if (watch && may_attach(partner))
		attach(watch, partner);
}

/* Lets the timer do the check, because the caller still uses the partner. */
static void look_now(struct watch *watch)
{
	struct ripc_context *ctx = watch->service->ctx;

	watch->look_us = 0;
	ripc__timer_set(&ctx->loop.timers, &ctx->calls.watching.timer, ctx->now_us);
}

void ripc__watch_lost(struct partner *partner)
{
	struct watch *watch = find(partner->service, partner->id);

	if (!watch)
		return;
	/* The partner never owned the ID; perhaps nobody does. */
	if (partner->peer && watch->partner != partner) {
		if (!watch->partner)
			look_now(watch);
		return;
	}
	/* Nobody has the ID: a partner that was only an ID is about to be freed. */
	leave(watch);
	tell(watch, 0);
	watch->wait_us = partner->peer ? LOOK_US : watch->wait_us;
	if (partner->peer)
		look_now(watch);
}

bool ripc__watch_news(struct ripc_context *ctx, uint64_t id)
{
	bool any = false;

	list_for_each(node, &ctx->calls.watching.services) {
		struct watch *watch = find(list_entry(node, struct ripc_service, watcher), id);

		if (!watch)
			continue;
		watch->wait_us = LOOK_US;
		look_now(watch);
		any = true;
	}
	return any;
}

/* ---- beginning and ending ---------------------------------------------------------------- */

static int timer_start(struct ripc_context *ctx)
{
	int error = ctx->calls.watching.n ? 0 : ripc__timer_admit(ctx);

	if (error)
		return error;
	ctx->calls.watching.timer.fire = fire;
	if (ctx->calls.watching.n++ == 0)
		ripc__timer_set(&ctx->loop.timers, &ctx->calls.watching.timer, ctx->now_us +
		STEP_US);
	return 0;
}

static void timer_stop(struct ripc_context *ctx)
{
	if (--ctx->calls.watching.n == 0)
		ripc__timer_dismiss(ctx, &ctx->calls.watching.timer);
}

int ripc__watch_begin(struct ripc_service *service, uint64_t id, uint64_t cookie)
{
	struct watch *watch;
	int error;

	if (service->closing)
		return -ESHUTDOWN;
	if (find(service, id))
		return -EEXIST;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	watch->message = (struct message){.ctx = service->ctx, .home = MESSAGE_WATCH};
	watch->message.public = (struct ripc_msg){.kind = RIPC_NOTICE, .from = id,
		.cookie = cookie, .flags = RIPC_WATCHED};
	list_init(&watch->message.node);
	watch->service = service;
	watch->id = id;
	watch->told = NOT_TOLD;
	watch->wait_us = LOOK_US;
	watch->patience_us = service->ctx->now_us + ripc__silence_us(service->ctx);
	error = ripc__map_put(&service->watched, id, watch);
	if (error)
		goto err_free;
	error = timer_start(service->ctx);
	if (error)
		goto err_remove;
	list_append(&service->watches, &watch->node);
	if (service->n_watches++ == 0)
		list_append(&service->ctx->calls.watching.services, &service->watcher);
	look(watch);
	return 0;
err_remove:
	ripc__map_remove(&service->watched, id);
err_free:
	free(watch);
	return error;
}

static void end(struct watch *watch)
{
	struct ripc_service *service = watch->service;
	bool waits = watch->message.queued && !list_empty(&watch->message.node);

	leave(watch);
	list_remove(&watch->node);
	ripc__map_remove(&service->watched, watch->id);
	if (--service->n_watches == 0)
		list_remove(&service->watcher);
	timer_stop(service->ctx);
	if (waits)
		ripc__queue_take_back(service, &watch->message);
	watch->service = NULL;
	if (waits || !watch->message.queued)
		free(watch);
	else
		list_append(&service->ctx->calls.watching.left, &watch->node);
}

int ripc__watch_end(struct ripc_service *service, uint64_t id)
{
	struct watch *watch = find(service, id);

	if (!watch)
		return -ENOENT;
	end(watch);
	return 0;
}

void ripc__watches_end(struct ripc_service *service)
{
	while (!list_empty(&service->watches))
		end(list_entry(service->watches.next, struct watch, node));
	ripc__map_free(&service->watched);
}

void ripc__watches_free(struct ripc_context *ctx)
{
	while (!list_empty(&ctx->calls.watching.left))
		free(list_entry(list_pop(&ctx->calls.watching.left), struct watch, node));
}
