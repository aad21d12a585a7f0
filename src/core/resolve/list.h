/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking for everybody. */
#ifndef RIPC_RESOLVE_LIST_H
#define RIPC_RESOLVE_LIST_H

struct asked;
struct heard;
struct ripc__resolver;

void ripc__list_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);

#endif
