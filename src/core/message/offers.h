/* SPDX-License-Identifier: BSD-3-Clause */
/* What partners offer with their questions, for the answers. */
#ifndef RIPC_OFFERS_H
#define RIPC_OFFERS_H

#include <stdint.h>

#include "core/wire/wire.h"
#include "util/list.h"

struct device;
struct partner;

struct offer {
	struct list node;    /* ctx->offers, oldest first */
	struct partner *partner;
	struct device *device;
	uint64_t id;         /* under which it was lent */
	uint32_t n;
	struct wire_return buffers[];
};

/* A question that is to be answered to the application says what may be written into. */
void ripc__offer_note(struct partner *partner, const struct wire_packet *packet);
/* An answer begins: what the question offered is its; NULL: nothing. No other answer has it. */
struct offer *ripc__offer_take(struct partner *partner, uint64_t id);
/* The answer has no use for it. */
void ripc__offer_drop(struct partner *partner, uint64_t id);
/* The partner is gone, or forgotten. */
void ripc__offers_forget(struct partner *partner);

#endif
