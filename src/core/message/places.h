/* SPDX-License-Identifier: BSD-3-Clause */
/* The places where the items of a long message land. */
#ifndef RIPC_PLACES_H
#define RIPC_PLACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "util/list.h"

struct lent;
struct message;
struct partner;
struct ripc_msg;
struct ripc_service;
struct wire_packet;

/* Makes an announcement's message, with a place for each item; NULL: an item has no place. */
struct message *ripc__places_find(struct partner *partner, const struct wire_packet *packet,
		struct lent *lent);
/*
 * As ripc__places_find(), for an announcement that brought the bytes of all items: copies them.
 */
struct message *ripc__places_whole(struct partner *partner, const struct wire_packet *packet);

uint64_t ripc__places_kib(const struct ripc_msg *public); /* in the pool */

/* Frees a message that will not be delivered; its windows go back to their old positions. */
void ripc__places_release(struct ripc_service *service, struct message *message);
/* The service is closed: only the message's places in the pool remain to be released. */
void ripc__places_orphan(struct message *message);
/* The message is delivered to the application: its windows are used up. */
void ripc__places_settle(struct message *message);
/* Gives pages to the memory where bytes [start, end) will land. -ENOMEM. */
int ripc__places_fault(struct message *message, uint64_t start, uint64_t end);

/* ---- windows ----------------------------------------------------------------------------- */

/* Memory that the application posts as a place for incoming items. */

struct window {
	struct list node;
	uint64_t order, cookie; /* windows are used in the order of posting */
	struct iovec mem;
	bool cancelled;         /* taken back (api/buffers.c): serves no message any more */
};

/* Can mem be memory? Its end must not wrap, and it must not be at NULL, unless it is empty. */
static inline bool ripc__mem_is_sane(const struct iovec *mem)
{
	uintptr_t end;

	return (mem->iov_base || !mem->iov_len) &&
		!__builtin_add_overflow((uintptr_t)mem->iov_base, mem->iov_len, &end);
}

#endif
