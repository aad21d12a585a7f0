/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver's frame: opening the sources, and sorting the packets that they receive. The
 * frame owns the sources' state, the buckets that limit the work that outsiders can cause, and
 * the table of outstanding queries; the other files (internal.h) own the rest.
 *
 * Invariants: an object with a set timer has borrowed room for it, hence setting cannot fail; an
 * object is in the table of queries exactly while its nonce is not 0.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "ripc/ripc.h"
#include "util/system/cancel.h"

/* ---- queries ----------------------------------------------------------------------------- */

/* Queries, answers and notices on their way to the sources. */

int ripc__timers_borrow(struct ripc__resolver *resolver, uint32_t n)
{
	int error = ripc__timers_reserve(&resolver->timers, resolver->n_timers + n);

	if (!error)
		resolver->n_timers += n;
	return error;
}

void ripc__timers_return(struct ripc__resolver *resolver, uint32_t n)
{
	resolver->n_timers -= n;
}

void ripc__drop(struct ripc__resolver *resolver)
{
	resolver->stats.dropped++;
}

int ripc__asked_begin(struct ripc__resolver *resolver, struct asked *asked)
{
	uint64_t nonce = resolver->owner.random(resolver->owner.arg);
	int error;

	ripc__asked_end(resolver, asked);
	if (asked->kind == ASKED_GROUP)
		nonce &= ~(uint64_t)NONCE_ERA;
	if (!nonce)
		nonce = NONCE_ERA + 1;
	error = ripc__map_put(&resolver->asked, nonce, asked);
	if (error)
		return error == -EEXIST ? -ENOMEM : error;
	asked->nonce = nonce;
	asked->strange = false;
	return 0;
}

void ripc__asked_end(struct ripc__resolver *resolver, struct asked *asked)
{
	if (asked->nonce)
		ripc__map_remove(&resolver->asked, asked->nonce);
	asked->nonce = 0;
}

int ripc__asked_open(struct ripc__resolver *resolver, struct asked *asked)
{
	int error = ripc__timers_borrow(resolver, 1);

	if (error)
		return error;
	error = ripc__asked_begin(resolver, asked);
	if (error)
		ripc__timers_return(resolver, 1);
	return error;
}

void ripc__asked_close(struct ripc__resolver *resolver, struct asked *asked)
{
	ripc__asked_end(resolver, asked);
	ripc__timer_stop(&resolver->timers, &asked->timer);
	ripc__timers_return(resolver, 1);
}

uint32_t ripc__peers_of(const struct ripc__resolver *resolver)
{
	uint32_t n = 0;

	source_for_each(slot, resolver)
		n += slot->ops->n_peers ? slot->ops->n_peers(slot->state) : 0;
	return n;
}

size_t ripc__resolve_encode(struct ripc__resolver *resolver, const struct wire_resolve *packet,
		uint8_t data[WIRE_RESOLVE_MAX])
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	size_t len = wire_resolve_encode(data, packet);

	if (!owner->mark)
		return len;
	owner->mark(owner->arg, data, len);
	return len + WIRE_MARK;
}

uint32_t ripc__ask(struct ripc__resolver *resolver, uint32_t source,
		const struct wire_resolve *query, bool again)
{
	const struct source_slot *slot = &resolver->sources[source];
	int (*ask)(void *state, uint64_t id, const void *data, size_t len) =
		again && slot->ops->ask_again ? slot->ops->ask_again : slot->ops->ask;
	struct wire_resolve packet = *query;
	uint8_t data[WIRE_RESOLVE_MAX];
	size_t len;
	int n;

	/*
	 * Any process on this host can have bound the name: its packet is of no use on other
	 * hosts.
	 */
	if ((int)source == resolver->home)
		packet.nonce ^= resolver->home_key;
	len = ripc__resolve_encode(resolver, &packet, data);
	n = ask(slot->state, query->record.id, data, len);
	if (n <= 0)
		return 0;
	resolver->stats.queries_sent++;
	return (uint32_t)n;
}

static struct wire_resolve query_of(const struct ripc__resolver *resolver,
		const struct asked *asked)
{
	return (struct wire_resolve){.type = WIRE_QUERY, .nonce = asked->nonce,
		.asker = resolver->owner.context, .record.id = asked->id};
}

/*
 * Does the source need a query? The exact source reports the owner of an ID when it is
 * registered there.
 */
static bool is_to_ask(const struct ripc__resolver *resolver, const struct asked *asked, int source,
		bool home)
{
	return (source == resolver->home) == home &&
		(source != resolver->exact || asked->kind != ASKED_PUBLISH);
}

/* Queries this host's source, or all others. */
static uint32_t ask_some(struct ripc__resolver *resolver, struct asked *asked, bool home)
{
	const struct wire_resolve query = query_of(resolver, asked);
	bool again = resolver->now_us != asked->started_us; /* for objects other than lookups:
	                                                       always */
	uint32_t n = 0;

	asked->sent_us = resolver->now_us;
	for (uint32_t i = 0; i < resolver->n_sources; i++) {
		if (is_to_ask(resolver, asked, (int)i, home))
			n += ripc__ask(resolver, i, &query, again);
	}
	return n;
}

uint32_t ripc__ask_home(struct ripc__resolver *resolver, struct asked *asked)
{
	return ask_some(resolver, asked, true);
}

uint32_t ripc__ask_network(struct ripc__resolver *resolver, struct asked *asked)
{
	resolver->n_network = ask_some(resolver, asked, false);
	return resolver->n_network;
}

bool ripc__may_provoke(struct ripc__resolver *resolver, const uint8_t host[16])
{
	if (ripc__budget_has(&resolver->provoked, host, resolver->now_us))
		return true;
	resolver->stats.unasked++;
	return false;
}

void ripc__provoked(struct ripc__resolver *resolver, const uint8_t host[16])
{
	uint32_t n = resolver->n_network ? resolver->n_network : 1;

	ripc__budget_spend(&resolver->provoked, host, resolver->now_us, n * WIRE_RECORD_MAX);
}

uint32_t ripc__ask_network_for(struct ripc__resolver *resolver, struct asked *asked,
		const uint8_t host[16])
{
	asked->sent_us = resolver->now_us;
	if (!ripc__may_provoke(resolver, host))
		return 0;
	ripc__provoked(resolver, host);
	return ripc__ask_network(resolver, asked);
}

static bool is_this_host(const uint8_t host[16])
{
	static const uint8_t loopback[13] = {[10] = 0xff, 0xff, 127}, loopback6[16] = {[15] = 1},
		nowhere[16];

	return memcmp(host, loopback, sizeof(loopback)) == 0 ||
		memcmp(host, loopback6, sizeof(loopback6)) == 0 ||
		memcmp(host, nowhere, sizeof(nowhere)) == 0;
}

uint32_t ripc__ask_host(struct ripc__resolver *resolver, struct asked *asked,
		const uint8_t host[16])
{
	if (is_this_host(host) || !ripc__budget_spend(&resolver->provoked, host, resolver->now_us,
			WIRE_RECORD_MAX))
		return 0;
	return ripc__ask_one_host(resolver, asked, host);
}

uint32_t ripc__ask_one_host(struct ripc__resolver *resolver, struct asked *asked,
		const uint8_t host[16])
{
	const struct wire_resolve query = query_of(resolver, asked);
	uint8_t data[WIRE_RESOLVE_MAX];
	size_t len = ripc__resolve_encode(resolver, &query, data);

	if (is_this_host(host))
		return 0;
	asked->sent_us = resolver->now_us;
	source_for_each(slot, resolver) {
		if (!slot->ops->ask_host || slot->ops->ask_host(slot->state, host, data, len) <= 0)
			continue;
		resolver->stats.queries_sent++;
		return 1;
	}
	return 0;
}

uint32_t ripc__send_reply(struct ripc__resolver *resolver, uint32_t source,
		const struct ripc__addr *to, const struct wire_resolve *packet)
{
	const struct source_slot *slot = &resolver->sources[source];
	uint8_t data[WIRE_RESOLVE_MAX];
	size_t len = ripc__resolve_encode(resolver, packet, data);

	/* A context that does not get the reply will query again. */
	slot->ops->reply(slot->state, to, data, len);
	return (uint32_t)len;
}

void ripc__send_notice(struct ripc__resolver *resolver, const struct wire_resolve *packet)
{
	uint8_t data[WIRE_RESOLVE_MAX];
	size_t len = ripc__resolve_encode(resolver, packet, data);

	source_for_each(slot, resolver) {
		if (slot->ops->notify)
			slot->ops->notify(slot->state, data, len);
	}
}

void ripc__answer_fill(const struct ripc__resolver *resolver, const struct heard *heard,
		struct ripc__answer *answer)
{
	answer->record = heard->packet->record;
	answer->proof = heard->packet->proof;
	answer->local = heard->event->local;
	answer->source = resolver->sources[heard->source].ops->name;
	memcpy(answer->host, heard->event->host, sizeof(answer->host));
}

bool ripc__record_older(const struct wire_record *a, const struct wire_record *b)
{
	/* Equal stamps: any order will do if both sides agree on it. */
	return a->stamp != b->stamp ? a->stamp < b->stamp : a->incarnation < b->incarnation;
}

/* ---- sources ----------------------------------------------------------------------------- */

static const char *option(const struct ripc__host *host, const char *name)
{
	const char *value = host->option ? host->option(host->arg, name) : NULL;

	return value && *value ? value : NULL;
}

static bool is_named(const char *at, size_t len, const struct ripc__source *source)
{
	return strlen(source->name) == len && memcmp(source->name, at, len) == 0;
}

static const char *name_after(const char *at, size_t len)
{
	return at + len + (at[len] == ';');
}

bool ripc__source_is_wanted(const struct ripc__host *host, const struct ripc__source *source)
{
	const char *at = option(host, "resolver.sources");
	bool has_store = option(host, "store.servers");

	if (!at && strcmp(source->name, "store") == 0)
		return has_store;
	if (!at)
		return !has_store || strcmp(source->name, "multicast") != 0;
	while (*at) {
		size_t len = strcspn(at, ";");

		if (is_named(at, len, source))
			return true;
		at = name_after(at, len);
	}
	return false;
}

static int choose(const struct ripc__host *host, const struct ripc__source *source,
		const struct ripc__source **chosen)
{
	char why[256] = "", remedy[256] = "";

	*chosen = source->load ? source->load(host, why, remedy) : source;
	if (*chosen)
		return 0;
	host->log(host->arg, RIPC_LOG_ERROR, "resolver source %s: %s: %s", source->name, why,
		remedy);
	return -ENODEV;
}

static const struct ripc__source *find(const struct ripc__source *const *all, const char *at,
		size_t len)
{
	for (; *all; all++) {
		if (is_named(at, len, *all))
			return *all;
	}
	return NULL;
}

static int choose_named(const struct ripc__host *host, const struct ripc__source *const *all,
		const struct ripc__source **chosen, uint32_t max)
{
	const char *text = option(host, "resolver.sources"), *at = text;
	uint32_t n = 0;
	int error = 0;

	while (*at && !error) {
		size_t len = strcspn(at, ";");
		const struct ripc__source *source = find(all, at, len);

		if (!source || n == max) {
			host->log(host->arg, RIPC_LOG_ERROR, "option resolver.sources: unknown "
				"\"%.*s\" in \"%.80s\"; known sources: local, store, multicast, "
				"static",
				(int)(len < 40 ? len : 40), at, text);
			return -EINVAL;
		}
		error = choose(host, source, &chosen[n++]);
		at = name_after(at, len);
	}
	chosen[n] = NULL;
	return error;
}

int ripc__sources_choose(const struct ripc__host *host, const struct ripc__source *const *all,
		const struct ripc__source **chosen, uint32_t max)
{
	uint32_t n = 0;
	int error = 0;

	if (option(host, "resolver.sources"))
		return choose_named(host, all, chosen, max);
	for (; *all && n < max && !error; all++) {
		if (ripc__source_is_wanted(host, *all))
			error = choose(host, *all, &chosen[n++]);
	}
	chosen[n] = NULL;
	return error;
}

/* ---- resolver ---------------------------------------------------------------------------- */

#define RESOLVER_TIMERS       4u /* digest.timer, digest.called, heal.check, heal.call */
#define EVENTS_PER_STEP       64u
#define ANSWERS_PER_SECOND    20000u
#define NOTICES_PER_SECOND    1000u
#define VERIFY_PER_SECOND     20u
#define PLACES_PER_SECOND     10u
/* Bytes to the network that outsiders can cause: at most 60 kB in any second. */
#define PROVOKED_PER_SECOND   31250u
#define PROVOKED_AT_ONCE      25000u
#define PROVOKED_SHARE        4u
#define ANSWERS_SHARE         2u

/* ---- incoming packets -------------------------------------------------------------------- */

static struct asked *asked_of(const struct ripc__resolver *resolver, const struct heard *heard)
{
	uint64_t nonce = ripc__nonce_heard(resolver, heard);
	struct asked *asked = ripc__map_get(&resolver->asked, nonce);

	if (asked)
		return asked;
	asked = ripc__map_get(&resolver->asked, nonce & ~(uint64_t)NONCE_ERA);
	return asked && asked->kind == ASKED_GROUP ? asked : NULL;
}

static void answer_heard(struct ripc__resolver *resolver, const struct heard *heard)
{
	struct asked *asked = asked_of(resolver, heard);

	if (!asked || (asked->id && asked->id != heard->packet->record.id)) {
		ripc__drop(resolver); /* late, forged, or a lie about another ID */
		return;
	}
	resolver->stats.responses_received++;
	switch (asked->kind) {
	case ASKED_LOOKUP:
		ripc__gather_placed(resolver, heard);
		ripc__lookup_answered(resolver, asked, heard);
		break;
	case ASKED_PUBLISH:
		ripc__publish_answered(resolver, asked, heard);
		break;
	case ASKED_VERIFY:
		ripc__verify_answered(resolver, asked, heard);
		break;
	case ASKED_RELAY:
		ripc__relay_answered(resolver, asked, heard);
		break;
	case ASKED_LIST:
		ripc__list_answered(resolver, asked, heard);
		break;
	case ASKED_GROUP:
		ripc__gather_answered(resolver, asked, heard);
		break;
	case ASKED_PRESENCE:
		ripc__presence_answered(resolver, asked, heard);
		break;
	case ASKED_HEAL:
		ripc__heal_answered(resolver, asked, heard);
		break;
	}
}

/*
 * An unasked registration or withdrawal: never believed, only looked into. False: its contents
 * are known here, or no service is concerned.
 */
static bool look_into(struct ripc__resolver *resolver, const struct heard *heard)
{
	uint64_t id = heard->packet->record.id;
	bool concerns;

	if (wire_is_group(id))
		return ripc__gather_hint(resolver, heard);
	if (ripc__published_here(resolver, id))
		return heard->packet->type == WIRE_RECORD &&
			ripc__publish_rivalled(resolver, heard);
	concerns = ripc__lookup_hint(resolver, heard);
	return ripc__relay_notice(resolver, heard) || concerns;
}

static bool may_look_into(struct ripc__resolver *resolver, const struct heard *heard)
{
	if (ripc__bucket_take(&resolver->notices, heard->now_us))
		return true;
	ripc__drop(resolver);
	return false;
}

/* Each registration that the digest names, and that concerns a service here, counts as a notice. */
static void digest_heard(struct ripc__resolver *resolver, const struct heard *heard)
{
	struct wire_resolve notice = {.type = WIRE_RECORD, .asker = heard->packet->asker};
	const struct heard part = {&notice, heard->event, heard->source, heard->now_us};

	ripc__digest_heard(resolver, heard->packet->asker);
	ripc__heal_heard(resolver, heard);
	for (uint32_t i = 0; i < heard->packet->n_named; i++) {
		wire_named_get(heard->packet, i, &notice.record.id, &notice.record.incarnation);
		if (look_into(resolver, &part) && !may_look_into(resolver, heard))
			return;
	}
}

static void notice_heard(struct ripc__resolver *resolver, const struct heard *heard)
{
	if (!may_look_into(resolver, heard))
		return;
	if (heard->packet->type == WIRE_DIGEST)
		digest_heard(resolver, heard);
	else
		look_into(resolver, heard);
}

static void nobody_heard(struct ripc__resolver *resolver, const struct heard *heard)
{
	struct asked *asked = asked_of(resolver, heard);

	if (!asked || asked->id != heard->packet->record.id)
		ripc__drop(resolver);
	else if (asked->kind == ASKED_LOOKUP)
		ripc__lookup_denied(resolver, asked, heard);
	else if (asked->kind == ASKED_PRESENCE)
		ripc__presence_answered(resolver, asked, heard);
	else
		ripc__drop(resolver);
}

/*
 * One of the two has keys, the other has none, or others: neither accepts packets of the other.
 * But an answer without a mark lets the asker log why it finds no owner.
 */
static void stranger_heard(struct ripc__resolver *resolver, const struct heard *heard)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	struct wire_resolve answer = {.type = WIRE_RECORD, .nonce = heard->packet->nonce};
	struct asked *asked = heard->packet->type == WIRE_RECORD ? asked_of(resolver, heard) : NULL;
	uint64_t id = heard->packet->record.id;
	uint8_t data[WIRE_RECORD_MAX];
	size_t len;

	ripc__drop(resolver);
	if (asked) {
		asked->strange = true;
		owner->stranger(owner->arg, id, heard->event->host, false);
	}
	if (heard->packet->type != WIRE_QUERY ||
			ripc__own_record(resolver, id, &answer.record) ||
			!ripc__budget_spend(&resolver->answers, heard->event->host,
				resolver->now_us, 1))
		return;
	owner->stranger(owner->arg, id, heard->event->host, true);
	len = wire_resolve_encode(data, &answer);
	resolver->sources[heard->source].ops->reply(resolver->sources[heard->source].state,
		&heard->event->reply, data, len);
}

/*
 * Decodes a packet. 0; 1: a stranger's, which has a mark that is not ours, or has none though we
 * have keys; -EBADMSG.
 */
static int take_apart(const struct ripc__resolver *resolver,
		const struct ripc__source_event *event, struct wire_resolve *packet)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	size_t len = event->len > WIRE_MARK ? event->len - WIRE_MARK : 0;

	if (!owner->mark && wire_resolve_decode(event->data, event->len, packet) == 0)
		return 0;
	if (owner->mark && len && owner->is_marked(owner->arg, event->data, len))
		return wire_resolve_decode(event->data, len, packet);
	if (!owner->stranger)
		return -EBADMSG;
	return wire_resolve_decode(event->data, len, packet) == 0 ||
		(owner->mark && wire_resolve_decode(event->data, event->len, packet) == 0) ?
		1 : -EBADMSG;
}

static void datagram_heard(struct ripc__resolver *resolver, uint32_t source,
		const struct ripc__source_event *event)
{
	struct wire_resolve packet;
	const struct heard heard = {&packet, event, source, resolver->now_us};
	int found = take_apart(resolver, event, &packet);

	if (found > 0)
		stranger_heard(resolver, &heard);
	else if (found < 0)
		ripc__drop(resolver);
	if (found)
		return;
	if (packet.type == WIRE_QUERY) {
		if (!ripc__heal_called(resolver, &heard))
			ripc__query_heard(resolver, &heard);
		return;
	}
	if (packet.type == WIRE_NOBODY) {
		nobody_heard(resolver, &heard);
		return;
	}
	/* Our own notices come back to us. */
	if (packet.record.context == resolver->owner.context ||
			packet.asker == resolver->owner.context)
		return;
	if (packet.type == WIRE_RECORD && packet.nonce)
		answer_heard(resolver, &heard);
	else
		notice_heard(resolver, &heard);
}

/* Handles a report of an exact source. */
static void news_heard(struct ripc__resolver *resolver, const struct ripc__source_event *event)
{
	switch (event->kind) {
	case RIPC_SOURCE_PUBLISHED:
		ripc__publish_stored(resolver, event);
		break;
	case RIPC_SOURCE_LOST:
		ripc__publish_lost(resolver, event);
		break;
	case RIPC_SOURCE_HINT:
		if (wire_is_group(event->id))
			ripc__gather_listed(resolver, event->id);
		else
			ripc__lookup_hinted(resolver, event);
		break;
	case RIPC_SOURCE_UNAVAILABLE:
		ripc__publish_delayed(resolver, event->id);
		ripc__lookup_told(resolver, event);
		break;
	case RIPC_SOURCE_REHOMED:
		if (resolver->owner.rehomed)
			resolver->owner.rehomed(resolver->owner.arg);
		break;
	default:
		ripc__lookup_told(resolver, event);
	}
}

/* Takes one event of each source in turn: a flood at one does not keep the others waiting. */
static uint32_t poll_sources(struct ripc__resolver *resolver)
{
	uint32_t n = 0, idle = 0;

	for (uint32_t at = 0; idle < resolver->n_sources && n < EVENTS_PER_STEP; at++) {
		uint32_t index = at % resolver->n_sources;
		const struct source_slot *source = &resolver->sources[index];
		struct ripc__source_event event;

		if (source->ops->poll(source->state, &event) <= 0) {
			idle++;
			continue;
		}
		idle = 0;
		n++;
		if (event.kind == RIPC_SOURCE_DATAGRAM)
			datagram_heard(resolver, index, &event);
		else
			news_heard(resolver, &event);
	}
	return n;
}

int ripc__resolver_step(struct ripc__resolver *resolver, uint64_t now_us)
{
	RIPC__HOLD_CANCEL;
	uint32_t n;

	resolver->now_us = now_us;
	n = poll_sources(resolver);
	return (int)n + ripc__timers_run(&resolver->timers, now_us, resolver);
}

/* ---- open and close ---------------------------------------------------------------------- */

/* Is the list of hosts empty for good? Then no answer is waited for, and nothing becomes due. */
static bool asks_nobody(const struct source_slot *slot)
{
	return slot->ops->n_peers && slot->ops->wait_fd(slot->state) == -1;
}

static void source_sort(struct ripc__resolver *resolver, const struct source_slot *slot, int index)
{
	if (slot->ops->exact)
		resolver->exact = index;
	else if (slot->ops->publish && resolver->home < 0)
		resolver->home = index;
	else
		resolver->n_inexact += !asks_nobody(slot);
	if (slot->ops->life)
		resolver->host.life = slot->ops->life(slot->state);
}

static int source_open(struct ripc__resolver *resolver, const struct ripc__source *ops)
{
	struct source_slot *slot = &resolver->sources[resolver->n_sources];
	const struct ripc__host *host = &resolver->host;
	int error;

	slot->ops = ops;
	slot->state = calloc(1, ops->size ? ops->size : 1);
	if (!slot->state)
		return -ENOMEM;
	error = ops->open(slot->state, host);
	if (error) {
		free(slot->state);
		if (error != -EINVAL && host->log)
			host->log(host->arg, RIPC_LOG_WARN, "resolver source %s is left out: %s",
				ops->name, strerror(-error));
		return error;
	}
	if (ops->deadline && !asks_nobody(slot))
		resolver->timed[resolver->n_timed++] = (uint8_t)resolver->n_sources;
	source_sort(resolver, slot, (int)resolver->n_sources++);
	return 0;
}

static void init(struct ripc__resolver *resolver)
{
	uint64_t (*draw)(void *arg) = resolver->owner.random;
	void *arg = resolver->owner.arg;

	resolver->home = resolver->exact = -1;
	ripc__map_init(&resolver->asked, draw(arg));
	ripc__map_init(&resolver->lookups, draw(arg));
	ripc__map_init(&resolver->cache, draw(arg));
	ripc__map_init(&resolver->publications, draw(arg));
	list_init(&resolver->lingering);
	list_init(&resolver->cache_order);
	ripc__budget_init(&resolver->answers, ANSWERS_PER_SECOND, ANSWERS_PER_SECOND / 2,
		ANSWERS_SHARE, (uint64_t[2]){draw(arg), draw(arg)});
	resolver->home_key = draw(arg);
	/* Only this context chooses its groups. */
	ripc__map_init(&resolver->memberships, resolver->home_key);
	ripc__map_init(&resolver->gatherings, resolver->home_key);
	ripc__digest_init(resolver);
	ripc__heal_init(resolver);
	ripc__presences_open(resolver);
	ripc__bucket_init(&resolver->notices, NOTICES_PER_SECOND, NOTICES_PER_SECOND / 2);
	ripc__bucket_init(&resolver->verifications, VERIFY_PER_SECOND, VERIFY_PER_SECOND);
	ripc__bucket_init(&resolver->places, PLACES_PER_SECOND, PLACES_PER_SECOND);
	ripc__budget_init(&resolver->provoked, PROVOKED_PER_SECOND, PROVOKED_AT_ONCE,
		PROVOKED_SHARE, (uint64_t[2]){draw(arg), draw(arg)});
}

int ripc__resolver_open(const struct ripc__resolver_owner *owner, const struct ripc__host *host,
		const struct ripc__source *const *sources, struct ripc__resolver **resolver_out)
{
	struct ripc__resolver *resolver = calloc(1, sizeof(*resolver));
	const struct ripc__source *chosen[SOURCES_MAX + 1];
	int error;

	if (!resolver)
		return -ENOMEM;
	resolver->owner = *owner;
	resolver->host = *host;
	init(resolver);
	error = ripc__timers_borrow(resolver, RESOLVER_TIMERS);
	if (!error)
		error = ripc__sources_choose(&resolver->host, sources, chosen, SOURCES_MAX);
	if (error) {
		ripc__resolver_close(resolver);
		return error;
	}
	for (sources = chosen; *sources && resolver->n_sources < SOURCES_MAX; sources++) {
		error = source_open(resolver, *sources);
		/* The user has to correct a configuration that cannot be understood. */
		if (error == -EINVAL || error == -ENOMEM) {
			ripc__resolver_close(resolver);
			return error;
		}
	}
	*resolver_out = resolver;
	return 0;
}

void ripc__resolver_close(struct ripc__resolver *resolver)
{
	struct asked *asked;

	if (!resolver)
		return;
	ripc__resolver_list(resolver, resolver->now_us, NULL, NULL);
	ripc__lookups_close(resolver);
	ripc__presences_close(resolver);
	ripc__heal_close(resolver);
	ripc__publications_close(resolver);
	ripc__gatherings_close(resolver);
	ripc__memberships_close(resolver);
	/* Only relays are owned by nothing but the table. */
	while ((asked = ripc__map_any(&resolver->asked)))
		ripc__relay_free(resolver, asked);
	source_for_each(slot, resolver) {
		slot->ops->close(slot->state);
		free(slot->state);
	}
	ripc__map_free(&resolver->asked);
	ripc__map_free(&resolver->lookups);
	ripc__map_free(&resolver->cache);
	ripc__map_free(&resolver->publications);
	ripc__map_free(&resolver->memberships);
	ripc__map_free(&resolver->gatherings);
	ripc__timers_free(&resolver->timers);
	free(resolver);
}

uint64_t ripc__resolver_deadline(const struct ripc__resolver *resolver)
{
	uint64_t at_us = ripc__timers_next(&resolver->timers);

	for (uint32_t i = 0; i < resolver->n_timed; i++) {
		const struct source_slot *slot = &resolver->sources[resolver->timed[i]];
		uint64_t due_us = slot->ops->deadline(slot->state);

		at_us = due_us < at_us ? due_us : at_us;
	}
	return at_us;
}

int ripc__resolver_fds(struct ripc__resolver *resolver, int *fds, int max)
{
	int n = 0;

	source_for_each(slot, resolver) {
		int fd = slot->ops->wait_fd ? slot->ops->wait_fd(slot->state) : -1;

		if (fd < 0)
			continue;
		if (n < max)
			fds[n] = fd;
		n++;
	}
	return n;
}

void ripc__resolver_stats(const struct ripc__resolver *resolver, struct ripc__resolver_stats *s)
{
	*s = resolver->stats;
}

void ripc__resolver_watch(struct ripc__resolver *resolver, uint64_t context)
{
	RIPC__HOLD_CANCEL;

	source_for_each(slot, resolver) {
		if (slot->ops->watch)
			slot->ops->watch(slot->state, context);
	}
}

void ripc__resolver_unwatch(struct ripc__resolver *resolver, uint64_t context)
{
	RIPC__HOLD_CANCEL;

	source_for_each(slot, resolver) {
		if (slot->ops->unwatch)
			slot->ops->unwatch(slot->state, context);
	}
}

bool ripc__resolver_look(struct ripc__resolver *resolver)
{
	RIPC__HOLD_CANCEL;
	bool any = false;

	source_for_each(slot, resolver)
		any |= slot->ops->look && slot->ops->look(slot->state);
	return any;
}
