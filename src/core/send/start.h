/* SPDX-License-Identifier: BSD-3-Clause */
/* How a long message begins. */
#ifndef RIPC_START_H
#define RIPC_START_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wire/wire.h"

struct call;
struct delivery;
struct outgoing;
struct partner;
struct ripc__member;
struct ripc_send;
struct ripc_service;

#define COPIED_MAX 512u /* bytes; the network never reads or writes so few by itself */

/* Properties of a long message beside those that its sender asks for. */
struct sending {
	uint64_t lends; /* 0: nothing is lent, and the message is no question */
	struct wire_call call;
	struct call *asked_by;
	struct delivery *delivery;
	struct partner *to; /* of an answer: the partner that asked; NULL: to be looked for */
	bool sums;   /* as in struct outgoing */
	bool queues; /* however many wait: ripc__member_is_full() was asked before */
	bool copies; /* up to COPIED_MAX bytes of items are copied: they are the caller's at once */
};

int ripc__outgoing_start(struct ripc_service *service, const struct ripc_send *request,
		const struct sending *like, struct outgoing **outgoing);
/*
 * Does a RIPC_NOWAIT send to a group meet -EAGAIN because of this member? Then a NOTICE follows
 * when it may be tried again.
 */
bool ripc__member_is_full(struct ripc_service *service, uint64_t group,
		const struct ripc__member *member);

#endif
