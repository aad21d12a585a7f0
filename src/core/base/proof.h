/* SPDX-License-Identifier: BSD-3-Clause */
/* Address proofs: an asker lives at its address (docs/protocol.md, First contact and proof). */
#ifndef RIPC_PROOF_H
#define RIPC_PROOF_H

#include <stdbool.h>
#include <stdint.h>

struct ripc_context;

#define PROOF_PERIOD_US    8000000u   /* address proofs hold for one to two of these */

uint64_t ripc__proof(struct ripc_context *ctx, uint64_t asker, const uint8_t host[16],
		uint64_t age);
bool ripc__proof_valid(struct ripc_context *ctx, uint64_t asker, const uint8_t host[16],
		uint64_t proof);

#endif
