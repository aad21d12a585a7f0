/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages that are sent. */
#ifndef RIPC_OUTGOING_H
#define RIPC_OUTGOING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/message/message.h"
#include "core/wire/wire.h"
#include "util/list.h"
#include "util/timers.h"

struct call;
struct offer;
struct opened;
struct partner;
struct ripc_service;
struct writing;

#define PULL_MAX           (2ull << 20) /* bytes sent for one PULL */

enum outgoing_state {
	OUT_WAITING,   /* for the resolver, or for a number */
	OUT_ACTIVE,
	OUT_CANCELLING, /* asked to cancel, waiting for the answer */
	OUT_FENCING,    /* decided, but the partner may still be able to read the items */
	OUT_ENDED,
};

/*
 * A long message that we send. Lives until it has ended, nobody waits or holds its message, and
 * nobody can read its items.
 */
struct outgoing {
	struct list node;
	struct message message; /* its COMPLETION or NOTICE */
	struct ripc_service *service; /* NULL: closed while it was fencing */
	struct partner *partner;
	struct ripc__timer timer;
	struct opened *opened;  /* what the partner can read; NULL: nothing */
	struct offer *offer;    /* its return buffers; NULL: not to be written into */
	struct writing *writing; /* it is being written there; NULL: it is not */
	struct list fencing;    /* struct fence: what the network may still use */
	uint64_t number, previous, to, to_incarnation, total; /* previous: order.h */
	uint64_t cookie, lends, replies, place; /* place: among all ordered ones (order.h) */
	struct wire_call call;  /* it is a question or an answer, of which nobody is told the end */
	struct call *asked_by;  /* but this one, of a question; NULL: it has ended */
	uint64_t started_us, deadline_us;
	uint64_t heard_us;      /* last authentic word of the partner about this message */
	uint64_t told_us;       /* when this partner was first told of it */
	uint64_t sent, limit;   /* bytes sent once; bytes that may be sent */
	uint64_t resend_left;   /* bytes that may be sent again before time has passed */
	uint64_t resend_us;     /* when time was last counted for that */
	uint64_t asked_us;      /* when that was counted */
	uint64_t asked_have, asked_missing; /* of the last PULL with holes: have, bytes in holes */
	uint32_t asked_same;    /* PULLs in a row that asked for the same */
	uint32_t crc;           /* of bytes [0, sent) */
	uint32_t sum;           /* of what others move, if it was needed (summed) */
	uint32_t wait_us;       /* of the repetition timer */
	uint32_t unasked;       /* of partner->under_way */
	uint32_t n_items, n_holes, flags;
	uint8_t state, outcome, cut; /* cut: enum order_cut */
	bool waiter;            /* a call waits for it */
	bool reported;          /* its message is queued or with the application */
	bool is_guess;          /* it is repeated by time, not because the partner asks */
	bool announced, busy, no_room, gap, held; /* held: given, mapped by who got it (ended.c) */
	bool summed;
	bool direct;	 /* an answer to this very partner, whoever it is */
	bool sums;              /* the call that sends it computes that, if it is announced now */
	bool written;           /* all but what goes along is in the partner's return buffers */
	bool exposed;           /* this partner was told how to read it: it may have all */
	bool unopenable;        /* the device cannot open its memory to this partner */
	int status;
	int cancel_status;      /* what to report when the partner confirms the cancel */
	struct wire_range holes[WIRE_HOLES_MAX];
	struct iovec items[];
};

/* Repeats at once what has been announced. */
void ripc__outgoing_hasten(struct partner *partner);
/* Of its timer. */
void ripc__outgoing_fire(void *owner, struct ripc__timer *timer);
/* The partner became ready for announcements: number and start what waits. */
void ripc__outgoing_advance(struct partner *partner);
/* It asks to be told again; forgotten: what it received, too; repeat: now, not when it is due. */
void ripc__outgoing_again(struct partner *partner, bool forgotten, bool repeat);
void ripc__outgoing_pull(struct partner *partner, const struct wire_packet *packet);
void ripc__outgoing_answer(struct partner *partner, const struct wire_ack *ack);
/* True: what has not ended now has not been delivered, and will not be. */
bool ripc__outgoing_last_words(struct partner *partner, const struct wire_ack *ack);
void ripc__outgoing_cancel(struct outgoing *outgoing, int status);
/* Its deadline has passed. */
void ripc__outgoing_expire(struct outgoing *outgoing);
/* Announces it, perhaps again, as there is news of it: it is in the partner's return buffers, for
 * instance, or cannot be written there. One that is being cancelled is asked for again. */
void ripc__outgoing_tell(struct outgoing *outgoing);

#endif
