/* SPDX-License-Identifier: BSD-3-Clause */
/* Announcements of long messages. */
#ifndef RIPC_ANNOUNCE_H
#define RIPC_ANNOUNCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/net/backend.h"
#include "core/objects.h"
#include "core/wire/wire.h"

struct longs;
struct outgoing;
struct partner;

#define BATCH_MAX       BATCHING_MAX /* announcements that are sent in one go */
#define BATCH_ITEMS     4u   /* items of a message in a batch, at most; others go alone */

/* Announcements to one partner on their way to the network. */
struct announcements {
	uint32_t n, n_iov;
	struct ripc__tx tx[BATCH_MAX];
	struct iovec iov[BATCH_MAX * (BATCH_ITEMS + 1)];
	uint8_t prefixes[BATCH_MAX][WIRE_HEADER_MAX + WIRE_ORDERED + WIRE_ANNOUNCE_BODY +
		8 * BATCH_ITEMS];
};

/*
 * Announces a message. The first announcement carries as many bytes as may be sent unasked. A
 * repeated one carries bytes only if the whole message fits. batch: the announcement may be sent
 * later, with others; NULL: it is sent now.
 */
void ripc__announce(struct outgoing *outgoing, struct announcements *batch);
/* An announcement that the network does not take is lost, and repeated later. */
void ripc__announcements_send(struct partner *partner, struct announcements *batch);
/* Requests that the receiver ends the message, or reports how it ended. */
void ripc__cancel_send(struct outgoing *outgoing);
/* The same for a number, whose message need not be known any more. */
void ripc__cancel_number(struct partner *partner, uint64_t number);
/* The oldest number of this row, of our messages, that is not resolved. */
uint64_t ripc__oldest_sent(const struct longs *longs);

/* ---- batching ---------------------------------------------------------------------------- */

/* Announcements that are sent together. */

/* May the announcement wait for others? True: it is sent soon; false: it must be sent now. */
bool ripc__batching_add(struct outgoing *outgoing);
void ripc__batching_forget(struct partner *partner);
/* Announces the messages that were held back. */
void ripc__batching_flush(struct ripc_context *ctx);

#endif
