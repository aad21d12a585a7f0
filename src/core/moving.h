/* SPDX-License-Identifier: BSD-3-Clause */
/* Where long messages begin, and begin anew. */
#ifndef RIPC_MOVING_H
#define RIPC_MOVING_H

#include "core.h"

/* The partner has, or may have had, all that it needs to deliver it. */
static inline bool ripc__may_be_complete(const struct outgoing *outgoing)
{
	return outgoing->announced && (outgoing->exposed || outgoing->sent == outgoing->total);
}

/* What to say of one that was not delivered: who cancelled it hears that. */
static inline int ripc__status_of(const struct outgoing *outgoing, int status)
{
	return outgoing->cancel_status ? outgoing->cancel_status : status;
}

/* While bytes are still to be sent, the reader's sleep follows the timers exactly (wait.c). */
void ripc__busy_update(struct outgoing *outgoing);
/* Its receiver is leaving. */
void ripc__outgoing_refused(struct outgoing *outgoing);

#endif
