/* SPDX-License-Identifier: BSD-3-Clause */
/* The shares of what all senders to a context have in common. */
#ifndef RIPC_SHARE_H
#define RIPC_SHARE_H

#include <stdint.h>

struct partner;
struct peer;
struct ripc_context;

#define LARGE_MAX (1u << 31) /* of SHARE_LARGE, KiB */

/* What all who send to us share; nobody may take so much that others find nothing (share.c). */
enum share {
	SHARE_CREDIT,     /* bytes that are taken to be on their way to us */
	SHARE_SMALL,      /* of the pool, in unread messages that came in one packet, bytes */
	SHARE_LARGE,      /* of the pool, in longer ones, from their announcement, KiB */
	SHARE_UNFINISHED, /* long messages being received */
	SHARE_GRANTED,    /* those that may send now */
	SHARES
};

/* What a message takes, and how much of that counts as its host's and its peer's (share.c). */
struct holding {
	uint32_t all, own;
};

void ripc__shares_set(struct ripc_context *ctx); /* after the pool was opened */

/* How much more this partner may take. */
uint64_t ripc__share_left(const struct partner *partner, enum share share);
/* Takes, or gives back. It does not look at what is left. */
void ripc__share_take(struct partner *partner, enum share share, int64_t amount);
/* The same for a message, which gives back what it took. */
struct holding ripc__share_hold(struct partner *partner, enum share share, uint64_t amount);
void ripc__share_release(struct partner *partner, enum share share, struct holding held);
/* The partner goes to another peer, where its unread messages count from now on, as much as they
 * are; there may be nothing left then. It receives nothing. Returns its old peer. */
struct peer *ripc__share_move(struct partner *partner, struct peer *peer);

#endif
