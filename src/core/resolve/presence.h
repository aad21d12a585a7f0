/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions to a partner's host: is the partner still there? (lookup.c) */
#ifndef RIPC_RESOLVE_PRESENCE_H
#define RIPC_RESOLVE_PRESENCE_H

struct asked;
struct heard;
struct ripc__resolver;

void ripc__presences_open(struct ripc__resolver *resolver);
/* RECORD or NOBODY has come. */
void ripc__presence_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
void ripc__presences_close(struct ripc__resolver *resolver);

#endif
