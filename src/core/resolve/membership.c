/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memberships: the groups that services here have joined. A group has any number of members, so
 * nobody is asked before a service joins: its name on this host is bound, the exact source lists
 * the service, and everybody is told by NOTICES notices, and then by digests (publish.c). These are
 * more than of a registration, which is found when it is asked for: nobody asks for a new member
 * that he has not heard of. Questions about the group are answered with one record for each member
 * (answer.c).
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>

#include "core/net/backend.h"
#include "core/wire/record.h"
#include "resolver.h"
#include "util/list.h"
#include "util/map.h"
#include "util/system/cancel.h"
#include "util/timers.h"

#define NOTICES 5u /* the second one after ROUND_US; then the gaps double */

struct membership {
	struct ripc__timer timer;
	struct membership *next; /* of the same group */
	struct digested_member named; /* its group and service */
	uint64_t incarnation;
	uint32_t n_told;
};

/* ---- walking ----------------------------------------------------------------------------- */

struct membership *ripc__member_first(const struct ripc__resolver *resolver, uint64_t group)
{
	return ripc__map_get(&resolver->memberships, group);
}

struct membership *ripc__member_next(const struct membership *membership)
{
	return membership->next;
}

void ripc__members_own(struct ripc__resolver *resolver, uint64_t group,
		void (*found)(void *arg, uint64_t id, uint64_t incarnation), void *arg)
{
	for (const struct membership *at = ripc__member_first(resolver, group); at; at = at->next)
		found(arg, at->named.service, at->incarnation);
}

void ripc__groups_own(struct ripc__resolver *resolver, void (*found)(void *arg, uint64_t group),
		void *arg)
{
	const struct membership *first;
	uint32_t at = 0;

	while ((first = ripc__map_next(&resolver->memberships, &at)))
		found(arg, first->named.digested.id);
}

int ripc__member_record(struct ripc__resolver *resolver, const struct membership *membership,
		struct wire_record *record)
{
	const struct ripc__resolver_owner *owner = &resolver->owner;
	int error = owner->record(owner->arg, membership->named.service, record);

	if (error)
		return error;
	record->id = membership->named.digested.id;
	record->stamp = membership->named.service;
	return 0;
}

/* ---- joining and leaving ----------------------------------------------------------------- */

static void announce(void *owner, struct ripc__timer *timer)
{
	struct membership *membership = list_entry(timer, struct membership, timer);
	struct ripc__resolver *resolver = owner;
	struct wire_resolve notice = {.type = WIRE_RECORD, .asker = resolver->owner.context};

	if (ripc__member_record(resolver, membership, &notice.record) == 0)
		ripc__send_notice(resolver, &notice);
	if (++membership->n_told == NOTICES)
		ripc__digest_add(resolver, &membership->named.digested);
	else
		ripc__timer_set(&resolver->timers, timer, resolver->now_us +
			(ROUND_US << (membership->n_told - 1)));
}

/* The first n sources. */
static void leave_sources(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation,
		uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct source_slot *slot = &resolver->sources[i];

		if (slot->ops->group.leave)
			slot->ops->group.leave(slot->state, group, incarnation);
	}
}

/* All, or none. */
static int join_sources(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation)
{
	for (uint32_t i = 0; i < resolver->n_sources; i++) {
		const struct source_slot *slot = &resolver->sources[i];
		int error = slot->ops->group.join ?
			slot->ops->group.join(slot->state, group, incarnation) : 0;

		if (error) {
			leave_sources(resolver, group, incarnation, i);
			return error;
		}
	}
	return 0;
}

/* The sources hear questions about the group from now on. */
static void heed(struct ripc__resolver *resolver, uint64_t group)
{
	for (uint32_t i = 0; i < resolver->n_sources; i++) {
		const struct source_slot *slot = &resolver->sources[i];

		if (slot->ops->heed)
			slot->ops->heed(slot->state, group, false);
	}
}

/* The newest is the first of its group. */
static int enter(struct ripc__resolver *resolver, struct membership *membership)
{
	uint64_t group = membership->named.digested.id;

	membership->next = ripc__member_first(resolver, group);
	if (!membership->next)
		return ripc__map_put(&resolver->memberships, group, membership);
	ripc__map_replace(&resolver->memberships, group, membership);
	return 0;
}

int ripc__resolver_join(struct ripc__resolver *resolver, uint64_t group,
		const struct ripc__member *member, uint64_t now_us)
{
	RIPC__HOLD_CANCEL;
	struct membership *membership = calloc(1, sizeof(*membership));
	int error;

	if (!membership)
		return -ENOMEM;
	resolver->now_us = now_us;
	*membership = (struct membership){.named = {{.id = group}, member->id},
		.incarnation = member->incarnation, .timer.fire = announce};
	list_init(&membership->named.digested.node);
	error = ripc__timers_borrow(resolver);
	if (error)
		goto err_free;
	error = join_sources(resolver, group, member->incarnation);
	if (error)
		goto err_return_timer;
	error = enter(resolver, membership);
	if (error)
		goto err_leave;
	heed(resolver, group);
	ripc__gather_joined(resolver, group, member->id, member->incarnation);
	announce(resolver, &membership->timer);
	return 0;
err_leave:
	leave_sources(resolver, group, member->incarnation, resolver->n_sources);
err_return_timer:
	ripc__timers_return(resolver);
err_free:
	free(membership);
	return error;
}

/* Takes it out of those of its group; NULL: it is not there. */
static struct membership *take_out(struct ripc__resolver *resolver, uint64_t group,
		uint64_t incarnation)
{
	struct membership *first = ripc__member_first(resolver, group), *found;
	struct membership **at = &first;

	while (*at && (*at)->incarnation != incarnation)
		at = &(*at)->next;
	found = *at;
	if (!found)
		return NULL;
	*at = found->next;
	if (first)
		ripc__map_replace(&resolver->memberships, group, first);
	else
		ripc__map_remove(&resolver->memberships, group);
	return found;
}

static void membership_free(struct ripc__resolver *resolver, struct membership *membership)
{
	ripc__timer_stop(&resolver->timers, &membership->timer);
	ripc__digest_remove(resolver, &membership->named.digested);
	ripc__timers_return(resolver);
	free(membership);
}

void ripc__resolver_leave(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation)
{
	RIPC__HOLD_CANCEL;
	struct membership *membership = take_out(resolver, group, incarnation);
	const struct wire_resolve notice = {.type = WIRE_WITHDRAWN,
		.asker = resolver->owner.context,
		.record = {.id = group, .incarnation = incarnation}};

	if (!membership)
		return;
	membership_free(resolver, membership);
	leave_sources(resolver, group, incarnation, resolver->n_sources);
	ripc__gather_left(resolver, group, incarnation);
	ripc__send_notice(resolver, &notice);
}

void ripc__memberships_close(struct ripc__resolver *resolver)
{
	struct membership *membership;
	uint32_t at = 0;

	while ((membership = ripc__map_next(&resolver->memberships, &at))) {
		take_out(resolver, membership->named.digested.id, membership->incarnation);
		membership_free(resolver, membership);
		at = 0; /* removing moves entries */
	}
}
