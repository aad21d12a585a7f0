/* SPDX-License-Identifier: BSD-3-Clause */
/* What lookups have found, kept for a while. */
#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "core/wire/record.h"
#include "resolver.h"
#include "resolver_internal.h"
#include "util/list.h"
#include "util/map.h"

#define CACHE_MAX    65536u
#define FOUND_US     60000000u /* a found record is used for so long without asking */
#define NOBODY_US    1000000u
#define DENIED_US    200000u   /* no notice ends this, and to ask an exact source is cheap */

void ripc__cached_free(struct ripc__resolver *resolver, struct cached *cached)
{
	ripc__map_remove(&resolver->cache, cached->id);
	list_remove(&cached->node);
	free(cached);
}

void ripc__cache_forget(struct ripc__resolver *resolver, uint64_t id)
{
	struct cached *cached = ripc__map_get(&resolver->cache, id);

	if (cached)
		ripc__cached_free(resolver, cached);
}

static size_t addrs_len(const struct wire_record *record)
{
	size_t len = 0;

	for (uint32_t i = 0; i < record->n_addrs; i++)
		len += 2u + record->addrs[i].len;
	return len;
}

static uint8_t source_named(const struct ripc__resolver *resolver, const char *name)
{
	uint8_t i = 0;

	while (i + 1u < resolver->n_sources && resolver->sources[i].ops->name != name)
		i++;
	return i;
}

static void cached_fill(const struct ripc__resolver *resolver, struct cached *cached,
		const struct ripc__answer *answer)
{
	const struct wire_record *record = &answer->record;
	uint8_t *at = cached->addrs;

	cached->incarnation = record->incarnation;
	cached->stamp = record->stamp;
	cached->host_identity = record->host;
	cached->context = record->context;
	cached->proof = answer->proof;
	cached->source = source_named(resolver, answer->source);
	cached->local = answer->local;
	memcpy(cached->host, answer->host, sizeof(cached->host));
	cached->n_addrs = (uint8_t)record->n_addrs;
	for (uint32_t i = 0; i < record->n_addrs; i++) {
		*at++ = record->addrs[i].backend;
		*at++ = record->addrs[i].len;
		memcpy(at, record->addrs[i].blob, record->addrs[i].len);
		at += record->addrs[i].len;
	}
}

void ripc__cached_answer(const struct ripc__resolver *resolver, const struct cached *cached,
		struct ripc__answer *answer)
{
	struct wire_record *record = &answer->record;
	const uint8_t *at = cached->addrs;

	*answer = (struct ripc__answer){.proof = cached->proof, .local = cached->local,
		.source = resolver->sources[cached->source].ops->name};
	memcpy(answer->host, cached->host, sizeof(answer->host));
	record->id = cached->id;
	record->incarnation = cached->incarnation;
	record->stamp = cached->stamp;
	record->host = cached->host_identity;
	record->context = cached->context;
	record->n_addrs = cached->n_addrs;
	for (uint32_t i = 0; i < record->n_addrs; i++) {
		record->addrs[i].backend = *at++;
		record->addrs[i].len = *at++;
		memcpy(record->addrs[i].blob, at, record->addrs[i].len);
		at += record->addrs[i].len;
	}
}

bool ripc__cached_differs(const struct cached *cached, uint64_t incarnation, bool registered)
{
	return (cached->exists && cached->incarnation == incarnation) != registered;
}

void ripc__cache_store(struct ripc__resolver *resolver, uint64_t id,
		const struct ripc__answer *answer)
{
	struct cached *old = ripc__map_get(&resolver->cache, id);
	struct cached *cached = calloc(1, sizeof(*cached) +
		(answer ? addrs_len(&answer->record) : 0));

	if (old && cached)
		cached->hint_us = old->hint_us;
	if (old)
		ripc__cached_free(resolver, old);
	if (!cached)
		return;
	if (resolver->cache.count >= CACHE_MAX)
		ripc__cached_free(resolver,
			list_entry(resolver->cache_order.next, struct cached, node));
	cached->id = id;
	cached->exists = answer;
	cached->expires_us = resolver->now_us + (answer ? FOUND_US :
		resolver->exact < 0 ? NOBODY_US : DENIED_US);
	if (answer)
		cached_fill(resolver, cached, answer);
	cached->host_heard = (uint32_t)(resolver->now_us >> 10);
	if (ripc__map_put(&resolver->cache, id, cached)) {
		free(cached);
		return;
	}
	list_append(&resolver->cache_order, &cached->node);
}

void ripc__cache_close(struct ripc__resolver *resolver)
{
	while (!list_empty(&resolver->cache_order))
		ripc__cached_free(resolver, list_entry(resolver->cache_order.next, struct cached,
			node));
}
