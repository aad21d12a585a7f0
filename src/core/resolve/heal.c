/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Noticing that a parted network is whole again. While it is parted, an ID can be registered on
 * both sides. Digests show that in the end, but in a large network each context sends one a
 * minute only.
 *
 * Each context remembers the hosts whose digests it hears: those of its kin (digest.c), and
 * others by chance. A digest of a host that was silent for SILENT_US, or never heard, makes it
 * ask how old a registration there is. A young one says that a program was started there. Another
 * one can say that we missed what came before (is_missed): the context calls for the digests of
 * all. The call is a question for all IDs, relayed as it were, by multicast: it passes every
 * filter. Each context that has registered something answers it by its digests, soon and at a
 * random time.
 *
 * All that outsiders and lost digests can bring about is a call each CALL_GAP_US, and soon each
 * CALL_MOST_US, at most, and so one digest more of each context. With more than HOSTS_MAX hosts
 * others are not looked after.
 */
#include <string.h>

#include "asking.h"
#include "core/base/budget.h"
#include "core/net/backend.h"
#include "core/wire/record.h"
#include "digest.h"
#include "heal.h"
#include "resolver.h"
#include "resolver_internal.h"
#include "util/timers.h"

#define CALL_US     800000u   /* from half of it on, at random: others may hear nothing yet, and kin
                                 of ours hear the same digest */
#define CALL_GAP_US 20000000u  /* between calls, and twice as long after each that follows soon, */
#define CALL_MOST_US 320000000u /* up to this */
#define CALM_US     600000000u /* without a call */
#define PATIENCE_US 1000000u  /* an answer that comes later is of no use */
#define YOUNG_US    5000000 /* a registration whose first digest may still be under way */

/* ---- the call ---------------------------------------------------------------------------- */

/* A call so soon after another one counts for nobody. */
static bool is_too_soon(const struct ripc__resolver *resolver)
{
	uint64_t called_us = resolver->heal.called_us;

	return called_us && resolver->now_us < called_us + resolver->heal.gap_us;
}

/* Where digests get lost, there are calls for nothing: the gaps between them grow. */
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
	/* Others have heard the last one a little sooner, or later. */
	if (is_too_soon(resolver))
		at_us += resolver->heal.called_us + resolver->heal.gap_us + CALL_US -
			resolver->now_us;
	ripc__timer_set(&resolver->timers, &resolver->heal.call, at_us);
}

static void call_fire(void *arg, struct ripc__timer *timer)
{
	struct ripc__resolver *resolver = arg;
	const struct ripc__resolver_owner *owner = &resolver->owner;
	const struct wire_resolve call = {.type = WIRE_QUESTION, .hops = 1,
		.nonce = owner->random(owner->arg) | 1, .asker = owner->context};

	(void)timer;
	if (!ripc__may_provoke(resolver, resolver->heal.host))
		return;
	ripc__provoked(resolver, resolver->heal.host);
	note_call(resolver);
	ripc__send_notice(resolver, &call);
	ripc__digest_called(resolver);
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
	ripc__digest_called(resolver);
	return true;
}

/* ---- other hosts ------------------------------------------------------------------------- */

/* The place of a host, or the one to put it. */
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

/* The question goes to the context that has sent the digest, alone. */
static void check_begin(struct ripc__resolver *resolver, const struct heard *heard, uint64_t id)
{
	struct asked *check = &resolver->heal.check;
	struct wire_resolve question = {.type = WIRE_QUESTION, .asker = resolver->owner.context,
		.record.id = id};

	if (check->nonce || !id || !ripc__budget_spend(&resolver->provoked, heard->event->host,
			resolver->now_us, WIRE_RECORD_MAX) || ripc__asked_begin(resolver, check))
		return;
	check->id = id;
	memcpy(resolver->heal.host, heard->event->host, sizeof(resolver->heal.host));
	question.nonce = check->nonce;
	ripc__send_reply(resolver, heard->source, &heard->event->reply, &question);
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
 * Have we missed a registration of that age? A younger one than ours: its first digest, as they
 * come before it is YOUNG_US old. An older one: all its digests, where we have heard others long
 * enough.
 */
static bool is_missed(const struct ripc__resolver *resolver, int64_t age_us)
{
	int64_t own_us = (int64_t)(resolver->now_us - resolver->digest.since_us);

	return age_us > YOUNG_US && (age_us < own_us || own_us > (int64_t)SILENT_US);
}

/* The clock on the wall is what the records of our own registrations say. */
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
