/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions that wait for their answers. */
#ifndef RIPC_CALL_ROOM_H
#define RIPC_CALL_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "watch.h"
#include "core/message/message.h"
#include "ripc/call.h"
#include "ripc/ripc.h"
#include "util/list.h"
#include "util/slots.h"
#include "util/timers.h"

struct call;
struct outgoing;
struct partner;
struct ripc_context;
struct ripc_request;
struct ripc_service;

#define CALLS_MAX 16384u /* open at once, of one service */

enum call_state {
	CALL_ASKING, /* the question is on its way: outgoing */
	CALL_ASKED,  /* the partner has it, or (by_short) has been sent it */
	CALL_PAUSED, /* the question was not delivered, or is idempotent: soon it is asked again */
	CALL_ENDING, /* the end is decided, but the network may still use the caller's memory */
	CALL_ENDED,  /* only where ripc_call() waits */
};

/* A question, from the asking until its answer or its failure is told. */
struct call {
	struct message failure;    /* told where no answer comes; public is set then */
	struct list node;          /* service->calls; ctx->calls.told */
	struct ripc__timer timer;
	struct message *answer;    /* NULL: none has come */
	struct ripc_service *service;
	struct outgoing *outgoing; /* the question on its way; NULL: not on its way */
	struct partner *partner;   /* CALL_ASKED: the partner that must answer */
	uint64_t id;               /* the ID under which the answer comes */
	uint64_t to, to_incarnation, cookie;
	uint64_t deadline_us;
	uint64_t heard_us;         /* CALL_ASKED: when the partner was last heard */
	int status;                /* the result that is told: 0 or a negative errno */
	enum ripc_outcome asked;
	uint32_t n_items, n_returns, flags;
	uint8_t state;
	bool waiter;               /* ripc_call() waits for the call, and frees it */
	bool by_short;             /* the question went as a short: its arrival is not reported */
	bool tried_short;          /* the next time the question goes as a long message */
	uint64_t short_number;     /* by_short: of the short, and what was known before it went */
	enum ripc_outcome asked_before;
	bool waited;               /* by_short: SHORT_US have passed, too few on this path */
	bool again;                /* CALL_ENDING: the question is asked again instead */
	struct ripc_buffer *returns;
	struct iovec items[];
};

/* Starts a call; waiter: ripc_call() waits for it. The call's deadline ends it. */
int ripc__call_begin(struct ripc_service *service, const struct ripc_request *request, bool waiter,
		struct call **call);
/* Ends all calls with this cookie with -ECANCELED. True: there was one. */
bool ripc__calls_cancel(struct ripc_service *service, uint64_t cookie);
/* The service is closed: calls for which ripc_call() waits end, the others are forgotten. */
void ripc__calls_end(struct ripc_service *service);

/* Other rooms call these. The sending of the question has ended. */
void ripc__question_ended(struct outgoing *outgoing);
/* The partner refuses the short of this number, as our key lacks the right: was it a question? */
void ripc__short_refused(struct partner *partner, uint64_t number);
/* Does a question to the partner wait for the answer that names this ID? */
bool ripc__call_is_open(const struct partner *partner, uint64_t id);
/* An answer has come from the partner; takes the message. */
void ripc__answer_came(struct partner *partner, struct message *message);
/* The partner is gone, or about to be freed: no answer will come. */
void ripc__calls_lost(struct partner *partner);
/* The application is done with the message that told a failure. */
void ripc__call_told(struct message *message);
/*
 * The application never receives the message that told a failure, as the service is closed:
 * references that would be the application's again are dropped.
 */
void ripc__call_untold(struct message *message);

/* ---- ident ------------------------------------------------------------------------------- */

/* The IDs of open calls, and the partner that a question went to. */

/* ---- reply ------------------------------------------------------------------------------- */

/* Answers to questions. */

/* An answer. */
struct reply {
	const struct iovec *items; /* one at least; an empty answer has one empty item */
	uint32_t n_items, flags;   /* RIPC_GIVE */
	int status;                /* 0, or a negative errno */
};

/* See ripc_reply(). *outgoing: the answer as a long message; NULL: it went as a short one. */
int ripc__reply(struct ripc_service *service, const struct ripc_msg *question,
		const struct reply *reply, struct outgoing **outgoing);

/* ---- spare ------------------------------------------------------------------------------- */

/* Memory for calls. */

/* A call with only the fields that the application's request gives. NULL: no memory. */
void ripc__call_free(struct call *call);
/* The context is closed: frees all calls that are left. */
void ripc__calls_free(struct ripc_context *ctx);

/* The calls of a context. */
struct calls {
	struct list told;          /* their failures are in queues, or with the application */
	struct list spare;
	uint32_t n_spare;
	struct ripc__slots slots;  /* open calls */
	struct watching watching;
};

#endif
