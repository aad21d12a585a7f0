/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages to groups. */
#ifndef RIPC_FANOUT_H
#define RIPC_FANOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/message/message.h"
#include "ripc/group.h"
#include "util/list.h"
#include "util/timers.h"

struct fanout;
struct outgoing;
struct ripc_context;
struct ripc_service;

/* The part of a long message to a group that is sent to one member. */
struct delivery {
	struct ripc_delivery public;
	struct fanout *fanout;
	struct outgoing *outgoing; /* NULL: ended, and the items are free; or the part waits */
	bool waits;                /* the place of the member is not known yet */
};

/* A long message to a group. The struct lives until network and application are done with it. */
struct fanout {
	struct list node;             /* ctx->groups.fanouts */
	struct message message;       /* its COMPLETION or NOTICE */
	struct ripc_service *service; /* NULL: closed */
	struct ripc__timer timer;     /* until the fanout begins; until waiting parts are retried */
	uint64_t group, cookie, started_us, deadline_us;
	struct ripc_counts counts;
	struct delivery *deliveries;
	uint32_t n, n_open;           /* members; parts that wait or have not ended */
	uint32_t flags, n_items;
	int status;
	enum ripc_outcome outcome;
	bool begun, over;             /* over: all outcomes are known, and the items are free */
	bool waiter, reported, hurried;
	struct iovec items[];
};

/*
 * Begins a long message to a group (request->to). 0: the message is in progress, and goes to the
 * members that are known when the resolver's search is complete. -ENOENT: the group has no member.
 * If the request has no RIPC_NOWAIT, a call must wait until the fanout is over, and then end it.
 */
int ripc__fanout_start(struct ripc_service *service, const struct ripc_send *request,
		struct fanout **fanout);
/*
 * Gives the result to the call that waited, at the latest at its deadline, whether the fanout is
 * over or not. The fanout may be gone afterwards. Returns the status.
 */
int ripc__fanout_end(struct fanout *fanout, uint32_t *outcome, struct ripc_counts *counts);
/* The resolver knows all members. */
void ripc__fanouts_gathered(struct ripc_context *ctx, uint64_t group);
/* Cancels the service's fanouts with this cookie. True: there was one. */
bool ripc__fanouts_cancel(struct ripc_service *service, uint64_t cookie);
/* The service is closed: its outgoings have ended, or are orphans. */
void ripc__fanouts_orphan(struct ripc_service *service);
void ripc__fanouts_free(struct ripc_context *ctx);

/* Other rooms call these. The outgoing has ended. */
void ripc__delivery_ended(struct outgoing *outgoing);
/* The member has been silent about the message for a while. */
void ripc__delivery_silent(const struct outgoing *outgoing);
/* The application is done with the message. */
void ripc__fanout_told(struct message *message);
/* The application never receives the message: drops references that it would have got back. */
void ripc__fanout_untold(struct message *message);

/* The fanout of a COMPLETION; NULL: the COMPLETION is not of a message to a group. */
const struct fanout *ripc__fanout_of(const struct ripc_msg *completion);

#endif
