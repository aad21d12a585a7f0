/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects of the resolver, which its files share:
 *
 *   resolver.c open, close, step; sorting what comes in
 *   resolver.c   questions, answers and notices on their way out
 *   lookup.c   lookups
 *   lookup.c    what they have found
 *   publish.c  registrations, notices, conflicts
 *   publish.c   the notices that go on
 *   publish.c     noticing that a parted network is whole again
 *   answer.c   answering questions, for ourselves and for our host
 *   list.c     looking for everybody
 *   lookup.c asking a host whether a service is still there
 *   membership.c  groups that services here have joined
 *   gather.c   the members of groups
 *
 * Each object that waits for answers is a struct asked, found by the nonce of its question. An
 * answer counts only with that nonce; everything else that comes in is at most a hint to ask.
 */
#ifndef RIPC_RESOLVER_INTERNAL_H
#define RIPC_RESOLVER_INTERNAL_H

#include "core/base/budget.h"
#include "core/wire/record.h"
#include "resolver.h"
#include "util/list.h"
#include "util/map.h"
#include "util/timers.h"

#define SOURCES_MAX    8
#define ROUND_US       20000u  /* between the first questions, and what a source is waited for */
#define ROUNDS_FIRST   3u      /* so many questions ROUND_US apart; then the gaps double */
#define KIN_MAX        32      /* by so many contexts the number of all is estimated (publish.c) */
#define HOSTS_MAX      64      /* so many other hosts are looked after (publish.c) */

enum asked_kind { ASKED_LOOKUP = 1, ASKED_PUBLISH, ASKED_VERIFY, ASKED_RELAY, ASKED_LIST,
	ASKED_GROUP, ASKED_PRESENCE, ASKED_HEAL };

#define NONCE_ERA 0xffu /* bits of a group's nonce that say when it was asked (gathering.h) */

struct asked {
	struct ripc__timer timer;
	uint64_t id, nonce;   /* nonce 0: no question is outstanding */
	uint64_t started_us, sent_us;
	uint32_t round;
	uint8_t kind;
	bool strange;         /* somebody with other keys has answered */
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
	uint8_t timed[SOURCES_MAX], n_timed; /* indices of sources that have deadlines */
	int home;                  /* index of the source that reaches this host's IDs; -1: none */
	int exact;                 /* index of the exact source; -1: none */
	uint32_t n_inexact;        /* sources that are neither, and ask anybody */
	uint64_t now_us;           /* as the last call gave it */
	struct ripc__timers timers;
	uint32_t n_timers;         /* objects that may set a timer */
	struct ripc__map asked;    /* struct asked by nonce */
	struct ripc__map lookups;  /* struct lookup by ID */
	struct list lingering;     /* lookups that have ended, oldest first */
	struct ripc__map cache;    /* struct cached by ID */
	struct list cache_order;   /* oldest first */
	struct ripc__map publications; /* struct publication by ID */
	struct ripc__map memberships;  /* struct membership, the first of each group */
	struct ripc__map gatherings;   /* struct gathering by group */
	struct {
		struct ripc__timer timer, called;
		struct list all;   /* struct digested, the one named longest ago first */
		uint32_t n;
		uint32_t n_called; /* digests of kin since the last call */
		uint64_t since_us; /* something has been registered here */
		int64_t clock_ns;  /* of the wall, less now_us, as our registrations say */
		uint64_t told_us;  /* the last one; 0: none since a registration */
		uint64_t fresh_us; /* the last registration, while announced more often; or 0 */
		struct {
			uint64_t context, heard_us;
		} kin[KIN_MAX];    /* others, by whose number that of all is estimated */
	} digest;
	struct {
		struct {
			uint8_t host[16];
			uint64_t heard_us; /* 0: no host is here */
		} hosts[HOSTS_MAX];
		struct asked check;  /* how old is a registration of a host that was silent? */
		struct ripc__timer call; /* for the digests of all */
		uint8_t host[16];    /* that is being checked */
		uint64_t called_us;  /* the last call that counts; or 0 */
		uint64_t gap_us;     /* until the next one that counts */
	} heal;
	struct {
		struct list all;   /* struct presence */
		uint32_t n;
		struct budget budget; /* questions */
	} presences;
	struct listing *listing;   /* NULL: nobody looks for everybody */
	struct ripc__answer found; /* what lookup handed out last */
	uint32_t n_relays;
	uint32_t ids_turn, relay_turn; /* where the next answer to "what do you have" begins */
	uint32_t members_turn;     /* the same, about a group */
	struct bucket notices, verifications;
	struct bucket places;      /* questions where members are whose ID means another */
	struct budget answers;     /* to questions */
	struct budget provoked;    /* bytes to the network that outsiders cause */
	uint64_t home_key;         /* xored to the nonces of questions to this host */
	uint64_t holders_us;       /* when the holder of an ID last answered a registration; or 0 */
	uint64_t path_us, path_at_us; /* how long the slowest took to answer one, and when */
	uint32_t n_network;        /* datagrams of the last question to the network */
	struct ripc__resolver_stats stats;
};

/* The nonce of the question that is answered, also where this host's source has carried it. */
static inline uint64_t ripc__nonce_heard(const struct ripc__resolver *resolver,
		const struct heard *heard)
{
	return heard->packet->nonce ^
		((int)heard->source == resolver->home ? resolver->home_key : 0);
}

#endif
