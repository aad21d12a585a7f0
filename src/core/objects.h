/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts and services: the objects that all rooms know. */
#ifndef RIPC_OBJECTS_H
#define RIPC_OBJECTS_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/call/call.h"
#include "core/engine/loop.h"
#include "core/group/group.h"
#include "core/message/message.h"
#include "core/net/env.h"
#include "core/partner/partners.h"
#include "core/peer/devices.h"
#include "core/receive/receives.h"
#include "core/send/sends.h"
#include "ripc/ripc.h"
#include "util/list.h"
#include "util/map.h"
#include "util/system/thread.h"
#include "util/timers.h"

struct askers;
struct partner;
struct ripc__pool;
struct ripc__resolver;
struct ripc_lister;
struct ripc_page;
struct seal;

#define CLOSED_MAX         64u    /* closed services whose time of closing is remembered */
#define QUEUE_MAX          4096u  /* messages in a service's queue */
#define PROCESS_THIS       UINT32_MAX /* the kernel clears the word in a forked child */
#define PROCESS_CLOSED     (UINT32_MAX - 1) /* the context is closed; the old word follows */
#define SERVICES_KEPT      1024u  /* closed services whose memory is kept */

struct ripc_service {
	struct ripc_context *ctx;
	struct list node;          /* ctx->services.all; ctx->services.ended */
	uint64_t id, incarnation, stamp;
	struct list queue;
	uint32_t queued;
	struct ends ends;          /* of awaited sends and calls */
	uint32_t n_incoming;       /* being received */
	uint64_t numbers;          /* all numbers up to this may have been used */
	struct ripc__map partners; /* current partner by ID */
	struct partner *recent;    /* the current partner that was looked up last, or NULL */
	struct ripc_service *concerned; /* next in a list of services that a notice concerns */
	struct askers *askers;	   /* partners that lent us return buffers (partner/claim.c) */
	struct list windows, lent;
	uint64_t windows_posted;
	struct list calls;         /* open calls */
	uint32_t n_calls, n_watches;
	struct list watches, watcher; /* watcher: ctx->calls.watching.services, if it has watches */
	struct ripc__map watched;  /* the same by ID */
	struct ripc__map groups;   /* the joined ones; each value is this service */
	struct ripc__map mcast_out;  /* struct stream by the group that it sends to */
	struct message retry, conflict; /* built-in notices */
	struct ripc__timer yielding; /* the ID is lost: time for messages that still arrive */
	int event_fd;              /* for event loops (message/message.c); -1 until requested */
	bool event_set;            /* event_fd is readable */
	uint32_t n_takers;         /* calls that wait for a message */
	bool draining, publishing, closing;
	bool ended;                /* closed: calls in it return -ESHUTDOWN */
	uint32_t n_waiting;        /* calls that wait in it */
	int publish_status;
	_Atomic uint32_t wakes;    /* ripc_wake()s that have ended no call yet */
};

/* The services of a context. */
struct services {
	struct list all;
	struct list ended;         /* closed, oldest first: calls there return -ESHUTDOWN */
	uint32_t n_ended;
	struct ripc__map by_incarnation, by_id;
	struct closed {
		uint64_t incarnation, closed_us;
	} closed[CLOSED_MAX];      /* our former services, a ring */
	uint32_t n_closed;
	uint64_t closed_floor_us;  /* services neither open nor in the ring were closed by then */
	struct list listers;       /* api/list.c */
	struct ripc_lister *lister; /* the resolver searches for this one; or NULL */
};

/* A context's own state, which no room owns. */
struct self {
	uint8_t secret[16];
	uint64_t counter;          /* of nonces */
	_Atomic uint32_t *process; /* the process that opened it, or PROCESS_THIS: ripc__is_own() */
	bool proves;               /* IDs of senders are proven: an authority grants them */
	char *strings[5], *options; /* of the configuration */
	void *block;               /* the context's memory; NULL: not to be freed */
	struct ripc_page *page;    /* for other processes (show/page.c); NULL: not requested yet */
	int page_fd;
	atomic_bool said_no_memory; /* the lack of memory of pool or system was logged */
};

/* Each room has a struct of its own in here, which the room declares. */
struct ripc_context {
	struct ripc__mutex lock;
	struct ripc_config cfg;    /* strings are our copies */
	struct ripc__env env;
	uint64_t incarnation;
	uint64_t now_us;
	struct loop loop;
	struct peers peers;
	struct partners partners;
	struct messages messages;
	struct sends sends;
	struct receives receives;
	struct calls calls;
	struct groups groups;
	struct services services;
	struct ripc__pool *pool;
	struct ripc__resolver *resolver;
	struct seal *seal;         /* keys (keys/sealed.h); NULL: the context has none */
	struct log log;
	struct self self;
	/* Last, and alone in a page of memory, which may be shown to other processes. */
	_Alignas(64) struct ripc_stats stats;
};

/* Does the context belong to this process? False in a forked child. */
static inline bool ripc__is_own(const struct ripc_context *ctx)
{
	uint32_t process = atomic_load_explicit(ctx->self.process, memory_order_relaxed);

	return __builtin_expect(process == PROCESS_THIS, 1) || process == (uint32_t)getpid();
}

/* Has this process closed the context? Its memory exists while a message or buffer does. */
static inline bool ripc__is_closed(const struct ripc_context *ctx)
{
	uint32_t before;

	if (atomic_load_explicit(ctx->self.process, memory_order_acquire) != PROCESS_CLOSED)
		return false;
	before = atomic_load_explicit(ctx->self.process + 1, memory_order_relaxed);
	return before == PROCESS_THIS || before == (uint32_t)getpid();
}

/* The error of a call in a context that is closed, or that belongs to another process. */
static inline int ripc__refusal(const struct ripc_context *ctx)
{
	return ripc__is_closed(ctx) ? -ESHUTDOWN : -EOWNERDEAD;
}

/* The coarse clock: time in units of 1,024 us; wraps after 50 days. */
static inline uint32_t ripc__now_1024us(const struct ripc_context *ctx)
{
	return (uint32_t)(ctx->now_us >> 10);
}

static inline void ripc__point(struct ripc_context *ctx, const char *name)
{
	if (__builtin_expect(ctx->env.point != NULL, 0))
		ctx->env.point(ctx->env.arg, name);
}

/* A call is going to wait in the service. */
static inline void ripc__service_get(struct ripc_service *service)
{
	service->n_waiting++;
}

/* The call has waited. */
static inline void ripc__service_put(struct ripc_service *service)
{
	service->n_waiting--;
}

#endif
