/* SPDX-License-Identifier: BSD-3-Clause */
/* Short messages that are sent. */
#ifndef RIPC_SHORT_H
#define RIPC_SHORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire/wire.h"

struct iovec;
struct partner;
struct ripc_send;
struct ripc_service;

#define PENDING_MAX           16u    /* shorts held for a partner not yet found */
#define PENDING_US            5000000u /* how long they are held; less than PARTNER_IDLE_US */

/* A request, the reply to one, or a message to a group. */
struct short_call {
	const struct iovec *items;
	uint32_t n_items;
	bool lends;  /* return buffers are posted under id */
	uint64_t id; /* of the request; or the group */
	struct wire_call is;
};

int ripc__short_send(struct ripc_service *service, const struct ripc_send *request);
int ripc__short_send_items(struct ripc_service *service, uint64_t to, const struct iovec *items,
		uint32_t n_items);
/* -EMSGSIZE: too long for a short; -EAGAIN: not now, or the partner has given us no token yet. */
int ripc__short_call(struct partner *partner, const struct short_call *call);
/*
 * Sends to one incarnation, as a member of the group. number: see WIRE_CALL_GROUP. -ENOENT: that
 * incarnation is gone for certain. -EACCES: with keys, one of the two lacks the right.
 */
int ripc__short_to_member(struct ripc_service *service, const struct ripc_send *request,
		uint64_t group, uint32_t number);
uint32_t ripc__short_max(struct partner *partner);
/*
 * send: the partner was found, or asks to repeat: its held messages are sent. drop: the partner
 * is lost.
 */
void ripc__pending_send(struct partner *partner);
void ripc__pending_drop(struct partner *partner, bool count);
/* Does the partner hold messages for the owner of its ID? Then it holds no others any more. */
bool ripc__pending_by_id(struct partner *partner);
size_t ripc__pending_bytes(const struct partner *partner);

#endif
