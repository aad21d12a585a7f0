/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions, answers and notices on their way to the sources. */
#include <errno.h>
#include <string.h>

#include "asking.h"
#include "core/base/budget.h"
#include "core/wire/record.h"
#include "resolver.h"
#include "resolver_internal.h"
#include "util/map.h"
#include "util/timers.h"

int ripc__timers_borrow(struct ripc__resolver *resolver)
{
	int error = ripc__timers_reserve(&resolver->timers, resolver->n_timers + 1);

	if (!error)
		resolver->n_timers++;
	return error;
}

void ripc__timers_return(struct ripc__resolver *resolver)
{
	resolver->n_timers--;
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

uint32_t ripc__peers_of(const struct ripc__resolver *resolver)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < resolver->n_sources; i++) {
		const struct source_slot *slot = &resolver->sources[i];

		n += slot->ops->n_peers ? slot->ops->n_peers(slot->state) : 0;
	}
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

static uint32_t ask_source(struct ripc__resolver *resolver, uint32_t source,
		const struct wire_resolve *question, bool again)
{
	const struct source_slot *slot = &resolver->sources[source];
	int (*ask)(void *state, uint64_t id, const void *data, size_t len) =
		again && slot->ops->ask_again ? slot->ops->ask_again : slot->ops->ask;
	struct wire_resolve packet = *question;
	uint8_t data[WIRE_RESOLVE_MAX];
	size_t len;
	int n;

	/* Anybody on this host can have bound the name: what he reads is of no use elsewhere. */
	if ((int)source == resolver->home)
		packet.nonce ^= resolver->home_key;
	len = ripc__resolve_encode(resolver, &packet, data);
	n = ask(slot->state, question->record.id, data, len);
	if (n <= 0)
		return 0;
	resolver->stats.queries_sent++;
	return (uint32_t)n;
}

uint32_t ripc__ask(struct ripc__resolver *resolver, uint32_t source,
		const struct wire_resolve *question)
{
	return ask_source(resolver, source, question, false);
}

uint32_t ripc__ask_again(struct ripc__resolver *resolver, uint32_t source,
		const struct wire_resolve *question)
{
	return ask_source(resolver, source, question, true);
}

static struct wire_resolve question_of(const struct ripc__resolver *resolver,
		const struct asked *asked)
{
	return (struct wire_resolve){.type = WIRE_QUESTION, .nonce = asked->nonce,
		.asker = resolver->owner.context, .record.id = asked->id};
}

/* The exact source says who has an ID when it is to be registered there. */
static bool is_to_ask(const struct ripc__resolver *resolver, const struct asked *asked, int source,
		bool home)
{
	return (source == resolver->home) == home &&
		(source != resolver->exact || asked->kind != ASKED_PUBLISH);
}

/* Asks this host's source, or all others. */
static uint32_t ask_some(struct ripc__resolver *resolver, struct asked *asked, bool home)
{
	const struct wire_resolve question = question_of(resolver, asked);
	bool again = resolver->now_us != asked->started_us; /* of others than lookups: always */
	uint32_t n = 0;

	asked->sent_us = resolver->now_us;
	for (uint32_t i = 0; i < resolver->n_sources; i++) {
		if (is_to_ask(resolver, asked, (int)i, home))
			n += ask_source(resolver, i, &question, again);
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
	const struct wire_resolve question = question_of(resolver, asked);
	uint8_t data[WIRE_RESOLVE_MAX];
	size_t len = ripc__resolve_encode(resolver, &question, data);

	if (is_this_host(host))
		return 0;
	asked->sent_us = resolver->now_us;
	for (uint32_t i = 0; i < resolver->n_sources; i++) {
		const struct source_slot *slot = &resolver->sources[i];

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

	/* A context that does not get it will ask again. */
	slot->ops->reply(slot->state, to, data, len);
	return (uint32_t)len;
}

void ripc__send_notice(struct ripc__resolver *resolver, const struct wire_resolve *packet)
{
	uint8_t data[WIRE_RESOLVE_MAX];
	size_t len = ripc__resolve_encode(resolver, packet, data);

	for (uint32_t i = 0; i < resolver->n_sources; i++) {
		const struct source_slot *slot = &resolver->sources[i];

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
	/* Equal stamps: any order will do that both sides agree on. */
	return a->stamp != b->stamp ? a->stamp < b->stamp : a->incarnation < b->incarnation;
}
