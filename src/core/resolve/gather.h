/* SPDX-License-Identifier: BSD-3-Clause */
/* The members of groups that services here send to. */
#ifndef RIPC_GATHER_H
#define RIPC_GATHER_H

#include <stdbool.h>
#include <stdint.h>

struct asked;
struct heard;
struct ripc__resolver;

void ripc__gather_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/* A notice about a group: a hint to ask. False: it says nothing new. */
bool ripc__gather_hint(struct ripc__resolver *resolver, const struct heard *heard);
/* The exact source has other names of the group than it listed last. */
void ripc__gather_listed(struct ripc__resolver *resolver, uint64_t group);
/* A service here has joined the group, or left it. */
void ripc__gather_joined(struct ripc__resolver *resolver, uint64_t group, uint64_t id,
		uint64_t incarnation);
void ripc__gather_left(struct ripc__resolver *resolver, uint64_t group, uint64_t incarnation);
/* A holder of an ID has answered: one of several members with this ID may be wanted. */
void ripc__gather_placed(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__gatherings_close(struct ripc__resolver *resolver);

#endif
