/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that are received. */
#ifndef RIPC_INCOMING_H
#define RIPC_INCOMING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/message/message.h"
#include "core/message/move.h"
#include "core/partner/packet.h"
#include "core/peer/devices.h"
#include "core/wire/wire.h"
#include "util/list.h"
#include "util/timers.h"

struct lent;

/* A range of an incoming message that arrived before the bytes in front of it. */
struct piece {
	uint64_t start, end;
	uint64_t seen_us;  /* when the gap before the piece was noticed */
	uint64_t asked_us, asked_limit; /* when the gap was asked for, limit then; 0: never */
	uint32_t crc;      /* of the piece's bytes */
	uint32_t seen_at;  /* incoming->arrivals at seen_us */
};

/* A long message that we receive. */
struct incoming {
	struct list node;          /* partner->incoming */
	struct list granted;       /* ctx->receives.granted or ctx->receives.ungranted */
	struct partner *partner;
	struct ripc__timer timer;
	struct message *message;   /* with its places; NULL after the message went to the queue */
	struct lent *lent;         /* return buffers in use; NULL: none */
	struct reading *reading;   /* NULL: the message is not read but pulled */
	uint64_t number, total, previous; /* previous: delivered before this one; 0: none */
	struct quota quota;       /* pool memory of the message's places, */
	enum share share;          /* and of which share */
	uint64_t have;             /* bytes [0, have) are here */
	uint64_t ready;            /* bytes [0, ready) have pages where they land */
	uint64_t got;              /* bytes [0, ready) have pages at their places */
	uint64_t high;             /* end of the furthest byte that arrived */
	uint64_t limit;            /* bytes [0, limit) were granted */
	uint64_t in_flight;        /* of limit - got: bytes taken to be on their way */
	uint64_t counted;          /* of SHARE_CREDIT, for in_flight */
	uint64_t heard_us, started_us; /* heard_us: last packet of the sender about the message */
	uint64_t arrived_us;       /* when bytes last arrived, or the wait for them began anew */
	uint64_t resent_us;        /* when holes were last asked for; 0: the request was judged */
	uint64_t asked_us;         /* when holes, not all filled, were last asked for; 0: never */
	uint32_t crc, sum;         /* of [0, have); the sender's of the whole, if sum_known */
	uint32_t wait_us;
	uint32_t arrivals;         /* datagrams that arrived */
	uint32_t unsettled;        /* bytes that ripc__arrivals_settle() has yet to count */
	uint32_t fresh;            /* pieces since holes were last asked for */
	uint32_t silences;         /* waits in a row without any arrival */
	uint32_t n_pieces, max_pieces;
	uint32_t datagram_bytes;   /* payload of the longest DATA packet so far */
	uint32_t cursor_item;      /* the place that contains byte cursor_start */
	uint64_t cursor_start;
	bool sum_known, is_granted, first_grant, ordered;
	bool unreadable, complete; /* reading failed; all is here, and waits for its turn */
	bool settled;              /* the message has no places that may be released */
	struct piece *pieces;
};

/*
 * The reading of a long message from its sender's memory. If the message is given up meanwhile,
 * its places (mover.places) live here until the last read has ended.
 */
struct reading {
	struct mover mover;        /* given up: mover.node is in receives.lingering */
	struct incoming *incoming; /* NULL: given up */
	struct ripc_service *service; /* given up: the owner of the places; NULL: closed as well */
	struct lent *lent;         /* given up: return buffers in use; or NULL */
	uint32_t told;             /* the sender's sum of all blocks, where sums are compared */
	bool is_told;              /* the sender's sum is here, or is not needed */
	bool failed;
};

/* Ends the message undelivered and remembers the refusal; tell: the sender is notified. */
void ripc__incoming_refuse(struct incoming *incoming, int status, bool tell);
/*
 * Return buffers are taken back: ends the incoming message, if any, that is received into them,
 * as ripc__incoming_refuse().
 */
void ripc__incoming_stop(struct ripc_context *ctx, const struct lent *lent);
void ripc__incoming_forget(struct incoming *incoming);
/* The service is closed: places that reads still write to belong to it no more. */
void ripc__readings_orphan(struct ripc_service *service);
/* The devices are closed. */
void ripc__readings_free(struct ripc_context *ctx);

/* Bytes of memory that an announced message takes if it arrived whole. */
static inline uint64_t ripc__whole_bytes(const struct wire_packet *packet)
{
	return sizeof(struct message) + packet->n_items * sizeof(struct iovec) +
		packet->payload_len;
}

/* ---- permit ------------------------------------------------------------------------------ */

/* Messages of a partner that has no right to send to our service. */

/*
 * May this SHORT or new ANNOUNCE be accepted, though the partner was denied when it was last
 * judged? It may if the partner has the right now, or if it is the reply to a message of our
 * service: to an open call, or into return buffers that wait for it. Otherwise a log line names
 * the refused partner.
 */
bool ripc__is_permitted(struct partner *partner, const struct wire_packet *packet);

/* ---- arrive ------------------------------------------------------------------------------ */

/* Packets of long messages that arrive. */

/* The packet types for the receiver of messages, except SHORT and DATA (engine/input.c). */
extern packet_handler *const ripc__receive_handlers[WIRE_TYPE_END];

/* An announcement, or bytes, came from this partner. The message may end; the partner stays. */
void ripc__incoming_announce(struct partner *partner, const struct wire_packet *packet);
void ripc__incoming_data(struct partner *partner, const struct wire_packet *packet);
/* A look at a port ends: its bytes count for credit and window, and more bytes are requested. */
void ripc__arrivals_settle(struct ripc_context *ctx);

/* ---- short ------------------------------------------------------------------------------- */

/* Short messages that arrive. */

/* A short message came from this partner: it is queued, parked, or dropped and counted. */
void ripc__short_input(struct partner *partner, const struct wire_packet *packet);
/* As ripc__short_input(), where the packet's number is one of these. */
void ripc__short_numbered(struct partner *partner, const struct wire_packet *packet,
		struct numbers *numbers);
/*
 * A short message of this partner, verified, is refused: no copy of it is accepted later. False:
 * it has been accepted or refused before, or is too old to tell.
 */
bool ripc__short_spend(struct partner *partner, const struct wire_packet *packet);
/* As ripc__short_input(), for a plain packet (wire/wire.h) that came by the partner's route. */
void ripc__short_plain(struct partner *partner, const struct wire_packet *packet);

#endif
