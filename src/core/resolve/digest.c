/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Digests. Registrations of this context are announced again and again, so that two made on both
 * sides of a parted network learn of each other when it heals, and so that a service that has
 * moved, or joined a group, is noticed by those who missed the notice. One datagram names up to
 * WIRE_NAMED_MAX registrations; where there are more, datagrams that name equally many go out in
 * equal gaps. Each names those that were named longest ago.
 *
 * Where few contexts are, each registration is named each LEAST_US. Where more are, the gaps grow,
 * up to ANNOUNCE_US, so that all together send a digest each SPACE_US, about. How many there are is
 * estimated by our kin: contexts whose number has the last bits of ours, one in WIRE_DIGEST_KIN.
 * The filters of sources (resolvers/filter.c) let their digests pass, whatever they name.
 *
 * The first digest goes out after a random part of that time, half of it at least: contexts that
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

/* Contexts in the network, an estimate; or hosts, where each is asked by itself. */
static uint32_t contexts(const struct ripc__resolver *resolver)
{
	uint32_t n = 0, n_peers = ripc__peers_of(resolver);

	for (uint32_t i = 0; i < KIN_MAX; i++) {
		uint64_t heard_us = resolver->digest.kin[i].heard_us;

		n += heard_us && resolver->now_us < heard_us + 2 * ANNOUNCE_US ?
			WIRE_DIGEST_KIN : 0;
	}
	if (!n)
		n = 1;
	return n > n_peers ? n : n_peers;
}

/* How long it takes to name all once. */
static uint64_t period(const struct ripc__resolver *resolver)
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

static void digest_fire(void *owner, struct ripc__timer *timer)
{
	struct ripc__resolver *resolver = owner;
	uint32_t n = digests(resolver);

	tell(resolver, (resolver->digest.n + n - 1) / n);
	ripc__timer_set(&resolver->timers, timer, resolver->now_us + period(resolver) / n);
}

void ripc__digest_init(struct ripc__resolver *resolver)
{
	list_init(&resolver->digest.all);
	resolver->digest.timer.fire = digest_fire;
}

void ripc__digest_add(struct ripc__resolver *resolver, struct digested *digested)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	uint64_t us;

	list_append(&resolver->digest.all, &digested->node);
	if (resolver->digest.n++)
		return;
	us = period(resolver);
	ripc__timer_set(&resolver->timers, &resolver->digest.timer, resolver->now_us + us / 2 +
		owner->random(owner->arg) % (us / 2));
}

void ripc__digest_remove(struct ripc__resolver *resolver, struct digested *digested)
{
	if (list_empty(&digested->node))
		return;
	list_remove(&digested->node);
	if (--resolver->digest.n == 0)
		ripc__timer_stop(&resolver->timers, &resolver->digest.timer);
}
