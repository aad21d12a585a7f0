/* SPDX-License-Identifier: BSD-3-Clause */
/* Permits: a request lets its partner write the reply into the return buffers. */
#ifndef RIPC_RETURNS_H
#define RIPC_RETURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wire/wire.h"
#include "message.h"
#include "ripc/ripc.h"
#include "util/list.h"

struct lent;
struct outgoing;
struct partner;
struct ripc_context;
struct ripc_service;

/* A reply that came while its return buffers were still being closed. */
struct early_reply {
	const struct device *device; /* the reply came by this one, which its keys are for */
	uint32_t keys, len;
	bool intact;
	uint8_t bytes[];
};

/* Lets a partner write its reply into return buffers, until the buffers are surely closed. */
struct permit {
	struct fence fence;      /* in the request, if it was not delivered */
	struct list node;        /* ctx->messages.permits */
	struct ripc_context *ctx;
	struct lent *lent;       /* NULL: given up */
	struct partner *partner; /* the partner that can write; NULL: gone */
	struct device *device;
	struct early_reply *early;   /* a reply, input again when the buffers are closed; or NULL */
	bool closing, orphan;    /* orphan: the service is closed and waits for the permit */
	uint32_t n, n_fencing;
	struct wire_return buffers[WIRE_RETURNS_MAX];
};

/*
 * A request offers the return buffers that it lent: the reply may be written there. Sets
 * packet->n_returns and ->offers, which take at most room bytes, and are valid until the permit
 * ends.
 */
void ripc__returns_offer(struct partner *partner, uint64_t lends, uint32_t room,
		struct wire_packet *packet);
/*
 * Closes the lent memory to the partner. is_done: the partner has reported that it has written.
 * True: the partner cannot write any more, and the permit is gone.
 */
bool ripc__returns_withdraw(struct lent *lent, bool is_done);
/* The request was not delivered: its end waits (fencing) until no partner can write. */
void ripc__returns_close(struct lent *lent, struct outgoing *request, struct list *fencing);
/*
 * An authentic reply is here. False: its return buffers are still being closed; the reply is input
 * again when they are closed.
 */
bool ripc__answer_may_land(struct partner *partner, const struct wire_packet *packet);
/* The message of a written reply; NULL: the reply was not written where it was offered. */
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

/* ---- lent -------------------------------------------------------------------------------- */

/* Loans: return buffers that are lent to partners. */

/* Return buffers lent to a partner for one reply. */
struct lent {
	struct list node; /* service->lent */
	uint64_t id, to, cookie;
	bool of_call;     /* lent by a request: only its reply lands here */
	bool in_use;
	bool cancelled;   /* the loan is taken back as soon as it is not in use */
	struct permit *permit; /* lets the partner write; NULL: no partner can write */
	uint64_t exposed_for;   /* the incarnation that could write; 0: none */
	const struct device *exposed_on; /* the device by which it could write */
	uint8_t exposed;        /* bit i: buffer i was opened to that incarnation */
	uint32_t n;
	struct ripc_buffer buffers[];
};

/* The loan of this ID, in use or not; NULL: none. The newest is found first. */
struct lent *ripc__lent_by_id(struct ripc_service *service, uint64_t id);
/*
 * The loan that this message of the partner answers, if the message may fill the loan's buffers
 * now.
 */
struct lent *ripc__lent_for(const struct partner *partner, const struct wire_packet *packet);
void ripc__lent_free(struct lent *lent);
/* Takes back the loan of this ID, if there is one. */
void ripc__lend_end(struct ripc_service *service, uint64_t id);
/* Can these return buffers be lent? */
bool ripc__returns_are_sane(const struct ripc_buffer *returns, uint32_t n);
/*
 * Lends the return buffers of the request. ripc__lend() draws an ID; *id is 0 if the request has
 * none. ripc__lend_as() uses id, which no loan has.
 */
int ripc__lend(struct ripc_service *service, const struct ripc_send *request, uint64_t *id);
int ripc__lend_as(struct ripc_service *service, const struct ripc_send *request, uint64_t id);

/* ---- offers ------------------------------------------------------------------------------ */

/* Return buffers that partners offer with their requests, for the replies. */

struct offer {
	struct list node;    /* ctx->messages.offers, oldest first */
	struct partner *partner;
	struct device *device;
	uint64_t id;         /* the ID under which the buffers were lent */
	uint32_t n;
	struct wire_return buffers[];
};

/* Keeps the offer of a request that the application will reply to. */
void ripc__offer_note(struct partner *partner, const struct wire_packet *packet);
/* A reply begins, and takes the offer of its request; NULL: there is none. */
struct offer *ripc__offer_take(struct partner *partner, uint64_t id);
/* The reply does not use the offer. */
void ripc__offer_drop(struct partner *partner, uint64_t id);
/* The partner is gone, or forgotten. */
void ripc__offers_forget(struct partner *partner);

#endif
