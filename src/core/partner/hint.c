/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hint says that a peer has ended, and may be forged: the peer is asked, eight times, and only
 * its silence counts. At a loss of 25 % in both directions a living peer is silent once in 500
 * times; with three times it was once in 10.
 *
 * A network's hint quotes the packet that it is about, and is heeded only if that packet has a
 * token. Only the partner, we, and the path between know tokens: a forger that cannot read our
 * packets casts no doubt on a partner, which may just be stopped for a while. A quote that ends
 * before the token shows nothing, and so is no hint. A sealed network has looked at the index and
 * the counter instead, which are as hard to guess.
 *
 * A partner's host is asked for a hint where the network gives none: Linux sends one ICMP message a
 * second to a destination, and others drop them all. Any process there knows from its kernel
 * whether the partner's name is bound (resolve/presence.c). One context is asked for once, whatever
 * services of it are waited for, and ever more seldom while it is silent.
 *
 * Design notes. An inquiry goes on to its end though the peer answers: so that hints in numbers
 * make us ask no more often. After an inquiry that ends in silence the peer's partners are lost as
 * after GONE, but since when they have been gone is not known: what was wholly sent is UNKNOWN. A
 * peer that lives nevertheless comes back like any partner that was taken for gone by mistake.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/net/backend.h"
#include "core/peer/path.h"
#include "core/peer/timing.h"
#include "core/resolve/resolver.h"
#include "core/wire/wire.h"
#include "follow.h"
#include "hint.h"
#include "life.h"
#include "packet.h"
#include "partner.h"
#include "token.h"
#include "util/list.h"
#include "util/map.h"
#include "util/timers.h"

#define ASKED          8u
#define HOST_AGAIN_US  400000u /* until a host that is silent, too, is asked again, at first */
#define INQUIRIES_MAX  1024u

struct inquiry {
	struct list node; /* ctx->hints.inquiries */
	struct peer *peer;
	uint64_t nonce, step_us, due_us;
	uint32_t began, n_asked; /* began: as partner->heard */
	bool is_answered, is_lost;
};

static struct inquiry *inquiry_of(const struct partner *partner)
{
	return partner->peer ? partner->peer->inquiry : NULL;
}

/* One that lives there; one that has given us a token, if there is such. */
static struct partner *spokesman(struct ripc_context *ctx, const struct peer *peer)
{
	struct partner *found = NULL;

	list_for_each(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

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
	list_for_each(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (partner->peer == inquiry->peer &&
				(int32_t)(partner->heard - inquiry->began) > 0)
			return true;
	}
	return false;
}

static void ask(struct ripc_context *ctx, struct inquiry *inquiry)
{
	struct wire_packet packet = {.value = inquiry->nonce, .stamp = ctx->now_us};
	struct partner *partner = inquiry->is_answered ? NULL : spokesman(ctx, inquiry->peer);

	inquiry->n_asked++;
	inquiry->due_us = ctx->now_us + inquiry->step_us;
	if (!partner)
		return;
	ripc__partner_header(partner, &packet, WIRE_ECHO);
	ripc__partner_send(partner, &packet);
	/* It may live elsewhere, and may move once more: a search takes 80 ms. */
	if ((inquiry->n_asked == 3 || inquiry->n_asked == 6) && !was_heard(ctx, inquiry))
		ripc__follow_silent(ctx, inquiry->peer);
}

static void timer_set(struct ripc_context *ctx)
{
	uint64_t at = UINT64_MAX;

	list_for_each(node, &ctx->hints.inquiries) {
		struct inquiry *inquiry = list_entry(node, struct inquiry, node);

		at = inquiry->due_us < at ? inquiry->due_us : at;
	}
	if (at != UINT64_MAX)
		ripc__timer_set(&ctx->timers, &ctx->hints.timer, at);
}

/* Those that were silent to the end of their inquiries. */
static void lose(struct ripc_context *ctx)
{
	ctx->changed = ctx->walking = true;
	list_for_each_safe(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);
		const struct inquiry *inquiry = inquiry_of(partner);

		if (inquiry && inquiry->is_lost && !partner->dead)
			ripc__partner_lost(partner, -EHOSTUNREACH, UINT64_MAX);
	}
	ctx->walking = false;
}

static void end_lost(struct ripc_context *ctx)
{
	list_for_each_safe(node, &ctx->hints.inquiries) {
		struct inquiry *inquiry = list_entry(node, struct inquiry, node);

		if (inquiry->is_lost)
			ripc__inquiry_end(ctx, inquiry->peer);
	}
}

/* A context that was itself stopped meanwhile could hear nothing: it asks once more. */
static void fire(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;
	bool is_late = ctx->now_us - timer->at_us >= LEAP_US / 3, any = false;

	list_for_each_safe(node, &ctx->hints.inquiries) {
		struct inquiry *inquiry = list_entry(node, struct inquiry, node);

		if (inquiry->due_us > ctx->now_us)
			continue;
		if (inquiry->n_asked < ASKED || (is_late && !inquiry->is_answered))
			ask(ctx, inquiry);
		else if (inquiry->is_answered || was_heard(ctx, inquiry))
			ripc__inquiry_end(ctx, inquiry->peer);
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
	list_init(&ctx->hints.inquiries);
	ctx->hints.timer.fire = fire;
	return ripc__timer_admit(ctx);
}

static void inquire(struct ripc_context *ctx, struct peer *peer)
{
	struct inquiry *inquiry;

	if (peer->inquiry || ctx->hints.n == INQUIRIES_MAX)
		return;
	inquiry = calloc(1, sizeof(*inquiry));
	if (!inquiry)
		return;
	*inquiry = (struct inquiry){.peer = peer, .nonce = ripc__nonce(ctx),
		.step_us = ripc__silence_of_hinted_us(peer) / ASKED,
		.began = (uint32_t)(ctx->now_us >> 10)};
	peer->inquiry = inquiry;
	list_append(&ctx->hints.inquiries, &inquiry->node);
	ctx->hints.n++;
	ask(ctx, inquiry);
	timer_set(ctx);
}

/* To whom a packet was sent, by its first bytes: by its token, or by that which its hello gives. */
static struct partner *addressee(struct ripc_context *ctx, const uint8_t *quote, uint32_t len)
{
	struct wire_header sent, answer;

	if (wire_decode_header(quote, len, &sent))
		return NULL;
	answer = (struct wire_header){.src = sent.dst, .dst = sent.src};
	return ripc__partner_by_echo(ctx, &answer, wire_quoted_hello(&sent, quote, len),
		sent.token);
}

static bool is_at(struct ripc_context *ctx, struct peer *peer, const struct device *device,
		const struct ripc__addr *from)
{
	return !peer->opening && ripc__peer_device(ctx, peer) == device &&
		device->ops->route.matches(device->port, peer->route, from);
}

static struct peer *peer_at(struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from)
{
	struct peer *peer;
	uint32_t at = 0;

	while ((peer = ripc__map_next(&ctx->peers, &at)) && !is_at(ctx, peer, device, from))
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
	struct peer *peer = ripc__map_get(&ctx->peers, presence->key);

	if (peer && peer->context == presence->context && !peer->opening)
		inquire(ctx, peer);
}

/* Was its host asked about this context so lately that it is not asked again? */
static bool host_is_asked(const struct peer *peer, uint32_t now, uint64_t silent_us)
{
	uint64_t gap_us = silent_us / 2 > HOST_AGAIN_US ? silent_us / 2 : HOST_AGAIN_US;

	return peer->host_asked && now - peer->host_asked < gap_us >> 10;
}

/* As its record says. A search forgets that (follow.c): its route still leads there. */
static bool host_of(const struct partner *partner, uint8_t host[16])
{
	struct ripc_context *ctx = partner->service->ctx;
	const struct ripc__answer *answer = ripc__resolver_recall(ctx->resolver, partner->id);
	struct device *device = ripc__peer_device(ctx, partner->peer);
	struct ripc__where where = {0};

	if (answer && answer->record.incarnation == partner->incarnation) {
		memcpy(host, answer->host, sizeof(answer->host));
		/* The kernel reports the end of partners on this host (death.c). */
		return !answer->local;
	}
	if (!partner->resolved || !device->ops->route.where)
		return false;
	device->ops->route.where(device->port, partner->peer->route, &where);
	memcpy(host, where.addr.host, sizeof(where.addr.host));
	return true;
}

void ripc__hint_silent(const struct partner *partner, uint64_t silent_us)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	uint32_t now = (uint32_t)(ctx->now_us >> 10);
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
		ripc__hint_silent(partner, (uint64_t)((uint32_t)(ctx->now_us >> 10) -
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
	ctx->hints.n--;
	free(inquiry);
	peer->inquiry = NULL;
}
