/* SPDX-License-Identifier: BSD-3-Clause */
/* Holes: bytes of a long message that are missing, and are asked for again. */
#ifndef RIPC_HOLES_H
#define RIPC_HOLES_H

#include <stdbool.h>
#include <stdint.h>

struct incoming;
struct wire_pull;

bool ripc__holes_may_be_due(const struct incoming *incoming);
/* Names in pull the gaps that must be asked for now; returns how many bytes they have. */
uint64_t ripc__holes_due(struct incoming *incoming, struct wire_pull *pull);
/* Names in pull the first gaps before end, whether asked for before or not. */
void ripc__holes_all(struct incoming *incoming, uint64_t end, struct wire_pull *pull);

#endif
