/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Digests. What is registered here is told again each ANNOUNCE_US, so that two registrations made
 * on both sides of a parted network learn of each other when it heals, and so that a service that
 * has moved, or joined a group, is noticed by those who missed the notice. One datagram names up to
 * WIRE_NAMED_MAX registrations; where there are more, datagrams that name equally many go out in
 * equal gaps. Each names those that were named longest ago.
 *
 * The first digest goes out after a random part of ANNOUNCE_US, half of it at least: contexts that
 * begin together do not fill the queues of their receivers each minute together.
 */
#include "digest.h"

#include "asking.h"
#include "core/wire/record.h"
#include "resolver.h"
#include "resolver_internal.h"
#include "util/timers.h"

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

static void digest_fire(void *owner, struct ripc__timer *timer)
{
	struct ripc__resolver *resolver = owner;
	uint32_t n = digests(resolver);

	tell(resolver, (resolver->digest.n + n - 1) / n);
	ripc__timer_set(&resolver->timers, timer, resolver->now_us + ANNOUNCE_US / n);
}

void ripc__digest_init(struct ripc__resolver *resolver)
{
	list_init(&resolver->digest.all);
	resolver->digest.timer.fire = digest_fire;
}

void ripc__digest_add(struct ripc__resolver *resolver, struct digested *digested)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;

	list_append(&resolver->digest.all, &digested->node);
	if (resolver->digest.n++ == 0)
		ripc__timer_set(&resolver->timers, &resolver->digest.timer, resolver->now_us +
			ANNOUNCE_US / 2 + owner->random(owner->arg) % (ANNOUNCE_US / 2));
}

void ripc__digest_remove(struct ripc__resolver *resolver, struct digested *digested)
{
	if (list_empty(&digested->node))
		return;
	list_remove(&digested->node);
	if (--resolver->digest.n == 0)
		ripc__timer_stop(&resolver->timers, &resolver->digest.timer);
}
