/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions that wait for their answers. */
#ifndef RIPC_CALL_ROOM_H
#define RIPC_CALL_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/message/message.h"
#include "ripc/call.h"
#include "util/list.h"
#include "util/timers.h"

struct holding;
struct outgoing;
struct partner;
struct ripc_context;
struct ripc_service;

#define CALLS_MAX 16384u /* open at once, of one service */

enum call_state {
	CALL_ASKING, /* the question is on its way: outgoing */
	CALL_ASKED,  /* the partner has it, or (by_short) has been sent it */
	CALL_PAUSED, /* it was certainly not delivered, or may be asked again; soon it is */
	CALL_ENDING, /* decided, but the network may still use the caller's memory */
	CALL_ENDED,  /* only of a call that is waited for */
};

/* A question from when it is asked until its answer, or the want of one, is told. */
struct call {
	struct message failure;    /* what is told where no answer comes; public is set then */
	struct list node;          /* service->calls; ctx->told_calls */
	struct ripc__timer timer;
	struct message *answer;    /* NULL: none has come */
	struct ripc_service *service;
	struct outgoing *outgoing; /* the question on its way; NULL: it is not */
	struct partner *partner;   /* CALL_ASKED: whose answer is waited for */
	uint64_t id;               /* under which the answer comes */
	uint64_t to, to_incarnation, cookie;
	uint64_t deadline_us;
	uint64_t heard_us;         /* the partner's last word, while it is waited for */
	int status;                /* what is told: 0 or a negative errno */
	enum ripc_outcome asked;
	uint32_t n_items, n_returns, flags;
	uint8_t state;
	bool waiter;               /* ripc_call() waits for it, and frees it */
	bool by_short;             /* it went as a short, of which nobody says that it came */
	bool tried_short;          /* the next time it goes as a long message */
	bool waited;               /* by_short: for SHORT_US, which is not enough on this path */
	bool again;                /* CALL_ENDING: it is asked again instead */
	struct ripc_buffer *returns;
	struct iovec items[];
};

/* Starts a call; waiter: it is waited for. Its deadline ends it. */
int ripc__call_begin(struct ripc_service *service, const struct ripc_question *request, bool waiter,
		struct call **call);
/* Ends all calls with this cookie with -ECANCELED. True: there was one. */
bool ripc__calls_cancel(struct ripc_service *service, uint64_t cookie);
/* The service is closed: those that are waited for end, the others are forgotten. */
void ripc__calls_end(struct ripc_service *service);

/* What other rooms tell. The question has ended, as far as its sending goes. */
void ripc__question_ended(struct outgoing *outgoing);
/* An answer has come from the partner; takes the message. */
void ripc__answer_came(struct partner *partner, struct message *message);
/* The partner is gone, or about to be freed: no answer will come. */
void ripc__calls_lost(struct partner *partner);
/* The application is done with the message that told a failure. */
void ripc__call_told(struct message *message);

#endif
