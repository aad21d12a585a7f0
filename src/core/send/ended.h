/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of long messages that we send. */
#ifndef RIPC_ENDED_H
#define RIPC_ENDED_H

#include "ripc/ripc.h"

struct fence;
struct message;
struct outgoing;
struct partner;
struct ripc_context;
struct ripc_service;

void ripc__outgoing_link(struct outgoing *outgoing, struct partner *partner);
void ripc__outgoing_unlink(struct outgoing *outgoing);
void ripc__outgoing_end(struct outgoing *outgoing, enum ripc_outcome outcome, int status);
/* The message has ended, but its memory can still be read when its call must return. */
void ripc__outgoing_unknown(struct outgoing *outgoing);
/* The network is done with the fence's memory, which does not hold up its message any more. */
void ripc__fence_lift(struct fence *fence);
/* The service is closed: the end of its messages that are fencing is told to nobody. */
void ripc__outgoing_orphan(struct ripc_service *service);
/* The call that waited for it, or the application with its message, is done with the outgoing. */
void ripc__outgoing_put(struct outgoing *outgoing);
/* The application is done with this COMPLETION or NOTICE. */
void ripc__outgoing_freed(struct message *message);
/*
 * The application never receives this COMPLETION or NOTICE, as the service is closed: references
 * that would be the application's again are dropped.
 */
void ripc__outgoing_untold(struct message *message);
/* The devices are closed: partners hold nothing of what they were given, and read nothing. */
void ripc__ended_let_go(struct ripc_context *ctx);
/* A send to the partner leaves room: a service whose send met -EAGAIN is told. */
void ripc__outgoing_unblock(struct partner *partner);

#endif
