/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Claims: the identity that a hello states for its sender, which is not verified yet. Partners
 * that claim the same incarnation are kept apart here. The resolver must confirm a claim before
 * a send by ID goes to the partner that claims it (docs/protocol.md, first contact).
 */
#ifndef RIPC_CLAIM_H
#define RIPC_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct device;
struct partner;
struct ripc__addr;
struct ripc__answer;
struct ripc_context;
struct ripc_service;
struct wire_packet;

/* How a hello relates to the partners that claim the same incarnation. */
enum claim {
	CLAIM_NEW,     /* the hello is from none of them */
	CLAIM_SAME,    /* the hello is from the partner that was found */
	CLAIM_CROSSED, /* perhaps: it answers our hello, but is of another address */
	CLAIM_REFUSED, /* no state is made for the sender of the hello */
};

/* *found is set with CLAIM_SAME and CLAIM_CROSSED. */
enum claim ripc__claim_find(struct ripc_service *service, struct device *device,
		const struct wire_packet *packet, const struct ripc__addr *from,
		struct partner **found);
/*
 * Is this partner the owner of its ID, as far as is known? If the partner has only claimed the
 * ID, the resolver is queried. False: not known yet, or no (then the partner is current no
 * more).
 */
bool ripc__claim_settled(struct partner *partner);
/* The resolver has answered about a partner that is suspect, or has only claimed its ID. */
void ripc__claim_answered(struct partner *partner, int status, const struct ripc__answer *answer);
/*
 * The partner that the answer names, of those that claim the incarnation in the answer: the
 * partner that lives at the answer's address; otherwise one that may be reached there, too, and
 * must be queried. NULL: none.
 */
struct partner *ripc__claim_named(const struct ripc_service *service, uint64_t id,
		const struct ripc__answer *answer);
/* Does the partner's route lead to an address that the answer names? */
bool ripc__claim_lives_there(const struct partner *partner, const struct ripc__answer *answer);
/*
 * Confirms the partner if it lives at the answer's address; otherwise queries that address for
 * it.
 */
void ripc__claim_judge(struct partner *partner, const struct ripc__answer *answer);
/* An echo of this partner came back. */
void ripc__claim_echoed(struct partner *partner, uint64_t nonce);
/*
 * A RETRY came from an address where the partner's route does not lead. If an echo was sent
 * there to verify the partner's claim, the claim is false. True: an echo was sent there.
 */
bool ripc__claim_denied(struct partner *partner);
/* May a claim cause a query to all hosts? Not often. */
bool ripc__claim_may_ask(struct ripc_context *ctx);
void ripc__claim_forget(struct partner *partner);
/*
 * A message of the partner posts return buffers with this number: the reply is sent to this
 * partner.
 */
void ripc__claim_asks(struct partner *partner, uint64_t lends);
/* The partner that posted them, if it has only claimed its ID; otherwise NULL. */
struct partner *ripc__claim_asker(const struct ripc_service *service, uint64_t id, uint64_t lends);

#endif
