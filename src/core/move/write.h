/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers that are written into the return buffers of the asker. */
#ifndef RIPC_WRITE_H
#define RIPC_WRITE_H

#include <stdbool.h>
#include <stdint.h>

struct device;
struct offer;
struct outgoing;
struct partner;
struct ripc_context;
struct wire_packet;

/* A question that is to be answered to the application says what may be written into. */
void ripc__offer_note(struct partner *partner, const struct wire_packet *packet);
/* An answer begins: what the question offered is its; NULL: nothing. No other answer has it. */
struct offer *ripc__offer_take(struct partner *partner, uint64_t id);
/* The answer has no use for it. */
void ripc__offer_free(struct outgoing *outgoing);
void ripc__offer_drop(struct partner *partner, uint64_t id);
/* It has one, and the route to its partner is by the device by which that came. */
bool ripc__offer_is_here(const struct outgoing *outgoing);
/* The partner is gone, or forgotten. */
void ripc__offers_forget(struct partner *partner);
/* Begins to write an answer; ripc__outgoing_tell() follows. False: it is to be announced. */
bool ripc__writing_start(struct outgoing *outgoing);
/* Stops that. What was asked for and has not ended keeps the message's memory. */
void ripc__writing_leave(struct outgoing *outgoing);
/* If none of its writes has been taken for long, as those of others do not end, it is announced
 * instead: that does not mean that its partner is silent. False: it is not so. */
bool ripc__writing_give_up(struct outgoing *outgoing);
/* Nothing of it is under way: the device took none. */
bool ripc__writing_is_idle(const struct outgoing *outgoing);
void ripc__write_ended(struct ripc_context *ctx, uint64_t cookie, int status);
/* Asks for more, as far as the devices take it. */
void ripc__writes_post(struct ripc_context *ctx);
/* The device's port is closed: nothing is written from there any more. */
void ripc__writings_deregister(struct ripc_context *ctx, const struct device *device);
/* The devices are closed. */
void ripc__writings_free(struct ripc_context *ctx);

#endif
