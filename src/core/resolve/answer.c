/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answering queries: for IDs of this context, and, if a query was sent to us alone (unicast
 * reaches one of many processes), for the other processes of this host, to which we relay the
 * query in the asker's name. No asker gets more bytes for a query than it had: a third party
 * whose address was forged is no worse off than without us. Within the host all answers are
 * sent.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define RELAYS_MAX     1024u
#define RELAY_US       100000u /* time that the host's processes have to answer */
#define IDS_PER_ANSWER 64u     /* answers to one "what do you have" */
#define ASKED_PER_RELAY 4u     /* IDs or members that are queried for one; half of it is for them */

/* A query that we relay within the host. Its answers carry asked.nonce. */
struct relay {
	struct asked asked;
	uint64_t asker, asker_nonce;
	uint8_t host[16];         /* the asker's */
	struct ripc__addr reply;
	uint32_t source;
	uint32_t budget;          /* bytes that the asker may still get */
};

/*
 * The host that the address proof in the answer is for: a relayed query names the host of its
 * asker, if we may believe it.
 */
static const uint8_t *asker_host(const struct ripc__resolver *resolver, const struct heard *heard)
{
	bool relayed = heard->packet->hops && (int)heard->source == resolver->home;

	return relayed ? heard->packet->host : heard->event->host;
}

/* Packets of this host's own source are from our own user, or queries that were admitted. */
static bool may_answer(struct ripc__resolver *resolver, const struct heard *heard)
{
	return (int)heard->source == resolver->home ||
		ripc__budget_spend(&resolver->answers, heard->event->host, resolver->now_us, 1);
}

/* Answers with one of our records. Returns how many bytes that took; 0: not answered. */
static uint32_t answer(struct ripc__resolver *resolver, const struct heard *heard,
		const struct wire_record *record)
{
	const struct wire_resolve *query = heard->packet;
	const struct ripc__resolver_owner *owner = &resolver->owner;
	struct wire_resolve packet = {.type = WIRE_RECORD, .nonce = query->nonce,
		.record = *record};

	if (!may_answer(resolver, heard)) {
		ripc__drop(resolver);
		return 0;
	}
	packet.proof = owner->proof(owner->arg, query->asker, asker_host(resolver, heard));
	resolver->stats.queries_answered++;
	return ripc__send_reply(resolver, heard->source, &heard->event->reply, &packet);
}

/* Was it sent to us alone, from outside the host's own source? Then others here may need it. */
static bool for_the_host(const struct ripc__resolver *resolver, const struct heard *heard)
{
	return !heard->event->group && resolver->home >= 0 &&
		(int)heard->source != resolver->home;
}

/* Bytes that the asker for all services may get from us: the other half is for our host. */
static uint32_t answer_limit(const struct ripc__resolver *resolver, const struct heard *heard)
{
	if ((int)heard->source == resolver->home && !heard->packet->hops)
		return UINT32_MAX;
	return for_the_host(resolver, heard) ? heard->event->len / 2 : heard->event->len;
}

/* Answers with all our records, each time beginning where the last answer ended. */
static void answer_all(struct ripc__resolver *resolver, const struct heard *heard)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	uint32_t n = owner->ids(owner->arg, NULL, 0);
	uint64_t *ids = n ? calloc(n, sizeof(*ids)) : NULL;
	uint32_t limit = answer_limit(resolver, heard);
	bool outside = (int)heard->source != resolver->home || heard->packet->hops;
	uint32_t sent = 0, longest = 0;

	if (!ids)
		return;
	n = owner->ids(owner->arg, ids, n);
	for (uint32_t i = 0; i < n && i < IDS_PER_ANSWER && sent + longest <= limit; i++) {
		uint64_t id = ids[resolver->ids_turn++ % n];
		struct wire_record record;
		uint32_t len;

		if ((outside && ripc__private_here(resolver, id)) ||
				ripc__own_record(resolver, id, &record))
			continue;
		len = answer(resolver, heard, &record);
		sent += len;
		longest = len > longest ? len : longest;
	}
	free(ids);
}

/* Answers with our members of the group, each time beginning where the last answer ended. */
static void answer_group(struct ripc__resolver *resolver, const struct heard *heard)
{
	struct membership *first = ripc__member_first(resolver, heard->packet->record.id);
	struct membership *member = first;
	uint32_t limit = answer_limit(resolver, heard), n = 0, sent = 0, longest = 0;

	for (; member; member = ripc__member_next(member))
		n++;
	for (uint32_t i = n ? resolver->members_turn % n : 0; i; i--)
		first = ripc__member_next(first);
	member = first;
	for (uint32_t i = 0; i < n && i < IDS_PER_ANSWER && sent + longest <= limit; i++) {
		struct wire_record record;
		uint32_t len = 0;

		if (ripc__member_record(resolver, member, &record) == 0)
			len = answer(resolver, heard, &record);
		sent += len;
		longest = len > longest ? len : longest;
		resolver->members_turn++;
		member = ripc__member_next(member);
		if (!member)
			member = ripc__member_first(resolver, heard->packet->record.id);
	}
}

/* ---- for the host's other processes ------------------------------------------------------ */

/* Can the query have many answers? */
static bool is_of_many(const struct asked *asked)
{
	return !asked->id || wire_is_group(asked->id);
}

void ripc__relay_free(struct ripc__resolver *resolver, struct asked *asked)
{
	ripc__asked_close(resolver, asked);
	resolver->n_relays--;
	free(list_entry(asked, struct relay, asked));
}

/* The owner may be there, but of another user: it cannot be queried. */
static bool is_others(const struct ripc__resolver *resolver, uint64_t id)
{
	const struct source_slot *home = &resolver->sources[resolver->home];

	return home->ops->is_others && home->ops->is_others(home->state, id);
}

/*
 * Answers that the ID was not found. definite: the kernel says so; otherwise the name is bound,
 * by our user or another one.
 */
static void deny(struct ripc__resolver *resolver, uint32_t source, const struct ripc__addr *to,
		struct wire_resolve packet)
{
	packet.type = WIRE_NOBODY;
	resolver->stats.queries_answered++;
	ripc__send_reply(resolver, source, to, &packet);
}

/* The owner of the name does not respond. */
static void relay_fire(void *owner, struct ripc__timer *timer)
{
	struct relay *relay = list_entry(timer, struct relay, asked.timer);

	if (!is_of_many(&relay->asked))
		deny(owner, relay->source, &relay->reply, (struct wire_resolve){
			.nonce = relay->asker_nonce, .record.id = relay->asked.id});
	ripc__relay_free(owner, &relay->asked);
}

static struct relay *relay_alloc(struct ripc__resolver *resolver, const struct heard *heard)
{
	struct relay *relay;

	if (resolver->n_relays >= RELAYS_MAX)
		return NULL;
	relay = calloc(1, sizeof(*relay));
	if (!relay)
		return NULL;
	*relay = (struct relay){.asked = {.kind = ASKED_RELAY, .id = heard->packet->record.id,
		.timer.fire = relay_fire}, .asker = heard->packet->asker,
		.asker_nonce = heard->packet->nonce, .reply = heard->event->reply,
		.source = heard->source, .budget = heard->event->len};
	memcpy(relay->host, heard->event->host, sizeof(relay->host));
	if (is_of_many(&relay->asked))
		relay->budget /= 2; /* the other half is for our own services */
	if (ripc__asked_open(resolver, &relay->asked)) {
		free(relay);
		return NULL;
	}
	resolver->n_relays++;
	return relay;
}

struct relaying {
	struct ripc__resolver *resolver;
	const struct relay *relay;
	const struct source_slot *home;
	uint32_t first, n; /* of the names that home lists: those to query */
	uint32_t at, reached;
};

static struct wire_resolve relay_query(const struct relay *relay, uint64_t id)
{
	struct wire_resolve query = {.type = WIRE_QUERY, .hops = 1,
		.nonce = relay->asked.nonce, .asker = relay->asker, .record.id = id};

	memcpy(query.host, relay->host, sizeof(query.host));
	return query;
}

static void relay_ask(struct relaying *relaying, uint64_t id)
{
	const struct wire_resolve query = relay_query(relaying->relay, id);

	relaying->reached += ripc__ask(relaying->resolver, (uint32_t)relaying->resolver->home,
		&query, true);
}

/* Is the next name to be queried? */
static bool is_turn(struct relaying *relaying)
{
	return relaying->at++ - relaying->first < relaying->n;
}

static void relay_listed(void *arg, uint64_t id, bool is_private)
{
	struct relaying *relaying = arg;

	if (!is_private && !wire_is_group(id) && !ripc__published_here(relaying->resolver, id) &&
			is_turn(relaying))
		relay_ask(relaying, id);
}

static void relay_member(void *arg, uint64_t name)
{
	struct relaying *relaying = arg;
	uint64_t group = relaying->relay->asked.id;
	struct wire_resolve query = relay_query(relaying->relay, group);
	uint8_t data[WIRE_RESOLVE_MAX];

	if (!is_turn(relaying))
		return;
	query.nonce ^= relaying->resolver->home_key;
	relaying->reached += relaying->home->ops->group.ask(relaying->home->state, group, name,
		data, ripc__resolve_encode(relaying->resolver, &query, data)) > 0;
}

/* Walks the names of a group, or those of all IDs (0). */
static void relay_walk(struct relaying *relaying)
{
	const struct source_slot *home = relaying->home;
	uint64_t group = relaying->relay->asked.id;

	relaying->at = 0;
	if (group && home->ops->group.list)
		home->ops->group.list(home->state, group, relay_member, relaying);
	else if (!group && home->ops->list)
		home->ops->list(home->state, relay_listed, relaying);
}

/* Counts the names, then queries a few, each time going on where it last ended. */
static void relay_ask_some(struct relaying *relaying)
{
	struct ripc__resolver *resolver = relaying->resolver;

	relay_walk(relaying);
	if (!relaying->at)
		return;
	if (resolver->relay_turn >= relaying->at)
		resolver->relay_turn = 0;
	relaying->first = resolver->relay_turn;
	relaying->n = ASKED_PER_RELAY;
	resolver->relay_turn += ASKED_PER_RELAY;
	relay_walk(relaying);
}

static void relay_begin(struct ripc__resolver *resolver, const struct heard *heard)
{
	struct relaying relaying = {.resolver = resolver,
		.home = &resolver->sources[resolver->home]};
	struct relay *relay = NULL;

	if (may_answer(resolver, heard))
		relay = relay_alloc(resolver, heard);
	if (!relay) {
		ripc__drop(resolver);
		return;
	}
	relaying.relay = relay;
	if (is_of_many(&relay->asked))
		relay_ask_some(&relaying);
	else
		relay_ask(&relaying, relay->asked.id);
	if (relaying.reached) {
		ripc__timer_set(&resolver->timers, &relay->asked.timer,
			resolver->now_us + RELAY_US);
		return;
	}
	if (!is_of_many(&relay->asked))
		deny(resolver, heard->source, &heard->event->reply, (struct wire_resolve){
			.definite = !is_others(resolver, relay->asked.id),
			.nonce = heard->packet->nonce, .record.id = relay->asked.id});
	ripc__relay_free(resolver, &relay->asked);
}

void ripc__relay_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard)
{
	struct relay *relay = list_entry(asked, struct relay, asked);
	struct wire_resolve packet = *heard->packet;

	if ((int)heard->source != resolver->home || relay->budget < heard->event->len) {
		ripc__drop(resolver);
		return;
	}
	packet.nonce = relay->asker_nonce;
	relay->budget -= ripc__send_reply(resolver, relay->source, &relay->reply, &packet);
	resolver->stats.queries_answered++;
	if (!is_of_many(asked))
		ripc__relay_free(resolver, asked);
}

bool ripc__relay_notice(struct ripc__resolver *resolver, const struct heard *heard)
{
	const struct wire_record *record = &heard->packet->record;
	uint8_t named[WIRE_NAMED_LEN], data[WIRE_RESOLVE_MAX];
	const struct wire_resolve digest = {.type = WIRE_DIGEST, .asker = heard->packet->asker,
		.named = named, .n_named = 1};
	const struct source_slot *home;

	if (heard->packet->type != WIRE_RECORD || !for_the_host(resolver, heard))
		return false;
	home = &resolver->sources[resolver->home];
	wire_named_put(named, 0, record->id, record->incarnation);
	home->ops->ask(home->state, record->id, data,
		ripc__resolve_encode(resolver, &digest, data));
	return true;
}

void ripc__query_heard(struct ripc__resolver *resolver, const struct heard *heard)
{
	const struct wire_resolve *query = heard->packet;
	struct wire_record record;

	/* Our own query has come back; by unicast: we are one of the hosts that we query. */
	if (query->asker == resolver->owner.context &&
			(!query->record.id || !for_the_host(resolver, heard)))
		return;
	if (!query->nonce || !query->asker) {
		ripc__drop(resolver);
		return;
	}
	if (!query->record.id)
		answer_all(resolver, heard);
	else if (wire_is_group(query->record.id))
		answer_group(resolver, heard);
	else if (ripc__own_record(resolver, query->record.id, &record) == 0)
		answer(resolver, heard, &record);
	/* An exact source queries each member of a group separately. */
	if (wire_is_group(query->record.id) && (int)heard->source == resolver->exact)
		return;
	if (!query->hops && for_the_host(resolver, heard) &&
			!ripc__published_here(resolver, query->record.id))
		relay_begin(resolver, heard);
}
