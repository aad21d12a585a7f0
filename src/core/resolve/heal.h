/* SPDX-License-Identifier: BSD-3-Clause */
/* Noticing that a parted network is whole again. */
#ifndef RIPC_RESOLVE_HEAL_H
#define RIPC_RESOLVE_HEAL_H

#include <stdbool.h>

struct asked;
struct heard;
struct ripc__resolver;

void ripc__heal_init(struct ripc__resolver *resolver);
void ripc__heal_close(struct ripc__resolver *resolver);
/* A digest has come. */
void ripc__heal_heard(struct ripc__resolver *resolver, const struct heard *heard);
/* A question has come. Is it a call? */
bool ripc__heal_called(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__heal_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);

#endif
