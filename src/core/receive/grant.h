/* SPDX-License-Identifier: BSD-3-Clause */
/* Which long messages may send now, and how much. */
#ifndef RIPC_GRANT_H
#define RIPC_GRANT_H

#include <stdbool.h>
#include <stdint.h>

struct incoming;
struct ripc_context;

#define GRANTED_OF_PEER    4u     /* messages of one peer that may send at once */

/* The message waits for its turn, which may come at once. The sender hears of it. */
void ripc__grant_wait(struct incoming *incoming);
/* Raises the limit as far as windows and credit allow. True: the limit was raised. */
bool ripc__grant(struct incoming *incoming);
/*
 * Bytes that may come unasked, or are missing after a silence, count as on their way, as far as the
 * sender's share goes: a sender that sends nothing takes no share of other senders.
 */
void ripc__grant_expect(struct incoming *incoming);
/* New bytes of the message have come. The message may have to wait for its turn again. */
void ripc__grant_arrived(struct incoming *incoming, uint32_t bytes);
/* No byte has come for too long: the message gives back the credit that it holds. */
void ripc__grant_silent(struct incoming *incoming);
/* The message holds no credit and waits for none any more. */
void ripc__grant_end(struct incoming *incoming);
/* Credit became free: grants it to messages that wait. */
void ripc__incoming_schedule(struct ripc_context *ctx);

#endif
