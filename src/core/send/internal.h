/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of core/send: no other room includes this. */
#ifndef RIPC_SEND_INTERNAL_H
#define RIPC_SEND_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wire/wire.h"

struct iovec;
struct outgoing;

/* ---- pump -------------------------------------------------------------------------------- */

/* The bytes of a long message on their way to the network. */

/* Fills iov with the bytes of range, continues *crc; returns the number of iovecs, 0: over max. */
uint32_t ripc__gather(const struct outgoing *outgoing, struct wire_range range, struct iovec *iov,
		uint32_t max, uint32_t *crc);
/* Sends bytes that were requested again, then granted ones, as far as the network takes them. */
void ripc__pump(struct outgoing *outgoing);
/*
 * Sets how many bytes of the message were sent unasked and may be under way; the second checks
 * that there is room for them.
 */
void ripc__unasked_count(struct outgoing *outgoing, uint64_t bytes);
bool ripc__unasked_has_room(const struct outgoing *outgoing);
/*
 * While bytes are still to be sent, the reader's sleep follows the timers exactly
 * (engine/wait.c).
 */
void ripc__busy_update(struct outgoing *outgoing);

/* ---- resend ------------------------------------------------------------------------------ */

/* Bytes that a receiver requests again. */

/* Notes which of the requested bytes the pump must send again. */
void ripc__resend(struct outgoing *outgoing, const struct wire_pull *pull);

/* ---- write ------------------------------------------------------------------------------- */

/* Replies that are written into the return buffers of the asker. */

/* The reply has no use for the return buffers that its request offered. Stops the writing. */
void ripc__offer_free(struct outgoing *outgoing);
/* Did the request offer return buffers, by the device that the route to the partner uses now? */
bool ripc__offer_is_here(const struct outgoing *outgoing);
/*
 * Begins to write a reply. When the writing has ended, well or not, and perhaps at once, the reply
 * is announced. False: the reply must be announced now.
 */
bool ripc__writing_start(struct outgoing *outgoing);
/*
 * Has the device taken none of the reply's writes for long, because writes of other replies do
 * not end? Then the reply is announced instead; its partner does not count as gone.
 */
bool ripc__writing_give_up(struct outgoing *outgoing);
/* Is no write of the reply under way, because the device took none? */
bool ripc__writing_is_idle(const struct outgoing *outgoing);

#endif
