/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages that are read by the network. */
#ifndef RIPC_READ_H
#define RIPC_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/net/backend.h"
#include "core/peer/moves.h"
#include "util/list.h"

struct device;
struct incoming;
struct lent;
struct message;
struct ripc_context;
struct ripc_service;
struct wire_packet;

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
	void (*ended)(struct incoming *incoming, bool right);
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
	bool is_told;              /* the sum need not be waited for */
	bool failed;
	struct read_slot slots[READS_OF_ONE];
	struct read_item {
		struct ripc__key key;
		void *region;
	} items[];
};

/* Begins to read an announced message; ended is called when all of it has been read, and is right,
 * or cannot be read, perhaps at once. False: it is to be pulled. */
bool ripc__reading_start(struct incoming *incoming, const struct wire_packet *announce,
		void (*ended)(struct incoming *incoming, bool right));
/* The message was announced again. True: with the checksum that was missing; the reading may have
 * ended. */
bool ripc__reading_told(struct reading *reading, const struct wire_packet *announce);
/* Asks for no more bytes, and pulls the message when the last read has ended. */
void ripc__reading_fail(struct reading *reading);
/* The device has taken none of its reads for long. */
bool ripc__reading_is_stuck(const struct reading *reading);
/* The incoming is given up. True: its message and what was lent are released when the reads that
 * are in progress have ended. */
bool ripc__reading_leave(struct reading *reading);
/* A read has ended. */
void ripc__read_ended(struct ripc_context *ctx, uint64_t cookie, int status);
/* Asks for more bytes, as far as the devices take reads. */
void ripc__reads_post(struct ripc_context *ctx);
/* The service is closed: its places that are still being written to are its no more. */
void ripc__readings_orphan(struct ripc_service *service);
/* The devices are closed. */
void ripc__readings_free(struct ripc_context *ctx);

#endif
