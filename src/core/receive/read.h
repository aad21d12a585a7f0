/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages that are read by the network. */
#ifndef RIPC_READ_H
#define RIPC_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/net/backend.h"
#include "core/peer/devices.h"
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
	uint64_t end;  /* where the read ends in the message */
	size_t len;    /* 0: free */
};

/*
 * The reading of a long message from its sender's memory. If the message is given up meanwhile,
 * its places live here until the last read has ended.
 */
struct reading {
	struct list node;          /* in receives.readings or receives.lingering, or alone */
	struct incoming *incoming; /* NULL: given up */
	void (*ended)(struct incoming *incoming, bool right);
	struct ripc_service *service; /* given up: the owner of the places; NULL: closed as well */
	struct message *message;   /* given up: with the places */
	struct lent *lent;
	struct device *device;
	uint64_t next;             /* bytes [0, next) have been requested */
	uint64_t item_start;       /* where the item that contains byte next begins */
	uint64_t got;
	uint64_t moved_us;         /* when a read was last taken, or ended */
	struct remote remote;      /* the peer whose memory is read */
	uint32_t item, n_items, n_busy;
	uint64_t sum;              /* of the blocks that were read */
	uint32_t told;             /* the sender's sum of all blocks, where sums are compared */
	bool is_told;              /* the sender's sum is here, or is not needed */
	bool failed;
	struct read_slot slots[READS_OF_ONE];
	struct read_item {
		struct ripc__key key;
		void *region;
	} items[];
};

/*
 * Begins to read an announced message. ended is called, perhaps at once: with right, if all of
 * it was read and is intact; without, if it cannot be read. False: the message must be pulled.
 */
bool ripc__reading_start(struct incoming *incoming, const struct wire_packet *announce,
		void (*ended)(struct incoming *incoming, bool right));
/*
 * The message was announced again. True: the announcement brought the missing checksum, and the
 * reading may have ended.
 */
bool ripc__reading_told(struct reading *reading, const struct wire_packet *announce);
/* Asks for no more bytes, and pulls the message when the last read has ended. */
void ripc__reading_fail(struct reading *reading);
/* Has the device taken none of this reading's reads for long? */
bool ripc__reading_is_stuck(const struct reading *reading);
/*
 * The incoming message is given up. True: the message and its return buffers are released later,
 * when the reads in progress have ended.
 */
bool ripc__reading_leave(struct reading *reading);
/* A read has ended. */
void ripc__read_ended(struct ripc_context *ctx, uint64_t cookie, int status);
/* Asks for more bytes, as far as the devices take reads. */
void ripc__reads_post(struct ripc_context *ctx);
/* The service is closed: places that reads still write to belong to it no more. */
void ripc__readings_orphan(struct ripc_service *service);
/* The devices are closed. */
void ripc__readings_free(struct ripc_context *ctx);

/* The messages that a context receives. */
struct receives {
	struct list granted, ungranted;
	struct incoming *arriving; /* the last with bytes in this look; or NULL */
	struct list readings, lingering; /* readings with more to ask for; readings given up */
	struct moves reads;        /* in progress */
	uint32_t picks;
	uint64_t no_room_us;       /* when room last was missing (incoming.c) */
	struct list acks;
	uint64_t acks_due_us;      /* while acks wait for a packet: until when */
};

#endif
