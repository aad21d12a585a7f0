/* SPDX-License-Identifier: BSD-3-Clause */
/* The items of a long message, opened for their receiver. */
#ifndef RIPC_EXPOSED_H
#define RIPC_EXPOSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/message/message.h"
#include "core/net/backend.h"
#include "core/partner/partner.h"
#include "outgoing.h"

/* The items of a long message that the receiver can read by one device. */
struct exposed {
	struct fence fence;    /* used after the closing */
	struct device *device;
	uint32_t n, n_fencing; /* items; items that were closed and may still be read */
	uint32_t carried;      /* bytes of items not opened */
	bool given;            /* the receiver may map them */
	bool is_summing;       /* the receiver was told that their checksum follows */
	struct exposed_item {
		struct ripc__key key;
		size_t len;    /* 0: nothing was opened */
	} items[];
};

/*
 * The keys for an announcement, two numbers per item; opens the items the first time. room:
 * bytes that fit before the payload. False: this announcement is sent without keys.
 */
bool ripc__exposed_keys(struct outgoing *outgoing, uint32_t room, uint64_t *keys);
/* Would an announcement open the items now? */
bool ripc__exposed_may(const struct outgoing *outgoing);
/* Bytes of first items that such an announcement carries; bytes that it takes, with these. */
uint32_t ripc__exposed_carried(const struct outgoing *outgoing);
uint32_t ripc__exposed_least(const struct outgoing *outgoing);
/* The most bytes of a repeated announcement: if needed more than usual, where all lengths pass. */
uint32_t ripc__exposed_room(const struct outgoing *outgoing);
/*
 * Adds to an announcement, if needed, the checksum of all bytes that are not sent in datagrams;
 * or the note that the checksum follows, because computing it takes long.
 */
void ripc__exposed_sum(struct outgoing *outgoing, struct wire_packet *packet);
/* Closes the items to the receiver; as long as it may still read, they are in outgoing->fencing. */
void ripc__exposed_close(struct outgoing *outgoing);
void ripc__exposed_fenced(uint64_t cookie);
/* The devices are closed. */
void ripc__exposed_forget(struct outgoing *outgoing);
/*
 * As ripc__exposed_close(), but the receiver keeps given items that it has mapped. is_done: the
 * receiver has reported that it has the message, and reads no more.
 */
void ripc__exposed_hand(struct outgoing *outgoing, bool is_done);

#endif
