/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers whose address may have changed.
 *
 * Design notes. A peer is suspected to have another address when messages are not acknowledged,
 * when a network does not take what is sent, or when a notice or an answer of the resolver comes
 * from another address. Each of these may be false or forged, so the peer is first asked by the
 * route in use. Only a peer that is silent is looked for: the resolver is asked, and an echo goes
 * to each address that its answer names, beside the route in use. So an answer that lies learns no
 * token of a peer that can be reached. The route changes when the echo comes back from such an
 * address.
 *
 * Shorts are not acknowledged. So partners that are in use and were not heard for a while are asked
 * now and then.
 *
 * When addresses of this host have changed, all partners in touch are sent an echo, which comes
 * from a new address and bears the token: the partner follows (roam.c). Registrations are announced
 * again. Both are repeated, as a new interface may lose the first packets.
 */
#include <errno.h>
#include <stdlib.h>

#include "claim.h"
#include "core/base/base.h"
#include "core/keys/sealed.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/peer/path.h"
#include "core/peer/peer.h"
#include "core/peer/route.h"
#include "core/resolve/resolver.h"
#include "core/wire/wire.h"
#include "follow.h"
#include "packet.h"
#include "partner.h"
#include "roam.h"
#include "util/list.h"
#include "util/timers.h"

#define PATIENCE_US      20000u   /* a peer may be silent for so long, or two repetition times, */
#define PATIENCE_LONG_US 250000u  /* but no longer than this; and for so long, */
#define PATIENCE_FIRST_US 50000u  /* where no round trip is known */
#define SEEK_US          320000u  /* after a wait this long the resolver is asked each time */
#define WAIT_MOST_US     1280000u
#define ASKED_MAX        12u      /* some 10 s; what is sent after that begins it again */
#define DENIED_AFTER     4u       /* steps, some 600 ms */
#define LOOK_US          250000u  /* between two looks at partners that are in use */
#define IDLE_US          1000000u /* a partner that was not used for so long is not in use */
#define SILENT_MS        700u     /* a partner that was not heard for so long is asked */
#define LOOK_MAX         64u      /* partners at one look */
#define OWN_ROUNDS       4u
#define OWN_FIRST_US     10000u   /* several changes within it count as one */
#define OWN_NEXT_US      100000u  /* then twice, three times as long ... */
#define OWN_PARTNERS     1024u    /* that are sent an echo in one round */

struct follow {
	struct ripc__timer timer;
	struct peer *peer;
	uint64_t nonce;
	uint32_t wait_us, n_asked;
};

/* ---- a peer ------------------------------------------------------------------------------ */

static bool is_reliable(struct ripc_context *ctx, struct peer *peer)
{
	return ripc__peer_device(ctx, peer)->attr.caps & RIPC_CAP_RELIABLE;
}

static bool may_be_asked(const struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;

	return peer && !partner->dead && partner->resolved && !peer->opening && !peer->broken &&
		!is_reliable(ctx, peer);
}

/* One that came in a hello from elsewhere may be another's: the partner has not answered yet. */
static bool has_token(const struct partner *partner)
{
	return partner->token_out && !partner->crossed;
}

/* The partner that asks for all of the peer: one that has given a token, if any has. */
static struct partner *spokesman(struct ripc_context *ctx, const struct peer *peer)
{
	struct partner *found = NULL;

	for (struct list *node = ctx->partners.prev; node != &ctx->partners; node = node->prev) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (partner->peer != peer || !may_be_asked(partner) || (found &&
				(!has_token(partner) || (has_token(found) && !partner->current))))
			continue;
		found = partner;
		if (has_token(found) && found->current)
			break;
	}
	return found;
}

void ripc__follow_end(struct ripc_context *ctx, struct peer *peer)
{
	struct follow *follow = peer->follow;

	if (!follow)
		return;
	ripc__timer_dismiss(ctx, &follow->timer);
	free(follow);
	peer->follow = NULL;
}

static int ask_by_route(struct partner *partner, const struct follow *follow)
{
	struct wire_packet packet;

	wire_clear(&packet);
	packet.value = follow->nonce;
	packet.stamp = partner->service->ctx->now_us;
	ripc__partner_header(partner, &packet, WIRE_ECHO);
	return ripc__partner_send(partner, &packet);
}

/* Fills in the answer's address number at for a device. With keys, only of the same member. */
static bool addr_at(struct partner *partner, struct device *device,
		const struct ripc__answer *answer, uint32_t at, struct ripc__addr *addr)
{
	const struct wire_record_addr *named = &answer->record.addrs[at];

	return named->backend == device->ops->id && device->ops->route.choose(device->port,
		named->blob, named->len, answer->host, addr) == 0 &&
		(!partner->service->ctx->seal || ripc__sealed_same(partner->peer->route, addr));
}

/* What the resolver last said of the partner; NULL: nothing, or of another one. */
static const struct ripc__answer *answer_of(const struct partner *partner)
{
	const struct ripc__answer *answer = ripc__resolver_recall(
		partner->service->ctx->resolver, partner->id);

	return answer && answer->record.incarnation == partner->incarnation &&
		answer->record.context == partner->peer->context ? answer : NULL;
}

/* No token can be lost to a liar, and the first answer was believed as this one is. */
static void begin_elsewhere(struct partner *partner, const struct ripc__answer *answer)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	struct device *device;
	struct ripc__addr addr;

	device = ripc__route_choose(ctx, peer->failed, ctx->n_devices, answer, &addr);
	if (!device || (ctx->seal && !ripc__sealed_same(peer->route, &addr)) ||
			ripc__route_change(ctx, peer, device, &addr))
		return;
	partner->proof = answer->proof;
	ripc__route_taken(ctx, peer);
}

/* To each address of the answer, one of which may be that of the route. */
static void ask_elsewhere(struct partner *partner, const struct follow *follow)
{
	const struct ripc__answer *found = answer_of(partner);
	struct ripc_context *ctx = partner->service->ctx;
	struct ripc__answer answer;
	struct ripc__addr addr;

	if (!found || ripc__claim_lives_there(partner, found))
		return;
	answer = *found;
	if (!has_token(partner)) {
		begin_elsewhere(partner, &answer);
		return;
	}
	for (uint32_t d = 0; d < ctx->n_devices; d++) {
		for (uint32_t i = 0; i < answer.record.n_addrs; i++) {
			struct wire_packet echo;

			if (!addr_at(partner, &ctx->devices[d], &answer, i, &addr))
				continue;
			wire_clear(&echo);
			echo.value = follow->nonce;
			echo.stamp = ctx->now_us;
			ripc__partner_header_bare(partner, &echo, WIRE_ECHO);
			ripc__stranger_send(ctx, &ctx->devices[d], &addr, &echo, WIRE_HEADER_MAX);
		}
	}
}

/* Where is it? What is found comes to ripc__follow_answered(). */
static void seek(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	const struct ripc__answer *answer;

	ripc__resolver_claimed(ctx->resolver, partner->id);
	ripc__resolver_suspect(ctx->resolver, partner->id, partner->incarnation);
	(void)ripc__resolver_lookup(ctx->resolver, partner->id, ctx->now_us, &answer);
}

static void follow_fire(void *owner, struct ripc__timer *timer)
{
	struct follow *follow = list_entry(timer, struct follow, timer);
	struct ripc_context *ctx = owner;
	struct peer *peer = follow->peer;
	struct partner *partner = spokesman(ctx, peer);

	if (!partner || follow->n_asked == ASKED_MAX) {
		ripc__follow_end(ctx, peer);
		return;
	}
	if (follow->n_asked++ == 0 || follow->wait_us >= SEEK_US)
		seek(partner);
	if (follow->wait_us < WAIT_MOST_US)
		follow->wait_us *= 2;
	ripc__timer_set(&ctx->timers, timer, ctx->now_us + follow->wait_us);
	(void)ask_by_route(partner, follow);
	ask_elsewhere(partner, follow);
}

static uint32_t patience_us(const struct ripc_context *ctx, const struct peer *peer)
{
	uint32_t us = peer->srtt_us ? 2 * ripc__peer_rto(ctx, peer) : PATIENCE_FIRST_US;

	us = us < PATIENCE_LONG_US ? us : PATIENCE_LONG_US;
	return us > PATIENCE_US ? us : PATIENCE_US;
}

/* The peer is looked for from now on; the caller sets the timer. NULL: there is no memory. */
static struct follow *begin(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct follow *follow = calloc(1, sizeof(*follow));

	if (!follow)
		return NULL;
	if (ripc__timer_admit(ctx)) {
		free(follow);
		return NULL;
	}
	*follow = (struct follow){.timer.fire = follow_fire, .peer = partner->peer,
		.nonce = ripc__nonce(ctx), .wait_us = patience_us(ctx, partner->peer)};
	partner->peer->follow = follow;
	return follow;
}

bool ripc__follow(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct follow *follow;

	if (!may_be_asked(partner))
		return false;
	if (partner->peer->follow)
		return true;
	follow = begin(partner);
	if (!follow)
		return false;
	ripc__timer_set(&ctx->timers, &follow->timer, ctx->now_us +
		(ask_by_route(partner, follow) < 0 ? 0 : follow->wait_us));
	return true;
}

void ripc__follow_silent(struct ripc_context *ctx, struct peer *peer)
{
	struct partner *partner = spokesman(ctx, peer);
	struct follow *follow = peer->follow;

	if (partner && !follow)
		follow = begin(partner);
	if (!partner || !follow)
		return;
	if (!follow->n_asked)
		ripc__timer_set(&ctx->timers, &follow->timer, ctx->now_us);
	else if (follow->wait_us < SEEK_US)
		seek(partner);
}

void ripc__follow_or_sound(struct partner *partner)
{
	if (ripc__follow(partner))
		ripc__peer_sounded(partner->service->ctx, partner->peer);
	else
		ripc__partner_sound(partner);
}

bool ripc__follow_seeks(const struct partner *partner)
{
	return partner->peer && partner->peer->follow && partner->peer->follow->n_asked;
}

void ripc__follow_answered(struct partner *partner, const struct ripc__answer *answer)
{
	if (ripc__follow_seeks(partner))
		ask_elsewhere(partner, partner->peer->follow);
	else if (partner->peer && !ripc__claim_lives_there(partner, answer))
		ripc__follow(partner);
}

/* Is this one of the addresses that an echo went to? */
static bool is_named(struct partner *partner, struct device *device,
		const struct ripc__addr *from)
{
	const struct ripc__answer *answer = answer_of(partner);
	struct ripc__addr addr;

	for (uint32_t i = 0; answer && i < answer->record.n_addrs; i++) {
		if (addr_at(partner, device, answer, i, &addr) &&
				ripc__route_same(device, &addr, from))
			return true;
	}
	return false;
}

bool ripc__follow_echoed(struct partner *partner, uint64_t nonce, struct device *device,
		const struct ripc__addr *from)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;

	if (!peer->follow || peer->follow->nonce != nonce)
		return false;
	if (ripc__peer_device(ctx, peer) == device &&
			device->ops->route.matches(device->port, peer->route, from)) {
		ripc__follow_end(ctx, peer);
		return false;
	}
	if (!peer->follow->n_asked || !is_named(partner, device, from) ||
			ripc__route_change(ctx, peer, device, from))
		return false;
	peer->failed &= (uint8_t)~(1u << peer->device);
	ripc__follow_end(ctx, peer);
	return true;
}

/*
 * With keys nobody else can say so. Otherwise RETRY counts after a long silence: the partner has
 * forgotten us, and is found as by one that begins.
 */
bool ripc__follow_denied(struct partner *partner, const struct wire_packet *packet)
{
	struct ripc_context *ctx = partner->service->ctx;
	bool is_goodbye = packet->h.type == WIRE_GONE && packet->h.token && packet->h.number;
	struct follow *follow = partner->peer ? partner->peer->follow : NULL;

	if (!follow || !follow->n_asked || is_goodbye)
		return true;
	if (!ctx->seal && (packet->h.type == WIRE_GONE || follow->n_asked < DENIED_AFTER))
		return false;
	ripc__timer_set(&ctx->timers, &follow->timer, ctx->now_us);
	return true;
}

/* ---- partners in use --------------------------------------------------------------------- */

static bool is_silent(const struct ripc_context *ctx, const struct partner *partner)
{
	return partner->state == PARTNER_READY && partner->token_out &&
		(uint32_t)(ctx->now_us >> 10) - partner->heard >= SILENT_MS;
}

static void look(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;
	uint32_t n = 0;

	for (struct list *node = ctx->partners.prev; node != &ctx->partners && n < LOOK_MAX;
			node = node->prev) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (ctx->now_us - partner->used_us >= IDLE_US)
			break;
		if (n == 0)
			ripc__timer_set(&ctx->timers, timer, ctx->now_us + LOOK_US);
		n++;
		if (ctx->now_us - partner->used_us < 2 * LOOK_US && is_silent(ctx, partner))
			ripc__follow(partner);
	}
}

void ripc__follow_use(struct ripc_context *ctx)
{
	if (!ctx->following.looking.index)
		ripc__timer_set(&ctx->timers, &ctx->following.looking, ctx->now_us + LOOK_US);
}

/* ---- our own addresses ------------------------------------------------------------------- */

/* Nothing comes to us by an address that we do not have any more. */
static bool is_of_this_context(const struct ripc_context *ctx, const struct partner *partner)
{
	return partner->peer->context == ctx->incarnation;
}

static bool is_waited_for(const struct ripc_context *ctx, const struct partner *partner)
{
	return ripc__has_outgoing(partner) || partner->n_asked ||
		ctx->now_us - partner->used_us < IDLE_US;
}

/* An echo to each peer in touch, the most recently used first. */
static void sound_all(struct ripc_context *ctx)
{
	uint32_t began = (uint32_t)(ctx->now_us >> 10), n = 0;

	for (struct list *node = ctx->partners.prev; node != &ctx->partners && n < OWN_PARTNERS;
			node = node->prev) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (!partner->peer || partner->dead || !partner->token_out ||
				is_reliable(ctx, partner->peer))
			continue;
		if (is_waited_for(ctx, partner) || is_of_this_context(ctx, partner))
			ripc__follow(partner);
		if (partner->peer->sounded == began)
			continue;
		ripc__partner_sound(partner);
		n++;
	}
}

static void own_fire(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;

	if (++ctx->following.rounds < OWN_ROUNDS)
		ripc__timer_set(&ctx->timers, timer, ctx->now_us +
			ctx->following.rounds * OWN_NEXT_US);
	ripc__resolver_announce(ctx->resolver, ctx->now_us);
	sound_all(ctx);
}

void ripc__follow_own(struct ripc_context *ctx)
{
	uint64_t at_us = ctx->now_us + OWN_FIRST_US, next_us = ctx->following.own_us + OWN_NEXT_US;

	if (ctx->following.own.index && !ctx->following.rounds)
		return;
	if (ctx->following.own_us && at_us < next_us)
		at_us = next_us;
	ctx->following.own_us = at_us;
	ctx->following.rounds = 0;
	ripc__timer_set(&ctx->timers, &ctx->following.own, at_us);
}

int ripc__follow_open(struct ripc_context *ctx)
{
	int error = 0;

	ctx->following.looking.fire = look;
	ctx->following.own.fire = own_fire;
	for (uint32_t i = 0; i < FOLLOW_TIMERS && !error; i++)
		error = ripc__timer_admit(ctx);
	return error;
}
