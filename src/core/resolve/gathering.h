/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of gather.c: gatherings, and their entries. */
#ifndef RIPC_GATHERING_H
#define RIPC_GATHERING_H

#include <stdbool.h>
#include <stdint.h>

#include "resolver.h"
#include "resolver_internal.h"
#include "util/map.h"
#include "util/timers.h"

#define MEMBERS_MAX 4096u /* of one group */
#define TRIES       10u   /* 200 ms: a name that has not answered then is not waited for */
#define NAME_BIT    (1ull << 63)
#define GONE_MAX    64u

/* A member, or a name of this host or of the exact source that may be one. */
struct entry {
	struct ripc__member public;
	uint64_t name, asked_us;
	uint64_t generation; /* of the last look that has seen its name; 0: none */
	uint64_t doubted_us; /* when it was last doubted; 0: never */
	uint64_t placed_us;  /* when its own answer was first wanted; 0: its ID leads to it */
	struct ripc__answer *answer; /* its own, about its ID; NULL: none is wanted, or has come */
	uint32_t index;
	uint8_t host[16];
	uint8_t tries, missed;
	bool is_known;       /* it has answered */
	bool is_admitted;    /* senders may use it */
	bool is_own;         /* of this context */
	bool is_seen;        /* in this refresh */
	bool is_doubted;     /* may have gone: refreshes follow each other until it is seen */
	bool is_near;        /* this host's source has its name; else the exact one, if any */
};

/* A member that was taken for gone, and the era of the questions that follow. */
struct gone {
	uint64_t incarnation;
	uint8_t era;
};

struct gathering {
	struct asked asked;      /* id: the group */
	struct entry **entries;
	uint32_t n, room, n_pending;
	uint32_t n_unknown, n_waiting; /* have not answered; are known, but not admitted */
	uint32_t n_doubted;
	struct ripc__map names;  /* struct entry by name */
	uint64_t used_us, looked_us, look_us, batch_us, round_us, refreshed_us, admit_us;
	uint64_t generation;
	uint32_t rounds_left, n_rounds; /* of this refresh */
	uint64_t joiner;         /* of the last notice: it is asked for until it answers; or 0 */
	uint32_t joiner_rounds;  /* so many */
	uint32_t n_refreshed;
	struct gone gone[GONE_MAX]; /* the last ones, in a ring */
	uint32_t n_gone;         /* in all: the next place of the ring */
	uint8_t era;             /* the nonce's lowest byte */
	bool era_ends;           /* members have gone: the next question has another era */
	uint8_t cause[16];       /* the host that made us ask, if is_provoked; brought the news */
	bool is_refreshing, is_provoked, has_news;
	bool has_leavers;        /* once this refresh has ended, another one follows */
	bool is_hasty;           /* this refresh follows the last one soon: it is of the doubted */
	bool is_asked;           /* a refresh has ended */
	bool is_listing;         /* the exact source cannot say its names yet */
	bool is_awaited;         /* owner.gathered is due */
};

/* A name that may answer yet. */
static inline bool ripc__entry_is_pending(const struct entry *entry)
{
	return !entry->is_known && entry->tries < TRIES;
}

/* The nonce for a question that is sent now. */
static inline uint64_t ripc__gathering_nonce(struct gathering *gathering)
{
	gathering->era += gathering->era_ends;
	gathering->era_ends = false;
	return gathering->asked.nonce | gathering->era;
}

static inline struct entry *ripc__entry_of(const struct gathering *gathering, uint64_t incarnation)
{
	return ripc__map_get(&gathering->names, incarnation | NAME_BIT);
}

/* NULL: there is no memory. */
struct entry *ripc__entry_add(struct gathering *gathering, uint64_t name);
void ripc__entry_remove(struct gathering *gathering, struct entry *entry);
/* As above, and an answer to a question of before does not bring it back. */
void ripc__entry_gone(struct gathering *gathering, struct entry *entry);
/* Was it taken for gone after the question with this nonce was sent? */
bool ripc__gathering_is_gone(const struct gathering *gathering, uint64_t incarnation,
		uint64_t nonce);
/* Senders may use it from now on. */
void ripc__entry_admit(struct gathering *gathering, struct entry *entry);
/* It may have gone; it has answered, or its name is there. */
void ripc__entry_doubt(struct gathering *gathering, struct entry *entry, uint64_t now_us);
void ripc__entry_trust(struct gathering *gathering, struct entry *entry);
/* The entry is this member. */
void ripc__entry_is(struct gathering *gathering, struct entry *entry, uint64_t id,
		uint64_t incarnation);
/* Another entry of this service, which has begun anew, or of which there are two; or NULL. */
struct entry *ripc__entry_rival(const struct gathering *gathering, const struct entry *entry);
/* Is there a member elsewhere that has not answered in so many refreshes, or is taken for such? */
bool ripc__entry_missed(const struct gathering *gathering, uint32_t refreshes);
/* An entry that has not answered, or (known) is not admitted, gives way. False: there is none. */
bool ripc__entry_yield(struct gathering *gathering, bool known);
/* A service here is a member. */
void ripc__entry_add_own(void *gathering, uint64_t id, uint64_t incarnation);

/* A gathering that nobody asks for yet, with the members here. NULL: there is no memory. */
struct gathering *ripc__gathering_make(struct ripc__resolver *resolver, uint64_t group,
		void (*fire)(void *owner, struct ripc__timer *timer));
void ripc__gathering_free(struct ripc__resolver *resolver, struct gathering *gathering);

#endif
