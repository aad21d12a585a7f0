/* SPDX-License-Identifier: BSD-3-Clause */
/* Short messages that are sent. */
#ifndef RIPC_SHORT_H
#define RIPC_SHORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iovec;
struct partner;
struct ripc_send;
struct ripc_service;
struct wire_call;

#define HELD_MAX           16u    /* shorts held for a partner not yet found */
#define HELD_US            5000000u /* how long; less than PARTNER_IDLE_US */

int ripc__short_send(struct ripc_service *service, const struct ripc_send *request);
int ripc__short_send_items(struct ripc_service *service, uint64_t to, const struct iovec *items,
		uint32_t n_items);
/* Has the partner given its token, and is there a way to it? */
bool ripc__short_may_go(const struct partner *partner);
/* A question or an answer to such a partner. -EMSGSIZE: it is too long; -EAGAIN: not now. */
int ripc__short_call(struct partner *partner, const struct ripc_send *request, uint64_t lends,
		const struct wire_call *call);
uint32_t ripc__short_max(struct partner *partner);
/* The partner was found, or asks to repeat: sends the messages held. Lost: drops them. */
void ripc__held_send(struct partner *partner);
void ripc__held_drop(struct partner *partner, bool count);
size_t ripc__held_bytes(const struct partner *partner);

#endif
