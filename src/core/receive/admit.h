/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether an announced message may be accepted. */
#ifndef RIPC_ADMIT_H
#define RIPC_ADMIT_H

#include <stdbool.h>
#include <stdint.h>

struct partner;
struct ripc_service;
struct wire_packet;

/* Bytes of memory that an announced message takes if it came whole. */
uint64_t ripc__whole_bytes(const struct wire_packet *packet);
/* 0: the announced message may be accepted; else why not. */
int ripc__admit(const struct ripc_service *service, const struct wire_packet *packet);
/* The announced message came in one packet, and has its place in the message's own block. */
bool ripc__is_whole(const struct partner *partner, const struct wire_packet *packet);
/* Is there no room for the announced message now, in the queue or in the partner's shares? */
bool ripc__over_share(const struct partner *partner, const struct wire_packet *packet);
/*
 * An announced message has found no place. True: held memory may be freed, so the sender must ask
 * again. False: none is held, and waiting does not help. The log tells why, once for each cause;
 * again after a minute without that cause.
 */
bool ripc__room_may_come(struct partner *partner, const struct wire_packet *announce);

#endif
