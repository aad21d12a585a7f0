/* SPDX-License-Identifier: BSD-3-Clause */
/* Gatherings and their entries: memory, and what is counted. gather.c has the work. */
#include "gathering.h"

#include <stdlib.h>

#include "asking.h"
#include "membership.h"
#include "util/map.h"
#include "util/timers.h"

#define GATHERINGS_MAX 1024u

/* ---- entries ----------------------------------------------------------------------------- */

void ripc__entry_remove(struct gathering *gathering, struct entry *entry)
{
	struct entry *last = gathering->entries[--gathering->n];

	gathering->entries[entry->index] = last;
	last->index = entry->index;
	gathering->n_pending -= ripc__entry_is_pending(entry);
	gathering->n_unknown -= !entry->is_known;
	gathering->n_waiting -= entry->is_known && !entry->is_admitted;
	ripc__entry_trust(gathering, entry);
	ripc__map_remove(&gathering->names, entry->name);
	free(entry->answer);
	free(entry);
}

void ripc__entry_gone(struct gathering *gathering, struct entry *entry)
{
	struct gone *gone = &gathering->gone[gathering->n_gone++ % GONE_MAX];

	gathering->era_ends = true;
	*gone = (struct gone){.incarnation = entry->public.incarnation,
		.era = (uint8_t)(gathering->era + 1)};
	ripc__entry_remove(gathering, entry);
}

bool ripc__gathering_is_gone(const struct gathering *gathering, uint64_t incarnation,
		uint64_t nonce)
{
	for (uint32_t i = 0; i < GONE_MAX; i++) {
		const struct gone *gone = &gathering->gone[i];

		if (gone->incarnation == incarnation && (int8_t)((uint8_t)nonce - gone->era) < 0)
			return true;
	}
	return false;
}

void ripc__entry_doubt(struct gathering *gathering, struct entry *entry, uint64_t now_us)
{
	if (!entry->is_doubted) {
		gathering->n_doubted++;
		entry->missed = 0;
	}
	entry->is_doubted = true;
	entry->doubted_us = now_us;
}

void ripc__entry_trust(struct gathering *gathering, struct entry *entry)
{
	gathering->n_doubted -= entry->is_doubted;
	entry->is_doubted = false;
}

struct entry *ripc__entry_rival(const struct gathering *gathering, const struct entry *entry)
{
	for (uint32_t i = 0; i < gathering->n; i++) {
		struct entry *other = gathering->entries[i];

		if (other != entry && other->is_known && other->public.id == entry->public.id)
			return other;
	}
	return NULL;
}

bool ripc__entry_missed(const struct gathering *gathering, uint32_t refreshes)
{
	for (uint32_t i = 0; i < gathering->n; i++) {
		const struct entry *entry = gathering->entries[i];

		if (!entry->is_own && !entry->generation && entry->missed == refreshes)
			return true;
	}
	return false;
}

bool ripc__entry_yield(struct gathering *gathering, bool known)
{
	uint32_t n = known ? gathering->n_waiting : gathering->n_unknown;

	for (uint32_t i = 0; n && i < gathering->n; i++) {
		struct entry *entry = gathering->entries[i];

		if (entry->is_known != known || entry->is_admitted)
			continue;
		ripc__entry_remove(gathering, entry);
		return true;
	}
	return false;
}

struct entry *ripc__entry_add(struct gathering *gathering, uint64_t name)
{
	struct entry *entry;

	if (gathering->n == gathering->room) {
		uint32_t room = gathering->room ? 2 * gathering->room : 16;
		struct entry **more = realloc(gathering->entries, room * sizeof(*more));

		if (!more)
			return NULL;
		gathering->entries = more;
		gathering->room = room;
	}
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->name = name;
	if (ripc__map_put(&gathering->names, name, entry)) {
		free(entry);
		return NULL;
	}
	entry->index = gathering->n;
	gathering->entries[gathering->n++] = entry;
	gathering->n_pending++;
	gathering->n_unknown++;
	return entry;
}

/* Who the entry is, is known now. */
void ripc__entry_is(struct gathering *gathering, struct entry *entry, uint64_t id,
		uint64_t incarnation)
{
	gathering->n_pending -= ripc__entry_is_pending(entry);
	gathering->n_unknown -= !entry->is_known;
	gathering->n_waiting += !entry->is_known;
	entry->is_known = true;
	entry->public.id = id;
	entry->public.incarnation = incarnation;
}

void ripc__entry_admit(struct gathering *gathering, struct entry *entry)
{
	gathering->n_waiting -= !entry->is_admitted;
	entry->is_admitted = true;
}

/* ---- gatherings -------------------------------------------------------------------------- */

void ripc__gathering_free(struct ripc__resolver *resolver, struct gathering *gathering)
{
	ripc__asked_end(resolver, &gathering->asked);
	ripc__timer_stop(&resolver->timers, &gathering->asked.timer);
	ripc__timers_return(resolver);
	ripc__map_remove(&resolver->gatherings, gathering->asked.id);
	for (uint32_t i = 0; i < gathering->n; i++) {
		free(gathering->entries[i]->answer);
		free(gathering->entries[i]);
	}
	ripc__map_free(&gathering->names);
	free(gathering->entries);
	free(gathering);
}

/* Where all places are taken, one that was not used for long gives way. */
static bool gathering_yield(struct ripc__resolver *resolver)
{
	struct gathering *gathering, *oldest = NULL;
	uint32_t at = 0;

	while ((gathering = ripc__map_next(&resolver->gatherings, &at))) {
		if (!gathering->is_awaited && (!oldest || gathering->used_us < oldest->used_us))
			oldest = gathering;
	}
	if (oldest)
		ripc__gathering_free(resolver, oldest);
	return oldest;
}

void ripc__entry_add_own(void *arg, uint64_t id, uint64_t incarnation)
{
	struct gathering *gathering = arg;
	struct entry *entry = ripc__entry_of(gathering, incarnation);

	entry = entry ? entry : ripc__entry_add(gathering, incarnation | NAME_BIT);
	if (!entry)
		return; /* without memory */
	ripc__entry_is(gathering, entry, id, incarnation);
	entry->is_own = true;
	ripc__entry_admit(gathering, entry);
}

struct gathering *ripc__gathering_make(struct ripc__resolver *resolver, uint64_t group,
		void (*fire)(void *owner, struct ripc__timer *timer))
{
	struct gathering *gathering;

	if (resolver->gatherings.count >= GATHERINGS_MAX && !gathering_yield(resolver))
		return NULL;
	gathering = calloc(1, sizeof(*gathering));
	if (!gathering)
		return NULL;
	gathering->asked = (struct asked){.kind = ASKED_GROUP, .id = group,
		.timer.fire = fire};
	ripc__map_init(&gathering->names, resolver->owner.random(resolver->owner.arg));
	if (ripc__timers_borrow(resolver))
		goto err_free;
	if (ripc__asked_begin(resolver, &gathering->asked))
		goto err_return_timer;
	if (ripc__map_put(&resolver->gatherings, group, gathering))
		goto err_end;
	ripc__members_own(resolver, group, ripc__entry_add_own, gathering);
	return gathering;
err_end:
	ripc__asked_end(resolver, &gathering->asked);
err_return_timer:
	ripc__timers_return(resolver);
err_free:
	free(gathering);
	return NULL;
}
