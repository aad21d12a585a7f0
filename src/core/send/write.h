/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies that are written into the return buffers of the asker. */
#ifndef RIPC_WRITE_H
#define RIPC_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/peer/devices.h"
#include "util/list.h"

struct outgoing;
struct ripc_context;

/* The reply has no use for the return buffers that its request offered. */
void ripc__offer_free(struct outgoing *outgoing);
/* Did the request offer return buffers, by the device that the route to the partner uses now? */
bool ripc__offer_is_here(const struct outgoing *outgoing);
/*
 * Begins to write a reply. told is called when the writing has ended, well or not, perhaps at
 * once. False: the reply must be announced.
 */
bool ripc__writing_start(struct outgoing *outgoing, void (*told)(struct outgoing *outgoing));
/* Stops the writing. Writes that have not ended keep the message's memory. */
void ripc__writing_leave(struct outgoing *outgoing);
/*
 * Has the device taken none of the reply's writes for long, because writes of other replies do
 * not end? Then the reply is announced instead; its partner does not count as gone.
 */
bool ripc__writing_give_up(struct outgoing *outgoing);
/* Is no write of the reply under way, because the device took none? */
bool ripc__writing_is_idle(const struct outgoing *outgoing);
void ripc__write_ended(struct ripc_context *ctx, uint64_t cookie, int status);
/* Begins more writes, as far as the devices take them. */
void ripc__writes_post(struct ripc_context *ctx);
/* The devices are closed. */
void ripc__writings_free(struct ripc_context *ctx);

#define CORKED_MAX 16u /* partners whose announcements wait for others */

/* The messages that a context sends. */
struct sends {
	struct list ended;         /* ended, but waited for, fencing, or with the application */
	struct list writings;      /* write.c */
	struct moves writes;       /* in progress */
	struct partner *corked[CORKED_MAX]; /* partners whose announcements wait; or NULL */
	uint32_t n_corked;
	uint64_t corked_due_us;    /* until when they wait */
	uint64_t nowait_us;        /* when the last RIPC_NOWAIT long was sent */
	uint64_t places;           /* of ordered messages */
	uint32_t n_orphans, n_gaps; /* of closed services: fencing messages; order.h */
};

#endif
