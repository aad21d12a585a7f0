/* SPDX-License-Identifier: BSD-3-Clause */
/* How much of what all senders have in common a partner takes. */
#ifndef RIPC_PARTNER_SHARE_H
#define RIPC_PARTNER_SHARE_H

#include <stdint.h>

#include "core/peer/share.h"

struct partner;
struct ripc_context;

void ripc__shares_set(struct ripc_context *ctx); /* after the pool was opened */

/* How much more this partner may take. */
uint64_t ripc__share_left(const struct partner *partner, enum share share);
/* Takes, or gives back. It does not look at what is left. */
void ripc__share_take(struct partner *partner, enum share share, int64_t amount);
/* The same for a message, which gives back what it took. */
struct holding ripc__share_hold(struct partner *partner, enum share share, uint64_t amount);
void ripc__share_release(struct partner *partner, enum share share, struct holding held);

#endif
