/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files offer each other that take in long messages: announced, placed, read or collected.
 */
#ifndef RIPC_RECEIVING_H
#define RIPC_RECEIVING_H

#include "core.h"

/* A read in progress; its address is the read's cookie. */
struct read_slot {
	struct reading *reading;
	void *mem;
	uint64_t end;  /* where it ends in the message */
	size_t len;    /* 0: free */
};

/*
 * An attempt to get a long message by reading it. If the message is given up meanwhile, its places
 * live here until the last read has ended.
 */
struct reading {
	struct list node;          /* ctx->readings or ctx->lingering, or of its own */
	struct incoming *incoming; /* NULL: given up */
	struct ripc_service *service; /* given up: whose places they are; NULL: closed as well */
	struct message *message;   /* given up: with the places */
	struct lent *lent;
	struct device *device;
	uint64_t next;             /* bytes before this have been asked for */
	uint64_t item_start;       /* where the item begins that contains it */
	uint64_t got;
	uint64_t moved_us;         /* when a read was last taken, or ended */
	struct remote remote;      /* where it is read */
	uint32_t item, n_items, n_busy;
	uint64_t sum;              /* of the blocks that have come */
	uint32_t told;             /* the sender's sum of all, where it is compared */
	bool is_told;              /* it need not be waited for */
	bool failed;
	struct read_slot slots[READS_OF_ONE];
	struct read_item {
		struct ripc__key key;
		void *region;
	} items[];
};

/* ---- read.c ------------------------------------------------------------------------------ */
/* Begins to read an announced message. False: it is to be pulled. */
bool ripc__reading_start(struct incoming *incoming, const struct wire_packet *announce);
/* It was announced again. True: with the checksum that was still missing; it may be at its end. */
bool ripc__reading_told(struct reading *reading, const struct wire_packet *announce);
/* Asks for no more, and pulls the message when the last read has ended. */
void ripc__reading_fail(struct reading *reading);
/* The device has taken none of its reads for long. */
bool ripc__reading_is_stuck(const struct reading *reading);
/* The incoming is given up. True: its message and what was lent are released when the reads that
 * are in progress have ended. */
bool ripc__reading_leave(struct reading *reading);
/* A read has ended. */
void ripc__read_ended(struct ripc_context *ctx, uint64_t cookie, int status);
/* Asks for more, as far as the devices take it. */
void ripc__reads_post(struct ripc_context *ctx);
/* The service is closed: its places that are still being written to are its no more. */
void ripc__readings_orphan(struct ripc_service *service);
/* The device's port is closed: nothing is read into their places any more. */
void ripc__readings_deregister(struct ripc_context *ctx, const struct device *device);
/* The devices are closed. */
void ripc__readings_free(struct ripc_context *ctx);

/* ---- places.c ---------------------------------------------------------------------------- */
/* Makes the message of an announcement with a place for each item; NULL: some has none. */
struct message *ripc__places_find(struct partner *partner, const struct wire_packet *packet,
		struct lent *lent);
/* The same with the items' bytes, which have come with it. */
struct message *ripc__places_whole(struct partner *partner, const struct wire_packet *packet);
uint64_t ripc__places_kib(const struct ripc_msg *public); /* in the pool */
/* Frees a message that is not to be delivered; its windows go back to where they were. */
void ripc__places_release(struct ripc_service *service, struct message *message);
/* The service is closed: only what is in the pool is left to release. */
void ripc__places_orphan(struct message *message);
/* The message goes to the application: windows are used up. */
void ripc__places_settle(struct message *message);
/* Gives pages to where bytes [start, end) will land. -ENOMEM. */
int ripc__places_fault(struct incoming *incoming, uint64_t start, uint64_t end);

/* ---- collect.c --------------------------------------------------------------------------- */
/* Takes a packet's bytes, which begin at offset. -EBADMSG: altered; -ENOMEM; else how many were
 * new. */
int64_t ripc__collect(struct incoming *incoming, const struct wire_packet *packet,
		uint64_t offset);
/* Fills holes with what is missing before end; returns how many. */
uint32_t ripc__collect_holes(const struct incoming *incoming, uint64_t end,
		struct wire_range holes[WIRE_HOLES_MAX]);

/* ---- holes.c ----------------------------------------------------------------------------- */
bool ripc__holes_may_be_due(const struct incoming *incoming);
/* Names the gaps that are to be asked for now; returns how many bytes are missing there. */
uint64_t ripc__holes_due(struct incoming *incoming, struct wire_pull *pull);
/* Names the first ones before end, asked for or not. */
void ripc__holes_all(struct incoming *incoming, uint64_t end, struct wire_pull *pull);

/* ---- share.c ----------------------------------------------------------------------------- */
/* What an announcement's message takes if it came whole. */
uint64_t ripc__whole_bytes(const struct wire_packet *packet);
/* 0: it may be accepted; else why not. */
int ripc__admit(const struct ripc_service *service, const struct wire_packet *packet);
/* It came in one packet, and its place is with the message. */
bool ripc__is_whole(const struct partner *partner, const struct wire_packet *packet);
/* There is no room for it now. */
bool ripc__over_share(const struct partner *partner, const struct wire_packet *packet);

/* ---- announced.c ------------------------------------------------------------------------- */
/* Nothing is known of it yet. */
void ripc__announced_new(struct partner *partner, const struct wire_packet *packet);
void ripc__incoming_cancel(struct partner *partner, const struct wire_packet *packet);

/* ---- incoming.c -------------------------------------------------------------------------- */
void ripc__incoming_announce(struct partner *partner, const struct wire_packet *packet);
void ripc__incoming_data(struct partner *partner, const struct wire_packet *packet);
/* Ends it undelivered and remembers the refusal; tell: say so to the sender. */
void ripc__incoming_refuse(struct incoming *incoming, int status, bool tell);
void ripc__incoming_forget(struct incoming *incoming);
/* All of it has been read. */
void ripc__incoming_read(struct incoming *incoming);
/* It cannot be read: asks for its bytes. */
void ripc__incoming_unreadable(struct incoming *incoming);
/* NULL: nothing of that number is being received. */
struct incoming *ripc__incoming_find(struct partner *partner, uint64_t number);
/* Takes in what was announced, or begins to. False: there is no room for it. */
bool ripc__incoming_new(struct partner *partner, const struct wire_packet *packet);
/* All of it is here: it is delivered, or waits for its turn, or was altered on the way. */
void ripc__incoming_finish(struct incoming *incoming);
/* Sends a PULL: what may come, and, up to holes_end, what is missing. */
void ripc__incoming_pull(struct incoming *incoming, uint64_t holes_end);

/* ---- grant.c ----------------------------------------------------------------------------- */
/* It waits for its turn, which may come at once. Its sender hears of it. */
void ripc__grant_wait(struct incoming *incoming);
/* Raises the limit as far as windows and credit allow. True if it was raised. */
bool ripc__grant(struct incoming *incoming);
/* What may come unasked, or is missing after a silence, is taken to be on its way, as far as the
 * share of its sender goes: who announces bytes and does not send them keeps nobody from his. */
void ripc__grant_expect(struct incoming *incoming);
/* New bytes of it have come. It may wait for its turn again: see to it (schedule). */
void ripc__grant_arrived(struct incoming *incoming, uint32_t bytes);
/* Nothing has come for so long as it may take: it gives back what it holds. */
void ripc__grant_silent(struct incoming *incoming);
/* It holds nothing and waits for nothing any more. */
void ripc__grant_end(struct incoming *incoming);
/* Credit became free: grant it to who waits. */
void ripc__incoming_schedule(struct ripc_context *ctx);

#endif
