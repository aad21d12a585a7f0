/* SPDX-License-Identifier: BSD-3-Clause */
/* Return buffers that partners offer with their questions, for the answers. */
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
	uint64_t id;         /* the ID under which the buffers were lent */
	uint32_t n;
	struct wire_return buffers[];
};

/* Keeps the offer of a question that the application is to answer. */
void ripc__offer_note(struct partner *partner, const struct wire_packet *packet);
/* An answer begins: the offer of its question moves to the answer; NULL: there is none. */
struct offer *ripc__offer_take(struct partner *partner, uint64_t id);
/* The answer has no use for the offer. */
void ripc__offer_drop(struct partner *partner, uint64_t id);
/* The partner is gone, or forgotten. */
void ripc__offers_forget(struct partner *partner);

#endif
