/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of others' contexts, of which there is only a hint (death.c). */
#ifndef RIPC_HINT_H
#define RIPC_HINT_H

#include <stdint.h>

#include "util/list.h"
#include "util/timers.h"

#define HINT_TIMERS 1u /* timers that every context has as long as it lives */

struct ripc_context;
struct ripc__event;
struct ripc__presence;
struct device;
struct partner;
struct peer;

struct hints {
	struct ripc__timer timer; /* when the first inquiry has something to do */
	struct list inquiries;
	uint32_t n;
};

/* -ENOMEM. */
int ripc__hints_open(struct ripc_context *ctx);
/* A network reports that nobody listens at an address where a packet of ours went. */
void ripc__hint(struct ripc_context *ctx, struct device *device, const struct ripc__event *event);
/* A packet says that the partner's ID has another holder now. */
void ripc__hint_replaced(const struct partner *partner);
/* ripc__resolver_owner.absent. */
void ripc__hint_absent(void *arg, const struct ripc__presence *presence);
/*
 * A partner that owes us something has said nothing for so long: its host is asked about it, if
 * that is long enough. The second: it has not answered ripc__partner_sound(), if that is so.
 */
void ripc__hint_silent(const struct partner *partner, uint64_t silent_us);
void ripc__hint_unanswered(const struct partner *partner);
/* The partner sent an ECHO_REPLY, or another answer that only its context can give. */
void ripc__hint_echo(const struct partner *partner, uint64_t nonce);
void ripc__hint_answered(const struct partner *partner);
/* Ends the inquiry about this peer, if there is one. */
void ripc__inquiry_end(struct ripc_context *ctx, struct peer *peer);

#endif
