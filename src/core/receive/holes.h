/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes of a long message that are missing, and asked for again. */
#ifndef RIPC_HOLES_H
#define RIPC_HOLES_H

#include <stdbool.h>
#include <stdint.h>

struct incoming;
struct wire_pull;

bool ripc__holes_may_be_due(const struct incoming *incoming);
/* Names the gaps that are to be asked for now; returns how many bytes are missing there. */
uint64_t ripc__holes_due(struct incoming *incoming, struct wire_pull *pull);
/* Names the first ones before end, asked for or not. */
void ripc__holes_all(struct incoming *incoming, uint64_t end, struct wire_pull *pull);

#endif
