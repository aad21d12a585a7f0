/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of others' contexts, where there is proof of it (death.c). */
#ifndef RIPC_DEATH_H
#define RIPC_DEATH_H

#include <stdbool.h>
#include <stdint.h>

#include "util/timers.h"

#define ENDED_MAX 64u /* ended contexts that are remembered */
#define DEATH_TIMERS 2u /* timers that every context has as long as it lives */

struct ripc_context;
struct ripc_service;
struct ripc__answer;
struct partner;

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
/* A partner is silent: for a while the sources look whether its context has ended. */
void ripc__death_doubt(struct ripc_context *ctx);
/* A peer for this context was made: the context's end, unless it came before, will be told. */
void ripc__death_watch(struct ripc_context *ctx, uint64_t context);
/*
 * The resolver's answer (status 0) about a partner's ID may come from a context that has ended
 * meanwhile: then the resolver is asked again. Returns the status, as ripc__resolver_lookup() does.
 */
int ripc__death_reask(const struct partner *partner, int status,
		const struct ripc__answer **answer);
/* Was this incarnation a partner that has said that it closes, or that has ended? */
bool ripc__death_is_known(const struct ripc_service *service, uint64_t incarnation);
/*
 * The local service of this partner closes: the partner is told so, once, if it is among the
 * partners that were used last.
 */
void ripc__goodbye(struct partner *partner);

#endif
