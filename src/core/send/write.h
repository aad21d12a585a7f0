/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers that are written into the return buffers of the asker. */
#ifndef RIPC_WRITE_H
#define RIPC_WRITE_H

#include <stdbool.h>
#include <stdint.h>

struct outgoing;
struct ripc_context;

/* The answer has no use for what its question offered. */
void ripc__offer_free(struct outgoing *outgoing);
/* Its question offered something, and the route to its partner is by the device by which that
 * came. */
bool ripc__offer_is_here(const struct outgoing *outgoing);
/* Begins to write an answer; told is called when that has ended, well or not, perhaps at once.
 * False: it is to be announced. */
bool ripc__writing_start(struct outgoing *outgoing, void (*told)(struct outgoing *outgoing));
/* Stops the writing. Writes that have not ended keep the message's memory. */
void ripc__writing_leave(struct outgoing *outgoing);
/* If none of its writes has been taken for long, as those of others do not end, it is announced
 * instead: that does not mean that its partner is silent. False: it is not so. */
bool ripc__writing_give_up(struct outgoing *outgoing);
/* No write is under way: the device took none. */
bool ripc__writing_is_idle(const struct outgoing *outgoing);
void ripc__write_ended(struct ripc_context *ctx, uint64_t cookie, int status);
/* Begins more writes, as far as the devices take them. */
void ripc__writes_post(struct ripc_context *ctx);
/* The devices are closed. */
void ripc__writings_free(struct ripc_context *ctx);

#endif
