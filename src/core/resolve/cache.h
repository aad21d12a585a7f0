/* SPDX-License-Identifier: BSD-3-Clause */
/* The cache of the resolver. */
#ifndef RIPC_CACHE_H
#define RIPC_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/list.h"

struct ripc__answer;
struct ripc__resolver;

/* An answer about an ID. The record's addresses stand behind it, each {backend, len, bytes}. */
struct cached {
	struct list node; /* resolver->cache_order */
	uint64_t id, expires_us;
	uint64_t hint_us; /* the hints taken so far are paid for then: each takes HINT_US */
	uint64_t incarnation, stamp, host_identity, context, proof;
	uint8_t host[16];
	uint32_t host_heard; /* a notice or the answer came from there, in 1,024 us */
	bool exists : 1, suspect : 1, local : 1;
	bool doubted : 1; /* a notice too many came: the next lookup asks again */
	uint8_t source; /* index */
	uint8_t n_addrs;
	uint8_t addrs[];
};

void ripc__cached_free(struct ripc__resolver *resolver, struct cached *cached);
/* The answer as it was when it was stored. */
void ripc__cached_answer(const struct ripc__resolver *resolver, const struct cached *cached,
		struct ripc__answer *answer);
/* Does a notice (a registration; else a withdrawal) say that this may have changed? */
bool ripc__cached_differs(const struct cached *cached, uint64_t incarnation, bool registered);
/* answer NULL: no service has the ID. Without memory nothing is kept; later lookups ask again. */
void ripc__cache_store(struct ripc__resolver *resolver, uint64_t id,
		const struct ripc__answer *answer);
/* Forgets an ID; everything. */
void ripc__cache_forget(struct ripc__resolver *resolver, uint64_t id);
void ripc__cache_close(struct ripc__resolver *resolver);

#endif
