/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations: IDs of services of this context. A well-known ID is queried first, ROUNDS_FIRST
 * times, if a source that queries hosts is not exact. If there is no answer, its name on this
 * host is taken (by force from an owner that does not respond for ROUNDS_TAKING more). Then the
 * exact source decides, if there is one, and a notice is sent to all, at once, and once more.
 * Then digests name the ID; but if a name was taken by force its notices go on, because its last
 * owner may receive only these.
 *
 * If the exact source has another owner, that one is queried: if it answers, it keeps the ID. An
 * owner that does not respond is displaced when its end is proven (ripc__source.ended), and
 * otherwise awaited until STORE_PATIENCE_US are over: it may be stopped, or dead, and then the
 * source forgets it in time.
 *
 * A context that hears of another registration of its own ID queries for it (a notice alone is
 * not believed): if an older one answers, the owner is notified; if a younger one does, that one
 * is notified.
 *
 * Answers take as long as the path: the queries of a registration and of such a check count for
 * LATE_US. An answer to a registration that is over is a notice of a rival. Later registrations
 * wait as long for the last answer as the slowest owner took, within PATH_KNOWN_US.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "util/system/cancel.h"

/* ---- digest ------------------------------------------------------------------------------ */

/*
 * Digests. Registrations of this context are announced again and again: two registrations that
 * were made on both sides of a split network thus learn of each other when it heals, and
 * contexts that missed the notice learn of a service that has moved, or joined a group. One
 * datagram names up to WIRE_NAMED_MAX registrations; if there are more, datagrams that name
 * equally many are sent in equal gaps. Each names the registrations that were named longest ago.
 *
 * In a network of few contexts, each registration is named each LEAST_US. With more contexts the
 * gaps grow, up to ANNOUNCE_US, so that all together send a digest each SPACE_US, about. Their
 * number is estimated from our kin: contexts whose number has the last bits of ours, one in
 * WIRE_DIGEST_KIN. The filters of sources (resolvers/inet.c) let the digests of kin pass,
 * whatever they name.
 *
 * A context that has registered lately sends one each LEAST_US for FRESH_US, unless many others
 * do so: a network may be split for that long before other hosts notice. Then a context calls
 * for the digests of all, which arrive within SPREAD_US, beside those that are due.
 *
 * The first digest is sent after a random part of LEAST_US, half of it at least: contexts that
 * begin together do not fill the queues of their receivers each time together.
 */

#define ANNOUNCE_US 60000000u /* between the notices of one registration, at most */
/*
 * A host that is cut off from us is not heard for this long: each of its contexts has missed a
 * digest.
 */
#define SILENT_US   70000000u
/* A new registration is announced more often for longer than this. */
#define FRESH_US    75000000u
#define LEAST_US 4000000u
#define SPACE_US 312500u
#define SPREAD_US 1500000u
#define CROWD     3u  /* kin heard within CROWD_US of a registration: many begin */
#define CROWD_US  10000000u
#define CALLED_MAX 40u /* registrations that a context names after a call: over IPv4 and IPv6
                          they take no more than 1.5 times the bytes of the call */
#define CALLED_KIN 64u /* if more kin are heard after a call, too many follow it */

/* A registration, or the first part of a membership, that digests name. */
struct digested {
	struct list node; /* resolver->digest.all; or a list of its own */
	uint64_t id;      /* of the service, or of the group */
};

struct digested_member {
	struct digested digested;
	uint64_t service; /* the service that has joined the group */
};

/* The number of datagrams for all registrations. */
static uint32_t digests(const struct ripc__resolver *resolver)
{
	return (resolver->digest.n + WIRE_NAMED_MAX - 1) / WIRE_NAMED_MAX;
}

/* The ID of the service whose record has the incarnation. */
static uint64_t service_of(const struct digested *digested)
{
	return wire_is_group(digested->id) ?
		list_entry(digested, struct digested_member, digested)->service : digested->id;
}

/* Names the next n registrations. A service that ends has no record any more, and is not named. */
static void tell(struct ripc__resolver *resolver, uint32_t n)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	uint8_t named[WIRE_NAMED_MAX * WIRE_NAMED_LEN];
	struct wire_resolve packet = {.type = WIRE_DIGEST, .asker = owner->context,
		.named = named};

	for (uint32_t i = 0; i < n; i++) {
		struct list *node = list_pop(&resolver->digest.all);
		const struct digested *digested = list_entry(node, struct digested, node);
		struct wire_record record;

		list_append(&resolver->digest.all, node);
		if (owner->record(owner->arg, service_of(digested), &record) == 0)
			wire_named_put(named, packet.n_named++, digested->id, record.incarnation);
	}
	if (packet.n_named)
		ripc__send_notice(resolver, &packet);
}

/* Counts kin heard within the last us. */
static uint32_t kin_within(const struct ripc__resolver *resolver, uint64_t us)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < KIN_MAX; i++) {
		uint64_t heard_us = resolver->digest.kin[i].heard_us;

		n += heard_us && resolver->now_us < heard_us + us;
	}
	return n;
}

/*
 * Have we registered lately, and did few others do so at that time? Kin that were known before
 * send one in ANNOUNCE_US or so.
 */
static bool is_fresh(struct ripc__resolver *resolver)
{
	uint64_t since_us = resolver->now_us - resolver->digest.fresh_us;
	uint32_t n = kin_within(resolver, since_us);
	uint32_t n_before = kin_within(resolver, 2 * ANNOUNCE_US);

	n_before = n_before > n ? n_before - n : 0;
	if (since_us > FRESH_US || (since_us < CROWD_US && n >= CROWD + n_before / 6))
		resolver->digest.fresh_us = 0;
	return resolver->digest.fresh_us;
}

/* An estimate of the contexts in the network; or the hosts, if each is queried separately. */
static uint32_t contexts(struct ripc__resolver *resolver)
{
	uint32_t n_kin = is_fresh(resolver) ? 0 : kin_within(resolver, 2 * ANNOUNCE_US);
	uint32_t n = n_kin ? n_kin * WIRE_DIGEST_KIN : 1, n_peers = ripc__peers_of(resolver);

	return n > n_peers ? n : n_peers;
}

/* The time in which all registrations are named once. */
static uint64_t period(struct ripc__resolver *resolver)
{
	uint64_t us = (uint64_t)SPACE_US * contexts(resolver) * digests(resolver);

	if (us > ANNOUNCE_US || resolver->exact >= 0)
		return ANNOUNCE_US;
	return us < LEAST_US ? LEAST_US : us;
}

void ripc__digest_heard(struct ripc__resolver *resolver, uint64_t context)
{
	uint32_t oldest = 0;

	if ((context ^ resolver->owner.context) % WIRE_DIGEST_KIN)
		return;
	resolver->digest.n_called++;
	for (uint32_t i = 0; i < KIN_MAX; i++) {
		if (resolver->digest.kin[i].context == context) {
			oldest = i;
			break;
		}
		if (resolver->digest.kin[i].heard_us < resolver->digest.kin[oldest].heard_us)
			oldest = i;
	}
	resolver->digest.kin[oldest].context = context;
	resolver->digest.kin[oldest].heard_us = resolver->now_us;
}

/* If other digests were heard since the timer was set, there is more time. */
static void digest_fire(void *owner, struct ripc__timer *timer)
{
	struct ripc__resolver *resolver = owner;
	uint32_t n = digests(resolver);
	uint64_t gap_us = period(resolver) / n, told_us = resolver->digest.told_us;

	if (!told_us || resolver->now_us >= told_us + gap_us) {
		tell(resolver, (resolver->digest.n + n - 1) / n);
		resolver->digest.told_us = told_us = resolver->now_us;
	}
	ripc__timer_set(&resolver->timers, timer, told_us + gap_us);
}

static void called_fire(void *owner, struct ripc__timer *timer)
{
	struct ripc__resolver *resolver = owner;

	(void)timer;
	if (resolver->digest.n_called <= CALLED_KIN)
		tell(resolver, resolver->digest.n < CALLED_MAX ? resolver->digest.n : CALLED_MAX);
}

void ripc__digest_init(struct ripc__resolver *resolver)
{
	list_init(&resolver->digest.all);
	resolver->digest.timer.fire = digest_fire;
	resolver->digest.called.fire = called_fire;
}

/* Another context calls for the digests of all: ours follow soon. */
static void digest_called(struct ripc__resolver *resolver)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;

	if (!resolver->digest.n)
		return;
	resolver->digest.n_called = 0;
	ripc__timer_set(&resolver->timers, &resolver->digest.called,
		resolver->now_us + owner->random(owner->arg) % SPREAD_US);
}

/* Is the next digest due soon enough for a new registration? */
static bool is_due_soon(const struct ripc__resolver *resolver)
{
	const struct ripc__timer *timer = &resolver->digest.timer;

	return timer->index && timer->at_us <= resolver->now_us + LEAST_US;
}

/* Reads the wall clock from the record of a service that registers. */
static void look_at_clock(struct ripc__resolver *resolver, const struct digested *digested)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	struct wire_record record;

	resolver->digest.since_us = resolver->now_us;
	if (owner->record(owner->arg, service_of(digested), &record) == 0)
		resolver->digest.clock_ns = (int64_t)record.stamp -
			(int64_t)resolver->now_us * 1000;
}

static void digest_add(struct ripc__resolver *resolver, struct digested *digested)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	uint64_t us = resolver->exact < 0 ? LEAST_US : ANNOUNCE_US;

	list_append(&resolver->digest.all, &digested->node);
	if (resolver->digest.n++ == 0)
		look_at_clock(resolver, digested);
	if (resolver->exact < 0)
		resolver->digest.fresh_us = resolver->now_us;
	if (is_due_soon(resolver) || (resolver->exact >= 0 && resolver->digest.n > 1))
		return;
	resolver->digest.told_us = 0;
	ripc__timer_set(&resolver->timers, &resolver->digest.timer, resolver->now_us + us / 2 +
		owner->random(owner->arg) % (us / 2));
}

/* Harmless if digested was not added. */
static void digest_remove(struct ripc__resolver *resolver, struct digested *digested)
{
	if (list_empty(&digested->node))
		return;
	list_remove(&digested->node);
	if (--resolver->digest.n)
		return;
	ripc__timer_stop(&resolver->timers, &resolver->digest.timer);
	ripc__timer_stop(&resolver->timers, &resolver->digest.called);
}

/* ---- publish ----------------------------------------------------------------------------- */

#define TAKING_US     100000u /* between the queries to the owner of a name on this host */
#define ROUNDS_TAKING 5u      /* such an owner may wait for a processor, or have many queries */
#define VERIFY_US     1000000u /* notices cause a query for our own ID at most so often */
#define STORE_PATIENCE_US 9500000u /* less than a call that opens a service waits */
#define LATE_US       10000000u /* an answer counts so long after the last query */
#define PATH_KNOWN_US 60000000u /* a round trip that was measured counts so long */
#define PATH_MAX_US   1000000u /* an owner that answers later was stopped, or starved */
#define NOTICES_FIRST 2u      /* of a registration, ROUND_US apart; then digests name it */
#define ANNOUNCED_MAX 64u     /* notices after a change of our addresses */
#define YOUNGER_MAX   4u      /* notices that the answers to one such query can cause */

enum publication_state {
	PUBLICATION_ASKING, /* all sources */
	PUBLICATION_TAKING, /* the name on this host has an owner, which is queried */
	PUBLICATION_STORING, /* the exact source decides */
	PUBLICATION_HERE,
};

struct publication {
	struct asked asked;   /* ASKED_PUBLISH; its timer also announces; started_us: STORING */
	uint64_t asked_us;    /* when first queried */
	struct asked verify;  /* ASKED_VERIFY */
	struct digested digested;
	uint64_t verified_us; /* when last begun; 0: never */
	uint32_t told;        /* notified younger ones, in this verification */
	uint8_t rival[16];    /* the host that made us verify */
	uint64_t holder;      /* the exact source's owner, if its end can be proven */
	int refusal;          /* why it is not stored yet; 0: not known */
	uint8_t state;
	bool private_id;
	bool bound;           /* its name on this host, when it was queried */
	bool displaced;       /* an owner of a name of this ID on this host that did not respond */
};

static void publish_fire(void *owner, struct ripc__timer *timer);
static void verify_fire(void *owner, struct ripc__timer *timer);

bool ripc__published_here(struct ripc__resolver *resolver, uint64_t id)
{
	const struct publication *publication = ripc__map_get(&resolver->publications, id);

	return publication && publication->state == PUBLICATION_HERE;
}

int ripc__own_record(struct ripc__resolver *resolver, uint64_t id, struct wire_record *record)
{
	if (!ripc__published_here(resolver, id))
		return -ENOENT;
	return resolver->owner.record(resolver->owner.arg, id, record);
}

bool ripc__private_here(struct ripc__resolver *resolver, uint64_t id)
{
	const struct publication *publication = ripc__map_get(&resolver->publications, id);

	return publication && publication->private_id;
}

static void asked_init(struct asked *asked, uint64_t id, enum asked_kind kind)
{
	asked->id = id;
	asked->kind = (uint8_t)kind;
	asked->timer.fire = kind == ASKED_PUBLISH ? publish_fire : verify_fire;
}

static int publication_alloc(struct ripc__resolver *resolver, uint64_t id,
		struct publication **publication_out)
{
	struct publication *publication;
	int error = -EADDRINUSE;

	if (ripc__map_get(&resolver->publications, id))
		return error;
	publication = calloc(1, sizeof(*publication));
	if (!publication)
		return -ENOMEM;
	asked_init(&publication->asked, id, ASKED_PUBLISH);
	asked_init(&publication->verify, id, ASKED_VERIFY);
	publication->digested.id = id;
	list_init(&publication->digested.node);
	error = ripc__timers_borrow(resolver, 2);
	if (error)
		goto err_free;
	error = ripc__map_put(&resolver->publications, id, publication);
	if (error)
		goto err_return_timers;
	*publication_out = publication;
	return 0;
err_return_timers:
	ripc__timers_return(resolver, 2);
err_free:
	free(publication);
	return error;
}

static void publication_free(struct ripc__resolver *resolver, struct publication *publication)
{
	ripc__asked_close(resolver, &publication->asked);
	ripc__asked_close(resolver, &publication->verify);
	digest_remove(resolver, &publication->digested);
	ripc__map_remove(&resolver->publications, publication->asked.id);
	free(publication);
}

static void set_timer(struct ripc__resolver *resolver, struct asked *asked, uint64_t after_us)
{
	ripc__timer_set(&resolver->timers, &asked->timer, resolver->now_us + after_us);
}

/* ---- registering ------------------------------------------------------------------------- */

/* Notifies the displaced owner on this host: if it lives, it finds this in its queue. */
static void tell_displaced(struct ripc__resolver *resolver, const struct wire_resolve *notice)
{
	const struct source_slot *home = &resolver->sources[resolver->home];
	uint8_t data[WIRE_RESOLVE_MAX];
	size_t len = ripc__resolve_encode(resolver, notice, data);

	home->ops->ask(home->state, notice->record.id, data, len);
}

static void announce(struct ripc__resolver *resolver, struct publication *publication)
{
	struct asked *asked = &publication->asked;
	struct wire_resolve notice = {.type = WIRE_RECORD, .asker = resolver->owner.context};

	if (ripc__own_record(resolver, asked->id, &notice.record) == 0) {
		ripc__send_notice(resolver, &notice);
		if (publication->displaced)
			tell_displaced(resolver, &notice);
	}
	asked->round++;
	if (asked->round < NOTICES_FIRST)
		set_timer(resolver, asked, ROUND_US);
	else if (publication->displaced)
		set_timer(resolver, asked, ANNOUNCE_US);
	else
		set_timer(resolver, asked, LATE_US);
	if (asked->round == NOTICES_FIRST && !publication->displaced)
		digest_add(resolver, &publication->digested);
}

static void here_fire(struct ripc__resolver *resolver, struct publication *publication)
{
	bool late = publication->asked.round >= NOTICES_FIRST;

	if (late)
		ripc__asked_end(resolver, &publication->asked);
	if (!late || publication->displaced)
		announce(resolver, publication);
}

/* If there are more than ANNOUNCED_MAX, lookups or digests find the rest. */
void ripc__resolver_announce(struct ripc__resolver *resolver, uint64_t now_us)
{
	RIPC__HOLD_CANCEL;
	const struct publication *publication;
	uint32_t at = 0, n = 0;

	resolver->now_us = now_us;
	while (n < ANNOUNCED_MAX && (publication = ripc__map_next(&resolver->publications, &at))) {
		struct wire_resolve notice = {.type = WIRE_RECORD,
			.asker = resolver->owner.context};

		if (publication->state != PUBLICATION_HERE || publication->private_id ||
				ripc__own_record(resolver, publication->asked.id, &notice.record))
			continue;
		ripc__send_notice(resolver, &notice);
		n++;
	}
}

static void withdraw_from(struct ripc__resolver *resolver, int source, uint64_t id)
{
	const struct source_slot *slot = source < 0 ? NULL : &resolver->sources[source];

	if (slot)
		slot->ops->withdraw(slot->state, id);
}

static void publish_failed(struct ripc__resolver *resolver, struct publication *publication,
		int error)
{
	bool storing = publication->state == PUBLICATION_STORING;
	uint64_t id = publication->asked.id;

	publication_free(resolver, publication);
	if (storing) {
		withdraw_from(resolver, resolver->exact, id);
		withdraw_from(resolver, resolver->home, id);
	}
	resolver->owner.published(resolver->owner.arg, id, error);
}

static void publish_done(struct ripc__resolver *resolver, struct publication *publication)
{
	struct asked *asked = &publication->asked;

	/* The exact source has decided already. */
	if (resolver->exact >= 0)
		ripc__asked_end(resolver, asked);
	ripc__cache_forget(resolver, asked->id);
	publication->state = PUBLICATION_HERE;
	asked->round = 0;
	resolver->owner.published(resolver->owner.arg, asked->id, 0);
	if (!publication->private_id)
		announce(resolver, publication);
}

/* ---- the exact source -------------------------------------------------------------------- */

/*
 * Publishes at the exact source, which reports in time how this ended, or what it waits for. The
 * timer is for a source that takes too long.
 */
static void store_try(struct ripc__resolver *resolver, struct publication *publication,
		enum ripc__naming naming)
{
	const struct source_slot *slot = &resolver->sources[resolver->exact];
	struct wire_record record = {0};
	uint64_t id = publication->asked.id;
	int error = resolver->owner.record(resolver->owner.arg, id, &record);

	if (!error)
		error = slot->ops->publish(slot->state, id, record.incarnation, naming);
	if (error != -EINPROGRESS)
		publish_failed(resolver, publication, error);
}

static void store(struct ripc__resolver *resolver, struct publication *publication)
{
	publication->state = PUBLICATION_STORING;
	publication->asked.started_us = resolver->now_us;
	publication->asked.round = 0;
	set_timer(resolver, &publication->asked, STORE_PATIENCE_US);
	store_try(resolver, publication, publication->private_id ? RIPC_NAME_PRIVATE :
		RIPC_NAME_FIRST);
}

static bool holder_ended(const struct ripc__resolver *resolver,
		const struct publication *publication)
{
	const struct source_slot *home = resolver->home < 0 ? NULL :
		&resolver->sources[resolver->home];

	return publication->holder && home && home->ops->ended &&
		home->ops->ended(home->state, publication->holder);
}

/* Tries once more: the owner may have ended, or been forgotten. */
static void store_again(struct ripc__resolver *resolver, struct publication *publication)
{
	struct asked *asked = &publication->asked;
	const struct wire_resolve query = {.type = WIRE_QUERY, .nonce = asked->nonce,
		.asker = resolver->owner.context, .record.id = asked->id};
	uint64_t end_us = publication->asked.started_us + STORE_PATIENCE_US;

	if (resolver->now_us >= end_us) {
		publish_failed(resolver, publication, publication->refusal ? publication->refusal :
			-EHOSTUNREACH);
		return;
	}
	set_timer(resolver, asked, asked->round++ < ROUNDS_FIRST ? ROUND_US : TAKING_US);
	if (asked->nonce && publication->refusal == -EADDRINUSE)
		ripc__ask(resolver, (uint32_t)resolver->exact, &query, false);
	store_try(resolver, publication, holder_ended(resolver, publication) ?
		RIPC_NAME_DISPLACE : RIPC_NAME_FIRST);
}

void ripc__publish_stored(struct ripc__resolver *resolver, const struct ripc__source_event *event)
{
	struct publication *publication = ripc__map_get(&resolver->publications, event->id);

	if (!publication || publication->state != PUBLICATION_STORING)
		return;
	/*
	 * A service that may not register may still send, from a private ID that others do not
	 * find.
	 */
	if (!event->status || (event->status == -EACCES && publication->private_id)) {
		publish_done(resolver, publication);
	} else if (event->status == -EADDRINUSE && !publication->private_id) {
		publication->refusal = event->status;
		publication->holder = event->holder;
		if (publication->asked.round == 0)
			store_again(resolver, publication);
	} else {
		publish_failed(resolver, publication, event->status);
	}
}

/* A private ID is drawn at random: no other service has it, and the source goes on trying. */
void ripc__publish_delayed(struct ripc__resolver *resolver, uint64_t id)
{
	struct publication *publication = ripc__map_get(&resolver->publications, id);

	if (!publication || publication->state != PUBLICATION_STORING)
		return;
	publication->refusal = -EHOSTUNREACH;
	if (publication->private_id)
		publish_done(resolver, publication);
}

void ripc__publish_lost(struct ripc__resolver *resolver, const struct ripc__source_event *event)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	struct wire_record record;

	if (ripc__own_record(resolver, event->id, &record))
		return;
	owner->conflict(owner->arg, event->id, event->incarnation);
	ripc__resolver_withdraw(resolver, event->id, record.incarnation);
}

/* ---- round trips ------------------------------------------------------------------------- */

static bool path_is_known(const struct ripc__resolver *resolver)
{
	return resolver->path_us && resolver->now_us < resolver->path_at_us + PATH_KNOWN_US;
}

/*
 * Measures the path by the first answer to a registration, from another host. A busy owner on
 * this host is no path.
 */
static void path_measure(struct ripc__resolver *resolver, const struct publication *publication,
		const struct heard *heard)
{
	uint64_t us = resolver->now_us - publication->asked_us;

	if (heard->event->local || (int)heard->source == resolver->exact)
		return;
	us = us < PATH_MAX_US ? us : PATH_MAX_US;
	if (path_is_known(resolver) && us < resolver->path_us)
		return;
	resolver->path_us = us;
	resolver->path_at_us = resolver->now_us;
}

/* How long the answer to the last query of a registration is waited for. */
static uint64_t path_patience(const struct ripc__resolver *resolver)
{
	uint64_t us = path_is_known(resolver) ? resolver->path_us + resolver->path_us / 4 : 0;

	return us > ROUND_US ? us : ROUND_US;
}

/* ---- this host --------------------------------------------------------------------------- */

static void ask_round(struct ripc__resolver *resolver, struct publication *publication)
{
	struct asked *asked = &publication->asked;
	bool asking = publication->state == PUBLICATION_ASKING, first = asked->round++ == 0;

	if (asking && first)
		publication->asked_us = resolver->now_us;
	/* An unbound name is queried once: binding it shows the rest. */
	if (!asking || first || publication->bound)
		publication->bound = ripc__ask_home(resolver, asked);
	if (asking)
		ripc__ask_network(resolver, asked);
	set_timer(resolver, asked, !asking ? TAKING_US : asked->round < ROUNDS_FIRST ? ROUND_US :
		path_patience(resolver));
}

/* Receives queries from now on: before, our own queries would only wake us. */
static void heed(struct ripc__resolver *resolver, uint64_t id, bool private_id)
{
	source_for_each(slot, resolver) {
		if (slot->ops->heed)
			slot->ops->heed(slot->state, id, private_id);
	}
}

/* Takes the name on this host, if there is one to take. */
static void take_name(struct ripc__resolver *resolver, struct publication *publication)
{
	bool displace = publication->state == PUBLICATION_TAKING;
	uint64_t id = publication->asked.id;
	int error = 0;

	heed(resolver, id, publication->private_id);
	if (resolver->home >= 0) {
		const struct source_slot *home = &resolver->sources[resolver->home];

		error = home->ops->publish(home->state, id, 0,
			publication->private_id ? RIPC_NAME_PRIVATE :
			displace ? RIPC_NAME_DISPLACE : RIPC_NAME_FIRST);
	}
	publication->displaced = displace && resolver->home >= 0;
	if (!error && resolver->exact >= 0) {
		store(resolver, publication);
	} else if (!error) {
		publish_done(resolver, publication);
	} else if (error == -EADDRINUSE && !displace && !publication->private_id) {
		publication->state = PUBLICATION_TAKING;
		publication->asked.round = 0;
		ask_round(resolver, publication);
	} else {
		publish_failed(resolver, publication, error);
	}
}

/*
 * Do owners of other IDs answer? Then a missing answer about this one proves nothing yet: of
 * many answers at once most get lost (a local socket queues ten), and a host answers only so
 * many in a second. Each answer ends a registration, hence this ends, too.
 */
static bool holders_answer(const struct ripc__resolver *resolver)
{
	return resolver->holders_us &&
		resolver->now_us - resolver->holders_us < 2 * path_patience(resolver);
}

static void publish_fire(void *owner, struct ripc__timer *timer)
{
	struct publication *publication = list_entry(timer, struct publication, asked.timer);
	struct ripc__resolver *resolver = owner;
	uint32_t rounds = publication->state == PUBLICATION_TAKING ? ROUNDS_TAKING : ROUNDS_FIRST;

	if (publication->state == PUBLICATION_HERE)
		here_fire(resolver, publication);
	else if (publication->state == PUBLICATION_STORING)
		store_again(resolver, publication);
	else if (publication->asked.round < rounds || holders_answer(resolver))
		ask_round(resolver, publication);
	else
		take_name(resolver, publication);
}

void ripc__resolver_publish(struct ripc__resolver *resolver, uint64_t id, bool private_id,
		uint64_t now_us)
{
	RIPC__HOLD_CANCEL;
	struct publication *publication = NULL;
	int error = publication_alloc(resolver, id, &publication);

	resolver->now_us = now_us;
	if (error) {
		resolver->owner.published(resolver->owner.arg, id, error);
		return;
	}
	publication->private_id = private_id;
	if (private_id) {
		take_name(resolver, publication);
		return;
	}
	error = ripc__asked_begin(resolver, &publication->asked);
	if (error)
		publish_failed(resolver, publication, error);
	else if (resolver->n_inexact || resolver->exact < 0)
		ask_round(resolver, publication);
	else
		take_name(resolver, publication);
}

/* An owner that answers is alive. But it may have ended since a late answer was sent. */
void ripc__publish_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard)
{
	struct publication *publication = list_entry(asked, struct publication, asked);

	if (publication->state == PUBLICATION_HERE) {
		if (ripc__publish_rivalled(resolver, heard))
			path_measure(resolver, publication, heard);
		return;
	}
	path_measure(resolver, publication, heard);
	resolver->holders_us = resolver->now_us;
	publish_failed(resolver, publication, -EADDRINUSE);
}

void ripc__resolver_withdraw(struct ripc__resolver *resolver, uint64_t id, uint64_t incarnation)
{
	RIPC__HOLD_CANCEL;
	struct publication *publication = ripc__map_get(&resolver->publications, id);
	const struct wire_resolve notice = {.type = WIRE_WITHDRAWN,
		.asker = resolver->owner.context,
		.record = {.id = id, .incarnation = incarnation}};
	bool was_here, announced, stored;

	if (!publication)
		return;
	was_here = publication->state == PUBLICATION_HERE;
	announced = was_here && !publication->private_id;
	stored = was_here || publication->state == PUBLICATION_STORING;
	publication_free(resolver, publication);
	if (stored) {
		withdraw_from(resolver, resolver->exact, id);
		withdraw_from(resolver, resolver->home, id);
	}
	if (announced)
		ripc__send_notice(resolver, &notice);
}

/* ---- rivals ------------------------------------------------------------------------------ */

static void verify_round(struct ripc__resolver *resolver, struct asked *verify)
{
	const struct publication *publication = list_entry(verify, struct publication, verify);

	verify->round++;
	ripc__ask_home(resolver, verify);
	ripc__ask_network_for(resolver, verify, publication->rival);
	set_timer(resolver, verify, verify->round < ROUNDS_FIRST ? ROUND_US : LATE_US);
}

/* If there are too many to verify at once, one waits for its turn. */
static void verify_begin(struct ripc__resolver *resolver, struct publication *publication)
{
	struct asked *verify = &publication->verify;

	if (!ripc__bucket_take(&resolver->verifications, resolver->now_us)) {
		ripc__asked_end(resolver, verify);
		set_timer(resolver, verify, VERIFY_US);
		return;
	}
	if (ripc__asked_begin(resolver, verify)) {
		ripc__drop(resolver);
		return;
	}
	publication->verified_us = resolver->now_us;
	publication->told = 0;
	verify->round = 0;
	verify_round(resolver, verify);
}

static void verify_fire(void *owner, struct ripc__timer *timer)
{
	struct asked *verify = list_entry(timer, struct asked, timer);
	struct ripc__resolver *resolver = owner;

	if (verify->nonce == 0)
		verify_begin(resolver, list_entry(verify, struct publication, verify));
	else if (verify->round < ROUNDS_FIRST)
		verify_round(resolver, verify);
	else
		ripc__asked_end(resolver, verify);
}

bool ripc__publish_rivalled(struct ripc__resolver *resolver, const struct heard *heard)
{
	struct publication *publication =
		ripc__map_get(&resolver->publications, heard->packet->record.id);
	const struct asked *verify = &publication->verify;
	bool verifies = verify->timer.index && (!verify->nonce || verify->round < ROUNDS_FIRST);
	uint64_t last_us = publication->verified_us;

	if ((last_us && resolver->now_us < last_us + VERIFY_US) || verifies) {
		ripc__drop(resolver);
		return false;
	}
	memcpy(publication->rival, heard->event->host, sizeof(publication->rival));
	verify_begin(resolver, publication);
	return true;
}

void ripc__verify_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard)
{
	struct publication *publication = list_entry(asked, struct publication, verify);
	struct wire_resolve notice = {.type = WIRE_RECORD, .asker = resolver->owner.context};
	const struct wire_record *rival = &heard->packet->record;
	const struct ripc__resolver_owner *owner = &resolver->owner;

	if (ripc__own_record(resolver, asked->id, &notice.record) ||
			notice.record.incarnation == rival->incarnation)
		return;
	/* The exact source knows the owner: the rival is notified instead. */
	if (resolver->exact < 0 && ripc__record_older(rival, &notice.record)) {
		uint64_t id = asked->id;

		owner->conflict(owner->arg, id, rival->incarnation);
		ripc__resolver_withdraw(resolver, id, notice.record.incarnation);
	} else if (publication->told++ < YOUNGER_MAX) {
		ripc__send_reply(resolver, heard->source, &heard->event->reply, &notice);
	}
}

void ripc__publications_close(struct ripc__resolver *resolver)
{
	struct publication *publication;

	while ((publication = ripc__map_any(&resolver->publications)))
		publication_free(resolver, publication);
}

/* ---- heal -------------------------------------------------------------------------------- */

/*
 * Noticing that a split network is whole again. While it is split, an ID can be registered on
 * both sides. Digests show that in the end, but in a large network each context sends only one a
 * minute.
 *
 * Each context remembers the hosts whose digests it receives: those of its kin (see digest), and
 * others by chance. After a digest of a host that was not heard for SILENT_US, or never, the
 * context queries how old a registration there is. A young one shows that a program was started
 * there. An old one can show that we missed earlier digests (is_missed): the context then calls
 * for the digests of all. The call is a query for all IDs, marked as relayed, by multicast: it
 * passes every filter. Each context that has registered something answers the call by its
 * digests, soon and at a random time.
 *
 * Outsiders and lost digests can cause at most a call each CALL_GAP_US, and soon each
 * CALL_MOST_US, and thus one more digest of each context. With more than HOSTS_MAX hosts, the
 * others are not watched.
 */

#define CALL_US     800000u   /* from half of it on, at random: others may have received nothing
                                 yet, and our kin receive the same digest */
#define CALL_GAP_US 20000000u  /* between calls, and twice as long after each that follows soon, */
#define CALL_MOST_US 320000000u /* up to this */
#define CALM_US     600000000u /* without a call */
#define PATIENCE_US 1000000u  /* an answer that comes later is of no use */
#define YOUNG_US    5000000 /* a registration whose first digest may still be under way */

/* ---- the call ---------------------------------------------------------------------------- */

/* Is a call too soon after another one to count? */
static bool is_too_soon(const struct ripc__resolver *resolver)
{
	uint64_t called_us = resolver->heal.called_us;

	return called_us && resolver->now_us < called_us + resolver->heal.gap_us;
}

/* Lost digests cause needless calls: the gaps between calls grow. */
static void note_call(struct ripc__resolver *resolver)
{
	uint64_t called_us = resolver->heal.called_us, gap_us = 2 * resolver->heal.gap_us;

	if (!called_us || resolver->now_us > called_us + CALM_US)
		gap_us = CALL_GAP_US;
	resolver->heal.gap_us = gap_us < CALL_MOST_US ? gap_us : CALL_MOST_US;
	resolver->heal.called_us = resolver->now_us;
}

static void call_soon(struct ripc__resolver *resolver)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	uint64_t at_us = resolver->now_us + CALL_US / 2 +
		owner->random(owner->arg) % (CALL_US / 2);

	if (resolver->heal.call.index)
		return;
	/* Other contexts have heard the last call a little sooner, or later. */
	if (is_too_soon(resolver))
		at_us += resolver->heal.called_us + resolver->heal.gap_us + CALL_US -
			resolver->now_us;
	ripc__timer_set(&resolver->timers, &resolver->heal.call, at_us);
}

static void call_fire(void *arg, struct ripc__timer *timer)
{
	struct ripc__resolver *resolver = arg;
	const struct ripc__resolver_owner *owner = &resolver->owner;
	const struct wire_resolve call = {.type = WIRE_QUERY, .hops = 1,
		.nonce = owner->random(owner->arg) | 1, .asker = owner->context};

	(void)timer;
	if (!ripc__may_provoke(resolver, resolver->heal.host))
		return;
	ripc__provoked(resolver, resolver->heal.host);
	note_call(resolver);
	ripc__send_notice(resolver, &call);
	digest_called(resolver);
}

bool ripc__heal_called(struct ripc__resolver *resolver, const struct heard *heard)
{
	const struct wire_resolve *call = heard->packet;

	if (call->record.id || !call->hops || !heard->event->group)
		return false;
	if (is_too_soon(resolver) || call->asker == resolver->owner.context || resolver->exact >= 0)
		return true;
	note_call(resolver);
	ripc__timer_stop(&resolver->timers, &resolver->heal.call);
	digest_called(resolver);
	return true;
}

/* ---- other hosts ------------------------------------------------------------------------- */

/* The place of a host, or a place to put it. */
static uint32_t place_of(const struct ripc__resolver *resolver, const uint8_t host[16])
{
	uint32_t oldest = 0;

	for (uint32_t i = 0; i < HOSTS_MAX; i++) {
		if (memcmp(resolver->heal.hosts[i].host, host, 16) == 0)
			return i;
		if (resolver->heal.hosts[i].heard_us < resolver->heal.hosts[oldest].heard_us)
			oldest = i;
	}
	return oldest;
}

static void host_put(struct ripc__resolver *resolver, const uint8_t host[16])
{
	uint32_t i = place_of(resolver, host);

	memcpy(resolver->heal.hosts[i].host, host, 16);
	resolver->heal.hosts[i].heard_us = resolver->now_us;
}

/* A service that the digest names; 0: none. */
static uint64_t named_service(const struct wire_resolve *digest)
{
	for (uint32_t i = 0; i < digest->n_named; i++) {
		uint64_t id, incarnation;

		wire_named_get(digest, i, &id, &incarnation);
		if (!wire_is_group(id))
			return id;
	}
	return 0;
}

/* Queries the context that has sent the digest, alone. */
static void check_begin(struct ripc__resolver *resolver, const struct heard *heard, uint64_t id)
{
	struct asked *check = &resolver->heal.check;
	struct wire_resolve query = {.type = WIRE_QUERY, .asker = resolver->owner.context,
		.record.id = id};

	if (check->nonce || !id || !ripc__budget_spend(&resolver->provoked, heard->event->host,
			resolver->now_us, WIRE_RECORD_MAX) || ripc__asked_begin(resolver, check))
		return;
	check->id = id;
	memcpy(resolver->heal.host, heard->event->host, sizeof(resolver->heal.host));
	query.nonce = check->nonce;
	ripc__send_reply(resolver, heard->source, &heard->event->reply, &query);
	ripc__timer_set(&resolver->timers, &check->timer, resolver->now_us + PATIENCE_US);
}

static void check_fire(void *owner, struct ripc__timer *timer)
{
	struct ripc__resolver *resolver = owner;

	(void)timer;
	ripc__asked_end(resolver, &resolver->heal.check);
}

void ripc__heal_heard(struct ripc__resolver *resolver, const struct heard *heard)
{
	const uint8_t *host = heard->event->host;
	uint32_t i = place_of(resolver, host);
	uint64_t heard_us = resolver->heal.hosts[i].heard_us;
	bool is_known = heard_us && memcmp(resolver->heal.hosts[i].host, host, 16) == 0;

	if (!heard->event->group || heard->event->local || resolver->exact >= 0 ||
			!resolver->digest.n)
		return;
	if (!heard_us || resolver->now_us > heard_us + SILENT_US)
		check_begin(resolver, heard, named_service(heard->packet));
	else if (is_known)
		host_put(resolver, host);
}

/*
 * Have we missed a registration of that age? If it is younger than ours: its first digest,
 * because digests arrive before it is YOUNG_US old. If it is older: all its digests, if we have
 * received others long enough.
 */
static bool is_missed(const struct ripc__resolver *resolver, int64_t age_us)
{
	int64_t own_us = (int64_t)(resolver->now_us - resolver->digest.since_us);

	return age_us > YOUNG_US && (age_us < own_us || own_us > (int64_t)SILENT_US);
}

/* The wall clock is taken from the records of our own registrations. */
void ripc__heal_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard)
{
	uint64_t then_ns = heard->packet->record.stamp - (uint64_t)resolver->digest.clock_ns;

	ripc__asked_end(resolver, asked);
	ripc__timer_stop(&resolver->timers, &asked->timer);
	host_put(resolver, resolver->heal.host);
	if (resolver->digest.n && is_missed(resolver,
			(int64_t)resolver->now_us - (int64_t)then_ns / 1000))
		call_soon(resolver);
}

void ripc__heal_init(struct ripc__resolver *resolver)
{
	resolver->heal.check.kind = ASKED_HEAL;
	resolver->heal.check.timer.fire = check_fire;
	resolver->heal.call.fire = call_fire;
}

void ripc__heal_close(struct ripc__resolver *resolver)
{
	ripc__asked_end(resolver, &resolver->heal.check);
}

/* ---- membership -------------------------------------------------------------------------- */

/*
 * Memberships: the groups that services of this context have joined. A group has any number of
 * members, hence no query is sent before a service joins: its name on this host is bound, the
 * exact source lists the service, and NOTICES notices are sent to all, and then digests. These
 * are more than for a registration, which is found by a query: no query is sent for a new member
 * that was never heard of. Queries for the group are answered with one record for each member
 * (answer.c).
 */

#define NOTICES 5u /* the second one after ROUND_US; then the gaps double */

struct membership {
	struct ripc__timer timer;
	struct membership *next; /* of the same group */
	struct digested_member named; /* its group and service */
	uint64_t incarnation;
	uint32_t n_told;
};

/* ---- walking ----------------------------------------------------------------------------- */

struct membership *ripc__member_first(const struct ripc__resolver *resolver, uint64_t group)
{
	return ripc__map_get(&resolver->memberships, group);
}

struct membership *ripc__member_next(const struct membership *membership)
{
	return membership->next;
}

void ripc__members_own(struct ripc__resolver *resolver, uint64_t group,
		void (*found)(void *arg, uint64_t id, uint64_t incarnation), void *arg)
{
	for (const struct membership *at = ripc__member_first(resolver, group); at; at = at->next)
		found(arg, at->named.service, at->incarnation);
}

void ripc__groups_own(struct ripc__resolver *resolver, void (*found)(void *arg, uint64_t group),
		void *arg)
{
	const struct membership *first;
	uint32_t at = 0;

	while ((first = ripc__map_next(&resolver->memberships, &at)))
		found(arg, first->named.digested.id);
}

int ripc__member_record(struct ripc__resolver *resolver, const struct membership *membership,
		struct wire_record *record)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	int error = owner->record(owner->arg, membership->named.service, record);

	if (error)
		return error;
	record->id = membership->named.digested.id;
	record->stamp = membership->named.service;
	return 0;
}

/* ---- joining and leaving ----------------------------------------------------------------- */

static void announce_group(void *owner, struct ripc__timer *timer)
{
	struct membership *membership = list_entry(timer, struct membership, timer);
	struct ripc__resolver *resolver = owner;
	struct wire_resolve notice = {.type = WIRE_RECORD, .asker = resolver->owner.context};

	if (ripc__member_record(resolver, membership, &notice.record) == 0)
		ripc__send_notice(resolver, &notice);
	if (++membership->n_told == NOTICES)
		digest_add(resolver, &membership->named.digested);
	else
		ripc__timer_set(&resolver->timers, timer, resolver->now_us +
			(ROUND_US << (membership->n_told - 1)));
}

/* Leaves the group at the first n sources. */
static void leave_sources(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation,
		uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct source_slot *slot = &resolver->sources[i];

		if (slot->ops->group.leave)
			slot->ops->group.leave(slot->state, group, incarnation);
	}
}

/* Joins the group at all sources, or at none. */
static int join_sources(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation)
{
	for (uint32_t i = 0; i < resolver->n_sources; i++) {
		const struct source_slot *slot = &resolver->sources[i];
		int error = slot->ops->group.join ?
			slot->ops->group.join(slot->state, group, incarnation) : 0;

		if (error) {
			leave_sources(resolver, group, incarnation, i);
			return error;
		}
	}
	return 0;
}

/* Enters the membership; the newest is the first of its group. */
static int enter(struct ripc__resolver *resolver, struct membership *membership)
{
	uint64_t group = membership->named.digested.id;

	membership->next = ripc__member_first(resolver, group);
	if (!membership->next)
		return ripc__map_put(&resolver->memberships, group, membership);
	ripc__map_replace(&resolver->memberships, group, membership);
	return 0;
}

int ripc__resolver_join(struct ripc__resolver *resolver, uint64_t group,
		const struct ripc__member *member, uint64_t now_us)
{
	RIPC__HOLD_CANCEL;
	struct membership *membership = calloc(1, sizeof(*membership));
	int error;

	if (!membership)
		return -ENOMEM;
	resolver->now_us = now_us;
	*membership = (struct membership){.named = {{.id = group}, member->id},
		.incarnation = member->incarnation, .timer.fire = announce_group};
	list_init(&membership->named.digested.node);
	error = ripc__timers_borrow(resolver, 1);
	if (error)
		goto err_free;
	error = join_sources(resolver, group, member->incarnation);
	if (error)
		goto err_return_timer;
	error = enter(resolver, membership);
	if (error)
		goto err_leave;
	heed(resolver, group, false);
	ripc__gather_joined(resolver, group, member->id, member->incarnation);
	announce_group(resolver, &membership->timer);
	return 0;
err_leave:
	leave_sources(resolver, group, member->incarnation, resolver->n_sources);
err_return_timer:
	ripc__timers_return(resolver, 1);
err_free:
	free(membership);
	return error;
}

/* Takes the membership out of those of its group; NULL: it is not there. */
static struct membership *take_out(struct ripc__resolver *resolver, uint64_t group,
		uint64_t incarnation)
{
	struct membership *first = ripc__member_first(resolver, group), *found;
	struct membership **at = &first;

	while (*at && (*at)->incarnation != incarnation)
		at = &(*at)->next;
	found = *at;
	if (!found)
		return NULL;
	*at = found->next;
	if (first)
		ripc__map_replace(&resolver->memberships, group, first);
	else
		ripc__map_remove(&resolver->memberships, group);
	return found;
}

static void membership_free(struct ripc__resolver *resolver, struct membership *membership)
{
	ripc__timer_stop(&resolver->timers, &membership->timer);
	digest_remove(resolver, &membership->named.digested);
	ripc__timers_return(resolver, 1);
	free(membership);
}

void ripc__resolver_leave(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation)
{
	RIPC__HOLD_CANCEL;
	struct membership *membership = take_out(resolver, group, incarnation);
	const struct wire_resolve notice = {.type = WIRE_WITHDRAWN,
		.asker = resolver->owner.context,
		.record = {.id = group, .incarnation = incarnation}};

	if (!membership)
		return;
	membership_free(resolver, membership);
	leave_sources(resolver, group, incarnation, resolver->n_sources);
	ripc__gather_left(resolver, group, incarnation);
	ripc__send_notice(resolver, &notice);
}

void ripc__memberships_close(struct ripc__resolver *resolver)
{
	struct membership *membership;

	while ((membership = ripc__map_any(&resolver->memberships))) {
		take_out(resolver, membership->named.digested.id, membership->incarnation);
		membership_free(resolver, membership);
	}
}
