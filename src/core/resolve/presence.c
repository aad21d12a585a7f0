/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions to one host about a service that was found there and is silent. The kernel of that
 * host knows whether the name is still bound, and any process there can say it: NOBODY, definite,
 * or the RECORD of another context. Neither is believed, nor changes what the cache has: the owner
 * is told, and asks the silent context itself.
 *
 * A question is sent once. The caller may ask again; a budget bounds the questions of all callers.
 */
#include <stdlib.h>

#include "asking.h"
#include "core/base/budget.h"
#include "core/wire/record.h"
#include "presence.h"
#include "resolver.h"
#include "resolver_internal.h"
#include "util/list.h"
#include "util/system/cancel.h"
#include "util/timers.h"

#define PRESENCES_MAX    1024u
#define PATIENCE_US      1000000u /* an answer that comes later is of no use */
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
	ripc__asked_end(resolver, &presence->asked);
	ripc__timer_stop(&resolver->timers, &presence->asked.timer);
	ripc__timers_return(resolver);
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
	if (ripc__timers_borrow(resolver))
		goto err_free;
	if (ripc__asked_begin(resolver, &presence->asked))
		goto err_return_timer;
	list_append(&resolver->presences.all, &presence->node);
	resolver->presences.n++;
	return presence;
err_return_timer:
	ripc__timers_return(resolver);
err_free:
	free(presence);
	return NULL;
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
