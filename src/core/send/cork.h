/* SPDX-License-Identifier: BSD-3-Clause */
/* Announcements that go together. */
#ifndef RIPC_CORK_H
#define RIPC_CORK_H

#include <stdbool.h>

struct outgoing;
struct partner;
struct ripc_context;

/* True: it is announced with others, soon. */
bool ripc__cork(struct outgoing *outgoing);
void ripc__corked_forget(struct partner *partner);
/* Announces what has been held back for others to go along. */
void ripc__corked_flush(struct ripc_context *ctx);

#endif
