/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room for partners: which are admitted, and which give way.
 *
 * The partners of one host take at most as many places as they leave free. So a few hosts cannot
 * take the room of later ones. Many hosts cannot do so either: the last places are only for hosts
 * that hold few places. A partner in one of the last places is on trial until our token has come
 * back from it. A partner on trial has shown only that its address is its own. Only the hello of
 * its first packet counts. So the partner can be forgotten at any time, the oldest first: when it
 * repeats its packet, it becomes a new partner, and no message comes twice.
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

/* Is there a place for a new partner from this address, which we do not look for? */
enum place ripc__crowd_place(struct ripc_context *ctx, const struct ripc__addr *from);
/* The partner got PLACE_ON_TRIAL. */
void ripc__crowd_try(struct partner *partner);
/* Our token has come back from the partner: its trial ends. */
void ripc__crowd_proven(struct partner *partner);
/* Makes room for a partner that we look for: forgets an idle one. False: none is idle. */
bool ripc__crowd_forget(struct ripc_context *ctx);

#endif
