/* SPDX-License-Identifier: BSD-3-Clause */
/* Where long messages begin anew. */
#ifndef RIPC_MOVING_H
#define RIPC_MOVING_H

#include <stdbool.h>
#include <stdint.h>

#include "outgoing.h"

struct partner;

/* The partner is lost: each message to it ends, or moves to another incarnation. */
void ripc__outgoing_lost(struct partner *partner, int status, uint64_t gone_us);
/* The ID means another partner now, or none: messages certainly not delivered are moved. */
void ripc__sends_pass_by(struct partner *partner);
/* Messages that wait for one partner go to another partner that stands for the same ID. */
void ripc__sends_merge(struct partner *from, struct partner *to);
/* No message in progress to the partner was delivered, or will be: all end with status. */
void ripc__sends_fail(struct partner *partner, int status);

/* May the partner have had all that it needs to deliver the message? */
static inline bool ripc__may_be_complete(const struct outgoing *outgoing)
{
	return outgoing->announced && (outgoing->exposed || outgoing->sent == outgoing->total);
}

/* The status of a message that was not delivered; a cancelled one has its cancel_status. */
static inline int ripc__status_of(const struct outgoing *outgoing, int status)
{
	return outgoing->cancel_status ? outgoing->cancel_status : status;
}

/*
 * The receiver has given the message up because we were silent: our process may have been stopped.
 * True: the message begins again with the same receiver, if there is time.
 */
bool ripc__outgoing_begins_again(struct outgoing *outgoing, uint32_t status);
/* The receiver refuses the message, as it is leaving. */
void ripc__outgoing_refused(struct outgoing *outgoing);

#endif
