/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a hello says of its sender is a claim. Who claims what is kept apart here, and is confirmed
 * by the resolver before anything is sent to it by ID (docs/protocol.md, first contact).
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

/* What a hello is to those who claim the incarnation that it claims. */
enum claim {
	CLAIM_NEW,     /* somebody else than all of them */
	CLAIM_SAME,    /* it is from the one that was found */
	CLAIM_CROSSED, /* perhaps: we have said hello to that one, and this came from elsewhere */
	CLAIM_REFUSED, /* no state is made for it */
};

/* found: of CLAIM_SAME and CLAIM_CROSSED. */
enum claim ripc__claim_find(struct ripc_service *service, struct device *device,
		const struct wire_packet *packet, const struct ripc__addr *from,
		struct partner **found);
/*
 * Is the partner whom its ID means, as far as is known? If it has only claimed that, the resolver
 * is asked. False: it is not known yet, or it is not (then it is not current any more).
 */
bool ripc__claim_settled(struct partner *partner);
/* The resolver has answered, about one that is suspect or has only claimed its ID. */
void ripc__claim_answered(struct partner *partner, int status, const struct ripc__answer *answer);
/*
 * Of those that claim what the answer says: the one that lives where it says, or else the one that
 * may be reached there, too, and is to be asked; NULL: nobody.
 */
struct partner *ripc__claim_named(const struct ripc_service *service, uint64_t id,
		const struct ripc__answer *answer);
/* Confirms it, if it lives where the answer says; else asks there whether it does. */
void ripc__claim_judge(struct partner *partner, const struct ripc__answer *answer);
/* An echo came back. */
void ripc__claim_echoed(struct partner *partner, uint64_t nonce);
/* RETRY from elsewhere than its route: who was asked whether it is the partner is not. True: so. */
bool ripc__claim_denied(struct partner *partner);
/* May a claim cause a question to everybody? Not often. */
bool ripc__claim_may_ask(struct ripc_context *ctx);
void ripc__claim_forget(struct partner *partner);
/* A message of it lends return buffers under this ID: the answer goes to it, whoever it is. */
void ripc__claim_asks(struct partner *partner, uint64_t lends);
/* Who lent them, if it is one that has only claimed its ID; else NULL. */
struct partner *ripc__claim_asker(const struct ripc_service *service, uint64_t id, uint64_t lends);

#endif
