/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of core/send: no other room includes this. */
#ifndef RIPC_SEND_INTERNAL_H
#define RIPC_SEND_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wire/wire.h"

struct iovec;
struct outgoing;
struct wire_pull;

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

#endif
