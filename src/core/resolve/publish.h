/* SPDX-License-Identifier: BSD-3-Clause */
/* IDs that live here. */
#ifndef RIPC_RESOLVE_PUBLISH_H
#define RIPC_RESOLVE_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

struct asked;
struct heard;
struct ripc__resolver;
struct ripc__source_event;
struct wire_record;

/* Our record of an ID that is registered here. -ENOENT. */
int ripc__own_record(struct ripc__resolver *resolver, uint64_t id, struct wire_record *record);
bool ripc__published_here(struct ripc__resolver *resolver, uint64_t id);
bool ripc__private_here(struct ripc__resolver *resolver, uint64_t id);
void ripc__publish_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
void ripc__verify_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/* Another context claims an ID that is published here. False: it came too soon after another. */
bool ripc__publish_rivalled(struct ripc__resolver *resolver, const struct heard *heard);
/* An exact source's word about an ID that is published, or is being published: PUBLISHED, LOST. */
void ripc__publish_stored(struct ripc__resolver *resolver, const struct ripc__source_event *event);
void ripc__publish_lost(struct ripc__resolver *resolver, const struct ripc__source_event *event);
/* The exact source cannot be reached now. */
void ripc__publish_delayed(struct ripc__resolver *resolver, uint64_t id);
void ripc__publications_close(struct ripc__resolver *resolver);

#endif
