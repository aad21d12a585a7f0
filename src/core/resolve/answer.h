/* SPDX-License-Identifier: BSD-3-Clause */
/* Answering questions, for ourselves and for our host. */
#ifndef RIPC_RESOLVE_ANSWER_H
#define RIPC_RESOLVE_ANSWER_H

struct asked;
struct heard;
struct ripc__resolver;

void ripc__question_heard(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__relay_answered(struct ripc__resolver *resolver, struct asked *asked,
		const struct heard *heard);
/* A notice came to us alone: passes it on to the context on this host that has the ID. */
void ripc__relay_notice(struct ripc__resolver *resolver, const struct heard *heard);
void ripc__relay_free(struct ripc__resolver *resolver, struct asked *asked);

#endif
