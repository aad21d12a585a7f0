/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looking for all services, in rounds LIST_ROUND_US apart: on this host each ID that its source
 * sees is queried separately, a few at a time (the queues of Unix sockets are short), and so is
 * each that the exact source lists; all other sources get one query for all. There are at least
 * ROUNDS_FIRST rounds, and more while they find something new. Each incarnation is reported
 * once.
 *
 * A context answers with no more bytes than the query had, and goes on there at the next query.
 * A round that has brought news therefore ends soon, the sooner the fewer answers arrived; and
 * so do some rounds after the last news, because answers may be lost.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "util/system/cancel.h"

#define LIST_ROUND_US 100000u
#define BATCH         8u     /* IDs of this host queried at once */
#define BATCH_STORED  64u    /* of those that the exact source lists */
#define BATCH_US      2000u
#define NEWS_US       1000u  /* from the first news of a round to its end, and for each answer */
#define ANSWER_US     50u
#define NEWS_AGO      8u     /* after 8 rounds with news a round without is hurried, too */
#define IDS_MAX       65536u
#define SEEN_MAX      65536u

/* IDs that are queried one by one, through one source. */
struct naming {
	struct listing *listing;
	uint64_t *ids;      /* still to be queried in this round */
	uint32_t n_ids, room, next;
	uint32_t batch;     /* queried at once */
	uint32_t under_way; /* of these, not answered */
	int source;         /* index; -1: there is none */
	struct ripc__map groups; /* in ids */
};

struct listing {
	struct asked asked; /* id 0 */
	void (*found)(void *arg, const struct ripc__answer *answer);
	void *arg;
	struct ripc__resolver *resolver;
	struct naming here, stored;
	uint64_t round_us, answered_us, round_ends_us; /* answered_us: first, by the network */
	struct ripc__map seen;     /* incarnations that were reported */
	struct ripc__map answered; /* IDs that need no more queries */
	bool news, news_from_network; /* in this round */
	uint32_t n_answers;           /* likewise, of the network */
	uint32_t n_newsful, n_newsless; /* rounds with news; without any since then */
};

static void id_add(void *arg, uint64_t id, bool is_private)
{
	struct naming *naming = arg;
	struct listing *listing = naming->listing;

	(void)is_private; /* of this host, for this host */
	if (wire_is_group(id) && ripc__map_put(&naming->groups, id, listing) == -EEXIST)
		return; /* one query reaches all its members */
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
	if (naming == &listing->stored) /* arrives at any time, not when a round begins */
		ripc__timer_set(&listing->resolver->timers, &listing->asked.timer,
			listing->resolver->now_us);
}

static void ask_batch(struct naming *naming)
{
	struct ripc__resolver *resolver = naming->listing->resolver;

	for (; naming->under_way < naming->batch && naming->next < naming->n_ids;
			naming->under_way++) {
		const struct wire_resolve query = {.type = WIRE_QUERY,
			.nonce = naming->listing->asked.nonce, .asker = resolver->owner.context,
			.record.id = naming->ids[naming->next++]};

		ripc__ask(resolver, (uint32_t)naming->source, &query,
			naming->listing->asked.round > 1);
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
	ripc__map_free(&naming->groups);
	if (slot && slot->ops->list)
		slot->ops->list(slot->state, wanted ? id_add : NULL, naming);
}

static void report_group(void *arg, uint64_t group)
{
	struct listing *listing = arg;
	struct ripc__answer answer = {.host = {[10] = 0xff, 0xff, 127, 0, 0, 1}, .local = true,
		.source = "local"};

	for (const struct membership *member = ripc__member_first(listing->resolver, group);
			member; member = ripc__member_next(member)) {
		if (ripc__member_record(listing->resolver, member, &answer.record) == 0)
			listing->found(listing->arg, &answer);
	}
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
	ripc__groups_own(resolver, report_group, listing);
}

static void round_begin(struct listing *listing)
{
	struct ripc__resolver *resolver = listing->resolver;

	if (!listing->asked.round++)
		report_own(listing);
	listing->n_newsful += listing->news;
	listing->n_newsless = listing->news ? 0 : listing->n_newsless + 1;
	listing->news = listing->news_from_network = false;
	listing->n_answers = 0;
	listing->round_us = resolver->now_us;
	listing->round_ends_us = resolver->now_us + LIST_ROUND_US;
	names_get(&listing->here, true);
	names_get(&listing->stored, true);
	ripc__ask_network(resolver, &listing->asked);
}

/* Lost answers are repeated only with the next turn of their senders. */
static bool is_hurried(const struct listing *listing)
{
	return listing->n_newsless < listing->n_newsful / NEWS_AGO;
}

/* Waits until the round is over, or the queried names have not responded. */
static void wait_on(struct listing *listing)
{
	struct ripc__resolver *resolver = listing->resolver;
	uint64_t at_us = resolver->now_us + BATCH_US;

	if (all_asked(listing) && (listing->round_ends_us > at_us ||
			!(listing->here.under_way + listing->stored.under_way)))
		at_us = listing->round_ends_us;
	ripc__timer_set(&resolver->timers, &listing->asked.timer, at_us);
}

static void list_fire(void *owner, struct ripc__timer *timer)
{
	struct listing *listing = list_entry(timer, struct listing, asked.timer);
	struct ripc__resolver *resolver = owner;

	if (all_asked(listing) && resolver->now_us >= listing->round_ends_us) {
		if (listing->asked.round >= ROUNDS_FIRST && !listing->news && !is_hurried(listing))
			return;
		round_begin(listing);
	}
	listing->here.under_way = listing->stored.under_way = 0; /* no answer in BATCH_US */
	ask_batch(&listing->here);
	ask_batch(&listing->stored);
	wait_on(listing);
}

static void named_answered(struct naming *naming, const struct heard *heard)
{
	struct listing *listing = naming->listing;

	if (listing->answered.count < IDS_MAX)
		ripc__map_put(&listing->answered, heard->packet->record.id, listing);
	if (naming->under_way) {
		naming->under_way--;
		ask_batch(naming);
		wait_on(listing);
	}
}

static void network_answered(struct listing *listing, bool news)
{
	uint64_t now_us = listing->resolver->now_us, ends_us;

	if (listing->n_answers++ == 0)
		listing->answered_us = now_us;
	listing->news_from_network |= news;
	ends_us = listing->answered_us + NEWS_US + listing->n_answers * ANSWER_US;
	if (!listing->news_from_network && !is_hurried(listing))
		return;
	listing->round_ends_us = listing->round_us + LIST_ROUND_US;
	if (ends_us < listing->round_ends_us)
		listing->round_ends_us = ends_us;
	wait_on(listing);
}

/* A member of a group is reported twice: as a service, and as a member. */
static uint64_t seen_as(const struct wire_record *record)
{
	return record->incarnation ^ (wire_is_group(record->id) ? record->id : 0);
}

void ripc__list_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard)
{
	struct listing *listing = list_entry(asked, struct listing, asked);
	bool news = listing->seen.count < SEEN_MAX &&
		ripc__map_put(&listing->seen, seen_as(&heard->packet->record), listing) == 0;
	struct ripc__answer answer;

	if ((int)heard->source == resolver->home)
		named_answered(&listing->here, heard);
	else if ((int)heard->source == resolver->exact)
		named_answered(&listing->stored, heard);
	else
		network_answered(listing, news);
	if (!news)
		return;
	listing->news = true;
	ripc__answer_fill(resolver, heard, &answer);
	listing->found(listing->arg, &answer);
}

static void listing_free(struct ripc__resolver *resolver)
{
	struct listing *listing = resolver->listing;

	ripc__asked_close(resolver, &listing->asked);
	ripc__map_free(&listing->seen);
	ripc__map_free(&listing->answered);
	if (resolver->exact >= 0)
		names_get(&listing->stored, false);
	ripc__map_free(&listing->here.groups);
	ripc__map_free(&listing->stored.groups);
	free(listing->here.ids);
	free(listing->stored.ids);
	free(listing);
	resolver->listing = NULL;
}

int ripc__resolver_list(struct ripc__resolver *resolver, uint64_t now_us,
		void (*found)(void *arg, const struct ripc__answer *answer), void *arg)
{
	RIPC__HOLD_CANCEL;
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
	ripc__map_init(&listing->here.groups, listing->seen.seed);
	ripc__map_init(&listing->stored.groups, listing->seen.seed);
	if (ripc__asked_open(resolver, &listing->asked)) {
		free(listing);
		return -ENOMEM;
	}
	resolver->listing = listing;
	ripc__timer_set(&resolver->timers, &listing->asked.timer, now_us);
	return 0;
}
