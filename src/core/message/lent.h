/* SPDX-License-Identifier: BSD-3-Clause */
/* Return buffers lent to a partner for one answer. */
#ifndef RIPC_LENT_H
#define RIPC_LENT_H

#include <stdbool.h>
#include <stdint.h>

#include "ripc/ripc.h"
#include "util/list.h"

struct device;
struct partner;
struct permit;
struct ripc_send;
struct ripc_service;
struct wire_packet;

/* Return buffers lent to a partner for one answer. */
struct lent {
	struct list node; /* service->lent */
	uint64_t id, to, cookie;
	bool of_call;     /* lent by a question: only its answer lands here */
	bool in_use;
	bool cancelled;   /* the loan is taken back as soon as it is not in use */
	struct permit *permit; /* lets the partner write; NULL: no partner can write */
	uint64_t opened_for;   /* the incarnation that could write; 0: none */
	const struct device *opened_on; /* the device by which it could */
	uint8_t opened;        /* bit i: buffer i was opened to it */
	uint32_t n;
	struct ripc_buffer buffers[];
};

/* The loan of this ID, in use or not; NULL: none. The newest is found first. */
struct lent *ripc__lent_by_id(struct ripc_service *service, uint64_t id);
/*
 * The loan that this message of the partner answers, if the message may fill the loan's buffers
 * now.
 */
struct lent *ripc__lent_for(const struct partner *partner, const struct wire_packet *packet);
void ripc__lent_free(struct lent *lent);
/* What a caller lends can be lent. */
bool ripc__returns_are_sane(const struct ripc_buffer *returns, uint32_t n);
/*
 * Lends the return buffers of the request. ripc__lend() draws an ID; *id is 0 if the request has
 * none. ripc__lend_as() uses id, which no loan has.
 */
int ripc__lend(struct ripc_service *service, const struct ripc_send *request, uint64_t *id);
int ripc__lend_as(struct ripc_service *service, const struct ripc_send *request, uint64_t id);

#endif
