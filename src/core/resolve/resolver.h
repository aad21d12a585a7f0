/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver: from a service ID to a record (incarnation, addresses). A state machine over
 * sources that carry its datagrams. It reads no clock (now comes in), takes no lock (its owner
 * holds one) and knows neither contexts nor services, only its owner's callbacks.
 */
#ifndef RIPC_RESOLVER_H
#define RIPC_RESOLVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"
#include "core/wire/record.h"

struct ripc__resolver;

/* The answer to a question. */
struct ripc__answer {
	struct wire_record record;
	uint64_t proof;     /* address proof to put into the first packet */
	uint8_t host[16];   /* where the answer came from (v4-mapped); zero: unknown */
	bool local;         /* from this host and network namespace */
	const char *source; /* name of the source, static */
};

struct ripc__resolver_stats {
	uint64_t questions_sent, questions_answered, answers_received, dropped;
	uint64_t unasked; /* questions to the network that outsiders would have caused */
};

/* Callbacks that the resolver needs from its owner. Callbacks must not call back into the resolver,
 * except resolved, which may call ripc__resolver_lookup and _suspect. */
struct ripc__resolver_owner {
	void *arg;
	uint64_t context;    /* incarnation of the owning context */
	/* A random number: nonces. */
	uint64_t (*random)(void *arg);
	/* The address proof for an asker, to put into an answer. */
	uint64_t (*proof)(void *arg, uint64_t asker, const uint8_t host[16]);
	/* Our own record of an ID that lives here (not draining); -ENOENT. */
	int (*record)(void *arg, uint64_t id, struct wire_record *record);
	/* All IDs that live here: returns how many, fills at most max. */
	uint32_t (*ids)(void *arg, uint64_t *ids, uint32_t max);
	/*
	 * A lookup that said -EINPROGRESS has ended: 0 and an answer, -ENOENT (nobody has the ID),
	 * or -ETIMEDOUT (its name is bound, but who holds it is silent).
	 */
	void (*resolved)(void *arg, uint64_t id, int status, const struct ripc__answer *answer);
	/* A publish has ended: 0, or -EADDRINUSE, or another error. */
	void (*published)(void *arg, uint64_t id, int status);
	/*
	 * An older registration of our published ID is alive elsewhere: it keeps the ID, and ours
	 * is withdrawn after this.
	 */
	void (*conflict)(void *arg, uint64_t id, uint64_t incarnation);
	/*
	 * A registration (incarnation) or withdrawal (0) was heard of, a hint: the partner may have
	 * moved. Or a younger incarnation has answered than the one that resolved told of.
	 * True: somebody here is concerned, and will ask.
	 */
	bool (*moved)(void *arg, uint64_t id, uint64_t incarnation);
	/*
	 * With keys; else NULL: puts a mark of WIRE_MARK bytes behind a datagram; says whether the
	 * one there is right. Without such a mark nothing counts.
	 */
	void (*mark)(void *arg, uint8_t *bytes, size_t len);
	bool (*is_marked)(void *arg, const uint8_t *bytes, size_t len);
	/*
	 * Somebody at host asks, or answers, who has no keys, as we do, or has keys, as we do not.
	 * For people: it may be a lie, and has no effect.
	 */
	void (*stranger)(void *arg, uint64_t id, const uint8_t host[16], bool asks);
};

/* sources: NULL-terminated table; those that cannot open are logged and left out. */
int ripc__resolver_open(const struct ripc__resolver_owner *owner, const struct ripc__host *host,
		const struct ripc__source *const *sources, struct ripc__resolver **resolver);
void ripc__resolver_close(struct ripc__resolver *resolver);

/*
 * 0: *answer is filled from the cache (pointer valid until the next call); -ENOENT: known not
 * to exist; -EINPROGRESS: asked, owner.resolved follows (one question per ID, however many
 * lookups); -ENOMEM.
 */
int ripc__resolver_lookup(struct ripc__resolver *resolver, uint64_t id, uint64_t now_us,
		const struct ripc__answer **answer);
/*
 * The same of an ID that somebody at host (v4-mapped; loopback: this host) claims to have. Where
 * nothing is known this host and that one alone are asked; if they are silent for 20 ms, so are
 * all others, but only as often as outsiders may cause (ripc__resolver_stats.unasked counts).
 */
int ripc__resolver_lookup_at(struct ripc__resolver *resolver, uint64_t id, const uint8_t host[16],
		uint64_t now_us, const struct ripc__answer **answer);
/* The last answer, however old it is, until the next call; nobody is asked. NULL: none. */
const struct ripc__answer *ripc__resolver_recall(struct ripc__resolver *resolver, uint64_t id);
/*
 * The cached answer with this incarnation does not work (gone, silent): the next lookup asks
 * again, and does not accept that incarnation unless it answers by itself.
 */
void ripc__resolver_suspect(struct ripc__resolver *resolver, uint64_t id, uint64_t incarnation);
/*
 * Somebody wants to know until then, and longer than a second: if the holder is silent, it is
 * asked again until then.
 */
void ripc__resolver_wanted(struct ripc__resolver *resolver, uint64_t id, uint64_t until_us);
/*
 * Somebody says that he has the ID, or may wait for one: that nobody had it is of no use any more.
 */
void ripc__resolver_claimed(struct ripc__resolver *resolver, uint64_t id);
/* Was a notice about an ID not looked into, as there were too many? Once; the next lookup asks. */
bool ripc__resolver_doubts(struct ripc__resolver *resolver, uint64_t id);

/*
 * Registers an ID that lives here. A well-known one is first asked for three times, 20 ms
 * apart, in all sources; a private one (private_id) is only published. owner.published follows,
 * perhaps before this returns.
 */
void ripc__resolver_publish(struct ripc__resolver *resolver, uint64_t id, bool private_id,
		uint64_t now_us);
/* incarnation goes into the notice. Harmless if not published. */
void ripc__resolver_withdraw(struct ripc__resolver *resolver, uint64_t id, uint64_t incarnation);

/* Polls the sources and runs what is due. Returns the work done. */
int ripc__resolver_step(struct ripc__resolver *resolver, uint64_t now_us);
uint64_t ripc__resolver_deadline(const struct ripc__resolver *resolver); /* UINT64_MAX: none */
/* The sources' descriptors to sleep on: returns how many, fills at most max. */
int ripc__resolver_fds(struct ripc__resolver *resolver, int *fds, int max);
void ripc__resolver_stats(const struct ripc__resolver *resolver, struct ripc__resolver_stats *s);

/* Of the sources: they tell host.gone of the end of this context, where they can; counted. */
void ripc__resolver_watch(struct ripc__resolver *resolver, uint64_t context);
void ripc__resolver_unwatch(struct ripc__resolver *resolver, uint64_t context);
/* They look for ends of which nothing wakes them. False: there is nothing to look at. */
bool ripc__resolver_look(struct ripc__resolver *resolver);

/*
 * Looks for all services until cancelled: found is called for each answer from _step.
 * found NULL ends it.
 */
int ripc__resolver_list(struct ripc__resolver *resolver, uint64_t now_us,
		void (*found)(void *arg, const struct ripc__answer *answer), void *arg);

#endif
