/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver's objects and how its files reach each other:
 *
 *   resolver.c open, close, step; sending questions; sorting what comes in
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

/* resolver.c */
/* Room for one more timer; ripc__timers_return gives it back. -ENOMEM. */
int ripc__timers_borrow(struct ripc__resolver *resolver);
void ripc__timers_return(struct ripc__resolver *resolver);
/* Gives asked a fresh nonce (dropping its last) under which answers find it. -ENOMEM. */
int ripc__asked_begin(struct ripc__resolver *resolver, struct asked *asked);
void ripc__asked_end(struct ripc__resolver *resolver, struct asked *asked);
/* Sends a question to one source. Returns how many it reached. */
uint32_t ripc__ask(struct ripc__resolver *resolver, uint32_t source,
		const struct wire_resolve *question);
/* Sends it to this host's source, or to all others. Returns how many it reached. */
uint32_t ripc__ask_home(struct ripc__resolver *resolver, struct asked *asked);
uint32_t ripc__ask_network(struct ripc__resolver *resolver, struct asked *asked);
/* The same, if what outsiders may cause has room for it. host: who causes it. */
uint32_t ripc__ask_network_for(struct ripc__resolver *resolver, struct asked *asked,
		const uint8_t host[16]);
/* May what came from this host make us ask the network? And: it has. */
bool ripc__may_provoke(struct ripc__resolver *resolver, const uint8_t host[16]);
void ripc__provoked(struct ripc__resolver *resolver, const uint8_t host[16]);
/* Sends it to one other host alone. Returns how many it reached. */
uint32_t ripc__ask_host(struct ripc__resolver *resolver, struct asked *asked,
		const uint8_t host[16]);
/* Sends a datagram to where something came from. Returns its length, bytes. */
uint32_t ripc__send_reply(struct ripc__resolver *resolver, uint32_t source,
		const struct ripc__addr *to, const struct wire_resolve *packet);
void ripc__send_notice(struct ripc__resolver *resolver, const struct wire_resolve *packet);
/* The answer as the owner gets it. */
void ripc__answer_fill(const struct ripc__resolver *resolver, const struct heard *heard,
		struct ripc__answer *answer);
/* Of two registrations of one ID, is a the older? */
bool ripc__record_older(const struct wire_record *a, const struct wire_record *b);
/* Our record of an ID that is registered here. -ENOENT. */
int ripc__own_record(struct ripc__resolver *resolver, uint64_t id, struct wire_record *record);
void ripc__drop(struct ripc__resolver *resolver);

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
