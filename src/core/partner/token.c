/* SPDX-License-Identifier: BSD-3-Clause */
/* See token.h. There are at most RIPC_SLOTS_MAX slots, so that their numbers have 16 bits. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/objects.h"
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
