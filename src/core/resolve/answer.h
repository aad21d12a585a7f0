/* SPDX-License-Identifier: BSD-3-Clause */
/* Answering questions, for ourselves and for our host. */
#ifndef RIPC_RESOLVE_ANSWER_H
#define RIPC_RESOLVE_ANSWER_H

#include <stdbool.h>

struct asked;
struct heard;
struct ripc__resolver;

void ripc__question_heard(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__relay_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/*
 * Passes a notice that came to us alone on to the context on this host that has the ID. False: it
 * did not come so.
 */
bool ripc__relay_notice(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__relay_free(struct ripc__resolver *resolver, struct asked *asked);

#endif
