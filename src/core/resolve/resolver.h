/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver: from a service ID to a record (incarnation, addresses). A state machine over
 * sources that carry its datagrams. It reads no clock (the caller passes now), takes no lock
 * (its owner holds one) and knows neither contexts nor services, only its owner's callbacks.
 */
#ifndef RIPC_RESOLVER_H
#define RIPC_RESOLVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"
#include "core/wire/record.h"

struct gathering;
struct ripc__resolver;

/* A member of a group. */
struct ripc__member {
	uint64_t id, incarnation; /* its service */
};

/* The answer to a query. */
struct ripc__answer {
	struct wire_record record;
	uint64_t proof;     /* address token to put into the first packet */
	uint8_t host[16];   /* where the answer came from (v4-mapped); zero: unknown */
	bool local;         /* from this host and network namespace */
	const char *source; /* name of the source, static */
};

/* The service whose presence a host is queried for. key is the owner's. */
struct ripc__presence {
	uint64_t id, incarnation, context, key;
};

struct ripc__resolver_stats {
	uint64_t queries_sent, queries_answered, responses_received, dropped;
	uint64_t unasked; /* queries to the network that outsiders would have caused */
};

/*
 * Callbacks that the resolver needs from its owner. Callbacks must not call back into the resolver,
 * except resolved and gathered, which may call ripc__resolver_lookup, _suspect, _gather, _expel,
 * _doubt and _place, and conflict, which may call ripc__resolver_leave.
 */
struct ripc__resolver_owner {
	void *arg;
	uint64_t context;    /* incarnation of the owning context */
	/* A random number: nonces. */
	uint64_t (*random)(void *arg);
	/* The address token for an asker, to put into an answer. */
	uint64_t (*proof)(void *arg, uint64_t asker, const uint8_t host[16]);
	/* Our own record of an ID that is registered here (not draining); -ENOENT. */
	int (*record)(void *arg, uint64_t id, struct wire_record *record);
	/* All IDs that are registered here: returns how many, fills at most max. */
	uint32_t (*ids)(void *arg, uint64_t *ids, uint32_t max);
	/*
	 * A lookup that returned -EINPROGRESS has ended: 0 and an answer, -ENOENT (not found),
	 * or -ETIMEDOUT (its name is bound, but the owner does not respond).
	 */
	void (*resolved)(void *arg, uint64_t id, int status, const struct ripc__answer *answer);
	/* A publish has ended: 0, or -EADDRINUSE, or another error. */
	void (*published)(void *arg, uint64_t id, int status);
	/*
	 * An older registration of our published ID is alive in another context, and keeps the
	 * ID: ours is withdrawn after this.
	 */
	void (*conflict)(void *arg, uint64_t id, uint64_t incarnation);
	/* The result of ripc__resolver_gather() for the group is complete now. */
	void (*gathered)(void *arg, uint64_t group);
	/*
	 * A notice of a registration (incarnation) or withdrawal (0), a hint: the partner may
	 * have moved. Or a younger incarnation has answered than the one that resolved reported.
	 * True: a service here is concerned, and will look the ID up.
	 */
	bool (*moved)(void *arg, uint64_t id, uint64_t incarnation);
	/*
	 * Addresses or interfaces of this host have changed. The owner announces the
	 * registrations again (ripc__resolver_announce). NULL: they are not announced.
	 */
	void (*rehomed)(void *arg);
	/*
	 * The host that ripc__resolver_presence() queried reports that the service, and its
	 * context, are there no more. A hint.
	 */
	void (*absent)(void *arg, const struct ripc__presence *presence);
	/*
	 * With keys; otherwise NULL. mark puts a mark of WIRE_MARK bytes behind a datagram;
	 * is_marked checks the mark. A datagram without a right mark does not count.
	 */
	void (*mark)(void *arg, uint8_t *bytes, size_t len);
	bool (*is_marked)(void *arg, const uint8_t *bytes, size_t len);
	/*
	 * A context at host queries or answers, and only one of that context and ours has keys.
	 * This is logged for people; it may be a lie, and has no effect.
	 */
	void (*stranger)(void *arg, uint64_t id, const uint8_t host[16], bool asks);
};

/* sources: NULL-terminated table; those that cannot open are logged and left out. */
int ripc__resolver_open(const struct ripc__resolver_owner *owner, const struct ripc__host *host,
		const struct ripc__source *const *sources, struct ripc__resolver **resolver);
void ripc__resolver_close(struct ripc__resolver *resolver);

/*
 * 0: *answer is filled from the cache (pointer valid until the next call); -ENOENT: known not to
 * exist; -EINPROGRESS: queried, owner.resolved follows (one query per ID, however many lookups);
 * -ENOMEM.
 */
int ripc__resolver_lookup(struct ripc__resolver *resolver, uint64_t id, uint64_t now_us,
		const struct ripc__answer **answer);
/*
 * As ripc__resolver_lookup(), for an ID that a service at host (v4-mapped; loopback: this host)
 * claims. If nothing is known, only this host and that host are queried. If neither responds
 * within 20 ms, all other hosts are queried, too, but only as often as outsiders may cause
 * queries (ripc__resolver_stats.unasked counts the others).
 */
int ripc__resolver_lookup_at(struct ripc__resolver *resolver, uint64_t id, const uint8_t host[16],
		uint64_t now_us, const struct ripc__answer **answer);
/* The last answer, however old, valid until the next call. Queries no source. NULL: none. */
const struct ripc__answer *ripc__resolver_recall(struct ripc__resolver *resolver, uint64_t id);
/*
 * The cached answer with this incarnation does not work (gone, no response): the next lookup
 * sends a query, and does not accept that incarnation unless it answers by itself.
 */
void ripc__resolver_suspect(struct ripc__resolver *resolver, uint64_t id, uint64_t incarnation);
/*
 * A send waits for the ID until until_us, longer than a second: if the owner does not respond,
 * the query is repeated until then.
 */
void ripc__resolver_wanted(struct ripc__resolver *resolver, uint64_t id, uint64_t until_us);
/* The status of a call whose deadline passes while the ID is queried: -ETIMEDOUT or -EACCES. */
int ripc__resolver_late(const struct ripc__resolver *resolver, uint64_t id);
/*
 * A service claims the ID, or a send can wait for its owner: a cached "not found" counts no
 * more.
 */
void ripc__resolver_claimed(struct ripc__resolver *resolver, uint64_t id);
/*
 * Was a notice about this ID ignored because there were too many? True once; the next lookup
 * sends a query.
 */
bool ripc__resolver_doubts(struct ripc__resolver *resolver, uint64_t id);

/*
 * Queries one other host (v4-mapped) alone whether a service that was found there is still
 * there: owner.absent follows if it is not. Once, and within a budget. False: no query was sent.
 */
bool ripc__resolver_presence(struct ripc__resolver *resolver, const struct ripc__presence *wanted,
		const uint8_t host[16], uint64_t now_us);

/*
 * Registers an ID of this context. A well-known one is first queried three times, 20 ms apart,
 * in all sources; a private one (private_id) is only published. owner.published follows, perhaps
 * before this returns.
 */
void ripc__resolver_publish(struct ripc__resolver *resolver, uint64_t id, bool private_id,
		uint64_t now_us);
/* Announces the registrations again, except private IDs: their address has changed. */
void ripc__resolver_announce(struct ripc__resolver *resolver, uint64_t now_us);
/* incarnation goes into the notice. Harmless if not published. */
void ripc__resolver_withdraw(struct ripc__resolver *resolver, uint64_t id, uint64_t incarnation);

/*
 * Groups. join: the service is a member from now on; leave: no more, harmless if it was none.
 * -EADDRINUSE, -ENOMEM, -EMFILE.
 */
int ripc__resolver_join(struct ripc__resolver *resolver, uint64_t group,
		const struct ripc__member *member, uint64_t now_us);
void ripc__resolver_leave(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation);
/*
 * A service here sends to the group now: its members are looked for, and watched while this is
 * called. *gathering has them, and is valid until the next call that can bring news. 0: no more
 * members can be found now; -EINPROGRESS: more may be found, owner.gathered follows; -ENOMEM
 * (*gathering is not set).
 */
int ripc__resolver_gather(struct ripc__resolver *resolver, uint64_t group, uint64_t now_us,
		struct gathering **gathering);
uint32_t ripc__gathering_places(const struct gathering *gathering);
/* The member at one of the places, some of which are empty: NULL. */
const struct ripc__member *ripc__gathering_at(const struct gathering *gathering, uint32_t place);
/*
 * This incarnation is certainly no member. If it had a place, the last member moves there.
 */
void ripc__resolver_expel(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation);
/*
 * The member does not answer, or another service has its ID: it is queried soon, while the group
 * is in use, and removed from the list if it does not respond. False: it is no member, as far as
 * is known.
 */
bool ripc__resolver_doubt(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation,
		uint64_t now_us);
/*
 * The address of a member whose ID belongs to another incarnation, because both may live. 0:
 * *answer is the member's own, valid until the next call; -EINPROGRESS: it is queried; -EAGAIN:
 * it has been queried for a second, and still is; -ENOENT: it is no member.
 */
int ripc__resolver_place(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation,
		uint64_t now_us, const struct ripc__answer **answer);

/* Polls the sources and runs what is due. Returns the work done. */
int ripc__resolver_step(struct ripc__resolver *resolver, uint64_t now_us);
uint64_t ripc__resolver_deadline(const struct ripc__resolver *resolver); /* UINT64_MAX: none */
/* The sources' descriptors to sleep on: returns how many, fills at most max. */
int ripc__resolver_fds(struct ripc__resolver *resolver, int *fds, int max);
void ripc__resolver_stats(const struct ripc__resolver *resolver, struct ripc__resolver_stats *s);

/* Sources that can do so call host.gone when this context ends. Calls are counted. */
void ripc__resolver_watch(struct ripc__resolver *resolver, uint64_t context);
void ripc__resolver_unwatch(struct ripc__resolver *resolver, uint64_t context);
/* The sources poll for ends that no event reports. False: there is nothing to poll. */
bool ripc__resolver_look(struct ripc__resolver *resolver);

/*
 * Looks for all services until cancelled: found is called for each answer from _step.
 * found NULL ends it.
 */
int ripc__resolver_list(struct ripc__resolver *resolver, uint64_t now_us,
		void (*found)(void *arg, const struct ripc__answer *answer), void *arg);

/* ---- sources ----------------------------------------------------------------------------- */

/*
 * Is this source wanted? The option resolver.sources names the wanted ones (local;store), in their
 * order. If it is not set, the store is wanted if it has servers, and then multicast is not.
 */
bool ripc__source_is_wanted(const struct ripc__host *host, const struct ripc__source *source);
/*
 * Fills chosen with the wanted sources, loaded, in their order, and NULL. -EINVAL: a name that no
 * source has; -ENODEV: a source cannot be loaded (both logged).
 */
int ripc__sources_choose(const struct ripc__host *host, const struct ripc__source *const *all,
		const struct ripc__source **chosen, uint32_t max);

#endif
