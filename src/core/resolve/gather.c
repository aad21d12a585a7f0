/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathering: the members of a group, for services here that send to it. A lookup ends with one
 * answer; a gathering keeps all, and goes on while the group is in use.
 *
 * On this host the names that the members have bound are read, every LOOK_US while the group is
 * in use. The service of a new name is queried; a member whose name has gone has left, or died.
 * The same holds for the names that the exact source lists, whose members may be on any host.
 * The network is queried in ROUNDS_FIRST rounds when the group is first used, FIRST_US later,
 * every REFRESH_US while it is in use, and in rounds again when a notice says that a member
 * left. When a notice says that a member joined, there is one round, and up to JOINER_ROUNDS
 * more until that member has answered. While a round brings news, one more follows: a host that
 * is queried by unicast names only some members at once. A remote member that has not answered
 * in MISSED_MAX refreshes has gone. If a member is in doubt (a sender got no response, or
 * another member has the same ID), the refreshes follow each other after HASTE_US until the
 * member has answered, or has gone.
 *
 * An answer only names a service and its incarnation: a sender looks up the member like any
 * other service, and uses no record of a group's answer. A forged answer therefore misleads
 * nobody. But each member that another host names costs a query for its ID, and so do rounds
 * that others cause: both are paid from the budget of what outsiders may cause, and a member
 * waits until there is enough of it. The list of the exact source is not paid for: only those
 * who may register write there, and it lists MEMBERS_MAX at most.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "util/system/cancel.h"

#define GATHERINGS_MAX 1024u
#define MEMBERS_MAX    4096u /* of one group */
#define TRIES          10u   /* 200 ms: a name without an answer is then not waited for */
#define NAME_BIT       (1ull << 63)
#define GONE_MAX       64u

/* A member, or a name of this host or of the exact source that may be one. */
struct entry {
	struct ripc__member public;
	uint64_t name, asked_us;
	uint64_t generation; /* of the last look that has seen its name; 0: none */
	uint64_t doubted_us; /* when it was last doubted; 0: never */
	uint64_t placed_us;  /* when its own answer was first wanted; 0: its ID belongs to it */
	struct ripc__answer *answer; /* its own, about its ID; NULL: not wanted, or not yet here */
	uint32_t index;
	uint8_t host[16];
	uint8_t tries, missed;
	bool is_known;       /* the member has answered */
	bool is_admitted;    /* senders may use it */
	bool is_own;         /* of this context */
	bool is_seen;        /* in this refresh */
	bool is_doubted;     /* may have gone: refreshes follow each other until it is seen */
	bool is_near;        /* this host's source has its name; otherwise the exact one, if any */
};

/* A member that was taken for gone, and the era of the queries that follow. */
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
	uint64_t joiner;         /* named by the last notice: queried until it answers; or 0 */
	uint32_t joiner_rounds;  /* rounds for that joiner */
	uint32_t n_refreshed;
	struct gone gone[GONE_MAX]; /* the last ones, in a ring */
	uint32_t n_gone;         /* in all: the next place of the ring */
	uint8_t era;             /* the nonce's lowest byte */
	bool era_ends;           /* members have gone: the next query has another era */
	uint8_t cause[16];       /* the host behind the query, if is_provoked, or the news */
	bool is_refreshing, is_provoked, has_news;
	bool has_leavers;        /* once this refresh has ended, another one follows */
	bool is_hasty;           /* this refresh follows the last one soon, for doubted members */
	bool is_asked;           /* a refresh has ended */
	bool is_listing;         /* the exact source cannot list its names yet */
	bool is_awaited;         /* owner.gathered is due */
};

/* A name that may answer yet. */
static bool entry_is_pending(const struct entry *entry)
{
	return !entry->is_known && entry->tries < TRIES;
}

/* The nonce for a query that is sent now. */
static uint64_t gathering_nonce(struct gathering *gathering)
{
	gathering->era += gathering->era_ends;
	gathering->era_ends = false;
	return gathering->asked.nonce | gathering->era;
}

static struct entry *entry_of(const struct gathering *gathering, uint64_t incarnation)
{
	return ripc__map_get(&gathering->names, incarnation | NAME_BIT);
}

/* ---- entries ----------------------------------------------------------------------------- */

static void entry_trust(struct gathering *gathering, struct entry *entry);

static void entry_remove(struct gathering *gathering, struct entry *entry)
{
	struct entry *last = gathering->entries[--gathering->n];

	gathering->entries[entry->index] = last;
	last->index = entry->index;
	gathering->n_pending -= entry_is_pending(entry);
	gathering->n_unknown -= !entry->is_known;
	gathering->n_waiting -= entry->is_known && !entry->is_admitted;
	entry_trust(gathering, entry);
	ripc__map_remove(&gathering->names, entry->name);
	free(entry->answer);
	free(entry);
}

/* As above, and an answer to an earlier query does not bring the entry back. */
static void entry_gone(struct gathering *gathering, struct entry *entry)
{
	struct gone *gone = &gathering->gone[gathering->n_gone++ % GONE_MAX];

	gathering->era_ends = true;
	*gone = (struct gone){.incarnation = entry->public.incarnation,
		.era = (uint8_t)(gathering->era + 1)};
	entry_remove(gathering, entry);
}

/* Was the member taken for gone after the query with this nonce was sent? */
static bool gathering_is_gone(const struct gathering *gathering, uint64_t incarnation,
		uint64_t nonce)
{
	for (uint32_t i = 0; i < GONE_MAX; i++) {
		const struct gone *gone = &gathering->gone[i];

		if (gone->incarnation == incarnation && (int8_t)((uint8_t)nonce - gone->era) < 0)
			return true;
	}
	return false;
}

static void entry_doubt(struct gathering *gathering, struct entry *entry, uint64_t now_us)
{
	if (!entry->is_doubted) {
		gathering->n_doubted++;
		entry->missed = 0;
	}
	entry->is_doubted = true;
	entry->doubted_us = now_us;
}

/* The entry is no longer in doubt: the member has answered, or its name is there. */
static void entry_trust(struct gathering *gathering, struct entry *entry)
{
	gathering->n_doubted -= entry->is_doubted;
	entry->is_doubted = false;
}

/* Another entry of this service, which has begun anew, or of which there are two; or NULL. */
static struct entry *entry_rival(const struct gathering *gathering, const struct entry *entry)
{
	for (uint32_t i = 0; i < gathering->n; i++) {
		struct entry *other = gathering->entries[i];

		if (other != entry && other->is_known && other->public.id == entry->public.id)
			return other;
	}
	return NULL;
}

/* Is there a remote member that has not answered in so many refreshes, or is taken for such? */
static bool entry_missed(const struct gathering *gathering, uint32_t refreshes)
{
	for (uint32_t i = 0; i < gathering->n; i++) {
		const struct entry *entry = gathering->entries[i];

		if (!entry->is_own && !entry->generation && entry->missed == refreshes)
			return true;
	}
	return false;
}

/* An entry that has not answered, or (known) is not admitted, gives way. False: there is none. */
static bool entry_yield(struct gathering *gathering, bool known)
{
	uint32_t n = known ? gathering->n_waiting : gathering->n_unknown;

	for (uint32_t i = 0; n && i < gathering->n; i++) {
		struct entry *entry = gathering->entries[i];

		if (entry->is_known != known || entry->is_admitted)
			continue;
		entry_remove(gathering, entry);
		return true;
	}
	return false;
}

/* NULL: there is no memory. */
static struct entry *entry_add(struct gathering *gathering, uint64_t name)
{
	struct entry *entry;

	if (gathering->n == gathering->room) {
		uint32_t room = gathering->room ? 2 * gathering->room : 16;
		struct entry **more = realloc(gathering->entries, room * sizeof(*more));

		if (!more)
			return NULL;
		gathering->entries = more;
		gathering->room = room;
	}
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->name = name;
	if (ripc__map_put(&gathering->names, name, entry)) {
		free(entry);
		return NULL;
	}
	entry->index = gathering->n;
	gathering->entries[gathering->n++] = entry;
	gathering->n_pending++;
	gathering->n_unknown++;
	return entry;
}

/* The service and the incarnation of the entry are known now. */
static void entry_is(struct gathering *gathering, struct entry *entry, uint64_t id,
		uint64_t incarnation)
{
	gathering->n_pending -= entry_is_pending(entry);
	gathering->n_unknown -= !entry->is_known;
	gathering->n_waiting += !entry->is_known;
	entry->is_known = true;
	entry->public.id = id;
	entry->public.incarnation = incarnation;
}

/* Senders may use it from now on. */
static void entry_admit(struct gathering *gathering, struct entry *entry)
{
	gathering->n_waiting -= !entry->is_admitted;
	entry->is_admitted = true;
}

/* ---- gatherings -------------------------------------------------------------------------- */

static void gathering_free(struct ripc__resolver *resolver, struct gathering *gathering)
{
	ripc__asked_close(resolver, &gathering->asked);
	ripc__map_remove(&resolver->gatherings, gathering->asked.id);
	for (uint32_t i = 0; i < gathering->n; i++) {
		free(gathering->entries[i]->answer);
		free(gathering->entries[i]);
	}
	ripc__map_free(&gathering->names);
	free(gathering->entries);
	free(gathering);
}

/* If all places are taken, a gathering that was not used for long gives way. */
static bool gathering_yield(struct ripc__resolver *resolver)
{
	struct gathering *gathering, *oldest = NULL;
	uint32_t at = 0;

	while ((gathering = ripc__map_next(&resolver->gatherings, &at))) {
		if (!gathering->is_awaited && (!oldest || gathering->used_us < oldest->used_us))
			oldest = gathering;
	}
	if (oldest)
		gathering_free(resolver, oldest);
	return oldest;
}

/* Adds a member of this context. */
static void entry_add_own(void *arg, uint64_t id, uint64_t incarnation)
{
	struct gathering *gathering = arg;
	struct entry *entry = entry_of(gathering, incarnation);

	entry = entry ? entry : entry_add(gathering, incarnation | NAME_BIT);
	if (!entry)
		return; /* without memory */
	entry_is(gathering, entry, id, incarnation);
	entry->is_own = true;
	entry_admit(gathering, entry);
}

/* A gathering that no sender has used yet, with the members here. NULL: there is no memory. */
static struct gathering *gathering_make(struct ripc__resolver *resolver, uint64_t group,
		void (*fire)(void *owner, struct ripc__timer *timer))
{
	struct gathering *gathering;

	if (resolver->gatherings.count >= GATHERINGS_MAX && !gathering_yield(resolver))
		return NULL;
	gathering = calloc(1, sizeof(*gathering));
	if (!gathering)
		return NULL;
	gathering->asked = (struct asked){.kind = ASKED_GROUP, .id = group,
		.timer.fire = fire};
	ripc__map_init(&gathering->names, resolver->owner.random(resolver->owner.arg));
	if (ripc__asked_open(resolver, &gathering->asked))
		goto err_free;
	if (ripc__map_put(&resolver->gatherings, group, gathering))
		goto err_close;
	ripc__members_own(resolver, group, entry_add_own, gathering);
	return gathering;
err_close:
	ripc__asked_close(resolver, &gathering->asked);
err_free:
	free(gathering);
	return NULL;
}

/* ---- gather ------------------------------------------------------------------------------ */

#define PENDING_MAX    1024u  /* names that have not answered */
#define LOOK_US        50000u
#define LOOK_AGAIN_US  10000u /* notices do not make us look more often */
#define IN_USE_US      2000000u
#define FORGET_US      60000000u
#define REFRESH_US     10000000u
#define FIRST_US       1000000u /* the same, once: an answer may have been lost, or late */
#define MISSED_MAX     3u
#define HASTE_US       150000u  /* between refreshes while a member is in doubt */
#define DOUBT_MOST_US  1000000u /* without anything to query, a doubt ends by itself */
#define DOUBT_APART_US 1000000u /* a member that has answered is not doubted again at once */
#define PLACED_US      1000000u /* wait for a member beside another of its ID */
#define PLACE_AGAIN_US 100000u  /* and the gap between queries for it */
#define MORE_US        300000u /* until the budget allows another round, perhaps */
#define JOINER_ROUNDS  5u     /* for a joining member that does not answer; the gaps double */
#define BATCH          8u     /* names queried at once: the queues of Unix sockets are short */
#define BATCH_US       2000u
#define ENTRY_SILENT_US 1000000u
#define DOUBLINGS      5u     /* of that, for a name of the exact source: up to 32 s */

/* A source that lists members of groups; NULL: that source does not, or there is none. */
static const struct source_slot *lister(const struct ripc__resolver *resolver, int index)
{
	const struct source_slot *slot = index < 0 ? NULL : &resolver->sources[index];

	return slot && slot->ops->group.list ? slot : NULL;
}

static const struct source_slot *home_of(const struct ripc__resolver *resolver)
{
	return lister(resolver, resolver->home);
}

static const struct source_slot *exact_of(const struct ripc__resolver *resolver)
{
	return lister(resolver, resolver->exact);
}

static void gather_fire(void *owner, struct ripc__timer *timer);

/* Queries the network from now on, in rounds. */
static void refresh(struct gathering *gathering, uint64_t now_us)
{
	for (uint32_t i = 0; i < gathering->n; i++)
		gathering->entries[i]->is_seen = false;
	gathering->rounds_left = ROUNDS_FIRST;
	gathering->n_rounds = 0;
	gathering->round_us = now_us;
	gathering->is_refreshing = true;
	gathering->is_provoked = gathering->has_news = gathering->has_leavers = false;
	gathering->is_hasty = gathering->n_doubted > 0;
}

static bool is_in_use(const struct ripc__resolver *resolver, const struct gathering *gathering)
{
	return gathering->is_awaited || resolver->now_us < gathering->used_us + IN_USE_US;
}

static uint64_t refresh_at(const struct gathering *gathering)
{
	if (gathering->n_doubted)
		return gathering->refreshed_us + HASTE_US;
	return gathering->refreshed_us + (gathering->n_refreshed > 1 ? REFRESH_US : FIRST_US);
}

static bool is_complete(const struct gathering *gathering)
{
	return gathering->is_asked && gathering->n_pending == 0 && !gathering->is_listing;
}

/* ---- names ------------------------------------------------------------------------------- */

static struct entry *name_found(struct gathering *gathering, uint64_t name)
{
	struct entry *entry = ripc__map_get(&gathering->names, name);

	/* A host that floods us with remote members keeps none of this host out. */
	if (!entry && gathering->n_pending < PENDING_MAX &&
			(gathering->n < MEMBERS_MAX || entry_yield(gathering, true)))
		entry = entry_add(gathering, name);
	return entry;
}

static void near_found(void *arg, uint64_t name)
{
	struct gathering *gathering = arg;
	struct entry *entry = name_found(gathering, name);

	if (!entry)
		return;
	entry->is_near = true;
	entry->generation = gathering->generation;
	entry_trust(gathering, entry);
}

/* For a member on this host, the kernel is the better source of liveness. */
static void far_found(void *arg, uint64_t name)
{
	struct gathering *gathering = arg;
	struct entry *entry = name_found(gathering, name);

	if (!entry || entry->is_near)
		return;
	entry->generation = gathering->generation;
	entry_trust(gathering, entry);
}

static int names_read(const struct gathering *gathering, const struct source_slot *slot,
		void (*found)(void *arg, uint64_t name), void *arg)
{
	return slot ? slot->ops->group.list(slot->state, gathering->asked.id, found, arg) :
		-ENOENT;
}

/*
 * Reads the names, and forgets the members that have none any more. If a source cannot list
 * them, its members stay.
 */
static void look(struct ripc__resolver *resolver, struct gathering *gathering)
{
	const struct source_slot *home = home_of(resolver), *exact = exact_of(resolver);
	int near, far;

	gathering->looked_us = resolver->now_us;
	gathering->look_us = home || exact ? resolver->now_us + LOOK_US : UINT64_MAX;
	gathering->generation++;
	near = names_read(gathering, home, near_found, gathering);
	far = names_read(gathering, exact, far_found, gathering);
	gathering->is_listing = far == -EINPROGRESS;
	for (uint32_t i = gathering->n; i-- > 0;) {
		struct entry *entry = gathering->entries[i];

		if (entry->generation && entry->generation != gathering->generation &&
				!entry->is_own && (entry->is_near ? near : far) == 0)
			entry_remove(gathering, entry);
	}
}

static void ask_name(struct ripc__resolver *resolver, struct gathering *gathering,
		struct entry *entry)
{
	const struct source_slot *slot = entry->is_near ? home_of(resolver) : exact_of(resolver);
	const struct wire_resolve query = {.type = WIRE_QUERY,
		.nonce = gathering_nonce(gathering) ^
			(entry->is_near ? resolver->home_key : 0),
		.asker = resolver->owner.context, .record.id = gathering->asked.id};
	uint8_t data[WIRE_RESOLVE_MAX];
	size_t len = ripc__resolve_encode(resolver, &query, data);

	gathering->n_pending -= entry_is_pending(entry);
	entry->tries += entry->tries < UINT8_MAX;
	gathering->n_pending += entry_is_pending(entry);
	entry->asked_us = resolver->now_us;
	if (slot->ops->group.ask(slot->state, gathering->asked.id, entry->name, data, len) > 0)
		resolver->stats.queries_sent++;
}

/* A process of this host that was stopped is found soon; a remote name may be anybody's. */
static uint64_t silent_us(const struct entry *entry)
{
	uint32_t n = entry->tries - TRIES - 1;

	return entry->is_near ? ENTRY_SILENT_US :
		(uint64_t)ENTRY_SILENT_US << (n < DOUBLINGS ? n : DOUBLINGS);
}

/* When the service of a name is to be queried. The last try is waited for, too. */
static uint64_t ask_at(const struct entry *entry)
{
	if (!entry->tries)
		return 0;
	return entry->asked_us + (entry->tries <= TRIES ? ROUND_US : silent_us(entry));
}

static void ask_names(struct ripc__resolver *resolver, struct gathering *gathering)
{
	uint64_t next_us = UINT64_MAX;
	uint32_t n = 0;

	for (uint32_t i = 0; gathering->n_unknown && i < gathering->n; i++) {
		struct entry *entry = gathering->entries[i];

		if (entry->is_known || !entry->generation)
			continue;
		if (ask_at(entry) <= resolver->now_us && n < BATCH) {
			ask_name(resolver, gathering, entry);
			n++;
		}
		next_us = ask_at(entry) < next_us ? ask_at(entry) : next_us;
	}
	gathering->batch_us = next_us <= resolver->now_us ? resolver->now_us + BATCH_US : next_us;
}

/* ---- the network ------------------------------------------------------------------------- */

/* Returns how many receivers it reached. */
static uint32_t ask_network(struct ripc__resolver *resolver, struct gathering *gathering)
{
	const struct wire_resolve query = {.type = WIRE_QUERY,
		.nonce = gathering_nonce(gathering), .asker = resolver->owner.context,
		.record.id = gathering->asked.id};
	const struct source_slot *home = home_of(resolver);
	uint32_t n = 0;

	if (gathering->is_provoked && !ripc__may_provoke(resolver, gathering->cause))
		return 0;
	for (uint32_t i = 0; i < resolver->n_sources; i++) {
		if ((int)i != resolver->exact && (!home || (int)i != resolver->home))
			n += ripc__ask(resolver, i, &query, false);
	}
	if (n)
		resolver->n_network = n;
	if (gathering->is_provoked)
		ripc__provoked(resolver, gathering->cause);
	gathering->n_rounds += n > 0;
	return n;
}

/*
 * A remote member has not answered in this refresh. A member that is taken for gone by mistake
 * answers the next refreshes, which are not far.
 */
static void missed(struct gathering *gathering, struct entry *entry)
{
	if (gathering->is_hasty && !entry->is_doubted)
		return; /* the member may be far away */
	if (++entry->missed < MISSED_MAX)
		return;
	if (entry->is_doubted)
		gathering->n_refreshed = 0;
	entry_gone(gathering, entry);
}

/* Remote members that were queried, and have not answered, may have gone. */
static void refresh_end(struct ripc__resolver *resolver, struct gathering *gathering)
{
	for (uint32_t i = gathering->n; i-- > 0;) {
		struct entry *entry = gathering->entries[i];

		if (entry->is_doubted && resolver->now_us >= entry->doubted_us + DOUBT_MOST_US)
			entry_trust(gathering, entry);
		if (gathering->n_rounds >= ROUNDS_FIRST && !entry->is_own && !entry->generation &&
				!entry->is_seen)
			missed(gathering, entry);
	}
	gathering->is_refreshing = false;
	gathering->n_refreshed += gathering->n_rounds > 0;
	gathering->refreshed_us = resolver->now_us;
	if (gathering->has_leavers && entry_missed(gathering, MISSED_MAX - 1)) {
		refresh(gathering, resolver->now_us);
		gathering->is_provoked = true;
	}
}

/* More rounds may follow: as long as each brings a new member, and the budget lasts. */
static void round_more(struct ripc__resolver *resolver, struct gathering *gathering)
{
	gathering->is_provoked = true;
	gathering->round_us = resolver->now_us + (ask_network(resolver, gathering) ? ROUND_US :
		MORE_US);
	gathering->has_news &= gathering->round_us == resolver->now_us + MORE_US;
}

static bool waits_for_budget(struct ripc__resolver *resolver, const struct gathering *gathering)
{
	return gathering->is_provoked && !ripc__may_provoke(resolver, gathering->cause);
}

/* The joiner has answered, or has left. */
static void joiner_settled(struct gathering *gathering, uint64_t incarnation)
{
	if (gathering->joiner == incarnation)
		gathering->joiner = 0;
}

/* A joiner answers at once, unless a packet was lost. */
static bool round_for_joiner(struct ripc__resolver *resolver, struct gathering *gathering)
{
	if (gathering->joiner_rounds == JOINER_ROUNDS)
		gathering->joiner = 0;
	if (!gathering->joiner)
		return false;
	gathering->is_provoked = true;
	gathering->rounds_left = 1;
	gathering->round_us = resolver->now_us + (ROUND_US << ++gathering->joiner_rounds);
	return true;
}

static void round_next(struct ripc__resolver *resolver, struct gathering *gathering)
{
	gathering->round_us = resolver->now_us + ROUND_US;
	if (gathering->rounds_left && ask_network(resolver, gathering)) {
		gathering->rounds_left--;
		gathering->has_news &= gathering->rounds_left == 0;
		return;
	}
	if (gathering->rounds_left && waits_for_budget(resolver, gathering)) {
		gathering->round_us = resolver->now_us + MORE_US;
		return;
	}
	gathering->rounds_left = 0;
	gathering->is_asked = true;
	if (gathering->has_news)
		round_more(resolver, gathering);
	else if (!round_for_joiner(resolver, gathering))
		refresh_end(resolver, gathering);
}

/*
 * Doubts whether the member is there. Refreshes decide that; for a name that a source lists, the
 * source.
 */
static void doubt(struct ripc__resolver *resolver, struct gathering *gathering,
		struct entry *entry)
{
	if (entry->is_own || entry->generation || (entry->doubted_us && resolver->now_us <
			entry->doubted_us + DOUBT_APART_US))
		return;
	entry_doubt(gathering, entry, resolver->now_us);
	free(entry->answer); /* the member may be where its ID leads now, or on another host */
	entry->answer = NULL;
}

/*
 * A member that another host has named may be used, if the budget allows. That host is queried
 * first for the ID.
 */
static void admit(struct ripc__resolver *resolver, struct gathering *gathering,
		struct entry *entry)
{
	const struct ripc__answer *answer;
	struct entry *rival;

	if (!entry->is_known || entry->is_admitted || !ripc__may_provoke(resolver, entry->host))
		return;
	rival = entry_rival(gathering, entry);
	if (rival)
		doubt(resolver, gathering, rival);
	ripc__resolver_claimed(resolver, entry->public.id);
	(void)ripc__resolver_lookup_at(resolver, entry->public.id, entry->host, resolver->now_us,
		&answer);
	entry_admit(gathering, entry);
}

/* Admits members that had to wait for the budget. */
static void admit_more(struct ripc__resolver *resolver, struct gathering *gathering)
{
	if (!gathering->n_waiting || resolver->now_us < gathering->admit_us)
		return;
	gathering->admit_us = resolver->now_us + LOOK_US;
	for (uint32_t i = 0; i < gathering->n; i++)
		admit(resolver, gathering, gathering->entries[i]);
}

/* ---- the timer --------------------------------------------------------------------------- */

static uint64_t earlier(uint64_t a_us, uint64_t b_us)
{
	return a_us < b_us ? a_us : b_us;
}

static void timer_set(struct ripc__resolver *resolver, struct gathering *gathering)
{
	uint64_t at_us = gathering->used_us + FORGET_US;

	at_us = earlier(at_us, gathering->batch_us);
	if (gathering->is_refreshing)
		at_us = earlier(at_us, gathering->round_us);
	if (is_in_use(resolver, gathering)) {
		at_us = earlier(at_us, gathering->look_us);
		if (!gathering->is_refreshing || gathering->is_provoked)
			at_us = earlier(at_us, refresh_at(gathering));
		if (gathering->n_waiting)
			at_us = earlier(at_us, gathering->admit_us);
	}
	ripc__timer_set(&resolver->timers, &gathering->asked.timer, at_us);
}

/* Notifies the owner, once, when the gathering is complete. */
static void tell(struct ripc__resolver *resolver, struct gathering *gathering)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;

	if (!gathering->is_awaited || !is_complete(gathering))
		return;
	gathering->is_awaited = false;
	owner->gathered(owner->arg, gathering->asked.id);
}

/* Does the work that is due. */
static void go_on(struct ripc__resolver *resolver, struct gathering *gathering)
{
	bool in_use = is_in_use(resolver, gathering);

	if (in_use && resolver->now_us >= gathering->look_us)
		look(resolver, gathering);
	ask_names(resolver, gathering);
	/* A host that keeps the budget empty delays this no longer. */
	if (in_use && (!gathering->is_refreshing || gathering->is_provoked) &&
			resolver->now_us >= refresh_at(gathering)) {
		gathering->n_refreshed += gathering->is_refreshing;
		gathering->refreshed_us = resolver->now_us;
		refresh(gathering, resolver->now_us);
	}
	if (gathering->is_refreshing && resolver->now_us >= gathering->round_us)
		round_next(resolver, gathering);
	admit_more(resolver, gathering);
	timer_set(resolver, gathering);
}

static void gather_fire(void *owner, struct ripc__timer *timer)
{
	struct gathering *gathering = list_entry(timer, struct gathering, asked.timer);
	struct ripc__resolver *resolver = owner;

	if (resolver->now_us >= gathering->used_us + FORGET_US && !gathering->is_awaited) {
		gathering_free(resolver, gathering);
		return;
	}
	go_on(resolver, gathering);
	tell(resolver, gathering);
}

/* ---- incoming packets -------------------------------------------------------------------- */

/*
 * Another host has named a new member, or a new member has announced itself: there may be more,
 * also after a refresh. One round more, after so long.
 */
static void news(struct ripc__resolver *resolver, struct gathering *gathering,
		const struct heard *heard, uint64_t after_us)
{
	gathering->has_news = true;
	memcpy(gathering->cause, heard->event->host, sizeof(gathering->cause));
	if (gathering->is_refreshing) {
		if (gathering->joiner_rounds)
			gathering->round_us = earlier(gathering->round_us,
				resolver->now_us + after_us);
		return;
	}
	gathering->is_refreshing = true;
	gathering->rounds_left = gathering->n_rounds = 0;
	gathering->round_us = resolver->now_us + after_us;
}

static void joins(struct ripc__resolver *resolver, struct gathering *gathering,
		const struct heard *heard)
{
	uint64_t incarnation = heard->packet->record.incarnation;

	news(resolver, gathering, heard, 0);
	if (gathering->joiner != incarnation)
		gathering->joiner_rounds = 0;
	gathering->joiner = incarnation;
}

/* A notice says that a member has left: a whole refresh shows whether that is so. */
static void leaves(struct ripc__resolver *resolver, struct gathering *gathering,
		const struct heard *heard)
{
	memcpy(gathering->cause, heard->event->host, sizeof(gathering->cause));
	if (gathering->is_refreshing) {
		gathering->has_leavers = true;
		return;
	}
	refresh(gathering, resolver->now_us);
	gathering->is_provoked = true;
}

/*
 * Is there a place for one more? An entry that has not answered gives way. So does one that
 * waits for the budget, if the new one's host has some left: a host that floods us keeps no
 * other out.
 */
static bool has_place(struct ripc__resolver *resolver, struct gathering *gathering,
		const struct heard *heard)
{
	return gathering->n < MEMBERS_MAX || entry_yield(gathering, false) ||
		(ripc__may_provoke(resolver, heard->event->host) &&
		entry_yield(gathering, true));
}

void ripc__gather_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard)
{
	struct gathering *gathering = list_entry(asked, struct gathering, asked);
	const struct wire_record *record = &heard->packet->record;
	struct entry *entry = entry_of(gathering, record->incarnation);
	bool is_home = home_of(resolver) && (int)heard->source == resolver->home;
	bool is_exact = (int)heard->source == resolver->exact;

	/* Only members that the exact source has listed are queried there. */
	if (is_exact && (!entry || !entry->generation)) {
		ripc__drop(resolver);
		return;
	}
	if (!entry && gathering_is_gone(gathering, record->incarnation,
			ripc__nonce_heard(resolver, heard))) {
		ripc__drop(resolver);
		news(resolver, gathering, heard, 0); /* if it lives, it answers again */
		go_on(resolver, gathering);
		return;
	}
	if (!entry && has_place(resolver, gathering, heard))
		entry = entry_add(gathering, record->incarnation | NAME_BIT);
	if (!entry || entry->is_own) {
		ripc__drop(resolver);
		return;
	}
	/* The first answer is believed, unless a process of our own user contradicts it. */
	if (entry->is_known && !is_home && (entry->public.id != record->stamp ||
			entry->public.incarnation != record->incarnation)) {
		ripc__drop(resolver);
		return;
	}
	entry->is_seen = true;
	entry->missed = 0;
	joiner_settled(gathering, record->incarnation);
	entry_trust(gathering, entry);
	if (entry->is_known && !is_home)
		return;
	if (!is_home && !is_exact)
		news(resolver, gathering, heard, ROUND_US);
	memcpy(entry->host, heard->event->host, sizeof(entry->host));
	entry_is(gathering, entry, record->stamp, record->incarnation);
	if (is_home || is_exact)
		entry_admit(gathering, entry);
	else
		admit(resolver, gathering, entry);
	go_on(resolver, gathering);
	tell(resolver, gathering);
}

static void look_soon(struct gathering *gathering)
{
	if (gathering->look_us > gathering->looked_us + LOOK_AGAIN_US)
		gathering->look_us = gathering->looked_us + LOOK_AGAIN_US;
}

bool ripc__gather_hint(struct ripc__resolver *resolver, const struct heard *heard)
{
	const struct wire_record *record = &heard->packet->record;
	struct gathering *gathering = ripc__map_get(&resolver->gatherings, record->id);
	struct entry *entry = gathering ? entry_of(gathering, record->incarnation) : NULL;
	bool joined = heard->packet->type == WIRE_RECORD;

	if (gathering && !joined)
		joiner_settled(gathering, record->incarnation);
	if (!gathering || joined == (entry && entry->is_known))
		return false;
	look_soon(gathering);
	if (entry && !entry->generation)
		entry->missed = MISSED_MAX - 1; /* if it does not answer now, it has left */
	if (joined)
		joins(resolver, gathering, heard);
	else
		leaves(resolver, gathering, heard);
	go_on(resolver, gathering);
	return true;
}

void ripc__gather_listed(struct ripc__resolver *resolver, uint64_t group)
{
	struct gathering *gathering = ripc__map_get(&resolver->gatherings, group);

	if (!gathering)
		return;
	look_soon(gathering);
	go_on(resolver, gathering);
	tell(resolver, gathering);
}

void ripc__gather_joined(struct ripc__resolver *resolver, uint64_t group, uint64_t id,
		uint64_t incarnation)
{
	struct gathering *gathering = ripc__map_get(&resolver->gatherings, group);

	if (gathering)
		entry_add_own(gathering, id, incarnation);
}

void ripc__gather_left(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation)
{
	struct gathering *gathering = ripc__map_get(&resolver->gatherings, group);
	struct entry *entry = gathering ? entry_of(gathering, incarnation) : NULL;

	if (entry)
		entry_remove(gathering, entry);
}

/* ---- calls of the owner ------------------------------------------------------------------ */

static struct gathering *gathering_begin(struct ripc__resolver *resolver, uint64_t group)
{
	struct gathering *gathering = gathering_make(resolver, group, gather_fire);

	if (gathering)
		refresh(gathering, resolver->now_us);
	return gathering;
}

int ripc__resolver_gather(struct ripc__resolver *resolver, uint64_t group, uint64_t now_us,
		struct gathering **gathering_out)
{
	RIPC__HOLD_CANCEL;
	struct gathering *gathering = ripc__map_get(&resolver->gatherings, group);

	resolver->now_us = now_us;
	if (!gathering)
		gathering = gathering_begin(resolver, group);
	if (!gathering)
		return -ENOMEM;
	*gathering_out = gathering;
	if (!is_in_use(resolver, gathering) || now_us >= gathering->look_us ||
			!gathering->used_us) {
		gathering->used_us = now_us;
		go_on(resolver, gathering);
	}
	gathering->used_us = now_us;
	gathering->is_awaited |= !is_complete(gathering);
	return is_complete(gathering) ? 0 : -EINPROGRESS;
}

uint32_t ripc__gathering_places(const struct gathering *gathering)
{
	return gathering->n;
}

const struct ripc__member *ripc__gathering_at(const struct gathering *gathering, uint32_t place)
{
	const struct entry *entry = gathering->entries[place];

	return entry->is_admitted ? &entry->public : NULL;
}

void ripc__resolver_expel(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation)
{
	RIPC__HOLD_CANCEL;
	struct gathering *gathering = ripc__map_get(&resolver->gatherings, group);
	struct entry *entry = gathering ? entry_of(gathering, incarnation) : NULL;

	if (entry && entry->public.incarnation == incarnation && !entry->is_own)
		entry_gone(gathering, entry);
}

bool ripc__resolver_doubt(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation,
		uint64_t now_us)
{
	RIPC__HOLD_CANCEL;
	struct gathering *gathering = ripc__map_get(&resolver->gatherings, group);
	struct entry *entry = gathering ? entry_of(gathering, incarnation) : NULL;

	if (!entry)
		return false;
	resolver->now_us = now_us;
	doubt(resolver, gathering, entry);
	timer_set(resolver, gathering);
	return true;
}

int ripc__resolver_place(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation,
		uint64_t now_us, const struct ripc__answer **answer)
{
	RIPC__HOLD_CANCEL;
	struct gathering *gathering = ripc__map_get(&resolver->gatherings, group);
	struct entry *entry = gathering ? entry_of(gathering, incarnation) : NULL;
	bool waits;

	if (!entry || entry->is_own)
		return -ENOENT;
	*answer = entry->answer;
	if (entry->answer)
		return 0;
	resolver->now_us = now_us;
	if (!entry->placed_us)
		entry->placed_us = now_us;
	waits = now_us < entry->placed_us + PLACED_US;
	if (now_us >= entry->asked_us + (waits ? PLACE_AGAIN_US : PLACED_US) &&
			ripc__bucket_take(&resolver->places, now_us)) {
		entry->asked_us = now_us;
		ripc__lookup_anew(resolver, entry->public.id);
	}
	return waits ? -EINPROGRESS : -EAGAIN;
}

void ripc__gather_placed(struct ripc__resolver *resolver, const struct heard *heard)
{
	const struct wire_record *record = &heard->packet->record;
	struct gathering *gathering;
	uint32_t at = 0;

	while ((gathering = ripc__map_next(&resolver->gatherings, &at))) {
		struct entry *entry = entry_of(gathering, record->incarnation);

		if (!entry || !entry->placed_us || entry->public.id != record->id)
			continue;
		if (!entry->answer)
			entry->answer = malloc(sizeof(*entry->answer));
		if (entry->answer) /* without memory: with the next answer */
			ripc__answer_fill(resolver, heard, entry->answer);
	}
}

void ripc__gatherings_close(struct ripc__resolver *resolver)
{
	struct gathering *gathering;

	while ((gathering = ripc__map_any(&resolver->gatherings)))
		gathering_free(resolver, gathering);
}
