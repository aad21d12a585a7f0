/* SPDX-License-Identifier: BSD-3-Clause */
/* See guess.h. State is bounded: addresses whose hashes meet share a bucket. */
#include "core/objects.h"
#include "core/peer/peer.h"
#include "guess.h"


#define GUESS_US  (1000000u / GUESSES_MOST)
#define BUCKET_US (GUESSES_MOST * GUESS_US)

/* Each network of a host by itself, so that one user's guesses over one are no harm to others. */
static uint32_t place_of(const struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from)
{
	uint64_t network = (uint64_t)(device - ctx->devices);

	return (uint32_t)((ripc__host_key(ctx, from) + network) % GUESSING_MAX);
}

bool ripc__guess_take(struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from)
{
	struct guessing *guessing = &ctx->guessing[place_of(ctx, device, from)];

	if (guessing->until_us < ctx->now_us)
		guessing->until_us = ctx->now_us;
	if (guessing->until_us - ctx->now_us >= BUCKET_US)
		return false;
	guessing->until_us += GUESS_US;
	return true;
}

bool ripc__guess_is_tried(const struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from)
{
	const struct guessing *guessing = &ctx->guessing[place_of(ctx, device, from)];

	return guessing->until_us > ctx->now_us && guessing->until_us - ctx->now_us >= BUCKET_US;
}
