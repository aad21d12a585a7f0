/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong tokens, by the address that they come from: a bucket each. An address whose bucket is
 * empty gets no answer to a wrong token; and a right token from there counts only if the route to
 * its partner leads there: so a guesser at an address of its own has no more tries than the bucket
 * holds. Partners that live at that address are not concerned.
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
	uint64_t until_us; /* each guess takes a thousandth of a second, from now or this on */
};

/* A wrong token came from there. False: there were too many. */
bool ripc__guess_take(struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from);
/* Have there been too many? */
bool ripc__guess_is_tried(const struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from);

#endif
