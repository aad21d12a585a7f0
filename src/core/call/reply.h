/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers to questions. */
#ifndef RIPC_REPLY_H
#define RIPC_REPLY_H

#include "ripc/ripc.h"

struct outgoing;
struct ripc_service;

/* An answer. */
struct reply {
	const struct iovec *items; /* one at least; an empty answer has one empty item */
	uint32_t n_items, flags;   /* RIPC_GIVE */
	int status;                /* 0, or a negative errno */
};

/* See ripc_reply(). *outgoing: the answer as a long message; NULL: it went as a short one. */
int ripc__reply(struct ripc_service *service, const struct ripc_msg *question,
		const struct reply *reply, struct outgoing **outgoing);

#endif
