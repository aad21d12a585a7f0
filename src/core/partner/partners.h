/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong tokens, by the address that they come from: each address has a bucket of tries. An
 * address whose bucket is empty gets no answer to a wrong token. A right token from such an
 * address counts only if the route to its partner leads there. A guesser at an address of its
 * own therefore has no more tries than the bucket holds. Partners that live at that address are
 * not concerned.
 */
#ifndef RIPC_PARTNERS_H
#define RIPC_PARTNERS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/budget.h"
#include "death.h"
#include "util/list.h"
#include "util/map.h"
#include "util/slots.h"
#include "util/timers.h"

#define TOKEN_LIMITS 256u  /* buckets; addresses share them by a keyed hash */
#define TOKENS_WRONG_MOST 1000u /* the guesses that a bucket holds, and gains in a second */

struct ripc_context;
struct device;
struct ripc__addr;

struct token_limit {
	uint64_t until_us; /* each guess moves this on by 1 ms, at least from now */
};

/* A wrong token came from this address. False: there were too many. */
bool ripc__token_limit_take(struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from);
/* Is the bucket of this address empty? */
bool ripc__token_limit_is_reached(const struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from);

/* The partners of a context. */
struct partners {
	struct list all, on_trial;
	struct ripc__map by_pair;
	struct ripc__map by_id;    /* current ones; the first of each ID (partner.h) */
	bool has_index;            /* there was a second service: by_id is kept */
	uint32_t n_walks;          /* loops that walk the partners (for_each_partner_safe) */
	struct ripc__slots slots;  /* by token */
	uint64_t handles;          /* see partner.c */
	struct bucket strangers;   /* limits packets to strangers (packet.c) */
	struct bucket words;       /* limits log lines about missing or wrong keys */
	struct bucket rechecks;    /* limits queries that claims cause (claim.c) */
	struct token_limit token_limits[TOKEN_LIMITS]; /* by the address of wrong tokens */
	struct death death;
	struct hints hints;
	struct {
		struct ripc__timer looking; /* at partners that are in use */
		struct ripc__timer own; /* partners learn of our new addresses */
		uint64_t own_us;   /* when that last began, or will begin */
		uint32_t rounds;   /* of it */
	} following;               /* roam.c */
};

#endif
