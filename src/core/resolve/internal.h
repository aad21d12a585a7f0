/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of core/resolve: no other room includes this. */
#ifndef RIPC_RESOLVE_INTERNAL_H
#define RIPC_RESOLVE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/budget.h"
#include "core/wire/record.h"
#include "resolver.h"
#include "util/list.h"
#include "util/map.h"
#include "util/timers.h"

struct membership;

/* ---- resolver internal ------------------------------------------------------------------- */

/*
 * The objects of the resolver, which its files share:
 *
 *   resolver.c  open, close, step; sorting incoming packets; sending queries, answers, notices
 *   lookup.c    lookups and their cache; queries whether a service is still on its host
 *   publish.c   registrations, notices, conflicts; digests; healing after a split of the
 *               network; groups that services of this context have joined
 *   answer.c    answering queries, for ourselves and for our host
 *   list.c      looking for all services
 *   gather.c    the members of groups
 *
 * Each object that waits for answers is a struct asked, found by the nonce of its query. An
 * answer counts only with that nonce; every other packet is at most a hint to send a query.
 */

#define SOURCES_MAX    8
#define ROUND_US       20000u  /* between the first queries, and the wait for a source */
#define ROUNDS_FIRST   3u      /* this many queries are ROUND_US apart; then the gaps double */
#define KIN_MAX        32      /* contexts that the number of all is estimated from (publish.c) */
#define HOSTS_MAX      64      /* other hosts that are watched (publish.c) */

enum asked_kind { ASKED_LOOKUP = 1, ASKED_PUBLISH, ASKED_VERIFY, ASKED_RELAY, ASKED_LIST,
	ASKED_GROUP, ASKED_PRESENCE, ASKED_HEAL };

#define NONCE_ERA 0xffu /* bits of a group's nonce: the era of its query */

struct asked {
	struct ripc__timer timer;
	uint64_t id, nonce;   /* nonce 0: no query is outstanding */
	uint64_t started_us, sent_us;
	uint32_t round;
	uint8_t kind;
	bool strange;         /* a context with other keys has answered */
};

/* An answer or notice that has arrived, decoded. */
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

#define source_for_each(slot, resolver)                                       \
	for (const struct source_slot *slot = (resolver)->sources;            \
		slot < (resolver)->sources + (resolver)->n_sources; slot++)

struct ripc__resolver {
	struct ripc__resolver_owner owner;
	struct ripc__host host;
	struct source_slot sources[SOURCES_MAX];
	uint32_t n_sources;
	uint8_t timed[SOURCES_MAX], n_timed; /* indices of sources that have deadlines */
	int home;                  /* index of the source that reaches this host's IDs; -1: none */
	int exact;                 /* index of the exact source; -1: none */
	uint32_t n_inexact;        /* sources that are neither, and query any host */
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
		int64_t clock_ns;  /* the wall clock's, less now_us, by our registrations */
		uint64_t told_us;  /* the last one; 0: none since a registration */
		uint64_t fresh_us; /* the last registration, while announced more often; or 0 */
		struct {
			uint64_t context, heard_us;
		} kin[KIN_MAX];    /* others, used to estimate the number of all */
	} digest;
	struct {
		struct {
			uint8_t host[16];
			uint64_t heard_us; /* 0: the place is free */
		} hosts[HOSTS_MAX];
		struct asked check;  /* for the age of a registration of a host that was not
		                        heard */
		struct ripc__timer call; /* for the digests of all */
		uint8_t host[16];    /* the host that is being checked */
		uint64_t called_us;  /* the last call that counts; or 0 */
		uint64_t gap_us;     /* until the next one that counts */
	} heal;
	struct {
		struct list all;   /* struct presence */
		uint32_t n;
		struct budget budget; /* queries */
	} presences;
	struct listing *listing;   /* NULL: no listing is under way */
	struct ripc__answer found; /* the last answer that a lookup returned */
	uint32_t n_relays;
	uint32_t ids_turn, relay_turn; /* where the next answer to "what do you have" begins */
	uint32_t members_turn;     /* the same, about a group */
	struct bucket notices, verifications;
	struct bucket places;      /* queries for members whose ID belongs to another */
	struct budget answers;     /* to queries */
	struct budget provoked;    /* bytes to the network that outsiders cause */
	uint64_t home_key;         /* xored to the nonces of queries to this host */
	uint64_t holders_us;       /* when the owner of an ID last answered a registration; or 0 */
	uint64_t path_us, path_at_us; /* longest time of such an answer, and when */
	uint32_t n_network;        /* datagrams of the last query to the network */
	struct ripc__resolver_stats stats;
};

/* The nonce of the query that is answered, also if this host's source has carried it. */
static inline uint64_t ripc__nonce_heard(const struct ripc__resolver *resolver,
		const struct heard *heard)
{
	return heard->packet->nonce ^
		((int)heard->source == resolver->home ? resolver->home_key : 0);
}

/* ---- answer ------------------------------------------------------------------------------ */

void ripc__query_heard(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__relay_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/*
 * Passes a notice that was sent to us alone on to the context on this host that has the ID.
 * False: the notice was not sent to us alone.
 */
bool ripc__relay_notice(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__relay_free(struct ripc__resolver *resolver, struct asked *asked);

/* ---- queries ----------------------------------------------------------------------------- */

/* Borrows room for n more timers, until ripc__timers_return. -ENOMEM. */
int ripc__timers_borrow(struct ripc__resolver *resolver, uint32_t n);
void ripc__timers_return(struct ripc__resolver *resolver, uint32_t n);
/* Gives asked a fresh nonce, under which answers find it, in place of its last nonce. -ENOMEM. */
int ripc__asked_begin(struct ripc__resolver *resolver, struct asked *asked);
void ripc__asked_end(struct ripc__resolver *resolver, struct asked *asked);
/* The same, and borrows room for the timer of asked; stops the timer, and returns its room. */
int ripc__asked_open(struct ripc__resolver *resolver, struct asked *asked);
void ripc__asked_close(struct ripc__resolver *resolver, struct asked *asked);
/* Hosts that are queried by unicast. */
uint32_t ripc__peers_of(const struct ripc__resolver *resolver);
/* Encodes a datagram, with its mark if there are keys. Returns its length, bytes. */
size_t ripc__resolve_encode(struct ripc__resolver *resolver, const struct wire_resolve *packet,
		uint8_t data[WIRE_RESOLVE_MAX]);
/* Sends a query to one source; again: by ask_again. Returns how many receivers it reached. */
uint32_t ripc__ask(struct ripc__resolver *resolver, uint32_t source,
		const struct wire_resolve *query, bool again);
/* Sends asked to this host's source; to all others. Both return how many receivers it reached. */
uint32_t ripc__ask_home(struct ripc__resolver *resolver, struct asked *asked);
uint32_t ripc__ask_network(struct ripc__resolver *resolver, struct asked *asked);
/* As ripc__ask_network(), within the budget for queries that outsiders cause. host: the cause. */
uint32_t ripc__ask_network_for(struct ripc__resolver *resolver, struct asked *asked,
		const uint8_t host[16]);
/*
 * First: may a packet from this host cause a query to the network? Second: a packet from it has
 * caused one.
 */
bool ripc__may_provoke(struct ripc__resolver *resolver, const uint8_t host[16]);
void ripc__provoked(struct ripc__resolver *resolver, const uint8_t host[16]);
/*
 * Sends asked to one other host alone; the first within the budget for queries that outsiders
 * cause. Both return how many receivers it reached.
 */
uint32_t ripc__ask_host(struct ripc__resolver *resolver, struct asked *asked,
		const uint8_t host[16]);
uint32_t ripc__ask_one_host(struct ripc__resolver *resolver, struct asked *asked,
		const uint8_t host[16]);
/* Sends a datagram to the address that another came from. Returns its length, bytes. */
uint32_t ripc__send_reply(struct ripc__resolver *resolver, uint32_t source,
		const struct ripc__addr *to, const struct wire_resolve *packet);
void ripc__send_notice(struct ripc__resolver *resolver, const struct wire_resolve *packet);
/* The answer as the owner gets it. */
void ripc__answer_fill(const struct ripc__resolver *resolver, const struct heard *heard,
		struct ripc__answer *answer);
/* Is a the older of two registrations of one ID? */
bool ripc__record_older(const struct wire_record *a, const struct wire_record *b);
void ripc__drop(struct ripc__resolver *resolver);

/* ---- digest ------------------------------------------------------------------------------ */

void ripc__digest_init(struct ripc__resolver *resolver);
/* Another context has named its registrations. */
void ripc__digest_heard(struct ripc__resolver *resolver, uint64_t context);

/* ---- gather ------------------------------------------------------------------------------ */

void ripc__gather_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/* A notice about a group: a hint to send a query. False: the notice has no news. */
bool ripc__gather_hint(struct ripc__resolver *resolver, const struct heard *heard);
/* The exact source has other names of the group than it listed last. */
void ripc__gather_listed(struct ripc__resolver *resolver, uint64_t group);
/* A service here has joined the group, or left it. */
void ripc__gather_joined(struct ripc__resolver *resolver, uint64_t group, uint64_t id,
		uint64_t incarnation);
void ripc__gather_left(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation);
/* An owner of an ID has answered: one of several members with this ID may be wanted. */
void ripc__gather_placed(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__gatherings_close(struct ripc__resolver *resolver);

/* ---- heal -------------------------------------------------------------------------------- */

void ripc__heal_init(struct ripc__resolver *resolver);
void ripc__heal_close(struct ripc__resolver *resolver);
/* A digest has arrived. */
void ripc__heal_heard(struct ripc__resolver *resolver, const struct heard *heard);
/* A query has arrived. Is it a call? */
bool ripc__heal_called(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__heal_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);

/* ---- list -------------------------------------------------------------------------------- */

void ripc__list_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);

/* ---- lookup ------------------------------------------------------------------------------ */

void ripc__lookup_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/* NOBODY has arrived. */
void ripc__lookup_denied(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/* A notice about an ID that is not ours. False: no service here is concerned. */
bool ripc__lookup_hint(struct ripc__resolver *resolver, const struct heard *heard);
/* The answer of an exact source about an ID that was queried: NOBODY, HELD, UNAVAILABLE; HINT. */
void ripc__lookup_told(struct ripc__resolver *resolver, const struct ripc__source_event *event);
void ripc__lookup_hinted(struct ripc__resolver *resolver, const struct ripc__source_event *event);
/* Forgets the cached answer. */
void ripc__cache_forget(struct ripc__resolver *resolver, uint64_t id);
/* Queries all for the ID once more, whatever is known: any owner may answer. */
void ripc__lookup_anew(struct ripc__resolver *resolver, uint64_t id);
void ripc__lookups_close(struct ripc__resolver *resolver);

/* ---- membership -------------------------------------------------------------------------- */

/* A walk over the services here that have joined a group; NULL: the last one was before. */
struct membership *ripc__member_first(const struct ripc__resolver *resolver, uint64_t group);
struct membership *ripc__member_next(const struct membership *membership);
/* The record about the member; -ENOENT: the member is leaving. */
int ripc__member_record(struct ripc__resolver *resolver, const struct membership *membership,
		struct wire_record *record);
/* Calls found for each. */
void ripc__members_own(struct ripc__resolver *resolver, uint64_t group,
		void (*found)(void *arg, uint64_t id, uint64_t incarnation), void *arg);
/* Calls found for each group that a service here has joined. */
void ripc__groups_own(struct ripc__resolver *resolver, void (*found)(void *arg, uint64_t group),
		void *arg);
void ripc__memberships_close(struct ripc__resolver *resolver);

/* ---- presence ---------------------------------------------------------------------------- */

void ripc__presences_open(struct ripc__resolver *resolver);
/* RECORD or NOBODY has arrived. */
void ripc__presence_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
void ripc__presences_close(struct ripc__resolver *resolver);

/* ---- publish ----------------------------------------------------------------------------- */

/* Our record of an ID that is registered here. -ENOENT. */
int ripc__own_record(struct ripc__resolver *resolver, uint64_t id, struct wire_record *record);
bool ripc__published_here(struct ripc__resolver *resolver, uint64_t id);
bool ripc__private_here(struct ripc__resolver *resolver, uint64_t id);
void ripc__publish_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
void ripc__verify_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/*
 * Another context claims an ID that is published here. False: the claim followed another one too
 * soon.
 */
bool ripc__publish_rivalled(struct ripc__resolver *resolver, const struct heard *heard);
/*
 * An exact source's report about an ID that is published, or is being published: PUBLISHED,
 * LOST.
 */
void ripc__publish_stored(struct ripc__resolver *resolver, const struct ripc__source_event *event);
void ripc__publish_lost(struct ripc__resolver *resolver, const struct ripc__source_event *event);
/* The exact source cannot be reached now. */
void ripc__publish_delayed(struct ripc__resolver *resolver, uint64_t id);
void ripc__publications_close(struct ripc__resolver *resolver);

#endif
