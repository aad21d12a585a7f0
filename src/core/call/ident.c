/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The IDs of open calls. An ID is the number of a slot and bits of chance, as a token is. Short
 * questions to one partner count up from a number that only the two of them know.
 */
#include "call.h"
#include "core/base/base.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/partner/token.h"
#include "ident.h"
#include "util/slots.h"

#define SLOT_SHIFT 48
#define CHANCE     ((1ull << SLOT_SHIFT) - 1)

int ripc__call_name(struct call *call)
{
	struct ripc__slots *slots = &call->service->ctx->call_slots;
	int error = ripc__slots_grow(slots);

	if (!error)
		call->id = (uint64_t)ripc__slots_put(slots, call) << SLOT_SHIFT;
	return error;
}

void ripc__call_unname(struct call *call)
{
	ripc__slots_clear(&call->service->ctx->call_slots, (uint32_t)(call->id >> SLOT_SHIFT));
}

/* Odd, so that no ID is 0. */
static uint64_t chance_draw(struct ripc_context *ctx, struct partner *partner)
{
	if (!partner)
		return ripc__nonce(ctx) | 1;
	if (!partner->call_ids)
		partner->call_ids = ripc__nonce(ctx) | 1;
	return partner->call_ids += 2;
}

void ripc__call_identify(struct call *call, struct partner *partner)
{
	uint64_t chance = chance_draw(call->service->ctx, partner) & CHANCE;

	call->id = (call->id & ~CHANCE) | chance;
}

struct call *ripc__call_by_id(const struct ripc_context *ctx, uint64_t id)
{
	struct call *call = ripc__slots_get(&ctx->call_slots, id >> SLOT_SHIFT);

	return call && call->id == id ? call : NULL;
}

static bool is_taker(const struct call *call, const struct partner *partner)
{
	return partner->resolved && !partner->dead && partner->id == call->to;
}

/* Most often that is whom the ID means. */
struct partner *ripc__call_taker(const struct call *call, uint64_t incarnation)
{
	const struct ripc_service *service = call->service;
	struct partner *partner = service->recent;

	if (partner && partner->incarnation == incarnation && is_taker(call, partner))
		return partner;
	for (uint32_t place = 0; (partner = ripc__pair_at(service->ctx, service->incarnation,
			incarnation, place)); place++) {
		if (is_taker(call, partner))
			return partner;
	}
	return NULL;
}
