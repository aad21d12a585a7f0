/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers that are written straight into the return buffers of who asked: the permission that goes
 * along with the question (returns.c), and its use (write.c).
 */
#ifndef RIPC_RETURNS_H
#define RIPC_RETURNS_H

#include "core.h"

typedef int ripc__key_closer(void *dev, const struct ripc__key *key, uint64_t cookie);

/* What closes the key of a partner that may be using it now. */
static inline ripc__key_closer *ripc__revoker(const struct ripc__backend *ops)
{
	return ops->mem_revoke ? ops->mem_revoke : ops->mem_close;
}

/* ---- outgoing.c -------------------------------------------------------------------------- */

/* Announces it, perhaps again, as there is news of it: it is in the partner's return buffers, for
 * instance, or cannot be written there. One that is being cancelled is asked for again. */
void ripc__outgoing_tell(struct outgoing *outgoing);

/* ---- returns.c: ours, that partners may write into ----------------------------------------- */

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
	struct partner *partner; /* who can; NULL: it is gone */
	struct device *device;
	struct parked *parked;   /* what comes again when they are closed; or NULL */
	bool closing, orphan;    /* orphan: its service is closed and waits for it */
	uint32_t n, n_fencing;
	struct wire_return buffers[WIRE_RETURNS_MAX];
};

/*
 * What the question that lent this can say of it, so that the answer may be written there, in so
 * many bytes at most: sets packet->n_returns and ->offers, which stay valid until the permit goes.
 */
void ripc__returns_offer(struct partner *partner, uint64_t lends, uint32_t room,
		struct wire_packet *packet);
/* Nobody is to write into it any more; is_done: its partner says that it has. True: nobody can, and
 * there is no permit. */
bool ripc__returns_withdraw(struct lent *lent, bool is_done);
/* The lent memory goes, whatever is open. */
void ripc__returns_abandon(struct lent *lent);
/* The question was not delivered: its end waits until nobody can write. */
void ripc__returns_close(struct outgoing *outgoing);
/* An answer is here, and is authentic. False: its return buffers are still being closed; it comes
 * again by itself when they are. */
bool ripc__answer_may_land(struct partner *partner, const struct wire_packet *packet);
/* The message of an answer that was written; NULL: it was not written where it should have been. */
struct message *ripc__written_message(struct partner *partner, const struct wire_packet *packet);
/* The partner is gone, or forgotten. */
void ripc__permits_leave(struct partner *partner);
/* The service is closed: its permits are waited for, by ripc__orphans_wait(). */
void ripc__permits_orphan(struct ripc_service *service);
void ripc__permit_fenced(uint64_t cookie);
/* Is that the cookie of a permit, and not of something that was opened to be read? */
static inline bool ripc__is_permit(uint64_t cookie)
{
	return cookie & 1;
}
/* The devices are closed. */
void ripc__permits_free(struct ripc_context *ctx);

/* ---- write.c: theirs, that we may write into ----------------------------------------------- */

/* A question that is to be answered to the application says what may be written into. */
void ripc__offer_note(struct partner *partner, const struct wire_packet *packet);
/* An answer begins: what the question offered is its; NULL: nothing. No other answer has it. */
struct offer *ripc__offer_take(struct partner *partner, uint64_t id);
/* The answer has no use for it. */
void ripc__offer_free(struct outgoing *outgoing);
void ripc__offer_drop(struct partner *partner, uint64_t id);
/* It has one, and the route to its partner is by the device by which that came. */
bool ripc__offer_is_here(const struct outgoing *outgoing);
/* The partner is gone, or forgotten. */
void ripc__offers_forget(struct partner *partner);

/* Begins to write an answer; ripc__outgoing_tell() follows. False: it is to be announced. */
bool ripc__writing_start(struct outgoing *outgoing);
/* Stops that. What was asked for and has not ended keeps the message's memory. */
void ripc__writing_leave(struct outgoing *outgoing);
/* If none of its writes has been taken for long, as those of others do not end, it is announced
 * instead: that does not mean that its partner is silent. False: it is not so. */
bool ripc__writing_give_up(struct outgoing *outgoing);
/* Nothing of it is under way: the device took none. */
bool ripc__writing_is_idle(const struct outgoing *outgoing);
void ripc__write_ended(struct ripc_context *ctx, uint64_t cookie, int status);
/* Asks for more, as far as the devices take it. */
void ripc__writes_post(struct ripc_context *ctx);
/* The device's port is closed: nothing is written from there any more. */
void ripc__writings_deregister(struct ripc_context *ctx, const struct device *device);
/* The devices are closed. */
void ripc__writings_free(struct ripc_context *ctx);

/* ---- opened.c: what is read or written ----------------------------------------------------- */

/* The checksum of it: of all items but for the first bytes, which are carried. */
uint32_t ripc__moved_sum(const struct iovec *items, uint32_t n_items, uint64_t carried);

#endif
