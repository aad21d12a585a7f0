/* SPDX-License-Identifier: BSD-3-Clause */
/* What is known of a partner, and how that changes. life.c makes and forgets partners. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "core/base/budget.h"
#include "core/keys/sealed.h"
#include "core/peer/path.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "core/upcalls.h"
#include "partner.h"
#include "rights.h"
#include "token.h"
#include "util/list.h"
#include "util/map.h"

/* Gives a partner its incarnation and its peer. */
int ripc__partner_attach(struct partner *partner, uint64_t incarnation, struct peer *peer)
{
	int error;

	partner->incarnation = incarnation;
	error = ripc__pair_insert(partner);
	if (error)
		return error;
	ripc__pair_begin(partner);
	partner->peer = peer;
	partner->state = PARTNER_HELLO;
	(void)ripc__rights_judge(partner);
	return 0;
}

/* ---- by ID ------------------------------------------------------------------------------- */

static int index_add(struct ripc_context *ctx, struct partner *partner)
{
	struct partner *first = ripc__map_get(&ctx->partners_by_id, partner->id);

	if (!first)
		return ripc__map_put(&ctx->partners_by_id, partner->id, partner);
	partner->same = first->same;
	first->same = partner;
	return 0;
}

static void index_remove(struct ripc_context *ctx, struct partner *partner)
{
	struct partner *at = ripc__map_get(&ctx->partners_by_id, partner->id);

	if (at == partner && partner->same)
		ripc__map_replace(&ctx->partners_by_id, partner->id, partner->same);
	else if (at == partner)
		ripc__map_remove(&ctx->partners_by_id, partner->id);
	for (; at != partner; at = at->same) {
		if (at->same == partner) {
			at->same = partner->same;
			break;
		}
	}
	partner->same = NULL;
}

int ripc__partners_index(struct ripc_context *ctx)
{
	int error = 0;

	if (ctx->has_index)
		return 0;
	list_for_each(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		/* Of a single service: no two have the same ID. */
		if (partner->current && !error)
			error = index_add(ctx, partner);
	}
	ctx->has_index = !error;
	if (error)
		ripc__map_free(&ctx->partners_by_id);
	return error;
}

struct ripc_service *ripc__partners_of(struct ripc_context *ctx, uint64_t id)
{
	struct partner *partner = ctx->has_index ? ripc__map_get(&ctx->partners_by_id, id) : NULL;
	struct ripc_service *first = NULL;

	if (!ctx->has_index && !list_empty(&ctx->services))
		first = list_entry(ctx->services.next, struct ripc_service, node);
	if (first)
		first->concerned = NULL;
	for (; partner; partner = partner->same) {
		partner->service->concerned = first;
		first = partner->service;
	}
	return first;
}

/* The partner is whom its ID means from now on. */
int ripc__partner_make_current(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	int error = ripc__map_put(&partner->service->partners, partner->id, partner);

	partner->service->recent = NULL;
	if (error)
		return error;
	error = ctx->has_index ? index_add(ctx, partner) : 0;
	partner->current = !error;
	if (error)
		ripc__map_remove(&partner->service->partners, partner->id);
	return error;
}

void ripc__partner_unmake_current(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	if (partner->current)
		ripc__map_remove(&partner->service->partners, partner->id);
	if (partner->current && ctx->has_index)
		index_remove(ctx, partner);
	partner->current = false;
	partner->service->recent = NULL;
}

static void accept_unasked(struct partner *partner, const struct wire_hello *hello)
{
	partner->unasked = hello->unasked < UNASKED_BYTES ? hello->unasked : UNASKED_BYTES;
}

void ripc__partner_greeted(struct partner *partner, const struct wire_packet *packet)
{
	accept_unasked(partner, &packet->hello);
	partner->token_out = packet->hello.token;
	partner->refuses = false;
	partner->state = PARTNER_READY;
}

void ripc__partner_hello(struct partner *partner, const struct wire_packet *packet)
{
	bool forgot = partner->token_out && partner->token_out != packet->hello.token;

	if (partner->token_out == packet->hello.token) {
		accept_unasked(partner, &packet->hello);
		return;
	}
	ripc__partner_greeted(partner, packet);
	partner->service->ctx->up->partner_ready(partner, forgot);
}

bool ripc__partner_may_repeat(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint32_t apart = 1 + ripc__peer_rto(ctx, partner->peer) / TICK_US;
	uint16_t tick = (uint16_t)(ctx->now_us / TICK_US);

	if (partner->repeated_tick && (uint16_t)(tick - partner->repeated_tick) < apart)
		return false;
	partner->repeated_tick = tick ? tick : 1;
	return true;
}

void ripc__partner_suspect(struct partner *partner)
{
	if (partner->suspect)
		return;
	partner->suspect = true;
	ripc__resolver_suspect(partner->service->ctx->resolver, partner->id, partner->incarnation);
}

void ripc__partner_retire(struct partner *partner)
{
	ripc__resolver_suspect(partner->service->ctx->resolver, partner->id, partner->incarnation);
	ripc__partner_unmake_current(partner);
	partner->suspect = false; /* what its ID means now is no longer its concern */
}

void ripc__partner_revive(struct partner *partner)
{
	partner->dead = partner->challenged = partner->resolved = partner->rechecked = false;
	ripc__pair_begin(partner);
	if (!ripc__map_get(&partner->service->partners, partner->id))
		ripc__partner_make_current(partner); /* without memory: found by its token */
}

/* The partner has understood nothing of what we sent: no message was delivered, for certain. */
void ripc__partner_aborted(struct partner *partner)
{
	if (!ripc__has_outgoing(partner) && !partner->held)
		return; /* nothing is told twice */
	ripc__log(partner->service->ctx, RIPC_LOG_WARN, "service %016llx speaks another version of "
		"the protocol: sends to it fail", (unsigned long long)partner->id);
	partner->service->ctx->up->sends_fail(partner, -EPROTONOSUPPORT);
}

/* A partner that is asked again and again refuses each time; the log is told seldom. */
static void say_refused(const struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	unsigned long long id = partner->id, own = partner->service->id;

	if (!ripc__bucket_take(&ctx->words, ctx->now_us))
		return;
	if (ripc__sealed_may_be(ctx->seal, own))
		ripc__log(ctx, RIPC_LOG_WARN, "keys: service %#llx refuses us: our key may not "
			"send to service %#llx (ripc key grant --send)", id, id);
	else
		ripc__log(ctx, RIPC_LOG_WARN, "keys: service %#llx refuses us: our key may not be "
			"service %#llx, or not send to service %#llx (ripc key grant --be, --send)",
			id, own, id);
}

void ripc__partner_say_unheard(const struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	if (!partner->peer || partner->state != PARTNER_HELLO || partner->peer->opening ||
			!ripc__bucket_take(&ctx->words, ctx->now_us))
		return;
	ripc__log(ctx, RIPC_LOG_WARN, "service %#llx was found, but does not respond over %s: a "
		"firewall drops packets to or from it, or its process is stopped (see \"ripc "
		"ping\")", (unsigned long long)partner->id,
		ripc__peer_device(ctx, partner->peer)->ops->name);
}

/* It refuses a packet, but our hello counts. */
static void refused_once(struct partner *partner)
{
	if (partner->refuses)
		return;
	partner->refuses = true;
	say_refused(partner);
}

void ripc__partner_refused(struct partner *partner, bool is_hello)
{
	ripc__sealed_refused(partner->peer->route);
	partner->barred = true;
	if (!is_hello) {
		refused_once(partner);
		return;
	}
	if (ripc__refused_waits(partner))
		return;
	partner->refuses = true;
	if (!ripc__has_outgoing(partner) && !partner->held)
		return;
	say_refused(partner);
	partner->service->ctx->up->sends_fail(partner, -EACCES);
}

size_t ripc__partners_bytes(struct ripc_context *ctx)
{
	size_t bytes = ripc__slots_bytes(&ctx->slots) +
		ripc__map_bytes(&ctx->partners_by_pair) +
		ripc__map_bytes(&ctx->partners_by_id) + ripc__peers_bytes(ctx);

	list_for_each(node, &ctx->services)
		bytes += ripc__map_bytes(&list_entry(node, struct ripc_service, node)->partners);
	list_for_each(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		bytes += sizeof(*partner) + ctx->up->waiting_bytes(partner) +
			(partner->replies ? sizeof(*partner->replies) : 0);
		for_each_row(longs, partner)
			bytes += longs->reasons ? LONGS_MAX : 0;
	}
	return bytes;
}
