/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that wait for their replies. */
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

struct outgoing;
struct partner;
struct ripc_context;
struct ripc_service;

#define CALLS_MAX 16384u /* open at once, of one service */

enum call_state {
	CALL_ASKING, /* the request is being sent: outgoing */
	CALL_ASKED,  /* the partner has the request, or (by_short) it was sent there */
	CALL_PAUSED, /* the request was not delivered, or is idempotent: it is sent again soon */
	CALL_ENDING, /* the end is decided, but the network may still use the caller's memory */
	CALL_ENDED,  /* only where ripc_call() waits */
};

/* A request, until its reply or its failure is reported. */
struct call {
	struct message failure;    /* reported if no reply comes; public is set then */
	struct list node;          /* service->calls; ctx->calls.told */
	struct ripc__timer timer;
	struct message *answer;    /* NULL: none has come */
	struct ripc_service *service;
	struct outgoing *outgoing; /* the request in progress; NULL: not in progress */
	struct partner *partner;   /* CALL_ASKED: the partner that must answer */
	uint64_t id;               /* the ID that the reply names */
	uint64_t to, to_incarnation, cookie;
	uint64_t deadline_us;
	uint64_t heard_us;         /* CALL_ASKED: when the partner was last heard */
	int status;                /* the result to report: 0 or a negative errno */
	enum ripc_outcome asked;
	uint32_t n_items, n_returns, flags;
	uint8_t state;
	bool waiter;               /* ripc_call() waits for the call, and frees it */
	bool by_short;             /* the request was sent as a short: its outcome is unknown */
	bool tried_short;          /* the next attempt is a long message */
	uint64_t short_number;     /* by_short: number of the short, and the outcome before it */
	enum ripc_outcome asked_before;
	bool waited;               /* by_short: SHORT_US have passed, which this path exceeds */
	bool again;                /* CALL_ENDING: the request is sent again instead */
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

/* Other rooms call these. The sending of the request has ended. */
void ripc__request_ended(struct outgoing *outgoing);
/* The partner refuses the short of this number, which may be a request: our key lacks the right. */
void ripc__short_refused(struct partner *partner, uint64_t number);
/* Does a request to the partner wait for the reply that names this ID? */
bool ripc__call_is_open(const struct partner *partner, uint64_t id);
/* A reply has come from the partner; takes the message. */
void ripc__answer_came(struct partner *partner, struct message *message);
/* The partner is gone, or about to be freed: no reply will come. */
void ripc__calls_lost(struct partner *partner);
/* The application is done with the message that reported a failure. */
void ripc__call_told(struct message *message);
/*
 * The service is closed, and the application never receives the message that reports a failure:
 * drops references that the application would have got back.
 */
void ripc__call_untold(struct message *message);

/* ---- reply ------------------------------------------------------------------------------- */

/* Replies to requests. */

/* A reply. */
struct reply {
	const struct iovec *items; /* at least one; an empty reply has one empty item */
	uint32_t n_items, flags;   /* RIPC_GIVE */
	int status;                /* 0, or a negative errno */
};

/* See ripc_reply(). *outgoing: the reply as a long message; NULL: it was sent as a short. */
int ripc__reply(struct ripc_service *service, const struct ripc_msg *request,
		const struct reply *reply, struct outgoing **outgoing);

/* ---- spare ------------------------------------------------------------------------------- */

/* Memory for calls. */

/* Frees a call, or keeps its memory for the next one. */
void ripc__call_free(struct call *call);
/* The context is closed: frees all remaining calls. */
void ripc__calls_free(struct ripc_context *ctx);

/* The calls of a context. */
struct calls {
	struct list told;          /* failures in queues, or with the application */
	struct list spare;
	uint32_t n_spare;
	struct ripc__slots slots;  /* open calls */
	struct watching watching;
};

#endif
