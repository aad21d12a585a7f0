/* SPDX-License-Identifier: BSD-3-Clause */
/* Announcements that go together. */
#ifndef RIPC_CORK_H
#define RIPC_CORK_H

#include <stdbool.h>

struct outgoing;
struct partner;
struct ripc_context;

/* May the announcement wait for others to go with? True: it goes soon; false: it must go now. */
bool ripc__cork(struct outgoing *outgoing);
void ripc__corked_forget(struct partner *partner);
/* Announces the messages that were held back. */
void ripc__corked_flush(struct ripc_context *ctx);

#endif
