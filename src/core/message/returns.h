/* SPDX-License-Identifier: BSD-3-Clause */
/* Return buffers that a partner may write its answer into: the permission in the question. */
#ifndef RIPC_RETURNS_H
#define RIPC_RETURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wire/wire.h"
#include "fence.h"
#include "util/list.h"

struct device;
struct lent;
struct message;
struct outgoing;
struct partner;
struct ripc_context;
struct ripc_service;

/* The answer that came while its return buffers were still being closed. */
struct parked {
	const struct device *device; /* by which it came, if the keys are good for that */
	uint32_t keys, len;
	bool intact;
	uint8_t bytes[];
};

/* Return buffers that their partner can write its answer into, until they are closed for sure. */
struct permit {
	struct fence fence;      /* of the question, if it was not delivered meanwhile */
	struct list node;        /* ctx->permits */
	struct ripc_context *ctx;
	struct lent *lent;       /* NULL: given up */
	struct partner *partner; /* that can write; NULL: gone */
	struct device *device;
	struct parked *parked;   /* the answer that comes again when they are closed; or NULL */
	bool closing, orphan;    /* orphan: its service is closed and waits for it */
	uint32_t n, n_fencing;
	struct wire_return buffers[WIRE_RETURNS_MAX];
};

/*
 * A question offers the return buffers it lent, so that the answer may be written there, in so many
 * bytes at most: sets packet->n_returns and ->offers, which stay valid until the permit goes.
 */
void ripc__returns_offer(struct partner *partner, uint64_t lends, uint32_t room,
		struct wire_packet *packet);
/* Nobody is to write into the lent memory any more; is_done: the partner says that it has written.
 * True: nobody can, and the permit is gone. */
bool ripc__returns_withdraw(struct lent *lent, bool is_done);
/* The lent memory goes, whatever is open. */
void ripc__returns_abandon(struct lent *lent);
/* The question was not delivered: its end waits (fencing) until nobody can write. */
void ripc__returns_close(struct lent *lent, struct outgoing *question, struct list *fencing);
/* An answer is here, and is authentic. False: its return buffers are still being closed; the answer
 * comes again by itself when they are. */
bool ripc__answer_may_land(struct partner *partner, const struct wire_packet *packet);
/* The message of a written answer; NULL: the answer was written elsewhere than offered. */
struct message *ripc__written_message(struct partner *partner, const struct wire_packet *packet);
/* The partner is gone, or forgotten. */
void ripc__permits_leave(struct partner *partner);
/* The service is closed: its permits are waited for, by ripc__orphans_wait(). */
void ripc__permits_orphan(struct ripc_service *service);
void ripc__permit_fenced(uint64_t cookie);

/* Is this the cookie of a permit, and not of items that were opened to be read? */
static inline bool ripc__is_permit(uint64_t cookie)
{
	return cookie & 1;
}

/* The devices are closed. */
void ripc__permits_free(struct ripc_context *ctx);

#endif
