/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages that the network moves by itself: reads of the memory of partners, and writes into
 * it.
 */
#ifndef RIPC_MOVE_H
#define RIPC_MOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/net/backend.h"
#include "util/list.h"

struct device;
struct message;
struct mover;
struct partner;
struct ripc_context;

#define PART_BYTES   (1u << 20) /* bytes of one part, unless the device takes fewer */
#define PARTS_OF_ONE 8u  /* parts of one message in progress */
#define PARTS_MAX    32u /* reads of one context; as many writes */

/* A read or write in progress; its address is its cookie. */
struct part {
	struct mover *mover;
	char *mem;
	uint64_t end; /* where the part ends in the message */
	size_t len;   /* 0: free */
};

/* The reads of a context, or its writes. */
struct moves {
	struct list movers; /* those with more parts to begin */
	uint32_t n;         /* parts in progress, and the mover of each */
	const struct mover *with[PARTS_MAX];
};

/*
 * Moves the items of one message, part by part. The owner sets the fields up to next, and has the
 * memory of the mover, which is in use until the last part has ended.
 */
struct mover {
	struct moves *moves;
	struct ripc_context *ctx;
	struct partner *const *partner; /* the owner's: the partner whose memory is used */
	const struct iovec *items;      /* our memory */
	struct message *places; /* reads: the message with these items; NULL: writes */
	struct item_key {       /* of each item */
		struct ripc__key key;
		void *region;
	} *keys;
	/*
	 * A part has ended, or the device has refused to begin one (its len is 0). status: 0 or a
	 * negative errno. May free the mover.
	 */
	void (*ended)(struct mover *mover, const struct part *part, int status);
	uint64_t total;
	uint32_t n_items;
	uint64_t next;       /* parts with the bytes before this have begun */
	uint64_t item_start; /* where the item that contains byte next begins */
	uint64_t moved;      /* bytes that were moved, or need not be */
	uint64_t moved_us;   /* when a part last began or ended */
	uint64_t sum;        /* of the moved blocks, if sums */
	uint64_t host_key, peer_key; /* the peer whose memory is used, and which may be gone */
	uint32_t item, n_busy;
	bool sums;           /* bytes may be altered on the way: parts are whole blocks */
	struct list node;    /* moves->movers, or where the owner keeps it */
	struct device *device;
	struct part parts[PARTS_OF_ONE];
};

/* Registers the items from next on with the partner's device. False: that failed, and is undone. */
bool ripc__mover_open(struct mover *mover);
/* No part is in progress: deregisters the items. */
void ripc__mover_close(struct mover *mover);
/* Begins to move the items. */
void ripc__mover_start(struct mover *mover);
/* Begins more parts, as far as the devices take them. */
void ripc__moves_post(struct moves *moves);
/* RIPC_EV_READ and _WRITE: a part has ended. */
void ripc__part_ended(uint64_t cookie, int status);

#endif
