/* SPDX-License-Identifier: BSD-3-Clause */
/* Where long messages begin, and begin anew. */
#ifndef RIPC_MOVING_H
#define RIPC_MOVING_H

#include <stdbool.h>
#include <stdint.h>

#include "outgoing.h"

struct partner;

/* The message is new to the partner, in whose list it is not. */
void ripc__outgoing_begin(struct outgoing *outgoing, struct partner *partner);
/* The partner is lost: each ends by what is known, or moves to another incarnation. */
void ripc__outgoing_lost(struct partner *partner, int status, uint64_t gone_us);
/* The ID means somebody else now, or nobody: what certainly was not delivered goes there. */
void ripc__sends_pass_by(struct partner *partner);
/* Messages that wait for one partner go to another partner that stands for the same ID. */
void ripc__sends_merge(struct partner *from, struct partner *to);
/* Nothing that was sent to the partner has been delivered, or will be. */
void ripc__sends_fail(struct partner *partner, int status);

/* The partner has, or may have had, all that it needs to deliver it. */
static inline bool ripc__may_be_complete(const struct outgoing *outgoing)
{
	return outgoing->announced && (outgoing->exposed || outgoing->sent == outgoing->total);
}

/* The status of a message that was not delivered: of a cancelled one, that it was cancelled. */
static inline int ripc__status_of(const struct outgoing *outgoing, int status)
{
	return outgoing->cancel_status ? outgoing->cancel_status : status;
}

/*
 * The receiver has given it up, as we were silent: we may have been stopped. True: it begins again
 * there, if there is time.
 */
bool ripc__outgoing_begins_again(struct outgoing *outgoing, uint32_t status);
/* Its receiver is leaving. */
void ripc__outgoing_refused(struct outgoing *outgoing);

#endif
