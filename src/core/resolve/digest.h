/* SPDX-License-Identifier: BSD-3-Clause */
/* Digests: a notice now and then for all that is registered here, or a few where that is much. */
#ifndef RIPC_RESOLVE_DIGEST_H
#define RIPC_RESOLVE_DIGEST_H

#include <stdint.h>

#include "util/list.h"

#define ANNOUNCE_US 60000000u /* between the notices of one registration, at most */
/* So long a host is silent that is parted from us: its contexts have each missed a digest. */
#define SILENT_US   70000000u
/* So long what is registered anew is announced more often: longer than that. */
#define FRESH_US    75000000u

struct heard;
struct ripc__resolver;

/* A registration, or the first part of a membership, that digests name. */
struct digested {
	struct list node; /* resolver->digest.all; or a list of its own */
	uint64_t id;      /* of the service, or of the group */
};

struct digested_member {
	struct digested digested;
	uint64_t service; /* that has joined the group */
};

void ripc__digest_init(struct ripc__resolver *resolver);
void ripc__digest_add(struct ripc__resolver *resolver, struct digested *digested);
/* Another context has told what is registered there. */
void ripc__digest_heard(struct ripc__resolver *resolver, uint64_t context);
/* Somebody calls for the digests of all: ours follow soon. */
void ripc__digest_called(struct ripc__resolver *resolver);
/* Harmless if it was not added. */
void ripc__digest_remove(struct ripc__resolver *resolver, struct digested *digested);

#endif
