/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver's objects and how its files reach each other:
 *
 *   resolver.c open, close, step; sorting what comes in
 *   asking.c   questions, answers and notices on their way out
 *   lookup.c   lookups
 *   cache.c    what they have found
 *   publish.c  registrations, notices, conflicts
 *   answer.c   answering questions, for ourselves and for our host
 *   list.c     looking for everybody
 *
 * Whatever waits for answers is a struct asked, found by the nonce of its question. An answer
 * counts only with that nonce; everything else that comes in is at most a hint to ask.
 */
#ifndef RIPC_RESOLVER_INTERNAL_H
#define RIPC_RESOLVER_INTERNAL_H

#include "core/base/budget.h"
#include "resolver.h"
#include "util/list.h"
#include "util/map.h"
#include "util/timers.h"

#define SOURCES_MAX    8
#define ROUND_US       20000u  /* between the first questions, and what a source is waited for */
#define ROUNDS_FIRST   3u      /* so many questions ROUND_US apart; then the gaps double */

enum asked_kind { ASKED_LOOKUP = 1, ASKED_PUBLISH, ASKED_VERIFY, ASKED_RELAY, ASKED_LIST };

struct asked {
	struct ripc__timer timer;
	uint64_t id, nonce;   /* nonce 0: no question is outstanding */
	uint64_t started_us, sent_us;
	uint32_t round;
	uint8_t kind;
};

/* An answer or notice that came in, taken apart. */
struct heard {
	const struct wire_resolve *packet;
	const struct ripc__source_event *event;
	uint32_t source; /* index */
	uint64_t now_us;
};

struct source_slot {
	const struct ripc__source *ops;
	void *state;
};

struct ripc__resolver {
	struct ripc__resolver_owner owner;
	struct ripc__host host;
	struct source_slot sources[SOURCES_MAX];
	uint32_t n_sources;
	int home;                  /* index of the source that reaches this host's IDs; -1: none */
	uint64_t now_us;           /* of the last call that brought one */
	struct ripc__timers timers;
	uint32_t n_timers;         /* objects that may set one */
	struct ripc__map asked;    /* struct asked by nonce */
	struct ripc__map lookups;  /* struct lookup by ID */
	struct list lingering;     /* lookups that have ended, oldest first */
	struct ripc__map cache;    /* struct cached by ID */
	struct list cache_order;   /* oldest first */
	struct ripc__map publications; /* struct publication by ID */
	struct listing *listing;   /* NULL: nobody looks for everybody */
	struct ripc__answer found; /* what lookup handed out last */
	uint32_t n_relays;
	uint32_t ids_turn, relay_turn; /* where the next answer to "what do you have" begins */
	struct bucket notices, verifications;
	struct budget answers;     /* to questions */
	struct budget provoked;    /* bytes to the network that outsiders cause */
	uint64_t home_key;         /* xored to the nonces of questions to this host */
	uint64_t holders_us;       /* when the holder of an ID last answered a registration; or 0 */
	uint32_t n_network;        /* datagrams of the last question to the network */
	struct ripc__resolver_stats stats;
};

/* lookup.c */
void ripc__lookup_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/* NOBODY has come. */
void ripc__lookup_denied(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/* A notice about an ID that is not ours. */
void ripc__lookup_hint(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__lookups_close(struct ripc__resolver *resolver);

/* publish.c */
/* Our record of an ID that is registered here. -ENOENT. */
int ripc__own_record(struct ripc__resolver *resolver, uint64_t id, struct wire_record *record);
bool ripc__published_here(struct ripc__resolver *resolver, uint64_t id);
bool ripc__private_here(struct ripc__resolver *resolver, uint64_t id);
void ripc__publish_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
void ripc__verify_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/* A record of an ID that is published here was heard of. */
void ripc__publish_rivalled(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__publications_close(struct ripc__resolver *resolver);

/* answer.c */
void ripc__question_heard(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__relay_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/* Passes a notice that came to us alone on to whoever on this host has the ID. */
void ripc__relay_notice(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__relay_free(struct ripc__resolver *resolver, struct asked *asked);

/* list.c */
void ripc__list_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);

#endif
