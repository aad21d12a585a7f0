/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of other contexts, if there is proof of it (death.c). */
#ifndef RIPC_DEATH_H
#define RIPC_DEATH_H

#include <stdbool.h>
#include <stdint.h>

#include "util/list.h"
#include "util/timers.h"

struct device;
struct partner;
struct peer;
struct ripc__answer;
struct ripc__event;
struct ripc__presence;
struct ripc_context;
struct ripc_service;

#define ENDED_MAX 64u /* ended contexts that are remembered */
#define DEATH_TIMERS 2u /* timers that every context has as long as it lives */

/* A context with proof of its end, and when the proof came. */
struct ended {
	uint64_t context, told_us; /* 0: none */
};

struct death {
	struct ripc__timer settling; /* when it fires, partners in ended contexts are lost */
	struct ripc__timer looking;  /* when it fires, the sources look again */
	uint64_t doubt_until_us;
	bool is_looking;
	uint32_t n_ended;
	struct ended ended[ENDED_MAX]; /* a ring */
};

/* -ENOMEM. */
int ripc__death_open(struct ripc_context *ctx);
/* ripc__host.gone. */
void ripc__death_told(void *arg, uint64_t context);
/* A partner does not respond: for a while the sources poll whether its context has ended. */
void ripc__death_doubt(struct ripc_context *ctx);
/* A peer of this context was made: the context's end will be reported, unless it came before. */
void ripc__death_watch(struct ripc_context *ctx, uint64_t context);
/*
 * The resolver's answer (status 0) about a partner's ID may come from a context that has ended
 * meanwhile: then the resolver is queried again. Returns the status, as ripc__resolver_lookup()
 * does.
 */
int ripc__death_reask(const struct partner *partner, int status,
		const struct ripc__answer **answer);
/* Was this incarnation a partner that has said that it closes, or that has ended? */
bool ripc__death_is_known(const struct ripc_service *service, uint64_t incarnation);
/*
 * The local service of this partner closes: the partner is notified, once, if it is among the
 * partners that were used last.
 */
void ripc__goodbye(struct partner *partner);

/* ---- hint -------------------------------------------------------------------------------- */

/* The end of other contexts, of which there is only a failure hint (death.c). */

#define HINT_TIMERS 1u /* timers that every context has as long as it lives */

struct hints {
	struct ripc__timer timer; /* when the first inquiry has something to do */
	struct list inquiries;
	uint32_t n;
};

/* -ENOMEM. */
int ripc__hints_open(struct ripc_context *ctx);
/* A network reports that no socket listens at an address that a packet of ours was sent to. */
void ripc__hint(struct ripc_context *ctx, struct device *device, const struct ripc__event *event);
/* A packet says that the partner's ID has another owner now. */
void ripc__hint_replaced(const struct partner *partner);
/* ripc__resolver_owner.absent. */
void ripc__hint_absent(void *arg, const struct ripc__presence *presence);
/*
 * A partner that owes us something has not responded for silent_us. If that is long enough, its
 * host is queried about it. The second: does the same if ripc__partner_sound() was not answered.
 */
void ripc__hint_silent(const struct partner *partner, uint64_t silent_us);
void ripc__hint_unanswered(const struct partner *partner);
/* The partner sent an ECHO_REPLY, or another answer that only its context can give. */
void ripc__hint_echo(const struct partner *partner, uint64_t nonce);
void ripc__hint_answered(const struct partner *partner);
/* Ends the inquiry about this peer, if there is one. */
void ripc__inquiry_end(struct ripc_context *ctx, struct peer *peer);

#endif
