/* SPDX-License-Identifier: BSD-3-Clause */
/* Which long messages may send now, and how much. */
#ifndef RIPC_GRANT_H
#define RIPC_GRANT_H

#include <stdbool.h>
#include <stdint.h>

struct incoming;
struct ripc_context;

#define GRANTED_OF_PEER    4u     /* messages of one peer that may send at once */

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
