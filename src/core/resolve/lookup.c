/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lookups and the cache of their results. A lookup queries this host first and waits ROUND_US
 * for services that are there, or HOME_ALONE_US if the name is bound; then it queries all
 * sources, in rounds, until an answer arrives. The first answer is taken at once. The lookup
 * lingers a while after that: if a second incarnation answers too, both are alive. Later lookups
 * get the younger, and its owner is notified of the older one, which keeps the ID.
 *
 * A negative answer is definite, and ends the lookup with -ENOENT, if the kernel gives it and no
 * other host is queried, or if every host that is queried by unicast has given it. If a name is
 * bound, here or on such a host, but does not answer, its owner may be stopped, or starved: the
 * query is repeated until all waiting senders have given up (ripc__resolver_wanted), and then
 * the lookup ends with -ETIMEDOUT, or with -EACCES if a context with other keys has answered.
 * Over multicast no host can give a negative answer for all: there PATIENCE_US without a
 * response count as one. An exact source can: its negative answer ends the lookup if every
 * source of the network is exact. As long as that source cannot be reached, the query is
 * repeated likewise; then the lookup ends with -EHOSTUNREACH.
 *
 * A suspect incarnation that answers the new query is alive after all, but another one that
 * answers within ROUND_US of it is preferred, whatever the stamps say: a liar with a young stamp
 * who cannot be reached therefore does not hide the true owner.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "util/system/cancel.h"

/* ---- cache ------------------------------------------------------------------------------- */

/* The results of lookups, kept for a while. */

#define CACHE_MAX    65536u
#define FOUND_US     60000000u /* a found record is used for so long without a query */
#define NOBODY_US    1000000u
#define DENIED_US    200000u   /* no notice ends this, and a query to an exact source is cheap */

/* An answer about an ID. The record's addresses stand behind it, each {backend, len, bytes}. */
struct cached {
	struct list node; /* resolver->cache_order */
	uint64_t id, expires_us;
	uint64_t hint_us; /* when the accepted hints are paid for: each costs HINT_US */
	uint64_t incarnation, stamp, host_identity, context, proof;
	uint8_t host[16];
	uint32_t host_heard; /* a notice or the answer arrived from there, in 1,024 us */
	bool exists : 1, suspect : 1, local : 1;
	bool doubted : 1; /* too many notices arrived: the next lookup sends a query */
	uint8_t source; /* index */
	uint8_t n_addrs;
	uint8_t addrs[];
};

static void cached_free(struct ripc__resolver *resolver, struct cached *cached)
{
	ripc__map_remove(&resolver->cache, cached->id);
	list_remove(&cached->node);
	free(cached);
}

void ripc__cache_forget(struct ripc__resolver *resolver, uint64_t id)
{
	struct cached *cached = ripc__map_get(&resolver->cache, id);

	if (cached)
		cached_free(resolver, cached);
}

static size_t addrs_len(const struct wire_record *record)
{
	size_t len = 0;

	for (uint32_t i = 0; i < record->n_addrs; i++)
		len += 2u + record->addrs[i].len;
	return len;
}

static uint8_t source_named(const struct ripc__resolver *resolver, const char *name)
{
	uint8_t i = 0;

	while (i + 1u < resolver->n_sources && resolver->sources[i].ops->name != name)
		i++;
	return i;
}

static void cached_fill(const struct ripc__resolver *resolver, struct cached *cached,
		const struct ripc__answer *answer)
{
	const struct wire_record *record = &answer->record;
	uint8_t *at = cached->addrs;

	cached->incarnation = record->incarnation;
	cached->stamp = record->stamp;
	cached->host_identity = record->host;
	cached->context = record->context;
	cached->proof = answer->proof;
	cached->source = source_named(resolver, answer->source);
	cached->local = answer->local;
	memcpy(cached->host, answer->host, sizeof(cached->host));
	cached->n_addrs = (uint8_t)record->n_addrs;
	for (uint32_t i = 0; i < record->n_addrs; i++) {
		*at++ = record->addrs[i].backend;
		*at++ = record->addrs[i].len;
		memcpy(at, record->addrs[i].blob, record->addrs[i].len);
		at += record->addrs[i].len;
	}
}

/* The answer as it was when it was stored. */
static void cached_answer(const struct ripc__resolver *resolver, const struct cached *cached,
		struct ripc__answer *answer)
{
	struct wire_record *record = &answer->record;
	const uint8_t *at = cached->addrs;

	*answer = (struct ripc__answer){.proof = cached->proof, .local = cached->local,
		.source = resolver->sources[cached->source].ops->name};
	memcpy(answer->host, cached->host, sizeof(answer->host));
	record->id = cached->id;
	record->incarnation = cached->incarnation;
	record->stamp = cached->stamp;
	record->host = cached->host_identity;
	record->context = cached->context;
	record->n_addrs = cached->n_addrs;
	for (uint32_t i = 0; i < record->n_addrs; i++) {
		record->addrs[i].backend = *at++;
		record->addrs[i].len = *at++;
		memcpy(record->addrs[i].blob, at, record->addrs[i].len);
		at += record->addrs[i].len;
	}
}

/* Does a notice (of a registration, otherwise of a withdrawal) say that this may have changed? */
static bool cached_differs(const struct cached *cached, uint64_t incarnation, bool registered)
{
	return (cached->exists && cached->incarnation == incarnation) != registered;
}

/*
 * answer NULL: no service has the ID. Without memory nothing is kept; later lookups send
 * queries.
 */
static void cache_store(struct ripc__resolver *resolver, uint64_t id,
		const struct ripc__answer *answer)
{
	struct cached *old = ripc__map_get(&resolver->cache, id);
	struct cached *cached = calloc(1, sizeof(*cached) +
		(answer ? addrs_len(&answer->record) : 0));

	if (old && cached)
		cached->hint_us = old->hint_us;
	if (old)
		cached_free(resolver, old);
	if (!cached)
		return;
	if (resolver->cache.count >= CACHE_MAX)
		cached_free(resolver,
			list_entry(resolver->cache_order.next, struct cached, node));
	cached->id = id;
	cached->exists = answer;
	cached->expires_us = resolver->now_us + (answer ? FOUND_US :
		resolver->exact < 0 ? NOBODY_US : DENIED_US);
	if (answer)
		cached_fill(resolver, cached, answer);
	cached->host_heard = (uint32_t)(resolver->now_us >> 10);
	if (ripc__map_put(&resolver->cache, id, cached)) {
		free(cached);
		return;
	}
	list_append(&resolver->cache_order, &cached->node);
}

static void cache_close(struct ripc__resolver *resolver)
{
	while (!list_empty(&resolver->cache_order))
		cached_free(resolver, list_entry(resolver->cache_order.next, struct cached,
			node));
}

/* ---- presence ---------------------------------------------------------------------------- */

/*
 * Queries to one host about a service that was found there and does not respond. The kernel of
 * that host knows whether the name is still bound, and any process there can report it: NOBODY,
 * definite, or the RECORD of another context. Neither is believed, nor changes the cache: the
 * owner is notified, and queries the context itself.
 *
 * A query is sent once. The caller may repeat it; a budget bounds the queries of all callers.
 */

#define PRESENCES_MAX    1024u
#define PATIENCE_US      1000000u /* a later answer is of no use */
#define ASKED_PER_SECOND 200u
#define ASKED_AT_ONCE    200u
#define ASKED_SHARE      2u

struct presence {
	struct asked asked;
	struct list node; /* resolver->presences.all */
	struct ripc__presence public;
};

static void presence_free(struct ripc__resolver *resolver, struct presence *presence)
{
	ripc__asked_close(resolver, &presence->asked);
	list_remove(&presence->node);
	resolver->presences.n--;
	free(presence);
}

static void fire(void *owner, struct ripc__timer *timer)
{
	presence_free(owner, list_entry(timer, struct presence, asked.timer));
}

static struct presence *presence_alloc(struct ripc__resolver *resolver,
		const struct ripc__presence *wanted)
{
	struct presence *presence;

	if (resolver->presences.n == PRESENCES_MAX)
		return NULL;
	presence = calloc(1, sizeof(*presence));
	if (!presence)
		return NULL;
	*presence = (struct presence){.asked = {.kind = ASKED_PRESENCE, .id = wanted->id,
		.timer.fire = fire}, .public = *wanted};
	if (ripc__asked_open(resolver, &presence->asked)) {
		free(presence);
		return NULL;
	}
	list_append(&resolver->presences.all, &presence->node);
	resolver->presences.n++;
	return presence;
}

bool ripc__resolver_presence(struct ripc__resolver *resolver, const struct ripc__presence *wanted,
		const uint8_t host[16], uint64_t now_us)
{
	RIPC__HOLD_CANCEL;
	struct presence *presence;

	resolver->now_us = now_us;
	if (!ripc__budget_spend(&resolver->presences.budget, host, now_us, 1))
		return false;
	presence = presence_alloc(resolver, wanted);
	if (!presence)
		return false;
	if (!ripc__ask_one_host(resolver, &presence->asked, host)) {
		presence_free(resolver, presence);
		return false;
	}
	ripc__timer_set(&resolver->timers, &presence->asked.timer, now_us + PATIENCE_US);
	return true;
}

void ripc__presence_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard)
{
	struct presence *presence = list_entry(asked, struct presence, asked);
	const struct ripc__presence public = presence->public;
	const struct ripc__resolver_owner *owner = &resolver->owner;
	const struct wire_record *record = &heard->packet->record;
	bool is_absent = heard->packet->type == WIRE_NOBODY ? heard->packet->definite :
		record->incarnation != public.incarnation && record->context != public.context;

	presence_free(resolver, presence);
	if (is_absent)
		owner->absent(owner->arg, &public);
}

void ripc__presences_open(struct ripc__resolver *resolver)
{
	list_init(&resolver->presences.all);
	ripc__budget_init(&resolver->presences.budget, ASKED_PER_SECOND, ASKED_AT_ONCE,
		ASKED_SHARE, (uint64_t[2]){resolver->home_key, resolver->home_key});
}

void ripc__presences_close(struct ripc__resolver *resolver)
{
	while (!list_empty(&resolver->presences.all))
		presence_free(resolver, list_entry(resolver->presences.all.next, struct presence,
			node));
}

/* ---- lookup ------------------------------------------------------------------------------ */

#define LOOKUPS_MAX  4096u
#define GAP_MAX_US   160000u   /* between queries: several find a service that registers late */
#define HOME_ALONE_US 200000u  /* where the name is bound, only this host is queried first */
#define LINGER_US    200000u
#define HINT_US      100000u   /* hints of others do not cause more queries, per ID */
#define HINTS_MAX    4u        /* at once: an ID that moves twice within HINT_US is followed */
#define RIVALS_MAX   4u        /* notices that the answers to one query can cause */
#define COPY_MS      50u       /* the same notice, over IPv4 and IPv6, arrives within it */

struct lookup {
	struct asked asked;
	struct list node;         /* resolver->lingering, once ended */
	uint64_t refused;         /* the suspect incarnation; 0: none */
	bool ended;               /* was found; lingers */
	bool held;                /* only the suspect one has answered so far */
	bool provoked;            /* by a service at the host at that claims the ID */
	uint8_t at[16];
	bool bound;               /* its name, on this host */
	bool silent;              /* a queried host reports that the owner does not respond */
	bool unavailable;         /* the exact source cannot be reached */
	uint64_t until_us;        /* a sender waits until then */
	uint8_t denied[RIPC_PEERS_MAX / 8]; /* hosts that have answered NOBODY */
	uint32_t n_denied, n_peers;
	uint32_t reached;         /* datagrams of its last query to the network */
	uint32_t rivals;
	uint32_t source;          /* of the best answer */
	struct ripc__addr reply;
	struct ripc__answer best; /* with ended or held */
};

static void lookup_fire(void *owner, struct ripc__timer *timer);

/* ---- queries ----------------------------------------------------------------------------- */

static void lookup_free(struct ripc__resolver *resolver, struct lookup *lookup)
{
	ripc__asked_close(resolver, &lookup->asked);
	ripc__map_remove(&resolver->lookups, lookup->asked.id);
	list_remove(&lookup->node);
	free(lookup);
}

static void know(struct ripc__resolver *resolver)
{
	source_for_each(slot, resolver) {
		if (slot->ops->know)
			slot->ops->know(slot->state);
	}
}

/* If all lookups are in use, the oldest that only lingers gives way. */
static struct lookup *lookup_alloc(struct ripc__resolver *resolver, uint64_t id)
{
	struct lookup *lookup;

	if (resolver->lookups.count >= LOOKUPS_MAX && !list_empty(&resolver->lingering))
		lookup_free(resolver, list_entry(resolver->lingering.next, struct lookup, node));
	if (resolver->lookups.count >= LOOKUPS_MAX)
		return NULL;
	lookup = calloc(1, sizeof(*lookup));
	if (!lookup)
		return NULL;
	lookup->asked.id = id;
	lookup->asked.kind = ASKED_LOOKUP;
	lookup->asked.timer.fire = lookup_fire;
	list_init(&lookup->node);
	if (ripc__timers_borrow(resolver, 1))
		goto err_free;
	if (ripc__map_put(&resolver->lookups, id, lookup))
		goto err_return_timer;
	know(resolver);
	return lookup;
err_return_timer:
	ripc__timers_return(resolver, 1);
err_free:
	free(lookup);
	return NULL;
}

static bool lookup_is_silent(const struct lookup *lookup)
{
	return lookup->bound || lookup->silent;
}

/* When a lookup without a result ends. */
static uint64_t end_of(const struct lookup *lookup)
{
	uint64_t end_us = lookup->asked.started_us + PATIENCE_US;

	if (!lookup_is_silent(lookup) && !lookup->unavailable)
		return end_us;
	return lookup->until_us > end_us ? lookup->until_us : end_us;
}

/* Is it certain that no service has the ID? reached: of the network. */
static bool is_denied(const struct ripc__resolver *resolver, const struct lookup *lookup,
		uint32_t reached)
{
	if (resolver->home < 0 || lookup->provoked || lookup_is_silent(lookup))
		return false;
	if (reached == 0)
		return true;
	/* Names may have other addresses by now, some of which were not queried. */
	return lookup->n_peers && lookup->n_denied == lookup->n_peers &&
		lookup->n_peers == ripc__peers_of(resolver) &&
		(lookup->asked.round >= ROUNDS_FIRST || reached == lookup->n_peers);
}

/* Queries all sources once more. Returns how many of the network that reached. */
static uint32_t ask_all(struct ripc__resolver *resolver, struct lookup *lookup)
{
	struct asked *asked = &lookup->asked;
	uint32_t n = 0;

	if (asked->sent_us != resolver->now_us)
		lookup->bound = ripc__ask_home(resolver, asked);
	if (lookup->bound && resolver->now_us < asked->started_us + HOME_ALONE_US)
		return 0;
	if (lookup->provoked)
		n = ripc__ask_network_for(resolver, asked, lookup->at);
	else
		n = ripc__ask_network(resolver, asked);
	lookup->reached = n;
	return n;
}

/* The gaps: 20, 20, 40, 80, then 160 ms, and the remaining time. */
static uint32_t ask_round(struct ripc__resolver *resolver, struct lookup *lookup)
{
	struct asked *asked = &lookup->asked;
	uint32_t reached = ask_all(resolver, lookup);
	uint64_t end_us = end_of(lookup);
	uint64_t gap_us = ROUND_US;

	asked->round++;
	for (uint32_t i = ROUNDS_FIRST - 1; i < asked->round && gap_us < GAP_MAX_US; i++)
		gap_us *= 2;
	if (end_us > resolver->now_us && resolver->now_us + gap_us > end_us)
		gap_us = end_us - resolver->now_us;
	/* An owner that registers in the last moment has the time to answer. */
	if (gap_us < ROUND_US)
		gap_us = ROUND_US;
	ripc__timer_set(&resolver->timers, &asked->timer, resolver->now_us + gap_us);
	return reached;
}

/* Forgets the answers so far. */
static void lookup_reset(const struct ripc__resolver *resolver, struct lookup *lookup)
{
	lookup->ended = lookup->held = lookup->silent = false;
	lookup->unavailable = resolver->exact >= 0; /* until it answers */
	memset(lookup->denied, 0, sizeof(lookup->denied));
	lookup->n_denied = lookup->reached = 0;
	lookup->n_peers = ripc__peers_of(resolver);
	lookup->rivals = 0;
	lookup->until_us = 0;
	lookup->asked.started_us = resolver->now_us;
	lookup->asked.round = 0;
}

/* at: the host of a service that claims the ID, or NULL. */
static int lookup_begin(struct ripc__resolver *resolver, uint64_t id, uint64_t refused,
		const uint8_t *at)
{
	struct lookup *lookup = ripc__map_get(&resolver->lookups, id);
	struct asked *asked;
	uint32_t n;

	if (!lookup)
		lookup = lookup_alloc(resolver, id);
	if (!lookup)
		return -ENOMEM;
	asked = &lookup->asked;
	if (ripc__asked_begin(resolver, asked)) {
		lookup_free(resolver, lookup);
		return -ENOMEM;
	}
	list_remove(&lookup->node);
	lookup_reset(resolver, lookup);
	lookup->refused = refused;
	lookup->provoked = at;
	if (at)
		memcpy(lookup->at, at, sizeof(lookup->at));
	n = ripc__ask_home(resolver, asked);
	lookup->bound = n;
	n += at ? ripc__ask_host(resolver, asked, at) : 0;
	if (n) {
		ripc__timer_set(&resolver->timers, &asked->timer, resolver->now_us + ROUND_US);
		return -EINPROGRESS;
	}
	if (!is_denied(resolver, lookup, ask_round(resolver, lookup)))
		return -EINPROGRESS;
	cache_store(resolver, id, NULL);
	lookup_free(resolver, lookup);
	return -ENOENT;
}

/* Ends a lookup with its best answer, or with none. */
static void lookup_end(struct ripc__resolver *resolver, struct lookup *lookup, int status)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	struct ripc__answer answer = lookup->best; /* the callback may make lookup go away */
	uint64_t id = lookup->asked.id;

	if (!status || status == -ENOENT)
		cache_store(resolver, id, status ? NULL : &answer);
	if (status) {
		lookup_free(resolver, lookup);
		owner->resolved(owner->arg, id, status, NULL);
		return;
	}
	lookup->ended = true;
	list_append(&resolver->lingering, &lookup->node);
	ripc__timer_set(&resolver->timers, &lookup->asked.timer, resolver->now_us + LINGER_US);
	owner->resolved(owner->arg, id, 0, &answer);
}

/* Why no owner was found, when the time is over. */
static int status_of(const struct lookup *lookup)
{
	if (lookup_is_silent(lookup))
		return lookup->asked.strange ? -EACCES : -ETIMEDOUT;
	return lookup->unavailable ? -EHOSTUNREACH : -ENOENT;
}

static void lookup_fire(void *owner, struct ripc__timer *timer)
{
	struct lookup *lookup = list_entry(timer, struct lookup, asked.timer);
	struct ripc__resolver *resolver = owner;
	const struct asked *asked = &lookup->asked;

	if (lookup->ended)
		lookup_free(resolver, lookup);
	else if (lookup->held)
		lookup_end(resolver, lookup, 0);
	else if (asked->round >= ROUNDS_FIRST && resolver->now_us >= end_of(lookup))
		lookup_end(resolver, lookup, status_of(lookup));
	else if (is_denied(resolver, lookup, ask_round(resolver, lookup)))
		lookup_end(resolver, lookup, -ENOENT);
}

/* A queried host has no owner of the ID, or one that does not respond. */
void ripc__lookup_denied(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard)
{
	struct lookup *lookup = list_entry(asked, struct lookup, asked);
	uint32_t peer = heard->event->peer, bit = 1u << (peer - 1) % 8;

	resolver->stats.responses_received++;
	if (lookup->ended || lookup->held || peer == 0 || peer > RIPC_PEERS_MAX)
		return;
	if (!heard->packet->definite) {
		lookup->silent = true;
		return;
	}
	if (lookup->denied[(peer - 1) / 8] & bit)
		return;
	lookup->denied[(peer - 1) / 8] |= (uint8_t)bit;
	lookup->n_denied++;
	if (lookup->reached && is_denied(resolver, lookup, lookup->reached))
		lookup_end(resolver, lookup, -ENOENT);
}

void ripc__lookup_told(struct ripc__resolver *resolver, const struct ripc__source_event *event)
{
	struct lookup *lookup = ripc__map_get(&resolver->lookups, event->id);

	if (!lookup || lookup->ended || lookup->held)
		return;
	lookup->unavailable = event->kind == RIPC_SOURCE_UNAVAILABLE;
	if (!lookup->unavailable)
		lookup->silent = event->kind == RIPC_SOURCE_HELD;
	if (event->kind == RIPC_SOURCE_NOBODY && !resolver->n_inexact && !lookup->bound)
		lookup_end(resolver, lookup, -ENOENT);
}

/* ---- answers ----------------------------------------------------------------------------- */

/* Two incarnations are alive: the owner of the younger is notified of the older. */
static void tell_younger(struct ripc__resolver *resolver, struct lookup *lookup,
		const struct heard *heard)
{
	const struct wire_record *best = &lookup->best.record, *other = &heard->packet->record;
	struct wire_resolve notice = {.type = WIRE_RECORD, .asker = resolver->owner.context};

	if (lookup->rivals++ >= RIVALS_MAX) {
		ripc__drop(resolver);
		return;
	}
	if (ripc__record_older(best, other)) {
		notice.record = *best;
		ripc__send_reply(resolver, heard->source, &heard->event->reply, &notice);
	} else {
		notice.record = *other;
		ripc__send_reply(resolver, lookup->source, &lookup->reply, &notice);
	}
}

static void take(struct ripc__resolver *resolver, struct lookup *lookup, const struct heard *heard)
{
	ripc__answer_fill(resolver, heard, &lookup->best);
	lookup->source = heard->source;
	lookup->reply = heard->event->reply;
}

void ripc__lookup_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard)
{
	struct lookup *lookup = list_entry(asked, struct lookup, asked);
	const struct wire_record *record = &heard->packet->record;
	const struct ripc__resolver_owner *owner = &resolver->owner;
	bool have = lookup->ended || lookup->held;

	if (have && record->incarnation == lookup->best.record.incarnation)
		return; /* heard through another source or interface too */
	if (have)
		tell_younger(resolver, lookup, heard);
	if (lookup->ended) {
		if (record->incarnation == lookup->refused ||
				ripc__record_older(record, &lookup->best.record))
			return;
		take(resolver, lookup, heard);
		cache_store(resolver, asked->id, &lookup->best);
		owner->moved(owner->arg, asked->id, record->incarnation);
		return;
	}
	take(resolver, lookup, heard);
	if (record->incarnation != lookup->refused) {
		lookup_end(resolver, lookup, 0);
		return;
	}
	lookup->held = true;
	ripc__timer_set(&resolver->timers, &asked->timer, resolver->now_us + ROUND_US);
}

/* A query that waits in a long gap is sent at once: a service may answer now. */
static void ask_sooner(struct ripc__resolver *resolver, struct lookup *lookup,
		const struct heard *heard)
{
	struct asked *asked = &lookup->asked;
	uint64_t at_us = asked->sent_us + ROUND_US;

	if (lookup->ended || lookup->held)
		return;
	if (at_us < resolver->now_us)
		at_us = resolver->now_us;
	if (at_us >= asked->timer.at_us || !ripc__may_provoke(resolver, heard->event->host))
		return;
	ripc__provoked(resolver, heard->event->host);
	ripc__timer_set(&resolver->timers, &asked->timer, at_us);
}

/* Marks the cached answer as out of date. False: too many notices arrived. */
static bool hint_take(struct ripc__resolver *resolver, struct cached *cached,
		const struct heard *heard)
{
	if (!cached->exists) {
		cached_free(resolver, cached);
		return true;
	}
	if (cached->suspect)
		return true; /* the next lookup sends a query anyway */
	if (!ripc__may_provoke(resolver, heard->event->host) ||
			cached->hint_us > resolver->now_us + (HINTS_MAX - 1) * HINT_US) {
		ripc__drop(resolver);
		cached->doubted = true;
		return false;
	}
	if (cached->hint_us < resolver->now_us)
		cached->hint_us = resolver->now_us;
	cached->hint_us += HINT_US;
	cached->suspect = true;
	ripc__provoked(resolver, heard->event->host);
	return true;
}

static bool is_v4(const uint8_t host[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	return memcmp(host, mapped, sizeof(mapped)) == 0;
}

/*
 * Does a notice of a known registration come from another host than the answer did? Digests do
 * not count. A host with IPv4 and IPv6 sends each notice over both: the copy is no news.
 */
static bool is_elsewhere(const struct ripc__resolver *resolver, struct cached *cached,
		const struct heard *heard)
{
	const uint8_t *host = heard->event->host;
	uint32_t now = (uint32_t)(resolver->now_us >> 10);

	if (heard->packet->type != WIRE_RECORD || !heard->packet->record.n_addrs ||
			!cached->exists || cached->local || heard->event->local ||
			(int)heard->source == resolver->home)
		return false;
	if (memcmp(host, cached->host, sizeof(cached->host)) == 0) {
		cached->host_heard = now;
		return false;
	}
	return is_v4(host) == is_v4(cached->host) || now - cached->host_heard >= COPY_MS;
}

bool ripc__lookup_hint(struct ripc__resolver *resolver, const struct heard *heard)
{
	const struct wire_record *record = &heard->packet->record;
	struct lookup *lookup = ripc__map_get(&resolver->lookups, record->id);
	struct cached *cached = ripc__map_get(&resolver->cache, record->id);
	const struct ripc__resolver_owner *owner = &resolver->owner;
	bool registered = heard->packet->type == WIRE_RECORD;
	bool concerns = lookup && registered, known = cached, moved;

	if (concerns)
		ask_sooner(resolver, lookup, heard);
	if (known ? !cached_differs(cached, record->incarnation, registered) &&
			!is_elsewhere(resolver, cached, heard) :
			!ripc__may_provoke(resolver, heard->event->host))
		return concerns;
	if (known && !hint_take(resolver, cached, heard))
		return true;
	/* A concerned service sends a query with the next message to that ID. */
	moved = owner->moved(owner->arg, record->id, registered ? record->incarnation : 0);
	if (moved && !known)
		ripc__provoked(resolver, heard->event->host);
	return concerns || known || moved;
}

/* An exact source needs no limit: it sends one hint for each query. */
void ripc__lookup_hinted(struct ripc__resolver *resolver, const struct ripc__source_event *event)
{
	struct lookup *lookup = ripc__map_get(&resolver->lookups, event->id);
	struct cached *cached = ripc__map_get(&resolver->cache, event->id);
	const struct ripc__resolver_owner *owner = &resolver->owner;

	if (lookup && !lookup->ended && !lookup->held && event->incarnation)
		ripc__timer_set(&resolver->timers, &lookup->asked.timer, resolver->now_us);
	if (ripc__published_here(resolver, event->id))
		return;
	/* The same incarnation again: its addresses have changed. */
	if (cached && cached->exists)
		cached->suspect = true;
	else if (cached && event->incarnation)
		cached_free(resolver, cached);
	owner->moved(owner->arg, event->id, event->incarnation);
}

bool ripc__resolver_doubts(struct ripc__resolver *resolver, uint64_t id)
{
	struct cached *cached = ripc__map_get(&resolver->cache, id);
	bool doubted = cached && cached->doubted;

	if (doubted) {
		cached->doubted = false;
		cached->suspect = true;
	}
	return doubted;
}

/* ---- calls of the owner ------------------------------------------------------------------ */

/* A service of this context needs no query; its address is the loopback's. */
static int lookup_own(struct ripc__resolver *resolver, uint64_t id)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	struct ripc__answer *found = &resolver->found;
	int error = ripc__own_record(resolver, id, &found->record);

	if (error)
		return error;
	memcpy(found->host, (uint8_t[16]){[10] = 0xff, 0xff, 127, 0, 0, 1}, sizeof(found->host));
	found->proof = owner->proof(owner->arg, owner->context, found->host);
	found->local = true;
	found->source = "local";
	return 0;
}

int ripc__resolver_lookup_at(struct ripc__resolver *resolver, uint64_t id, const uint8_t host[16],
		uint64_t now_us, const struct ripc__answer **answer)
{
	RIPC__HOLD_CANCEL;
	struct lookup *lookup = ripc__map_get(&resolver->lookups, id);
	const struct cached *cached = ripc__map_get(&resolver->cache, id);

	resolver->now_us = now_us;
	if (!id)
		return -ENOENT;
	if (lookup_own(resolver, id) == 0) {
		*answer = &resolver->found;
		return 0;
	}
	if (lookup && !lookup->ended) {
		lookup->provoked &= host != NULL; /* now a sender here waits */
		return -EINPROGRESS;
	}
	if (!cached || cached->suspect || now_us >= cached->expires_us)
		return lookup_begin(resolver, id,
			cached && cached->suspect ? cached->incarnation : 0, host);
	if (!cached->exists)
		return -ENOENT;
	cached_answer(resolver, cached, &resolver->found);
	*answer = &resolver->found;
	return 0;
}

int ripc__resolver_lookup(struct ripc__resolver *resolver, uint64_t id, uint64_t now_us,
		const struct ripc__answer **answer)
{
	return ripc__resolver_lookup_at(resolver, id, NULL, now_us, answer);
}

const struct ripc__answer *ripc__resolver_recall(struct ripc__resolver *resolver, uint64_t id)
{
	const struct cached *cached = ripc__map_get(&resolver->cache, id);

	if (id && lookup_own(resolver, id) == 0)
		return &resolver->found;
	if (!cached || !cached->exists)
		return NULL;
	cached_answer(resolver, cached, &resolver->found);
	return &resolver->found;
}

void ripc__resolver_wanted(struct ripc__resolver *resolver, uint64_t id, uint64_t until_us)
{
	RIPC__HOLD_CANCEL;
	struct lookup *lookup = ripc__map_get(&resolver->lookups, id);

	if (lookup && !lookup->ended && until_us > lookup->until_us)
		lookup->until_us = until_us;
}

int ripc__resolver_late(const struct ripc__resolver *resolver, uint64_t id)
{
	const struct lookup *lookup = ripc__map_get(&resolver->lookups, id);

	return lookup && !lookup->ended && lookup->asked.strange ? -EACCES : -ETIMEDOUT;
}

void ripc__resolver_claimed(struct ripc__resolver *resolver, uint64_t id)
{
	RIPC__HOLD_CANCEL;
	struct cached *cached = ripc__map_get(&resolver->cache, id);

	if (cached && !cached->exists)
		cached_free(resolver, cached);
}

void ripc__resolver_suspect(struct ripc__resolver *resolver, uint64_t id, uint64_t incarnation)
{
	RIPC__HOLD_CANCEL;
	struct lookup *lookup = ripc__map_get(&resolver->lookups, id);
	struct cached *cached = ripc__map_get(&resolver->cache, id);

	if (cached && cached->exists && cached->incarnation == incarnation)
		cached->suspect = true;
	if (lookup && !lookup->ended && !lookup->refused)
		lookup->refused = incarnation;
}

void ripc__lookup_anew(struct ripc__resolver *resolver, uint64_t id)
{
	struct lookup *lookup = ripc__map_get(&resolver->lookups, id);

	if (!lookup || (lookup->ended && resolver->now_us >= lookup->asked.sent_us + ROUND_US))
		(void)lookup_begin(resolver, id, 0, NULL);
}

void ripc__lookups_close(struct ripc__resolver *resolver)
{
	struct lookup *lookup;

	while ((lookup = ripc__map_any(&resolver->lookups)))
		lookup_free(resolver, lookup);
	cache_close(resolver);
}
