/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong tokens, by the address that they come from: each address has a bucket of tries. An address
 * whose bucket is empty gets no answer to a wrong token. A right token from such an address counts
 * only if the route to its partner leads there. So a guesser at an address of its own has no more
 * tries than the bucket holds. Partners that live at that address are not concerned.
 */
#ifndef RIPC_GUESS_H
#define RIPC_GUESS_H

#include <stdbool.h>
#include <stdint.h>

#define GUESSING_MAX 256u  /* buckets; addresses share them by a keyed hash */
#define GUESSES_MOST 1000u /* what a bucket holds, and gains in a second */

struct ripc_context;
struct device;
struct ripc__addr;

struct guessing {
	uint64_t until_us; /* each guess moves this on by 1 ms, at least from now */
};

/* A wrong token came from this address. False: there were too many. */
bool ripc__guess_take(struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from);
/* Is the bucket of this address empty? */
bool ripc__guess_is_tried(const struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from);

#endif
