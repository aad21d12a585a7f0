/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Digests. Registrations of this context are announced again and again, so that two made on both
 * sides of a parted network learn of each other when it heals, and so that a service that has
 * moved, or joined a group, is noticed by those who missed the notice. One datagram names up to
 * WIRE_NAMED_MAX registrations; where there are more, datagrams that name equally many go out in
 * equal gaps. Each names those that were named longest ago.
 *
 * Where few contexts are, each registration is named each LEAST_US. Where more are, the gaps
 * grow, up to ANNOUNCE_US, so that all together send a digest each SPACE_US, about. How many
 * there are is estimated by our kin: contexts whose number has the last bits of ours, one in
 * WIRE_DIGEST_KIN. The filters of sources (resolvers/inet.c) let their digests pass, whatever
 * they name.
 *
 * A context that has registered lately goes on each LEAST_US for FRESH_US, unless many others do
 * so: a network may be parted for so long before other hosts notice that (heal.c). Then a context
 * calls for the digests of all, which come within SPREAD_US, beside those that are due.
 *
 * The first digest goes out after a random part of LEAST_US, half of it at least: contexts that
 * begin together do not fill the queues of their receivers each time together.
 */
#include "digest.h"

#include "asking.h"
#include "core/wire/record.h"
#include "resolver.h"
#include "resolver_internal.h"
#include "util/timers.h"

#define LEAST_US 4000000u
#define SPACE_US 312500u
#define SPREAD_US 1500000u
#define CROWD     3u  /* kin that speak within CROWD_US after a registration: many begin */
#define CROWD_US  10000000u
#define CALLED_MAX 40u /* registrations that a call makes a context name: over IPv4 and IPv6
                          they take no more than 1.5 times the bytes of the call */
#define CALLED_KIN 64u /* where more kin are heard after a call, too many follow it */

/* Datagrams for all that is registered here. */
static uint32_t digests(const struct ripc__resolver *resolver)
{
	return (resolver->digest.n + WIRE_NAMED_MAX - 1) / WIRE_NAMED_MAX;
}

/* Whose record has the incarnation. */
static uint64_t service_of(const struct digested *digested)
{
	return wire_is_group(digested->id) ?
		list_entry(digested, struct digested_member, digested)->service : digested->id;
}

/* Names the next n. A service that ends has no record any more, and is not named. */
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

/* Kin heard within the last us. */
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
 * speak once in ANNOUNCE_US or so.
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

/* Contexts in the network, an estimate; or hosts, where each is asked by itself. */
static uint32_t contexts(struct ripc__resolver *resolver)
{
	uint32_t n_kin = is_fresh(resolver) ? 0 : kin_within(resolver, 2 * ANNOUNCE_US);
	uint32_t n = n_kin ? n_kin * WIRE_DIGEST_KIN : 1, n_peers = ripc__peers_of(resolver);

	return n > n_peers ? n : n_peers;
}

/* How long it takes to name all once. */
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

/* Others may have been heard since the timer was set: then there is more time. */
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

void ripc__digest_called(struct ripc__resolver *resolver)
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

/* What the clock on the wall shows is in the record of a service that registers. */
static void look_at_clock(struct ripc__resolver *resolver, const struct digested *digested)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	struct wire_record record;

	resolver->digest.since_us = resolver->now_us;
	if (owner->record(owner->arg, service_of(digested), &record) == 0)
		resolver->digest.clock_ns = (int64_t)record.stamp -
			(int64_t)resolver->now_us * 1000;
}

void ripc__digest_add(struct ripc__resolver *resolver, struct digested *digested)
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

void ripc__digest_remove(struct ripc__resolver *resolver, struct digested *digested)
{
	if (list_empty(&digested->node))
		return;
	list_remove(&digested->node);
	if (--resolver->digest.n)
		return;
	ripc__timer_stop(&resolver->timers, &resolver->digest.timer);
	ripc__timer_stop(&resolver->timers, &resolver->digest.called);
}
