/* SPDX-License-Identifier: BSD-3-Clause */
/* The partner that a send goes to. */
#ifndef RIPC_FIND_H
#define RIPC_FIND_H

#include <stdbool.h>
#include <stdint.h>

struct partner;
struct ripc__answer;
struct ripc_context;
struct ripc_service;

/* Whom a send goes to, made in state RESOLVING if need be; for_call reads the resolver's news. */
int ripc__partner_for_send(struct ripc_service *service, uint64_t id, struct partner **partner);
int ripc__partner_for_call(struct ripc_service *service, uint64_t id, struct partner **partner);
/* False while it is not known whether its ID means it, and if it does not. */
bool ripc__partner_settled(struct partner *partner);
void ripc__partner_resolved(struct ripc_context *ctx, uint64_t id, int status,
		const struct ripc__answer *answer);

/*
 * As ripc__partner_for_call, for a long message, which can wait: the ID is asked for again, though
 * nobody had it a moment ago.
 */
int ripc__find_for_long(struct ripc_service *service, uint64_t id, struct partner **partner);
/* The same outside calls, as ripc__partner_for_send. */
int ripc__find_again(struct ripc_service *service, uint64_t id, struct partner **partner);

/* A message waits for this partner until then, so a silent holder is asked until then. */
void ripc__find_until(const struct partner *partner, uint64_t until_us);

#endif
