/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages that are sent. */
#ifndef RIPC_OUTGOING_H
#define RIPC_OUTGOING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/message/message.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/wire/wire.h"
#include "ripc/ripc.h"
#include "util/list.h"
#include "util/timers.h"

struct delivery;
struct offer;
struct exposed;
struct ripc__member;
struct writing;

#define PULL_MAX           (2ull << 20) /* bytes sent for one PULL */

enum outgoing_state {
	OUT_WAITING,    /* waits for the resolver, or for a number */
	OUT_ACTIVE,
	OUT_CANCELLING, /* asked to cancel, waits for the partner's answer */
	OUT_FENCING,    /* the outcome is decided, but the network may still use the memory */
	OUT_ENDED,
};

/*
 * A long message that we send. The object lives until the message has ended, no call waits for it,
 * the application does not hold its COMPLETION or NOTICE, and no partner can read its items.
 */
struct outgoing {
	struct list node;
	struct message message; /* its COMPLETION or NOTICE */
	struct ripc_service *service; /* NULL: closed while it was fencing */
	struct partner *partner;
	struct ripc__timer timer;
	struct exposed *exposed;  /* items that the partner can read; NULL: none */
	struct offer *offer;    /* the partner's return buffers to write into; NULL: none */
	struct writing *writing; /* the writing into these buffers; NULL: none */
	struct list fencing;    /* struct fence: memory that the network may still use */
	uint64_t number, previous, to, to_incarnation, total; /* previous: order.h */
	uint64_t cookie, lends, replies, place; /* place: among all ordered ones (order.h) */
	struct wire_call call;  /* of a request, reply or part of a message to a group: the
	                           application gets no report of its end */
	struct call *asked_by;  /* of a request: the call that gets the report; NULL: ended */
	struct delivery *delivery; /* the part of a message to a group that this is; or NULL */
	uint64_t started_us, deadline_us;
	uint64_t heard_us;      /* last authentic packet of the partner about this message */
	uint64_t told_us;       /* when the message was first announced to this partner */
	uint64_t sent, limit;   /* bytes sent once; bytes that may be sent */
	uint64_t resend_left;   /* bytes that may be repeated now, without waiting */
	uint64_t resend_us;     /* when resend_left last grew with time */
	uint64_t asked_us;      /* when the asked_ fields were set */
	uint64_t asked_have, asked_missing; /* of the last PULL with holes: have, bytes in holes */
	uint32_t asked_same;    /* PULLs in a row that requested the same */
	uint32_t crc;           /* of bytes [0, sent) */
	uint32_t sum;           /* of bytes not sent in datagrams, if needed (summed) */
	uint32_t wait_us;       /* of the repetition timer */
	uint32_t unasked;       /* its part of partner->under_way */
	uint32_t n_items, n_holes, flags;
	uint8_t state, outcome, cut; /* cut: enum order_cut */
	bool waiter;            /* a call waits for this message */
	bool reported;          /* the COMPLETION or NOTICE is queued or with the application */
	bool by_time;          /* bytes are repeated by time, not because the partner asks */
	bool announced, busy, no_room, gap;
	bool mapped;            /* given, and the receiver has it mapped */
	bool summed;
	bool direct;	 /* for this very partner, even if another owns its ID; */
	bool by_handle;  /* chosen by its handle: the ID does not matter */
	bool sums;              /* the sending call computes sum, if it announces at once */
	bool written;           /* all but carried bytes are in the partner's return buffers */
	bool had_keys;           /* this partner has had keys, and may have all bytes */
	bool unopenable;        /* the device cannot open the items to this partner */
	int status;
	int cancel_status;      /* the status reported when the partner confirms the cancel */
	struct wire_range holes[WIRE_HOLES_MAX];
	struct iovec items[];
};

/* The row of numbers of a message that is with a partner. */
static inline struct longs *ripc__row_of(const struct outgoing *outgoing)
{
	struct partner *partner = outgoing->partner;

	return wire_answers(&outgoing->call) ? partner->replies : &partner->longs;
}

/* The packet types that the sender of messages takes: those of the receiver. */
extern packet_handler *const ripc__send_handlers[WIRE_TYPE_END];

/* Repeats announcements to the partner at once. */
void ripc__outgoing_hasten(struct partner *partner);
/* The partner is ready for announcements: numbers and starts the messages that wait. */
void ripc__outgoing_advance(struct partner *partner);
/*
 * The partner asks for announcements again. forgotten: the partner has also forgotten the bytes
 * it received; repeat: the announcements are sent now, not when they are due.
 */
void ripc__outgoing_again(struct partner *partner, bool forgotten, bool repeat);
void ripc__outgoing_answer(struct partner *partner, const struct wire_ack *ack);
/* True: messages that have not ended now were not delivered, and will not be. */
bool ripc__outgoing_last_words(struct partner *partner, const struct wire_ack *ack);
void ripc__outgoing_cancel(struct outgoing *outgoing, int status);
/* The message's deadline has passed. */
void ripc__outgoing_expire(struct outgoing *outgoing);
/* The message's deadline is this one, if it is earlier. */
void ripc__outgoing_hurry(struct outgoing *outgoing, uint64_t deadline_us);
/*
 * Announces the message, perhaps again, because of news: for instance, the message is in the
 * partner's return buffers, or cannot be written there. A message that is being cancelled is
 * cancelled once more.
 */
void ripc__outgoing_tell(struct outgoing *outgoing);

/* ---- start ------------------------------------------------------------------------------- */

/* How a long message begins. */

#define COPIED_MAX 512u /* bytes; the network never reads or writes so few by itself */

/* Properties of a long message beside those that its sender chooses. */
struct sending {
	uint64_t lends; /* 0: no buffers are posted, and the message is no request */
	struct wire_call call;
	struct call *asked_by;
	struct delivery *delivery;
	struct partner *to; /* of a reply: the requester; NULL: to be looked for */
	bool sums;   /* as in struct outgoing */
	bool queues; /* however many wait: ripc__member_is_full() was called before */
	bool copies; /* up to COPIED_MAX bytes of items are copied: the caller owns them at once */
};

int ripc__outgoing_start(struct ripc_service *service, const struct ripc_send *request,
		const struct sending *like, struct outgoing **outgoing);
/*
 * Does a RIPC_NOWAIT send to a group meet -EAGAIN because of this member? Then a NOTICE follows
 * when the send may be tried again.
 */
bool ripc__member_is_full(struct ripc_service *service, uint64_t group,
		const struct ripc__member *member);

/* ---- moving ------------------------------------------------------------------------------ */

/* Where long messages begin anew. */

/* The partner is lost: each message to it ends, or moves to another incarnation. */
void ripc__outgoing_lost(struct partner *partner, int status, uint64_t gone_us);
/* The ID has another owner now, or none: messages certainly not delivered are moved. */
void ripc__sends_pass_by(struct partner *partner);
/* Messages that wait for one partner move to another partner of the same ID. */
void ripc__sends_merge(struct partner *from, struct partner *to);
/* No message in progress to the partner was delivered, or will be: all end with status. */
void ripc__sends_fail(struct partner *partner, int status);

/* May the partner have had all that it needs to deliver the message? */
static inline bool ripc__may_be_complete(const struct outgoing *outgoing)
{
	return outgoing->announced && (outgoing->had_keys || outgoing->sent == outgoing->total);
}

/* The status of a message that was not delivered; a cancelled one has its cancel_status. */
static inline int ripc__status_of(const struct outgoing *outgoing, int status)
{
	return outgoing->cancel_status ? outgoing->cancel_status : status;
}

/* ---- ended ------------------------------------------------------------------------------- */

/* The end of long messages that we send. */

/* The network is done with the fence's memory, which does not delay its message any more. */
void ripc__fence_lift(struct fence *fence);
/* The service is closed: the end of its messages that are fencing is not reported. */
void ripc__outgoing_orphan(struct ripc_service *service);
/* The call that waited for it, or the application with its message, is done with the outgoing. */
void ripc__outgoing_put(struct outgoing *outgoing);
/* The application is done with this COMPLETION or NOTICE. */
void ripc__outgoing_freed(struct message *message);
/*
 * The application never receives this COMPLETION or NOTICE, because the service is closed:
 * references that would be the application's again are dropped.
 */
void ripc__outgoing_untold(struct message *message);
/* The devices are closed: partners hold no given memory, and read nothing. */
void ripc__ended_let_go(struct ripc_context *ctx);

/* Bytes of the last extensions in the message's announcement. */
static inline uint32_t ripc__extra_bytes(const struct outgoing *outgoing)
{
	return (outgoing->flags & RIPC_ORDERED ? WIRE_ORDERED : 0) +
		(outgoing->call.kind ? WIRE_CALL : 0);
}

/* Can the network of the receiver read memory at all? */
static inline bool ripc__can_be_read(const struct outgoing *outgoing)
{
	struct ripc_context *ctx = outgoing->message.ctx;

	return ripc__peer_device(ctx, outgoing->partner->peer)->attr.caps & RIPC_CAP_READ;
}

#endif
