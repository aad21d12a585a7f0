/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations: IDs that live here. A well-known ID is asked for first, ROUNDS_FIRST times, where
 * a source that asks hosts is not exact; if nobody answers, its name on this host is taken (from a
 * holder that is silent for ROUNDS_TAKING more, by force), then the exact source decides, if there
 * is one, and everybody is told, at once, and once more; then digests (digest.c) name the ID, but
 * where a name was taken by force its notices go on, since its last holder may hear only these.
 *
 * Where the exact source has another holder, that one is asked: if it answers, it keeps the ID. A
 * silent one is displaced when its end is proven (ripc__source.ended), and else awaited until
 * STORE_PATIENCE_US are over: it may be stopped, or dead, and then the source forgets it in time.
 *
 * A context that hears of another registration of its own ID asks for it (a notice alone is not
 * believed): if an older one answers, the owner is told; if a younger one does, that one is told.
 *
 * Answers take as long as the path: the questions of a registration and of such a check count for
 * LATE_US. An answer to a registration that is over is a notice of a rival. Later registrations
 * wait as long for the last answer as the slowest holder took, within PATH_KNOWN_US.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "asking.h"
#include "cache.h"
#include "core/base/budget.h"
#include "core/net/backend.h"
#include "core/wire/record.h"
#include "digest.h"
#include "publish.h"
#include "resolver.h"
#include "resolver_internal.h"
#include "util/list.h"
#include "util/map.h"
#include "util/system/cancel.h"
#include "util/timers.h"

#define TAKING_US     100000u /* between the questions to the holder of a name on this host */
#define ROUNDS_TAKING 5u      /* such a holder may wait for a processor, or have many questions */
#define VERIFY_US     1000000u /* hearsay makes us ask for our own ID at most so often */
#define STORE_PATIENCE_US 9500000u /* less than a call that opens a service waits */
#define LATE_US       10000000u /* an answer counts so long after the last question */
#define PATH_KNOWN_US 60000000u /* a round trip that was measured counts so long */
#define PATH_MAX_US   1000000u /* a holder that answers later was stopped, or starved */
#define NOTICES_FIRST 2u      /* of a registration, ROUND_US apart; then digests name it */
#define ANNOUNCED_MAX 64u     /* notices after a change of our addresses */
#define YOUNGER_MAX   4u      /* notices that the answers to one such question can cause */

enum publication_state {
	PUBLICATION_ASKING, /* all sources */
	PUBLICATION_TAKING, /* the name on this host is held: asking its holder */
	PUBLICATION_STORING, /* the exact source is to decide */
	PUBLICATION_HERE,
};

struct publication {
	struct asked asked;   /* ASKED_PUBLISH; its timer also announces; started_us: STORING */
	uint64_t asked_us;    /* when first */
	struct asked verify;  /* ASKED_VERIFY */
	struct digested digested;
	uint64_t verified_us; /* when last begun; 0: never */
	uint32_t told;        /* younger ones, in this verification */
	uint8_t rival[16];    /* the host that made us verify */
	uint64_t holder;      /* by the exact source, if its end can be proven */
	int refusal;          /* why it is not stored yet; 0: not known */
	uint8_t state;
	bool private_id;
	bool bound;           /* its name on this host, when it was asked for */
	bool displaced;       /* somebody silent, who holds a name of this ID on this host */
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
	error = ripc__timers_borrow(resolver);
	if (error)
		goto err_free;
	error = ripc__timers_borrow(resolver);
	if (error)
		goto err_return_timer;
	error = ripc__map_put(&resolver->publications, id, publication);
	if (error)
		goto err_return_timers;
	*publication_out = publication;
	return 0;
err_return_timers:
	ripc__timers_return(resolver);
err_return_timer:
	ripc__timers_return(resolver);
err_free:
	free(publication);
	return error;
}

static void publication_free(struct ripc__resolver *resolver, struct publication *publication)
{
	ripc__asked_end(resolver, &publication->asked);
	ripc__asked_end(resolver, &publication->verify);
	ripc__timer_stop(&resolver->timers, &publication->asked.timer);
	ripc__timer_stop(&resolver->timers, &publication->verify.timer);
	ripc__digest_remove(resolver, &publication->digested);
	ripc__timers_return(resolver);
	ripc__timers_return(resolver);
	ripc__map_remove(&resolver->publications, publication->asked.id);
	free(publication);
}

static void set_timer(struct ripc__resolver *resolver, struct asked *asked, uint64_t after_us)
{
	ripc__timer_set(&resolver->timers, &asked->timer, resolver->now_us + after_us);
}

/* ---- registering ------------------------------------------------------------------------- */

/* Tells who was displaced on this host: if it lives, it finds this in its queue. */
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
		ripc__digest_add(resolver, &publication->digested);
}

static void here_fire(struct ripc__resolver *resolver, struct publication *publication)
{
	bool late = publication->asked.round >= NOTICES_FIRST;

	if (late)
		ripc__asked_end(resolver, &publication->asked);
	if (!late || publication->displaced)
		announce(resolver, publication);
}

/* Of more than ANNOUNCED_MAX the rest is found by those who miss it, or read in digests. */
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

/* It says how this ended, or what it waits for, in time; the timer is for what takes too long. */
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

/* Once more: the holder may have ended, or been forgotten. */
static void store_again(struct ripc__resolver *resolver, struct publication *publication)
{
	struct asked *asked = &publication->asked;
	const struct wire_resolve question = {.type = WIRE_QUESTION, .nonce = asked->nonce,
		.asker = resolver->owner.context, .record.id = asked->id};
	uint64_t end_us = publication->asked.started_us + STORE_PATIENCE_US;

	if (resolver->now_us >= end_us) {
		publish_failed(resolver, publication, publication->refusal ? publication->refusal :
			-EHOSTUNREACH);
		return;
	}
	set_timer(resolver, asked, asked->round++ < ROUNDS_FIRST ? ROUND_US : TAKING_US);
	if (asked->nonce && publication->refusal == -EADDRINUSE)
		ripc__ask(resolver, (uint32_t)resolver->exact, &question);
	store_try(resolver, publication, holder_ended(resolver, publication) ?
		RIPC_NAME_DISPLACE : RIPC_NAME_FIRST);
}

void ripc__publish_stored(struct ripc__resolver *resolver, const struct ripc__source_event *event)
{
	struct publication *publication = ripc__map_get(&resolver->publications, event->id);

	if (!publication || publication->state != PUBLICATION_STORING)
		return;
	/*
	 * A service that may not register may send all the same, from a private ID that others do
	 * not find.
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

/* A private ID is drawn at random: nobody else has it, and the source goes on trying. */
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

/* The first answer to a registration, from another host. A busy holder on this host is no path. */
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

/* How long the answer to the last question of a registration is waited for. */
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
	/* A name that nobody has bound is asked for once: to bind it tells the rest. */
	if (!asking || first || publication->bound)
		publication->bound = ripc__ask_home(resolver, asked);
	if (asking)
		ripc__ask_network(resolver, asked);
	set_timer(resolver, asked, !asking ? TAKING_US : asked->round < ROUNDS_FIRST ? ROUND_US :
		path_patience(resolver));
}

/* Only now: until here our own questions would but wake us. */
static void heed(struct ripc__resolver *resolver, uint64_t id, bool private_id)
{
	for (uint32_t i = 0; i < resolver->n_sources; i++) {
		const struct source_slot *slot = &resolver->sources[i];

		if (slot->ops->heed)
			slot->ops->heed(slot->state, id, private_id);
	}
}

/* Takes the name on this host, where there is one to take. */
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
 * Do holders of other IDs answer? Then silence about this one says nothing yet: of many answers at
 * once most get lost (a local socket queues ten), and a host answers only so many in a second.
 * Each answer ends a registration, so that this ends.
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

/* A holder that answers is alive. But it may have ended since a late answer was sent. */
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

/* When there are too many to verify at once, one waits for its turn. */
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
	/* What the exact source has is its holder's: the other one is told. */
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
	uint32_t at = 0;

	while ((publication = ripc__map_next(&resolver->publications, &at))) {
		publication_free(resolver, publication);
		at = 0; /* removing moves entries */
	}
}
