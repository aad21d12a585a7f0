/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the partner of a long message, which can wait: where a short takes a remembered no, the ID
 * is asked for again.
 */
#ifndef RIPC_FINDING_H
#define RIPC_FINDING_H

#include <stdint.h>

struct partner;
struct ripc_service;

/* As ripc__partner_for_call, but that nobody had the ID a moment ago does not count. */
int ripc__find_for_long(struct ripc_service *service, uint64_t id, struct partner **partner);
/* The same outside calls, as ripc__partner_for_send. */
int ripc__find_again(struct ripc_service *service, uint64_t id, struct partner **partner);

/* A message waits for this partner until then, so a silent holder is asked until then. */
void ripc__find_until(const struct partner *partner, uint64_t until_us);

#endif
