/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of long messages that we send. */
#ifndef RIPC_ENDED_H
#define RIPC_ENDED_H

#include "ripc/ripc.h"

struct fence;
struct message;
struct outgoing;
struct partner;
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
/* A send to the partner leaves room: a service whose send met -EAGAIN is told. */
void ripc__outgoing_unblock(struct partner *partner);

#endif
