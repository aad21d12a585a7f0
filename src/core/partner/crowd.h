/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room for partners: who is admitted, and who gives way.
 *
 * A host holds no more than it leaves free, so that a few hosts cannot take the room of those that
 * come later; nor can many: the last places are for hosts that hold a few, and whoever gets one is
 * on trial until our token has come back. One on trial has shown only that its address is its own.
 * Nothing of its first packet counts but the hello, so that it can be forgotten at any time, the
 * oldest first: what it sends again then makes it a new partner, and nothing comes twice.
 */
#ifndef RIPC_CROWD_H
#define RIPC_CROWD_H

#include <stdbool.h>

struct ripc_context;
struct ripc__addr;
struct partner;

enum place {
	PLACE_NONE,
	PLACE_FREE,
	PLACE_ON_TRIAL,
};

/* Is there a place for somebody new from there, whom we do not look for? */
enum place ripc__crowd_place(struct ripc_context *ctx, const struct ripc__addr *from);
/* It has such a place. */
void ripc__crowd_try(struct partner *partner);
/* Our token has come back from it. */
void ripc__crowd_proven(struct partner *partner);
/* For whom we look for: forgets somebody who has been idle. False: there is nobody. */
bool ripc__crowd_forget(struct ripc_context *ctx);

#endif
