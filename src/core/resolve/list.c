/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looking for everybody. In rounds, LIST_ROUND_US apart: on this host each ID that its source
 * sees is asked for by itself, a few at a time (the queues of Unix sockets are short), and so is
 * each that the exact source tells of; all other sources are asked what there is. At least
 * ROUNDS_FIRST rounds, and on while they find something new. Each incarnation is reported once.
 */
#include <errno.h>
#include <stdlib.h>

#include "asking.h"
#include "core/wire/record.h"
#include "list.h"
#include "publish.h"
#include "resolver.h"
#include "resolver_internal.h"
#include "util/list.h"
#include "util/map.h"
#include "util/timers.h"

#define LIST_ROUND_US 100000u
#define BATCH         8u     /* IDs of this host asked for at once */
#define BATCH_STORED  64u    /* of those that the exact source tells of */
#define BATCH_US      2000u
#define IDS_MAX       65536u
#define SEEN_MAX      65536u

/* IDs that are asked for one by one, through one source. */
struct naming {
	struct listing *listing;
	uint64_t *ids;      /* still to be asked for in this round */
	uint32_t n_ids, room, next;
	uint32_t batch;     /* asked for at once */
	int source;         /* index; -1: there is none */
};

struct listing {
	struct asked asked; /* id 0 */
	void (*found)(void *arg, const struct ripc__answer *answer);
	void *arg;
	struct ripc__resolver *resolver;
	struct naming here, stored;
	uint64_t round_ends_us;
	struct ripc__map seen;     /* incarnations that were reported */
	struct ripc__map answered; /* IDs that need no more asking */
	bool news;          /* in this round */
};

static void id_add(void *arg, uint64_t id, bool is_private)
{
	struct naming *naming = arg;
	struct listing *listing = naming->listing;

	(void)is_private; /* of this host, for this host */

	if (naming->n_ids >= IDS_MAX || ripc__map_get(&listing->answered, id) ||
			ripc__published_here(listing->resolver, id))
		return;
	if (naming->n_ids == naming->room) {
		uint32_t room = naming->room ? 2 * naming->room : 64;
		uint64_t *ids = realloc(naming->ids, room * sizeof(*ids));

		if (!ids)
			return; /* the next round may have the memory */
		naming->ids = ids;
		naming->room = room;
	}
	naming->ids[naming->n_ids++] = id;
	if (naming == &listing->stored) /* comes when it likes, not when a round begins */
		ripc__timer_set(&listing->resolver->timers, &listing->asked.timer,
			listing->resolver->now_us);
}

static void ask_batch(struct naming *naming)
{
	struct ripc__resolver *resolver = naming->listing->resolver;

	for (uint32_t i = 0; i < naming->batch && naming->next < naming->n_ids; i++) {
		const struct wire_resolve question = {.type = WIRE_QUESTION,
			.nonce = naming->listing->asked.nonce, .asker = resolver->owner.context,
			.record.id = naming->ids[naming->next++]};

		ripc__ask(resolver, (uint32_t)naming->source, &question);
	}
}

static bool all_asked(const struct listing *listing)
{
	return listing->here.next == listing->here.n_ids &&
		listing->stored.next == listing->stored.n_ids;
}

static void names_get(struct naming *naming, bool wanted)
{
	const struct ripc__resolver *resolver = naming->listing->resolver;
	const struct source_slot *slot = naming->source < 0 ? NULL :
		&resolver->sources[naming->source];

	naming->n_ids = naming->next = 0;
	if (slot && slot->ops->list)
		slot->ops->list(slot->state, wanted ? id_add : NULL, naming);
}

static void report_own(struct listing *listing)
{
	struct ripc__resolver *resolver = listing->resolver;
	const struct ripc__resolver_owner *owner = &resolver->owner;
	uint32_t n = owner->ids(owner->arg, NULL, 0);
	uint64_t *ids = n ? calloc(n, sizeof(*ids)) : NULL;

	if (!ids)
		return;
	n = owner->ids(owner->arg, ids, n);
	for (uint32_t i = 0; i < n; i++) {
		struct ripc__answer answer = {.host = {[10] = 0xff, 0xff, 127, 0, 0, 1},
			.local = true, .source = "local"};

		if (ripc__own_record(resolver, ids[i], &answer.record) == 0)
			listing->found(listing->arg, &answer);
	}
	free(ids);
}

static void round_begin(struct listing *listing)
{
	struct ripc__resolver *resolver = listing->resolver;

	if (!listing->asked.round++)
		report_own(listing);
	listing->news = false;
	listing->round_ends_us = resolver->now_us + LIST_ROUND_US;
	names_get(&listing->here, true);
	names_get(&listing->stored, true);
	ripc__ask_network(resolver, &listing->asked);
}

static void list_fire(void *owner, struct ripc__timer *timer)
{
	struct listing *listing = list_entry(timer, struct listing, asked.timer);
	struct ripc__resolver *resolver = owner;
	uint64_t at_us;

	if (all_asked(listing) && resolver->now_us >= listing->round_ends_us) {
		if (listing->asked.round >= ROUNDS_FIRST && !listing->news)
			return;
		round_begin(listing);
	}
	ask_batch(&listing->here);
	ask_batch(&listing->stored);
	at_us = resolver->now_us + BATCH_US;
	if (all_asked(listing) && at_us < listing->round_ends_us)
		at_us = listing->round_ends_us;
	ripc__timer_set(&resolver->timers, timer, at_us);
}

void ripc__list_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard)
{
	struct listing *listing = list_entry(asked, struct listing, asked);
	struct ripc__answer answer;

	if (((int)heard->source == resolver->home || (int)heard->source == resolver->exact) &&
			listing->answered.count < IDS_MAX)
		ripc__map_put(&listing->answered, heard->packet->record.id, listing);
	if (listing->seen.count >= SEEN_MAX || ripc__map_put(&listing->seen,
			heard->packet->record.incarnation, listing))
		return;
	listing->news = true;
	ripc__answer_fill(resolver, heard, &answer);
	listing->found(listing->arg, &answer);
}

static void listing_free(struct ripc__resolver *resolver)
{
	struct listing *listing = resolver->listing;

	ripc__asked_end(resolver, &listing->asked);
	ripc__timer_stop(&resolver->timers, &listing->asked.timer);
	ripc__timers_return(resolver);
	ripc__map_free(&listing->seen);
	ripc__map_free(&listing->answered);
	if (resolver->exact >= 0)
		names_get(&listing->stored, false);
	free(listing->here.ids);
	free(listing->stored.ids);
	free(listing);
	resolver->listing = NULL;
}

int ripc__resolver_list(struct ripc__resolver *resolver, uint64_t now_us,
		void (*found)(void *arg, const struct ripc__answer *answer), void *arg)
{
	struct listing *listing;

	if (!found) {
		if (resolver->listing)
			listing_free(resolver);
		return 0;
	}
	if (resolver->listing)
		return -EBUSY;
	listing = calloc(1, sizeof(*listing));
	if (!listing)
		return -ENOMEM;
	*listing = (struct listing){.asked = {.kind = ASKED_LIST, .timer.fire = list_fire},
		.found = found, .arg = arg, .resolver = resolver,
		.here = {.listing = listing, .source = resolver->home, .batch = BATCH},
		.stored = {.listing = listing, .source = resolver->exact, .batch = BATCH_STORED}};
	ripc__map_init(&listing->seen, resolver->owner.random(resolver->owner.arg));
	ripc__map_init(&listing->answered, resolver->owner.random(resolver->owner.arg));
	if (ripc__timers_borrow(resolver))
		goto err_free;
	if (ripc__asked_begin(resolver, &listing->asked))
		goto err_return_timer;
	resolver->listing = listing;
	ripc__timer_set(&resolver->timers, &listing->asked.timer, now_us);
	return 0;
err_return_timer:
	ripc__timers_return(resolver);
err_free:
	free(listing);
	return -ENOMEM;
}
