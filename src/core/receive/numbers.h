/* SPDX-License-Identifier: BSD-3-Clause */
/* What a receiver remembers of the numbers of a partner's long messages (protocol.md, Numbers). */
#ifndef RIPC_NUMBERS_H
#define RIPC_NUMBERS_H

#include <stdint.h>

struct partner;

/* Of one that is not below in_oldest, nor LONGS_MAX beyond it. status: why, a negative errno. */
void ripc__number_delivered(struct partner *partner, uint64_t number);
void ripc__number_refused(struct partner *partner, uint64_t number, int status);
/* Why it was refused. */
int ripc__number_refusal(const struct partner *partner, uint64_t number);
/* The sender has no interest any more in numbers below oldest. */
void ripc__numbers_advance(struct partner *partner, uint64_t oldest);

#endif
