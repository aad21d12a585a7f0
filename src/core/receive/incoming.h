/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages that are received. */
#ifndef RIPC_INCOMING_H
#define RIPC_INCOMING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/peer/share.h"
#include "util/list.h"
#include "util/timers.h"

struct lent;
struct message;
struct partner;
struct reading;
struct ripc_context;
struct wire_packet;

/* A range of an incoming message that arrived before what precedes it. */
struct piece {
	uint64_t start, end;
	uint64_t seen_us;  /* when the gap before it was noticed */
	uint64_t asked_us, asked_limit; /* the gap was asked for, and the limit then; 0: never */
	uint32_t crc;      /* of its bytes */
	uint32_t seen_at;  /* incoming->arrivals then */
};

/* A long message that we receive. */
struct incoming {
	struct list node;          /* partner->incoming */
	struct list granted;       /* ctx->granted or ctx->ungranted */
	struct partner *partner;
	struct ripc__timer timer;
	struct message *message;   /* with places; NULL after it went to the queue */
	struct lent *lent;         /* return buffers in use; NULL: none */
	struct reading *reading;   /* NULL: the message is not read but pulled */
	uint64_t number, total, previous; /* that must be handed out before it; 0: none */
	struct holding held;       /* of the pool, by its places */
	uint64_t have;             /* contiguous from 0 */
	uint64_t ready;            /* so many bytes have pages where they land */
	uint64_t got;              /* all bytes that arrived */
	uint64_t high;             /* end of the furthest byte that arrived */
	uint64_t limit;            /* bytes before this were granted */
	uint64_t in_flight;        /* of limit - got: bytes taken to be on their way */
	uint64_t counted;          /* of SHARE_CREDIT for that */
	uint64_t heard_us, started_us; /* heard_us: any word of the sender about it */
	uint64_t arrived_us;       /* when bytes came last, or the wait for them began anew */
	uint64_t resent_us;        /* when holes were last asked for; 0: that was judged */
	uint64_t asked_us;         /* when holes were last asked for, and not all came; 0: never */
	uint32_t crc, sum;         /* of [0, have); the sender's of the whole, if it is known */
	uint32_t wait_us;
	uint32_t arrivals;         /* of datagrams */
	uint32_t unsettled;        /* bytes that ripc__arrivals_settle() has yet to count */
	uint32_t fresh;            /* pieces since holes were last asked for */
	uint32_t silences;         /* waits in a row that ended in silence */
	uint32_t n_pieces, max_pieces;
	uint32_t datagram_bytes;   /* payload of the longest DATA packet so far */
	uint32_t cursor_item;      /* the place that contains byte cursor_start */
	uint64_t cursor_start;
	bool sum_known, is_granted, first_grant;
	bool unreadable, complete; /* reading it was tried in vain; it waits for its turn */
	bool settled;              /* its message has no places that may be given back */
	struct piece *pieces;
};

/*
 * One more incoming message of a partner; fire: its timer's callback. message: NULL, or the whole
 * message, which came in one packet and stays the caller's if there is no memory. NULL: no room.
 */
struct incoming *ripc__incoming_alloc(struct partner *partner,
		const struct wire_packet *packet, struct message *message,
		void (*fire)(void *owner, struct ripc__timer *timer));
/* Ends the message undelivered and remembers the refusal; tell: the sender hears of it. */
void ripc__incoming_refuse(struct incoming *incoming, int status, bool tell);
/* The same of the one, if any, that comes into these return buffers: they are taken back. */
void ripc__incoming_stop(struct ripc_context *ctx, const struct lent *lent);
void ripc__incoming_forget(struct incoming *incoming);
/* NULL: no message of that number is being received. */
struct incoming *ripc__incoming_find(struct partner *partner, uint64_t number);
/* Unlinks and frees the message, whatever became of it. Its credit goes to messages that wait. */
void ripc__incoming_free(struct incoming *incoming);

#endif
