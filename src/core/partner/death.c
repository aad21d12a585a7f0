/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of others' contexts, of which a resolver source has proof: all partners that live there
 * are lost at once.
 *
 * Design notes. Packets that a context has sent before its end may still be on their way through
 * the kernel, an answer to us among them. The context's partners are therefore lost a moment
 * later (SETTLE_US), when the ports have been read to their end. Later packets are not believed,
 * and the outcome is then UNKNOWN. A send that began after the proof was there was certainly not
 * delivered.
 *
 * Most proofs arrive unasked. If a forked child keeps a context's connection open, no proof
 * arrives: while a partner does not respond about a message, all locks are polled.
 *
 * A service that closes says goodbye to its partners. They believe the goodbye because of the
 * tokens, which only the two ends know. If the kernel reports the end, too, the first report
 * counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/events.h"
#include "core/net/backend.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "core/wire/wire.h"
#include "death.h"
#include "packet.h"
#include "partner.h"
#include "roam.h"
#include "util/list.h"
#include "util/map.h"
#include "util/timers.h"

/* ---- hint -------------------------------------------------------------------------------- */

/*
 * A failure hint says that a peer has ended, and may be forged: the peer is queried, eight
 * times, and only a missing response counts. At a loss of 25 % in both directions a living peer
 * does not respond once in 700 times; with three queries it was once in 10.
 *
 * A network's hint quotes the packet that it is about, and counts only if that packet has a
 * token. Only the partner, we, and the path between know tokens: a forger that cannot read our
 * packets casts no doubt on a partner, which may just be stopped for a while. A quote that ends
 * before the token shows nothing, and is therefore no hint. A sealed network has compared the
 * index and the counter instead, which are as hard to guess.
 *
 * If the network gives no hint, the partner's host is queried for one: Linux sends one ICMP
 * message a second to a destination, and other systems drop them all. Any process there knows
 * from its kernel whether the partner's name is bound (resolve/lookup.c). One query is sent for
 * a context, however many of its services are awaited, and the queries become rarer while it
 * does not respond.
 *
 * Design notes. An inquiry goes on to its end even if the peer answers: many hints therefore
 * cause no more queries. After an inquiry without a response, the peer's partners are lost as
 * after GONE, but the time of their end is not known: the outcome of messages that were wholly
 * sent is UNKNOWN. A peer that lives nevertheless comes back like any partner that was taken for
 * gone by mistake.
 */

#define ASKED          8u
#define ASKED_MOST     16u /* by a context that polls so seldom that it is late each time */
#define HOST_AGAIN_US  400000u /* until a host without response is queried again, at first */
#define INQUIRIES_MAX  1024u

struct inquiry {
	struct list node; /* ctx->partners.hints.inquiries */
	struct peer *peer;
	uint64_t nonce, step_us, due_us;
	uint32_t began, n_asked; /* began: as partner->heard */
	bool is_answered, is_lost;
};

static struct inquiry *inquiry_of(const struct partner *partner)
{
	return partner->peer ? partner->peer->inquiry : NULL;
}

/* A partner that lives there, preferably one that has given us a token. */
static struct partner *spokesman(struct ripc_context *ctx, const struct peer *peer)
{
	struct partner *found = NULL;

	for_each_partner(partner, ctx) {
		if (partner->peer != peer || partner->dead)
			continue;
		found = partner;
		if (partner->token_out)
			break;
	}
	return found;
}

/* Has any partner there said something since? Our token makes that authentic. */
static bool was_heard(struct ripc_context *ctx, const struct inquiry *inquiry)
{
	for_each_partner(partner, ctx) {
		if (partner->peer == inquiry->peer && partner->heard &&
				(int32_t)(partner->heard - inquiry->began) > 0)
			return true;
	}
	return false;
}

/*
 * The peer may live elsewhere, and may move once more: a search takes 80 ms. A living peer on a
 * long path is not searched for before a round trip has passed.
 */
static bool is_time_to_search(const struct inquiry *inquiry)
{
	const struct peer *peer = inquiry->peer;
	bool is_long = peer->srtt_us + 4ull * peer->rttvar_us > 2 * inquiry->step_us;

	return inquiry->n_asked == (is_long ? 4 : 3) || inquiry->n_asked == 6;
}

static void ask(struct ripc_context *ctx, struct inquiry *inquiry)
{
	struct partner *partner = inquiry->is_answered ? NULL : spokesman(ctx, inquiry->peer);

	inquiry->n_asked++;
	inquiry->due_us = ctx->now_us + inquiry->step_us;
	if (!partner)
		return;
	ripc__partner_echo(partner, inquiry->nonce);
	if (is_time_to_search(inquiry) && !was_heard(ctx, inquiry))
		ripc__follow_silent(ctx, inquiry->peer);
}

static void timer_set(struct ripc_context *ctx)
{
	uint64_t at = UINT64_MAX;

	list_for_each(node, &ctx->partners.hints.inquiries) {
		struct inquiry *inquiry = list_entry(node, struct inquiry, node);

		at = inquiry->due_us < at ? inquiry->due_us : at;
	}
	if (at != UINT64_MAX)
		ripc__timer_set(&ctx->loop.timers, &ctx->partners.hints.timer, at);
}

/* Partners that did not respond until the end of their inquiries are lost. */
static void lose(struct ripc_context *ctx)
{
	ctx->loop.changed = true;
	for_each_partner_safe(partner, ctx) {
		const struct inquiry *inquiry = inquiry_of(partner);

		if (inquiry && inquiry->is_lost && !partner->dead)
			ripc__partner_lost(partner, -EHOSTUNREACH, UINT64_MAX);
	}
}

static void end_lost(struct ripc_context *ctx)
{
	list_for_each_safe(node, &ctx->partners.hints.inquiries) {
		struct inquiry *inquiry = list_entry(node, struct inquiry, node);

		if (inquiry->is_lost)
			ripc__inquiry_end(ctx, inquiry->peer);
	}
}

/* If this context was itself stopped meanwhile, it could receive nothing, and queries once more. */
static void fire(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;
	bool is_late = ctx->now_us - timer->at_us >= LEAP_US / 3, any = false;

	list_for_each_safe(node, &ctx->partners.hints.inquiries) {
		struct inquiry *inquiry = list_entry(node, struct inquiry, node);

		if (inquiry->due_us > ctx->now_us)
			continue;
		if (inquiry->n_asked < ASKED)
			ask(ctx, inquiry);
		else if (inquiry->is_answered || was_heard(ctx, inquiry))
			ripc__inquiry_end(ctx, inquiry->peer);
		else if (is_late && inquiry->n_asked < ASKED_MOST)
			ask(ctx, inquiry);
		else
			any = inquiry->is_lost = true;
	}
	if (any) {
		lose(ctx);
		end_lost(ctx);
	}
	timer_set(ctx);
}

int ripc__hints_open(struct ripc_context *ctx)
{
	list_init(&ctx->partners.hints.inquiries);
	ctx->partners.hints.timer.fire = fire;
	return ripc__timer_admit(ctx);
}

static void inquire(struct ripc_context *ctx, struct peer *peer)
{
	struct inquiry *inquiry;

	if (peer->inquiry || ctx->partners.hints.n == INQUIRIES_MAX)
		return;
	inquiry = calloc(1, sizeof(*inquiry));
	if (!inquiry)
		return;
	*inquiry = (struct inquiry){.peer = peer, .nonce = ripc__nonce(ctx),
		.step_us = ripc__silence_of_hinted_us(peer) / ASKED,
		.began = ripc__now_1024us(ctx)};
	peer->inquiry = inquiry;
	list_append(&ctx->partners.hints.inquiries, &inquiry->node);
	ctx->partners.hints.n++;
	ask(ctx, inquiry);
	timer_set(ctx);
}

/* The partner that a packet was sent to, found by the packet's token or its hello's token. */
static struct partner *addressee(struct ripc_context *ctx, const uint8_t *quote, uint32_t len)
{
	struct wire_header sent, answer;

	if (wire_decode_header(quote, len, &sent))
		return NULL;
	answer = (struct wire_header){.src = sent.dst, .dst = sent.src};
	return ripc__partner_by_echo(ctx, &answer, wire_quoted_hello(&sent, quote, len),
		sent.token);
}

/* Is the route open, too? */
static bool is_at(struct ripc_context *ctx, const struct peer *peer, const struct device *device,
		const struct ripc__addr *from)
{
	return !peer->opening && ripc__peer_is_at(ctx, peer, device, from);
}

static struct peer *peer_at(struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from)
{
	struct peer *peer;
	uint32_t at = 0;

	while ((peer = ripc__map_next(&ctx->peers.all, &at)) && !is_at(ctx, peer, device, from))
		;
	return peer;
}

void ripc__hint(struct ripc_context *ctx, struct device *device, const struct ripc__event *event)
{
	struct peer *peer;

	if (!event->data) {
		peer = peer_at(ctx, device, event->from);
	} else {
		struct partner *partner = addressee(ctx, event->data, event->len);

		peer = partner ? partner->peer : NULL;
	}
	if (peer && is_at(ctx, peer, device, event->from))
		inquire(ctx, peer);
}

void ripc__hint_replaced(const struct partner *partner)
{
	if (!partner->dead && !partner->peer->opening)
		inquire(partner->service->ctx, partner->peer);
}

void ripc__hint_absent(void *arg, const struct ripc__presence *presence)
{
	struct ripc_context *ctx = arg;
	struct peer *peer = ripc__map_get(&ctx->peers.all, presence->key);

	if (peer && peer->context == presence->context && !peer->opening)
		inquire(ctx, peer);
}

/* Was the peer's host queried about this context so lately that no query is sent? */
static bool host_is_asked(const struct peer *peer, uint32_t now, uint64_t silent_us)
{
	uint64_t gap_us = silent_us / 2 > HOST_AGAIN_US ? silent_us / 2 : HOST_AGAIN_US;

	return peer->host_asked && now - peer->host_asked < gap_us >> 10;
}

/*
 * The host in the partner's record. After a search (roam.c) there is no record, and the host
 * that the route leads to counts.
 */
static bool host_of(const struct partner *partner, uint8_t host[16])
{
	struct ripc_context *ctx = partner->service->ctx;
	const struct ripc__answer *answer = ripc__resolver_recall(ctx->resolver, partner->id);
	struct ripc__where where;

	if (answer && answer->record.incarnation == partner->incarnation) {
		memcpy(host, answer->host, sizeof(answer->host));
		/* The kernel reports the end of partners on this host. */
		return !answer->local;
	}
	if (!partner->resolved || !ripc__peer_device(ctx, partner->peer)->ops->route.where)
		return false;
	where = ripc__peer_where(ctx, partner->peer);
	memcpy(host, where.addr.host, sizeof(where.addr.host));
	return true;
}

void ripc__hint_silent(const struct partner *partner, uint64_t silent_us)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	uint32_t now = ripc__now_1024us(ctx);
	uint8_t host[16];

	if (partner->dead || peer->opening || peer->gone || peer->inquiry ||
			silent_us < ripc__silence_of_doubted_us(peer) ||
			now - peer->heard < ripc__silence_of_doubted_us(peer) >> 10 ||
			host_is_asked(peer, now, silent_us) || !host_of(partner, host))
		return;
	peer->host_asked = now ? now : 1;
	ripc__resolver_presence(ctx->resolver, &(struct ripc__presence){partner->id,
		partner->incarnation, peer->context, peer->key}, host, ctx->now_us);
}

void ripc__hint_unanswered(const struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	const struct peer *peer = partner->peer;

	if (ripc__peer_is_sounded(peer))
		ripc__hint_silent(partner, (uint64_t)(ripc__now_1024us(ctx) -
			peer->unanswered) << 10);
}

void ripc__hint_answered(const struct partner *partner)
{
	struct inquiry *inquiry = inquiry_of(partner);

	if (inquiry)
		inquiry->is_answered = true;
}

void ripc__hint_echo(const struct partner *partner, uint64_t nonce)
{
	struct inquiry *inquiry = inquiry_of(partner);

	if (inquiry && inquiry->nonce == nonce)
		inquiry->is_answered = true;
}

void ripc__inquiry_end(struct ripc_context *ctx, struct peer *peer)
{
	struct inquiry *inquiry = peer->inquiry;

	if (!inquiry)
		return;
	list_remove(&inquiry->node);
	ctx->partners.hints.n--;
	free(inquiry);
	peer->inquiry = NULL;
}

/* ---- death ------------------------------------------------------------------------------- */

#define SETTLE_US 2000u
#define SOON_US   5000u
#define LOOK_US   50000u
#define GOODBYES_MAX 1024u
#define GOODBYES_AGAIN 2 /* at a loss of 1 %, all three are lost once in 10^6 */
#define ASKS_AGAIN_US BACK_OFF_MAX_US /* a partner that lacks an answer asks again within this */
#define DOUBT_US  (BACK_OFF_MAX_US + 4 * LOOK_US) /* longer than between two repetitions */

/* NULL: the end is not known, or so old that others have taken its place. */
static const struct ended *find_ended(const struct ripc_context *ctx, uint64_t context)
{
	for (uint32_t i = 0; i < ENDED_MAX && context; i++) {
		if (ctx->partners.death.ended[i].context == context)
			return &ctx->partners.death.ended[i];
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
	struct death *death = &ctx->partners.death;

	if (!death->settling.index || at_us < death->settling.at_us)
		ripc__timer_set(&ctx->loop.timers, &death->settling, at_us);
}

static void lose_partners(struct ripc_context *ctx)
{
	ctx->loop.changed = true;
	for_each_partner_safe(partner, ctx) {
		const struct ended *ended;

		if (!partner->peer || !partner->peer->gone || partner->dead)
			continue;
		ended = find_ended(ctx, partner->peer->context);
		if (ended && ended->told_us + SETTLE_US > ctx->now_us)
			continue;
		ripc__partner_lost(partner, -ENOENT, ended ? ended->told_us : UINT64_MAX);
	}
}

static void settle(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;
	struct peer *peer;
	uint32_t at = 0;

	(void)timer;
	if (!ripc__ports_drain(ctx)) {
		settle_later(ctx, ctx->now_us + 1); /* due when the reader that was woken is here */
		return;
	}
	lose_partners(ctx);
	while ((peer = ripc__map_next(&ctx->peers.all, &at))) {
		uint64_t due_us = peer->gone ? settles_us(ctx, peer) : 0;

		peer->gone = due_us > ctx->now_us;
		if (peer->gone)
			settle_later(ctx, due_us);
	}
}

static void look(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;
	struct death *death = &ctx->partners.death;

	(void)timer;
	death->is_looking = ripc__resolver_look(ctx->resolver) &&
		ctx->now_us < death->doubt_until_us;
	if (death->is_looking)
		ripc__timer_set(&ctx->loop.timers, &death->looking, ctx->now_us + LOOK_US);
}

int ripc__death_open(struct ripc_context *ctx)
{
	int error = 0;

	ctx->partners.death.settling.fire = settle;
	ctx->partners.death.looking.fire = look;
	for (uint32_t i = 0; i < DEATH_TIMERS && !error; i++)
		error = ripc__timer_admit(ctx);
	return error;
}

/* Another context may be about to close. */
static void look_soon(struct ripc_context *ctx)
{
	ctx->partners.death.doubt_until_us = ctx->now_us + DOUBT_US;
	ctx->partners.death.is_looking = true;
	ripc__timer_set(&ctx->loop.timers, &ctx->partners.death.looking, ctx->now_us + SOON_US);
}

static void mark_gone(struct ripc_context *ctx, const struct ended *ended)
{
	struct peer *peer;
	bool any = false;
	uint32_t at = 0;

	while ((peer = ripc__map_next(&ctx->peers.all, &at))) {
		if (peer->context == ended->context)
			any = peer->gone = true;
	}
	if (any)
		settle_later(ctx, ended->told_us + SETTLE_US);
}

/* Remembers the end of a context, which happens only once. */
static const struct ended *remember(struct ripc_context *ctx, uint64_t context)
{
	const struct ended *known = find_ended(ctx, context);
	struct ended *ended = &ctx->partners.death.ended[ctx->partners.death.n_ended % ENDED_MAX];

	if (known)
		return known;
	ctx->partners.death.n_ended++;
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
	while ((partner = ripc__pair_at(service, incarnation, place))) {
		if (!partner->dead)
			return false;
		place++;
	}
	return place > 0;
}

/*
 * The outcome of all that the partner has sent, except replies, whose sender gets no report:
 * nothing else of the partner's will ever be delivered.
 */
static struct wire_ack last_words(const struct partner *partner)
{
	const struct longs *longs = &partner->longs;

	return (struct wire_ack){.number = longs->in_oldest + LONGS_MAX, .status = ESHUTDOWN,
		.also = longs->in_delivered};
}

/*
 * A partner that repeats a message because its answer got lost finds no service here any more. A
 * partner that may lack an answer is therefore notified twice more.
 */
static int times_of(const struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	bool lacks = partner->longs.in_delivered &&
		ctx->now_us - partner->used_us < ASKS_AGAIN_US &&
		!ripc__peer_is_reliable(ctx, partner->peer);

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
		ripc__packet_send(partner, &packet);
	}
}

void ripc__death_doubt(struct ripc_context *ctx)
{
	ctx->partners.death.doubt_until_us = ctx->now_us + DOUBT_US;
	if (!ctx->partners.death.is_looking)
		look(ctx, &ctx->partners.death.looking);
}
