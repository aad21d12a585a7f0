/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Claims: see claim.h.
 *
 * Design notes. Incarnations, contexts and IDs are no secret, hence anybody may claim any of
 * them. A known claimant is recognised by the token that its sender has drawn, or by its
 * address. Any other claim is somebody else's, whatever the packet says. If several partners
 * claim one thing, the one that lives where the resolver's record says is believed. If the
 * record has another address, perhaps of the same context, an echo with the claimant's own token
 * is sent there: only a context that gave that token to nobody but us answers the echo, any
 * other replies RETRY (input.c). A missing response decides nothing: messages that are sent by
 * ID wait, and end at their deadlines.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "claim.h"
#include "core/base/base.h"
#include "core/call/watch.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "core/send/outgoing.h"
#include "core/send/short.h"
#include "core/wire/wire.h"
#include "packet.h"
#include "partner.h"
#include "roam.h"
#include "util/list.h"
#include "util/timers.h"

#define CLAIMANTS_MAX  16u /* of one incarnation; beyond these, only partners that the resolver
                              has named */
#define HOST_CLAIMS    4u  /* of these from one host */
#define ASKERS_MAX     64u /* requests whose askers are remembered until the reply */
#define ECHO_AGAIN_US  10000u
#define ECHO_SLOWEST_US 320000u
#define ECHOES_FIRST   4u  /* after so many the resolver is queried again for its address */

/* A claimant whose claim is verified at the address that the resolver has given. */
struct proving {
	struct ripc__timer timer;
	struct partner *partner;
	uint64_t nonce;
	uint32_t wait_us, n_asked;
};

/* Return buffers that were posted by a partner that has only claimed its ID. */
struct asker {
	uint64_t lends, token_in;
};

struct askers {
	uint32_t next;
	struct asker recent[ASKERS_MAX];
};

/* ---- identification ---------------------------------------------------------------------- */

bool ripc__claim_lives_there(const struct partner *partner, const struct ripc__answer *answer)
{
	struct ripc_context *ctx = partner->service->ctx;
	const struct device *device = ripc__peer_device(ctx, partner->peer);
	struct ripc__addr addr;

	for (uint32_t i = 0; i < answer->record.n_addrs; i++) {
		if (ripc__route_named(device, answer, i, &addr) &&
				ripc__peer_is_at(ctx, partner->peer, device, &addr))
			return true;
	}
	return false;
}

static bool says(const struct partner *partner, uint64_t id, uint64_t context)
{
	return partner->id == id && partner->peer->context == context;
}

/* A partner that is known for sure and was heard lately: no other claimant can be this partner. */
static bool is_established(const struct partner *partner)
{
	const struct ripc_context *ctx = partner->service->ctx;

	return partner->resolved && partner->known && !partner->dead &&
		ctx->now_us - partner->used_us < ripc__silence_us(ctx);
}

/* Does the resolver's record have the claimant at the address of the hello? Sends no query. */
static bool is_recorded(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__addr *from)
{
	const struct ripc__answer *answer = ripc__resolver_recall(ctx->resolver,
		packet->hello.service);
	struct ripc__addr addr;

	if (!answer || answer->record.incarnation != packet->h.src ||
			answer->record.context != packet->hello.context)
		return false;
	for (uint32_t i = 0; i < answer->record.n_addrs; i++) {
		if (ripc__route_named(device, answer, i, &addr) &&
				memcmp(addr.host, from->host, sizeof(addr.host)) == 0 &&
				ripc__route_same(device, &addr, from))
			return true;
	}
	return false;
}

enum claim ripc__claim_find(struct ripc_service *service, struct device *device,
		const struct wire_packet *packet, const struct ripc__addr *from,
		struct partner **found)
{
	struct ripc_context *ctx = service->ctx;
	uint64_t host = ripc__host_key(ctx, from);
	struct partner *partner, *here = NULL, *asked = NULL, *gone = NULL;
	uint32_t n = 0, n_host = 0;
	bool is_taken = false, is_late = false;

	for (; (partner = ripc__pair_at(service, packet->h.src, n)); n++) {
		bool is_here = ripc__peer_is_at(ctx, partner->peer, device, from);

		n_host += partner->peer->host->key == host;
		if (!says(partner, packet->hello.service, packet->hello.context)) {
			is_taken |= is_here;
			continue;
		}
		if (partner->token_own == packet->hello.token) {
			*found = partner;
			if (!partner->dead)
				return CLAIM_SAME;
			gone = partner;
		}
		if (is_here && (!here || !partner->dead))
			here = partner;
		is_taken |= is_established(partner);
		if (packet->hello.token && partner->token_before == packet->hello.token) {
			is_late = true;
			continue;
		}
		asked = partner->token_out == packet->hello.token && !partner->dead ? partner :
			asked;
		if (partner->resolved && !partner->dead && !partner->token_out)
			asked = partner->misled ? asked : partner;
	}
	/* A dead partner is the last choice: it may have been found again, as another partner. */
	if (here && !here->dead)
		asked = NULL;
	else if (asked)
		here = NULL;
	else
		here = gone ? gone : here;
	*found = here ? here : asked;
	if (*found)
		return here ? CLAIM_SAME : CLAIM_CROSSED;
	/*
	 * One address cannot claim two things at once, nor be a partner that is known to be at
	 * another address. A hello with a token that its partner has replaced was under way for
	 * long: the partner that has moved since knows which of its messages have arrived.
	 */
	if (is_taken || is_late)
		return CLAIM_REFUSED;
	return (n >= CLAIMANTS_MAX || n_host >= HOST_CLAIMS) &&
		!is_recorded(ctx, device, packet, from) ? CLAIM_REFUSED : CLAIM_NEW;
}

struct partner *ripc__claim_named(const struct ripc_service *service, uint64_t id,
		const struct ripc__answer *answer)
{
	struct partner *partner, *maybe = NULL, *gone = NULL;
	uint32_t place = 0;

	while ((partner = ripc__pair_at(service, answer->record.incarnation, place++))) {
		if (!says(partner, id, answer->record.context) || partner->liar)
			continue;
		if (partner->resolved || ripc__claim_lives_there(partner, answer)) {
			if (!partner->dead)
				return partner;
			gone = gone ? gone : partner;
		} else if (!partner->dead && partner->token_out) {
			maybe = partner;
		}
	}
	return maybe ? maybe : gone;
}

/* ---- echoes ------------------------------------------------------------------------------ */

void ripc__claim_forget(struct partner *partner)
{
	struct proving *proving = partner->proving;

	if (!proving)
		return;
	ripc__timer_dismiss(partner->service->ctx, &proving->timer);
	free(proving);
	partner->proving = NULL;
}

/*
 * The partner's address may have changed: queries it again. ripc__claim_answered() gets the
 * answer.
 */
static void ask_again(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	const struct ripc__answer *answer;

	ripc__resolver_suspect(ctx->resolver, partner->id, partner->incarnation);
	(void)ripc__resolver_lookup(ctx->resolver, partner->id, ctx->now_us, &answer);
}

static bool is_wanted(const struct partner *partner)
{
	return partner->current && (partner->pending || ripc__has_outgoing(partner));
}

static void proving_fire(void *owner, struct ripc__timer *timer)
{
	struct proving *proving = list_entry(timer, struct proving, timer);
	struct partner *partner = proving->partner;
	struct ripc_context *ctx = owner;
	const struct ripc__answer *answer = ripc__resolver_recall(ctx->resolver, partner->id);

	if (!is_wanted(partner) || !answer) {
		ripc__claim_forget(partner);
		return;
	}
	ripc__partner_echo_to(partner, answer, proving->nonce, true);
	if (++proving->n_asked % ECHOES_FIRST == 0)
		ask_again(partner);
	if (proving->wait_us < ECHO_SLOWEST_US)
		proving->wait_us *= 2;
	ripc__timer_set(&ctx->loop.timers, timer, ctx->now_us + proving->wait_us);
}

static void prove(struct partner *partner, const struct ripc__answer *answer)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct proving *proving;

	if (partner->proving || !partner->token_out)
		return;
	proving = calloc(1, sizeof(*proving));
	if (!proving)
		return;
	if (ripc__timer_admit(ctx)) {
		free(proving);
		return;
	}
	*proving = (struct proving){.timer.fire = proving_fire, .partner = partner,
		.nonce = ripc__nonce(ctx), .wait_us = ECHO_AGAIN_US};
	partner->proving = proving;
	ripc__partner_echo_to(partner, answer, proving->nonce, true);
	ripc__timer_set(&ctx->loop.timers, &proving->timer, ctx->now_us + proving->wait_us);
}

/* ---- judging ----------------------------------------------------------------------------- */

static void confirm(struct partner *partner)
{
	ripc__claim_forget(partner);
	partner->resolved = true;
	partner->service->ctx->loop.changed = true;
}

void ripc__claim_judge(struct partner *partner, const struct ripc__answer *answer)
{
	if (!partner->resolved && !ripc__claim_lives_there(partner, answer)) {
		prove(partner, answer);
		return;
	}
	confirm(partner);
	partner->proof = answer->proof;
	ripc__route_answered(partner, answer);
	ripc__pending_send(partner);
}

void ripc__claim_echoed(struct partner *partner, uint64_t nonce)
{
	if (!partner->proving || partner->proving->nonce != nonce)
		return;
	confirm(partner);
	ripc__partner_ready(partner, false);
}

/* Messages sent by ID leave this partner, for the current owner of the ID or for none. */
static void pass_by(struct partner *partner)
{
	ripc__claim_forget(partner);
	ripc__partner_unmake_current(partner);
	ripc__sends_pass_by(partner);
	ripc__watch_lost(partner);
}

bool ripc__claim_denied(struct partner *partner)
{
	if (!partner->proving)
		return false;
	partner->liar = true;
	pass_by(partner);
	return true;
}

/* Is the answer about another partner with the same claim, at the resolver's address? */
static bool is_another(struct partner *partner, const struct ripc__answer *answer)
{
	struct partner *named = ripc__claim_named(partner->service, partner->id, answer);

	return named && named != partner &&
		(named->resolved || ripc__claim_lives_there(named, answer));
}

void ripc__claim_answered(struct partner *partner, int status, const struct ripc__answer *answer)
{
	partner->suspect = false;
	/*
	 * No owner of the ID was found: a partner that is known is the best choice, if it is
	 * reached.
	 */
	if (status == -ENOENT && partner->resolved && ripc__route_is_lost(partner))
		ripc__partner_unmake_current(partner);
	else if (status == -ENOENT && !partner->resolved)
		pass_by(partner);
	if (status)
		return;
	/*
	 * If not, the partner may live on, as a rival that has not yet given way: its packets
	 * count.
	 */
	if (answer->record.incarnation == partner->incarnation &&
			answer->record.context == partner->peer->context &&
			!is_another(partner, answer))
		ripc__claim_judge(partner, answer);
	else
		pass_by(partner);
}

bool ripc__claim_may_ask(struct ripc_context *ctx)
{
	return ripc__bucket_take(&ctx->partners.rechecks, ctx->now_us);
}

/* A query to all is allowed once for each claimant. */
static bool may_ask_all(struct partner *partner)
{
	if (partner->resolved)
		return true;
	if (partner->rechecked)
		return false;
	partner->rechecked = true;
	return ripc__claim_may_ask(partner->service->ctx);
}

/*
 * Queries the claimant's host about it. If something is known of the ID, other hosts are
 * queried, too: the claimant's host may lie; and if another partner had the ID, it may have it
 * still.
 */
static int look_up(struct partner *partner, const struct ripc__answer **answer)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct ripc__where where;
	int status;

	if (!ripc__resolver_recall(ctx->resolver, partner->id) || !may_ask_all(partner)) {
		where = ripc__peer_where(ctx, partner->peer);
		return ripc__resolver_lookup_at(ctx->resolver, partner->id, where.addr.host,
			ctx->now_us, answer);
	}
	status = ripc__resolver_lookup(ctx->resolver, partner->id, ctx->now_us, answer);
	if (status || partner->resolved || (*answer)->record.incarnation == partner->incarnation)
		return status;
	ripc__resolver_suspect(ctx->resolver, partner->id, (*answer)->record.incarnation);
	return ripc__resolver_lookup(ctx->resolver, partner->id, ctx->now_us, answer);
}

bool ripc__claim_settled(struct partner *partner)
{
	const struct ripc__answer *answer;
	int status;

	if (partner->proving)
		return false;
	status = look_up(partner, &answer);
	if (status == -EINPROGRESS || (status == -ENOMEM && !partner->resolved))
		return false;
	ripc__claim_answered(partner, status, answer);
	return partner->current && partner->resolved;
}

/* ---- answers to claimants ---------------------------------------------------------------- */

void ripc__claim_asks(struct partner *partner, uint64_t lends)
{
	struct ripc_service *service = partner->service;

	if (!service->askers)
		service->askers = calloc(1, sizeof(*service->askers));
	if (!service->askers)
		return;
	service->askers->recent[service->askers->next++ % ASKERS_MAX] = (struct asker){lends,
		partner->token_in};
}

struct partner *ripc__claim_asker(const struct ripc_service *service, uint64_t id, uint64_t lends)
{
	const struct askers *askers = service->askers;

	for (uint32_t i = 0; askers && lends && i < ASKERS_MAX; i++) {
		const struct asker *asker = &askers->recent[i];
		struct partner *partner = asker->lends == lends ?
			ripc__partner_by_token_in(service->ctx, asker->token_in) : NULL;

		if (partner && partner->service == service && partner->id == id &&
				partner->peer && !partner->resolved && !partner->dead)
			return partner;
	}
	return NULL;
}
