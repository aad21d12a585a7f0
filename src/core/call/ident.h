/* SPDX-License-Identifier: BSD-3-Clause */
/* The IDs of open calls, and the partner that a question went to. */
#ifndef RIPC_CALL_IDENT_H
#define RIPC_CALL_IDENT_H

#include <stdint.h>

struct call;
struct partner;
struct ripc_context;

/* Takes a slot for the call while it is open, and gives it back. -ENOMEM. */
int ripc__call_name(struct call *call);
void ripc__call_unname(struct call *call);
/*
 * Gives the call, which has a slot, another ID. partner: the ID goes to this partner alone; NULL:
 * the ID may go to several partners, one after the other.
 */
void ripc__call_identify(struct call *call, struct partner *partner);
/* The call with this ID, or NULL. */
struct call *ripc__call_by_id(const struct ripc_context *ctx, uint64_t id);
/* Of the partners that claim this incarnation, the one to which the question went; or NULL. */
struct partner *ripc__call_taker(const struct call *call, uint64_t incarnation);

#endif
