/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking up IDs. */
#ifndef RIPC_RESOLVE_LOOKUP_H
#define RIPC_RESOLVE_LOOKUP_H

#include <stdint.h>

struct asked;
struct heard;
struct ripc__resolver;
struct ripc__source_event;

void ripc__lookup_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/* NOBODY has come. */
void ripc__lookup_denied(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/* A notice about an ID that is not ours. False: it concerns nobody. */
bool ripc__lookup_hint(struct ripc__resolver *resolver, const struct heard *heard);
/* What an exact source says of an ID that was asked for: NOBODY, HELD, UNAVAILABLE; HINT. */
void ripc__lookup_told(struct ripc__resolver *resolver, const struct ripc__source_event *event);
void ripc__lookup_hinted(struct ripc__resolver *resolver, const struct ripc__source_event *event);
/* All are asked for the ID once more, whatever is known: any that has it may answer. */
void ripc__lookup_anew(struct ripc__resolver *resolver, uint64_t id);
void ripc__lookups_close(struct ripc__resolver *resolver);

#endif
