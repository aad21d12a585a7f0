/* SPDX-License-Identifier: BSD-3-Clause */
/* Address proofs: a hash of who asked from where and when, under the context's secret. */
#include "proof.h"

#include <endian.h>
#include <string.h>

#include "core/objects.h"
#include "util/hash/siphash.h"

uint64_t ripc__proof(struct ripc_context *ctx, uint64_t asker, const uint8_t host[16],
		uint64_t age)
{
	struct {
		uint64_t asker, period;
		uint8_t host[16];
	} bound = {htole64(asker), htole64(ctx->now_us / PROOF_PERIOD_US - age), {0}};
	uint64_t proof;

	memcpy(bound.host, host, 16);
	proof = ripc__siphash(ctx->self.secret, &bound, sizeof(bound));
	return proof ? proof : 1;
}

bool ripc__proof_valid(struct ripc_context *ctx, uint64_t asker, const uint8_t host[16],
		uint64_t proof)
{
	return proof == ripc__proof(ctx, asker, host, 0) ||
		proof == ripc__proof(ctx, asker, host, 1);
}
