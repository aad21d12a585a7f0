/* SPDX-License-Identifier: BSD-3-Clause */
/* Permits: a question lets its partner write the answer into the return buffers. */
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
	const struct device *device; /* the device by which it came, if its keys are for that one */
	uint32_t keys, len;
	bool intact;
	uint8_t bytes[];
};

/* Lets a partner write its answer into return buffers, until the buffers are surely closed. */
struct permit {
	struct fence fence;      /* of the question, if it was not delivered meanwhile */
	struct list node;        /* ctx->permits */
	struct ripc_context *ctx;
	struct lent *lent;       /* NULL: given up */
	struct partner *partner; /* the partner that can write; NULL: gone */
	struct device *device;
	struct parked *parked;   /* an answer, input again when the buffers are closed; or NULL */
	bool closing, orphan;    /* orphan: the service is closed and waits for the permit */
	uint32_t n, n_fencing;
	struct wire_return buffers[WIRE_RETURNS_MAX];
};

/*
 * A question offers the return buffers that it lent, so that the answer may be written there. Sets
 * packet->n_returns and ->offers, which take at most room bytes, and are valid until the permit
 * goes.
 */
void ripc__returns_offer(struct partner *partner, uint64_t lends, uint32_t room,
		struct wire_packet *packet);
/*
 * Closes the lent memory to the partner; is_done: the partner says that it has written. True: the
 * partner cannot write any more, and the permit is gone.
 */
bool ripc__returns_withdraw(struct lent *lent, bool is_done);
/* The lent memory goes, even if buffers are still open. */
void ripc__returns_abandon(struct lent *lent);
/* The question was not delivered: its end waits (fencing) until no partner can write. */
void ripc__returns_close(struct lent *lent, struct outgoing *question, struct list *fencing);
/*
 * An authentic answer is here. False: its return buffers are still being closed; the answer is
 * input again when they are closed.
 */
bool ripc__answer_may_land(struct partner *partner, const struct wire_packet *packet);
/* The message of a written answer; NULL: the answer was written elsewhere than offered. */
struct message *ripc__written_message(struct partner *partner, const struct wire_packet *packet);
/* The partner is gone, or forgotten. */
void ripc__permits_leave(struct partner *partner);
/* The service is closed: ripc__orphans_wait() waits for its permits. */
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
