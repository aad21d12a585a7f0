/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: joining and leaving, and short messages to all members. */
#ifndef RIPC_CORE_GROUP_H
#define RIPC_CORE_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "util/list.h"
#include "util/map.h"

struct gathering;
struct ripc_context;
struct ripc_send;
struct ripc_service;

/* See ripc_join(), ripc_leave(). */
int ripc__group_join(struct ripc_service *service, uint64_t group);
int ripc__group_leave(struct ripc_service *service, uint64_t group);
/* The service is drained or closed. */
void ripc__groups_leave(struct ripc_service *service);

/* A short message to a group (request->to). */
int ripc__group_short(struct ripc_service *service, const struct ripc_send *request);
/* The resolver knows all members of the group: shorts that were kept are sent to the new ones. */
void ripc__group_gathered(struct ripc_context *ctx, uint64_t group);
/* Drops the kept shorts of a service; NULL: of all services. */
void ripc__kept_drop(struct ripc_context *ctx, const struct ripc_service *service);

/*
 * Looks for the members of a group, after taking in all answers that have come. Returns as
 * ripc__resolver_gather(). *n is the number of members without the service itself.
 */
int ripc__group_members(struct ripc_service *service, uint64_t group,
		struct gathering **gathering, uint32_t *n);

/* The groups of a context. */
struct groups {
	struct list fanouts, kept; /* fanout.h, group.c */
	uint32_t n_kept;
	struct list mcast_in;         /* streams of others to groups (mcast_in.c) */
	struct ripc__map mcast_in_by_sender; /* the first of each sender and group */
	uint32_t multicast_least;       /* from so many members on shorts are multicast; 0: never */
};

#endif
