/* SPDX-License-Identifier: BSD-3-Clause */
/* See token.h. There are at most RIPC_SLOTS_MAX slots, so that their numbers have 16 bits. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/objects.h"
#include "core/upcalls.h"
#include "core/wire/wire.h"
#include "partner.h"
#include "token.h"
#include "util/hash/siphash.h"
#include "util/map.h"
#include "util/slots.h"

int ripc__token_give(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	int error = ripc__slots_grow(&ctx->slots);
	uint64_t slot, nonce;

	if (error)
		return error;
	slot = ripc__slots_put(&ctx->slots, partner);
	nonce = ripc__nonce(ctx) & TOKEN_NONCE_MASK;
	partner->token_in = slot << TOKEN_SLOT_SHIFT | (nonce ? nonce : 1);
	return 0;
}

/* A number that no earlier handle of the context had. Another context counts from elsewhere. */
void ripc__handle_draw(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	do
		partner->handle = ctx->incarnation + ++ctx->handles;
	while (!partner->handle);
}

void ripc__token_take_back(struct partner *partner)
{
	ripc__slots_clear(&partner->service->ctx->slots,
		(uint32_t)(partner->token_in >> TOKEN_SLOT_SHIFT));
}

/*
 * Of those that claim the same incarnation the first is found with place 0, the next with 1, and
 * so on without a gap.
 */
static uint64_t pair_key(struct ripc_context *ctx, uint64_t local, uint64_t remote, uint64_t place)
{
	uint64_t pair[3] = {htole64(local), htole64(remote), htole64(place)};

	return ripc__siphash(ctx->secret, pair, sizeof(pair));
}

struct partner *ripc__pair_at(struct ripc_context *ctx, uint64_t local, uint64_t remote,
		uint32_t place)
{
	struct partner *partner = ripc__map_get(&ctx->partners_by_pair,
		pair_key(ctx, local, remote, place));

	if (!partner || partner->incarnation != remote || partner->service->incarnation != local)
		return NULL;
	return partner;
}

struct partner *ripc__partner_by_echo(struct ripc_context *ctx, const struct wire_header *h,
		uint64_t token_in, uint64_t token_out)
{
	struct partner *partner;

	for (uint32_t place = 0; (partner = ripc__pair_at(ctx, h->dst, h->src, place)); place++) {
		if ((token_in && partner->token_in == token_in) ||
				(token_out && partner->token_out == token_out))
			break;
	}
	return partner;
}

int ripc__pair_insert(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint64_t local = partner->service->incarnation;
	uint32_t place = 0;

	while (ripc__pair_at(ctx, local, partner->incarnation, place))
		place++;
	return ripc__map_put(&ctx->partners_by_pair,
		pair_key(ctx, local, partner->incarnation, place), partner);
}

static void replies_beyond(struct partner *partner, const struct partner *other)
{
	if (partner->replies && other->replies && partner->replies->next < other->replies->next)
		partner->replies->next = other->replies->next;
}

static void begin_beyond(struct partner *partner, const struct partner *other)
{
	if (partner->short_next < other->short_next)
		partner->short_next = other->short_next;
	if (partner->longs.next < other->longs.next)
		partner->longs.next = other->longs.next;
	replies_beyond(partner, other);
}

static void begin(struct partner *partner,
		void (*beyond)(struct partner *partner, const struct partner *other))
{
	const struct partner *other;
	uint32_t place = 0;

	while ((other = ripc__pair_at(partner->service->ctx, partner->service->incarnation,
			partner->incarnation, place++)))
		beyond(partner, other);
}

void ripc__pair_begin_replies(struct partner *partner)
{
	begin(partner, replies_beyond);
}

void ripc__pair_begin(struct partner *partner)
{
	begin(partner, begin_beyond);
}

void ripc__numbers_join(struct numbers *to, const struct numbers *from)
{
	struct numbers high = to->top >= from->top ? *to : *from;
	struct numbers low = to->top >= from->top ? *from : *to;
	uint64_t behind = high.top - low.top;

	*to = high;
	to->seen |= behind < 64 ? low.seen << behind : 0;
}

static uint64_t from_oldest(uint64_t bits, uint64_t behind)
{
	return behind < LONGS_MAX ? bits >> behind : 0;
}

static void longs_join(struct longs *to, struct longs *from)
{
	uint64_t oldest = to->in_oldest > from->in_oldest ? to->in_oldest : from->in_oldest;

	to->in_delivered = from_oldest(to->in_delivered, oldest - to->in_oldest) |
		from_oldest(from->in_delivered, oldest - from->in_oldest);
	to->in_refused = from_oldest(to->in_refused, oldest - to->in_oldest) |
		from_oldest(from->in_refused, oldest - from->in_oldest);
	to->in_oldest = oldest;
	if (to->reasons)
		return;
	to->reasons = from->reasons;
	from->reasons = NULL;
}

/* No message of one that is dead is under way. */
static void replies_join(struct partner *to, struct partner *from)
{
	if (to->replies && from->replies) {
		longs_join(to->replies, from->replies);
	} else if (from->replies) {
		to->replies = from->replies;
		from->replies = NULL;
		/* It may be of that row. */
		if (from->ack_number) {
			from->ack_number = 0;
			list_remove(&from->ack_node);
		}
	}
}

/* A dead one that gave us the same token: the same partner, before it was taken for gone. */
static struct partner *predecessor(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct partner *other;
	uint32_t place = 0;

	while ((other = ripc__pair_at(ctx, partner->service->incarnation, partner->incarnation,
			place++))) {
		if (other != partner && other->dead && other->token_own == partner->token_own &&
				other->id == partner->id)
			return other;
	}
	return NULL;
}

void ripc__pair_inherit(struct partner *partner)
{
	struct partner *other;

	if (partner->token_own && partner->token_own != partner->token_out) {
		ripc__handle_draw(partner);
		partner->token_before = partner->token_own;
	}
	partner->token_own = partner->token_out;
	other = predecessor(partner);
	if (!other)
		return;
	begin_beyond(partner, other);
	ripc__numbers_join(&partner->shorts_in, &other->shorts_in);
	longs_join(&partner->longs, &other->longs);
	replies_join(partner, other);
	if (partner->in_passed < other->in_passed)
		partner->in_passed = other->in_passed;
	partner->service->ctx->up->streams_move(other, partner);
	other->token_own = 0; /* no hello is taken for one of it any more */
}

void ripc__pair_remove(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint64_t local = partner->service->incarnation, remote = partner->incarnation;
	struct partner *at, *last = NULL;
	uint32_t place = UINT32_MAX, n = 0;

	for (; (at = ripc__pair_at(ctx, local, remote, n)); n++) {
		place = at == partner ? n : place;
		last = at;
	}
	if (place == UINT32_MAX)
		return;
	ripc__map_remove(&ctx->partners_by_pair, pair_key(ctx, local, remote, n - 1));
	/* The last one fills the gap. */
	if (last != partner)
		ripc__map_replace(&ctx->partners_by_pair, pair_key(ctx, local, remote, place),
			last);
}
