/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups that services here have joined. */
#ifndef RIPC_MEMBERSHIP_H
#define RIPC_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

struct ripc__resolver;
struct wire_record;

/* A walk over the services here that have joined a group; NULL: the last one was before. */
struct membership;
struct membership *ripc__member_first(const struct ripc__resolver *resolver, uint64_t group);
struct membership *ripc__member_next(const struct membership *membership);
/* The record that tells of the member; -ENOENT: it is leaving. */
int ripc__member_record(struct ripc__resolver *resolver, const struct membership *membership,
		struct wire_record *record);
/* Calls found for each. */
void ripc__members_own(struct ripc__resolver *resolver, uint64_t group,
		void (*found)(void *arg, uint64_t id, uint64_t incarnation), void *arg);
/* Calls found for each group that a service here has joined. */
void ripc__groups_own(struct ripc__resolver *resolver, void (*found)(void *arg, uint64_t group),
		void *arg);
void ripc__memberships_close(struct ripc__resolver *resolver);

#endif
