/* SPDX-License-Identifier: BSD-3-Clause */
/* The partner that a send goes to, and the answers of the resolver about partners. */
#include <errno.h>

#include "claim.h"
#include "core/call/watch.h"
#include "core/keys/sealed.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "core/send/outgoing.h"
#include "core/wire/record.h"
#include "death.h"
#include "find.h"
#include "partner.h"
#include "roam.h"
#include "util/list.h"
#include "util/map.h"
#include "util/rare.h"
#include "util/slots.h"

#define NEWS_US      1000u /* reading costs a few system calls: not read more often */
#define SILENT_US    1000000u /* a rival is taken to live if it was heard within this time */

/* With keys: a known peer whose last handshake has failed begins another. */
static int peer_open_again(struct ripc_context *ctx, struct peer *peer)
{
	int error;

	if (!ctx->seal || peer->opening)
		return 0;
	error = ripc__sealed_open(ripc__peer_device(ctx, peer)->port, peer->route);
	peer->opening = error == -EINPROGRESS;
	return peer->opening ? 0 : error;
}

/* Finds the peer that answered; with keys, only if both ends have the rights that are needed. */
static int peer_find(const struct partner *partner, const struct ripc__answer *answer,
		struct peer **peer)
{
	struct ripc_context *ctx = partner->service->ctx;
	int error = ripc__route_find(ctx, answer, peer);

	if (error)
		return error;
	error = peer_open_again(ctx, *peer);
	if (!error && (!ctx->seal || (*peer)->opening))
		return 0;
	error = error ? error : ripc__sealed_lets_out(ctx->seal, (*peer)->route,
		partner->service->id, partner->id);
	if (ripc__sealed_renew(ripc__peer_device(ctx, *peer)->port, (*peer)->route)) {
		(*peer)->opening = true;
		return 0;
	}
	if (error)
		ripc__peer_put(ctx, *peer);
	return error;
}

/* A resolving partner was found. */
static int partner_found(struct partner *partner, const struct ripc__answer *answer)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer;
	int error = peer_find(partner, answer, &peer);

	if (error)
		return error;
	error = ripc__partner_attach(partner, answer->record.incarnation, peer);
	if (error) {
		ripc__peer_put(ctx, peer);
		return error;
	}
	partner->proof = answer->proof;
	partner->resolved = true;
	return 0;
}

/* The resolver names a partner that was taken for dead: it begins anew, except for its numbers. */
static int dead_found(struct partner *partner, const struct ripc__answer *answer)
{
	struct peer *peer;
	int error = peer_find(partner, answer, &peer);

	if (error)
		return error;
	ripc__partner_to_peer(partner, peer);
	ripc__pair_begin(partner);
	partner->dead = partner->challenged = false;
	partner->resolved = true;
	partner->token_out = 0;
	partner->state = PARTNER_HELLO;
	return 0;
}

/*
 * Turns an ID into a partner, by the resolver's answer, or finds a partner that is known
 * already, because it has sent to us before we looked for it: such a partner may still have to
 * show that it lives there.
 */
static int partner_find(struct partner **partner, const struct ripc__answer *answer)
{
	struct partner *known = ripc__claim_named((*partner)->service, (*partner)->id, answer);
	int error;

	if (!known)
		return partner_found(*partner, answer);
	error = known->dead ? dead_found(known, answer) : 0;
	if (error)
		return error;
	ripc__partner_unmake_current(*partner);
	error = ripc__partner_make_current(known);
	if (error)
		return error;
	ripc__sends_merge(*partner, known);
	known->suspect = false;
	ripc__partner_free(*partner);
	*partner = known;
	ripc__claim_judge(known, answer);
	return 0;
}

/* An answer for a partner that was only an ID so far. */
static void resolving_answered(struct partner *partner, int status,
		const struct ripc__answer *answer)
{
	status = ripc__death_reask(partner, status, &answer);
	if (status == -EINPROGRESS)
		return;
	if (status || (status = partner_find(&partner, answer))) {
		ripc__outgoing_lost(partner, status, UINT64_MAX);
		ripc__watch_lost(partner);
		ripc__partner_free(partner);
		return;
	}
	ripc__partner_ready(partner, false);
}

/* An answer about a partner that may have moved, or that is known only by its own hello. */
static void suspect_resolved(struct partner *partner, int status,
		const struct ripc__answer *answer)
{
	struct ripc_service *service = partner->service;

	ripc__claim_answered(partner, status, answer);
	if (partner->resolved && ripc__map_get(&service->partners, partner->id) == partner)
		ripc__partner_ready(partner, false);
	else
		ripc__outgoing_advance(partner);
}

/* Does the partner not respond, while the resolver names another incarnation? */
static bool is_replaced(const struct partner *partner, int status,
		const struct ripc__answer *answer)
{
	return status == 0 && answer->record.incarnation != partner->incarnation &&
		ripc__follow_seeks(partner);
}

void ripc__partner_resolved(struct ripc_context *ctx, uint64_t id, int status,
		const struct ripc__answer *answer)
{
	ctx->loop.changed = true;
	for (struct ripc_service *service = ripc__partners_of(ctx, id); service;
			service = service->concerned) {
		struct partner *partner = ripc__map_get(&service->partners, id);

		if (!partner)
			continue;
		if (partner->state == PARTNER_RESOLVING)
			resolving_answered(partner, status, answer);
		else if (partner->suspect || !partner->resolved ||
				is_replaced(partner, status, answer))
			suspect_resolved(partner, status, answer);
		else if (status == 0 && answer->record.incarnation == partner->incarnation)
			ripc__follow_answered(partner, answer);
	}
}

static int resolve(struct partner **partner)
{
	struct ripc_context *ctx = (*partner)->service->ctx;
	const struct ripc__answer *answer;
	int status = ripc__resolver_lookup(ctx->resolver, (*partner)->id, ctx->now_us, &answer);

	status = ripc__death_reask(*partner, status, &answer);
	return status == -EINPROGRESS ? 0 : status ? status : partner_find(partner, answer);
}

/* The current partner of the ID, or NULL; often the same as before. */
static struct partner *current_of(struct ripc_service *service, uint64_t id)
{
	if (!service->recent || service->recent->id != id)
		service->recent = ripc__map_get(&service->partners, id);
	return service->recent;
}

int ripc__partner_for_send(struct ripc_service *service, uint64_t id, struct partner **partner_out)
{
	struct partner *partner = current_of(service, id);
	int error;

	if (service->closing)
		return -ESHUTDOWN;
	if (wire_is_group(id))
		return -EINVAL; /* no service has it */
	if (partner && !ripc__partner_settled(partner))
		partner = current_of(service, id);
	if (partner) {
		*partner_out = partner;
		return 0;
	}
	partner = ripc__partner_alloc(service, id);
	if (!partner)
		return -ENOMEM;
	error = ripc__partner_make_current(partner);
	error = error ? error : resolve(&partner);
	if (error) {
		ripc__partner_free(partner);
		return error;
	}
	*partner_out = partner;
	return 0;
}

int ripc__news_read(struct ripc_context *ctx)
{
	ctx->loop.resolver_us = ctx->now_us;
	return ripc__resolver_step(ctx->resolver, ctx->now_us);
}

/*
 * A service that registers an ID sends a notice, which may not have been read when a call needs
 * the owner of the ID. News are therefore read before a call fails because the ID had no owner a
 * moment ago, and before a call sends to a partner that was not used for a while: the partner
 * may have been started anew. Only for calls of the application, because news can end partners
 * and sends.
 */
RIPC__RARE int ripc__find_for_call(struct ripc_service *service, uint64_t id,
		struct partner **partner)
{
	struct ripc_context *ctx = service->ctx;
	int error = ripc__partner_for_send(service, id, partner);
	bool asks;

	ripc__follow_use(ctx);
	asks = error ? error == -ENOENT : ctx->now_us - ctx->loop.resolver_us >= NEWS_US &&
		ctx->now_us - (*partner)->used_us >= NEWS_IDLE_US;

	if (asks && ripc__news_read(ctx) > 0)
		error = ripc__partner_for_send(service, id, partner);
	return error;
}

int ripc__find_again(struct ripc_service *service, uint64_t id, struct partner **partner)
{
	ripc__resolver_claimed(service->ctx->resolver, id);
	return ripc__partner_for_send(service, id, partner);
}

bool ripc__find_is_rivalled(const struct ripc_service *service, const struct ripc__member *member)
{
	const struct partner *current = ripc__map_get(&service->partners, member->id);

	return current && current->peer && current->incarnation != member->incarnation;
}

/* The partner that the resolver has named for this incarnation, perhaps while it had its ID. */
static struct partner *named_before(const struct ripc_service *service,
		const struct ripc__member *member)
{
	struct partner *partner;
	uint32_t place = 0;

	while ((partner = ripc__pair_at(service, member->incarnation, place++))) {
		if (partner->id == member->id && partner->resolved && !partner->dead)
			return partner;
	}
	return NULL;
}

struct partner *ripc__find_known_member(const struct ripc_service *service,
		const struct ripc__member *member)
{
	struct partner *current = ripc__map_get(&service->partners, member->id);

	return current && current->incarnation == member->incarnation ? current :
		named_before(service, member);
}

/* The member itself has answered. Its partner is not the one that its ID means. */
static int rival_found(struct ripc_service *service, const struct ripc__answer *answer,
		struct partner **partner_out)
{
	uint64_t id = answer->record.id;
	struct partner *partner = ripc__claim_named(service, id, answer);
	int error;

	*partner_out = partner;
	if (partner && partner->dead)
		return dead_found(partner, answer);
	if (partner) { /* the partner has only claimed to be this one */
		ripc__claim_judge(partner, answer);
		return partner->resolved ? 0 : -EAGAIN;
	}
	partner = ripc__partner_alloc(service, id);
	if (!partner)
		return -ENOMEM;
	error = partner_found(partner, answer);
	if (error)
		ripc__partner_free(partner);
	*partner_out = partner;
	return error;
}

/* Another incarnation has the member's ID. Finds the member if it lives, too. */
static int find_rival(struct ripc_service *service, uint64_t group,
		const struct ripc__member *member, struct partner **partner)
{
	struct ripc_context *ctx = service->ctx;
	struct partner *rival = named_before(service, member);
	const struct ripc__answer *answer;
	int status;

	if (!rival && ripc__death_is_known(service, member->incarnation))
		return -ENOENT;
	if (!rival || ripc__silence_1024us(rival) >= SILENT_US >> 10)
		ripc__resolver_doubt(ctx->resolver, group, member->incarnation, ctx->now_us);
	if (rival) {
		rival->suspect = false; /* the rival no longer owns the ID */
		*partner = rival;
		return peer_open_again(ctx, rival->peer);
	}
	status = ripc__resolver_place(ctx->resolver, group, member->incarnation, ctx->now_us,
		&answer);
	return status ? status : rival_found(service, answer, partner);
}

int ripc__find_member(struct ripc_service *service, uint64_t group,
		const struct ripc__member *member, struct partner **partner)
{
	int error = ripc__find_again(service, member->id, partner);

	ripc__follow_use(service->ctx);
	if (error || !(*partner)->peer)
		return error;
	if ((*partner)->incarnation == member->incarnation)
		return peer_open_again(service->ctx, (*partner)->peer);
	return find_rival(service, group, member, partner);
}

struct partner *ripc__find_sender(const struct ripc_service *service, uint64_t handle)
{
	struct partner *partner = ripc__slots_get(&service->ctx->partners.slots,
		handle >> TOKEN_SLOT_SHIFT);

	return partner && ripc__handle_of(partner) == handle && partner->service == service &&
		partner->peer && !partner->dead ? partner : NULL;
}

void ripc__find_until(const struct partner *partner, uint64_t until_us)
{
	ripc__resolver_wanted(partner->service->ctx->resolver, partner->id, until_us);
}
